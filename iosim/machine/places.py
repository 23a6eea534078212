"""Where things are while a schedule runs: open tiles, and the lanes of loops that run at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from iosim.counts import Key
from iosim.errors import ResidencyError
from iosim.program import space
from iosim.program.ir import (
    Affine,
    Alloc,
    At,
    Dim,
    Edge,
    Index,
    Load,
    Loop,
    Node,
    Number,
    Span,
    Stack,
    Store,
    Tile,
    Within,
    dims,
    unstacked,
)
from iosim.program.walk import Instance

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lanes:
    """Where a group of iterations of one loop is: `count` tiles of `extent` from `start` on."""

    start: int
    count: int
    extent: int
    number: int = 0  # of the first tile, in its loop


@dataclass
class State:
    """A run: what is resident, what has moved, and where every open loop is."""

    instance: Instance
    M: int
    lanes: int
    hbm: dict[str, Array]
    env: dict[str, int]
    words: dict[Key, int]
    stored: set[str]
    where: dict[Tile, Lanes] = field(default_factory=dict)
    batch: list[Tile] = field(default_factory=list)  # open loops that run as lanes
    arrays: dict[str, Array] = field(default_factory=dict)
    index: dict[str, tuple[Dim, ...]] = field(default_factory=dict)
    size: dict[str, int] = field(default_factory=dict)
    spans: dict[Span, tuple[int, int]] = field(default_factory=dict)  # needed for every transfer
    named: frozenset[Tile] = frozenset()  # tiles whose edges bound spans
    used: int = 0
    peak: int = 0
    tick: Callable[[int], object] | None = None


def groups(s: State, loop: Loop, start: int, stop: int, step: int) -> Iterator[Lanes]:
    """Split a grid loop into groups of equal tiles, as many at once as `lanes` allows."""
    outside = 1
    for tile in s.batch[:-1]:
        outside *= s.where[tile].count
    buffer = max((widest(s, n, loop.tile, step) for n in loop.body), default=1)
    most = max(1, s.lanes // (outside * buffer))
    full = (stop - start) // step
    for first in range(0, full, most):
        yield Lanes(start + first * step, min(most, full - first), step, first)
    if start + full * step < stop:
        yield Lanes(start + full * step, 1, stop - start - full * step, full)


def widest(s: State, node: Node, tile: Tile, step: int) -> int:
    """The words of the largest buffer that one iteration makes itself."""
    if isinstance(node, Loop):
        return max((widest(s, n, tile, step) for n in node.body), default=1)
    if not isinstance(node, (Load, Alloc)):
        return 1
    words = 1
    for x in unstacked(dims(node.index)):
        if isinstance(x, Span):
            if any(edge.tile not in s.where for edge in x.edges):
                words *= s.env[x.axis]
                continue
            a, b = resolved(s, x)
            words *= b - a
        elif x == tile:
            words *= step
        elif x in s.where:
            words *= s.where[x].extent
    return max(words, 1)


def resolved(s: State, span: Span) -> tuple[int, int]:
    """Where a span lies, in the open tiles."""
    if span.edges:
        return space.resolved(span, _inside(s, span.edges))
    found = s.spans.get(span)
    if found is None:
        found = s.spans[span] = s.instance.span(span)
    return found


def value(s: State, affine: Affine) -> int:
    """The value of an affine expression, in the open tiles."""
    return int(affine.at(_inside(s, affine.edges)))


def _inside(s: State, edges: frozenset[Edge]) -> dict[Any, int]:
    env: dict[Any, int] = dict(s.env)
    for edge in edges:
        here = s.where[edge.tile]
        env = space.inside(env, edge.tile, (here.start, here.start + here.extent))
    return env


def extent(s: State, x: Dim) -> int:
    """The extent of one index."""
    if isinstance(x, Stack):
        return math.prod(extent(s, part) for part in x.parts)
    if isinstance(x, Tile):
        return s.where[x].extent
    start, stop = resolved(s, x)
    return stop - start


def words_of(s: State, index: tuple[Index, ...]) -> int:
    """The words of a buffer, or of a transfer, in one lane."""
    words = 1
    for x in dims(index):
        words *= extent(s, x)
    return words


def lane_view(s: State, node: Load | Store) -> Array:
    """``tensor[index]`` as a view: a dimension per lane loop (1 where it isn't indexed), then the
    tile's own, those of a stack one by one.  Where a position is read from a buffer it is a copy.
    """
    cut: list[slice] = []
    shape: list[int] = []
    lane_at: dict[Tile, int] = {}
    own: list[int] = []
    gathers: list[tuple[int, str]] = []

    def one(x: Tile, start: int, extent: int, point: bool) -> None:
        here = s.where[x]
        cut.append(slice(start, start + here.count * extent))
        if x in s.batch:
            lane_at[x] = len(shape)
            shape.append(here.count)
        if not point:
            own.append(len(shape))
            shape.append(extent)
        elif x not in s.batch:
            own.append(-1 - len(shape))  # a point of a sequential loop: dropped below
            shape.append(1)

    def part(start: int, stop: int) -> None:
        cut.append(slice(start, stop))
        own.append(len(shape))
        shape.append(stop - start)

    for x in unstacked(node.index):
        match x:
            case Span():
                part(*resolved(s, x))
            case Tile():
                one(x, s.where[x].start, s.where[x].extent, x.point)
            case Number(tile):
                one(tile, s.where[tile].number, 1, point=True)
            case Within(tile):
                part(0, s.where[tile].extent)
            case At(buffer, axis):
                cut.append(slice(None))
                gathers.append((len(shape), buffer))
                shape.append(s.env[axis])
            case _:
                assert_never(x)
    view = s.hbm[node.tensor][tuple(cut)].reshape(shape)
    drop = [-1 - k for k in own if k < 0]
    far = [k for k, _ in gathers]
    order = far + [lane_at[t] for t in s.batch if t in lane_at] + [k for k in own if k >= 0]
    view = view.transpose(order + drop)
    view = view.reshape(view.shape[: len(order)]) if drop else view
    # With the dots, a view of a single word is an array, too.
    lanes = (slice(None) if t in lane_at else None for t in s.batch)
    view = view[(*(slice(None) for _ in far), *lanes, ...)]
    return _gathered(s, view, gathers[0][1]) if gathers else view


def _gathered(s: State, view: Array, buffer: str) -> Array:
    """The positions of the first axis that a buffer holds, one in each lane."""
    if buffer not in s.arrays:
        raise ResidencyError(f"a position is read from {buffer}, which is not resident: load it")
    at = s.arrays[buffer].astype(np.int64)
    lanes = np.broadcast_shapes(at.shape, view.shape[1 : 1 + at.ndim])
    others = (
        np.arange(n if m > 1 else 1).reshape([-1 if k == j else 1 for j in range(len(lanes))])
        for k, (n, m) in enumerate(zip(lanes, view.shape[1:], strict=False))
    )
    return np.asarray(view[(np.broadcast_to(at, lanes), *others)])


def joined(s: State, index: tuple[Index, ...], array: Array) -> Array:
    """An array with a dimension per axis, as a buffer: each stack is one dimension."""
    if not any(isinstance(x, Stack) for x in index):
        return array
    own = tuple(extent(s, x) for x in dims(index))
    return array.reshape(array.shape[: len(s.batch)] + own)


def apart(s: State, index: tuple[Index, ...], array: Array) -> Array:
    """A buffer with a dimension per axis: stacks are taken apart."""
    if not any(isinstance(x, Stack) for x in index):
        return array
    own = tuple(extent(s, x) for x in unstacked(dims(index)))
    return array.reshape(array.shape[: len(s.batch)] + own)


def by_place(s: State, index: tuple[Index, ...], array: Array) -> Array:
    """A buffer whose last dimensions are positions of one axis each.

    Of a stack all dimensions but the last are moved ahead of the lanes; `as_before` is the way
    back.
    """
    order = _places_last(s, index)
    return apart(s, index, array).transpose(order)


def as_before(s: State, index: tuple[Index, ...], array: Array) -> Array:
    """What `by_place` took, back in the buffer's own shape."""
    back = np.argsort(_places_last(s, index))
    return joined(s, index, array.transpose(back))


def _places_last(s: State, index: tuple[Index, ...]) -> list[int]:
    lanes = len(s.batch)
    first: list[int] = []
    last: list[int] = []
    for x in dims(index):
        at = lanes + len(first) + len(last)
        more = len(x.parts) - 1 if isinstance(x, Stack) else 0
        first += range(at, at + more)
        last.append(at + more)
    return [*first, *range(lanes), *last]
