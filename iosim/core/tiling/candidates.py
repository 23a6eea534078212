"""What a parameter may be: ascending candidates, for many points at once.

A candidate is addressed by its position, and positions exist only as formulas: a million candidates
take no more room than three.  All arrays have one entry for each point; `at` says which point a
position belongs to.
"""

from __future__ import annotations

import abc
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.arrays import Ints
from iosim.core.program.ir import Loop, Param, Program
from iosim.core.program.space import named_tiles, spans


@dataclass(frozen=True)
class Candidates(abc.ABC):
    """The candidates of one parameter.

    Attributes:
        extent: of the axis, at every point.
    """

    extent: Ints

    @property
    @abc.abstractmethod
    def count(self) -> Ints:
        """How many candidates every point has."""

    @abc.abstractmethod
    def value(self, position: Any, at: Any) -> Any:
        """The values at positions; a tile may be larger than its axis."""

    @abc.abstractmethod
    def floor(self, limit: Any, at: Any) -> Any:
        """The last position whose clipped value is at most a limit of −1 … extent; −1 for none."""

    def clipped(self, position: Any, at: Any) -> Any:
        """The values at positions, clipped to the axis as `bind` does."""
        return self.value(position, at)


@dataclass(frozen=True)
class EveryValue(Candidates):
    """Every integer from `first` to the extent."""

    first: int

    @property
    def count(self) -> Ints:
        """How many."""
        return self.extent + 1 - self.first

    def value(self, position: Any, at: Any) -> Any:
        """The integers themselves."""
        return self.first + position

    def floor(self, limit: Any, at: Any) -> Any:
        """The limit itself."""
        return np.maximum(limit - self.first, -1)


@dataclass(frozen=True)
class DistinctTrips(Candidates):
    """The least B for every value of ⌈n/B⌉ = ⌊(n−1)/B⌋ + 1, about 2√n of them.

    With s = ⌊√(n−1)⌋, they are 1 … s, and then ⌊(n−1)/(v+1)⌋ + 1 for v = ⌊(n−1)/(s+1)⌋ … 0.
    """

    @functools.cached_property
    def count(self) -> Ints:
        """How many."""
        return self._root + self._last // (self._root + 1) + 1

    @functools.cached_property
    def _last(self) -> Ints:
        return self.extent - 1

    @functools.cached_property
    def _root(self) -> Ints:
        return np.sqrt(self._last).astype(np.int64)  # exact below 2**52

    def value(self, position: Any, at: Any) -> Any:
        """Small ones are their position + 1, large ones have few trips."""
        # In float64 division is exact after rounding down, below 2**52, and faster.
        trips = np.maximum(self.count[at] - position, 1)
        large = (self._last[at] / trips).astype(np.int64) + 1
        return np.where(position < self._root[at], position + 1, large)

    def floor(self, limit: Any, at: Any) -> Any:
        """By the trips that the limit would take."""
        trips = (self._last[at] / np.maximum(limit, 1)).astype(np.int64)
        large = self.count[at] - 1 - trips
        return np.where(limit <= self._root[at], np.maximum(limit, 0) - 1, large)


@dataclass(frozen=True)
class PowersOfTwo(Candidates):
    """Powers of two from 16 to the first that covers the axis, which matrix units take."""

    @property
    def count(self) -> Ints:
        """How many."""
        return np.maximum(_log2(np.maximum(self.extent - 1, 1)) + 1 - 3, 1)

    def value(self, position: Any, at: Any) -> Any:
        """Also 128 for 65 rows, where a kernel gives a tile 128."""
        return 16 << np.asarray(position)

    def clipped(self, position: Any, at: Any) -> Any:
        """The last one is the extent itself."""
        return np.minimum(self.value(position, at), self.extent[at])

    def floor(self, limit: Any, at: Any) -> Any:
        """The last power, or the one that covers the axis."""
        within = np.maximum(_log2(np.maximum(limit, 1)) - 4, -1)
        return np.where(limit >= self.extent[at], self.count[at] - 1, within)


@dataclass(frozen=True)
class AllOrNothing(Candidates):
    """All or nothing."""

    @property
    def count(self) -> Ints:
        """Two."""
        return np.full_like(self.extent, 2)

    def value(self, position: Any, at: Any) -> Any:
        """0, or the extent."""
        return position * self.extent[at]

    def floor(self, limit: Any, at: Any) -> Any:
        """The extent, only at the extent."""
        return np.where(limit >= self.extent[at], 1, np.where(limit >= 0, 0, -1))


def _log2(values: Any) -> Ints:
    """⌊log₂⌋, exact below 2**53."""
    return np.frexp(np.asarray(values, np.float64))[1].astype(np.int64) - 1


def candidates_of(program: Program, param: Param, extent: Ints, lattice: str) -> Candidates:
    """The candidates of a parameter that is not given.

    Args:
        extent: of its axis, at every point.
        lattice: ``"all"`` or ``"pow2"``.
    """
    hold = param.least == 0
    if lattice == "pow2":
        return AllOrNothing(extent) if hold else PowersOfTwo(extent)
    if hold or not trips_decide(program, param.name):
        return EveryValue(extent, param.least)
    return DistinctTrips(extent)


@functools.lru_cache(2**12)
def trips_decide(program: Program, name: str) -> bool:
    """Whether two values of a parameter with equal trips make equal tilings.

    So it is only where its loops run over a whole axis, and no span names it or its tiles.
    """
    bounds = {x for span in spans(program) for end in span.bounds for x, _ in end.sizes}
    named = named_tiles(program)
    loops = [x for x in program.nodes if isinstance(x, Loop) and x.step == name]
    return name not in bounds and all(x.span.is_entire_axis and x.tile not in named for x in loops)
