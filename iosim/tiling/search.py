"""Branch and bound over boxes of candidates, at many points in step.

A box is a range of positions for every parameter that is branched on.  Interval arithmetic on the
closed form bounds it from below: it is dropped when what it holds at least is more than M, or when
what it moves at least cannot beat the best found at its point.  The boxes of all points are cut and
judged together, so that a million points cost little more than their arithmetic.

Of tiles that move equally many words, those at the first positions win, compared parameter by
parameter: the answer at a point does not depend on the points beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from iosim.counting.closed import Clip, Monomial, Poly, highest
from iosim.counting.numbers import OnArrays
from iosim.tiling.candidates import Choice, Ints
from iosim.tiling.plan import Plan, depends

Where: TypeAlias = Mapping[str, Any]
Bools: TypeAlias = NDArray[np.bool_]
Boxes: TypeAlias = tuple[Ints, dict[str, Ints], dict[str, Ints]]

# Boxes are cut into this many parts: where there are few, larger array operations pay.
_PARTS_OF_FEW, _PARTS, _FEW = 16, 3, 64


class Search:
    """The search of a plan at some points.

    Args:
        solved: one of `plan.solvable`, or None.
        choices: of all parameters that are not given.
        base: sizes and given parameters, with one entry for each point.
        M: words of fast memory at each point.
        dtype: int64, or object where counts may pass 64 bits.
    """

    def __init__(
        self,
        plan: Plan,
        solved: str | None,
        choices: Mapping[str, Choice],
        base: Where,
        M: Ints,
        dtype: Any = np.int64,
    ) -> None:
        self.plan, self.solved, self.choices, self.M, self.dtype = plan, solved, choices, M, dtype
        self.points = np.arange(len(M))
        self.boxed = [k for k in plan.searched if k != solved]
        # Whether a box takes least at its lower corner.
        self.cornered = plan.lowest.issuperset(self.boxed)
        values = {k: np.asarray(v).astype(dtype) for k, v in base.items()}
        # A spare tile sits at its least until the others are found.
        first = np.zeros_like(self.points)
        values |= {k: self._value(k, first, self.points) for k in (*plan.searched, *plan.spare)}
        self.base = {k: _even(v) for k, v in values.items()}
        self.total = self._terms(plan.total, plan.searched)
        self.peak = _Peak(self, plan.searched)
        if solved is not None:
            self.solver = _Reach(self, solved, self.boxed)

    def _terms(self, poly: Poly, free: Collection[str]) -> _Terms:
        return _Terms(poly, free, OnArrays(self.base))

    def _value(self, name: str, position: Any, at: Any) -> Any:
        return np.asarray(self.choices[name].used(position, at)).astype(self.dtype)

    def _values(self, at: Ints, positions: Where) -> dict[str, Any]:
        """Everything that atoms ask for, at positions of some points."""
        env = {k: _take(v, at) for k, v in self.base.items()}
        return env | {k: self._value(k, v, at) for k, v in positions.items()}

    def least_peak(self) -> Any:
        """The fewest words that any tiles hold, at every point."""
        boxed = [k for k in self.plan.searched if k not in self.plan.lowest]
        best = np.full(len(self.points), _NEVER, object)
        boxes = self._everything(boxed)
        while len(boxes[0]):
            at, low, high = boxes
            corner = self._values(at, low)
            np.minimum.at(best, at, self.peak(at, corner, corner).astype(object))
            least = self.peak(at, corner, self._values(at, high))
            boxes = self._cut(_keep(boxes, np.flatnonzero((least < best[at]) & _divisible(boxes))))
        return best

    def run(self) -> tuple[dict[str, Ints], Bools]:
        """The positions of the cheapest tiles that fit, and where there are any."""
        best = _Best(len(self.points), self.boxed, self.dtype)
        if len(self.points) > _FEW and len(self.boxed) > 1:
            # The optimum tends to hold all or nothing.  Starting from good tiles halves the work.
            for held in (False, True):
                self._dive(self._everything(self.boxed, held), best)
        boxes = self._everything(self.boxed)
        while len(boxes[0]):
            boxes, bound = self._look(boxes, best)
            hopeful = best.may_improve(boxes, bound) & _divisible(boxes)
            boxes = self._cut(_keep(boxes, np.flatnonzero(hopeful)))
        found = dict(best.position)
        env = self._values(self.points, found)
        if self.solved is not None:
            found[self.solved] = np.maximum(self.solver(self.points, env, env), 0)
        for name in self.plan.spare:
            # Words that are left go to the tiles that cost nothing: fewer, larger transfers.
            env = self._values(self.points, found)
            reach = _Reach(self, name, (*self.plan.searched, *self.plan.spare))
            found[name] = np.maximum(reach(self.points, env, env), 0)
        return found, best.found

    def _everything(self, names: Collection[str], held: bool | None = None) -> Boxes:
        """One box for each point, of all positions, or of those that hold all or nothing."""
        low = {k: np.zeros_like(self.points) for k in names}
        high = {k: self.choices[k].count - 1 for k in names}
        for name in () if held is None else self.plan.holds:
            low[name] = high[name] = high[name] if held else low[name]
        return self.points, low, high

    def _cut(self, boxes: Boxes) -> Boxes:
        """Cut every box along one side, into parts that differ by at most one.

        That is the side which is longest, divided by the root of all its positions.  The longest
        side itself would leave 64 holds uncut beside 10⁶ tiles, and take seconds at N = 10¹²; the
        longest share of all positions takes a third more where N is usual.
        """
        at, low, high = boxes
        if not low or not len(at):
            return boxes
        widths = np.stack([high[k] - low[k] + 1 for k in low])
        whole = np.stack([self.choices[k].count[at] for k in low])
        side = np.argmax(np.where(widths > 1, widths / np.sqrt(whole), 0.0), axis=0)
        width = widths[side, np.arange(len(at))]
        parts = np.minimum(width, _PARTS_OF_FEW if len(at) < _FEW else _PARTS)

        def each(values: Ints) -> Ints:
            return np.repeat(values, parts)

        at, side, width = each(at), each(side), each(width)
        part, parts_of = np.arange(len(at)) - each(np.cumsum(parts) - parts), each(parts)
        before, after = width * part // parts_of, width * (part + 1) // parts_of - 1
        low, high = {k: each(v) for k, v in low.items()}, {k: each(v) for k, v in high.items()}
        for k, name in enumerate(low):
            mine = side == k
            high[name] = np.where(mine, low[name] + after, high[name])
            low[name] = np.where(mine, low[name] + before, low[name])
        return at, low, high

    def _dive(self, boxes: Boxes, best: _Best) -> None:
        """Follow the most promising part of every box down to a single candidate."""
        while len(boxes[0]):
            boxes, bound = self._look(boxes, best)
            first = _first_least(boxes[0], bound)
            boxes = self._cut(_keep(boxes, first[_divisible(boxes)[first]]))

    def _look(self, boxes: Boxes, best: _Best) -> tuple[Boxes, Any]:
        """Drop hopeless boxes and learn the lower corners of the others.

        Returns them, and what they move at least.
        """
        at, low, high = boxes
        lower, upper = self._values(at, low), self._values(at, high)
        most = lower if self.cornered else upper
        if self.solved is None:
            hopeful = self.peak(at, lower, most) <= self.M[at]
        else:
            room = self.solver(at, lower, most)
            hopeful = room >= 0
            upper[self.solved] = self._value(self.solved, np.maximum(room, 0), at)
        if self.plan.falls:
            bound = self.total(at, OnArrays(upper))
        else:
            bound = self.total(at, OnArrays(lower, upper), OnArrays(upper, lower))
        bound = np.broadcast_to(np.asarray(bound, self.dtype), at.shape)
        rows = np.flatnonzero(hopeful & best.may_improve(boxes, bound))

        at, low, high = boxes = _keep(boxes, rows)
        lower = {k: _take(v, rows) for k, v in lower.items()}
        if self.solved is None:
            fit = self.peak(at, lower, lower) <= self.M[at]
        else:
            room = room[rows] if self.cornered else self.solver(at, lower, lower)
            fit = room >= 0
            lower[self.solved] = self._value(self.solved, np.maximum(room, 0), at)
        words = np.broadcast_to(np.asarray(self.total(at, OnArrays(lower)), self.dtype), at.shape)
        fits = np.flatnonzero(fit)
        best.learn(at[fits], words[fits], {k: v[fits] for k, v in low.items()})
        return boxes, bound[rows]


class _Peak:
    """Words that boxes hold at least.

    Args:
        free: the names whose values change from call to call.
    """

    def __init__(self, search: Search, free: Collection[str]) -> None:
        self.levels = [(search._terms(v.words, free), v.runs) for v in search.plan.levels]
        self.dtype = search.dtype

    def __call__(self, at: Ints, low: Where, high: Where) -> Any:
        """From the values at the corners of boxes."""
        least, most = OnArrays(low, high), OnArrays(high, low)
        levels = ((terms(at, least, most), runs) for terms, runs in self.levels)
        return np.broadcast_to(np.asarray(highest(levels, least), self.dtype), at.shape)


class _Reach:
    """The last position of a tile that may fit beside boxes of values; −1 for none.

    Args:
        free: the names whose values change from call to call.
    """

    def __init__(self, search: Search, name: str, free: Collection[str]) -> None:
        self.search, self.name = search, name
        self.choice = search.choices[name]
        self.lines = search.plan.lines[name]
        self.peak = _Peak(search, {*free, name}) if self.lines is None else None
        self.terms = [
            (search._terms(x.base, free), search._terms(x.slope, free)) for x in self.lines or ()
        ]

    def __call__(self, at: Ints, low: Where, high: Where) -> Ints:
        """From the values at the corners of boxes."""
        if self.peak is None:
            return self._divide(at, low, high)
        return self._bisect(self.peak, at, low, high)

    def _divide(self, at: Ints, low: Where, high: Where) -> Ints:
        cap, extent = self.search.M[at], self.choice.extent[at]
        least, most = OnArrays(low, high), OnArrays(high, low)
        room: Any = extent
        assert self.lines is not None
        for line, (base, slope) in zip(self.lines, self.terms, strict=True):
            held = base(at, least, most)
            here: Any = extent
            if line.atom is not None:
                each = slope(at, least, most)
                here = np.where(each > 0, (cap - held) // np.maximum(each, 1), extent)
                if isinstance(line.atom, Clip):
                    here = np.where(here >= least.length(line.atom.length), extent, here)
            here = np.where(held <= cap, here, -1)
            for length in line.runs:
                here = np.where(least.length(length) > 0, here, extent)
            room = np.minimum(room, here)
        return np.asarray(self.choice.floor(np.asarray(room, np.int64), at))

    def _bisect(self, peak: _Peak, at: Ints, low: Where, high: Where) -> Ints:
        """Where an occupancy is no line in the tile, which happens in no registered schedule."""
        first, last = np.full(len(at), -1), self.choice.count[at] - 1
        while np.any(first < last):
            middle = (first + last + 1) // 2
            mine = {self.name: self.search._value(self.name, np.maximum(middle, 0), at)}
            good = peak(at, {**low, **mine}, {**high, **mine}) <= self.search.M[at]
            first, last = np.where(good, middle, first), np.where(good, last, middle - 1)
        return first


class _Terms:
    """A polynomial in the free names, with a coefficient for every point."""

    def __init__(self, poly: Poly, free: Collection[str], base: OnArrays) -> None:
        sums: dict[tuple[Monomial, bool], Any] = {}
        for monomial, c in poly.terms.items():
            inner = tuple(a for a in monomial if depends(a, free))
            outer: Any = c
            for atom in monomial:
                outer = outer * (1 if atom in inner else base(atom))
            sums[inner, c > 0] = sums.get((inner, c > 0), 0) + outer
        self.parts = [(inner, positive, _even(c)) for (inner, positive), c in sums.items()]

    def __call__(self, at: Ints, low: OnArrays, high: OnArrays | None = None) -> Any:
        """Values; with `high`, bounds from below over boxes."""
        total: Any = 0
        for inner, positive, c in self.parts:
            product = _take(c, at)
            value = low if positive or high is None else high
            for atom in inner:
                product = product * value(atom)
            total = total + product
        return total


_NEVER = 2**400  # more than any count


class _Best:
    """The cheapest candidate that was seen at every point."""

    def __init__(self, points: int, names: Collection[str], dtype: Any) -> None:
        never = _NEVER if dtype is object else np.iinfo(np.int64).max
        self.words = np.full(points, never, dtype)
        self.position = {k: np.zeros(points, np.int64) for k in names}
        self.found = np.zeros(points, bool)

    def may_improve(self, boxes: Boxes, bound: Any) -> Bools:
        """Whether boxes may hold something cheaper, or as cheap at earlier positions."""
        at, low, _ = boxes
        return self._before(at, bound, low)

    def _before(self, at: Ints, words: Any, position: Where) -> Bools:
        best = self.words[at]
        earlier, same = np.asarray(words < best, bool), words == best
        for name, here in self.position.items():
            mine, its = position[name], here[at]
            earlier |= same & (mine < its)
            same = same & (mine == its)
        return earlier

    def learn(self, at: Ints, words: Any, position: Where) -> None:
        """Take in candidates, ordered by their points."""
        if not len(at):
            return
        starts, runs = _runs(at)
        points = at[starts]
        least = np.minimum.reduceat(words, starts)
        same = words == least[runs]
        first = {}
        for name, mine in position.items():
            first[name] = np.minimum.reduceat(np.where(same, mine, np.iinfo(np.int64).max), starts)
            same = same & (mine == first[name][runs])
        better = self._before(points, least, first)
        self.words[points[better]] = least[better]
        for name, mine in first.items():
            self.position[name][points[better]] = mine[better]
        self.found[points[better]] = True


def _even(values: Any) -> Any:
    """A scalar where all are equal: in a sweep, neighbours often share their sizes."""
    array = np.asarray(values)
    if array.ndim and array.size and np.all(array == array.flat[0]):
        return array.flat[0]
    return values


def _take(values: Any, at: Any) -> Any:
    """The entries for some points, of an array or of what all share."""
    return values[at] if np.ndim(values) else values


def _keep(boxes: Boxes, which: Ints) -> Boxes:
    """Boxes by their numbers: with them NumPy is much faster than with a mask."""
    at, low, high = boxes
    return (
        at[which], {k: v[which] for k, v in low.items()}, {k: v[which] for k, v in high.items()}
    )  # fmt: skip


def _divisible(boxes: Boxes) -> Bools:
    """Boxes of more than one candidate."""
    at, low, high = boxes
    return np.any([high[k] > low[k] for k in low], axis=0) if low else np.zeros(len(at), bool)


def _first_least(at: Ints, bound: Any) -> Ints:
    """Of the boxes of every point, the first with the least bound."""
    if not len(at):
        return at
    starts, runs = _runs(at)
    least = bound == np.minimum.reduceat(bound, starts)[runs]
    return np.minimum.reduceat(np.where(least, np.arange(len(at)), len(at)), starts)


def _runs(at: Ints) -> tuple[Ints, Ints]:
    """Where each point's boxes start, and which run each box is in."""
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    return starts, np.repeat(np.arange(len(starts)), np.diff(starts, append=len(at)))
