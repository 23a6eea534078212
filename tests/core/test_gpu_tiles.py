"""Tiles of the rule `gpu`: within M, and with the sums of loops in an SM's registers."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest

import iosim
from iosim.base.errors import CapacityError
from iosim.core.counting.numbers import count, peak
from iosim.core.problem import Attention, AttentionBackward
from iosim.core.program.ir import Alloc
from iosim.core.tiling.gpu import REGISTERS, gpu_tiles
from iosim.gpu.records.record import read_measured

GPUS = Path(__file__).parents[2] / "experiments" / "data" / "gpu"


def _side(extent: int) -> int:
    """Of a block of a kernel: the power of two from 16 on that covers an extent."""
    return max(16, 2 ** math.ceil(math.log2(extent)))


def _sums(algorithm, tiles, sizes):
    """Elements of the block of O that a loop over the keys adds to, by hand; none for one tile."""
    rows, columns, keys = {
        "naive": ("B_r3", "B_d3", "B_c3"),
        "small_cache": ("B_r2", "B_d2", "B_c2"),
        "spill_rows": ("B_r2", "", "B_c2"),  # whole rows of O
    }[algorithm]
    N, d = sizes["N"], sizes["d"]
    if tiles[keys] >= N:
        return []
    return [_side(min(tiles[rows], N)) * _side(min(tiles.get(columns, d), d))]


@pytest.mark.parametrize("d", [64, 80, 128, 160, 195])
@pytest.mark.parametrize("algorithm", ["naive", "small_cache", "spill_rows"])
def test_a_sum_of_a_loop_leaves_registers_for_others(algorithm, d):
    """At d 160, M 60,000 sums of 256 × 256 words were chosen, for which no kernel was compiled."""
    program = iosim.algorithm(algorithm).program
    for N, M in itertools.product((215, 1024, 4096), (20_000, 36_000, 60_000, 65_536)):
        problem = Attention(N, d, heads=2)
        tiles = gpu_tiles(program, problem, M).tiles
        assert max(_sums(algorithm, tiles, problem.sizes), default=0) < REGISTERS
        assert peak(iosim.bind(program, problem.sizes, tiles)) <= M


@pytest.mark.parametrize("M", [30_000, 60_000])
def test_they_move_the_fewest_words_of_all_that_do(M):
    """Tried one by one: the second product of `spill_rows`, whose first is as it was."""
    program, problem = iosim.algorithm("spill_rows").program, Attention(300, 160, heads=1)
    found = gpu_tiles(program, problem, M)
    sides = (16, 32, 64, 128, 256, 512)
    least = min(
        count(one).total_words
        for B_d2, B_r2, B_c2 in itertools.product(sides, repeat=3)
        for tiles in [found.tiles | {"B_d2": B_d2, "B_r2": B_r2, "B_c2": B_c2}]
        for one in [iosim.bind(program, problem.sizes, tiles)]
        if peak(one) <= M and max(_sums("spill_rows", tiles, problem.sizes), default=0) < REGISTERS
    )
    assert found.total_words == least


def test_what_no_gpu_compiled_is_no_longer_chosen():
    """The programs of the records that were too large for the chip, with the tiles of today."""
    failed = 0
    for folder in sorted(GPUS.glob("h*/validate-drawn-*")):
        jobs, rows = read_measured(folder)
        for job, row in zip(jobs, rows, strict=True):
            if "is too large for the chip" not in row.failed:
                continue
            failed += 1
            today = gpu_tiles(job.instance.program, job.problem, job.M).tiles
            sums = [x for x in job.tiles if today[x] != job.tiles[x]]
            assert sums, (job.algorithm, job.sizes)
    assert failed == 14


def test_several_nests_are_each_as_small_as_they_have_to_be():
    program = iosim.algorithm("naive_backward").program
    problem = AttentionBackward(1024, 160, heads=2)
    tiles = gpu_tiles(program, problem, 60_000).tiles
    for rows, columns in (("B_c2", "B_d2"), ("B_r5", "B_d5"), ("B_c6", "B_d6")):
        assert _side(tiles[rows]) * _side(min(160, tiles[columns])) < REGISTERS


def test_where_no_tile_is_small_enough_that_is_said():
    def wide_sum(b):
        """A sum over m of whole rows."""
        (B,) = b.tile_sizes("m", "B")
        total = b.zeros("total", b.span("n", 0, "n"), b.span("k", 0, "k"))
        for i in b.tiles("m", B):
            x, y = b.load("A", i, "k"), b.load("C", i, "n")
            b.op("matmul_tn", total, y, x)
            b.free(x, y)
        b.free(total)

    program = iosim.build("wide_sum", iosim.MatMul, wide_sum)
    assert any(isinstance(node, Alloc) for node in program.body)
    with pytest.raises(CapacityError, match="no tiles of powers of two whose sums stay in"):
        gpu_tiles(program, iosim.MatMul(m=10**5, n=256, k=256), 10**6)
