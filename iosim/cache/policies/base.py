"""What a policy is: three small functions over arrays of whole numbers.

A replay keeps which lines are resident and dirty, and how much room each set has.  A policy keeps
an order.  It is called for every access, and asked which line to evict from a full set.

Sets are numbered 0, 1, …, and lines go on from there: ``sets``, ``sets + 1``, …  So one array of
``sets + lines`` entries holds something for each line, and for each set.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Ints

# Arrays of unsigned numbers when compiled, lists of Python's numbers otherwise.
Cells = MutableSequence[int]
# What a policy keeps: a tuple of Cells.  Each policy knows how many.
State = Any
Start = tuple[NDArray[np.integer[Any]], ...]


class Shape(NamedTuple):
    """For how much a policy keeps its order."""

    sets: int
    ways: int
    lines: int
    seed: int

    def cells(self, count: int, value: int = 0) -> NDArray[np.uint32]:
        """This many entries of one value, for lines and marks: unsigned, 32 bits."""
        return np.full(count, value, np.uint32)

    def numbers(self, count: int, value: int = 0) -> Ints:
        """This many entries of one value, to calculate with: 64 bits."""
        return np.full(count, value, np.int64)

    def first_places(self) -> Ints:
        """Of each set, its first place among all ways."""
        return np.arange(self.sets, dtype=np.int64) * self.ways

    def per_line(self) -> NDArray[np.uint32]:
        """An entry for every set and then for every line; of the sets it is their own number."""
        own = self.cells(self.sets + self.lines)
        own[: self.sets] = np.arange(self.sets)
        return own


def ignore(state: State, s: int, line: int) -> None:
    """Keep the order as it is."""


def nobody(state: State, s: int) -> int:
    """Of a policy that keeps no order: never asked."""
    return s


def nothing(shape: Shape) -> Start:
    """No order is kept."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Which line leaves.

    Attributes:
        name: what it is called, in lower case.
        rule: what it evicts, in a few words.
        start: the arrays that it keeps, as they are before the first access.
        hit: called with (arrays, set, line) when a line is found.
        enter: called with (arrays, set, line) when a line comes in.  The set has room.
        evict: given (arrays, set), the set being full: the line that leaves.
        binary: whether the ways must be a power of two.
        foresees: whether it knows each line's next use.  Then it keeps no order, and the cache
            is fully associative.

    The three functions are compiled as they are if numba is installed.  Sets and lines are
    unsigned numbers of 64 bits there; use them as places in arrays, store and compare them, and
    calculate with entries of `Shape.numbers`: numba makes floating point of a signed and an
    unsigned number.  Call other functions by their own names, imported from their modules.

    >>> from iosim.cache import POLICIES
    >>> POLICIES["fifo"].name, POLICIES["fifo"].rule
    ('fifo', 'the line that came first')
    """

    name: str
    rule: str
    start: Callable[[Shape], Start] = nothing
    hit: Callable[[State, int, int], None] = ignore
    enter: Callable[[State, int, int], None] = ignore
    evict: Callable[[State, int], int] = nobody
    binary: bool = False
    foresees: bool = False
