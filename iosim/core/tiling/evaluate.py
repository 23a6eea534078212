"""A plan's closed form on the corners of boxes, at some points."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import numpy as np

from iosim.base.arrays import Bools, Ints
from iosim.core.counting.arrays import Iterations, OnArrays, Room, find_room
from iosim.core.counting.below import floor_to_integers
from iosim.core.counting.closed import highest
from iosim.core.counting.poly import Atom, Clip, Monomial, Poly
from iosim.core.counting.ramps import real
from iosim.core.program.index import Affine
from iosim.core.tiling.boxes import Where, take
from iosim.core.tiling.candidates import Candidates
from iosim.core.tiling.lines import depends, tilted
from iosim.core.tiling.plan import Plan
from iosim.core.tiling.relax import Relaxation
from iosim.core.tiling.wide import Wide

Value: TypeAlias = Callable[[Atom], Any]

# More than what rounding in float64 can add.
ROUNDING = 1e-12
# More than what it can add to the root of a difference.
_MARGIN = 1e-5


class Points:
    """A plan at some points.

    Args:
        candidates: of all parameters that are not given.
        base: sizes and given parameters, with one entry for each point.
        M: words of fast memory at each point.
        dtype: int64, or object where sums over tiles may pass 64 bits.
        wide: whether words may, while sums over tiles don't.
    """

    def __init__(
        self,
        plan: Plan,
        candidates: Mapping[str, Candidates],
        base: Where,
        M: Ints,
        dtype: Any,
        wide: bool = False,
    ) -> None:
        self.plan, self.candidates, self.M = plan, candidates, M
        self.dtype, self.wide = dtype, wide
        self.every = np.arange(len(M))
        values = {k: np.asarray(v).astype(dtype) for k, v in base.items()}
        # A spare tile sits at its least until the others are found.
        first = np.zeros_like(self.every)
        values |= {k: self.value(k, first, self.every) for k in (*plan.searched, *plan.spare)}
        self.base = {k: _even(v) for k, v in values.items()}
        # The tile in which bounds of words are lines.
        self.step = next(iter(plan.steps), None)

    def value(self, name: str, position: Any, at: Any) -> Any:
        """A parameter's clipped values at positions."""
        return np.asarray(self.candidates[name].clipped(position, at)).astype(self.dtype)

    def values(self, at: Ints, positions: Where) -> dict[str, Any]:
        """Everything that atoms ask for, at positions of some points."""
        env = {k: take(v, at) for k, v in self.base.items()}
        return env | {k: self.value(k, v, at) for k, v in positions.items()}

    def corners(self, at: Ints, low: Where, high: Where) -> tuple[dict[str, Any], dict[str, Any]]:
        """The values at both corners of boxes; they share what is the same at both."""
        lower = self.values(at, low)
        return lower, lower | {k: self.value(k, v, at) for k, v in high.items()}

    def on(self, env: Where, high: Where | None = None) -> OnArrays:
        """Atoms on the values at a point, or from below at the corners of boxes."""
        return OnArrays(env, high, valid=not self.plan.constraints)

    def above(self, high: Where, low: Where) -> OnArrays:
        """Atoms from above at the corners of boxes."""
        return OnArrays(high, low, valid=not self.plan.constraints, upper=True)

    def words(self, poly: Poly) -> PointwisePoly:
        """Words moved, whose values change with the parameters that are searched."""
        return PointwisePoly(poly, self.plan.searched, self.on(self.base), self.wide)

    def terms(self, poly: Poly, free: Collection[str], real: bool = False) -> PointwisePoly:
        """A polynomial whose values change from call to call only with the free names."""
        base = {k: np.asarray(v, np.float64) for k, v in self.base.items()} if real else self.base
        return PointwisePoly(poly, free, self.on(base))


class Peak:
    """Words that boxes hold at least.

    Args:
        free: the names whose values change from call to call.
    """

    def __init__(self, points: Points, free: Collection[str]) -> None:
        self.points = points
        self.levels = points.plan.levels
        # Of levels over iterations there are no terms: the readings find the largest.
        self.terms = [points.terms(Poly() if v.over else v.words, free) for v in self.levels]
        above = points.plan.above if any(v.over for v in self.levels) else ()
        self.above = [points.terms(x, free) for x in above if x is not None]
        self.bounded = bool(above) and len(self.above) == len(above)

    def __call__(self, at: Ints, low: Where, high: Where) -> Any:
        """From the values at the corners of boxes."""
        least, most = self.points.on(low, high), self.points.above(high, low)
        words = (terms(at, least, most) for terms in self.terms)
        top = highest(self.levels, least, words)
        return np.broadcast_to(np.asarray(top, self.points.dtype), at.shape)

    def fits(self, at: Ints, values: Where) -> Bools:
        """Whether points fit: at once where no iteration can hold too much."""
        if not self.bounded:
            return np.asarray(self(at, values, values) <= self.points.M[at])
        value, fit = self.points.on(values), np.ones(len(at), bool)
        for words in self.above:
            fit &= words(at, value) <= self.points.M[at]
        rest = np.flatnonzero(~fit)
        if len(rest):
            some = {k: take(v, rest) for k, v in values.items()}
            fit[rest] = self(at[rest], some, some) <= self.points.M[at[rest]]
        return fit


class Reach:
    """The last position of a tile that may fit with boxes of values; −1 for none.

    A level that is the same in all iterations is a line base + slope·s in the tile s, and it fits
    only if s ≤ ⌊(M − base)/slope⌋ with base and slope from below over the box; where s is clipped
    to a length that this reaches, any s does.  A level over iterations has a `Room`, for each
    kind of iteration the same inequality, taken at the least W, where most is left.  All levels
    have to fit, so the least of these limits holds; it is exact at a point where no
    level is over iterations.  Elsewhere occupancies decide, by bisection: they rise with s.

    Args:
        free: the names whose values change from call to call.
    """

    def __init__(self, points: Points, name: str, free: Collection[str]) -> None:
        self.points, self.name = points, name
        self.candidates = points.candidates[name]
        self.lines = points.plan.lines[name]
        self.terms = [
            (x, points.terms(x.base, free), points.terms(x.slope, free))
            for x in self.lines or ()
            if x.level is None
        ]
        # Over iterations lines are bounds, which an occupancy decides.
        self.hold = points.plan.ends.hold if points.plan.ends else None
        self.over = [
            (x.level, (*tilted(x, self.hold), x.slope), x.atom)
            for x in self.lines or ()
            if x.level is not None
        ]
        self.peak: Peak | None = None
        if self.lines is None or self.over:
            self.peak = Peak(points, {*free, name})

    def rooms(self, low: Where, high: Where) -> list[Room]:
        """What iterations hold at least, by the stationary part whose ends have bounds."""
        seen: Iterations = {}
        found = (find_room(*line, (low, high), seen) for line in self.over)
        return [x for x in found if x is not None]

    def __call__(
        self, at: Ints, low: Where, high: Where, over: Collection[Room] | None = None
    ) -> Ints:
        """From the values at the corners of boxes.

        Args:
            over: their `rooms`, where these are known.
        """
        last = self.most(at, low, high, over)
        if self.lines is not None and high is not low:
            return last
        return last if self.peak is None else self._bisect(self.peak, at, low, high, last)

    def most(
        self,
        at: Ints,
        low: Where,
        high: Where | None = None,
        over: Collection[Room] | None = None,
    ) -> Ints:
        """The last position that divisions leave; exact where no level is over iterations."""
        if self.lines is None:
            return self.candidates.count[at] - 1
        high = low if high is None else high
        return self._divide(at, low, high, self.rooms(low, high) if over is None else over)

    def settle(self, at: Ints, low: Where, last: Ints) -> Ints:
        """The last position up to `last` that fits with values."""
        return last if self.peak is None else self._bisect(self.peak, at, low, low, last)

    def _divide(self, at: Ints, low: Where, high: Where, over: Collection[Room]) -> Ints:
        cap, extent = self.points.M[at], self.candidates.extent[at]
        least, most = self.points.on(low, high), self.points.above(high, low)
        room: Any = extent
        for line, base, slope in self.terms:
            held = base(at, least, most)
            here: Any = extent
            if line.atom is not None:
                each = slope(at, least, most)
                here = np.where(each > 0, (cap - held) // np.maximum(each, 1), extent)
                if isinstance(line.atom, Clip):
                    length = line.atom.length
                    whole = least.length(length) if isinstance(length, Affine) else least(length)
                    here = np.where(here >= whole, extent, here)
            here = np.where(held <= cap, here, -1)
            for length in line.runs:
                here = np.where(least.length(length) > 0, here, extent)
            room = np.minimum(room, here)
        hold = 0 if self.hold is None else low[self.hold]
        for there in over:
            room = np.minimum(room, there.most(cap, hold))
        return np.asarray(self.candidates.floor(np.asarray(room, np.int64), at))

    def _bisect(self, peak: Peak, at: Ints, low: Where, high: Where, last: Ints) -> Ints:
        """By occupancies, which rise with the tile; `last` and steps down from it come first."""
        first, last, step = np.full(len(at), -1), np.array(last), 0
        while np.any(first < last):
            some = np.flatnonzero(first < last)
            middle = np.maximum(last[some] - step, (first[some] + last[some] + 1) // 2)
            where, lower = at[some], {k: take(v, some) for k, v in low.items()}
            lower[self.name] = self.points.value(self.name, middle, where)
            if high is low:
                good = peak.fits(where, lower)
            else:
                upper = {k: take(v, some) for k, v in high.items()}
                upper[self.name] = lower[self.name]
                good = np.asarray(peak(where, lower, upper) <= self.points.M[where])
            first[some] = np.where(good, middle, first[some])
            last[some] = np.where(good, last[some], middle - 1)
            step = min(2 * step + 1, 2**62)
        return first


class RealBound:
    """The bound of a relaxation at some points."""

    def __init__(self, points: Points, relaxation: Relaxation) -> None:
        self.points, self.tile, self.holds = points, relaxation.tile, relaxation.holds
        self.memory = _even(points.M.astype(np.float64))
        names: set[str] = {*points.plan.searched, *(_end(W) for W in self.holds)}

        def terms(poly: Poly) -> Any:
            for W in self.holds:
                poly = poly.replace(W, Poly.of(_end(W)))
            return points.terms(poly, names, real=True)

        self.rest, self.a, self.c = map(terms, (relaxation.rest, relaxation.a, relaxation.c))
        self.capacities = [
            ([terms(poly) for poly in (x.r, x.t, x.p, x.q)], x.runs) for x in relaxation.capacities
        ]

    def __call__(self, at: Ints, low: Where, high: Where, most: Ints) -> tuple[Ints, Any, Any]:
        """Words that boxes move at least, and between which x they may move at most a given number.

        Args:
            low, high: the values at the corners of the boxes.
            most: words, for each box.
        """
        cap = most * (1 + ROUNDING)
        parts = [self._at_ends(at, low, high, ends, cap) for ends in self._corners(low, high)]
        words, _, first, last = (
            functools.reduce(choose, values)
            for choose, values in zip(
                (np.minimum, np.minimum, np.minimum, np.maximum),
                zip(*parts, strict=True),
                strict=True,
            )
        )
        return floor_to_integers(words * (1 - ROUNDING), self.points.dtype), first, last

    def best_tile(self, at: Ints, low: Where, high: Where) -> tuple[Any, Any]:
        """The bound at the lower ends of the stationary parts, and the x where it is least."""
        words, x, _, _ = self._at_ends(at, low, high, next(iter(self._corners(low, high))), np.inf)
        return words, x

    def _corners(self, low: Where, high: Where) -> Any:
        for corner in itertools.product(*((low[W], high[W]) for W in self.holds)):
            yield {_end(W): value for W, value in zip(self.holds, corner, strict=True)}

    def _at_ends(
        self, at: Ints, low: Where, high: Where, ends: Where, cap: Any
    ) -> tuple[Any, Any, Any, Any]:
        """The bound at one end of every hold, its x, and between which x it is at most a cap."""
        least, most = (
            self.points.on({**low, **ends}, high),
            self.points.above({**high, **ends}, low),
        )
        rest, a, c = (terms(at, least, most) for terms in (self.rest, self.a, self.c))
        r: Any = 0.0
        t: Any = 0.0
        p: Any = 0.0
        q: Any = 0.0
        for polys, runs in self.capacities:
            values = [terms(at, least, most) for terms in polys]
            if not runs:
                r, t, p, q = values
                continue
            here: Any = True
            for length in runs:
                here = here & (least.length(length) > 0)
            r, t, p, q = (
                np.where(here, new, old) for new, old in zip(values, (r, t, p, q), strict=True)
            )
        memory = take(self.memory, at)
        room = memory - r
        with np.errstate(all="ignore"):
            # Where it is least.
            start = low[self.tile]
            x = room / (t + np.sqrt(c * (q * room + t * p) / a))
            x = np.fmin(np.fmax(x, start), high[self.tile])
            left = room - t * x
            # With nothing left, c is 0 or the box takes too much.
            words = rest + a / x + np.where(left > 0, c * (p + q * x) / left, 0)
            over = room - t * start < -ROUNDING * memory
            # At most the cap: square·x² + linear·x + a·room ≤ 0.
            save = cap - rest
            square, linear = c * q + save * t, c * p - a * t - save * room
            root = linear * linear * (1 + ROUNDING) - 4 * square * a * room
            span = np.sqrt(np.maximum(root, 0)) - linear
            none = over | (save < 0) | (root < 0) | (linear > 0)
            first = np.where(none, np.inf, 2 * a * room / span * (1 - _MARGIN))
            last = np.where(none, -np.inf, span / (2 * square) * (1 + _MARGIN))
        # Where a root is 0/0, every x may do.
        return np.where(over, np.inf, words), x, np.fmax(first, 0.0), np.fmin(last, np.inf)


def _end(hold: str) -> str:
    """The name of a stationary part's value at an end of a box."""
    return f"{hold}, at an end"


def above_line(words: Any, ends: Any) -> Any:
    """Bounds over boxes, or the least on a line below the words where that is more.

    Args:
        ends: the line at the least step of every box, and at the largest, in two rows.
    """
    line = np.maximum(np.min(real(ends), axis=0) * (1 - ROUNDING), 0)
    return np.maximum(words, floor_to_integers(line, np.asarray(words).dtype))


class PointwisePoly:
    """A polynomial in the free names, with a coefficient for every point.

    Args:
        wide: whether coefficients and values are `Wide`.
    """

    def __init__(
        self, poly: Poly, free: Collection[str], base: OnArrays, wide: bool = False
    ) -> None:
        sums: dict[tuple[Monomial, bool], Any] = {}
        for monomial, c in poly.terms.items():
            inner = tuple(a for a in monomial if depends(a, free))
            outer: Any = Wide.of(c) if wide else c
            for atom in monomial:
                outer = outer * (1 if atom in inner else base(atom))
            sums[inner, c > 0] = sums.get((inner, c > 0), 0) + outer
        self.parts = [(inner, positive, _even(c)) for (inner, positive), c in sums.items()]

    def __call__(self, at: Ints, low: Value, high: Value | None = None) -> Any:
        """Values; with `high`, bounds from below over boxes."""
        total: Any = None
        for inner, positive, c in self.parts:
            product = take(c, at)
            value = low if positive or high is None else high
            for atom in inner:
                product = product * value(atom)
            total = product if total is None else total + product
        return 0 if total is None else total


def _even(values: Any) -> Any:
    """A scalar where all are equal: in a sweep, neighbors often share their sizes."""
    if isinstance(values, Wide):
        return values
    array = np.asarray(values)
    if array.ndim and array.size and np.all(array == array.flat[0]):
        return array.flat[0]
    return values
