"""Branch and bound over boxes of candidates, at many points in lockstep.

A box is a range of positions for every parameter that is branched on.  Interval arithmetic on the
closed form bounds it from below: it is dropped when what it holds at least is more than M, or when
what it moves at least cannot beat the best found at its point.  Where two tiles are searched, a
bound on real numbers (`relax`) also cuts boxes to the tiles that can.  The boxes of all points are
cut and judged together, so that a million points cost little more than their arithmetic.

Of tiles that move equally many words, those at the first positions win, compared parameter by
parameter, and the tile that is solved for is the largest that fits with them: the answer at a
point does not depend on the points searched with it.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from iosim.base.arrays import Bools, Ints, clip
from iosim.core.counting.arrays import Room
from iosim.core.tiling.boxes import (
    NEVER,
    Best,
    Boxes,
    Constraints,
    Where,
    divisible,
    first_least,
    join,
    keep,
    take,
    within_runs,
)
from iosim.core.tiling.candidates import Candidates
from iosim.core.tiling.evaluate import Peak, Points, Reach, RealBound, above_line
from iosim.core.tiling.plan import Plan
from iosim.core.tiling.stationary_bounds import HoldBound, HoldReach, filled_holds
from iosim.core.tiling.wide import NEVER_LESS, Wide, at_least, real_below

# Boxes are cut into this many parts: where there are few, larger array operations pay.
_PARTS_OF_FEW, _PARTS, _FEW = 64, 3, 64
# Into more where a bound on real numbers drops most of them at once: fewer rounds.
_PARTS_RELAXED = 9
# This many boxes cost little more than one.
_AT_ONCE = 256
# A side whose ends differ by more than this factor is cut into equal ratios.
_RATIO = 8
# Tiles that are tried first at every point.
_GUESSES = 8


class Search:
    """The search of a plan at some points.

    Args:
        solved: one of `plan.solvable`, or None.
        candidates: of all parameters that are not given.
        base: sizes and given parameters, int64, with one entry for each point.
        M: words of fast memory at each point.
        dtype: int64, or object where sums over tiles may pass 64 bits.
        wide: whether words may, while sums over tiles don't.
    """

    def __init__(
        self,
        plan: Plan,
        solved: str | None,
        candidates: Mapping[str, Candidates],
        base: Where,
        M: Ints,
        dtype: Any = np.int64,
        wide: bool = False,
    ) -> None:
        self.plan, self.solved, self.candidates, self.M = plan, solved, candidates, M
        self.given = base
        self.points = Points(plan, candidates, base, M, dtype, wide)
        self.boxed = [k for k in plan.searched if k != solved]
        # Whether a box moves least at its upper corner, and takes least at its lower one.
        self.falls = plan.falls.issuperset(plan.searched)
        self.cornered = plan.lowest.issuperset(self.boxed)
        self.total = self.points.words(plan.total)
        self.constraints = Constraints(plan.constraints, candidates, base)
        # Lines bound larger boxes well.
        self.parts = _PARTS if self.points.step is None else _PARTS + 1
        self.relaxed: RealBound | None = None
        self.ends = None if plan.ends is None else HoldBound(self.points, plan.ends, solved)
        self.reaches = {k: HoldReach(self.points, k) for k in filled_holds(plan)}
        # Holds whose ends bounds are taken at, wherever these are, are cut last.
        self.last = [*self.reaches, *([self.ends.hold] if self.ends is not None else [])]
        if solved is not None:
            self.solver = Reach(self.points, solved, self.boxed)
            form = plan.relaxed[solved]
            # With few points, its Python costs more than the boxes that it saves.
            if form is not None and dtype is not object and len(M) > _FEW:
                self.relaxed = RealBound(self.points, form)
                self.parts = _PARTS_RELAXED

    @functools.cached_property
    def peak(self) -> Peak:
        """What is held; a tile that is solved for mostly says enough."""
        return Peak(self.points, self.plan.searched)

    def least_peak(self) -> Any:
        """The fewest words that any valid tiles hold, at every point; NEVER if none is valid."""
        boxed = [k for k in self.plan.searched if k not in self.plan.lowest]
        best = np.full(len(self.M), NEVER, object)
        boxes = self._everything(boxed)
        while len(boxes[0]):
            at, low, high = boxes = self.constraints.narrow(boxes)
            corner = self.points.values(at, low)
            held = self.peak(at, corner, corner).astype(object)
            valid = np.flatnonzero(self.constraints.hold(at, low))
            np.minimum.at(best, at[valid], held[valid])
            least = self.peak(at, corner, self.points.values(at, high))
            boxes = self._cut(keep(boxes, np.flatnonzero((least < best[at]) & divisible(boxes))))
        return best

    def run(self) -> tuple[dict[str, Ints], Bools]:
        """The positions of the cheapest tiles that fit, and where there are any."""
        best = Best(len(self.M), self.boxed, self.points.dtype)
        if self.points.wide:
            best.words[:] = NEVER_LESS
        if (len(self.M) > _FEW and len(self.boxed) > 1) or self.relaxed is not None:
            # The optimum tends to hold all or nothing.  Starting from good tiles saves work: where
            # N is large a guess alone leaves three times as many boxes as a dive after it.
            ends = (False, True) if self.plan.holds else (False,)
            starts = [self._everything(self.boxed, held) for held in ends]
            if self.relaxed is not None:
                self._guess(self.relaxed, starts, best)
            # One dive from both: at every point the better of them leads as far, in half the time.
            self._dive(join(*starts), best)
        boxes = self._everything(self.boxed)
        if self.ends is not None:
            boxes = self._split_last(boxes, self.ends.hold)
        if self.relaxed is None:
            boxes = self._cut(boxes)  # of the whole box other bounds say little
        while len(boxes[0]):
            boxes, bound = self._look(boxes, best)
            rows = np.flatnonzero(best.may_improve(boxes, bound))
            boxes = keep(boxes, rows)
            boxes = self._cut(boxes, bound[rows] == best.words[boxes[0]])
            if len(boxes[0]) <= _AT_ONCE // 2:  # as few as that take as long as many
                boxes = self._cut(boxes)
        found, every = dict(best.position), self.points.every
        if self.solved is not None:
            found[self.solved] = best.last
        for name in self.plan.spare:
            # Words that are left go to the tiles that cost nothing: fewer, larger transfers.
            env = self.points.values(every, found)
            reach = Reach(self.points, name, (*self.plan.searched, *self.plan.spare))
            found[name] = np.maximum(reach(every, env, env), 0)
        rows = np.flatnonzero(~best.found)
        if self.points.wide and len(rows):
            # Perhaps all that fit move NEVER_LESS or more: Python's integers tell.
            some = {k: replace(c, extent=c.extent[rows]) for k, c in self.candidates.items()}
            given = {k: v[rows] for k, v in self.given.items()}
            again = Search(self.plan, self.solved, some, given, self.M[rows], object)
            positions, best.found[rows] = again.run()
            for name, position in positions.items():
                found[name][rows] = position
        return found, best.found

    def _everything(self, names: Collection[str], held: bool | None = None) -> Boxes:
        """One box for each point, of all positions, or of those that hold all or nothing."""
        every = self.points.every
        low = {k: np.zeros_like(every) for k in names}
        high = {k: self.candidates[k].count - 1 for k in names}
        for name in () if held is None else self.plan.holds:
            low[name] = high[name] = high[name] if held else low[name]
        return every, low, high

    def _split_last(self, boxes: Boxes, hold: str) -> Boxes:
        """Cut the last position of a stationary part off."""
        _, low, high = boxes
        parts = np.minimum(high[hold] - low[hold] + 1, 2)
        part, more = within_runs(parts), np.repeat(parts, parts) > 1
        at, low, high = keep(boxes, np.repeat(np.arange(len(parts)), parts))
        low[hold] = np.where(part == 1, high[hold], low[hold])
        high[hold] = np.where(more & (part == 0), high[hold] - 1, high[hold])
        return at, low, high

    def _cut(self, boxes: Boxes, tied: Any = np.False_) -> Boxes:
        """Cut every box along one side, into parts that differ by at most one.

        Args:
            tied: boxes that hold nothing cheaper than the best found; with more of
                a stationary part that falls words may be as many, and then less of it decides.

        That is the side which is longest, divided by the root of all its positions.  The longest
        side itself would leave a short side uncut next to a very long one, which is slow where N is
        huge; the largest share of all positions is slower where N is usual.
        """
        at, low, high = boxes
        if not low or not len(at):
            return boxes
        widths = np.array([high[k] - low[k] + 1 for k in low])
        whole = np.array([self.candidates[k].count[at] for k in low])
        share = np.where(widths > 1, widths / np.sqrt(whole), 0.0)
        for name in self.last:
            share[list(low).index(name)] *= np.where(tied & (name in self.reaches), 1, 1e-9)
        side = np.argmax(share, axis=0)
        width = widths[side, np.arange(len(at))]
        most = max(self.parts, min(_PARTS_OF_FEW, _AT_ONCE // len(at)))
        parts = np.minimum(width, most)
        alone = np.zeros(len(at), bool)
        if self.ends is not None:
            # Nothing of a stationary part is often best: it is cut off by itself.
            hold = self.ends.hold
            alone = (side == list(low).index(hold)) & (low[hold] == 0)
            parts = np.where(alone, np.minimum(width, 2), parts)

        rows = np.repeat(np.arange(len(at)), parts)
        first = np.array([low[k] for k in low])[side, np.arange(len(at))]
        side, width, first, alone = side[rows], width[rows], first[rows], alone[rows]
        part, parts_of = within_runs(parts), parts[rows]
        # A bound on real numbers cuts long sides by itself.
        far = (width // (first + 1) > _RATIO) & (self.relaxed is None)
        before, after = (_places(first, width, x, parts_of, far) for x in (part, part + 1))
        after = after - 1
        before, after = np.where(alone, (part, part * (width - 1)), (before, after))
        at, low, high = keep(boxes, rows)
        for k, name in enumerate(low):
            mine = side == k
            high[name] = np.where(mine, low[name] + after, high[name])
            low[name] = np.where(mine, low[name] + before, low[name])
        return keep((at, low, high), np.flatnonzero(before <= after))

    def _dive(self, boxes: Boxes, best: Best) -> None:
        """Follow the most promising box of every point, and its parts, to single candidates."""
        while len(boxes[0]):
            boxes, bound = self._look(boxes, best)
            boxes = self._cut(keep(boxes, first_least(boxes[0], bound)))

    def _guess(self, relaxed: RealBound, starts: list[Boxes], best: Best) -> None:
        """Learn some tiles around those at which the bound on real numbers is least."""
        name = relaxed.tile
        each, least = self.candidates[name], np.full(len(self.M), np.inf)
        at, near, _ = starts[0]
        for at, low, high in starts:
            lower, upper = self.points.corners(at, low, high)
            words, real = relaxed.best_tile(at, lower, upper)
            first = each.floor(np.nan_to_num(real, posinf=0.0).astype(np.int64), at)
            better = words < least
            least = np.where(better, words, least)
            near = {k: np.where(better, v, near[k]) for k, v in (low | {name: first}).items()}
        at = np.repeat(at, _GUESSES)
        here = {k: np.repeat(v, _GUESSES) for k, v in near.items()}
        around = here[name] + np.tile(np.arange(_GUESSES) - _GUESSES // 2 + 1, len(self.M))
        here[name] = clip(around, 0, each.count[at] - 1)
        self._look((at, here, here), best)

    def _relax(
        self,
        relaxed: RealBound,
        boxes: Boxes,
        lower: dict[str, Any],
        upper: dict[str, Any],
        best: Best,
    ) -> tuple[Boxes, dict[str, Any], dict[str, Any], Ints]:
        """Drop and cut boxes by the bound on real numbers, and return it."""
        at, low, high = boxes
        name = relaxed.tile
        words, first, last = relaxed(at, lower, upper, best.words[at])
        each = self.candidates[name]
        start = clip(np.ceil(first) - 1, -1, each.extent[at]).astype(np.int64)
        stop = clip(np.floor(last), -1, each.extent[at]).astype(np.int64)
        low = low | {name: np.maximum(low[name], each.floor(start, at) + 1)}
        high = high | {name: np.minimum(high[name], each.floor(stop, at))}
        rows = np.flatnonzero(best.may_improve(boxes, words) & (low[name] <= high[name]))
        at, low, high = boxes = keep((at, low, high), rows)
        some = {k: take(v, rows) for k, v in lower.items()}
        upper = {k: some[k] if v is lower[k] else take(v, rows) for k, v in upper.items()}
        lower = some
        lower[name] = self.points.value(name, low[name], at)
        upper[name] = self.points.value(name, high[name], at)
        return boxes, lower, upper, words[rows]

    def _look(self, boxes: Boxes, best: Best) -> tuple[Boxes, Any]:
        """Drop boxes that can't beat the best found, and learn the lower corners of the others.

        Returns those of more than one candidate, and what they move at least.
        """
        boxes = self.constraints.narrow(boxes)
        more = divisible(boxes)
        single = keep(boxes, np.flatnonzero(~more))
        at, low, high = boxes = keep(boxes, np.flatnonzero(more))
        if not len(at):
            self._learn(single, best)
            return boxes, best.words[at]
        lower, upper = self.points.corners(at, low, high)
        floor: Any = 0
        if self.relaxed is not None:
            boxes, lower, upper, floor = self._relax(self.relaxed, boxes, lower, upper, best)
            at, low, high = boxes
        for name, reach in self.reaches.items():
            high[name] = np.minimum(high[name], reach(at, lower, upper))
            upper[name] = self.points.value(name, np.maximum(high[name], low[name]), at)
        most = lower if self.cornered else upper
        over: list[Room] = []
        if self.solved is None:
            hopeful = self.peak(at, lower, most) <= self.M[at]
        else:
            over = self.solver.rooms(lower, most)
            room = self.solver(at, lower, most, over)
            hopeful = room >= 0
            upper[self.solved] = self.points.value(self.solved, np.maximum(room, 0), at)
        if self.falls:
            bound = at_least(self.total(at, self.points.on(upper)))
        elif self.ends is not None:
            bound = self.ends(at, lower | {k: upper[k] for k in self.plan.falls}, upper, over)
        else:
            bound = self._bound(at, lower, upper)
        bound = np.maximum(np.broadcast_to(np.asarray(bound, self.points.dtype), at.shape), floor)
        for name in self.reaches:
            hopeful &= low[name] <= high[name]
        rows = np.flatnonzero(hopeful & best.may_improve(boxes, bound))
        at, low, high = boxes = keep(boxes, rows)
        self._learn(join(single, boxes, *([self._filled(boxes)] if self.reaches else [])), best)
        return boxes, bound[rows]

    def _bound(self, at: Ints, lower: Where, upper: Where) -> Any:
        """Words that boxes move at least, from the values at their corners."""
        first = {**lower, **{k: upper[k] for k in self.plan.falls}}
        least, most = self.points.on(first, upper), self.points.above(upper, first)
        words, step = at_least(self.total(at, least, most)), self.points.step
        if step is None:
            return words
        return above_line(words, real_below(self.total(at, least.at_ends(step), most)))

    def _filled(self, boxes: Boxes) -> Boxes:
        """The lower corners of boxes, with all of stationary parts that may fit with the rest."""
        at, low, high = boxes
        first = dict(low)
        for name, reach in self.reaches.items():
            least = self.points.values(at, first)
            most = least | {name: self.points.value(name, high[name], at)}
            first[name] = clip(reach(at, least, most), low[name], high[name])
        return at, first, first

    def _learn(self, boxes: Boxes, best: Best) -> None:
        """Learn the lower corners of boxes."""
        at, low, _ = boxes
        if not len(at):
            return
        values, name, room = self.points.values(at, low), self.solved, np.zeros_like(at)
        if name is not None:
            # Words at the most that may fit are no more than at what does, and take less time.
            room = self.solver.most(at, values)
            values[name] = self.points.value(name, np.maximum(room, 0), at)
        words = self._words(at, values)
        rows = np.flatnonzero((room >= 0) & self.constraints.hold(at, low))
        # The one that would be best is asked first: mostly it fits, and no other is left.
        for some in (first_least, None):
            rows = rows[best.may_improve(keep(boxes, rows), words[rows])]
            here = rows if some is None else rows[some(at[rows], words[rows])]
            if not len(here):
                break
            self._settle(
                keep(boxes, here),
                {k: take(v, here) for k, v in values.items()},
                words[here],
                room[here],
                best,
            )
            rows = np.setdiff1d(rows, here, assume_unique=True)

    def _settle(
        self, boxes: Boxes, values: dict[str, Any], words: Any, room: Ints, best: Best
    ) -> None:
        """Learn the lower corners of boxes that fit.

        Args:
            values: there, the tile that is solved for at its room.
            words: that are moved there.
            room: the last position that may fit.
        """
        at, low, _ = boxes
        name = self.solved
        last = room
        if name is None:
            fit = self.peak.fits(at, values)
        else:
            last = self.solver.settle(at, values, room)
            fit = last >= 0
            less = np.flatnonzero(fit & (last < room))
            if len(less):
                fewer = {k: take(v, less) for k, v in values.items()}
                fewer[name] = self.points.value(name, last[less], at[less])
                words[less] = self._words(at[less], fewer)
        fits = np.flatnonzero(fit)
        best.learn(at[fits], words[fits], {k: v[fits] for k, v in low.items()}, last[fits])

    def _words(self, at: Ints, values: dict[str, Any]) -> Any:
        """Words that are moved, a copy of their own."""
        words: Any = self.total(at, self.points.on(values))
        exact = words.exact() if isinstance(words, Wide) else words
        found = np.empty(at.shape, self.points.dtype)
        found[...] = exact
        return found


def _places(first: Ints, width: Ints, part: Ints, parts: Ints, far: Bools) -> Ints:
    """Where parts of sides begin, from 0 to a width: equal ones, or in equal ratios where far.

    Ratios are of positions + 1.
    """
    ratio = (1 + width / (first + 1)) ** (part / parts)
    along = np.where(part == parts, width, ((first + 1) * (ratio - 1)).astype(np.int64))
    return np.where(far, np.minimum(along, width), width * part // parts)
