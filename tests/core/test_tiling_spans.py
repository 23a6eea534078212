"""Optimal tiles where a program's spans don't lie inside their axes for all values.

`bind` says which tilings are valid.  Here every tiling is bound, and counted one at a time; the
words of the best ones are counted once more by running them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples
from strategies import random_schedules

import iosim
from iosim.base.errors import CapacityError, InputError
from iosim.core.problem import Attention
from iosim.core.program.build import Builder
from iosim.core.tiling.plan import plans

pytestmark = pytest.mark.numbers

Tried = dict[tuple[int, ...], tuple[int, int]]
MOST_TILINGS = 500


def every_value(program: Any, sizes: Mapping[str, int]) -> list[range]:
    """All values of the parameters that the program uses; the others at their least."""
    text = repr(program.body)
    return [
        range(p.least, (sizes[p.axis] if repr(p.name) in text else p.least) + 1)
        for p in program.params
    ]


def try_all(program: Any, sizes: Mapping[str, int], values: list[Any]) -> Tried:
    """Values of the parameters → words moved and held, for every valid tiling."""
    names = [p.name for p in program.params]
    found: Tried = {}
    for tiling in itertools.product(*values):
        try:
            instance = iosim.bind(program, sizes, dict(zip(names, tiling, strict=True)))
        except InputError:
            continue
        found[tiling] = iosim.count(instance).total_words, iosim.peak(instance)
    return found


def check(
    program: Any, problem: Any, tried: Tried, fixed: Mapping[str, int], **options: Any
) -> int:
    """Hold the search against every valid tiling, at every M that makes a difference.

    Args:
        options: of the search, such as the lattice.

    Returns how many answers were checked.
    """
    if not tried:
        for ask in (iosim.smallest_capacity, partial(iosim.optimal_tiles, M=100)):
            with pytest.raises(InputError, match=r"has no valid tiling|lie inside") as error:
                ask(program, problem, fixed=fixed, **options)
            assert not isinstance(error.value, CapacityError)
        return 0
    least = min(held for _, held in tried.values())
    assert iosim.smallest_capacity(program, problem, fixed=fixed, **options) == least
    M = np.array(sorted({m for _, p in tried.values() for m in (p - 1, p, p + 1) if m > 0}))
    tiles, found = iosim.optimal_tiles_many(program, {**problem.sizes, **fixed}, M, **options)
    if least > 1:
        with pytest.raises(CapacityError, match=f"use M >= {least}$"):
            iosim.optimal_tiles(program, problem, least - 1, fixed=fixed, **options)
    names = [p.name for p in program.params]
    for k, m in enumerate(M.tolist()):
        fitting = {tiling: words for tiling, (words, held) in tried.items() if held <= m}
        assert found[k] == bool(fitting), m
        if not fitting:
            continue
        got = tuple(int(tiles[x][k]) for x in names)
        assert got in tried, (got, m)
        assert (tried[got][0], tried[got][1] <= m) == (min(fitting.values()), True), (got, m)
        check_ties(program, fixed, got, {t for t, w in fitting.items() if w == tried[got][0]})
    best = dict(zip(names, (int(tiles[x][-1]) for x in names), strict=True))
    hbm = problem.random()
    hbm |= {x.name: np.zeros([problem.sizes[a] for a in x.axes]) for x in problem.outputs}
    words, held = tried[tuple(best.values())]
    run = iosim.simulate(iosim.bind(program, problem.sizes, best), iosim.Machine(max(1, held)), hbm)
    assert (run.counts.total_words, run.peak_words) == (words, held)
    return len(M)


def check_ties(
    program: Any, fixed: Mapping[str, int], got: tuple[int, ...], ties: set[tuple[int, ...]]
) -> None:
    """Of tilings that move equally many words, the smallest holds and first tiles are taken."""
    names = [p.name for p in program.params]
    for plan in plans(program, frozenset(fixed)):
        rest = ties
        for x in plan.searched:
            if x in plan.solvable:
                break  # this tile, or one that follows, is solved for
            i = names.index(x)
            assert got[i] == min(t[i] for t in rest), (x, got)
            rest = {t for t in rest if t[i] == got[i]}


@given(
    random_schedules(mixed=True),
    st.sampled_from([0, 64]),
    st.sampled_from([None, "INT64_SAFE", "MOST_HELD"]),
    st.sampled_from([2**62, 200, 20]),
    st.data(),
)
@examples(5 / 2)
def test_random_spans_get_their_optimum(
    case: Any, few: int, long: str | None, trusted: int, data: Any
) -> None:
    """Spans from and to anything: holds, tile sizes, numbers, names of other axes.

    Also as beyond 64 bits: with `Wide`, which trusts numbers below a limit, or Python's integers.
    """
    program, sizes, _ = case
    sizes = {axis: min(extent, 4) for axis, extent in sizes.items()}
    values = every_value(program, sizes)
    while math.prod(map(len, values)) > MOST_TILINGS:
        axis = max(sizes, key=lambda x: sizes[x])
        sizes[axis] -= 1
        values = every_value(program, sizes)
    fixed = {
        p.name: data.draw(st.sampled_from(list(v)), label=p.name)
        for p, v in zip(program.params, values, strict=True)
        if data.draw(st.integers(0, 5), label=f"fix {p.name}") == 0
    }
    values = [
        [fixed[p.name]] if p.name in fixed else list(v)
        for p, v in zip(program.params, values, strict=True)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("iosim.core.tiling.search._FEW", few)
        patch.setattr("iosim.core.tiling.search.NEVER_LESS", trusted)
        patch.setattr("iosim.core.tiling.wide.EXACT", trusted + trusted // 2)
        if long is not None:
            patch.setattr(f"iosim.core.tiling.{long}", 0.0)
        check(program, iosim.MatMul(**sizes), try_all(program, sizes, values), fixed)


def rows_and_rest(b: Builder, start: Any, stop: Any) -> None:
    """Rows start … stop of K stay, those from stop on are streamed."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    b.stationary("N", "W1")
    b.stationary("N", "W2")
    b.stationary("d", "X")
    for h in b.grid("heads"):
        k = b.load("K", h, b.span("N", start, stop), "d")
        for i in b.grid("N", B_r):
            q = b.load("Q", h, i, "d")
            for j in b.tiles("N", B_c, start=stop):
                b.free(b.load("K", h, j, "d", name="kj"))
            b.store(q, "O", h, i, "d")
            b.free(q)
        b.free(k)


ENDS = [
    ("W1", "W2"),
    ("W2", "W1"),
    ("W1", "B_r"),
    ("B_r", "W1"),
    ("B_c", "B_r"),
    ("B_r", "B_c"),
    (0, "B_r"),
    (0, "B_c"),
    (2, "W1"),
    (0, 3),
    (3, "B_r"),
    ("X", "W1"),
    (0, "X"),
    (0, "d"),
    ("d", "W2"),
    ("W1", 3),
]


@pytest.mark.parametrize(("start", "stop"), ENDS)
def test_spans_that_mix_parameters(start: Any, stop: Any) -> None:
    """Two holds, a tile as a stop, numbers, another axis; each also with one parameter given."""
    program = iosim.build("user", Attention, lambda b: rows_and_rest(b, start, stop))
    answers = 0
    for N, d in ((1, 2), (2, 5), (5, 3)):
        problem = Attention(N, d)
        values = [list(v) for v in every_value(program, problem.sizes)]
        answers += check(program, problem, try_all(program, problem.sizes, values), {})
        for k, p in enumerate(program.params):
            some = [v if i != k else v[-1:] for i, v in enumerate(values)]
            tried = try_all(program, problem.sizes, some)
            answers += check(program, problem, tried, {p.name: some[k][0]})
    assert answers > 50


@pytest.mark.parametrize(("start", "stop"), ENDS)
def test_spans_on_the_lattice_of_powers_of_two(start: Any, stop: Any) -> None:
    """All or nothing of a hold, and tiles of 16, 32 … up to the one that covers the axis."""
    program = iosim.build("user", Attention, lambda b: rows_and_rest(b, start, stop))
    for N, d in ((3, 5), (20, 3), (35, 16)):
        problem = Attention(N, d)
        values = [
            [0, problem.sizes[p.axis]]
            if p.least == 0
            else [v for v in (16, 32, 64) if v == 16 or v < 2 * problem.sizes[p.axis]]
            for p in program.params
        ]
        used = [
            v if repr(p.name) in repr(program.body) else v[:1]
            for p, v in zip(program.params, values, strict=True)
        ]
        check(program, problem, try_all(program, problem.sizes, used), {}, lattice="pow2")


def test_where_no_tiling_is_valid() -> None:
    """The sizes, the spans and the next step are named, and it is not a question of capacity."""
    program = iosim.build("user", Attention, lambda b: rows_and_rest(b, 3, "B_r"))
    assert iosim.smallest_capacity(program, Attention(3, 2)) > 0
    for ask in (iosim.smallest_capacity, partial(iosim.optimal_tiles, M=100)):
        with pytest.raises(InputError) as error:
            ask(program, Attention(2, 7))
        assert not isinstance(error.value, CapacityError)
        assert str(error.value) == (
            "user has no valid tiling at N = 2, d = 7, heads = 1: no tile sizes put all of "
            "N[3:B_r] inside their axes; give others"
        )


def test_points_with_and_without_valid_tilings_side_by_side() -> None:
    """A point where nothing is valid is not found, and leaves the others as they are."""
    program = iosim.build("user", Attention, lambda b: rows_and_rest(b, 3, "B_r"))
    N, M = np.array([2, 3, 9, 1, 70]), np.array([500, 500, 50, 9, 5000])
    tiles, found = iosim.optimal_tiles_many(program, {"N": N, "d": 4, "heads": 1}, M)
    assert found.tolist() == [False, True, True, False, True]
    for k in np.flatnonzero(found):
        alone = iosim.optimal_tiles(program, Attention(int(N[k]), 4, 1), int(M[k]))
        assert {x: int(v[k]) for x, v in tiles.items()} == alone.tiles
