"""The forecast at L2↔DRAM, against loops and a dictionary of sectors; which sizes are refused."""

from __future__ import annotations

import heapq
import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from iosim.base.errors import InputError
from iosim.cache.shared import paces
from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program
from iosim.kernel import describe_launch, load_kernel
from iosim.kernel.count import lower_call
from iosim.kernel.dram import forecast_dram
from iosim.models.hardware import machine

MATMUL = f"{Path(__file__).with_name('corpus')}/matmul.py::matmul_wrapped"
GRID, B = "cdiv(M,BM)*cdiv(N,BN)", 16
TYPES = {"a": "*fp16", "b": "*fp16", "c": "*fp32"}
MACHINE = """
cores = 2
dram_bytes_per_s = 1e12
capacity_bytes = 1_000_000_000
sram_bytes = 40_000
cache_bytes = 8192
peaks = { fp16 = 1e12 }

"""


class DumbCache:
    """Sectors of 32 bytes in order of use, and whether each is dirty."""

    def __init__(self, sectors: int) -> None:
        self.sectors = sectors
        self.held: dict[tuple[str, int], bool] = {}
        self.reads = self.writes = 0

    def refer(self, words: set[tuple[str, int]], write: bool = False) -> None:
        """A tile's words, by tensor and byte."""
        for at in sorted({(name, byte // 32) for name, byte in words}):
            self.reads += not write and at not in self.held
            self.held[at] = self.held.pop(at, False) or write
            if len(self.held) > self.sectors:
                self.writes += self.held.pop(next(iter(self.held)))


def traffic_by_hand(m: int, n: int, k: int, group: int, resident: int, l2: int) -> tuple[int, int]:
    """Bytes read and written, by loops over waves, steps and programs."""
    down, across = math.ceil(m / B), math.ceil(n / B)
    tiles = []
    for first in range(0, down, group):
        group_rows = range(first, min(first + group, down))
        tiles += [(i, j) for j in range(across) for i in group_rows]
    cache = DumbCache(l2 // 2 // 32)
    for start in range(0, len(tiles), resident):
        wave = tiles[start : start + resident]
        rows_of = [[i * B + x for x in range(B)] for i, _ in wave]
        columns_of = [[j * B + x for x in range(B)] for _, j in wave]
        for step in range(0, k, B):
            inner = range(step, min(step + B, k))
            for rows in rows_of:
                cache.refer({("a", (r % m * k + x) * 2) for r in rows for x in inner})
            for columns in columns_of:
                cache.refer({("b", (x * n + c % n) * 2) for c in columns for x in inner})
        for rows, columns in zip(rows_of, columns_of, strict=True):
            kept = {("c", (r * n + c) * 4) for r in rows for c in columns if r < m and c < n}
            cache.refer(kept, write=True)
    return cache.reads * 32, (cache.writes + sum(cache.held.values())) * 32


@pytest.mark.parametrize(
    ("m", "n", "k", "line"), [(64, 96, 64, 32), (70, 50, 33, 32), (16, 200, 48, 32)]
)
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize(("resident", "l2"), [(1, 2048), (5, 8192), (5, 2**20)])
def test_the_forecast_is_that_of_loops(
    m: int, n: int, k: int, line: int, group: int, resident: int, l2: int
) -> None:
    constants = {"BM": B, "BN": B, "BK": B, "GROUP_SIZE_M": group}
    call = describe_launch(load_kernel(MATMUL), GRID, {"M": m, "N": n, "K": k}, TYPES, constants)
    found = forecast_dram(lower_call(call), call.to_evaluate(), resident, l2)
    assert (found.reads, found.writes) == traffic_by_hand(m, n, k, group, resident, l2)
    assert found.line == line


def list_sectors(m: int, n: int, k: int) -> list[list[tuple[str, int, bool]]]:
    """The sectors that each program refers to one after the other, in groups of one row."""
    found = []
    for i, j in ((i, j) for i in range(math.ceil(m / B)) for j in range(math.ceil(n / B))):
        rows, columns = ([x * B + at for at in range(B)] for x in (i, j))
        mine: list[tuple[str, int, bool]] = []
        for step in range(0, k, B):
            inner = range(step, min(step + B, k))
            a = {(r % m * k + x) * 2 // 32 for r in rows for x in inner}
            b = {(x * n + c % n) * 2 // 32 for c in columns for x in inner}
            mine += [("a", at, False) for at in sorted(a)] + [("b", at, False) for at in sorted(b)]
        c = {(r * n + c) * 4 // 32 for r in rows for c in columns if r < m and c < n}
        found.append(mine + [("c", at, True) for at in sorted(c)])
    return found


@pytest.mark.parametrize(("m", "n", "k"), [(64, 96, 64), (70, 50, 33)])
@pytest.mark.parametrize(("resident", "l2"), [(1, 2048), (5, 8192), (5, 2**20)])
@pytest.mark.parametrize("drift", [0, 15, 1000])
def test_the_range_if_programs_drift_is_that_of_loops(
    m: int, n: int, k: int, resident: int, l2: int, drift: int
) -> None:
    constants = {"BM": B, "BN": B, "BK": B, "GROUP_SIZE_M": 1}
    call = describe_launch(load_kernel(MATMUL), GRID, {"M": m, "N": n, "K": k}, TYPES, constants)
    functions, values = lower_call(call), call.to_evaluate()
    programs = list_sectors(m, n, k)
    # Each program takes its own time for an access, and the next begins where one ends.
    free, events = [0] * resident, []
    for i, (pace, mine) in enumerate(zip(paces(len(programs), drift, 7), programs, strict=True)):
        begin = heapq.heappop(free)
        heapq.heappush(free, begin + 2 * int(pace) * len(mine))
        events += [(begin + (2 * t + 1) * int(pace), i, t) for t in range(len(mine))]
    halves, whole = DumbCache(l2 // 2 // 32), DumbCache(l2 // 32)
    for _, i, t in sorted(events):
        name, at, write = programs[i][t]
        for cache in (halves, whole):
            cache.refer({(name, at * 32)}, write)
    found = forecast_dram(functions, values, resident, l2, drift, 7)
    lockstep = traffic_by_hand(m, n, k, 1, resident, l2)[0]
    assert found.reads == lockstep
    assert found.least == min(lockstep, whole.reads * 32)
    assert found.most == max(lockstep, halves.reads * 32)
    # However they drift: each sector once, or whatever programs load for themselves.
    free_drift = forecast_dram(functions, values, resident, l2)
    loads = [(name, at) for mine in programs for name, at, write in mine if not write]
    once = 32 * len(set(loads))
    assert free_drift.least == once
    assert free_drift.most == (once if l2 == 2**20 else 32 * len(loads))
    assert free_drift.least <= found.least <= found.most <= free_drift.most


@pytest.mark.parametrize("resident", [1, 3])
@pytest.mark.parametrize("l2", [8192, 32768])
def test_long_lines_give_what_sectors_give(resident: int, l2: int) -> None:
    """Rows of 1,024 bytes: tiles of 64 and of 256 words are whole lines of 128 and of 512."""
    softmax = load_kernel("docs/examples/softmax.py::softmax")
    for block, line in ((32, 128), (128, 512)):
        call = describe_launch(softmax, "9", {"columns": 256}, {}, {"BLOCK": block})
        found = forecast_dram(lower_call(call), call.to_evaluate(), resident, l2)
        cache = DumbCache(l2 // 2 // 32)
        for first in range(0, 9, resident):
            wave = range(first, min(first + resident, 9))
            for y in (False, True):
                for start in range(0, 256, block):
                    here = [[(r * 256 + x) * 4 for x in range(start, start + block)] for r in wave]
                    for row in here:
                        cache.refer({("x", at) for at in row})
                    for row in here if y else ():
                        cache.refer({("y", at) for at in row}, write=True)
        assert found.line == line
        assert found.reads == cache.reads * 32
        assert found.writes == (cache.writes + sum(cache.held.values())) * 32


def test_rows_that_begin_within_a_line_are_sectors() -> None:
    """Rows of 64 words, which are 128 bytes, at distances of 160 bytes."""
    constants = {"BM": 16, "BN": 64, "BK": 64, "GROUP_SIZE_M": 1}
    call = describe_launch(load_kernel(MATMUL), "1", {"M": 16, "N": 80, "K": 64}, TYPES, constants)
    found = forecast_dram(lower_call(call), call.to_evaluate(), 1, 2**20)
    assert (found.line, found.reads) == (32, 2 * (16 * 64 + 64 * 64))
    assert found.writes == 4 * 16 * 64


def tiles(*words: str) -> Result:
    """``iosim kernel tiles`` of a product, in some orders."""
    launch = ["--grid", GRID, "--arg", "M=192,N=192,K=64", "--const", "BM=16,BN=16,BK=16"]
    launch += [x for name, kind in TYPES.items() for x in ("--type", f"{name}={kind}")]
    vary = ["--vary", "GROUP_SIZE_M=1,4"]
    return CliRunner().invoke(
        program(COMMANDS), ["kernel", "tiles", MATMUL, *launch, *vary, *words]
    )


def test_orders_of_programs_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with a small L2; and why there is no forecast."""
    file = tmp_path / "small.toml"
    file.write_text(MACHINE)
    words = ["--machine", str(file), "--gpu", "sm_90"]
    done = tiles(*words, "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    for row in rows:
        group = row["constants"]["GROUP_SIZE_M"]
        resident = 2 * row["resident"]
        by_hand = traffic_by_hand(192, 192, 64, group, resident, 8192)
        assert (row["dram"]["reads"], row["dram"]["writes"]) == by_hand
        assert row["dram"]["resident"] == resident
    first, second = (sum(row["dram"][x] for x in ("reads", "writes")) for row in rows)
    assert first < second
    assert [row["front"] for row in rows] == [True, False]
    text = tiles(*words).stdout
    assert "dram_bytes" in text
    assert f"{first:,}" in text
    monkeypatch.setattr("iosim.kernel.stream.MOST_ACCESSES", 100)
    refused = tiles(*words).stdout
    assert "GROUP_SIZE_M=1 has no dram_bytes: " in refused
    assert "lines of 32 bytes are more than 100" in refused


def test_a_machine_has_to_be_a_gpu_with_an_l2(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text(MACHINE)
    done = tiles("--machine", str(file))
    assert isinstance(done.exception, InputError)
    assert "give --gpu as well, like sm_90" in str(done.exception)


ORDERS = Path("experiments/data/gpu/h200/kernels/orders.json")


@pytest.mark.numbers
def test_orders_of_a_product_compare_as_an_h200_measured_them() -> None:
    measured = json.loads(ORDERS.read_text())["launches"]
    h200, kernel = machine("h200"), load_kernel("docs/examples/matmul.py::matmul")
    assert h200.cache_bytes is not None
    forecasts, seen = {}, {}
    for group in (1, 16, 64):
        tiles = {"BM": 128, "BN": 256, "BK": 64, "GROUP": group}
        types = dict.fromkeys("abc", "*fp16")
        call = describe_launch(kernel, GRID, {"M": 4096, "N": 8192, "K": 2048}, types, tiles)
        found = forecast_dram(lower_call(call), call.to_evaluate(), h200.cores, h200.cache_bytes)
        row = measured[f"4096 x 8192 x 2048 in groups of {group}"]
        forecasts[group] = found.bytes
        seen[group] = row["dram_read_bytes"] + row["dram_write_bytes"]
        assert row["read_bytes"] == 1_610_612_736  # the words of the loads, in any order
        assert abs(found.bytes / seen[group] - 1) < 0.12
        assert found.least <= row["dram_read_bytes"] <= found.most
    assert sorted(forecasts, key=forecasts.__getitem__) == sorted(seen, key=seen.__getitem__)
