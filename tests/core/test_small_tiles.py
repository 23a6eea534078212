"""The schedules with small tiles: what they reach as M grows, and what a serpentine would save."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracle import Memory, attention, blocks

import iosim
from iosim.core.problem import Attention
from iosim.core.tiling import optimal_tiles
from iosim.report.tightness import best_schedule

TWO_STATISTICS = (
    "naive",
    "flash1",
    "flash2",
    "flash2_chunked",
    "flash2_keep",
    "small_cache",
    "spill_rows",
)
# And the others, with words ÷ d from which on they run for sure.
pytestmark = pytest.mark.numbers
LEAST = {"flash2_log": 4, "flash2_parts": 5, "small_tiles": 0}


def words(name: str, problem: Attention, M: int) -> int:
    return optimal_tiles(iosim.algorithm(name).program_for(problem), problem, M).total_words


@pytest.mark.parametrize("d", [1, 2, 4, 8, 16])
def test_leading_constants_for_fixed_d(d: int) -> None:
    """1 + 1/2d, 1 + 1/d and 1 + 3/2d times 4N²d²/M, within 1%."""
    N, M = 2**24, 2**10 * d * d
    for name, more in (("flash2_parts", 1), ("flash2_log", 2), ("flash2_chunked", 3)):
        leading = words(name, Attention(N, d), M) * M / (2 * N * d) ** 2
        assert leading == pytest.approx(1 + more / (2 * d), rel=0.01)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"d_v": 3}, {"N_k": 40}])
def test_peaks_are_those_of_the_notes(options: dict[str, int]) -> None:
    problem = Attention(30, 5, **options)
    d, e = problem.d, problem.values
    one = {"W": 0, "B_r": 7, "B_c": 1, "B_p": 1, "B_d": 1, "B_v": 1}
    for name, peak in (
        ("flash2_parts", 7 * (d + e + 1) + d + e + 1),
        ("flash2_log", 7 * (d + e + 2) + 1),
    ):
        program = iosim.algorithm(name).program_for(problem)
        tiles = {p.name: one[p.name] for p in program.params}
        assert iosim.peak(iosim.bind(program, problem.sizes, tiles)) == peak
    program = iosim.algorithm("small_tiles").program_for(problem)
    tiles = dict.fromkeys((p.name for p in program.params), 1) | {"W1": 0}
    for more, peak in (
        ({"B_r1": 4, "B_c1": 6}, 4 * 6 + 4 + 1),
        ({"B_r2": 4, "B_d2": 3}, 4 * (3 + 2) + 1),
    ):
        assert iosim.peak(iosim.bind(program, problem.sizes, tiles | more)) == peak


@pytest.mark.parametrize("points", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_the_best_at_any_capacity_is_one_of_them(points: int) -> None:
    """At N = 2¹⁸ none of the schedules with two statistics is better from M = 64 to Nd/16."""
    for d in (64, 128):
        for M in np.geomspace(64, 2**18 * d // 16, points).astype(int).tolist():
            problem = Attention(2**18, d)
            found = (words(x, problem, M) for x, least in LEAST.items() if least * d <= M)
            assert best_schedule(problem, M).words == min(found)


def serpentine(mem: Memory, N: int, d: int, B: int, kept: int) -> None:
    """Two passes by B rows; odd blocks go backwards, and meet what was last loaded.

    The first pass keeps a row of K at a turn, and the second `kept` words of a row of V.
    """
    here = None
    for turn, I in enumerate(blocks(N, B)):
        for i in I:
            for x in range(d):
                mem.load("Q", 0, i, x)
        for j in range(N)[:: -1 if turn % 2 else 1]:
            if j != here:
                for x in range(d) if here is not None else ():
                    mem.drop("K", 0, here, x)
                for x in range(d):
                    mem.load("K", 0, j, x)
                here = j
            for i in I:
                s = sum(mem.get("Q", 0, i, x) * mem.get("K", 0, j, x) for x in range(d))
                mem.write(s, "S", 0, i, j)
                mem.store("S", 0, i, j)
                mem.drop("S", 0, i, j)
        for i in I:
            for x in range(d):
                mem.drop("Q", 0, i, x)
    for x in range(d):
        mem.drop("K", 0, here, x)
    left: list[int] = []  # columns of row `here` of V that are there
    for turn, I in enumerate(blocks(N, B)):
        for i in I:
            mem.write(-math.inf, "L", i)
            for x in range(d):
                mem.write(0.0, "O", 0, i, x)
        for j in range(N)[:: -1 if turn % 2 else 1]:
            shrink = {}
            for i in I:
                mem.load("S", 0, i, j)
                s, L = mem.get("S", 0, i, j), mem.get("L", i)
                new = max(s, L) + math.log(math.exp(s - max(s, L)) + math.exp(L - max(s, L)))
                shrink[i] = math.exp(L - new)
                mem.write(math.exp(s - new), "S", 0, i, j)
                mem.write(new, "L", i)
            last = j == (0 if turn % 2 else N - 1)
            for x in left + [x for x in range(d) if x not in left]:
                if x not in left:
                    mem.load("V", 0, j, x)
                for i in I:
                    o = mem.get("O", 0, i, x) * shrink[i]
                    mem.write(o + mem.get("S", 0, i, j) * mem.get("V", 0, j, x), "O", 0, i, x)
                if not last or x < d - kept:
                    mem.drop("V", 0, j, x)
            left = list(range(d - kept, d)) if last else []
            for i in I:
                mem.drop("S", 0, i, j)
        for i in I:
            mem.drop("L", i)
            for x in range(d):
                mem.store("O", 0, i, x)
                mem.drop("O", 0, i, x)


def test_what_a_serpentine_saves() -> None:
    """(24, 6, 27): 3,681 words, 1.7% fewer than `small_tiles`; with two statistics 4,032."""
    N, d, M = 24, 6, 27
    problem = Attention(N, d)
    hbm = problem.random()
    mem = Memory(**{name: value.tolist() for name, value in hbm.items()})
    serpentine(mem, N, d, B=3, kept=3)
    found = np.array([[mem.hbm["O"][0, i, x] for x in range(d)] for i in range(N)])
    want = attention(*(hbm[name][0].tolist() for name in "QKV"))
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)
    assert mem.peak == M
    assert sum(mem.moved.values()) == 3681
    assert words("small_tiles", problem, M) == best_schedule(problem, M).words == 3744
    assert min(words(x, problem, M) for x in ("small_cache", "spill_rows", "naive")) == 4032


def test_what_one_statistic_saves_at_45_words() -> None:
    """(24, 6, 45): `flash2_log` keeps three rows where two statistics leave room for two."""
    problem = Attention(24, 6)
    assert best_schedule(problem, 45).words == words("flash2_log", problem, 45) == 2592
    assert min(words(x, problem, 45) for x in TWO_STATISTICS) == 2880
