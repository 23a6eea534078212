"""`iosim profile --expect`: launches of a report beside the sectors of a kernel.

Reports are written here, in the layouts of `ncu --csv`; the bytes of some are those that an H200
counted (`experiments/record_kernels.py`).
"""

from __future__ import annotations

import csv
import functools
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interpreted import import_file, watch_kernel
from test_cli import iosim_, ok
from test_counters import COLLIDE, MERGED, RECORD, SPLIT, WRITES_DIFFER

from iosim.gpu.profiling.kernels import kernels
from iosim.gpu.profiling.reading import read
from iosim.kernel import trace
from iosim.kernel.counters import ComparedBytes, compare_bytes, expect_bytes

pytest.importorskip("triton")

from experiments.record_kernels import COUNTERS, list_cases

READ, WRITTEN = COUNTERS["read_bytes"], COUNTERS["write_bytes"]
DRAM = "dram__bytes_read.sum"
SPILLED = "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"
BULK = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"
REPORT, PROGRAM = "experiments/data/gpu/profile/h200", "docs/examples/profiled_kernels.py"
CORPUS = Path(__file__).parent / "corpus"
Launch = tuple[str, tuple[int, ...] | None, dict[str, int]]


def write_csv(path: Path, *rows: list[str]) -> Path:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    path.write_text(out.getvalue())
    return path


def write_raw(folder: Path, *launches: Launch, capability: str = "9.0") -> Path:
    """The raw page: kernel, grid and counters of each launch."""
    names = list(launches[0][2])
    units = ["sector" if "sectors" in x else "byte" for x in names]
    rows = [["ID", "Kernel Name", "Block Size", "Grid Size", "CC", *names], [""] * 5 + units]
    for kernel, grid, counters in launches:
        sizes = "n/a" if grid is None else str((*grid, 1, 1)[:3])
        place = ["0", kernel, "(128, 1, 1)", sizes, capability]
        rows.append([*place, *(f"{counters[x]:,}" for x in names)])
    return write_csv(folder / "raw.csv", *rows)


def write_details(
    folder: Path, kernel: str, cells: dict[str, tuple[str, str]], grid: int = 100
) -> Path:
    """The details page of one launch: counter → unit and value."""
    head = ["ID", "Kernel Name", "Block Size", "Grid Size"]
    place = ["0", kernel, "(128, 1, 1)", f"({grid}, 1, 1)"]
    rows = [[*place, name, unit, value] for name, (unit, value) in cells.items()]
    named = [*head, "Metric Name", "Metric Unit", "Metric Value"]
    return write_csv(folder / "details.csv", named, *rows)


@functools.cache
def recorded() -> dict[str, tuple[Any, tuple[int, ...], dict[str, Any]]]:
    """Launch of the record → its kernel, grid and arguments."""
    return {name: (kernel, grid, more) for name, kernel, grid, more in list_cases()}


def compare_recorded(folder: Path, name: str) -> dict[str, ComparedBytes]:
    """What an H200 counted of a launch, as a report, compared."""
    kernel, grid, arguments = recorded()[name]
    expected = expect_bytes(trace(kernel).describe(grid, (), arguments))
    measured = json.loads(RECORD.read_text())["launches"][name]
    counted = {counter: measured[key] for key, counter in COUNTERS.items()}
    (found,) = kernels(read(write_raw(folder, (expected.kernel, grid, counted))))
    assert (found.short, found.grid) == (expected.kernel, expected.grid)
    return {row.what: row for row in compare_bytes(expected, found)}


@pytest.mark.parametrize(
    "name",
    [
        "product 1024 x 1024 x 1024",
        "attention 1024 x 64 causal",
        "attention 1000 x 64 dense",
        "softmax 1000 x 1000",
        "elementwise scale_in_place 0",
        "matmul matmul_persistent 1",
        "attention backward_dq 0",
    ],
)
def test_stores_of_an_h200_are_exactly_sectors(name: str, tmp_path: Path) -> None:
    rows = compare_recorded(tmp_path, name)
    stores, loads = rows["stores and atomics"], rows["loads"]
    assert stores.measured == stores.expected > 0
    assert stores.says == "exactly the expected bytes"
    assert loads.unexplained == 0
    if name.startswith(("product", "attention 1")):
        assert loads.says == "exactly the sectors of tiles"
    assert rows["reads"].measured is None
    assert rows["reads"].says == f"not measured: the report lacks {DRAM}"


@pytest.mark.parametrize(
    ("name", "sectors", "more", "reason"),
    [
        ("softmax 333 x 777", 1_072_224, True, SPLIT),
        ("elementwise interleave 0", 384, False, MERGED),
        ("steering histogram 0", 704, False, COLLIDE),
    ],
)
def test_exceptions_have_their_reason(
    name: str, sectors: int, more: bool, reason: str, tmp_path: Path
) -> None:
    assert WRITES_DIFFER[name] == reason
    stores = compare_recorded(tmp_path, name)["stores and atomics"]
    measured = json.loads(RECORD.read_text())["launches"][name]["write_bytes"]
    assert (stores.expected, stores.measured) == (sectors, measured)
    assert stores.unexplained == 0
    if reason == COLLIDE:
        assert stores.says == "exactly the expected bytes"
        return
    assert f"{abs(measured - sectors):,} bytes" in stores.says
    way = "more" if more else "fewer"
    assert f"{way} than the expected bytes: L1 merges stores that follow each" in stores.says
    assert stores.least <= measured <= stores.most


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("elementwise", "add"),
        ("elementwise", "scale_in_place"),
        ("elementwise", "interleave"),
        ("matmul", "matmul_split"),
        ("attention", "decode_split"),
        ("steering", "histogram"),
        ("steering", "add_rows"),
    ],
)
def test_the_least_read_is_of_sectors_that_the_interpreter_saw(topic: str, name: str) -> None:
    file = CORPUS / f"{topic}.py"
    module = import_file(file)
    for seed in range(3):
        random = np.random.default_rng([seed, len(name)])
        grid, arguments = getattr(module, f"launch_{name}")(random)
        found = expect_bytes(trace(getattr(module, name)).describe(grid, (), arguments))
        touched: dict[bool, set[tuple[str, int]]] = {False: set(), True: set()}
        for (kind, argument), words in watch_kernel(file, name, grid, arguments).words.items():
            width = arguments[argument].itemsize
            touched[kind == "store"] |= {(argument, word * width // 32) for word in words}
        assert found.distinct == 32 * len(touched[False] - touched[True])


# 100 rows of 1,000 words, read twice and written once: 4,000 bytes are 125 sectors.
ROWS = 400_000
TYPED = (
    *("--expect", "docs/examples/softmax.py::softmax", "--grid", "100"),
    *("--arg", "columns=1000", "--const", "BLOCK=256", "--type", "x=*fp32,y=*fp32"),
)


def profile(report: Path, *more: str) -> list[str]:
    return ok("profile", str(report), *TYPED, *more).splitlines()


def test_every_layout_gives_the_same_lines(tmp_path: Path) -> None:
    counted = {READ: 2 * ROWS - 320, WRITTEN: ROWS, DRAM: ROWS + 64}
    lines = profile(write_raw(tmp_path, ("softmax", (100,), counted)))
    cells = {name: ("byte", f"{n:,}") for name, n in counted.items()}
    assert profile(write_details(tmp_path, "softmax", cells)) == lines
    assert lines[0].startswith("softmax: 100 programs, 100 x 1 x 1; bytes of a launch")
    assert lines[2] == "1. softmax, grid (100, 1, 1), block (128, 1, 1), 1 launch"
    assert lines[-3:] == [
        "SM↔L2, stores and atomics: exactly the expected bytes",
        "SM↔L2, loads: 320 bytes (0.0%) fewer than the sectors of tiles: L1 kept them",
        "L2↔DRAM, reads: 64 bytes (0.0%) more than the distinct sectors: DRAM delivers the rest of "
        "a line, or again what L2 gave up",
    ]


def test_rounded_values_are_called_so(tmp_path: Path) -> None:
    cells = {WRITTEN: ("Kbyte", "400.1"), READ: ("byte", "800,000"), DRAM: ("byte", "0")}
    *_, stores, loads, reads = profile(write_details(tmp_path, "softmax", cells))
    assert "100 bytes (0.0%) more than the expected bytes: unexplained" in stores
    assert stores.endswith("values are rounded: save it with --print-units base")
    assert loads.endswith("exactly the sectors of tiles")
    assert "400,000 bytes (100.0%) fewer than the distinct sectors: unexplained" in reads
    assert "L2 held some before the launch (ncu --cache-control none)" in reads


def test_json_has_what_is_unexplained(tmp_path: Path) -> None:
    first = {READ: 2 * ROWS, WRITTEN: ROWS, DRAM: ROWS}
    other = {READ: 2 * ROWS + 32, WRITTEN: ROWS + 32, DRAM: ROWS}
    launches = [("softmax", (100,), x) for x in (other, first, first)]
    text = "\n".join(profile(write_raw(tmp_path, *launches), "--json"))
    best, worst = json.loads(text)
    assert (best["launches"], worst["launches"]) == (2, 1)
    assert [row["unexplained"] for row in best["rows"]] == [0, 0, 0]
    assert [row["unexplained"] for row in worst["rows"]] == [32, 32, 0]
    assert [row["relation"] for row in best["rows"]] == ["equal", "at most", "at least"]
    assert best["grid"] == [100, 1, 1]


def test_spilled_registers_and_bulk_copies_are_told_apart(tmp_path: Path) -> None:
    counted = {READ: 2 * ROWS + 96, WRITTEN: ROWS + 64, DRAM: ROWS, SPILLED: 2, BULK: 96}
    *_, stores, loads, reads = profile(write_raw(tmp_path, ("softmax", (100,), counted)))
    assert stores.endswith("exactly the expected bytes and 64 bytes of spilled registers")
    assert "bulk copies (TMA) count whole boxes" in loads
    assert reads.endswith("exactly the distinct sectors")


def test_launches_are_chosen_by_name_and_grid(tmp_path: Path) -> None:
    counted = {READ: 2 * ROWS, WRITTEN: ROWS, DRAM: ROWS}
    both = write_raw(tmp_path, ("softmax", (100,), counted), ("softmax", (7, 2), counted))
    done = iosim_("profile", str(both), *TYPED)
    assert done.stderr == (
        "iosim: note: launches with grid (7, 2, 1) are left out: --grid is (100, 1, 1)\n"
    )
    unsaid = iosim_("profile", str(write_raw(tmp_path, ("softmax", None, counted))), *TYPED)
    assert "the report doesn't say the grid: (100, 1, 1) is taken" in unsaid.stderr
    renamed = write_raw(tmp_path, ("softmax_2", (100,), counted), ("other", (100,), counted))
    assert profile(renamed, "--kernel", "softmax")[-1].endswith("exactly the distinct sectors")


@pytest.mark.parametrize(
    ("kernel", "words", "says"),
    [
        (
            "softmax",
            ("--grid", "64"),
            "has softmax with grid (100, 1, 1), and --grid is (64, 1, 1)",
        ),
        ("mine", (), "no launch is called softmax: choose one with --kernel REGEX; there are mine"),
        ("softmax", ("--arg", "rows=3"), "softmax has no argument 'rows'"),
        ("softmax", ("--const", "BLOCK"), "--const 'BLOCK' isn't NAME=VALUE"),
        ("softmax", ("--grid", "rows"), "--grid 'rows' needs rows"),
        ("softmax", ("--data", "x=none.npy"), "none.npy"),
        ("softmax", ("--desc", "x=[1]"), "--desc x needs a type"),
        ("softmax", ("--expect", "none.py::f"), "none.py"),
        ("softmax", ("--expect", f"{PROGRAM}::none"), "has no function 'none'"),
        ("softmax", ("--schedule", "flash2"), "are two comparisons: give one"),
        ("softmax", ("--N", "4"), "--N is of --schedule: name one"),
    ],
)
def test_what_cannot_be_is_one_line(
    kernel: str, words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    counted = {READ: 2 * ROWS, WRITTEN: ROWS}
    report = write_raw(tmp_path, (kernel, (100,), counted))
    done = iosim_("profile", str(report), *TYPED, *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert says in done.stderr


# A kernel that stores twice as much on a GPU that is new enough.
ASKS = """
import triton
import triton.language as tl
from triton.language.target_info import cuda_capability_geq

@triton.jit
def asks(x, y, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + at)
    tl.store(y + at, v)
    if cuda_capability_geq(9):
        tl.store(y + tl.num_programs(0) * B + at, v)
"""


def test_the_architecture_is_that_of_the_report(tmp_path: Path) -> None:
    (file := tmp_path / "asks.py").write_text(ASKS)
    typed = ("--expect", f"{file}::asks", "--grid", "4", "--const", "B=64", "--type", "*=*fp32")
    counted = {READ: 1024, WRITTEN: 1024, DRAM: 1024}

    def find_unexplained(report: Path, *more: str) -> tuple[int, str]:
        done = iosim_("profile", str(report), *typed, *more, "--json")
        (found,) = json.loads(done.stdout)
        return found["rows"][0]["unexplained"], done.stderr

    assert find_unexplained(write_raw(tmp_path, ("asks", (4,), counted), capability="8.0")) == (
        0,
        "",
    )
    new = write_raw(tmp_path, ("asks", (4,), counted))
    assert find_unexplained(new) == (-1024, "")
    major, minor = (f"device__attribute_compute_capability_{x}" for x in ("major", "minor"))
    cells = {name: ("byte", str(n)) for name, n in counted.items()}
    unsaid = write_details(tmp_path, "asks", cells, grid=4)
    says = "iosim: note: the report names no GPU that is known: counted for sm_90\n"
    assert find_unexplained(unsaid) == (-1024, says)
    assert find_unexplained(unsaid, "--machine", "a100") == (0, "")
    cells |= {major: ("", "8"), minor: ("", "6")}
    assert find_unexplained(write_details(tmp_path, "asks", cells, grid=4)) == (0, "")


def test_options_of_a_launch_need_a_kernel() -> None:
    for words in (("--grid", "1"), ("--arg", "n=1"), ("--schedule", "flash2", "--const", "B=1")):
        done = iosim_("profile", REPORT, *words)
        option = next(x for x in words if x in ("--grid", "--arg", "--const"))
        assert done.stderr == f"iosim: {option} needs a kernel: give --expect FILE::FUNCTION\n"
    done = iosim_("profile", REPORT, "--expect", f"{PROGRAM}::one_block_kernel")
    assert done.stderr.startswith("iosim: --expect FILE::FUNCTION needs --grid, like --grid")


def test_the_old_meaning_of_the_option_is_said() -> None:
    sizes = ("--N", "4096", "--d", "64", "--heads", "8")
    done = iosim_("profile", REPORT, "--expect", "flash2", *sizes)
    assert "--expect is now called --schedule" in done.stderr
    assert done.stdout == ok("profile", REPORT, "--schedule", "flash2", *sizes)


# Kernels of the program that an H200 ran: grid, arguments and constants; bytes stored, and the most
# loaded, by hand.
N = 4096
TILES = "BM=128,BN=128,BK=64,GROUP=8"
PRODUCT = "1024", f"M={N},N={N},K={N}", TILES, "A,B,C"
SPILLING = "132", "K=1024", "BM=128,BN=256,BK=32", "A,B"
RAN = {
    "matmul_kernel": (*PRODUCT, 2 * N * N, 2 * N * N * N // 128 * 2),
    "one_block_kernel": ("1", "n=2**20", "B=1024", "", 4 * 1024, 4 * 2**20),
    "reduction_kernel": ("4096", "n=4096", "B=1024", "", 4 * 2**22, 2 * 4 * 2**22),
    "polynomial_kernel": ("4096", "steps=4096", "B=1024", "", 4 * 2**22, 4 * 2**22),
    "spilling_kernel": (*SPILLING, 4 * 132 * 128 * 256, 2 * 1024 * 132 * (128 + 256)),
}


@pytest.mark.parametrize("name", RAN)
def test_kernels_of_a_recorded_program_are_explained(name: str) -> None:
    grid, arguments, constants, halves, stored, loaded = RAN[name]
    types = [word for x in halves.split(",") if x for word in ("--type", f"{x}=*fp16")]
    launch = ("--grid", grid, "--arg", arguments, "--const", constants, *types)
    text = ok("profile", REPORT, "--expect", f"{PROGRAM}::{name}", *launch, "--json")
    (found,) = json.loads(text)
    stores, loads, reads = found["rows"]
    assert [row["unexplained"] for row in found["rows"]] == [0, 0, 0]
    assert (stores["expected"], loads["expected"]) == (stored, loaded)
    assert stores["measured"] == stored + stores["spilled"]
    assert (stores["spilled"] > 0) == (name == "spilling_kernel")
    assert 0 < reads["expected"] <= reads["measured"]
