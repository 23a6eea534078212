"""Closed forms of many instances at once, in arrays: exact at points, or bounds over boxes.

What follows a tile is added up by `iosim.core.counting.columns` at points.  Over a box of
tile sizes it is bounded: from above by whole axes, and from below by single positions.  A tile
covers its positions, and a span that grows with its tile covers the spans of these positions.  So
a length summed over tiles is at least the length summed over positions, divided by the largest
tile; and the most that an iteration holds is at least what the first one does.

`numbers` evaluates points with it, and `iosim.core.tiling` boxes.  ``tests/core/test_columns.py``
compares points with `integers`, and ``tests/core/test_masked_tiles.py`` boxes with all tiles in
them.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from iosim.core.counting import columns, integral
from iosim.core.counting.below import fixed, sum_below
from iosim.core.counting.closed import Level
from iosim.core.counting.integers import OnInts
from iosim.core.counting.poly import Atom, Clip, Part, Poly, Sum, Trips, names_of
from iosim.core.program.index import Affine, Span, Tile
from iosim.core.program.ir import Loop
from iosim.core.program.space import covered, placed

Columns = Mapping[Any, Any]  # name → array; inside a loop, its tile's edges too
_Box: TypeAlias = tuple[Columns, Columns]

# Points at which sums over tiles are taken together: few enough for the caches.
_AT_ONCE = 2**14
NO_LIMIT = 2**62
_FEW_TILES = 16
# So few are evaluated one by one, which is faster.
_FEW = 1


class OnArrays:
    """Atom → its values; a `Reading` in arrays that computes each trip count once.

    With `high`, the values are bounds from below over the box whose corners are `env` and `high`:
    what is subtracted in a length (the W of d − W), and the step of a trip count, come from there.
    With `upper`, `env` is the upper corner, and they are bounds from above.
    Where not all of a box is `valid`, lengths below 0, of spans that end before they start, are 0.
    """

    def __init__(
        self,
        env: Columns,
        high: Columns | None = None,
        valid: bool = True,
        upper: bool = False,
    ) -> None:
        self.env, self.high, self.valid = env, env if high is None else high, valid
        self.upper = upper
        self._seen: dict[Atom, Any] = {}
        self._lengths: dict[Affine, Any] = {}
        self._lines: dict[Sum, tuple[Any, Any]] = {}
        self._boxes: dict[Any, Any] = {}
        self._pieces: dict[Any, dict[Any, Any]] = {}

    def length(self, value: Affine) -> Any:
        """An affine expression."""
        total: Any = self._lengths.get(value)
        if total is None:
            total = value.const
            for name, c in value.sizes:
                x = self.high[name] if c < 0 else self.env[name]
                total = total + (x if c == 1 else c * x)
            self._lengths[value] = total
        return total

    def __call__(self, atom: Atom) -> Any:
        """The values of an atom."""
        if isinstance(atom, str):
            return self.env[atom]
        found = self._seen.get(atom)
        if found is None:
            if isinstance(atom, Sum):
                self._seen[atom] = found = self._sum(atom)
                return found
            if isinstance(atom, Tile):
                start, stop = covered(atom, self.env)
                return stop - start
            if isinstance(atom, Part):
                start, stop = placed(atom.span, self.env, np.minimum, np.maximum)
                return (
                    stop - start if atom.step is None else -((start - stop) // self.env[atom.step])
                )
            assert isinstance(atom, (Trips, Clip)), f"{atom} is open: close its loop first"
            if isinstance(atom.length, (Clip, Part, Tile)):
                length = self(atom.length)
            else:
                assert isinstance(atom.length, Affine), f"{atom} follows a tile"
                length = self.length(atom.length)
            if not self.valid:
                length = np.maximum(length, 0)
            if isinstance(atom, Trips):
                found = -(-length // self.high[atom.step])
            else:
                found = np.minimum(length, self.env[atom.step])
            self._seen[atom] = found
        return found

    def _sum(self, atom: Sum) -> Any:
        if self.high is self.env:
            return self._many(
                names_of(atom),
                lambda env, seen: columns.total(atom, env, seen),
                lambda at: at(atom),
            )
        if self.upper:
            return AtMost(self.env, self.high)(atom)
        words, self._lines[atom] = sum_below(atom, self.env, self.high, self._boxes, OnArrays)
        return words

    def at_ends(self, step: str) -> Callable[[Atom], Any]:
        """Atoms over boxes, where sums over tiles of a step are on lines below them.

        Such a sum is at the least step, and at the largest, along one more axis, the first.
        """

        def value(atom: Atom) -> Any:
            whole = self(atom)
            if isinstance(atom, Sum) and atom.step == step:
                ends = np.array(self._lines[atom])
                return ends if ends.ndim > 1 else ends[:, None]  # the same in all boxes
            return whole

        return value

    def most(self, level: Level) -> Any:
        """The largest occupancy of a level over all iterations of its loops."""
        if self.high is self.env:
            return self._many(
                level.names,
                lambda env, _: columns.most(level, env, OnArrays),
                lambda at: at.most(level),
            )
        assert not self.upper, "peaks are bounded from below only"
        return least_level(level, self.env, self.high)

    def _many(
        self, needed: Collection[str], many: Callable[..., Any], one: Callable[[OnInts], int]
    ) -> Any:
        """What follows a tile: in arrays, or a point at a time where that has no form."""
        names = sorted(needed)
        values = np.broadcast_arrays(*(self.env[name] for name in names))
        dtype = np.result_type(*values)
        flat = [np.asarray(x, dtype).ravel() for x in values]
        found = [np.zeros(0, dtype)]
        for k in range(0, len(flat[0]), _AT_ONCE):
            here = [x[k : k + _AT_ONCE] for x in flat]
            if len(here[0]) > _FEW:
                with contextlib.suppress(columns.NoForm):
                    seen = self._pieces.setdefault((k, len(here[0]), dtype), {})
                    found.append(many(dict(zip(names, here, strict=True)), seen))
                    continue
            rows = zip(*(x.tolist() for x in here), strict=True)
            each = [one(OnInts(dict(zip(names, row, strict=True)))) for row in rows]
            found.append(np.array(each, dtype))
        return np.concatenate(found).reshape(values[0].shape)

    def where(self, words: Any, length: Affine | Part) -> Any:
        """Words, or 0 where the loop of this length is empty."""
        assert isinstance(length, Affine), f"{length} follows a tile"
        return words * (self.length(length) > 0)

    def largest(self, words: Sequence[Any]) -> Any:
        """The largest at every point, or 0 for none."""
        return functools.reduce(np.maximum, words, 0)


class AtMost:
    """Atom → what it is at most; what follows a tile counts as its whole axis.

    Args:
        env, low: the upper and the lower corner of a box; a single point by default.
    """

    def __init__(self, env: Columns, low: Columns | None = None) -> None:
        self.env, self.low = env, env if low is None else low
        self.exact = OnArrays(env)

    def __call__(self, atom: Atom) -> Any:
        """The bound of an atom."""
        match atom:
            case Part(span, step):
                return self.env[span.axis] if step is None else self._trips(span, step)
            case Clip(Part() | Tile() | Clip(), step):
                return self.env[step]
            case Sum(tile, span, step, factors):
                if tile not in factors:
                    return math.prod(map(self, factors), start=self._trips(span, step))
                # Extents of tiles add up to the length of the loop.
                k = factors.index(tile)
                rest = (*factors[:k], *factors[k + 1 :])
                return math.prod(map(self, rest), start=self.env[span.axis])
            case Tile():
                return self.env[atom.axis]
            case _:
                return self.exact(atom)

    def _trips(self, span: Span, step: str | None) -> Any:
        length = self.env[span.axis]
        return length if step is None else -(-length // self.low[step])


class _AtLeast:
    """Atom → what it is at least in some tile of a loop, over a box.

    Args:
        extent: what the tile covers at least.
        length: a span that follows the tile → what its length is at least.
    """

    def __init__(
        self, tile: Tile, exact: OnArrays, most: AtMost, extent: Any, length: Mapping[Span, Any]
    ) -> None:
        self.tile, self.exact, self.most = tile, exact, most
        self.extent, self.length = extent, length
        self._seen: dict[Atom, Any] = {}

    def words(self, poly: Poly) -> Any:
        """The bound of an occupancy."""
        added, subtracted = poly.by_sign
        least = added.evaluate(self)
        return least - subtracted.evaluate(self.most) if subtracted.terms else least

    def __call__(self, atom: Atom) -> Any:
        """The bound of an atom."""
        if atom not in self._seen:
            self._seen[atom] = self._bound(atom)
        return self._seen[atom]

    def _bound(self, atom: Atom) -> Any:
        match atom:
            case Tile() if atom == self.tile:
                return self.extent
            case Part(span, None):
                return self.length[span]
            case Clip((Part() | Tile() | Clip()) as length, step):
                return np.minimum(self(length), self.exact.env[step])
            case Tile() | Part() | Sum():
                return 0
            case _:
                return self.exact(atom)


def least_level(level: Level, low: Columns, high: Columns) -> Any:
    """The largest occupancy of a level over its iterations, from below over a box."""
    found = _iterations(level, low, high)
    if found is None:
        return 0
    there, value = found
    return np.maximum(np.max(value.words(level.words) * there, axis=0), 0)


@dataclass(frozen=True)
class Room:
    """What iterations of a level hold at least, over boxes: flat + tilt·W + each·min(whole, s).

    Every tiling of a box has an iteration that holds no less, with its own stationary part W and
    its own tile s: each of the four is bounded from below over the box, with positive terms at
    their least and negative ones at their most, and W, s and `each` are never negative.  So a
    tiling fits in a cap only if

        each·min(whole, s) ≤ left,   left = cap − flat − tilt·W.

    Where left < 0 no s fits.  Where left < each·whole, min(whole, s) ≤ left/each < whole; then the
    minimum is s, and s ≤ ⌊left/each⌋.  Elsewhere the room says nothing of s: a clipped tile takes
    no more however long it is.

    The kinds of iterations are the first axis, since operations on few boxes cost their calls.

    Attributes:
        there: where there is such an iteration, kinds × boxes; all others broadcast with it.
        flat, tilt: without what depends on the tile s, by a hold W.
        each: how much of that there is; None for none.
        whole: the length that s is clipped to, at least; None where it is not clipped.
    """

    there: Any
    flat: Any
    tilt: Any
    each: Any
    whole: Any

    def limited(self, cap: Any, hold: Any) -> Any:
        """Where an s of less than the length is the most that may fit."""
        if self.each is None:
            return np.False_
        limited = self.there & (self.each > 0)
        if self.whole is None:
            return limited
        left = cap - self.flat - self.tilt * hold
        return limited & (left < self.each * self.whole)

    def most(self, cap: Any, hold: Any) -> Any:
        """The largest s with which no kind holds more than a cap at a hold.

        −1 where too much is held at any s, and `NO_LIMIT` where every s may do.
        """
        left = cap - self.flat - self.tilt * hold
        here: Any = NO_LIMIT
        if self.each is not None:
            here = np.where(self.each > 0, left // np.maximum(self.each, 1), NO_LIMIT)
            if self.whole is not None:
                here = np.where(here >= self.whole, NO_LIMIT, here)
        here = np.where(self.there, np.where(left < 0, -1, here), NO_LIMIT)
        return np.minimum.reduce(here)


# What tells a loop, and spans that follow its tile → its kinds of iterations, in the same boxes.
Iterations: TypeAlias = dict[tuple[Tile, Span, str | None, tuple[Span, ...]], tuple[Any, _AtLeast]]


def find_room(
    level: Level,
    line: tuple[Poly, Poly, Poly],
    atom: Atom | None,
    box: _Box,
    seen: Iterations | None = None,
) -> Room | None:
    """What the iterations of a level hold, or None where nothing is known of them.

    Args:
        line: what it holds, as flat, tilt and slope: flat + tilt·W + slope·atom.
        atom: a tile that decides no iteration, perhaps clipped.
        box: its lower and upper corner, without that tile.
        seen: iterations of other levels in the same box; it is added to.
    """
    found = _iterations(level, *box, seen)
    if found is None:
        return None
    there, value = found
    flat, tilt = value.words(line[0]), value.words(line[1])
    each = None if atom is None else value.words(line[2])
    whole = None
    if isinstance(atom, Clip):
        length = atom.length
        whole = value.exact.length(length) if isinstance(length, Affine) else value(length)
    return Room(there, flat, tilt, each, whole)


def _iterations(
    level: Level, low: Columns, high: Columns, seen: Iterations | None = None
) -> tuple[Any, _AtLeast] | None:
    """Where a level has iterations, kinds × boxes, and what they hold at least, over a box.

    None where that is not known.
    """
    if len(level.over) > 1 or level.over[0].span.edges:
        return None
    (loop,) = level.over
    if not fixed({name for name, _ in loop.span.start.sizes}, low, high):
        return None
    key = loop.tile, loop.span, loop.step, level.spans
    found = None if seen is None else seen.get(key)
    if found is None:
        found = _kinds(loop, level.spans, low, high)
        if seen is not None:
            seen[key] = found
    there, value = found
    for run in level.conditions:
        ran = value(run) if isinstance(run, Part) else value.exact.length(run)
        there = there & (np.asarray(ran) > 0)
    return there, value


def _kinds(
    loop: Loop, spans: tuple[Span, ...], low: Columns, high: Columns
) -> tuple[Any, _AtLeast]:
    """Where a loop has iterations of some kind, kinds × boxes, and what is at least in them.

    They are the first tile; one that is not the last, in which any position is but the last few,
    as many as the largest step; and the last two, where there are few.
    """
    exact = OnArrays(low, high)
    first, n = loop.span.start.at(low), exact.length(loop.span.length)
    least, most = (1 if loop.step is None else x[loop.step] for x in (low, high))
    extent = np.minimum(n, least)
    lengths = {x: integral.Lengths(x, loop.tile, low, high) for x in spans}
    place = first + n - most
    place = functools.reduce(np.minimum, (x.longest(first, place) for x in lengths.values()), place)
    # Where there is a tile, what it covers at least, and its first and last possible stop.
    stop, past = np.maximum(place + 1, first + extent), place + extent
    kinds = [(n > 0, extent, first + extent, first + extent)]
    kinds.append(((n > 0) & (most <= n), extent, stop, past))
    before = -(-n // np.maximum(least, 1)) - 1
    few = (before <= _FEW_TILES) | np.equal(least, most)
    few = few & (before == -(-n // np.maximum(most, 1)) - 1) & (n > 0)
    if np.any(few) and fixed(names_of(Part(loop.span)), low, high):
        # Where all steps make equally many tiles, it is known where the last two are.
        rest = np.maximum(n - before * most, 1)
        kinds.append((few, rest, first + n, first + n))
        kinds.append((few & (before > 0), extent, first + before * least, first + before * most))
    there, here, stop, past = map(_stacked, zip(*kinds, strict=True))
    length = {x: v(here, stop, past) for x, v in lengths.items()}
    return there, _AtLeast(loop.tile, exact, AtMost(high, low), here, length)


def _stacked(values: Sequence[Any]) -> Any:
    """Arrays as rows of one, also of what all boxes share."""
    shape = np.broadcast_shapes((1,), *map(np.shape, values))
    rows = np.empty((len(values), *shape), np.result_type(*values))
    for k, row in enumerate(values):
        rows[k] = row
    return rows
