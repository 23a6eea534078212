"""Wastes that are planted are found, with their lines and words; a clean kernel has none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program
from iosim.kernel import KernelCount, count_kernel, describe_launch, load_kernel

FILE = Path(__file__).with_name("wasteful.py")
SOFTMAX = "docs/examples/softmax.py::softmax"


def invoke(*words: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(program(COMMANDS), ["kernel", *words])


def count(name: str, n: int, more: dict[str, int] | None = None, **constants: int) -> KernelCount:
    """Count one of the wasteful kernels."""
    source, numbers = load_kernel(f"{FILE}::{name}"), {"n": n, **(more or {})}
    return count_kernel(describe_launch(source, "cdiv(n, B)", numbers, {}, constants))


def line_of(text: str) -> int:
    """The line of the file that has a text."""
    return 1 + next(i for i, x in enumerate(FILE.read_text().splitlines()) if text in x)


def test_a_streamed_operand_is_found() -> None:
    found = count("streamed", 1000, D=64, B=64, C=32)
    (one,) = found.repeated
    assert (one.argument, one.line, one.before) == ("q", one.before, one.line)
    assert int(one.line.rpartition(":")[2]) == line_of("x = tl.load(q")
    # 32 iterations read 64 rows of 64 words: all but the first read them again.
    assert (one.words, one.again, one.distinct) == (32 * 4096, 31 * 4096, 4096)
    assert "again in a loop" in str(one)


def test_a_double_load_is_found() -> None:
    found = count("double", 1000, B=64)
    (one,) = found.repeated
    assert int(one.line.rpartition(":")[2]) == line_of("b = tl.load(x + i")
    assert int(one.before.rpartition(":")[2]) == line_of("a = tl.load(x + i")
    assert (one.words, one.again, one.distinct) == (64, 64, 64)
    assert found.words("load") == {"x": 2000}


def test_a_word_twice_in_a_tile_is_found() -> None:
    (one,) = count("folded", 1000, B=64).repeated
    assert (one.words, one.again, one.within) == (64, 32, True)
    assert "twice in one tile" in str(one)


@pytest.mark.parametrize(("n", "m"), [(1000, 64), (1000, 40), (65, 32), (20, 16), (1023, 1)])
def test_a_wrap_at_the_edge_is_found(n: int, m: int) -> None:
    """Rows of the last program, one by one."""
    rows, columns = 64, 32
    found = count("wrapped", n, {"m": m}, D=64, B=rows, C=columns)
    last = n // rows if n % rows else n // rows - 1
    lanes = [(r, c) for r in range(last * rows, (last + 1) * rows) for c in range(m)]
    (one,) = found.wrapped
    assert one.argument == "x"
    assert int(one.line.rpartition(":")[2]) == line_of("acc += tl.sum(tl.load(x + (r % n)")
    assert (one.words, one.extra) == (len(lanes), sum(r >= n for r, _ in lanes))
    assert f"wraps at the edge of x: {one.extra:,} words more than" in str(one)


def test_the_edges_of_a_product_are_said() -> None:
    words = ["docs/examples/matmul.py::matmul", "--grid", "cdiv(M,BM)*cdiv(N,BN)"]
    words += ["--arg", "M=100,N=64,K=40", "--const", "BM=32,BN=32,BK=16,GROUP=2"]
    done = invoke("count", *words)
    # 3 rows of 32 and 4 of the last tile are there; 28 wrap, each 40 words long.
    assert "a: 1,120 words more than the tensor's tile has, of 1,280 in a program" in done.stdout
    assert "edge of b" not in done.stdout
    (one,) = json.loads(invoke("count", *words, "--json").stdout)["wrapped"]
    assert one["extra"] == 1120


@pytest.mark.parametrize(
    ("name", "n", "more"),
    [
        ("wrapped", 1024, {"m": 40, "D": 64, "C": 32}),
        ("rotated", 1000, {}),
        ("channels", 1000, {"C": 100}),
        ("decomposed", 60, {"C": 50}),
        ("clean", 1000, {}),
    ],
)
def test_other_remainders_are_no_wraps(name: str, n: int, more: dict[str, int]) -> None:
    constants = {x: more[x] for x in more if x in "DC" and name == "wrapped"}
    numbers = {x: more[x] for x in more if x not in constants}
    assert count(name, n, numbers, B=64, **constants).wrapped == []


def test_a_clean_kernel_has_none() -> None:
    assert count("clean", 1000, B=64).repeated == []


def test_two_passes_of_a_softmax_are_said() -> None:
    words = ("--grid", "100", "--arg", "columns=1000", "--const", "BLOCK=256")
    done = invoke("count", SOFTMAX, *words)
    assert "1,000 of 1,000 words of x in a program; keeping them takes 1,000 words" in done.stdout
    answer = json.loads(invoke("count", SOFTMAX, *words, "--json").stdout)
    assert answer["load"] == {"x": 200_000}
    assert answer["repeated"][0]["again"] == 1000


def test_tiles_compares_constants() -> None:
    words = ("--grid", "8", "--arg", "columns=1000", "--vary", "BLOCK=128,256,100")
    done = invoke("tiles", SOFTMAX, *words)
    assert done.exit_code == 0, done.output
    assert "BLOCK=100 doesn't run: Triton can't compile this kernel" in done.stdout
    rows = json.loads(invoke("tiles", SOFTMAX, *words, "--json").stdout)
    assert [row["constants"] for row in rows] == [{"BLOCK": n} for n in (128, 256, 100)]
    assert [row.get("front") for row in rows] == [True, False, None]


LAUNCHED = ["count", SOFTMAX, "--grid", "4", "--arg", "columns=100", "--const", "BLOCK=64"]


@pytest.mark.parametrize(
    "words",
    [
        ["--grid", "(4,)", "--arg", "columns=100", "--const", "BLOCK=64"],
        ["--grid", "4,", "--const", "columns=100,BLOCK=64"],
    ],
)
def test_a_launch_is_read_as_python_has_it(words: list[str]) -> None:
    found = [invoke("count", SOFTMAX, *x, "--json").stdout for x in (words, LAUNCHED[2:])]
    assert found[0] == found[1] != ""


def test_a_pattern_of_types_spares_what_has_a_value() -> None:
    done = invoke(*LAUNCHED, "--type", "*=*fp16", "--json")
    assert json.loads(done.stdout)["word_bytes"] == {"x": 2, "y": 2}
    launch = (load_kernel(SOFTMAX), "4", {"columns": 100})
    found = describe_launch(*launch, {"*": "*fp16", "col*": "i64"}, {"BLOCK": 64})
    assert found.types["columns"] == "i64"


def test_an_array_says_its_type(tmp_path: Path) -> None:
    for dtype, size in (("float16", 2), ("float64", 8)):
        np.save(tmp_path / "x.npy", np.zeros(400, dtype))
        done = invoke(*LAUNCHED, "--data", f"x={tmp_path}/x.npy", "--json")
        assert json.loads(done.stdout)["word_bytes"]["x"] == size
    done = invoke(*LAUNCHED, "--data", f"x={tmp_path}/x.npy", "--type", "x=*i32")
    assert "has words of float64" in str(done.exception)


def test_none_is_a_constant_of_any_argument(tmp_path: Path) -> None:
    (tmp_path / "optional.py").write_text(
        "import triton, triton.language as tl\n\n"
        "@triton.jit\n"
        "def one(y, x):\n"
        "    tl.store(y, 1.0 if x is None else tl.load(x))\n"
    )
    place = f"{tmp_path}/optional.py::one"
    for words, count in (((), 2), (("--const", "x=None"), 1)):
        done = invoke("count", place, "--grid", "1", *words, "--json")
        assert len(json.loads(done.stdout)["word_bytes"]) == count


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["count", "nothing.py::f", "--grid", "1"], "there is no file nothing.py"),
        (["count", "docs/examples/softmax.py", "--grid", "1"], "write FILE::FUNCTION"),
        (["count", "docs/examples/softmax.py::soft", "--grid", "1"], "did you mean 'softmax'"),
        (
            ["count", "docs/examples/panels.py::panels", "--grid", "1"],
            "isn't a @triton.jit or @gluon.jit function",
        ),
        (["count", SOFTMAX, "--grid", "1"], "--const BLOCK=64"),
        (["count", SOFTMAX, "--grid", "0", "--const", "BLOCK=64"], "positive integers"),
        (["count", SOFTMAX, "--grid", "rows", "--const", "BLOCK=64"], "--grid 'rows' needs rows"),
        (["count", SOFTMAX, "--grid", "1/2", "--const", "BLOCK=64"], "use numbers, names"),
        (["count", SOFTMAX, "--grid", "(", "--const", "BLOCK=64"], "isn't an expression"),
        (["count", SOFTMAX, "--grid", "1,1,1,1", "--const", "BLOCK=64"], "one to three axes"),
        (["count", SOFTMAX, "--grid", "1", "--const", "BLOCK=64"], "columns, which isn't given"),
        (["count", SOFTMAX, "--grid", "1", "--const", "BLOCK"], "isn't NAME=VALUE"),
        (["count", SOFTMAX, "--grid", "1", "--arg", "columns=x"], "isn't a number"),
        (["count", SOFTMAX, "--grid", "1", "--arg", "rows=4"], "has no argument 'rows'"),
        (["count", SOFTMAX, "--grid", "1", "--type", "z=*fp16"], "no argument is like 'z'"),
        (["count", SOFTMAX, "--grid", "1", "--gpu", "h1000"], "--gpu h1000 isn't known"),
        (["count", SOFTMAX, "--grid", "1", "--gpu", "sm_999"], "--gpu sm_999 isn't known"),
        (
            ["count", SOFTMAX, "--grid", "1", "--type", "x=*float16"],
            "'float16': write fp16",
        ),
        (["count", SOFTMAX, "--grid", "1", "--type", "x=*f16"], "did you mean 'fp16'"),
        ([*LAUNCHED, "--type", "columns=*fp16"], "columns has a value"),
        ([*LAUNCHED, "--type", "x=fp16"], "is a --type wrong?"),
        ([*LAUNCHED, "--data", "x=none.npy"], "save an array with numpy.save()"),
        (["cache", *LAUNCHED[1:], "--bytes", "31"], "at least one line of 32 bytes"),
        (["tiles", SOFTMAX, "--grid", "1"], "has no autotune list"),
        (["tiles", SOFTMAX, "--grid", "1", "--vary", "BLOCK"], "isn't NAME=VALUE,VALUE"),
    ],
)
def test_bad_input_is_one_line(words: list[str], says: str) -> None:
    done = invoke(*words)
    assert done.exit_code, done.output
    assert says in str(done.exception)
    assert "\n" not in str(done.exception)


def test_a_name_that_a_missing_package_would_give_is_said(tmp_path: Path) -> None:
    (tmp_path / "needs.py").write_text(
        "import triton, triton.language as tl\n"
        "from nothing_of_that_name import rsqrt\n\n"
        "@triton.jit\n"
        "def root(x):\n"
        "    tl.store(x, rsqrt(tl.load(x)))\n"
    )
    done = invoke("count", f"{tmp_path}/needs.py::root", "--grid", "1")
    assert "rsqrt is not defined'), since line 2: ModuleNotFoundError" in str(done.exception)
