"""Spans that follow the tiles of a loop, over boxes: where their ends lie, from below.

A span that starts at T(i.start) and stops at S(i.stop), where S and T rise, has two *ramps*: lines,
cut to a part of an axis.  Over a box of sizes the start is taken at its most and the stop at its
least.  Where all steps of a box make equally many tiles, and few, each tile is taken by itself.

`below` and `integral` call it.  A length from it is never above the exact one
(``tests/core/test_masked_tiles.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.arrays import clip
from iosim.core.counting.poly import Sum
from iosim.core.program.index import Affine, Edge, Span, Tile

Columns = Mapping[Any, Any]

# More than what rounding in float64 adds to a sum of a few terms.
ROUNDING = 1e-12
# Tiles that are taken one by one where all steps of a box make equally many.
_FEW_TILES = 8


@dataclass
class Ramp:
    """x ↦ slope·x + start, cut to low … high; arrays of float64, and a slope of 0 or more."""

    slope: int
    start: Any
    low: Any
    high: Any

    def __call__(self, x: Any) -> Any:
        """The value at x."""
        line = self.slope * x + self.start if self.slope else self.start
        return clip(line, self.low, self.high)

    def integral(self, first: Any, last: Any) -> Any:
        """Over first … last."""
        if self.slope == 0:
            return self(first) * (last - first)
        bends = [(cut - self.start) / self.slope for cut in (self.low, self.high)]
        a, b = (clip(x, first, last) for x in bends)
        middle = self.slope * (a + b) / 2 + self.start
        return (
            self(first) * (a - first) * (a > first)
            + np.where(b > a, middle * (b - a), 0)
            + self(last) * (last - b) * (b < last)
        )

    def bend(self, cut: Any) -> Any:
        """Where it meets a cut; beyond everything where it never does."""
        return (cut - self.start) / self.slope if self.slope else np.inf

    def take(self, rows: Any) -> Ramp:
        """At some boxes."""
        return Ramp(self.slope, *(_take(x, rows) for x in (self.start, self.low, self.high)))


@dataclass
class Box:
    """The tiles of a loop and a span that follows them, over boxes; arrays of float64.

    Attributes:
        first, last: n0 and n1, where they are the same all over a box.
        start, stop: the ends of the span; the start at its most, the stop at its least.
        least_by, by: the least step, and the largest.
        valid: where the loop runs, and its ends are the same all over the box.
    """

    first: Any
    last: Any
    start: Ramp
    stop: Ramp
    least_by: Any
    by: Any
    valid: Any

    @classmethod
    def of(cls, atom: Sum, span: Span, low: Columns, high: Columns) -> Box | None:
        """None for spans of another form."""
        slopes = slopes_of(span, atom.tile)
        if slopes is None or atom.span.edges:
            return None
        corners = Corners(low, high)
        first, last = corners(atom.span.start), corners(atom.span.stop)
        same = (first == corners(atom.span.start, top=True)) & (
            last == corners(atom.span.stop, top=True)
        )
        start, stop = ramps(span, slopes, corners)
        # What a length below 0 would take away: nothing, where one end is fixed.
        if start.slope == 0:
            stop.low = np.maximum(stop.low, start(0))
            stop.high = np.maximum(stop.high, stop.low)
        elif stop.slope == 0:
            start.high = np.minimum(start.high, stop(0))
            start.low = np.minimum(start.low, start.high)
        least_by, by = (1.0 if atom.step is None else real(x[atom.step]) for x in (low, high))
        return cls(first, last, start, stop, least_by, by, same & (first < last))

    @functools.cached_property
    def few(self) -> Few | None:
        """Those of the boxes whose tiles are taken one by one."""
        return Few.of(self, self.valid)

    @functools.cached_property
    def integrals(self) -> tuple[Any, Any]:
        """Of the start and of the stop, over the loop."""
        start, stop = (x.integral(self.first, self.last) for x in (self.start, self.stop))
        return start, stop

    @functools.cached_property
    def ordered(self) -> Any:
        """Where no length is below 0: lines that are apart at both ends are so between them."""
        if self.start.slope == 0 or self.stop.slope == 0:
            return True
        a, b = self.start, self.stop
        order = [b.slope * x + b.start >= a.slope * x + a.start for x in (self.first, self.last)]
        return order[0] & order[1] & (a.low == b.low) & (a.high == b.high)

    def difference(self, x: Any) -> Any:
        """g(x) = S(x) − T(x)."""
        return self.stop(x) - self.start(x)

    @functools.cached_property
    def rows(self) -> tuple[Any, tuple[Any, Any]]:
        """Σ |tile|·length from below, and at both ends of a line in the step.

        Every position of a tile counts the length of the tile.  That is the length at the position
        x, S(x + 1) − T(x), and what S rises from there to the tile's stop, and T from its start.
        Along a ramp of slope s that is cut into k positions a tile, these are s·k(k − 1)/2.  The k
        are B, except for the first and the last; Σ k² is least at the least B, also when the first
        is
        short: then it is at least LB − B²/2, where L ≥ B is the length of the ramp, and at least
        L²/2.
        """
        first, last, start, stop, by = self.first, self.last, self.start, self.stop, self.least_by
        words: Any = self.integrals[1] - self.integrals[0]
        size = np.abs(self.integrals[0]) + np.abs(self.integrals[1])
        line: list[Any] = [0.0, 0.0]
        for ramp in (start, stop):
            # Bends between two positions take away at most an eighth of the slope each.
            words = words + (ramp(last) - ramp(first)) / 2
            words = words - (ramp.slope / 4 if ramp.slope > 1 else 0)
            if ramp.slope:
                a, b = np.ceil(ramp.bend(ramp.low)), np.floor(ramp.bend(ramp.high))
                a, b = clip(a, first, last), clip(b, first, last)
                long = np.maximum(b - a, 0)
                short = np.minimum(by, long)
                rest = long - np.floor(long / by) * by
                squares = np.where(
                    a <= first, (long - rest) * by + rest**2, (long - short / 2) * short
                )
                known, *ends = self.squares(a, np.maximum(a, b))
                squares = np.maximum(np.maximum(squares, known), long)
                line = [x + ramp.slope * (y - squares) / 2 for x, y in zip(line, ends, strict=True)]
                words = words + ramp.slope * (squares - long) / 2
                size = size + squares + (last - first) * self.by
        words = words - 8 * ROUNDING * size - ROUNDING
        return words, (words + line[0], words + line[1])

    def squares(self, a: Any, b: Any) -> tuple[Any, Any, Any]:
        """Σ k² over tiles that have k of the positions a … b: its least, and a line below it.

        Where all steps put both ends into the same tiles, the tiles between these have B of the
        positions, and the sum is a square polynomial in B.  Elsewhere it is at least LB − B²/2,
        L = b − a and B ≤ L, which is concave; and LB − B²/4 where a tile starts at a.

        Returns:
            the least, or 0 where it isn't known, and the line at the least and the largest step.
        """
        v, w = a - self.first, b - self.first
        head, tail = np.floor(v / self.by), np.ceil(w / self.by) - 1
        same = (head == np.floor(v / self.least_by)) & (tail == np.ceil(w / self.least_by) - 1)
        u, one = head + 1, head == tail

        def within(by: Any) -> Any:
            return (u * by - v) ** 2 + (tail - u) * by**2 + (w - tail * by) ** 2

        lowest = (u * v + tail * w) / np.maximum(u * u + tail * tail + tail - u, 1)
        least = within(clip(lowest, self.least_by, self.by))
        least = np.where(same, np.where(one, (w - v) ** 2, least), 0)
        middle = (self.least_by + self.by) / 2
        rise = u * (u * middle - v) + (tail - u) * middle - tail * (w - tail * middle)
        line, size = [], w - v
        for by in (self.least_by, self.by):
            exact = np.where(one, size**2, within(middle) + 2 * rise * (by - middle))
            short = np.minimum(by, size)
            concave = (size - np.where(v <= 0, short / 4, short / 2)) * short
            line.append(np.where(same, exact, concave))
        return least, line[0], line[1]

    def edges(self) -> tuple[Any, Any]:
        """Σ g over the places between two tiles, for the least and for the largest step, or −∞.

        It is known where all steps put as many places before every bend: there it is linear in B.
        """
        steps = self.least_by, self.by
        tiles, last = (np.ceil((self.last - self.first) / by) - 1 for by in steps)
        same, words = tiles == last, [0.0, 0.0]
        for sign, ramp in ((1, self.stop), (-1, self.start)):
            if ramp.slope == 0:
                words = [x + sign * tiles * ramp(0) for x in words]
                continue
            cuts = []
            for cut in (ramp.low, ramp.high):
                some, most = (np.floor((ramp.bend(cut) - self.first) / by) for by in steps)
                cuts.append(clip(some, 0, tiles))
                same = same & (cuts[-1] == clip(most, 0, tiles))
            a, b = cuts
            flat = a * ramp.low + (tiles - b) * ramp.high
            flat = flat + (b - a) * (ramp.slope * self.first + ramp.start)
            rise = ramp.slope * (b * (b + 1) - a * (a + 1)) / 2
            words = [x + sign * (flat + rise * by) for x, by in zip(words, steps, strict=True)]
        return np.where(same, words[0], -np.inf), np.where(same, words[1], -np.inf)

    def count_positive(self) -> Any:
        """How many positions have a length above 0, from below."""
        begin, end = self.first, self.last
        for ramp, above in ((self.stop, True), (self.start, False)):
            cut = ramp.low + 1 if above else ramp.high - 1
            if ramp.slope == 0:
                none = ramp(0) < cut if above else ramp(0) > cut
                end = np.where(none, begin, end)
            elif above:
                begin = np.maximum(begin, np.ceil(ramp.bend(cut)) - 1)
            else:
                end = np.minimum(end, np.floor(ramp.bend(cut)) + 1)
        some = (self.stop.low < self.stop.high) & (self.start.low < self.start.high) & self.ordered
        return np.where(some, np.maximum(end - begin, 0), 0)


@dataclass
class Few:
    """Boxes all of whose steps make equally many tiles, few of which have any length.

    Each of these has a row; the first tiles are left out, where the span stops before it starts.

    Attributes:
        which: the boxes.
        starts: the first row of each.
        box: of each row.
        k: the number of its tile.
        tiles: how many its box has.
    """

    which: Any
    starts: Any
    box: Box
    k: Any
    tiles: Any

    @classmethod
    def of(cls, box: Box, valid: Any) -> Few | None:
        """Those among some boxes, or None."""
        n = np.maximum(box.last - box.first, 1)
        tiles = np.ceil(n / box.by)
        same = (tiles == np.ceil(n / box.least_by)) & (tiles > 1) & (box.least_by < box.by)
        empty: Any = 0.0
        if box.stop.slope:
            empty = np.floor((box.stop.bend(box.stop.low) - box.first) / box.by)
            empty = clip(empty, 0, tiles - 1)
        which = np.flatnonzero(valid & same & (tiles - empty <= _FEW_TILES))
        if not len(which):
            return None
        tiles, empty = (_take(x, which).astype(np.int64) for x in (tiles, empty))
        each = tiles - empty
        starts, rows = np.cumsum(each) - each, np.repeat(which, each)
        k = np.arange(len(rows)) - np.repeat(starts - empty, each)
        first, last, least_by, by = (
            _take(x, rows) for x in (box.first, box.last, box.least_by, box.by)
        )
        start, stop = box.start.take(rows), box.stop.take(rows)
        here = Box(first, last, start, stop, least_by, by, np.True_)
        return cls(which, starts, here, k, np.repeat(tiles, each))

    def largest(self, words: Any, ours: Any) -> Any:
        """Bounds of all boxes, and these where they are larger."""
        words = np.array(words)
        words[self.which] = np.maximum(words[self.which], ours)
        return words

    def edges(self) -> Any:
        """Σ g over the places between two tiles."""
        box, k = self.box, self.k
        least = between(box, box.first + k * box.least_by, box.first + k * box.by)
        return np.add.reduceat(np.where(k > 0, np.maximum(least, 0), 0), self.starts)

    @functools.cached_property
    def lengths(self) -> Any:
        """The length in every tile, from below."""
        box, k, first = self.box, self.k, self.box.first
        with np.errstate(invalid="ignore", divide="ignore"):
            bends = [
                (box.stop.bend(box.stop.low) - first) / (k + 1),
                (box.start.bend(box.start.high) - first) / k,
            ]
        bends = [clip(np.nan_to_num(x), box.least_by, box.by) for x in bends]
        found = (
            box.stop(first + (k + 1) * by) - box.start(first + k * by)
            for by in (box.least_by, box.by, *bends)
        )
        end = k == self.tiles - 1
        last = box.stop(box.last) - box.start(first + k * box.by)
        return np.maximum(np.where(end, last, functools.reduce(np.minimum, found)), 0)

    def products(self, step: Any) -> Any:
        """Σ |tile|·length, or |tile|·⌈length/step⌉, each length at its least."""
        box, length, end = self.box, self.lengths, self.k == self.tiles - 1
        if step is not None:
            each = np.diff(self.starts, append=len(length))
            length = np.ceil(length / np.repeat(_take(step, self.which), each))
        # Full tiles have B rows, and the last what is left: linear in B.
        after = length[end]
        full = np.add.reduceat(length, self.starts) - self.tiles[self.starts] * after
        n = (box.last - box.first)[self.starts]
        return n * after + np.minimum(full * box.least_by[self.starts], full * box.by[self.starts])


def between(box: Box, first: Any, last: Any) -> Any:
    """The least of g(x) = S(x) − T(x) between two positions: at them, or where its slope rises."""
    bends = (box.stop.bend(box.stop.low), box.start.bend(box.start.high))
    places = (first, last, *(clip(x, first, last) for x in bends))
    return functools.reduce(np.minimum, map(box.difference, places))


class Corners:
    """Affine expressions at the corner of a box where they are least, or largest, in float64."""

    def __init__(self, low: Columns, high: Columns) -> None:
        self.low, self.high = low, high

    def __call__(self, value: Affine, top: bool = False) -> Any:
        """The value; without edges of tiles."""
        total: Any = float(value.const)
        for name, c in value.sizes:
            x = real((self.high if (c > 0) == top else self.low)[name])
            total = total + (x if c == 1 else c * x)
        return total


def ramps(span: Span, slopes: tuple[int, int], corners: Corners) -> tuple[Ramp, Ramp]:
    """The start of a span at its most in a box, and the stop at its least."""
    found = []
    for top, slope, value in ((True, slopes[0], span.start), (False, slopes[1], span.stop)):
        extent = corners(Affine.of(span.axis), top)
        low, high = 0.0 * extent, extent
        if span.within is not None:
            low, high = (clip(corners(x, top), 0, extent) for x in span.within)
            high = np.maximum(low, high)
        found.append(Ramp(slope, corners(value, top), low, high))
    return found[0], found[1]


def slopes_of(span: Span, tile: Tile) -> tuple[int, int] | None:
    """How the start rises with the tile's start, and the stop with its stop; None for others."""
    found = []
    for value, end in ((span.start, "start"), (span.stop, "stop")):
        moves = {name: c for name, c in value.terms if isinstance(name, Edge)}
        slope = moves.pop(Edge(tile, end), 0)  # type: ignore[arg-type]
        if moves or slope < 0:
            return None
        found.append(slope)
    return found[0], found[1]


def _take(values: Any, rows: Any) -> Any:
    """The entries of some boxes, also of what all share."""
    return values[rows] if np.ndim(values) else np.full(len(rows), values)


def real(values: Any) -> Any:
    """Values in float64."""
    return np.asarray(values, np.float64)
