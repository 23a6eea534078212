"""A plan's bounds by its holds: words at the ends of one, and how much fits with the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from iosim.base.arrays import Ints
from iosim.core.counting.arrays import Iterations, Room, find_room
from iosim.core.counting.below import floor_to_integers
from iosim.core.counting.closed import Level
from iosim.core.counting.poly import Poly
from iosim.core.counting.ramps import real
from iosim.core.program.index import Affine
from iosim.core.tiling.boxes import Where, take
from iosim.core.tiling.endpoint_bounds import Ends, Leaning
from iosim.core.tiling.evaluate import ROUNDING, Points, PointwisePoly, Value, above_line
from iosim.core.tiling.plan import Plan
from iosim.core.tiling.wide import at_least, real_below


def filled_holds(plan: Plan) -> list[str]:
    """Stationary parts with which words never rise, where iterations differ in what they hold.

    Such a part is bounded at its upper end, which is what fits with the rest; some level tells.
    """
    held = plan.falls.intersection(plan.holds) if any(v.over for v in plan.levels) else ()
    return [k for k in sorted(held) if any(hold_lines(plan.levels, k))]


def hold_lines(levels: Sequence[Level], hold: str) -> Iterator[tuple[int, Poly, Poly]]:
    """The numbers of the levels that are linear in a stationary part, as flat + hold·tilt."""
    for k, level in enumerate(levels):
        tilt = level.words.slope(hold)
        if tilt.terms and hold not in tilt.names():
            yield k, level.words - tilt * Poly.of(hold), tilt


class HoldReach:
    """The last position of a stationary part W with which boxes of values may fit.

    Of each level that is flat + W·tilt, flat and tilt are bounded from below over the box.  Where
    that tilt is positive, a tiling of the box fits only if W ≤ ⌊(M − flat)/tilt⌋; where it is
    not, or the level's loops may not run, the level says nothing.  All levels have to fit, so W
    is at most the least of these numbers, in each kind of iteration too (`Room`, without a tile).
    """

    def __init__(self, points: Points, hold: str) -> None:
        self.points, self.candidates = points, points.candidates[hold]
        self.lines: list[tuple[list[PointwisePoly], list[Affine]]] = []
        self.over: list[tuple[Level, tuple[Poly, Poly, Poly]]] = []
        for k, *parts in hold_lines(points.plan.levels, hold):
            level = points.plan.levels[k]
            if level.over:
                self.over.append((level, (parts[0], parts[1], Poly())))
                continue
            terms = [points.terms(x, points.plan.searched) for x in parts]
            self.lines.append((terms, [x for x in level.runs if isinstance(x, Affine)]))

    def __call__(self, at: Ints, low: Where, high: Where) -> Ints:
        """From the values at the corners of boxes."""
        least, most = self.points.on(low, high), self.points.above(high, low)
        extent, cap = self.candidates.extent[at], self.points.M[at]
        room: Any = extent
        for terms, runs in self.lines:
            flat, tilt = (x(at, least, most) for x in terms)
            here = np.where(tilt > 0, (cap - flat) // np.maximum(tilt, 1), extent)
            for length in runs:
                here = np.where(least.length(length) > 0, here, extent)
            room = np.minimum(room, here)
        seen: Iterations = {}
        for level, line in self.over:
            there = find_room(level, line, None, (low, high), seen)
            if there is not None:
                here = (cap - there.flat) // np.maximum(there.tilt, 1)
                here = np.where(there.there & (there.tilt > 0), here, extent)
                room = np.minimum(room, np.min(here, axis=0))
        return np.asarray(self.candidates.floor(np.maximum(room, -1).astype(np.int64), at))


class HoldBound:
    """The bounds of a plan at the ends of a stationary part W, at some points.

    Let W be from W₁ to W₂ in a box.  Words are at least flat + W·by_hold + (D − W)·by_rest with
    each polynomial from below over the box, which is linear in W: so the less of its values at
    W₁ and W₂ holds for all of the box.

    Where a room limits the tile s that is solved for at W₁, it does at every W: an occupancy is a
    sum of extents of buffers, so no tilt is negative.  Then 1/s ≥ each/left with
    left = M − flat − tilt·W.  Words in which all that depends on s is divided by it are at least

        rest(W) + flow(W)·each/left(W),

    a linear function and one linear function over another.  `endpoint_bounds` shows that such a
    sum is least at W₁ or W₂; where left ≤ 0 at an end no tiling fits there, and its value is
    infinite.  The larger of both bounds is taken.
    """

    def __init__(self, points: Points, found: Ends, solved: str | None) -> None:
        self.points, self.hold, self.axis = points, found.hold, found.axis
        self.words = self._terms(found.words)
        shared = found.shared.get(solved) if solved is not None else None
        self.shared = [self._terms(x) for x in shared] if shared else None

    def _terms(self, words: Leaning) -> tuple[PointwisePoly | None, ...]:
        polys = (words.flat, words.by_hold, words.by_rest)
        return tuple(self.points.words(x) if x.terms else None for x in polys)

    def __call__(self, at: Ints, low: Where, high: Where, over: Collection[Room]) -> Any:
        """Words that boxes move at least.

        Args:
            low, high: the values at the corners of the boxes, with the most room.
            over: what iterations hold at least.
        """
        least, most = self.points.on(low, high), self.points.above(high, low)
        first, last = low[self.hold], high[self.hold]
        ends = [(W, take(self.points.base[self.axis], at) - W) for W in (first, last)]
        shares = list(self._shares(at, first, last, over))

        def bound(least: Value) -> Any:
            def along(parts: Any) -> list[Any]:
                flat, *by = (x(at, least, most) if x else 0 for x in parts)
                return [flat + by[0] * W + by[1] * rest for W, rest in ends]

            words = np.minimum(*map(at_least, along(self.words)))
            if not shares:
                return words
            rest, flow = (
                np.stack([real_below(x) for x in along(parts)], axis=-2)
                for parts in self.shared or ()
            )
            for rows, limited, by, none in shares:
                each = (x[..., None, :, rows] for x in (rest, flow))
                here = np.where(none, np.inf, next(each) + next(each) * by)
                here = np.where(limited, np.min(here, axis=-2), 0).max(axis=-2) * (1 - ROUNDING)
                if words.dtype != np.float64:  # not at an end of a line
                    here = floor_to_integers(here, words.dtype)
                words[..., rows] = np.maximum(words[..., rows], here)
            return words

        words, step = bound(least), self.points.step
        if step is None:
            return words
        return above_line(words, bound(least.at_ends(step)))

    def _shares(
        self, at: Ints, first: Any, last: Any, over: Collection[Room]
    ) -> Iterator[tuple[Ints, Any, Any, Any]]:
        """The boxes that a room limits, and kinds × these: where each kind does, 1/s, and no s.

        The last two have the ends of the part between, as an axis of two.
        """
        if self.shared is None:
            return
        cap = self.points.M[at]
        for room in over:
            limited = np.broadcast_to(room.limited(cap, first), (len(room.there), len(at)))
            rows = np.flatnonzero(np.any(limited, axis=0))
            if len(rows):
                held = [room.flat + room.tilt * W for W in (first, last)]
                left = np.stack([np.broadcast_to(cap - x, limited.shape) for x in held], axis=1)
                each = np.broadcast_to(room.each, limited.shape)[:, None, rows]
                left = left[..., rows]
                yield (
                    rows,
                    limited[:, rows],
                    real(each / np.maximum(left, 1)),
                    np.asarray(left <= 0, bool),
                )
