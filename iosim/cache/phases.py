"""How many accesses boxes are that become units late, without making them.

A box's units depend on its phase alone (`iosim.cache.boxes`).  A loop whose tile no span follows
has numbers 0, 1, … in every lane of `Measure`, so that the phases of its iterations are those of
its start, moved by a step, again and again: they come round after few iterations.  How often each
phase occurs is therefore counted loop by loop.  `Measure` walks the program and calls this for each
box, as it calls the counters of rows and of lines in `iosim.cache.of_program`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Ints
from iosim.cache.address_map import Env, Extents, Ground, Loops, extent, placed, resolved
from iosim.cache.boxes import BoxKind
from iosim.cache.layouts import Tiled
from iosim.cache.references import Piece
from iosim.cache.trace_length import group_lanes
from iosim.core.program import space
from iosim.core.program.index import Span, Tile

# Words, or phases times steps, that are visited for a box at most.
MOST_WORK = 2**22


class UnknownError(Exception):
    """Phases that are not counted so."""


@dataclass
class Phased:
    """Counts the accesses of boxes; `named` are the tiles that are lanes.

    Raises UnknownError where masks or words that are read decide where a box lies, or phases are
    too many.
    """

    ground: Ground
    named: frozenset[Tile]
    known: dict[BoxKind, NDArray[np.object_]] = field(default_factory=dict)

    @property
    def period(self) -> int:
        """After how many positions on any axis phases are what they were."""
        found = self.ground.line
        for tensor in self.ground.tensors.values():
            if isinstance(tensor.how, Tiled):
                kind = placed(tensor, self.ground.line)
                found = math.lcm(found, kind.down, kind.across)
        return found

    def __call__(
        self,
        part: Piece,
        extents: Extents,
        env: Env,
        loops: Loops,
        times: Any,
    ) -> int:
        """How many accesses a part is in all lanes, each as often as it runs."""
        shape = tuple(extent(x, env) for x in part.shape or ())
        sizes = np.broadcast_arrays(times, *extents, *shape, *env.values())
        count = sizes[0].size
        runs = np.broadcast_to(np.asarray(times), count)
        columns = [x.reshape(-1) for x in sizes[1 : 1 + len(extents) + len(shape)]]
        kinds, kind = group_lanes(columns or [np.zeros(count, np.int64)])
        found = 0
        for k, sizes_of in enumerate(kinds):
            lanes = np.flatnonzero((kind == k) & (runs > 0))
            if lanes.size and math.prod(sizes_of[: len(extents)]):
                own = {x: y[lanes] if np.ndim(y) else y for x, y in env.items()}
                found += self._alike(part, tuple(sizes_of[: len(extents)]), own, loops, runs[lanes])
        return found

    def _alike(
        self,
        part: Piece,
        extents: tuple[int, ...],
        env: Env,
        loops: Loops,
        times: Any,
    ) -> int:
        """The same of lanes in which a part has the same extents."""
        one = {x: int(y[0]) if np.ndim(y) else y for x, y in env.items()}
        kind = self.ground.kind(part, one, extents, 0, math.prod(extents))
        down, across = kind.down, kind.across
        place, slopes = self.ground.located(part, one, loops)
        at: Any = np.full(times.size, place)
        if float(times.sum(dtype=float)) >= 2**53:
            times = times.astype(object)
        free: list[tuple[int, int, Any]] = []
        for x, slope in slopes.items():
            row = slope >> kind.shift
            far = row % down, (slope - (row << kind.shift)) % across
            if isinstance(x, Span):
                at = at + slope * resolved(x, env)[0]
            elif far == (0, 0):
                continue
            elif not isinstance(x, Tile) or loops[x].marks is not None:
                raise UnknownError
            else:
                start, stop = resolved(loops[x].span, env)
                step = space.step(loops[x], env)
                trips = (stop - start) // step
                if x in self.named:
                    at = at + slope * ((env[x.edges[0]] - start) // step)
                elif np.all(extent(x, env) < step):  # the last one, which is short
                    at = at + slope * trips
                else:
                    free.append((*far, trips))
                    times = times // trips
        row = at >> kind.shift
        phase = row % down * across + (at - (row << kind.shift)) % across
        often = self._often(phase, times, free, (down, across))
        return int((often * self._counts(kind)).sum())

    def _often(
        self, phase: Ints, times: Any, free: list[tuple[int, int, Any]], shape: tuple[int, int]
    ) -> NDArray[np.object_]:
        """How often each phase occurs.

        Args:
            phase, times: of each lane, where its free loops start, and how often it runs.
            free: how far the phase moves in an iteration of a loop, and how many there are.
        """
        if math.prod(shape) > MOST_WORK:
            raise UnknownError
        varying = [x for x in free if np.ndim(x[2])]
        if len(varying) > 1:
            raise UnknownError
        if varying:
            ((down, across, trips),) = varying
            round_ = _round(down, across, shape)
            some = self._starts(phase, times * (trips // round_), shape)
            found = _moved(some, (down, across, round_))
            for rest in np.unique(trips % round_).tolist():
                own = trips % round_ == rest
                if rest:
                    some = self._starts(phase[own], times[own], shape)
                    found = found + _moved(some, (down, across, rest))
        else:
            found = self._starts(phase, times, shape)
        for one in free:
            if not np.ndim(one[2]):
                found = _moved(found, one)
        return found

    def _starts(self, phase: Ints, times: Any, shape: tuple[int, int]) -> NDArray[np.object_]:
        found = np.zeros(math.prod(shape), object)
        if float(times.sum()) < 2**53:  # as floats they are exact
            found += np.bincount(phase, times.astype(float), found.size).astype(np.int64)
        else:
            np.add.at(found, phase, times)
        return found.reshape(shape)

    def _counts(self, kind: BoxKind) -> NDArray[np.object_]:
        """The accesses of a box at each phase."""
        kind = replace(kind, start=0)
        if kind not in self.known:
            if kind.down * kind.across * kind.words > MOST_WORK:
                raise UnknownError
            row, column = np.divmod(np.arange(kind.down * kind.across), kind.across)
            _, new = kind.units((row << kind.shift) + column)
            counts = np.count_nonzero(new, axis=1).astype(object)
            self.known[kind] = counts.reshape(kind.down, kind.across)
        return self.known[kind]


def _round(down: int, across: int, shape: tuple[int, int]) -> int:
    """After how many such moves phases come round."""
    return math.lcm(shape[0] // math.gcd(shape[0], down), shape[1] // math.gcd(shape[1], across))


def _moved(often: NDArray[np.object_], loop: tuple[int, int, int]) -> NDArray[np.object_]:
    """How often each phase occurs in a loop, whose first iteration has some."""
    down, across, trips = loop
    round_ = _round(down, across, (often.shape[0], often.shape[1]))
    if min(round_, trips) * often.size > MOST_WORK:
        raise UnknownError
    found = np.zeros_like(often)
    for k in range(min(round_, trips)):
        found += ((trips - 1 - k) // round_ + 1) * np.roll(often, (k * down, k * across), (0, 1))
    return found
