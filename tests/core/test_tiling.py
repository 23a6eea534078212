"""Optimal tiles against brute force.

The large searches try every tile on the vectorized formulas, which `test_agreement.py` holds
against everything else; `test_equal_to_a_brute_force_that_shares_no_code` tries every tile on the
hand-written schedules of `oracle.py`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from typing import Any

import backward_oracle
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import Memory
from sizes import draws, examples
from strategies import few_tiles, plain_algorithms, random_schedules, searchable

import iosim
from iosim.base.errors import CapacityError, InputError
from iosim.core.counting.arrays import OnArrays
from iosim.core.counting.closed import close, highest
from iosim.core.counting.poly import Clip, Poly
from iosim.core.counting.signs import falls_with, rises_with
from iosim.core.problem import Attention, Family, size_names
from iosim.core.program.build import Builder
from iosim.core.program.index import Affine
from iosim.core.tiling import best_counts, candidates, rules
from iosim.core.tiling.evaluate import RealBound
from iosim.core.tiling.plan import plans
from iosim.core.tiling.search import Search

pytestmark = pytest.mark.numbers

SCHEDULES = oracle.SCHEDULES | backward_oracle.DENSE


def brute_force(
    algorithm: Any, problem: Any, M: int, ranges: dict[str, Any] | None = None
) -> int | None:
    """The least words over all tiles that fit, by trying every one."""
    words, peaks = every_tiling(algorithm, problem, ranges)
    return int(words[peaks <= M].min()) if (peaks <= M).any() else None


def every_tiling(algorithm: Any, problem: Any, ranges: dict[str, Any] | None = None) -> Any:
    """The words that every tiling moves, and those it holds."""
    params = algorithm.program.params
    spans = [(ranges or {}).get(p.name, range(p.least, problem.sizes[p.axis] + 1)) for p in params]
    grid = np.meshgrid(*[np.array(list(s)) for s in spans], indexing="ij")
    columns = problem.sizes | {p.name: g.ravel() for p, g in zip(params, grid, strict=True)}
    words: Any = sum(iosim.count_many(algorithm.program, columns).values())
    return words, iosim.peak_many(algorithm.program, columns)


@pytest.mark.parametrize("n", [*range(1, 130), 1023, 1024, 1025, 2500, 4096])
def test_candidates_are_those_of_a_list(n: int) -> None:
    """Positions are formulas; here they are looked up in lists."""
    first: dict[int, int] = {}
    for B in range(1, n + 1):
        first.setdefault(-(-n // B), B)
    extent = np.array([7, n])  # the point asked about is the second
    powers = [min(2**k, n) for k in range(4, 13) if k == 4 or 2 ** (k - 1) < n]
    cases: list[tuple[candidates.Candidates, list[int]]] = [
        (candidates.DistinctTrips(extent), list(first.values())),
        (candidates.EveryValue(extent, 0), list(range(n + 1))),
        (candidates.EveryValue(extent, 1), list(range(1, n + 1))),
        (candidates.AllOrNothing(extent), [0, n]),
        (candidates.PowersOfTwo(extent), powers),
    ]
    limits = np.arange(-1, n + 1)
    for choice, values in cases:
        at = np.ones(len(values), np.int64)
        assert int(choice.count[1]) == len(values), choice
        assert choice.clipped(np.arange(len(values)), at).tolist() == values, choice
        floors = choice.floor(limits, np.ones(len(limits), np.int64))
        assert (floors == np.searchsorted(values, limits, side="right") - 1).all(), choice


@given(searchable())
@examples(2)
def test_equal_to_brute_force(case: Any) -> None:
    algorithm, problem, M = case
    best = brute_force(algorithm, problem, M)
    least = iosim.smallest_capacity(algorithm.program, problem)
    assert (best is None) == (least > M)
    if best is None:
        with pytest.raises(CapacityError, match=f"use M >= {least}"):
            iosim.optimal_tiles(algorithm.program, problem, M)
        return
    found = iosim.optimal_tiles(algorithm.program, problem, M)
    instance = iosim.bind(algorithm.program, problem.sizes, found.tiles)
    assert found.total_words == best == iosim.count(instance).total_words
    assert found.peak_words == iosim.peak(instance) <= M


@pytest.mark.parametrize("name", ["flash1", "flash2"])
@pytest.mark.parametrize("M", [70, 200, 1000, 5000, 40000])
def test_equal_to_brute_force_on_larger_shapes(name: str, M: int) -> None:
    algorithm, problem = iosim.algorithm(name), Attention(251, 16)
    found = iosim.optimal_tiles(algorithm.program, problem, M).total_words
    assert found == brute_force(algorithm, problem, M)


@pytest.mark.parametrize("M", [30, 77, 300, 1500])
def test_equal_to_brute_force_with_a_hold(M: int) -> None:
    """The scores pass, 3 parameters that matter, all of them tried."""
    algorithm, problem = iosim.algorithm("small_cache"), Attention(90, 12)
    found = iosim.optimal_tiles(algorithm.program, problem, M)
    every = range(1, 91)
    passes = {
        1: {
            "B_r1": every,
            "B_c1": every,
            "W1": range(13),
            "B_d1": [1],
            "B_r2": [1],
            "B_c2": [1],
            "B_d2": [1],
        },
        2: {
            "B_r1": [1],
            "B_c1": [1],
            "W1": [0],
            "B_d1": [1],
            "B_r2": every,
            "B_c2": [1],
            "B_d2": range(1, 13),
        },
    }
    least = brute_force(
        algorithm, problem, M, {k: [v[0]] for k, v in passes[2].items()} | {"B_r1": [1], "W1": [0]}
    )
    assert least is not None
    total = sum(brute_force(algorithm, problem, M, p) or 0 for p in passes.values()) - least
    assert found.total_words == total


@examples(3 / 5)
@given(st.integers(1, 100), st.integers(1, 40), st.integers(1, 30000))
def test_the_lattice_of_powers_of_two(N: int, d: int, M: int) -> None:
    algorithm, problem = iosim.algorithm("flash2"), Attention(N, d)
    powers = [2**k for k in range(4, 8) if 2 ** (k - 1) < N or k == 4]
    pairs = itertools.product(powers, repeat=2)
    all_words = [brute_force(algorithm, problem, M, {"B_r": [r], "B_c": [c]}) for r, c in pairs]
    best = min((w for w in all_words if w is not None), default=None)
    if best is None:
        with pytest.raises(CapacityError, match="on this lattice"):
            iosim.optimal_tiles(algorithm.program, problem, M, lattice="pow2")
        return
    found = iosim.optimal_tiles(algorithm.program, problem, M, lattice="pow2")
    assert found.total_words == best
    assert all(b >= 16 and b & (b - 1) == 0 for b in found.tiles.values())


@given(searchable())
def test_larger_tiles_move_no_more_and_take_no_less(case: Any) -> None:
    """The facts that the search relies on, for every parameter of every algorithm."""
    algorithm, problem, _ = case
    params = algorithm.program.params
    middle = {p.name: max(p.least, problem.sizes[p.axis] // 2) for p in params}
    for p in params:
        values = np.arange(p.least, problem.sizes[p.axis] + 1)
        columns = problem.sizes | middle | {p.name: values}
        words = sum(iosim.count_many(algorithm.program, columns).values())
        assert (np.diff(words) <= 0).all(), p
        if p.least > 0:
            peaks = iosim.peak_many(algorithm.program, columns)
            assert (np.diff(peaks) >= 0).all(), p


def test_every_point_of_the_plane_for_the_facts() -> None:
    for algorithm in few_tiles():
        sizes = {n: 1 if n == "heads" else 3 for n in size_names(algorithm.problem)}
        params = algorithm.program.params
        spans = [range(p.least, 4) for p in params]
        grid = np.meshgrid(*[np.array(s) for s in spans], indexing="ij")
        columns = sizes | {p.name: g for p, g in zip(params, grid, strict=True)}
        words = sum(iosim.count_many(algorithm.program, columns).values())
        peaks = iosim.peak_many(algorithm.program, columns)
        for axis, p in enumerate(params):
            assert (np.diff(words, axis=axis) <= 0).all(), p
            assert p.least == 0 or (np.diff(peaks, axis=axis) >= 0).all(), p


def test_a_larger_hold_may_take_less() -> None:
    """Why holds are searched and not bisected: less is streamed beside a larger hold."""
    program, sizes = iosim.algorithm("small_cache").program, Attention(5, 4).sizes
    tiles = {"B_r1": 1, "B_c1": 5, "B_d1": 2, "B_r2": 1, "B_c2": 1, "B_d2": 1}
    peaks = [iosim.peak(iosim.bind(program, sizes, tiles | {"W1": W})) for W in range(5)]
    assert any(b < a for a, b in itertools.pairwise(peaks))


@given(searchable(), st.data())
@examples(6 / 5)
def test_equal_to_brute_force_with_fixed_tiles(case: Any, data: Any) -> None:
    algorithm, problem, M = case
    fixed = {
        p.name: data.draw(st.integers(p.least, problem.sizes[p.axis]), label=p.name)
        for p in algorithm.program.params
        if data.draw(st.booleans(), label=f"fix {p.name}")
    }
    best = brute_force(algorithm, problem, M, {k: [v] for k, v in fixed.items()})
    least = iosim.smallest_capacity(algorithm.program, problem, fixed=fixed)
    assert (best is None) == (least > M)
    if best is not None:
        found = iosim.optimal_tiles(algorithm.program, problem, M, fixed=fixed)
        assert found.total_words == best
        assert found.peak_words <= M


def test_more_memory_never_moves_more() -> None:
    for algorithm in plain_algorithms("attention"):
        problem = Attention(300, 20)
        least = iosim.smallest_capacity(algorithm.program, problem)
        words = [
            iosim.optimal_tiles(algorithm.program, problem, M).total_words
            for M in range(least, 20000, 371)
        ]
        assert words == sorted(words, reverse=True)


def test_fixed_tiles() -> None:
    program, problem = iosim.algorithm("flash2").program, Attention(100, 8)
    found = iosim.optimal_tiles(program, problem, 500, fixed={"B_c": 4})
    assert found.tiles["B_c"] == 4
    with pytest.raises(InputError, match="has no tile size 'B_q': did you mean 'B_"):
        iosim.optimal_tiles(program, problem, 500, fixed={"B_q": 4})
    with pytest.raises(InputError, match="B_r = 0 is outside"):
        iosim.optimal_tiles(program, problem, 500, fixed={"B_r": 0})
    with pytest.raises(CapacityError, match="with these tiles and M is 500: use M >= "):
        iosim.optimal_tiles(program, problem, 500, fixed={"B_r": 64})
    with pytest.raises(InputError, match="unknown lattice 'pow3'"):
        iosim.optimal_tiles(program, problem, 500, lattice="pow3")  # type: ignore[arg-type]


@pytest.mark.parametrize("N", [2**28, 2**31, 2**34, 2**36])
def test_sizes_beyond_64_bits(N: int) -> None:
    """Around and past N²d = 2**63 words Python's integers take over; the answer stays exact."""
    program, problem, M = iosim.algorithm("flash2").program, Attention(N, 128), 2**20
    found = iosim.optimal_tiles(program, problem, M)
    most = (M - 128) // (2 * 128 + 3)  # by hand: B_r(2d + 3) + d ≤ M with B_c = 1
    assert found.total_words == 2 * N * 128 * (1 + -(-N // most))


@pytest.mark.parametrize("name", ["naive", "small_cache"])
@pytest.mark.parametrize("N", [2**27, 2**29, 2**31])
def test_searches_around_64_bits(name: str, N: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The corners of boxes move more words than fit 64 bits before the optimum does."""
    program, problem = iosim.algorithm(name).program, Attention(N, 64)
    for M in (50, 9000):
        usual = iosim.optimal_tiles(program, problem, M).total_words
        for limit in ("INT64_SAFE", "MOST_HELD"):  # words in `Wide`, and Python's integers
            monkeypatch.setattr(f"iosim.core.tiling.{limit}", 0.0)
            assert iosim.optimal_tiles(program, problem, M).total_words == usual
            monkeypatch.undo()


@pytest.mark.parametrize("split", [2, 3, 16])
def test_a_finer_search_finds_the_same(split: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However boxes are cut, other ones are pruned; the tiles are the same."""
    cases = [
        (a, Attention(N, d, 1), M)
        for a in plain_algorithms("attention")
        for N, d, M in [(97, 24, 300), (300, 20, 1700), (64, 64, 5000), (1000, 12, 77)]
        if iosim.smallest_capacity(a.program, Attention(N, d, 1)) <= M
    ]
    usual = [iosim.optimal_tiles(a.program, p, M) for a, p, M in cases]
    monkeypatch.setattr("iosim.core.tiling.search._PARTS_OF_FEW", split)
    assert [iosim.optimal_tiles(a.program, p, M) for a, p, M in cases] == usual


@pytest.mark.parametrize("name", [a.name for a in plain_algorithms()])
def test_equal_to_a_brute_force_that_shares_no_code(name: str) -> None:
    """Every tile of a tiny problem, run word by word by the hand-written oracle."""
    algorithm = iosim.algorithm(name)
    params = algorithm.program.params
    side = 3 if len(params) <= 4 else 2
    problem = algorithm.problem(
        **{n: 1 if n == "heads" else side for n in size_names(algorithm.problem)}
    )
    hbm = {k: v.tolist() for k, v in problem.random().items()}
    least = {p.name: p.least for p in params}

    def run(tiles: dict[str, int]) -> tuple[int, int]:
        mem = Memory(**hbm)
        SCHEDULES[name](mem, problem.sizes, least | tiles)
        return mem.peak, sum(mem.moved.values())

    # Where there are many, each nest's tiles with the least ones of the others: words add up, and
    # whatever M has room for one tiling has room for the least.
    ends = {p.name: re.sub(r"^(B_[rcd]|W)", "", p.name) if len(params) > 8 else "" for p in params}
    _, base = run({})
    runs = {
        end: [
            run(dict(zip(mine, values, strict=True)))
            for mine in [[p for p in least if ends[p] == end]]
            for values in itertools.product(*(range(least[p], side + 1) for p in mine))
        ]
        for end in ends.values()
    }
    for M in range(1, max(peak for nest in runs.values() for peak, _ in nest) + 2):
        fitting = [[words - base for peak, words in nest if peak <= M] for nest in runs.values()]
        if all(fitting):
            best = base + sum(map(min, fitting))
            assert iosim.optimal_tiles(algorithm.program, problem, M).total_words == best
        else:
            with pytest.raises(CapacityError):
                iosim.optimal_tiles(algorithm.program, problem, M)


def shared_tile(b: Builder) -> None:
    """Two nests with one tile size, of which the second takes more room."""
    B = b.tile_sizes("N", "B")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            q, k = b.load("Q", h, i, "d"), b.load("K", h, "N", "d")
            b.store(q, "O", h, i, "d")
            b.free(q, k)
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            q, k, v = b.load("Q", h, i, "d"), b.load("K", h, i, "d"), b.load("V", h, i, "d")
            b.store(q, "O", h, i, "d")
            b.free(q, k, v)


def rest_is_loaded(b: Builder) -> None:
    """What is loaded shrinks with the hold: the occupancy has a negative term."""
    W = b.stationary("d", "W")
    B = b.tile_sizes("N", "B")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            q = b.load("Q", h, i, b.span("d", W))
            b.store(q, "O", h, i, b.span("d", W))
            b.free(q)


def rest_of_a_tile(b: Builder) -> None:
    """A larger tile takes fewer words: it may not be bisected."""
    V = b.tile_sizes("d", "V")[0]
    B = b.tile_sizes("N", "B")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            q = b.load("Q", h, i, b.span("d", V))
            for j in b.tiles("N", B):
                k = b.load("K", h, j, b.span("d", 0, V))
                b.free(k)
            b.store(q, "O", h, i, b.span("d", V))
            b.free(q)


def a_larger_tile_leaves_less(b: Builder) -> None:
    """A larger tile takes fewer words: a box of them takes least at neither of its corners."""
    V = b.tile_sizes("d", "V")[0]
    B = b.tile_sizes("N", "B")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            q = b.load("Q", h, i, b.span("d", V))
            again = b.load("Q", h, i, b.span("d", V), name="again")
            b.store(q, "O", h, i, b.span("d", V))
            b.free(q, again)
            for j in b.tiles("N", B):
                k = b.load("K", h, j, b.span("d", 0, V))
                b.free(k)


def less_and_less(b: Builder) -> None:
    """A larger tile takes less and moves less: of what fits, the largest needs no solving."""
    V = b.tile_sizes("d", "V")[0]
    B = b.tile_sizes("N", "B")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            q = b.load("Q", h, i, b.span("d", V))
            b.store(q, "O", h, i, b.span("d", V))
            k = b.load("K", h, "N", "d")
            b.free(q, k)


def room_that_shrinks(b: Builder) -> None:
    """A tile on which no count depends, and which takes less as it grows: not a spare one."""
    V = b.tile_sizes("d", "V")[0]
    B = b.tile_sizes("N", "B")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            s = b.alloc("s", i, b.span("d", V))
            k = b.load("K", h, i, "d")
            b.store(k, "O", h, i, "d")
            b.free(s, k)


def a_tile_ends_a_loop(b: Builder) -> None:
    """Once V is the whole axis, the loop behind it doesn't run, and its block takes no room."""
    V, C = b.tile_sizes("d", "V", "C")
    B = b.tile_sizes("N", "B")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            for x in b.tiles("d", C, V):
                s = b.alloc("s", i, x)
                q = b.load("Q", h, i, x)
                b.store(q, "O", h, i, x)
                b.free(q, s)
            k = b.load("K", h, i, b.span("d", 0, V))
            b.free(k)


def loops_over_a_part(b: Builder) -> None:
    """A tile that steps over a part of an axis: candidates of the whole axis are not enough."""
    W = b.stationary("N", "W")
    B = b.tile_sizes("N", "B")[0]
    for h in b.grid("heads"):
        for _ in b.tiles("N", B, W):
            k = b.load("K", h, b.span("N", 0, W), "d")
            b.free(k)
        for j in b.tiles("N", B, W):
            q = b.load("Q", h, j, "d")
            b.store(q, "O", h, j, "d")
            b.free(q)


def two_parts(b: Builder) -> None:
    """One tile over two parts: a short part bounds it only up to its own length."""
    W = b.stationary("N", "W")
    B = b.tile_sizes("N", "B")[0]
    for h in b.grid("heads"):
        for x in b.tiles("N", B, 0, W):
            q, s, t = b.load("Q", h, x, "d"), b.alloc("s", x, "d"), b.alloc("t", x, "d")
            b.store(q, "O", h, x, "d")
            b.free(q, s, t)
        for j in b.tiles("N", B, W):
            v = b.load("V", h, "N", "d")
            b.free(v)
            q = b.load("Q", h, j, "d")
            b.store(q, "O", h, j, "d")
            b.free(q)


def costly_hold(b: Builder) -> None:
    """A hold that costs traffic: more of it moves more words, and takes fewer."""
    W = b.stationary("d", "W")
    B = b.tile_sizes("N", "B")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            once = b.load("Q", h, i, b.span("d", W), name="once")
            for j in b.tiles("N", B):
                again = b.load("K", h, j, b.span("d", 0, W), name="again")
                b.free(again)
            b.store(once, "O", h, i, b.span("d", W))
            b.free(once)


def one_tile_for_both(b: Builder) -> None:
    """Occupancy grows with the square of a tile: no division solves for it."""
    B = b.tile_sizes("N", "B")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            q = b.load("Q", h, i, "d")
            for j in b.tiles("N", B):
                k = b.load("K", h, j, "d")
                s = b.alloc("s", i, j)
                b.free(k, s)
            b.store(q, "O", h, i, "d")
            b.free(q)


def unused_tile(b: Builder) -> None:
    """Declares a tile size that nothing uses."""
    B, _ = b.tile_sizes("N", "B", "C")
    for h in b.grid("heads"):
        for i in b.grid("N", B):
            q = b.load("Q", h, i, "d")
            b.store(q, "O", h, i, "d")
            b.free(q)


@pytest.mark.parametrize(
    "schedule",
    [
        shared_tile,
        rest_is_loaded,
        rest_of_a_tile,
        a_larger_tile_leaves_less,
        costly_hold,
        less_and_less,
        room_that_shrinks,
        a_tile_ends_a_loop,
        loops_over_a_part,
        two_parts,
        one_tile_for_both,
        unused_tile,
    ],
)
def test_schedules_that_break_the_usual_facts(schedule: Any) -> None:
    """The search assumes nothing that it hasn't proved for the program at hand."""
    program = iosim.build(schedule.__name__, Attention, schedule)
    entry = dataclasses.replace(iosim.algorithm("flash2"), name="user", schedule=schedule)
    for N, d in itertools.product((1, 2, 5, 8), (1, 3, 7)):
        problem = Attention(N, d)
        words, peaks = every_tiling(entry, problem)
        least = iosim.smallest_capacity(program, problem)
        assert least == peaks.min()
        for M in (m for m in (*range(1, 40), 60, 96) if m >= least):
            best = words[peaks <= M].min()
            found = iosim.optimal_tiles(program, problem, M)
            assert (found.total_words, found.peak_words <= M) == (best, True), (N, d, M)


@given(random_schedules(), st.sampled_from([0, 64]))
@examples(3 / 2)
def test_random_schedules_get_their_optimum(case: Any, few: int) -> None:
    """Random schedules, for which any of the usual facts may fail; every tile tried."""
    program, sizes, _ = case
    sizes = {axis: min(extent, 3) for axis, extent in sizes.items()}
    used = {
        p.name
        for plan in plans(program, frozenset())
        for p in program.params
        if p.name in {*plan.searched, *plan.spare}
    }
    spans = [
        range(p.least, sizes[p.axis] + 1) if p.name in used else [p.least] for p in program.params
    ]
    grid = [g.ravel() for g in np.meshgrid(*spans, indexing="ij")]
    columns = sizes | {p.name: g for p, g in zip(program.params, grid, strict=True)}
    words: Any = sum(iosim.count_many(program, columns).values(), np.zeros(len(grid[0]), np.int64))
    peaks = iosim.peak_many(program, columns)
    M = np.unique(np.concatenate([peaks, peaks + 1, peaks[peaks > 1] - 1]))
    M = M[M > 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("iosim.core.tiling.search._FEW", few)
        tiles, found = iosim.optimal_tiles_many(program, sizes, M)
    got: Any = sum(iosim.count_many(program, sizes | tiles).values(), np.zeros(len(M), np.int64))
    held = np.broadcast_to(iosim.peak_many(program, sizes | tiles), M.shape)
    problem = iosim.MatMul(**sizes)
    for k in range(len(M)):
        fitting = words[peaks <= M[k]]
        assert found[k] == bool(len(fitting))
        if found[k]:
            assert (got[k], held[k] <= M[k]) == (fitting.min(), True)
    assert iosim.smallest_capacity(program, problem) == max(1, peaks.min()) or peaks.min() == 0


@pytest.mark.parametrize("schedule", [two_parts, loops_over_a_part])
def test_tiles_over_parts_of_a_given_length(schedule: Any) -> None:
    """A short part bounds a tile up to its length; trips over a part are not those of the axis."""
    program = iosim.build(schedule.__name__, Attention, schedule)
    entry = dataclasses.replace(iosim.algorithm("flash2"), name="user", schedule=schedule)
    problem = Attention(9, 2)
    for W, M in itertools.product((1, 2, 3), range(1, 60)):
        best = brute_force(entry, problem, M, {"W": [W]})
        if best is not None:
            found = iosim.optimal_tiles(program, problem, M, fixed={"W": W})
            assert found.total_words == best


@pytest.mark.parametrize(
    "ask",
    [
        lambda program, problem: iosim.optimal_tiles(program, problem, 999),
        iosim.smallest_capacity,
    ],
)
def test_a_program_of_another_problem_is_refused(ask: Any) -> None:
    """Also where sizes have the same names: a backward pass is not an answer to a forward one."""
    program = iosim.algorithm("flash2_backward").program
    assert ask(program, iosim.AttentionBackward(64, 8))
    with pytest.raises(InputError, match="flash2_backward solves attention-backward, not attent"):
        ask(program, Attention(64, 8))


def test_where_a_tile_is_solved_for_and_where_it_is_bisected() -> None:
    """A division wherever occupancy is a line in the tile, beside spare tiles at their least."""
    bent = {
        (entry.name, tile)
        for entry in plain_algorithms()
        for plan in plans(entry.program, frozenset())
        for tile, line in plan.lines.items()
        if not line
    }
    assert not bent
    (plan,) = plans(iosim.build("square", Attention, one_tile_for_both), frozenset())
    assert plan.solvable == ("B",)
    assert plan.lines == {"B": None}


@pytest.mark.parametrize("lattice", ["all", "pow2"])
@pytest.mark.parametrize("name", [a.name for a in plain_algorithms()])
def test_many_points_are_answered_like_each_alone(name: str, lattice: Any) -> None:
    """Same tiles, ties and spare ones included, whatever stands beside a point."""
    algorithm = iosim.algorithm(name)
    rng = np.random.default_rng(1)
    points = draws(80, 40) if len(algorithm.program.params) < 10 else 30
    sizes = {x: rng.integers(1, 3000, points) for x in size_names(algorithm.problem)}
    some = rng.choice(points, 4, replace=False)
    for x in sizes:
        sizes[x][some] = 2**30  # beyond 64 bits
    M = np.array([round(2.0**x) for x in rng.uniform(1, 20, points)])
    for fixed in ((), tuple(p.name for p in algorithm.program.params[:1])):
        given = {x: rng.integers(1, 40, points) for x in fixed}
        tiles, found = iosim.optimal_tiles_many(
            algorithm.program, sizes | given, M, lattice=lattice
        )
        assert found.any()
        assert not found.all() or name == "copy"  # one word is enough for that
        for k in range(points):
            problem = algorithm.problem(**{x: int(v[k]) for x, v in sizes.items()})
            here = {x: int(v[k]) for x, v in given.items()}
            try:
                want = iosim.optimal_tiles(
                    algorithm.program, problem, int(M[k]), lattice=lattice, fixed=here
                )
            except CapacityError:
                assert not found[k]
                continue
            assert found[k]
            assert {x: int(v[k]) for x, v in tiles.items()} == want.tiles


@pytest.mark.parametrize("name", ["naive", "flash2", "two_kernels"])
@pytest.mark.parametrize("options", [{}, {"causal": True, "N_k": 17}])
def test_counts_at_many_capacities_are_those_of_each(name: str, options: dict[str, Any]) -> None:
    algorithm = iosim.algorithm(name)
    problem = algorithm.problem(20, 3, 2, **options)
    program = algorithm.program_for(problem)
    memory = [1, 2, 30, 77, 300, 30, 5000]
    found = best_counts(program, problem, memory)
    for M in memory:
        try:
            tiles = iosim.optimal_tiles(program, problem, M).tiles
        except CapacityError:
            assert M not in found
            continue
        assert found[M] == iosim.count(iosim.bind(program, problem.sizes, tiles))
    assert set(found) == {30, 77, 300, 5000}


def test_many_points_are_answered_like_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """With so many boxes, searches start from guesses and cut boxes more finely."""
    monkeypatch.setattr("iosim.core.tiling.search._FEW", 0)
    for algorithm in plain_algorithms("attention"):
        M = np.arange(1, 150)
        problem = Attention(4, 3, 2) if len(algorithm.program.params) > 6 else Attention(9, 4, 2)
        tiles, found = iosim.optimal_tiles_many(algorithm.program, problem.sizes, M)
        words: Any = sum(iosim.count_many(algorithm.program, problem.sizes | tiles).values())
        fits = iosim.peak_many(algorithm.program, problem.sizes | tiles) <= M
        assert (fits | ~found).all()
        every, peaks = every_tiling(algorithm, problem)
        for k in range(len(M)):
            fitting = every[peaks <= M[k]]
            assert (fitting.min() if len(fitting) else None) == (words[k] if found[k] else None)


def check_real_bound(program: Any, sizes: dict[str, int], M: int, seed: int) -> float:
    """Hold the bound on real numbers against all that random boxes contain.

    Returns the largest share of what a box moves at least that its bound reaches.
    """
    reached = 0.0
    rng = np.random.default_rng(seed)
    for plan in plans(program, frozenset()):
        for solved in (k for k, form in plan.relaxed.items() if form is not None):
            axes = {p.name: p for p in program.params}
            base = {x: np.array([v]) for x, v in sizes.items()}
            ranges = {
                x: candidates.candidates_of(program, p, base[p.axis], "all")
                for x, p in axes.items()
            }
            search = Search(plan, solved, ranges, base, np.array([M]))
            bound, at = search.relaxed, np.zeros(1, np.int64)
            assert bound is not None
            for _ in range(25):
                ends = {x: np.sort(rng.integers(0, ranges[x].count[0], 2)) for x in search.boxed}
                low, high = ({x: v[k : k + 1] for x, v in ends.items()} for k in (0, 1))
                grid = np.meshgrid(
                    *(ranges[x].clipped(np.arange(a, b + 1), 0) for x, (a, b) in ends.items()),
                    ranges[solved].clipped(np.arange(ranges[solved].count[0]), 0),
                    indexing="ij",
                )
                values = {x: g.ravel() for x, g in zip([*ends, solved], grid, strict=True)}
                least = {x: p.least for x, p in axes.items()}
                columns: Any = sizes | least | values
                env = OnArrays({x: np.asarray(v) for x, v in columns.items()})
                held = highest(plan.levels, env)
                fits = np.broadcast_to(held <= M, grid[0].size)
                words = np.broadcast_to(plan.total.evaluate(env), fits.shape)
                cap = int(rng.choice(words))
                corners = search.points.values(at, low), search.points.values(at, high)
                found, first, last = bound(at, *corners, np.array([cap]))
                assert not fits.any() or found[0] <= words[fits].min(), (ends, M)
                if fits.any():
                    reached = max(reached, found[0] / words[fits].min())
                x = values[bound.tile][fits & (words <= cap)]
                assert ((first <= x) & (x <= last)).all(), (ends, M, cap)
    return reached


REAL = [
    ("small_cache", Attention(23, 9, 2)),
    ("matmul", iosim.MatMul(13, 8, 17)),
    ("naive_backward", Attention(13, 7, 2)),
    ("small_backward", Attention(13, 7, 2)),
]


@pytest.mark.parametrize(("name", "problem"), REAL)
@pytest.mark.parametrize("M", [6, 11, 30, 77, 200, 900])
def test_no_box_moves_less_than_the_bound_on_real_numbers(
    name: str, problem: Any, M: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iosim.core.tiling.search._FEW", 0)
    program = iosim.algorithm(name).program
    reached = max(check_real_bound(program, problem.sizes, M, seed) for seed in range(4))
    assert reached > 0.5 or M == 6


def test_a_bound_that_is_too_large_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail: with a little less memory, and with a tile cut off."""
    monkeypatch.setattr("iosim.core.tiling.search._FEW", 0)
    program, sizes = iosim.algorithm("small_cache").program, Attention(23, 9, 2).sizes
    usual = RealBound._at_ends

    def scaled(words: float, last: float) -> Any:
        def at_ends(self: Any, *args: Any) -> Any:
            found = usual(self, *args)
            return found[0] * words, found[1], found[2], found[3] * last

        return at_ends

    for factors in ((1.2, 1.0), (1.0, 0.8)):
        monkeypatch.setattr(RealBound, "_at_ends", scaled(*factors))
        with pytest.raises(AssertionError):
            max(check_real_bound(program, sizes, 77, seed) for seed in range(20))


def test_where_the_bound_on_real_numbers_is_used() -> None:
    """Where two tiles share the room, with holds that don't fall beside them; nowhere else."""
    used = {
        a.name: [
            plan.searched for plan in plans(a.program, frozenset()) if any(plan.relaxed.values())
        ]
        for a in plain_algorithms()
    }
    pairs = ("W1", "B_r1", "B_c1")
    assert {k: v for k, v in used.items() if v} == {
        "naive": [pairs, ("B_r3", "B_d3")],
        "small_cache": [pairs, ("B_r2", "B_d2")],
        "spill_rows": [pairs],
        "naive_backward": [
            pairs,
            ("B_c2", "B_d2"),
            ("W3", "B_r3", "B_c3"),
            ("B_r5", "B_d5"),
            ("B_c6", "B_d6"),
        ],
        "spill_gradient": [("B_r2", "B_d2")],
        "spill_weights": [pairs, ("B_r3", "B_d3"), ("B_c4", "B_d4")],
        "small_backward": [
            pairs,
            ("B_c2", "B_d2"),
            ("W3", "B_r3", "B_c3"),
            ("B_r4", "B_d4"),
            ("B_c5", "B_d5"),
        ],
        "small_tiles": [pairs, ("B_r2", "B_d2")],
        "matmul": [("B_m", "B_n")],
    }


@pytest.mark.parametrize("n", [2**40, 2**40 - 1, 2**38 + 1, (2**19 + 1) ** 2 + 1, 963761198400])
def test_candidates_of_a_long_axis(n: int) -> None:
    """Around the root, where small tiles give way to few trips; in Python's integers."""
    choice, root = candidates.DistinctTrips(np.array([n])), math.isqrt(n - 1)
    count = int(choice.count[0])
    assert count == root + (n - 1) // (root + 1) + 1
    parts = [np.arange(5), np.arange(root - 5, root + 6), np.arange(count - 5, count)]
    near = np.concatenate(parts)
    at = np.zeros(len(near), np.int64)
    values = [int(x) for x in choice.clipped(near, at)]
    trips = [-(-n // B) for B in values]
    assert all(B == 1 or -(-n // (B - 1)) > t for B, t in zip(values, trips, strict=True))
    # Neighbors have neighboring trips, so none is left out; the last takes the whole axis.
    for k, (a, b) in enumerate(itertools.pairwise(values)):
        if near[k + 1] == near[k] + 1:
            assert -(-n // (b - 1)) == -(-n // a) > -(-n // b)
    assert values[0] == 1
    assert values[-1] == n
    assert (choice.floor(np.array(values), at) == near).all()
    below = np.array(values[1:]) - 1
    assert (choice.floor(below, at[1:])[np.diff(near) == 1] == near[:-1][np.diff(near) == 1]).all()


@pytest.mark.parametrize("name", ["naive", "small_cache", "spill_rows", "flash2_keep"])
def test_of_equal_tilings_the_first_is_taken(name: str) -> None:
    """The smallest hold, and with it the smallest first tile, of all that move as few words."""
    algorithm = iosim.algorithm(name)
    ties = 0
    for N, d in ((3, 2), (2, 3), (6, 4)) if name == "flash2_keep" else ((3, 2), (2, 3)):
        problem = Attention(N, d)
        spans = [range(p.least, problem.sizes[p.axis] + 1) for p in algorithm.program.params]
        grid = [g.ravel() for g in np.meshgrid(*spans, indexing="ij")]
        names = [p.name for p in algorithm.program.params]
        columns = problem.sizes | dict(zip(names, grid, strict=True))
        words: Any = sum(iosim.count_many(algorithm.program, columns).values())
        peaks = iosim.peak_many(algorithm.program, columns)
        for M in range(int(peaks.min()), int(peaks.max()) + 2):
            tiles = iosim.optimal_tiles(algorithm.program, problem, M).tiles
            for plan in plans(algorithm.program, frozenset()):
                best = (peaks <= M) & (words == words[peaks <= M].min())
                for k in [k for k in plan.searched if k not in plan.solvable[-1:]]:
                    values = columns[k][best]
                    ties += len(set(values.tolist())) > 1
                    assert tiles[k] == values.min(), (N, d, M, k)
                    best &= columns[k] == tiles[k]
    assert ties


@examples(1 / 2)
@given(st.data())
def test_powers_of_two_and_ends_of_holds(data: Any) -> None:
    """The lattice of a GPU, every tiling on it tried."""
    algorithm = data.draw(st.sampled_from(plain_algorithms("attention")))
    problem = Attention(data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40)))
    ranges = {}
    for p in algorithm.program.params:
        n = problem.sizes[p.axis]
        powers = [k for k in (16, 32, 64) if k == 16 or k < 2 * n]
        ranges[p.name] = [0, n] if p.least == 0 else powers
    M = data.draw(st.integers(1, 8000))
    best = brute_force(algorithm, problem, M, ranges)
    if best is None:
        with pytest.raises(CapacityError, match="on this lattice"):
            iosim.optimal_tiles(algorithm.program, problem, M, lattice="pow2")
        return
    found = iosim.optimal_tiles(algorithm.program, problem, M, lattice="pow2")
    assert found.total_words == best
    assert all(v in ranges[k] for k, v in found.tiles.items())


def test_bad_columns() -> None:
    program = iosim.algorithm("flash2").program
    with pytest.raises(InputError, match="flash2 needs the columns N"):
        iosim.optimal_tiles_many(program, {"d": 8, "heads": 1}, [100])
    with pytest.raises(InputError, match="has no size 'B_q'"):
        iosim.optimal_tiles_many(program, {"N": 9, "d": 8, "heads": 1, "B_q": 2}, [100])
    with pytest.raises(InputError, match="column N must hold integers in 1"):
        iosim.optimal_tiles_many(program, {"N": [0, 9], "d": 8, "heads": 1}, [100, 100])
    with pytest.raises(InputError, match="M must hold integers in 1"):
        iosim.optimal_tiles_many(program, {"N": 9, "d": 8, "heads": 1}, [100, 0])
    with pytest.raises(InputError, match="do not fit together"):
        iosim.optimal_tiles_many(program, {"N": [5, 9, 7], "d": 8, "heads": 1}, [100, 50])
    with pytest.raises(InputError, match="flash2 takes columns by name, got Attention"):
        iosim.optimal_tiles_many(program, iosim.Attention(9, 8), [100])  # type: ignore[arg-type]
    tiles, found = iosim.optimal_tiles_many(program, {"N": 9, "d": 8, "heads": 1}, [])
    assert found.shape == tiles["B_r"].shape == (0,)


def test_the_facts_are_proved_where_they_hold() -> None:
    """Registered schedules get the fast search, but for a nest of two; the user's odd ones get the
    slow one."""
    slow = set()
    for entry in plain_algorithms():
        holds = {p.name: p.axis for p in entry.program.params if p.least == 0}
        for nest in close(entry.program).nests:
            for p in entry.program.params:
                if not falls_with(nest.total, p.name, holds):
                    slow.add((entry.name, p.name))
                if p.least:
                    assert all(rises_with(v.words, p.name, holds) for v in nest.peak)
    assert slow == {("naive_backward", "B_c3"), ("small_backward", "B_c3")}
    odd = close(iosim.build("odd", Attention, costly_hold)).nests[0].total
    assert not falls_with(odd, "W", {"W": "d"})


def test_the_matmul_calibrator_is_near_its_known_optimum() -> None:
    """2mnk/√M + mn up to the edges of a tile, (B² + 2B = M), and to tiles that divide the sizes."""
    program = iosim.algorithm("matmul").program
    for B in (16, 100, 500):
        n, M = 8 * B, B * B + 2 * B
        found = iosim.optimal_tiles(program, iosim.MatMul(n, n, n), M)
        assert found.total_words == 2 * n**3 // B + n * n
        assert found.total_words < (2 * n**3 / M**0.5 + n * n) * (1 + 1.5 / B)


def test_every_rule_chooses_alike_at_one_point_and_at_many() -> None:
    """Rules of all algorithms and published ones; unknown ones are named with those there are."""
    rng = np.random.default_rng(5)
    for entry in plain_algorithms():
        names = size_names(entry.problem)
        points = draws(12, 5)
        columns = {x: rng.integers(1, 3 if x == "heads" else 90, points) for x in names}
        M = rng.integers(300, 20_000, points)
        family = Family.of(entry.problem, {x: int(v.max()) for x, v in columns.items()})
        for how in (*rules.RULES, *entry.rules):
            used, found, _ = rules.choose_many(entry, how, family, columns, M)
            for k in range(points):
                problem = entry.problem(**{x: int(v[k]) for x, v in columns.items()})
                if not found[k]:
                    with pytest.raises(CapacityError):
                        rules.choose_tiles(entry, problem, int(M[k]), how)
                    continue
                tiles = rules.choose_tiles(entry, problem, int(M[k]), how).tiles
                assert tiles == {x: int(v[k]) for x, v in used.items()}, (entry.name, how)


def test_tiles_for_a_gpu_are_powers_of_two() -> None:
    tiles = rules.choose_tiles(iosim.algorithm("flash2"), Attention(512, 64), 40_000, "gpu").tiles
    assert all(B & (B - 1) == 0 and B >= 16 for B in tiles.values())
    with pytest.raises(
        InputError, match=r"no tile rule 'paper': .*use auto, gpu, or write --tiles B=64"
    ):
        rules.choose_tiles(iosim.algorithm("copy"), iosim.Copy(9), 9, "paper")


def test_what_rises_with_a_part_and_what_does_not() -> None:
    """Of what is clipped: the rest N − W of an axis falls as W grows, and W itself rises."""
    N, W, holds = Affine.of("N"), Affine.of("W"), {"W": "N"}
    rest, part, axis = (Poly.of(Clip(length, "B")) for length in (N - W, W, N))
    assert [rises_with(x, "W", holds) for x in (rest, part, axis)] == [False, True, True]
    assert all(rises_with(x, "B", holds) for x in (rest, part, axis))
    # Twice the clipped W outweighs nothing that is taken off it.
    assert rises_with(part + part - axis, "W", holds)
    assert not rises_with(axis - part, "W", holds)
