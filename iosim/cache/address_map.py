"""Where words lie: extents and addresses of parts, in the open tiles of an instance.

An address is affine in *variables*: the number of an open tile in its loop, the start of a span
that follows open tiles, and a position that is read from a tensor.  What they add for each step is
a part's *slopes*; the rest depends on extents alone, so that iterations with equal extents
reference the same words, each at a distance of its own.

`iosim.cache.of_program` makes the `Ground`; it, `templates`, `phases` and `leaps` ask it where
parts lie.  `extent` and `resolved` serve these, `trace_walk` and `trace_length`; `iosim.report` and
`iosim.gpu` import one each.

Changing this file: `extent` and `resolved` must take numbers and arrays.  Addresses and slopes must
be exact: all of the above relies on them, so that the independent check is the walker in
``tests/touch_oracle.py``, which ``tests/cache/test_cache_touches.py`` runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never

import numpy as np

from iosim.cache.boxes import BoxKind, Kinds
from iosim.cache.layouts import Layout, Tiled, strides
from iosim.cache.references import Piece, Touch
from iosim.cache.stream import Region, Unit
from iosim.core.program import space
from iosim.core.program.index import At, Number, Plain, Span, Tile, Within
from iosim.core.program.ir import Loop

# A tile: its number in its loop.  A span with edges: its start.  A text: the word of that buffer.
Variable: TypeAlias = Tile | Span | str
Loops: TypeAlias = Mapping[Tile, Loop]
# Sizes, and where tiles begin and end: numbers, or arrays of them.
Env: TypeAlias = Mapping[Any, Any]
Extents: TypeAlias = tuple[Any, ...]


def extent(x: Plain, env: Env) -> Any:
    """How many positions an index covers: a number, or an array where tiles' edges are arrays."""
    match x:
        case Tile():
            return env[x.edges[1]] - env[x.edges[0]]
        case Span():
            start, stop = resolved(x, env)
            return stop - start
        case Within(tile):
            return extent(tile, env)
        case Number() | At():
            return 1
        case _:
            assert_never(x)


def resolved(span: Span, env: Env) -> tuple[Any, Any]:
    """Where a span lies: numbers, or arrays where tiles' edges are."""
    if any(isinstance(env[edge], np.ndarray) for edge in span.edges):
        return space.placed(span, env, np.minimum, np.maximum)
    return space.resolved(span, env)


@dataclass(frozen=True)
class Placed:
    """A tensor's or a local array's place.

    Attributes:
        region: the addresses that it takes, in the stream's unit.
        start: its first word, or row; 0 of a tiled tensor.
        shape: of a tensor.
        strides: of a tensor, in words; in rows those of rows, and 0 along them; of a tiled tensor
            those of places (`iosim.cache.boxes`).
        how: its layout.
    """

    region: Region
    start: int
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    how: Layout = "row-major"


@dataclass(frozen=True)
class Ground:
    """All places of an instance.

    Attributes:
        unit: what an address stands for.
        line: how many words are in a line; 1 unless lines are requested.
        tensors, arrays: by name.
        late: whether words become units only when they have been numbered, because what an
            iteration adds to an address is not a whole number of lines, or a layout is tiled.
        kinds: of boxes, where that is so.
    """

    unit: Unit
    line: int
    tensors: Mapping[str, Placed]
    arrays: Mapping[str, Placed]
    late: bool = False
    kinds: Kinds = field(default_factory=Kinds)

    def place(self, part: Piece) -> Placed:
        """Where a part's tensor or array lies."""
        return self.tensors[part.name] if part.shape is None else self.arrays[part.name]

    @property
    def tiled(self) -> bool:
        """Whether a tensor's layout is."""
        return any(isinstance(x.how, Tiled) for x in self.tensors.values())

    def kind(self, part: Piece, env: Env, extents: tuple[int, ...], low: int, high: int) -> BoxKind:
        """What some words of a part, in row-major order, are as units."""
        found = placed(self.place(part), self.line)
        by = self.strides(part, env)
        return replace(found, extents=extents, strides=by, low=low, high=high, write=part.write)

    def strides(self, part: Piece, env: Env) -> tuple[int, ...]:
        """How far apart neighbors on each axis of a part are: words, or rows."""
        if part.shape is None:
            return self.tensors[part.name].strides
        return local_strides(tuple(extent(x, env) for x in part.shape), self.unit)

    def located(self, part: Piece, env: Env, loops: Loops) -> tuple[int, dict[Variable, int]]:
        """The address of a part's first word where all variables are 0, and its slopes."""
        by = self.strides(part, env)
        base, slopes = self.place(part).start, dict[Variable, int]()
        for k, (x, stride) in enumerate(zip(part.index, by, strict=True)):
            if part.shape is None:
                base += _add(slopes, x, stride, env, loops)
            elif x != part.shape[k]:  # a part of the array, from the start of its span on
                base += _add(slopes, x, stride, env, loops)
                base += _add(slopes, part.shape[k], -stride, env, loops)
        return base, {x: slope for x, slope in slopes.items() if slope}

    def on_lines(self, part: Piece, env: Env, loops: Loops) -> bool:
        """Whether no iteration moves a part by less than a line."""
        if part.shape is not None:
            return part.index == part.shape
        return not any(s % self.line for s in self.located(part, env, loops)[1].values())


def placed(here: Placed, line: int) -> BoxKind:
    """A kind of boxes without words at a tensor's or a local array's place."""
    found = BoxKind((), (), 0, 0, False, line)
    if not isinstance(here.how, Tiled):
        return found
    how, shape = here.how, here.shape
    return replace(
        found, how=how, wide=how.wide(shape), shift=how.shift(shape), start=here.region.start
    )


def local_strides(shape: tuple[int, ...], unit: Unit) -> tuple[int, ...]:
    """Strides of a local array, which lies row by row in the shape that it has."""
    if unit == "rows":
        return (*strides(shape[:-1], "row-major"), 0) if shape else ()
    return strides(shape, "row-major")


def row_strides(shape: tuple[int, ...], how: Layout) -> tuple[int, ...]:
    """Strides of a tensor in rows: those vectors that lie in order; 0 along them.

    >>> row_strides((2, 3, 4), "row-major"), row_strides((2, 3, 4), "column-major")
    ((3, 1, 0), (4, 0, 1))
    """
    at = len(shape) - (2 if how == "column-major" else 1)
    found = list(strides((*shape[:at], *shape[at + 1 :]), "row-major"))
    return (*found[:at], 0, *found[at:])


def _add(slopes: dict[Variable, int], x: Plain, stride: int, env: Env, loops: Loops) -> int:
    """Add an index's slopes, and return what it adds where all variables are 0."""

    def slope(of: Variable, by: int) -> None:
        slopes[of] = slopes.get(of, 0) + by

    match x:
        case Tile():
            slope(x, stride * space.step(loops[x], env))
            return _add(slopes, loops[x].span, stride, env, loops)
        case Span():
            if x.edges:
                slope(x, stride)
                return 0
            return stride * space.resolved(x, env)[0]
        case Number(tile):
            slope(tile, stride)
        case Within():
            pass
        case At(buffer):
            slope(buffer, stride)
        case _:
            assert_never(x)
    return 0


def untouched(touch: Touch, env: Env) -> bool:
    """Whether an operation has nothing to sum over, so that it touches nothing."""
    return any(math.prod(extent(x, env) for x in dim) == 0 for dim in touch.over)
