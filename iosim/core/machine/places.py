"""Where things are while a schedule runs: open tiles, and the lanes of loops that run at once.

Iterations run at once where their buffers have equal shapes.  Those of a grid loop whose tiles
bound spans may differ: their loop is the *ragged* one, of which there is at most one at a time.
Inside it the start of a span, or of a tile, may be an array with a number for each of its lanes;
an extent is always one number, since `iosim.core.machine.ragged` parts the lanes that differ in
one.

`iosim.core.machine.interpreter` and `ragged` read and write the `State` here; nothing outside the
machine does.  A start may become an array wherever it is an int, and an extent may not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

import numpy as np

from iosim.base.arrays import Floats, Ints
from iosim.base.errors import ResidencyError
from iosim.core.counts import Key
from iosim.core.problem import BlockMask
from iosim.core.program import space
from iosim.core.program.index import (
    Affine,
    At,
    Dim,
    Edge,
    Indices,
    Number,
    Plain,
    Span,
    Stack,
    Tile,
    Within,
    cut_from,
    dim_of,
    dims,
    unstacked,
)
from iosim.core.program.ir import Load, Loop, Marks, Store
from iosim.core.program.walk import Instance

Array = Floats

# A position: one for all lanes, or one for each, in an array with a dimension for every lane loop.
Start: TypeAlias = int | Ints


@dataclass(frozen=True, slots=True)
class Lanes:
    """Where a group of iterations of one loop is.

    `count` tiles of `extent` words: one after the other from `start` on, or, where that is an
    array, one from each of its numbers on.  A loop that doesn't run as lanes has a count of 1;
    its start is an array (over the lanes of the ragged loop) where they differ.  `number` is the
    number of the first tile in its loop, or an array of all their numbers.  A loop over all of a
    tile starts where that does in its first lane, and is as much further in each other one, unless
    that tile is one of `State.named`.

    With `merged`, the tile stands for this many tiles, end to end
    (`iosim.core.program.iterations`).
    """

    start: Start
    count: int
    extent: int
    number: Start = 0
    merged: int = 1


@dataclass(frozen=True, slots=True)
class IndexShape:
    """What an index says wherever its tiles are.

    Attributes:
        dims: its dimensions.
        axes: what indexes each axis, and the dimension that this makes.
        stacked: whether some axes are one dimension.
    """

    dims: tuple[Dim, ...]
    axes: tuple[tuple[Plain, Dim | None], ...]
    stacked: bool


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
    ragged: Tile | None = None  # the one of them whose edges bound spans
    arrays: dict[str, Array] = field(default_factory=dict)
    index: dict[str, tuple[Dim, ...]] = field(default_factory=dict)
    size: dict[str, int] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)  # by id: every transfer asks
    bodies: dict[int, tuple[Span, ...]] = field(default_factory=dict)  # by id: spans with edges
    shapes: dict[int, IndexShape] = field(default_factory=dict)  # by id of an index
    named: frozenset[Tile] = frozenset()  # tiles whose lanes may differ in shape
    # By id of a loop: whether its iterations merge, with what is resident before it.
    merges: dict[int, tuple[dict[str, tuple[Dim, ...]], bool]] = field(default_factory=dict)
    merged: int = 1  # how many iterations of open loops the open ones stand for
    masks: dict[str, BlockMask] = field(default_factory=dict)
    numbered: frozenset[Tile] = frozenset()  # tiles that a block mask tells apart
    used: int = 0
    peak: int = 0
    tick: Callable[[int], object] | None = None


def marked(s: State, marks: Marks, column: Start) -> bool:
    """Whether a block mask marks a column, in the row whose tile is open."""
    row = s.where[marks.rows].number
    assert isinstance(row, int), f"tile {marks.rows} runs as lanes"
    assert isinstance(column, int)
    return s.masks[marks.name].marked(row, column)


def one(x: Start) -> Start:
    """A number where all lanes have the same."""
    if isinstance(x, int):
        return x
    first = int(x.flat[0])
    return first if (x == first).all() else x


def starts(s: State, tile: Tile) -> Start:
    """Where a tile starts."""
    here = s.where[tile]
    found = _lanes(s, tile, here.start, here.extent)
    for outer in find_lanes_around(s, tile):
        found = found + _lanes(s, outer, 0, s.where[outer].extent)
    return found


def find_lanes_around(s: State, tile: Tile) -> Iterator[Tile]:
    """The tiles that run as lanes, and that a tile moves along with."""
    outer = tile.of
    while outer is not None and outer not in s.named:
        if outer in s.batch:
            yield outer
        outer = outer.of


def _lanes(s: State, tile: Tile, first: Start, step: int) -> Start:
    """Of a tile, what is `first` in its first lane and `step` further in each other."""
    if tile in s.batch:
        at = s.batch.index(tile)
        if isinstance(first, int):
            first = first + step * np.arange(s.where[tile].count)
    elif isinstance(first, int):
        return first
    else:
        assert s.ragged is not None
        at = s.batch.index(s.ragged)
    return first.reshape([-1 if k == at else 1 for k in range(len(s.batch))])


def bound_loop(s: State, loop: Loop) -> tuple[Start, Start]:
    """Where a loop starts and stops; one over all of a tile, in the first of its lanes."""
    outer = loop.tile.of
    if outer is None or outer in s.named:
        return resolved(s, loop.span)
    here = s.where[outer]
    return here.start, here.start + here.extent


def locate_part(s: State, index: tuple[Dim, ...], part: Tile) -> tuple[int, Start]:
    """The dimension of a buffer that a part is cut from, and where in it the part starts."""
    at = cut_from(index, part)
    base = index[at]
    if base == part.of and base not in s.named:
        return at, s.where[part].start - s.where[base].start
    assert isinstance(base, (Span, Tile))
    return at, starts(s, part) - located(s, base)[0]


def _inside(s: State, edges: frozenset[Edge]) -> dict[Any, Any]:
    env: dict[Any, Any] = dict(s.env)
    for tile in {edge.tile for edge in edges}:
        start: Any = starts(s, tile)
        env = space.inside(env, tile, (start, start + s.where[tile].extent))
    return env


def resolved(s: State, span: Span) -> tuple[Start, Start]:
    """Where a span starts and stops, in the open tiles."""
    if (fixed := s.spans.get(id(span))) is not None:
        return fixed
    if not span.edges:
        found = s.spans[id(span)] = s.instance.span(span)
        return found
    env = _inside(s, span.edges)
    if s.ragged is None:
        return space.resolved(span, env)
    start, stop = space.placed(span, env, np.minimum, np.maximum)
    return one(_start(start)), one(_start(stop))


def _start(x: Any) -> Start:
    return x if isinstance(x, np.ndarray) and x.ndim else int(x)


def value(s: State, affine: Affine) -> Start:
    """The value of an affine expression, in the open tiles."""
    return one(_start(affine.at(_inside(s, affine.edges))))


def located(s: State, x: Plain) -> tuple[Start, int]:
    """Where an index starts, and its extent."""
    match x:
        case Tile():
            return starts(s, x), s.where[x].extent
        case Span():
            start, stop = resolved(s, x)
            return start, _between(start, stop)
        case Number(tile):
            return _lanes(s, tile, s.where[tile].number, 1), 1
        case Within(tile):
            return 0, s.where[tile].extent
        case At(buffer):
            if buffer not in s.arrays:
                raise ResidencyError(
                    f"a position is read from {buffer}, which is not resident: load it"
                )
            return _start(s.arrays[buffer].astype(np.int64)), 1
        case _:
            assert_never(x)


def extent(s: State, x: Dim) -> int:
    """The extent of one dimension."""
    match x:
        case Tile():
            return s.where[x].extent
        case Span():
            return _between(*resolved(s, x))
        case Stack():
            return math.prod(extent(s, part) for part in x.parts)
        case _:
            assert_never(x)


def _between(start: Start, stop: Start) -> int:
    found = one(stop - start)
    assert isinstance(found, int), "lanes of unequal extents run together"
    return found


def shape_of(s: State, index: Indices) -> IndexShape:
    """What an index of the program says wherever its tiles are."""
    if (shape := s.shapes.get(id(index))) is None:
        axes = tuple((x, dim_of(x)) for x in unstacked(index))
        stacked = any(isinstance(x, Stack) for x in index)
        shape = s.shapes[id(index)] = IndexShape(dims(index), axes, stacked)
    return shape


def words_of(s: State, index: Indices) -> int:
    """The words of a buffer, or of a transfer, in one lane and one iteration."""
    words = 1
    for x in shape_of(s, index).dims:
        if isinstance(x, Tile):
            here = s.where[x]
            words *= here.extent // here.merged
        else:
            words *= extent(s, x)
    return words


def read(s: State, node: Load) -> Array:
    """``tensor[index]``: a dimension per lane loop (1 where it isn't indexed), then the buffer's.

    It is read-only, and a view where that is possible and the tensor is never stored.
    """
    found = _view(s, node)
    if found is None:
        found = s.hbm[node.tensor][_positions(s, node.index)]
    elif node.tensor in s.stored:
        # A tensor that is also stored may change while the buffer is resident: copy it.
        found = found.copy()
    if shape_of(s, node.index).stacked:
        found = joined(s, node.index, found)
    found.flags.writeable = False
    return found


def write(s: State, node: Store, value: Array) -> None:
    """Assign a buffer to ``tensor[index]``."""
    value = split_stacks(s, node.index, value)
    view = _view(s, node)
    if view is None:
        s.hbm[node.tensor][_positions(s, node.index)] = value
    else:
        view[...] = np.broadcast_to(value, np.broadcast_shapes(view.shape, value.shape))


def _view(s: State, node: Load | Store) -> Array | None:
    """``tensor[index]`` as a view, with dimensions as `_positions` has them.

    None where the lanes of an index don't follow one another at equal distances.
    """
    tensor = s.hbm[node.tensor]
    first = 0
    shape: list[int] = []
    strides: list[int] = []
    apart = dict.fromkeys(s.batch, 0)  # how far the lanes of each loop are from one another
    for (x, dim), stride in zip(shape_of(s, node.index).axes, tensor.strides, strict=True):
        match x:
            case Tile():
                start = s.where[x].start
                if x in apart:
                    apart[x] += s.where[x].extent * stride
                if x.of is not None:
                    for tile in find_lanes_around(s, x):
                        apart[tile] += s.where[tile].extent * stride
            case Span():
                start = resolved(s, x)[0]
            case Number(tile):
                start = s.where[tile].number
                if tile in apart:
                    apart[tile] += stride
            case Within():
                start = 0
            case At():
                return None
            case _:
                assert_never(x)
        if not isinstance(start, int):
            return None
        first += start * stride
        if dim is not None:
            shape.append(extent(s, dim))
            strides.append(stride)
    lanes = [s.where[tile].count if far else 1 for tile, far in apart.items()]
    if 0 in shape:
        return np.empty((*lanes, *shape))
    return np.ndarray((*lanes, *shape), np.float64, tensor, first, (*apart.values(), *strides))


def _positions(s: State, index: Indices) -> tuple[Ints, ...]:
    """The positions on every axis of a tensor, in arrays that broadcast with one another.

    Their dimensions are the lane loops', then the tile's own, those of a stack one by one.
    """
    own = len(dims(unstacked(index)))
    k = 0  # dimensions of the tile so far
    found: list[Ints] = []
    for x in unstacked(index):
        start, words = located(s, x)
        lanes = np.reshape(start, (1,) * len(s.batch) if isinstance(start, int) else start.shape)
        at = lanes[(..., *[None] * own)]
        if dim_of(x):
            at = at + np.arange(words).reshape([-1 if n == k else 1 for n in range(own)])
            k += 1
        found.append(at)
    return tuple(found)


def joined(s: State, index: Indices, array: Array) -> Array:
    """An array with a dimension per axis, as a buffer: each stack is one dimension."""
    if not any(isinstance(x, Stack) for x in index):
        return array
    own = tuple(extent(s, x) for x in dims(index))
    return array.reshape(array.shape[: len(s.batch)] + own)


def split_stacks(s: State, index: Indices, array: Array) -> Array:
    """A buffer with a dimension per axis: stacks are taken apart."""
    if not any(isinstance(x, Stack) for x in index):
        return array
    own = tuple(extent(s, x) for x in unstacked(dims(index)))
    return array.reshape(array.shape[: len(s.batch)] + own)


def by_place(s: State, index: Indices, array: Array) -> Array:
    """A buffer whose last dimensions are positions of one axis each.

    Of a stack all dimensions but the last are moved ahead of the lanes; `as_before` is the way
    back.
    """
    order = _places_last(s, index)
    return split_stacks(s, index, array).transpose(order)


def as_before(s: State, index: Indices, array: Array) -> Array:
    """What `by_place` took, back in the buffer's own shape."""
    back = np.argsort(_places_last(s, index))
    return joined(s, index, array.transpose(back))


def _places_last(s: State, index: Indices) -> list[int]:
    lanes = len(s.batch)
    first: list[int] = []
    last: list[int] = []
    for x in dims(index):
        at = lanes + len(first) + len(last)
        more = len(x.parts) - 1 if isinstance(x, Stack) else 0
        first += range(at, at + more)
        last.append(at + more)
    return [*first, *range(lanes), *last]
