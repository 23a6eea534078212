"""Formulas of the corpus' kernels: at every size they are what evaluating the kernel counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from sizes import draws
from test_corpus import CORPUS, compiled, draw_launch, kernels, read

from iosim.base.errors import InputError
from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program
from iosim.core.counting.symbols import _number
from iosim.kernel import count_kernel, derive_formula, describe_launch, evaluate, load_kernel, trace
from iosim.kernel.closing import NoClosedForm
from iosim.kernel.formula import KernelFormula
from iosim.kernel.launch import KernelCall
from iosim.kernel.linear import LinearSum, NamedSizes
from iosim.kernel.sweep import sweep_kernel

# The grid of each kernel that has formulas; x, y, z are how many programs the launch has there.
GRIDS = {
    "backward_dq": "cdiv(N, 32), y",
    "decode": "x, y",
    "linear_attention": "x",
    "matmul_described": "cdiv(M, 32), cdiv(N, 16)",
    "matmul_given": "cdiv(M, 32), cdiv(N, 16)",
    "attention_described": "cdiv(N, 32), y",
    "halo": "cdiv(rows, 16), y",
    "add": "cdiv(n, 64)",
    "scale_in_place": "cdiv(columns, 32), cdiv(rows, 8)",
    "dropout_later": "cdiv(n, 64)",
    "grid_stride": "x",
    "unrolled": "cdiv(n, 16)",
    "masked_by_product": "cdiv(rows, 8), cdiv(columns, 16)",
    "row_by_row": "cdiv(columns, 16), cdiv(rows, 8)",
    "in_stages": "cdiv(n, 16 * num_stages)",
    "calls": "cdiv(n, 16)",
    "doubled": "x",
    "switches": "cdiv(n, 32)",
    "tuned": "cdiv(n, 32)",
    "window": "cdiv(n, 32)",
    "by_exponent": "cdiv(n, 64)",
    "matmul": "cdiv(M, 32), cdiv(N, 16)",
    "matmul_wrapped": "cdiv(M, 16)*cdiv(N, 16)",
    "matmul_split": "cdiv(M, 16), cdiv(N, 16), SPLIT",
    "matmul_batched": "cdiv(M, 16), cdiv(N, 16), z",
    "matmul_persistent": "x",
    "matmul_int8": "cdiv(M, 32), cdiv(N, 32)",
    "matmul_int4": "cdiv(M, 16), cdiv(N, 16)",
    "softmax_whole": "x",
    "softmax_online": "x",
    "layer_norm": "x",
    "layer_norm_backward": "x",
    "rms_norm": "cdiv(rows, 4)",
    "rms_norm_backward": "x",
    "gather_rows": "x, y",
    "rope": "x",
    "best_expert": "x",
    "top_experts": "x",
    "histogram": "cdiv(n, 64)",
    "cumulative_sum": "cdiv(rows, 4)",
    "recurrence": "x",
    "resize_nearest": "x, y",
    "swap_words": "cdiv(n, 32)",
    "backwards": "x",
}
# Why others have none.
REFUSED = {
    "attention": "a loop whose bound is ⌊(M + 32*x.start - N)/16⌋",
    "backward_dkdv": "a loop whose bound is ⌊(16*x.start)/32⌋",
    "decode_split": "a condition: data",
    "combine": "arith.divsi by data of",
    "decode_paged": "a loop whose bound is data",
    "ragged": "a condition: data",
    "sliding": "a condition: arith.ori",
    "rows_of_descriptor": "rows that data name",
    "dropout": "a mask: arith.cmpf",
    "early_return": "a condition: a remainder",
    "strided_while": "a loop that ends by a condition",
    "pick_tensor": "an address: a value that a condition chooses",
    "interleave": "a mask: tt.join",
    "two_edges": "a mask that compares two axes of a tile",
    "matmul_grouped": "a loop that ends by a condition",
    "matmul_stream": "a loop that ends by a condition",
    "convolve": "a mask: arith.remsi by P",
    "scatter_rows": "a mask: data",
    "add_rows": "a mask: data",
    "embedding": "a condition: data",
    "cross_entropy": "a condition: data",
    "compact": "a mask: a comparison",
    "binary_search": "a loop that ends by a condition",
    "skip_blocks": "a condition: arith.cmpf",
    "addressed_groups": "an address: tt.int_to_ptr",
    "masked_by_tensor": "an address: tt.bitcast",
    "by_rank": "a mask: arith.xori",
    "shuffles": "a mask: a tile that is laid out again",
    "largest_magnitude": "an address: tt.bitcast",
    "ragged_end": "a loop whose bound is data",
}


def named(table: dict[str, str]) -> list[Any]:
    return [p for p in kernels() if p.values[1] in table]


def describe(file: Path, name: str, seed: int, text: str) -> KernelCall:
    grid, arguments = draw_launch(file, name, seed)
    launcher = trace(getattr(compiled(file), name))
    call = launcher.describe(grid, (), {k: read(v) for k, v in arguments.items()})
    call.grid_text = text
    call.values |= dict(zip("xyz", call.grid, strict=True))
    return call


def count_by(formula: KernelFormula, call: KernelCall) -> dict[tuple[str, str], int]:
    known = {**call.values, **call.constants}
    words = formula.count_many({name: known[name] for name in formula.sizes})
    return {key: int(n) for key, n in words.items() if n}


def count(call: KernelCall) -> dict[tuple[str, str], int]:
    traffic = count_kernel(call, reuse=False).traffic
    return {key: t.words for key, t in traffic.items() if t.words}


def test_every_kernel_is_in_one_of_the_tables() -> None:
    names = {p.values[1] for p in kernels() if p.values[0].stem != "block_pointers"}
    assert names == GRIDS.keys() | REFUSED.keys()
    assert not GRIDS.keys() & REFUSED.keys()


@pytest.mark.numbers
@pytest.mark.parametrize(("file", "name"), named(GRIDS))
def test_a_formula_is_what_evaluating_counts(file: Path, name: str) -> None:
    # Constants, and sizes that are 1, are compiled in; at all other sizes one formula holds.
    formulas: dict[str, KernelFormula] = {}
    for seed in range(draws(30, 4)):
        call = describe(file, name, seed, GRIDS[name])
        kind = repr((call.constants, call.descriptors, call.types))
        formula = formulas.setdefault(kind, derive_formula(call))
        assert count_by(formula, call) == count(call), call.values


@pytest.mark.parametrize(("file", "name"), named(REFUSED))
def test_a_kernel_without_formulas_says_why(file: Path, name: str) -> None:
    with pytest.raises(NoClosedForm) as seen:
        derive_formula(describe(file, name, 0, "x, y, z"))
    assert REFUSED[name] in str(seen.value)


def softmax(columns: int) -> KernelCall:
    kernel = load_kernel("docs/examples/softmax.py::softmax")
    return describe_launch(kernel, "8", {"columns": columns}, {}, {"BLOCK": 64})


def test_many_sizes_are_counted_at_once() -> None:
    sizes = np.array([2, 63, 64, 65, 1000, 2**20])
    words = derive_formula(softmax(100)).count_many({"columns": sizes})
    assert words["load", "x"].tolist() == (16 * sizes).tolist()
    assert words["store", "y"].tolist() == (8 * sizes).tolist()


def test_a_grid_of_numbers_is_as_it_is() -> None:
    file, name = next(p.values for p in kernels() if p.values[1] == "add")
    call = describe(file, name, 0, "")
    assert count_by(derive_formula(call), call) == count(call)


def test_an_unknown_size_is_refused() -> None:
    with pytest.raises(InputError, match="columns"):
        derive_formula(softmax(100)).count_many({})


def test_a_grid_that_is_no_product_is_refused() -> None:
    call = softmax(100)
    call.grid_text = "columns + 1"
    with pytest.raises(NoClosedForm, match=r"columns \+ 1 is no product of sizes and cdiv"):
        derive_formula(call)


def test_expressions_have_the_value_of_the_arrays() -> None:
    kernel = load_kernel("docs/examples/attention.py::attention")
    constants = {"D": 64, "BR": 64, "BC": 128, "CAUSAL": True}
    formula = derive_formula(describe_launch(kernel, "cdiv(N, BR), 8", {"N": 1000}, {}, constants))
    for key, words in formula.words().items():
        (symbol,) = words.free_symbols
        for n in (37, 128, 300):
            assert _number(words, {symbol: n}) == formula.count_many({"N": n})[key]


def test_sizes_that_follow_are_named_once() -> None:
    sizes = NamedSizes()
    tiles = sizes.divide("ceil", LinearSum.of("N"), 16)
    half = sizes.divide("floor", tiles + LinearSum.of(1), 2)
    assert sizes.divide("ceil", LinearSum.of("N"), 16) == tiles
    values = sizes.values({"N": np.array([1, 40])})
    assert values[str(half)].tolist() == [1, 2]
    assert sizes.tiled(tiles) == ("N", 16)
    assert sizes.tiled(half) is None


def test_a_sweep_is_each_point_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = load_kernel("docs/examples/softmax.py::softmax")

    def launch(sizes: Any, constants: Any) -> KernelCall:
        return describe_launch(kernel, "8", sizes, {}, constants)

    found = sweep_kernel(launch, {"columns": [1, 2, 70]}, {"BLOCK": [16, 64]})
    assert not found.remarks
    assert len(found.table.rows) == 6
    for row in found.table.rows:
        call = launch({"columns": row["columns"]}, {"BLOCK": row["BLOCK"]})
        assert {k: row[f"{k[0]} {k[1]}"] for k in count(call)} == count(call)


def test_a_sweep_without_formulas_says_so() -> None:
    path = CORPUS / "elementwise.py"

    def launch(sizes: Any, constants: Any) -> KernelCall:
        kernel = load_kernel(f"{path}::early_return")
        return describe_launch(kernel, "20", sizes, {}, {"BLOCK": 32, **constants})

    found = sweep_kernel(launch, {"n": [10, 100]}, {})
    assert [row["load x"] for row in found.table.rows] == [10, 100]
    assert "no formula, so each point is evaluated" in found.remarks[0]


def test_a_grid_of_more_programs_than_an_array_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load_kernel("docs/examples/softmax.py::softmax")
    call = describe_launch(kernel, "1000", {"columns": 70}, {}, {"BLOCK": 64})
    whole = count(call)
    opened: list[int] = []
    ids = evaluate.open_grid

    def watch(origin: Any, shape: Any) -> Any:
        opened.append(max(shape))
        return ids(origin, shape)

    monkeypatch.setattr(evaluate, "open_grid", watch)
    monkeypatch.setattr(evaluate, "MOST", 256)
    assert count(call) == whole
    assert max(opened) <= 256


def test_a_name_that_varies_twice_is_refused() -> None:
    words = [
        "kernel",
        "sweep",
        "docs/examples/softmax.py::softmax",
        "--grid",
        "8",
        "--const",
        "BLOCK=64",
    ]
    varied = ["--vary", "columns=8", "--vary", "columns=9"]
    done = CliRunner().invoke(program(COMMANDS), [*words, *varied])
    assert isinstance(done.exception, InputError)
    assert str(done.exception) == "--vary columns is given twice: give all of its values in one"


SOME = """
import triton
import triton.language as tl

@triton.jit
def every_nth(y, x, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at % n == 0), mask=at % n == 0)
"""


def test_a_sweep_with_formulas_at_some_sizes_has_each_point_once(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text(SOME)
    kernel = load_kernel(f"{tmp_path}/some.py::every_nth")

    def launch(sizes: Any, constants: Any) -> KernelCall:
        return describe_launch(kernel, "2", sizes, {}, {"B": 16, **constants})

    derive_formula(launch({"n": 1}, {}))
    with pytest.raises(NoClosedForm):
        derive_formula(launch({"n": 2}, {}))
    rows = sweep_kernel(launch, {"n": [1, 2]}, {}).table.rows
    assert [(row["n"], row["load x"]) for row in rows] == [(1, 32), (2, 16)]


def test_a_notebook_shows_every_formula() -> None:
    attention = load_kernel("docs/examples/attention.py::attention")
    constants = {"D": 64, "BR": 128, "BC": 64, "CAUSAL": False}
    call = describe_launch(attention, "cdiv(N, BR), 8", {"N": 1000}, {}, constants)
    found = derive_formula(call)
    words = {(kind, name): str(x) for (kind, name), x in found.words().items()}
    rows = found.table().rows
    assert {(x["reference"], x["argument"]): x["words"] for x in rows} == words
    source = found._repr_html_()
    assert "words of attention, by N" in source
    assert all(text in source for text in words.values())
