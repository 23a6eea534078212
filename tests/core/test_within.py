"""Spans that follow tiles, cut to a part of their axis: windows, sinks, and what a hold leaves."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples
from strategies import Square
from walking import agree

import iosim
from iosim.base.errors import ProgramError
from iosim.core import problem as problem_module
from iosim.core.counting import symbols
from iosim.core.counting.closed import close
from iosim.core.counting.show import show
from iosim.core.counting.signs import falls_with
from iosim.core.problem import BaseProblem, Tensor
from iosim.core.program.canonical import canonical, digest
from iosim.core.program.index import Affine, Edge, Span, Tile
from iosim.core.program.space import resolved
from iosim.gpu import emit, interpret


@dataclass(frozen=True)
class Cross(BaseProblem):
    """Rows and columns of different numbers, to index."""

    N: int = problem_module.axis("rows", letters="ir")
    N_k: int = problem_module.axis("columns", letters="jc")
    d: int = problem_module.axis("width", letters="x")

    kind: ClassVar[str] = "cross"
    inputs: ClassVar[tuple[Tensor, ...]] = (
        Tensor("Q", ("N", "d")),
        Tensor("K", ("N_k", "d")),
        Tensor("V", ("N_k", "d")),
    )
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("O", ("N", "d")),)


def columns(b: iosim.Builder, span: Any, B_c: str) -> None:
    for j in b.tiles("N_k", B_c, span.start, span.stop, within=span.within):
        b.free(b.load("K", j, "d"), b.load("V", j, "d"))


def window(b: iosim.Builder, limit: bool = False) -> None:
    """Rows i see columns around the diagonal at the lower right, and the first ones always."""
    (B_r,), (B_c,) = b.tile_sizes("N", "B_r"), b.tile_sizes("N_k", "B_c")
    left, right, sinks = (
        name if limit else b.stationary("N_k", name) for name in ("left", "right", "sinks")
    )
    for i in b.grid("N", B_r):
        q = b.load("Q", i, "d")
        stop = i.stop + "N_k" - "N" + right
        columns(b, b.span("N_k", 0, stop, within=(0, sinks)), B_c)
        columns(b, b.span("N_k", i.start + "N_k" - "N" - left, stop, within=(sinks, "N_k")), B_c)
        b.store(q, "O", i, "d")
        b.free(q)


def stationary(b: iosim.Builder) -> None:
    """The same window with columns outside: which rows see columns j."""
    (B_r,), (B_c,) = b.tile_sizes("N", "B_r"), b.tile_sizes("N_k", "B_c")
    left, right = (b.stationary("N_k", name) for name in ("left", "right"))
    for j in b.tiles("N_k", B_c):
        k = b.load("K", j, "d")
        seen = j.start - "N_k" + "N" - right, j.stop - "N_k" + "N" + left
        for i in b.grid("N", B_r, *seen):
            q = b.load("Q", i, "d")
            b.store(q, "O", i, "d")
            b.free(q)
        b.free(k)


def stationary_columns(b: iosim.Builder) -> None:
    """The first W columns of K that rows see stay resident, the others are streamed."""
    (B_r,), (B_c,) = b.tile_sizes("N", "B_r"), b.tile_sizes("N_k", "B_c")
    W = b.stationary("N_k", "W")
    for i in b.tiles("N", B_r):
        kept = b.load("K", b.span("N_k", 0, i.stop, within=(0, W)), "d", name="kept")
        columns(b, b.span("N_k", 0, i.stop, within=(0, W)), B_c)
        columns(b, b.span("N_k", 0, i.stop, within=(W, "N_k")), B_c)
        b.free(kept)


SCHEDULES = {
    f.__name__: iosim.build(f.__name__, Cross, f) for f in (window, stationary, stationary_columns)
}
FORMULAS = {name: symbols.count(program) for name, program in SCHEDULES.items()}


@given(st.sampled_from(list(SCHEDULES)), st.data())
@examples(3 / 2)
def test_windows_sinks_and_holds_are_counted_alike(name: str, data: Any) -> None:
    program = SCHEDULES[name]
    sizes = {axis: data.draw(st.integers(1, 12), label=axis) for axis in ("N", "N_k")} | {"d": 2}
    tiles = {p.name: data.draw(st.integers(p.least, 13), label=p.name) for p in program.params}
    agree(program, sizes, tiles, FORMULAS[name] if data.draw(st.integers(0, 9)) == 0 else None)


def test_a_window_moves_what_its_rows_see() -> None:
    """By hand: 4 rows of 6 columns, one row at a time; row i sees i + 1 and i + 2, and column 0."""
    tiles = {"B_r": 1, "B_c": 9, "left": 1, "right": 0, "sinks": 1}
    counts, _ = agree(SCHEDULES["window"], {"N": 4, "N_k": 6, "d": 1}, tiles)
    assert counts["load", "K"] == 4 * (2 + 1)
    # Rows that see sinks inside their window see them once.
    counts, _ = agree(SCHEDULES["window"], {"N": 4, "N_k": 4, "d": 1}, tiles)
    assert counts["load", "K"] == 1 + 2 + 3 + 3
    # Of fewer columns than sinks, all are seen; of more rows than columns, the first see nothing.
    counts, _ = agree(SCHEDULES["window"], {"N": 5, "N_k": 2, "d": 1}, tiles | {"sinks": 9})
    assert counts["load", "K"] == 1 + 2


LIMITED = iosim.build(
    "limited",
    replace(Cross.plain_form(), limits=("left", "right", "sinks")),
    functools.partial(window, limit=True),
)


@pytest.mark.parametrize("left", [0, 3])
@pytest.mark.parametrize("right", [0, 2])
@pytest.mark.parametrize("sinks", [0, 1, 9])
def test_limits_are_sizes_that_may_be_0(left: int, right: int, sinks: int) -> None:
    formula = symbols.count(LIMITED)
    assert {str(x) for x in formula.total_words.free_symbols} >= set(LIMITED.limits)
    limits = {"left": left, "right": right, "sinks": sinks}
    for N, N_k in ((7, 7), (4, 9), (9, 4)):
        shape, tiles = {"N": N, "N_k": N_k, "d": 2}, {"B_r": 3, "B_c": 2}
        found = agree(LIMITED, shape | limits, tiles, formula)
        # Parameters are clipped to their axis, which changes nothing here.
        assert found == agree(SCHEDULES["window"], shape, tiles | limits)


def test_columns_of_limits_are_checked() -> None:
    columns = {"N": 4, "N_k": 4, "d": 1, "B_r": 2, "B_c": 2, "left": 1, "right": 0, "sinks": 0}
    iosim.count_many(LIMITED, columns)
    with pytest.raises(iosim.InputError, match="needs the columns left: give them"):
        iosim.count_many(LIMITED, {k: v for k, v in columns.items() if k != "left"})
    with pytest.raises(iosim.InputError, match=r"column right must hold integers in 0\.\."):
        iosim.count_many(LIMITED, columns | {"right": -1})


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("M", [36, 50, 200])
def test_nothing_is_proved_of_a_limit_but_that_it_is_not_negative(size: int, M: int) -> None:
    """Where a loop may not run, a hold may only cost; a part of size − 1 + W may not be."""

    def schedule(b: iosim.Builder) -> None:
        (B,), W = b.tile_sizes("N_k", "B"), b.stationary("d", "W")
        kept = b.load("K", "N_k", b.span("d", 0, W), name="kept")
        for j in b.tiles("N_k", B, 0, "size"):
            b.free(b.load("K", "N_k", b.span("d", W, "d")))
            b.free(b.alloc("part", j, b.span("d", 0, Affine.of("size") - 1 + W)))
        b.free(kept)

    program = iosim.build("part", replace(Cross.plain_form(), limits=("size",)), schedule)
    total = close(program).counts["load", "K"]
    assert falls_with(total, "W", {"W": "d"})  # as it would if the loop always ran
    assert not falls_with(total, "W", {"W": "d"}, program.limits)
    sizes = {"N": 1, "N_k": 6, "d": 5, "size": size}

    class Sizes:
        pass

    Sizes.sizes = sizes  # type: ignore[attr-defined]
    found = []
    for B, W in itertools.product(range(1, 7), range(6)):
        if not 1 <= size + W <= 6:
            continue  # the part of V would not lie inside
        instance = iosim.bind(program, sizes, {"B": B, "W": W})
        if iosim.peak(instance) <= M:
            found.append(iosim.count(instance).total_words)
    best = iosim.optimal_tiles(program, Sizes(), M)  # type: ignore[arg-type]
    assert best.total_words == min(found)


def test_a_within_that_is_empty_holds_nothing() -> None:
    def schedule(b: iosim.Builder) -> None:
        (B,) = b.tile_sizes("n", "B")
        for i in b.tiles("n", B):
            b.free(b.load("A", i, b.span("m", 0, i.stop, within=(5, 3))))

    program = iosim.build("empty", Square, schedule)
    counts, top = agree(program, {"n": 4, "m": 9}, {"B": 2}, symbols.count(program))
    assert (counts["load", "A"], top) == (0, 0)


def test_a_long_window_is_counted_by_the_same_few_sums() -> None:
    N, tiles = 2**39, {"B_r": 1000, "B_c": 64, "left": 4096, "right": 0, "sinks": 4}
    counts = iosim.count(iosim.bind(SCHEDULES["window"], {"N": N, "N_k": N, "d": 1}, tiles))
    full, short = divmod(N, 1000)
    rows = full * (1000 + 4096) + short + 4096
    # The windows of the first blocks start before the first column, or at the sinks.
    missing = sum(4096 - 1000 * t + min(4, 1000 * (t + 1)) for t in range(5))
    assert counts["load", "K"] == rows - missing + 4 * (full + 1)


@pytest.mark.parametrize(
    ("within", "said"),
    [
        ((0, "stop"), "N_k[0:i.stop within 0:i.stop] is within i.stop, which moves: give sizes"),
        ((0,), "a span of N_k is within (0,): give two bounds, (low, high)"),
        ("NN", "a span of N_k is within 'NN': give two bounds"),
        ((0, 1.5), "1.5 bounds a span of N_k: give a size"),
        ((0, "M"), "unknown size 'M' in a span of N_k"),
    ],
)
def test_a_wrong_within_is_said_in_one_line(within: Any, said: str) -> None:
    def schedule(b: iosim.Builder) -> None:
        (B_r,) = b.tile_sizes("N", "B_r")
        for i in b.tiles("N", B_r):
            cut = (0, i.stop) if within == (0, "stop") else within
            b.span("N_k", 0, i.stop, within=cut)

    with pytest.raises(ProgramError) as error:
        iosim.build("wrong", Cross, schedule)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_fixed_span_is_within_nothing() -> None:
    with pytest.raises(ProgramError, match=r"N_k\[0:N_k within 0:3\] names no edge of an open"):
        iosim.build(
            "wrong", Cross, lambda b: b.free(b.load("K", b.span("N_k", within=(0, 3)), "d"))
        )


def test_it_is_told_and_shown_where_it_is_used() -> None:
    i = Tile("i", "n")
    plain = Span("n", Affine(), i.stop)
    cut = Span("n", Affine(), i.stop, (Affine(), Affine.of("m")))
    assert "within" not in canonical(plain)  # type: ignore[arg-type]
    assert "within" in canonical(cut)  # type: ignore[arg-type]
    assert digest(plain) != digest(cut)  # type: ignore[arg-type]
    assert "for j in N_k[0:N_k + i.stop + right - N within 0:sinks] by B_c" in show(
        SCHEDULES["window"]
    )


def test_a_kernel_cuts_it_too() -> None:
    def schedule(b: iosim.Builder) -> None:
        B, C = b.tile_sizes("N", "B", "C")
        W = b.stationary("N", "W")
        for h in b.grid("heads"):
            for i in b.grid("N", B):
                q, o = b.load("Q", h, i, "d"), b.zeros("o", i, "d")
                for j in b.tiles("N", C, i.start - 20, i.stop, within=(W, Affine.of("N") - 3)):
                    k, v, s = b.load("K", h, j, "d"), b.load("V", h, j, "d"), b.zeros("s", i, j)
                    b.op("matmul_nt", s, q, k)
                    b.op("matmul_nn", o, s, v)
                    b.free(k, v, s)
                b.store(o, "O", h, i, "d")
                b.free(q, o)

    program = iosim.build("cut", iosim.Attention, schedule)
    for N, W in ((50, 16), (64, 0), (70, 33)):
        problem = iosim.Attention(N, 16, 1)
        hbm = problem.random()
        instance = iosim.bind(program, problem.sizes, {"B": 16, "C": 16, "W": W})
        outcome = interpret(emit(instance), hbm)
        assert outcome.counts == iosim.count(instance)


@pytest.mark.parametrize(
    ("start", "stop", "within", "lies"),
    [
        (-4, 2, None, (0, 2)),
        (-4, -2, None, (0, 0)),
        (3, 9, None, (3, 5)),
        (7, 9, None, (5, 5)),  # empty, and at the end of its axis, not beyond it
        (0, 9, (2, 4), (2, 4)),
        (0, 1, (2, 4), (2, 2)),
        (4, 9, (2, 3), (3, 3)),
        (0, 9, (7, 9), (5, 5)),
        (0, 9, (-3, 9), (0, 5)),
        (0, 9, (4, 2), (4, 4)),
    ],
)
def test_where_a_span_lies_when_it_is_cut(
    start: int, stop: int, within: tuple[int, int] | None, lies: tuple[int, int]
) -> None:
    """Empty ones lie inside their axis, too: transfers say where they are."""
    tile = Tile("i", "N")
    bounds = None if within is None else (Affine.of(within[0]), Affine.of(within[1]))
    span = Span("n", tile.start + start, tile.start + stop, bounds)
    env = {"N": 9, "n": 5, Edge(tile, "start"): 0, Edge(tile, "stop"): 1}
    assert resolved(span, env) == lies
