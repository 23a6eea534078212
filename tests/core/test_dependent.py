"""Loops and buffers bounded by the edges of outer tiles."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from causal import masked
from hypothesis import given
from hypothesis import strategies as st
from sizes import draws, examples
from strategies import Square, dependent_schedules
from walking import agree, by_walking

import iosim
from iosim.base.errors import ProgramError
from iosim.core.counting import symbols
from iosim.core.counting.arrays import OnArrays
from iosim.core.counting.closed import close, highest
from iosim.core.counting.numbers import peak_at
from iosim.core.problem import Tensor
from iosim.core.program.check import check as check_program
from iosim.core.program.index import Affine, Edge, Span, Tile
from iosim.core.program.ir import Free, Load, Loop, Param, Program
from iosim.gpu import emit, interpret

pytestmark = pytest.mark.numbers


@given(dependent_schedules(most=draws(40, 9)))
@examples(5 / 2)
def test_dependent_loops_are_counted_alike(case: Any) -> None:
    agree(*case)


@given(dependent_schedules(most=draws(25, 12), lanes=True))
@examples(3 / 2)
def test_lanes_of_unequal_shapes_run_at_once(case: Any) -> None:
    """They drop out of inner loops, run beside one another where a tile is short, and come back."""
    agree(*case)


@pytest.mark.parametrize("lanes", [1, 2**18])
def test_lanes_that_are_no_neighbours_change_a_part(lanes: int) -> None:
    """The first and the last window are cut alike, and the others are wider."""

    def schedule(b: iosim.Builder) -> None:
        (B,) = b.tile_sizes("n", "B")
        (C,) = b.tile_sizes("m", "C")
        for i in b.grid("n", B):
            x = b.zeros("x", i, "m")
            for start, stop in ((i.start - 2, i.start - 1), (i.start - 2, i.stop + 2)):
                for j in b.tiles("m", C, start, stop):
                    b.op("mask_after", x[j], a=-99)
            b.store(x, "B", i, "m")
            b.free(x)

    instance = iosim.bind(
        iosim.build("parts", Square, schedule), {"n": 12, "m": 12}, {"B": 3, "C": 9}
    )
    run = iosim.simulate(instance, iosim.Machine(36), {}, lanes=lanes)
    for r, c in np.ndindex(12, 12):
        start = r - r % 3
        assert (run.outputs["B"][r, c] == -np.inf) == (start - 2 <= c < start + 5)


@given(dependent_schedules())
@examples(3 / 2)
def test_the_iteration_that_is_said_has_the_peak(case: Any) -> None:
    """Of all iterations, one that has the most words is at these tiles, with these buffers."""
    program, sizes, tiles = case
    found = peak_at(iosim.bind(program, sizes, tiles))
    every: list[tuple[int, set[str], dict[str, Any]]] = []

    def record_moment(words: int, held: dict[str, int], at: dict[Any, int]) -> None:
        edges = [x for x in at if isinstance(x, Edge)]
        where = {x.tile.var: (at[x], at[Edge(x.tile, "stop")]) for x in edges if x.end == "start"}
        every.append((words, set(held), where))

    _, top = by_walking(program, sizes, tiles, record_moment)
    assert found.words == top
    assert top == 0 or (top, set(found.buffers), found.tiles) in every


@examples(1 / 10)
@given(dependent_schedules())
def test_the_formula_says_the_same(case: Any) -> None:
    program, sizes, tiles = case
    instance = iosim.bind(program, sizes, tiles)
    try:
        want = iosim.count(instance), iosim.peak(instance)
    except ProgramError:
        return
    assert symbols.count(program).at(sizes, tiles) == want


def causal(b: iosim.Builder) -> None:
    """FlashAttention-2 in which rows i see columns up to their own last."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            q = b.load("Q", h, i, "d")
            o, m, l = b.zeros("o", i, "d"), b.lowest("m", i), b.zeros("l", i)
            for j in b.tiles("N", B_c, stop=i.stop):
                k, v = b.load("K", h, j, "d"), b.load("V", h, j, "d")
                s = b.zeros("s", i, j)
                b.op("matmul_nt", s, q, k)
                b.op("online_softmax", o, m, l, s, v)
                b.free(k, v, s)
            b.op("finish", o, l)
            b.store(o, "O", h, i, "d")
            b.free(q, o, m, l)


def columns_first(b: iosim.Builder) -> None:
    """The same scores with K and V outside: columns j are seen by rows from their own first on."""
    B_c, B_r = b.tile_sizes("N", "B_c", "B_r")
    for h in b.grid("heads"):
        for j in b.tiles("N", B_c):
            k, v = b.load("K", h, j, "d"), b.load("V", h, j, "d")
            for i in b.grid("N", B_r, start=j.start):
                q, o = b.load("Q", h, i, "d"), b.load("O", h, i, "d")
                s = b.zeros("s", i, j)
                b.op("matmul_nt", s, q, k)
                b.op("matmul_nn", o, s, v)
                b.store(o, "O", h, i, "d")
                b.free(q, o, s)
            b.free(k, v)


def by_trying(program: Any, sizes: dict[str, int]) -> list[tuple[int, int]]:
    """Words and peak of every tiling, by counting each."""
    found = []
    ranges = [range(p.least, sizes[p.axis] + 1) for p in program.params]
    for values in itertools.product(*ranges):
        tiles = {p.name: value for p, value in zip(program.params, values, strict=True)}
        instance = iosim.bind(program, sizes, tiles)
        found.append((iosim.count(instance).total_words, iosim.peak(instance)))
    return found


@pytest.mark.parametrize("schedule", [causal, columns_first])
@pytest.mark.parametrize("N", [1, 2, 10, 17])
def test_what_follows_tiles_is_tiled_like_brute_force(schedule: Any, N: int) -> None:
    """Larger tiles may move more words here, so nothing may be taken for granted."""
    program = iosim.build(schedule.__name__, iosim.Attention, schedule)
    problem = iosim.Attention(N, 2)
    found = by_trying(program, problem.sizes)
    least = min(peak for _, peak in found)
    for M in (10, 13, 17, 26, 33, 40, 58, 77, 101, 200):
        words = min((words for words, peak in found if peak <= M), default=None)
        if words is None:
            with pytest.raises(iosim.CapacityError):
                iosim.optimal_tiles(program, problem, M)
            continue
        best = iosim.optimal_tiles(program, problem, M)
        assert (best.total_words, iosim.smallest_capacity(program, problem)) == (words, least)


@pytest.mark.parametrize("schedule", [causal, columns_first])
@pytest.mark.parametrize("lanes", [1, 2**18])
def test_grid_loops_that_others_follow_run_as_lanes(schedule: Any, lanes: int) -> None:
    program = iosim.build(schedule.__name__, iosim.Attention, schedule)
    problem = iosim.Attention(11, 3, 2)
    for B_r, B_c in ((3, 2), (4, 4), (11, 5)):
        tiles = {"B_r": B_r, "B_c": B_c}
        moved, top = by_walking(program, problem.sizes, tiles)
        hbm = problem.random() | {"O": np.zeros((2, 11, 3))}
        instance = iosim.bind(program, problem.sizes, tiles)
        run = iosim.simulate(instance, iosim.Machine(top), hbm, lanes=lanes)
        assert dict(run.counts) == dict(moved)
        assert run.peak_words == top


def test_loops_of_one_name_and_other_steps_have_peaks_of_their_own() -> None:
    def twice(b: iosim.Builder) -> None:
        for B in b.tile_sizes("n", "B", "C"):
            for i in b.tiles("n", B):
                b.free(b.load("A", i, b.span("m", 0, i.stop)))

    program = iosim.build("twice", Square, twice)
    for B, C in ((2, 7), (7, 2)):
        instance = iosim.bind(program, {"n": 20, "m": 30}, {"B": B, "C": C})
        assert iosim.peak(instance) == by_walking(program, {"n": 20, "m": 30}, {"B": B, "C": C})[1]


def test_words_are_not_monotone_where_a_span_follows_a_tile() -> None:
    program = iosim.build("causal", iosim.Attention, causal)
    sizes = iosim.Attention(10, 1).sizes
    rows = [
        iosim.count(iosim.bind(program, sizes, {"B_r": B, "B_c": 1}))["load", "K"] for B in (5, 6)
    ]
    assert rows == [15, 16]


def test_a_prefix_is_counted_as_fast_as_a_square() -> None:
    """Sizes of 2**40 are counted by the same few sums."""
    program = iosim.build("causal", iosim.Attention, causal)
    N, B_r = 2**40 - 1, 1000
    counts = iosim.count(iosim.bind(program, {"N": N, "d": 1, "heads": 1}, {"B_r": B_r, "B_c": 7}))
    full, short = divmod(N, B_r)
    assert counts["load", "K"] == B_r * full * (full + 1) // 2 + N * (short > 0)


@pytest.mark.parametrize("where", ["load", "loop"])
def test_an_edge_is_used_inside_its_loop(where: str) -> None:
    def schedule(b: iosim.Builder) -> None:
        B, C = b.tile_sizes("N", "B", "C")
        for h in b.grid("heads"):
            for i in b.grid("N", B):
                stop = i.stop
            if where == "load":
                b.free(b.load("K", h, b.span("N", 0, stop), "d"))
            for j in b.tiles("N", C, stop=stop):
                b.free(b.load("K", h, j, "d"))

    with pytest.raises(ProgramError, match=r"i\.stop is used outside loop i: move the use inside"):
        iosim.build("outside", iosim.Attention, schedule)


def test_trees_written_by_hand_use_edges_inside_too() -> None:
    i, j = Tile("i", "n"), Tile("j", "n")
    n, zero = Affine.of("n"), Affine()
    tensors = (Tensor("X", ("n",)), Tensor("Y", ("n",)))
    inner = Loop(j, Span("n", zero, i.stop), "B", False, ())
    for body in ((inner,), (Load("x", "X", (Span("n", zero, i.stop),)), Free("x"))):
        program = Program("hand", "copy", (Param("B", "n"),), tensors, body)
        with pytest.raises(ProgramError, match="is used outside"):
            check_program(program)
    check_program(
        Program(
            "hand",
            "copy",
            (Param("B", "n"),),
            tensors,
            (Loop(i, Span("n", zero, n), "B", False, (inner,)),),
        )
    )


ENDS: dict[str, Callable[[Any, str], tuple[Any, Any]]] = {
    "prefix": lambda i, n: (0, i.stop),
    "suffix": lambda i, n: (i.start, n),
    "window": lambda i, n: (i.start - 3, i.stop + 2),
    "falling": lambda i, n: (0, -2 * i.start + n),
    "rising": lambda i, n: (-3 * i.start + n, n),
    "late": lambda i, n: (0, 3 * i.start - 20),
}


@pytest.mark.parametrize("rows", ENDS)
@pytest.mark.parametrize("columns", ENDS)
def test_the_peak_may_be_anywhere(rows: str, columns: str) -> None:
    """A buffer of two spans that follow a tile, and an inner loop over a third that does."""

    def block(b: iosim.Builder) -> None:
        (B,) = b.tile_sizes("n", "B")
        (C,) = b.tile_sizes("m", "C")
        for i in b.tiles("n", B):
            held = b.load(
                "A", b.span("n", *ENDS[rows](i, "n")), b.span("m", *ENDS[columns](i, "m"))
            )
            for j in b.tiles("m", C, *ENDS[rows](i, "m")):
                b.free(b.load("A", b.span("n", *ENDS[columns](i, "n")), j, name="y"))
            b.free(held)

    program = iosim.build("block", Square, block)
    for n, m, B, C in (
        (12, 12, 1, 1),
        (31, 17, 2, 3),
        (25, 40, 3, 7),
        (40, 40, 1, 5),
        (9, 30, 4, 2),
    ):
        sizes, tiles = {"n": n, "m": m}, {"B": B, "C": C}
        moved, top = by_walking(program, sizes, tiles)
        instance = iosim.bind(program, sizes, tiles)
        assert {k: v for k, v in iosim.count(instance) if v} == {
            k: v for k, v in moved.items() if v
        }
        assert iosim.peak(instance) == top


def test_a_tile_that_follows_a_tile_that_follows_a_tile() -> None:
    """Three levels are walked, the short last tiles too."""

    def nested(b: iosim.Builder) -> None:
        B, C = b.tile_sizes("n", "B", "C")
        for i in b.tiles("n", B):
            for j in b.tiles("n", C, stop=i.stop):
                for k in b.tiles("n", B, start=j.start, stop=i.stop):
                    b.free(b.load("A", k, b.span("m", 0, j.stop)))

    program = iosim.build("nested", Square, nested)
    for n, B, C in ((7, 2, 3), (10, 4, 3), (11, 3, 2)):
        sizes, tiles = {"n": n, "m": 9}, {"B": B, "C": C}
        moved, top = by_walking(program, sizes, tiles)
        instance = iosim.bind(program, sizes, tiles)
        assert iosim.count(instance)["load", "A"] == moved["load", "A"]
        assert iosim.peak(instance) == top


@pytest.mark.parametrize("share", [0.3, 0.5, 0.6, 0.8, 0.95])
def test_a_box_of_many_tiles_may_move_least_inside(share: float) -> None:
    """B_r = 301 of N = 600 moves more than 300 does, and 599 more than either."""
    program = iosim.build("causal", iosim.Attention, causal)
    problem = iosim.Attention(600, 1)

    def at(B_r: int) -> iosim.Instance:
        return iosim.bind(program, problem.sizes, {"B_r": B_r, "B_c": 1})

    M = iosim.peak(at(round(share * 600)))
    words = [iosim.count(at(B)).total_words for B in range(1, 601) if iosim.peak(at(B)) <= M]
    assert iosim.optimal_tiles(program, problem, M).total_words == min(words)
    # The largest tile that fits is the best one only where it divides N.
    assert (words[-1] > min(words)) == (share != 0.5)


def causal_reference(hbm: Any) -> Any:
    """The textbook formula, a row at a time."""
    O = np.zeros_like(hbm["Q"])
    for h, i in np.ndindex(*hbm["Q"].shape[:2]):
        s = hbm["K"][h, : i + 1] @ hbm["Q"][h, i]
        p = np.exp(s - s.max())
        O[h, i] = p @ hbm["V"][h, : i + 1] / p.sum()
    return O


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("lanes", [1, 2**18])
def test_a_causal_mask_gives_causal_attention(skip: bool, lanes: int) -> None:
    program = iosim.build("masked", iosim.Attention, functools.partial(masked, skip=skip))
    problem = iosim.Attention(13, 4, 2)
    hbm = problem.random()
    hbm["Q"] *= 30
    for B_r, B_c in itertools.product((1, 2, 3, 5, 13), repeat=2):
        instance = iosim.bind(program, problem.sizes, {"B_r": B_r, "B_c": B_c})
        run = iosim.simulate(instance, iosim.Machine(999), hbm, lanes=lanes)
        np.testing.assert_allclose(run.outputs["O"], causal_reference(hbm), atol=1e-12)
        assert run.counts == iosim.count(instance)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("N", [32, 45, 64, 77])
def test_a_causal_kernel_is_right_and_counts_itself(skip: bool, N: int) -> None:
    """Loops that follow a tile have bounds that the kernel computes; ragged edges are masks."""
    program = iosim.build("masked", iosim.Attention, functools.partial(masked, skip=skip))
    problem = iosim.Attention(N, 16, 2)
    hbm = problem.random()
    for B_r, B_c in ((16, 16), (16, 32), (32, 16), (20, 16), (16, 20), (N, 16), (16, N)):
        instance = iosim.bind(program, problem.sizes, {"B_r": B_r, "B_c": B_c})
        outcome = interpret(emit(instance), hbm)
        np.testing.assert_allclose(outcome.outputs["O"], causal_reference(hbm), atol=2e-5)
        assert outcome.counts == iosim.count(instance)


def test_a_window_in_a_kernel_counts_itself() -> None:
    def schedule(b: iosim.Builder) -> None:
        B, C = b.tile_sizes("N", "B", "C")
        for h in b.grid("heads"):
            for i in b.grid("N", B):
                o = b.zeros("o", i, "d")
                for j in b.tiles("N", C, start=i.start - 20, stop=2 * i.stop - 30):
                    q, k, v = b.load("Q", h, i, "d"), b.load("K", h, j, "d"), b.load("V", h, j, "d")
                    s = b.zeros("s", i, j)
                    b.op("matmul_nt", s, q, k)
                    b.op("matmul_nn", o, s, v)
                    b.free(q, k, v, s)
                b.store(o, "O", h, i, "d")
                b.free(o)

    program = iosim.build("window", iosim.Attention, schedule)
    for N, B, C in ((50, 16, 16), (64, 32, 16), (70, 20, 24)):
        problem = iosim.Attention(N, 16, 1)
        hbm = problem.random()
        instance = iosim.bind(program, problem.sizes, {"B": B, "C": C})
        outcome = interpret(emit(instance), hbm)
        run = iosim.simulate(instance, iosim.Machine(10**5), hbm)
        np.testing.assert_allclose(outcome.outputs["O"], run.outputs["O"], rtol=1e-4, atol=1e-4)
        assert outcome.counts == iosim.count(instance)


def test_a_mask_takes_another_number_in_every_lane() -> None:
    """Also where all lanes share one tile; word by word, from the record's own words."""
    mask = iosim.core.program.ops.OPS["mask_after"].numpy
    for lanes, a in (((1, 1), [[0], [9]]), ((2, 3), [[0, 5, -9]]), ((2, 1), [[1], [2]])):
        s = np.arange(12.0 * np.prod(lanes)).reshape(*lanes, 3, 4)
        (got,) = mask(s, np.array(a))
        wide = np.broadcast_to(np.array(a), got.shape[:2])
        for x, y, r, c in np.ndindex(*got.shape):
            want = s[x % lanes[0], y % lanes[1], r, c] if c - r <= wide[x, y] else -np.inf
            assert got[x, y, r, c] == want


def test_scalars_are_checked() -> None:
    def schedule(scalars: dict[str, Any]) -> Callable[[iosim.Builder], None]:
        def trace(b: iosim.Builder) -> None:
            (B,) = b.tile_sizes("N", "B")
            for i in b.tiles("N", B):
                s = b.zeros("s", i, "d")
                b.op("mask_after", s, **scalars)
                b.free(s)

        return trace

    for scalars, said in (
        ({}, "mask_after takes the scalars a=, got none: give exactly those"),
        ({"b": 1}, "takes the scalars a=, got b="),
        ({"a": 1.5}, "1.5 bounds mask_after's a: give a size"),
        ({"a": "Q"}, "unknown size 'Q' in mask_after's a"),
    ):
        with pytest.raises(ProgramError) as error:
            iosim.build("scalars", iosim.Attention, schedule(scalars))
        assert said in str(error.value)
    with pytest.raises(ProgramError, match="zero takes the scalars none, got a="):
        iosim.build("scalars", iosim.Attention, lambda b: b.op("zero", b.alloc("x", "N"), a=1))


def windowed(b: iosim.Builder) -> None:
    """Rows see the columns around them; a block of K of the window stays resident."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            kept = b.load("K", h, b.span("N", i.start - 4, i.stop + 2), "d", name="kept")
            for j in b.tiles("N", B_c, start=i.start - 4, stop=i.stop + 2):
                v = b.load("V", h, j, "d")
                b.free(b.alloc("s", i, j), v)
            b.free(kept)


@given(
    st.sampled_from([causal, columns_first, windowed]),
    st.integers(1, 30),
    st.tuples(*[st.integers(1, 30)] * 4),
)
@examples(3 / 2)
def test_bounds_of_boxes_are_below_everything_inside(
    schedule: Any, N: int, ends: tuple[int, int, int, int]
) -> None:
    program = iosim.build(schedule.__name__, iosim.Attention, schedule)
    sizes = {"N": N, "d": 3, "heads": 2}
    boxes = [sorted(min(x, N) for x in ends[k : k + 2]) for k in (0, 2)]
    low, high = ({k: np.array([v]) for k, v in sizes.items()} for _ in range(2))
    for name, (a, b) in zip(("B_r", "B_c"), boxes, strict=True):
        low[name], high[name] = np.array([a]), np.array([b])
    reading = OnArrays(low, high)
    closed = close(program)
    words = sum(int(p.evaluate(reading)[0]) for p in closed.counts.values())
    top = int(np.ravel(highest(closed.peak, reading))[0])
    for B_r, B_c in itertools.product(*(range(a, b + 1) for a, b in boxes)):
        instance = iosim.bind(program, sizes, {"B_r": B_r, "B_c": B_c})
        assert words <= iosim.count(instance).total_words
        assert top <= iosim.peak(instance)
