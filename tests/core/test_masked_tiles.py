"""Optimal tiles under masks: the bounds that the search proves, and its answers, against all."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples

import iosim
from iosim.base.errors import InputError
from iosim.core.counting.arrays import OnArrays
from iosim.core.counting.closed import close, highest
from iosim.core.counting.integers import OnInts
from iosim.core.counting.poly import Part, Poly, Sum
from iosim.core.counting.signs import falls_with
from iosim.core.program.index import Affine, Span, Tile
from iosim.core.tiling.candidates import EveryValue
from iosim.core.tiling.evaluate import Peak, Points
from iosim.core.tiling.plan import form_of, plans
from iosim.core.tiling.search import Search

pytestmark = pytest.mark.numbers

SCHEDULES = (
    "flash1",
    "flash2",
    "small_cache",
    "flash2_chunked",
    "flash2_keep",
    "naive",
    "spill_rows",
    "flash2_log",
    "flash2_parts",
    "small_tiles",
)
OPTIONS: tuple[dict[str, Any], ...] = (
    {"causal": True},
    {"N_k": 13, "causal": True},
    {"N_k": 4, "causal": True},
    {"window": (2, 0)},
    {"window": (0, 3)},
    {"window": (3, 1), "sinks": 2},
    {"N_k": 12, "window": (3, 2), "sinks": 1},
    {"N_k": 14, "window": (4, None), "sinks": 3},
    {"window": (None, 2), "align": "upper left"},
)


def problem(N: int, options: dict[str, Any], d: int = 2) -> iosim.Attention:
    return iosim.Attention(N, d, **options)


def program(name: str, options: dict[str, Any]) -> Any:
    try:
        return iosim.algorithm(name).program_for(problem(5, options))
    except InputError:  # a schedule without this option
        return None


CASES = [
    (name, k) for name in SCHEDULES for k, options in enumerate(OPTIONS) if program(name, options)
]


@given(st.sampled_from(CASES), st.integers(1, 40), st.data())
@examples(5 / 2)
def test_bounds_of_boxes_are_below_everything_inside(
    case: tuple[str, int], N: int, data: Any
) -> None:
    name, k = case
    traced, sizes = program(name, OPTIONS[k]), problem(N, OPTIONS[k]).sizes
    low, high = ({x: np.array([v]) for x, v in sizes.items()} for _ in range(2))
    for p in traced.params:
        end = st.integers(p.least, sizes[p.axis])
        a, b = sorted((data.draw(end, label=p.name), data.draw(end, label=p.name)))
        low[p.name], high[p.name] = np.array([a]), np.array([b])
    reading, closed = OnArrays(low, high), close(traced)
    words, above = 0, OnArrays(high, low, upper=True)
    for monomial, c in (term for p in closed.counts.values() for term in p.terms.items()):
        words += int(np.ravel(Poly({monomial: c}).evaluate(reading if c > 0 else above))[0])
    top = int(np.ravel(highest(closed.peak, reading))[0])
    ends = [(int(low[p.name][0]), int(high[p.name][0])) for p in traced.params]
    inside = st.tuples(*(st.integers(*x) for x in ends))  # all of them would not fit in memory
    some = data.draw(st.lists(inside, max_size=12))
    for values in (tuple(a for a, _ in ends), tuple(b for _, b in ends), *some):
        tiles = dict(zip((p.name for p in traced.params), values, strict=True))
        try:
            instance = iosim.bind(traced, sizes, tiles)
        except InputError:
            continue
        assert words <= iosim.count(instance).total_words
        assert top <= iosim.peak(instance)


HELD = [(name, k) for name, k in CASES if name in ("naive", "small_cache", "spill_rows")]


@pytest.mark.parametrize("name", ["naive", "spill_rows"])
def test_words_by_a_hold_have_both_bounds(name: str) -> None:
    for options in OPTIONS:
        plan = next(p for p in plans(program(name, options), frozenset()) if "W1" in p.holds)
        assert plan.ends is not None
        assert plan.ends.hold == "W1"
        # Sinks that every row sees are rounded apart from the rest.
        apart = options.get("sinks") and options["window"][1] is None
        assert plan.ends.shared.keys() == (set() if apart else {"B_c1"})


@given(st.sampled_from(HELD), st.integers(1, 10), st.integers(1, 4), st.data())
def test_bounds_at_the_ends_of_a_hold_are_below_everything_that_fits(
    case: tuple[str, int], N: int, d: int, data: Any
) -> None:
    name, k = case
    traced, sizes = program(name, OPTIONS[k]), problem(N, OPTIONS[k], d).sizes
    plan = next(p for p in plans(traced, frozenset()) if "W1" in p.holds)
    M = data.draw(st.integers(3, 2 * N * d + 40), label="M")
    free = ("W1", "B_r1", "B_c1", "B_d1")
    extent = {p.name: np.array([sizes[p.axis]]) for p in traced.params if p.name in free}
    choices = {x: EveryValue(v, 0 if x == "W1" else 1) for x, v in extent.items()}
    base = {x: np.array([v]) for x, v in sizes.items()}
    search = Search(plan, "B_c1", choices, base, np.array([M]))
    low, high = {}, {}
    for x in ("W1", "B_r1"):
        ends = st.integers(0, int(choices[x].count[0]) - 1)
        a, b = sorted((data.draw(ends, label=x), data.draw(ends, label=x)))
        low[x], high[x] = np.array([a]), np.array([b])
    at = np.array([0])
    lower, upper = search.points.corners(at, low, high)
    over = search.solver.rooms(lower, upper)
    room = search.solver(at, lower, upper, over)
    upper["B_c1"] = search.points.value("B_c1", np.maximum(room, 0), at)
    assert search.ends is not None
    bound = int(search.ends(at, lower | {"B_c1": upper["B_c1"]}, upper, over)[0])
    for W in range(int(low["W1"][0]), int(high["W1"][0]) + 1):
        for B in range(int(low["B_r1"][0]) + 1, int(high["B_r1"][0]) + 2):
            for C in range(1, int(extent["B_c1"][0]) + 1):
                value = OnInts(sizes | {"W1": W, "B_r1": B, "B_c1": C, "B_d1": 1})
                if highest(plan.levels, value) <= M:
                    assert room[0] >= C - 1
                    assert bound <= plan.total.evaluate(value)


@given(st.sampled_from(range(len(OPTIONS))), st.integers(2, 40), st.integers(1, 6), st.data())
def test_bounds_on_lines_are_below_everything_inside(k: int, N: int, d: int, data: Any) -> None:
    traced, sizes = program("small_cache", OPTIONS[k]), problem(N, OPTIONS[k], d).sizes
    plan = next(p for p in plans(traced, frozenset()) if "B_r2" in p.steps)
    axis_of = {p.name: p.axis for p in traced.params}
    choices = {x: EveryValue(np.array([sizes[axis_of[x]]]), 1) for x in ("B_r2", "B_c2", "B_d2")}
    base = {x: np.array([v]) for x, v in sizes.items()}
    search = Search(plan, "B_d2", choices, base, np.array([10**6]))
    a, b = sorted(data.draw(st.integers(0, N - 1), label="B_r2") for _ in range(2))
    room = data.draw(st.integers(0, d - 1), label="B_d2")
    at, low, high = np.array([0]), {"B_r2": np.array([a])}, {"B_r2": np.array([b])}
    lower, upper = search.points.corners(at, low, high)
    upper["B_d2"] = search.points.value("B_d2", room, at)
    bound = int(np.ravel(search._bound(at, lower, upper))[0])
    for B, C in itertools.product(range(a + 1, b + 2), range(1, room + 2)):
        value = OnInts(sizes | {"B_r2": B, "B_c2": 1, "B_d2": C})
        assert bound <= plan.total.evaluate(value)


def test_a_bound_on_a_line_is_close_where_words_fall_and_rise() -> None:
    """Under a window more rows share the keys of a larger tile, and each of them sees less."""
    options = {"window": (100, 0)}
    plan = plans(program("small_cache", options), frozenset())[-1]
    sizes, B = problem(3000, options, 40).sizes, range(60, 71)
    choices = {x: EveryValue(np.array([3000]), 1) for x in ("B_r2", "B_c2")}
    choices["B_d2"] = EveryValue(np.array([40]), 1)
    base = {x: np.array([v]) for x, v in sizes.items()}
    search = Search(plan, "B_d2", choices, base, np.array([10**6]))
    at = np.array([0])
    ends = ({"B_r2": np.array([x - 1])} for x in (B[0], B[-1]))
    lower, upper = search.points.corners(at, *ends)
    upper["B_d2"] = np.array([40])
    words = [plan.total.evaluate(OnInts(sizes | {"B_r2": x, "B_d2": 40})) for x in B]
    bound = int(np.ravel(search._bound(at, lower, upper))[0])
    assert 0.998 * min(words) < bound <= min(words)
    search.points.step = None  # every sum at its own worst
    assert int(np.ravel(search._bound(at, lower, upper))[0]) < 0.97 * min(words)


@pytest.mark.parametrize("name", [a.name for a in iosim.all_algorithms()])
def test_a_tile_that_is_solved_for_is_in_lines(name: str) -> None:
    """Without them, the search would bisect occupancies for every box."""
    algorithm = iosim.algorithm(name)
    if name in ("block_sparse", "copy", "matmul", "paged"):
        return
    given = dict.fromkeys(algorithm.needs, 8) | (
        {"heads": 8} if "kv_heads" in algorithm.needs else {}
    )
    for options in ({}, *OPTIONS[:1], *OPTIONS[3:4]):
        one = algorithm.problem(8, 2, **given, **options)
        if algorithm.supports(one):
            for plan in plans(algorithm.program_for(one), frozenset()):
                assert all(plan.lines[tile] for tile in plan.solvable)


SOLVED = [
    ("small_tiles", "B_r1", "B_c1"),
    ("small_tiles", "B_r2", "B_d2"),
    ("small_cache", "B_r2", "B_d2"),
    ("naive", "B_r3", "B_d3"),
    ("split_kv", "B_r", "B_s"),
]


@given(
    st.sampled_from(SOLVED),
    st.sampled_from([None, *OPTIONS[:5]]),
    st.integers(1, 9),
    st.integers(1, 4),
    st.data(),
)
@examples(2)
def test_no_more_of_a_tile_fits_than_its_reach(
    case: tuple[str, str, str], options: dict[str, Any] | None, N: int, d: int, data: Any
) -> None:
    """Over boxes of the others, against every tile by its exact peak; at a point it is exact."""
    name, step, tile = case
    given = (options or {}) | ({"N_k": 12} if name == "split_kv" else {})
    one = iosim.Attention(N, d, **given)
    algorithm = iosim.algorithm(name)
    traced, sizes = algorithm.program_for(one), one.sizes
    plan = next(p for p in plans(traced, frozenset()) if tile in p.solvable)
    M = data.draw(st.integers(3, 2 * N * d + 40), label="M")
    names = (*plan.searched, *plan.spare)
    least = {p.name: p.least for p in traced.params}
    extent = {p.name: np.array([sizes[p.axis]]) for p in traced.params if p.name in names}
    choices = {x: EveryValue(v, least[x]) for x, v in extent.items()}
    base = {x: np.array([v]) for x, v in sizes.items()}
    dtype = data.draw(st.sampled_from([np.int64, object]), label="dtype")
    search = Search(plan, tile, choices, base, np.array([M]), dtype)
    low, high, inside = {}, {}, []
    for x in search.boxed:
        ends = st.integers(0, int(choices[x].count[0]) - 1)
        a, b = sorted((data.draw(ends, label=x), data.draw(ends, label=x)))
        low[x], high[x] = np.array([a]), np.array([b])
        inside.append(range(a + least[x], b + least[x] + 1))
    at = np.array([0])
    reach = int(search.solver(at, *search.points.corners(at, low, high))[0])
    first = sizes | {x: least[x] for x in plan.spare}
    for others in itertools.product(*inside):
        chosen = first | dict(zip(search.boxed, others, strict=True))
        for position in range(int(choices[tile].count[0])):
            value = OnInts(chosen | {tile: position + 1})
            assert reach >= position or highest(plan.levels, value) > M
    assert step in search.boxed
    point = search.points.values(at, low)
    here = int(search.solver(at, point, point)[0])
    chosen = first | {x: int(low[x][0]) + least[x] for x in search.boxed}
    fits = [
        highest(plan.levels, OnInts(chosen | {tile: position + 1})) <= M
        for position in range(int(choices[tile].count[0]))
    ]
    assert here == sum(fits) - 1


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (512, 0)}])
@pytest.mark.parametrize("name", ["small_tiles", "small_cache", "naive", "flash2_parts"])
def test_large_sizes_are_bounded_as_well(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words of more than 64 bits have all bounds that fewer words have."""
    looks: list[int] = []
    look = Search._look

    def counting_look(self: Search, boxes: Any, best: Any) -> Any:
        looks.append(len(boxes[0]))
        return look(self, boxes, best)

    monkeypatch.setattr(Search, "_look", counting_look)
    for N in (2**22, 2**30, 2**40):
        one = iosim.Attention(N, 64, **options)
        algorithm = iosim.algorithm(name)
        if algorithm.supports(one):
            iosim.optimal_tiles(algorithm.program_for(one), one, 24_576)
    assert sum(looks) < 4000


@given(st.sampled_from(CASES), st.integers(1, 40), st.integers(1, 5), st.data())
def test_no_iteration_holds_more_than_the_most_of_its_level(
    case: tuple[str, int], N: int, d: int, data: Any
) -> None:
    """And a tiling that fits by that is one whose exact peak does."""
    name, k = case
    traced, sizes = program(name, OPTIONS[k]), problem(N, OPTIONS[k], d).sizes
    given = {p.name: data.draw(st.integers(p.least, sizes[p.axis])) for p in traced.params}
    reading = OnInts(sizes | given)
    for plan in plans(traced, frozenset()):
        held = [reading.most(v) for v in plan.levels]
        most = [words and int(words.evaluate(reading)) for words in plan.above]
        assert all(a is not None and a <= b for a, b in zip(held, most, strict=True))
        at, M = np.array([0]), max(held, default=1) + data.draw(st.integers(-1, 1), label="M")
        choices = {
            p.name: EveryValue(np.array([sizes[p.axis]]), p.least)
            for p in traced.params
            if p.name in plan.params
        }
        base = {x: np.array([v]) for x, v in sizes.items()}
        points = Points(plan, choices, base, np.array([M]), np.int64)
        point = {x: np.array([v]) for x, v in (sizes | given).items()}
        assert Peak(points, plan.params).fits(at, point).tolist() == [max(held, default=0) <= M]


@examples(3 / 5)
@given(st.sampled_from([0, 1, 2]), st.integers(1, 12), st.integers(1, 3), st.data())
def test_no_more_of_a_hold_fits_than_its_reach(k: int, N: int, d: int, data: Any) -> None:
    traced, sizes = program("flash2_keep", OPTIONS[k]), problem(N, OPTIONS[k], d).sizes
    (plan,) = plans(traced, frozenset())
    M = data.draw(st.integers(3, 4 * N * d + 40), label="M")
    axis_of = {p.name: p.axis for p in traced.params}
    choices = {x: EveryValue(np.array([sizes[a]]), int(x != "W")) for x, a in axis_of.items()}
    base = {x: np.array([v]) for x, v in sizes.items()}
    search = Search(plan, None, choices, base, np.array([M]))
    low, high = {}, {}
    for x in ("W", "B_r"):
        ends = st.integers(0, int(choices[x].count[0]) - 1)
        a, b = sorted((data.draw(ends, label=x), data.draw(ends, label=x)))
        low[x], high[x] = np.array([a]), np.array([b])
    at = np.array([0])
    reach = int(search.reaches["W"](at, *search.points.corners(at, low, high))[0])
    for W in range(int(low["W"][0]), int(high["W"][0]) + 1):
        for B in range(int(low["B_r"][0]) + 1, int(high["B_r"][0]) + 2):
            value = OnInts(sizes | {"W": W, "B_r": B, "B_c": 1})
            assert reach >= W or highest(plan.levels, value) > M


@pytest.mark.parametrize("span", ["stop", "start", "window"])
def test_a_sum_over_few_tiles_is_bounded_tile_by_tile(span: str) -> None:
    """Exact where words don't change between two steps that make equally many tiles."""
    i = Tile("i", "n")
    start = Affine() if span == "stop" else i.start - 7 if span == "window" else i.start
    stop = Affine.of("n") if span == "start" else i.stop
    atom = Sum(i, Span("n", Affine(), Affine.of("n")), "B", (Part(Span("n", start, stop)),))
    for n, a, b in ((100, 34, 49), (101, 26, 33), (97, 17, 19), (60, 30, 59)):
        low, high = ({"n": np.array([n]), "B": np.array([B])} for B in (a, b))
        words = [OnInts({"n": n, "B": B})(atom) for B in range(a, b + 1)]
        assert int(OnArrays(low, high)(atom)[0]) == min(words)


@examples(4)
@given(st.data())
def test_a_sum_of_lengths_is_above_its_integral(data: Any) -> None:
    """Any span whose ends rise with the tile's, at every step between two."""

    def number(low: int, high: int, name: str) -> int:
        return int(data.draw(st.integers(low, high), label=name))

    i = Tile("i", "n")
    start = data.draw(st.sampled_from([Affine(), i.start, 2 * i.start])) + number(-30, 30, "start")
    stop = data.draw(st.sampled_from([Affine.of("m"), i.stop, 3 * i.stop]))
    stop = stop + number(-30, 30, "stop")
    within = None
    if start.edges or stop.edges:
        m, W = Affine.of("m"), Affine.of("W")
        within = data.draw(st.sampled_from([None, (Affine(2), m - 3), (Affine(), W), (W, m)]))
    if not start.edges and not stop.edges:
        return
    step = data.draw(st.sampled_from([None, "C"]))
    factors: tuple[Any, ...] = (Part(Span("m", start, stop, within), step),)
    if data.draw(st.booleans()):  # times the rows of the tile
        factors = (i, *factors)
    atom = Sum(i, Span("n", Affine(), Affine.of("n")), "B", factors)
    sizes = {"n": number(1, 60, "n"), "m": number(1, 60, "m"), "C": number(1, 20, "C")}
    a, b = sorted((number(1, sizes["n"], "B"), number(1, sizes["n"], "B")))
    v, w = sorted((number(0, sizes["m"], "W"), number(0, sizes["m"], "W")))
    low, high = (
        {x: np.array([k]) for x, k in (sizes | {"B": B, "W": W}).items()}
        for B, W in ((a, v), (b, w))
    )
    reading = OnArrays(low, high)
    bound = float(np.ravel(reading(atom))[0])
    first, last = reading.at_ends("B")(atom).ravel()
    for B, W in itertools.product(range(a, b + 1), range(v, w + 1)):
        words = OnInts(sizes | {"B": B, "W": W})(atom)
        assert bound <= words
        assert first + (last - first) * (B - a) / max(b - a, 1) <= words + 1e-6


def test_the_bound_of_a_causal_mask_is_exact_where_tiles_divide() -> None:
    total = close(program("flash2", {"causal": True})).counts["load", "K"]
    (atom,) = (x for x in total.atoms() if isinstance(x, Sum))
    env = {"N": np.array([840] * 5), "B_r": np.array([1, 4, 30, 210, 840])}
    want = [OnInts({"N": 840, "B_r": int(B)})(atom) for B in env["B_r"]]
    assert OnArrays(env, dict(env))(atom).tolist() == want


@functools.lru_cache
def tried(name: str, k: int, N: int, d: int = 2, nest: str = "") -> list[tuple[int, int]]:
    """Words and peak of every valid tiling; with a nest, of those that leave the others alone."""
    traced, sizes, found = program(name, OPTIONS[k]), problem(N, OPTIONS[k], d).sizes, []
    given = other_parameters(traced, nest)
    ranges = [
        [given[p.name]] if p.name in given else range(p.least, sizes[p.axis] + 1)
        for p in traced.params
    ]
    for values in itertools.product(*ranges):
        tiles = dict(zip((p.name for p in traced.params), values, strict=True))
        try:
            instance = iosim.bind(traced, sizes, tiles)
        except InputError:
            continue
        found.append((iosim.count(instance).total_words, iosim.peak(instance)))
    return found


def other_parameters(traced: Any, nest: str) -> dict[str, int]:
    """The parameters of other nests, whose names end in other numbers, at their least."""
    return {p.name: p.least for p in traced.params if not p.name.endswith(nest)}


def check_best(name: str, k: int, N: int, d: int, nest: str = "") -> None:
    """The tiles that are found are the best of all that are tried, at some capacities."""
    found, here = tried(name, k, N, d, nest), problem(N, OPTIONS[k], d)
    if not found:
        return  # more sinks than keys: no valid tiling
    traced = program(name, OPTIONS[k])
    fixed = other_parameters(traced, nest)
    peaks = sorted({peak for _, peak in found})
    assert iosim.smallest_capacity(traced, here, fixed=fixed) == peaks[0]
    for M in {*peaks[:: max(1, len(peaks) // 8)], peaks[-1]}:
        best = iosim.optimal_tiles(traced, here, M, fixed=fixed)
        assert best.total_words == min(words for words, peak in found if peak <= M)
        assert best.peak_words <= M


@pytest.mark.parametrize(("name", "k"), [x for x in HELD if OPTIONS[x[1]].get("N_k", 4) == 4])
def test_the_best_tiles_of_each_nest_are_the_best_of_all(name: str, k: int) -> None:
    """Nests share no tiles, so that each can be tried by itself."""
    for nest in {p.name[-1] for p in program(name, OPTIONS[k]).params}:
        check_best(name, k, 5, 2, nest)


@pytest.mark.slow
@pytest.mark.parametrize(("N", "d"), [(11, 3), (9, 5), (16, 2)])
@pytest.mark.parametrize(("name", "k"), HELD)
def test_the_best_tiles_of_each_nest_are_the_best_of_all_at_length(
    name: str, k: int, N: int, d: int
) -> None:
    for nest in {p.name[-1] for p in program(name, OPTIONS[k]).params}:
        check_best(name, k, N, d, nest)


SMALL = [(name, k) for name, k in CASES if name in ("flash1", "flash2", "flash2_keep")]


@pytest.mark.parametrize(("name", "k"), SMALL)
def test_the_best_tiles_are_the_best_of_all(name: str, k: int) -> None:
    N = 7 if name == "flash2_keep" else 11
    check_best(name, k, N, 2)


@pytest.mark.parametrize("name", ["flash1", "flash2"])
def test_many_points_are_searched_alike(name: str) -> None:
    """The answer at a point does not depend on the points beside it, nor on how it is evaluated."""
    for options in (OPTIONS[0], OPTIONS[5]):
        traced = program(name, options)
        rng = np.random.default_rng(1)
        lengths, M = rng.integers(20, 3000, 40), rng.integers(60, 9000, 40)
        given = problem(5, options).sizes | {"N": lengths}
        tiles, fits = iosim.core.tiling.optimal_tiles_many(traced, given, M)
        for at in range(0, 40, 5):
            here = problem(int(lengths[at]), options)
            assert fits[at]
            best = iosim.optimal_tiles(traced, here, int(M[at]))
            assert best.tiles == {x: int(v[at]) for x, v in tiles.items()}


def test_words_fall_with_a_hold_that_the_last_tile_sees_past() -> None:
    """Up to the end of the keys; rows that are aligned at the upper left may stop before it."""
    for options in ({"causal": True}, {"causal": True, "N_k": 4}):
        total = close(program("flash2_keep", options)).nests[0].total
        axis = "N_k" if "N_k" in options else "N"
        assert falls_with(total, "W", {"W": axis})
        assert not falls_with(total + Poly.of("W"), "W", {"W": axis})
        for N, B in itertools.product((4, 7, 12), (1, 3, 5)):
            sizes = problem(N, options).sizes | {"B_r": min(B, N), "B_c": 1}
            held = range(sizes[axis] + 1)
            words = [int(total.evaluate(OnInts(sizes | {"W": W}))) for W in held]
            assert words == sorted(words, reverse=True)
    apart = {"causal": True, "N_k": 9, "align": "upper left"}
    total = close(program("flash2_keep", apart)).nests[0].total
    assert not falls_with(total, "W", {"W": "N_k"})
    first, last = (
        int(total.evaluate(OnInts(problem(4, apart).sizes | {"B_r": 4, "B_c": 1, "W": W})))
        for W in (0, 9)
    )
    assert first < last


def test_a_sum_falls_where_its_terms_do() -> None:
    """Fewer rows see later keys, so flash1 moves less with larger tiles; flash2 need not."""
    flash1 = close(program("flash1", {"causal": True})).nests[0].total
    flash2 = close(program("flash2", {"causal": True})).nests[0].total
    small = close(program("small_cache", {"causal": True})).nests[0].total
    assert falls_with(flash1, "B_c", {})
    assert not falls_with(flash2, "B_r", {})
    assert falls_with(small, "B_c1", {"W1": "d"})
    assert not falls_with(small, "B_r1", {"W1": "d"})
    for N, d in itertools.product((7, 12, 20), (1, 3)):
        sizes = iosim.Attention(N, d).sizes
        words = [int(flash1.evaluate(OnInts(sizes | {"B_c": B, "B_r": 1}))) for B in range(1, N)]
        assert words == sorted(words, reverse=True)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (512, 0)}])
def test_nests_of_the_same_form_have_the_same_tiles(options: dict[str, Any]) -> None:
    """Where the first of them is given, the other is searched by itself."""
    algorithm = iosim.algorithm("naive_backward")
    one = dataclasses.replace(algorithm.problem.beside_attention(3000, 40, 1), **options)
    traced = algorithm.program_for(one)
    forms = [plan.form for plan in plans(traced, frozenset())]
    assert len(set(forms)) == len(forms) - 1  # two others differ in what a row holds
    for M in (300, 20_000):
        tiles = iosim.optimal_tiles(traced, one, M).tiles
        alike = {"B_r2": "B_r6", "B_c2": "B_c6", "B_d2": "B_d6"}
        assert all(tiles[x] == tiles[y] for x, y in alike.items())
        given = {x: tiles[x] for x in alike}
        assert iosim.optimal_tiles(traced, one, M, fixed=given).tiles == tiles


def test_forms_tell_all_that_a_search_depends_on() -> None:
    one = iosim.Attention(30, 4, causal=True)
    traced = iosim.algorithm("naive").program_for(one)
    first, *_, last = plans(traced, frozenset())
    params = [p for p in traced.params if p.name in first.params]
    renamed = [dataclasses.replace(p, name=f"{p.name}0") for p in params]
    decided = [True, *(False for _ in params[1:])]
    here: tuple[Any, ...] = (first.total, first.levels, first.constraints, params, decided)
    changes: list[Any] = [last.total, first.levels[1:], [Affine.of("W1") - 1], renamed, [False] * 4]
    forms = {form_of(*here)}
    for k, other in enumerate(changes):
        forms.add(form_of(*here[:k], other, *here[k + 1 :]))
    assert len(forms) == 1 + len(changes)


@given(st.sampled_from(CASES), st.integers(1, 40), st.integers(1, 5), st.data())
def test_words_without_common_sizes_are_in_proportion(
    case: tuple[str, int], N: int, d: int, data: Any
) -> None:
    """Of any two tilings of a nest, the same one moves more by both."""
    name, k = case
    traced, one = program(name, OPTIONS[k]), problem(N, OPTIONS[k], d)
    sizes = one.sizes | {"heads": 3}

    def draw(names: Any) -> dict[str, int]:
        ends = {p.name: (p.least, sizes[p.axis]) for p in traced.params if p.name in names}
        return {x: data.draw(st.integers(*ends[x]), label=x) for x in ends}

    others = draw({p.name for p in traced.params})
    for plan in plans(traced, frozenset()):
        pairs = []
        for _ in range(3):
            reading = OnInts(sizes | others | draw(plan.params))
            counts = close(traced).counts.values()
            pairs.append((sum(x.evaluate(reading) for x in counts), plan.total.evaluate(reading)))
        (a, x), (b, y), (c, z) = pairs
        assert (a - b) * (y - z) == (b - c) * (x - y)
        assert (a > b) == (x > y)
