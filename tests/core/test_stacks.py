"""Stacks: one dimension of a buffer that covers neighboring axes of a tensor."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import walking
from hypothesis import given
from sizes import examples
from strategies import Cube, stacked_copies

import iosim
from iosim.base.errors import ProgramError
from iosim.core.counting import symbols
from iosim.core.program.canonical import canonical
from iosim.core.program.check import check
from iosim.core.program.index import Span, Stack, Tile, unstacked
from iosim.core.program.ir import Load, Loop, nodes
from iosim.core.program.ops import OPS
from iosim.core.program.walk import walk
from iosim.core.trace import tally
from iosim.gpu import emit, interpret
from iosim.gpu.emitter import layout

SIZES = {"n": 5, "m": 7, "k": 11}


def check_counts(program: Any, sizes: dict[str, int], tiles: dict[str, int]) -> Any:
    """Machine, closed form, arrays, sympy and stream agree; returns a run."""
    instance = iosim.bind(program, sizes, tiles)
    counts, top = iosim.count(instance), iosim.peak(instance)
    hbm = Cube(**sizes).random()
    runs = [
        iosim.simulate(instance, iosim.Machine(top), hbm, lanes=lanes) for lanes in (1, 20, 2**18)
    ]
    for run in runs:
        assert run.counts == counts == tally(instance)
        assert run.peak_words == top
        np.testing.assert_array_equal(run.outputs["B"], runs[0].outputs["B"])
    many = iosim.count_many(program, sizes | tiles)
    assert {key: int(words) for key, words in many.items()} == dict(counts)
    assert int(iosim.peak_many(program, sizes | tiles)) == top
    assert symbols.count(program).at(sizes, tiles) == (counts, top)
    return runs[0]


@given(stacked_copies())
def test_stacked_copies_move_every_word_where_it_belongs(case: Any) -> None:
    program, sizes, tiles = case
    run = check_counts(program, sizes, tiles)
    np.testing.assert_array_equal(run.outputs["B"], Cube(**sizes).random()["A"])
    words = sizes["n"] * sizes["m"] * sizes["k"]
    moved: Counter[Any] = Counter()
    for t in walk(iosim.bind(program, sizes, tiles)):
        for at in itertools.product(*(range(*r) for r in t.ranges)):
            moved[t.direction, at] += 1
    if not any(isinstance(n, Loop) and n.span.edges for n in nodes(program.body)):
        assert set(moved.values()) == {1}
        assert len(moved) == 2 * words


def attention(group_step: str | None) -> Any:
    """Causal attention of the planes of A with themselves, planes and rows stacked."""

    def schedule(b: iosim.Builder) -> None:
        B_r, B_c = b.tile_sizes("m", "B_r", "B_c")
        planes: Any = [b.span("n")]
        if group_step:
            b.tile_sizes("n", group_step)
            planes = b.grid("n", group_step)
        for u in planes:
            for i in b.grid("m", B_r):
                rows = b.stack(u, i)
                q = b.load("A", rows, "k", name="q")
                o, m, l = b.zeros("o", rows, "k"), b.lowest("m", rows), b.zeros("l", rows)
                for j in b.tiles("m", B_c, stop=i.stop):
                    columns = b.stack(b.span("n", 0, 1), j)
                    keys = b.load("A", columns, "k", name="keys")
                    s = b.zeros("s", rows, columns)
                    b.op("matmul_nt", s, q, keys)
                    b.op("mask_after", s, a=i.start - j.start)
                    b.op("online_softmax", o, m, l, s, keys)
                    b.free(keys, s)
                b.op("finish", o, l)
                b.store(o, "B", rows, "k")
                b.free(q, o, m, l)

    return iosim.build("stacked_attention", Cube, schedule)


def by_hand(A: Any) -> Any:
    """Each plane attends, causally, to the first one."""
    n, m, _ = A.shape
    B = np.zeros(A.shape)
    for u, i in np.ndindex(n, m):
        s = np.array([A[u, i] @ A[0, j] for j in range(i + 1)])
        p = np.exp(s - s.max())
        B[u, i] = sum(w * A[0, j] for j, w in enumerate(p)) / p.sum()
    return B


CASES = [
    (None, {"B_r": 3, "B_c": 2}),
    (None, {"B_r": 1, "B_c": 7}),
    ("B_g", {"B_g": 2, "B_r": 4, "B_c": 3}),
    ("B_g", {"B_g": 5, "B_r": 7, "B_c": 7}),
    ("B_g", {"B_g": 3, "B_r": 8, "B_c": 16}),
]


@pytest.mark.parametrize(("step", "tiles"), CASES)
def test_masks_take_the_position_within_the_tile(step: str | None, tiles: dict[str, int]) -> None:
    program = attention(step)
    run = check_counts(program, SIZES, tiles)
    want = by_hand(Cube(**SIZES).random()["A"])
    np.testing.assert_allclose(run.outputs["B"], want, rtol=1e-12)


def test_a_mask_that_counted_rows_of_the_buffer_would_be_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loose = dataclasses.replace(OPS["mask_after"], placed=False)
    monkeypatch.setitem(OPS, "mask_after", loose)
    with pytest.raises(AssertionError):
        test_masks_take_the_position_within_the_tile(*CASES[2])


@pytest.mark.parametrize(("step", "tiles"), CASES)
def test_kernels_count_themselves(step: str | None, tiles: dict[str, int]) -> None:
    instance = iosim.bind(attention(step), SIZES, tiles)
    hbm = Cube(**SIZES).random()
    outcome = interpret(emit(instance), hbm)
    assert outcome.counts == iosim.count(instance)
    assert np.abs(outcome.outputs["B"] - by_hand(hbm["A"])).max() < 1e-5


@examples(1 / 10)
@given(stacked_copies())
def test_random_copies_count_themselves(case: Any) -> None:
    program, sizes, tiles = case
    if any(len(node.index) > 2 for node in _dims(program)):
        return  # a block has two dimensions
    instance = iosim.bind(program, sizes, tiles)
    hbm = Cube(**sizes).random()
    outcome = interpret(emit(instance), hbm)
    assert outcome.counts == iosim.count(instance)
    np.testing.assert_array_equal(outcome.outputs["B"], hbm["A"].astype(np.float32))


def _dims(program: Any) -> list[Load]:
    loads = (n for n in nodes(program.body) if isinstance(n, Load))
    return [
        dataclasses.replace(n, index=tuple(x for x in n.index if not getattr(x, "point", False)))
        for n in loads
    ]


def in_two_parts(b: iosim.Builder) -> None:
    """A copy of stacks one part of which is as long as a tile says, and empty at times."""
    (B,) = b.tile_sizes("n", "B")
    for u in b.grid("n", B):
        for part in (b.span("m", 0, u.stop), b.span("m", u.stop)):
            rows = b.stack(u, part)
            a = b.load("A", rows, "k")
            b.store(a, "B", rows, "k")
            b.free(a)


def attend_before(b: iosim.Builder) -> None:
    """Rows of the first plane attend to those of all planes before their tile: to none at first."""
    (B,) = b.tile_sizes("m", "B")
    first = b.span("n", 0, 1)
    for i in b.grid("m", B):
        rows = b.stack(first, i)
        q, o = b.load("A", rows, "k", name="q"), b.zeros("o", rows, "k")
        m, l = b.lowest("m", rows), b.zeros("l", rows)
        columns = b.stack("n", b.span("m", 0, i.start))
        keys, s = b.load("A", columns, "k", name="keys"), b.zeros("s", rows, columns)
        b.op("matmul_nt", s, q, keys)
        b.op("online_softmax", o, m, l, s, keys)
        b.op("finish_seen", o, l)
        b.store(o, "B", rows, "k")
        b.free(q, o, m, l, keys, s)


@pytest.mark.parametrize("sizes", [(5, 7, 3), (4, 3, 2), (6, 20, 17), (3, 9, 2)])
def test_parts_may_follow_a_tile(sizes: tuple[int, int, int]) -> None:
    names = dict(zip("nmk", sizes, strict=True))
    A = Cube(**names).random()["A"]
    program = iosim.build("in_two_parts", Cube, in_two_parts)
    for B in (2, 3, 8):
        run = check_counts(program, names, {"B": B})
        np.testing.assert_array_equal(run.outputs["B"], A)
        instance = iosim.bind(program, names, {"B": B})
        outcome = interpret(emit(instance), {"A": A})
        assert outcome.counts == run.counts
        np.testing.assert_array_equal(outcome.outputs["B"], A.astype(np.float32))


@pytest.mark.parametrize("B", [2, 3, 4])
def test_columns_may_be_a_stack_that_is_empty_at_times(B: int) -> None:
    names = {"n": 3, "m": 9, "k": 4}
    A = Cube(**names).random()["A"]
    program = iosim.build("before", Cube, attend_before)
    run = check_counts(program, names, {"B": B})
    outcome = interpret(emit(iosim.bind(program, names, {"B": B})), {"A": A})
    assert outcome.counts == run.counts
    for i in range(9):
        keys = A[:, : i // B * B].reshape(-1, 4)
        s = keys @ A[0, i]
        p = np.exp(s - s.max(initial=0.0))
        want = p @ keys / max(p.sum(), 1e-300)
        np.testing.assert_allclose(run.outputs["B"][0, i], want, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(outcome.outputs["B"][0, i], want, rtol=1e-4, atol=1e-5)


def test_sectors_are_those_of_the_transfers() -> None:
    """The fold over nodes and the walk over transfers agree where no loop follows a tile."""

    def schedule(b: iosim.Builder) -> None:
        (B_g,), (B_r,), (B_k,) = (b.tile_sizes(x, f"B_{x}") for x in "nmk")
        for u in b.grid("n", B_g):
            for i in b.grid("m", B_r):
                for x in b.grid("k", B_k):
                    a = b.load("A", u, b.stack(i, x))
                    b.store(a, "B", u, b.stack(i, x))
                    b.free(a)

    program = iosim.build("tiles", Cube, schedule)
    for tiles in ((1, 2, 3), (2, 3, 8), (5, 7, 11)):
        names = dict(zip(("B_n", "B_m", "B_k"), tiles, strict=True))
        instance = iosim.bind(program, SIZES, names)
        assert layout.sector_bytes(instance, "fp16") == walking.sectors(instance, "fp16")


def test_far_parts_of_a_stack_are_addressed_in_64_bits() -> None:
    tiles = {"B_g": 4, "B_r": 16, "B_c": 16}
    for m, wide in ((2**24, True), (2**10, False)):
        source = emit(iosim.bind(attention("B_g"), {"n": 8, "m": m, "k": 16}, tiles)).source
        assert ("tl.cast((to_64 // 16), tl.int64)[:, None]" in source) == wide


def test_a_stack_is_listed_and_told() -> None:
    program = attention("B_g")
    lines = [" ".join(line.split()) for line in iosim.show(program).splitlines()]
    assert "load q ← A[u×i, :] # |u|·|i|·k words, in all k·m·n" in lines
    assert "alloc s[u×i, (0:1)×j]" in lines
    assert '"parts":[' in canonical(program)
    other = attention(None)
    assert canonical(other) != canonical(program)
    # Equal words, another dimension.
    assert len(unstacked(next(n for n in nodes(program.body) if isinstance(n, Load)).index)) == 3


def test_a_stack_over_nothing_leaves_no_trace() -> None:
    def schedule(b: iosim.Builder) -> None:
        (B_r,) = b.tile_sizes("m", "B_r")
        W = b.stationary("n", "W")
        for i in b.grid("m", B_r):
            for first, past in ((0, W), (W, "n")):
                rows = b.stack(b.span("n", first, past), i)
                a = b.load("A", rows, "k")
                b.store(a, "B", rows, "k")
                b.free(a)

    program = iosim.build("held", Cube, schedule)
    for W in (0, 2, 5):
        run = check_counts(program, SIZES, {"B_r": 3, "W": W})
        np.testing.assert_array_equal(run.outputs["B"], Cube(**SIZES).random()["A"])
        source = emit(iosim.bind(program, SIZES, {"B_r": 3, "W": W})).source
        assert source.count("tl.load(") == (3 if W == 2 else 2)  # one in the header


def bad(schedule: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        iosim.build("bad", Cube, schedule)


def test_what_is_no_stack_is_refused() -> None:
    def one(b: iosim.Builder) -> None:
        b.stack("n")

    def point(b: iosim.Builder) -> None:
        for u in b.grid("n"):
            b.stack(u, "m")

    def split(b: iosim.Builder) -> None:
        b.load("A", b.stack("n", "k"), "m")

    def cut(b: iosim.Builder) -> None:
        (B,) = b.tile_sizes("m", "B")
        a = b.load("A", b.stack("n", "m"), "k")
        for i in b.tiles("m", B):
            b.op("zero", a[i])

    def closed(b: iosim.Builder) -> None:
        (B,) = b.tile_sizes("m", "B")
        for i in b.grid("m", B):
            rows = b.stack("n", i)
        b.zeros("x", rows)

    def twice(b: iosim.Builder) -> None:
        (B,) = b.tile_sizes("m", "B")
        for i in b.grid("m", B):
            b.free(b.zeros("x", b.stack(i, i)))

    def grid(b: iosim.Builder) -> None:
        (B,) = b.tile_sizes("m", "B")
        for _ in b.grid("m", B):
            x = b.zeros("x", b.stack("n", "m"), "k")
            b.store(x, "B", b.stack("n", "m"), "k")
            b.free(x)

    bad(one, "a stack of 1: give two indices or more")
    bad(point, "u in a stack has no extent: give tiles with steps and spans")
    bad(split, r"A\[n, m, k\] is indexed by \[n, k, m\]: give an index for each axis")
    bad(cut, r"a\[i\] is ambiguous or empty: a must have exactly one dimension along m")
    bad(closed, "tile i is used outside its loop: move the use inside")
    bad(twice, "x is indexed by one tile twice: use two loops")
    bad(grid, "grid loop i is not parallel: B is stored inside and must always be indexed by i")


def test_programs_made_by_hand_are_checked_too() -> None:
    tile, whole = (
        Tile("i", "m"),
        Span("n", *(iosim.core.program.index.Affine.of(x) for x in (0, "n"))),
    )
    program = attention(None)
    stray = dataclasses.replace(
        program, body=(*program.body, Load("x", "A", (Stack((whole, tile)), whole)))
    )
    with pytest.raises(ProgramError, match="tile i is used outside its loop"):
        check(stray)
    nested: Any = Stack((whole, tile))
    with pytest.raises(ProgramError, match="in a stack has no extent"):
        Stack((whole, nested))
