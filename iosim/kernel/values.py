"""Values of a kernel for all programs at once, as small arrays that broadcast.

Every array has three axes for the grid and one for each axis of the tile, of size 1 where the value
doesn't depend on it.  An integer tile is kept as a sum of such arrays and a mask as a product of
them, so that ``base + row[:, None] * stride + column[None, :]`` takes the memory of a row and of a
column.  They are multiplied out only where an operation needs it.

`evaluate`, `semantics`, `lanes` and `threads` compute with it.  ``tests/kernel/test_one_bit.py``
and ``tests/kernel/test_corpus.py`` compare the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
GRID = 3  # axes of the grid
# Elements that one array may have; where more are needed, the grid is evaluated in parts.
MOST = 2**24


class ArrayTooLarge(Exception):
    """An array would have more than `MOST` elements."""


@dataclass(frozen=True)
class SeparableTile:
    """A sum of integer arrays, or a product of Boolean ones; all have the same number of axes."""

    arrays: tuple[Array, ...]

    @property
    def rank(self) -> int:
        """Axes of the tile; 0 for a scalar."""
        return self.arrays[0].ndim - GRID

    @property
    def is_mask(self) -> bool:
        """Whether it is a product of Boolean arrays."""
        return self.arrays[0].dtype == bool

    def map(self, function: Callable[[Array], Array]) -> SeparableTile:
        """The same function of each array: one that only moves elements."""
        return SeparableTile(tuple(function(x) for x in self.arrays))

    def dense(self) -> Array:
        """One array: the sum, or the product.

        >>> SeparableTile((np.arange(2).reshape(1, 1, 1, 2, 1), np.arange(3).reshape(1, 1, 1, 1, 3))
        ...       ).dense().tolist()
        [[[[[0, 1, 2], [1, 2, 3]]]]]
        """
        out = self.arrays[0]
        for x in self.arrays[1:]:
            check_size(out, x)
            out = out & x if self.is_mask else out + x
        return out

    def join(self, other: SeparableTile) -> SeparableTile:
        """The sum of two sums, or the product of two products."""
        out = list(self.arrays)
        for x in other.arrays:
            # The smallest array that x fits into without making it larger.
            fitting = [i for i, y in enumerate(out) if broadcast_size(x, y) <= max(x.size, y.size)]
            if fitting:
                i = min(fitting, key=lambda i: out[i].size)
                out[i] = x & out[i] if self.is_mask else x + out[i]
            else:
                out.append(x)
        return SeparableTile(tuple(out))

    def times(self, other: SeparableTile) -> SeparableTile:
        """The product of two sums, term by term."""
        first, *rest = (
            SeparableTile((x * y,)) for x in self.arrays for y in other.arrays if fits(x, y)
        )
        for one in rest:
            first = first.join(one)
        return first


@dataclass(frozen=True)
class PointerTarget:
    """Where a pointer points: an argument, and words after its first one.

    Attributes:
        argument: its name.
        offset: a sum of words.
        when: the programs that it holds for, as a mask; None for all.
    """

    argument: str
    offset: SeparableTile
    when: SeparableTile | None = None


@dataclass(frozen=True)
class Pointer:
    """One place, or several that conditions choose among."""

    places: tuple[PointerTarget, ...]

    @staticmethod
    def to(argument: str) -> Pointer:
        """A pointer to an argument's first word."""
        return Pointer((PointerTarget(argument, constant(0)),))

    def map(self, function: Callable[[SeparableTile], SeparableTile]) -> Pointer:
        """The same function of each offset."""
        return Pointer(
            tuple(PointerTarget(p.argument, function(p.offset), p.when) for p in self.places)
        )


@dataclass(frozen=True)
class Descriptor:
    """A tensor descriptor, or a block pointer: a tensor, and where in it a tile begins.

    Attributes:
        pointer: to the tensor's first word.
        shape: of the tensor, each a scalar.
        strides: in words, each a scalar.
        tile: the tile's shape.
        starts: of a block pointer, where the tile begins along each axis.
    """

    pointer: Pointer
    shape: tuple[SeparableTile, ...]
    strides: tuple[SeparableTile, ...]
    tile: tuple[int, ...]
    starts: tuple[SeparableTile, ...] = ()


Value = Any  # SeparableTile, Pointer, Descriptor, or an array of floating-point numbers


def broadcast_size(*arrays: Array) -> int:
    """Elements of the arrays' product.

    >>> broadcast_size(np.zeros((2, 1)), np.zeros((1, 3)))
    6
    """
    size = 1
    for lengths in zip(*(x.shape for x in arrays), strict=True):
        size *= max(lengths)
    return size


def check_size(*arrays: Array) -> None:
    """Refuse what would be too large.

    Raises:
        ArrayTooLarge: more than `MOST` elements.
    """
    if broadcast_size(*arrays) > MOST:
        raise ArrayTooLarge


def fits(*arrays: Array) -> bool:
    """`check_size`, as a condition that holds or raises."""
    check_size(*arrays)
    return True


def constant(value: Any, rank: int = 0) -> SeparableTile:
    """A number that is the same for all programs and elements.

    >>> constant(3).dense().shape
    (1, 1, 1)
    """
    dtype = bool if isinstance(value, bool) else np.int64
    return SeparableTile((np.full((1,) * (GRID + rank), value, dtype),))


def along(values: Array, axis: int, rank: int) -> Array:
    """A one-dimensional array along an axis of a tile."""
    shape = [1] * (GRID + rank)
    shape[GRID + axis] = len(values)
    return values.reshape(shape)


def lift(x: Array, rank: int) -> Array:
    """A scalar's array as one of a tile of so many axes."""
    return x.reshape(x.shape[:GRID] + (1,) * rank)


def spread(x: Array, tile: Sequence[int]) -> Array:
    """An array with the tile's axes at full length.

    Raises:
        ArrayTooLarge: see `MOST`.
    """
    shape = x.shape[:GRID] + tuple(tile)
    if int(np.prod(shape)) > MOST:
        raise ArrayTooLarge
    return np.broadcast_to(x, shape)


def choose(condition: SeparableTile, yes: Value, no: Value) -> Value:
    """``yes`` where the condition holds, ``no`` elsewhere."""
    if yes is no:
        return yes
    if isinstance(yes, Pointer):
        return _choose_pointer(condition, yes, no)
    if isinstance(yes, Descriptor):
        return _choose_descriptor(condition, yes, no)
    where = condition.dense()
    if where.size == 1:
        return yes if where.item() else no
    if (
        isinstance(yes, SeparableTile)
        and not yes.is_mask
        and where.shape[GRID:] == (1,) * condition.rank
    ):
        return _choose_sum(where, yes, no)
    first, second = (x.dense() if isinstance(x, SeparableTile) else x for x in (yes, no))
    rank = max(x.ndim for x in (where, first, second)) - GRID
    where, first, second = (lift(x, rank) if x.ndim == GRID else x for x in (where, first, second))
    check_size(where, first, second)
    out = np.where(where, first, second)
    return SeparableTile((out,)) if isinstance(yes, SeparableTile) else out


def _choose_sum(where: Array, yes: SeparableTile, no: SeparableTile) -> SeparableTile:
    """Of two sums, each program's: arrays that both have stay as they are."""
    where = lift(where.reshape(where.shape[:GRID]), max(yes.rank, no.rank))
    shared, rest = [], list(no.arrays)
    first = []
    for x in yes.arrays:
        same = next((i for i, y in enumerate(rest) if y is x or np.array_equal(x, y)), None)
        if same is None:
            first.append(x)
        else:
            shared.append(rest.pop(same))
    zero = np.zeros((1,) * where.ndim, np.int64)
    out = [SeparableTile((x,)) for x in shared]
    out += [SeparableTile((np.where(where, x, zero),)) for x in first]
    out += [SeparableTile((np.where(where, zero, y),)) for y in rest]
    total, *others = out
    for one in others:
        total = total.join(one)
    return total


def _choose_pointer(condition: SeparableTile, yes: Pointer, no: Pointer) -> Pointer:
    one, other = yes.places, no.places
    if len(one) == len(other) == 1 and one[0].argument == other[0].argument:
        return Pointer(
            (PointerTarget(one[0].argument, choose(condition, one[0].offset, other[0].offset)),)
        )
    holds = condition.dense()
    if holds.size == 1:
        return yes if holds.item() else no
    return Pointer(
        tuple(_restrict(p, SeparableTile((holds,))) for p in one)
        + tuple(_restrict(p, SeparableTile((~holds,))) for p in other)
    )


def _restrict(place: PointerTarget, when: SeparableTile) -> PointerTarget:
    """A place that holds for fewer programs."""
    return PointerTarget(
        place.argument, place.offset, place.when.join(when) if place.when else when
    )


def _choose_descriptor(condition: SeparableTile, yes: Descriptor, no: Descriptor) -> Descriptor:
    def each(
        a: tuple[SeparableTile, ...], b: tuple[SeparableTile, ...]
    ) -> tuple[SeparableTile, ...]:
        return tuple(choose(condition, x, y) for x, y in zip(a, b, strict=True))

    return Descriptor(
        _choose_pointer(condition, yes.pointer, no.pointer),
        each(yes.shape, no.shape),
        each(yes.strides, no.strides),
        yes.tile,
        each(yes.starts, no.starts),
    )
