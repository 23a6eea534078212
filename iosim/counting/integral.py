"""A sum of lengths over the tiles of a loop from below, for every step between two.

Let a loop over n0 … n1 have the step B and F = ⌈n/B⌉ tiles, n = n1 − n0, and a span in it start at
T(i.start) and stop at S(i.stop), where S and T rise: lines, cut to a part of an axis.  Its lengths
S(y) − T(x) over all tiles x … y are S(n1) − T(n0), and at every place between two tiles
g(x) = S(x) − T(x).  Trapezoids over the tiles have at least the integral of g, but for a loss where
its slope falls: by s at a distance a from n0 or n1, it is at most s·a(B − a)/2, and s·B²/8.  With
g' the least of g in the last B positions, that is

    Σ g(n0 + kB)  ≥  (∫ g)/B − (g(n0) + g(n1))/2 + (F − n/B)·(g' + g(n1))/2 − loss/B.

Without the third term it falls as B grows; with it, F may be taken for any smaller number.  It is
exact for a causal mask where B divides n, and close to it elsewhere.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.counting.poly import Part, Sum
from iosim.program.index import Affine, Edge, Span, Tile

Columns = Mapping[Any, Any]

# More than what rounding in float64 adds to a sum of a few terms.
_ROUNDING = 1e-12
_LARGEST = 2.0**61


@dataclass
class _Ramp:
    """x ↦ slope·x + start, cut to low … high; arrays of float64, and a slope of 0 or more."""

    slope: int
    start: Any
    low: Any
    high: Any

    def __call__(self, x: Any) -> Any:
        return np.minimum(np.maximum(self.slope * x + self.start, self.low), self.high)

    def integral(self, first: Any, last: Any) -> Any:
        """Over first … last."""
        if self.slope == 0:
            return self(first) * (last - first)
        bends = [(cut - self.start) / self.slope for cut in (self.low, self.high)]
        a, b = (np.clip(x, first, last) for x in bends)
        middle = self.slope * (a + b) / 2 + self.start
        return (
            self(first) * (a - first) * (a > first)
            + np.where(b > a, middle * (b - a), 0)
            + self(last) * (last - b) * (b < last)
        )

    def bend(self, cut: Any) -> Any:
        """Where it meets a cut; beyond everything where it never does."""
        return (cut - self.start) / self.slope if self.slope else np.inf


def area(atom: Sum, low: Columns, high: Columns) -> tuple[Any, Any] | None:
    """Σ |tile|·length from below over boxes, and where it holds; None where it has another form.

    Every position of a tile counts the length of the tile.  That is the length at the position
    x, S(x + 1) − T(x), and what S rises from there to the tile's stop, and T from its start.
    Along a ramp of slope s that is cut into k positions a tile, these are s·k(k − 1)/2.  The k are
    B, but for the first and the last; Σ k² is least at the least B, also when the first is short:
    then it is at least LB − B²/2, where L ≥ B is the length of the ramp, and at least L²/2.
    """
    parts = [x for x in atom.factors if isinstance(x, Part)]
    if len(parts) != 1 or sorted(map(str, atom.factors)) != sorted(map(str, (atom.tile, *parts))):
        return None
    slopes = _slopes(parts[0].span, atom.tile)
    if slopes is None or atom.span.edges:
        return None
    corners = Corners(low, high)
    first, last = corners(atom.span.start), corners(atom.span.stop)
    same = (first == corners(atom.span.start, top=True)) & (
        last == corners(atom.span.stop, top=True)
    )
    valid = same & (first < last)
    start, stop = _ramps(parts[0].span, slopes, corners)
    if start.slope == 0:
        stop.low = np.maximum(stop.low, start(0))
        stop.high = np.maximum(stop.high, stop.low)
    by = 1.0 if atom.step is None else _real(low[atom.step])
    words: Any = stop.integral(first, last) - start.integral(first, last)
    size = np.abs(stop.integral(first, last)) + np.abs(start.integral(first, last))
    for ramp in (start, stop):
        # Bends between two positions take away at most an eighth of the slope each.
        words = words + (ramp(last) - ramp(first)) / 2 - (ramp.slope / 4 if ramp.slope > 1 else 0)
        if ramp.slope:
            a, b = np.ceil(ramp.bend(ramp.low)), np.floor(ramp.bend(ramp.high))
            a, b = np.clip(a, first, last), np.clip(b, first, last)
            long = np.maximum(b - a, 0)
            short = np.minimum(by, long)
            rest = long - np.floor(long / by) * by
            squares = np.where(a <= first, (long - rest) * by + rest**2, (long - short / 2) * short)
            words = words + ramp.slope * np.maximum(squares - long, 0) / 2
            size = size + squares
    words = np.ceil(words - 8 * _ROUNDING * size - _ROUNDING)
    return np.clip(np.where(valid, words, 0), 0, _LARGEST).astype(np.int64), valid


def least(atom: Sum, low: Columns, high: Columns) -> tuple[Any, Any] | None:
    """The bound over boxes, and where it holds; None where the sum has another form.

    Args:
        low, high: name → values at the corners of the boxes.
    """
    if len(atom.factors) != 1 or not isinstance(atom.factors[0], Part):
        return None
    (part,) = atom.factors
    assert isinstance(part, Part)
    slopes = _slopes(part.span, atom.tile)
    if part.step is not None or slopes is None or atom.span.edges:
        return None
    corners = Corners(low, high)
    first, last = corners(atom.span.start), corners(atom.span.stop)
    same = (first == corners(atom.span.start, top=True)) & (
        last == corners(atom.span.stop, top=True)
    )
    start, stop = _ramps(part.span, slopes, corners)
    # What a length below 0 would take away: nothing, where one end is fixed.
    if start.slope == 0:
        stop.low = np.maximum(stop.low, start(0))
        stop.high = np.maximum(stop.high, stop.low)
    elif stop.slope == 0:
        start.high = np.minimum(start.high, stop(0))
        start.low = np.minimum(start.low, start.high)
    least_by, by = (1.0 if atom.step is None else _real(x[atom.step]) for x in (low, high))
    ends = [stop(x) - start(x) for x in (first, last)]
    # Lines that are apart at both ends are apart between them, cut or not.
    order = [(stop.slope * x + stop.start >= start.slope * x + start.start) for x in (first, last)]
    fixed = start.slope == 0 or stop.slope == 0
    cut = (start.low == stop.low) & (start.high == stop.high)
    valid = same & (first < last) & (fixed | (order[0] & order[1] & cut))
    n = np.maximum(last - first, 1)
    area = stop.integral(first, last) - start.integral(first, last)
    size = np.abs(stop.integral(first, last)) + np.abs(start.integral(first, last))
    lost: Any = (ends[0] + ends[1]) / 2
    for ramp, cut in ((stop, stop.high), (start, start.low)):
        a = np.minimum(ramp.bend(cut) - first, last - ramp.bend(cut))
        a = np.clip(a, 0, by / 2)
        lost = lost + ramp.slope * a * (by - a) / (2 * by)
    # Where the slope of g rises in the first tile, the trapezoid has more than the integral.
    for ramp, cut in ((stop, stop.low), (start, start.high)):
        a = np.minimum(np.maximum(ramp.bend(cut) - first, 0), last - first)
        inside = (a < least_by) & (least_by < last - first)
        gain = np.where(inside, ramp.slope * a * (least_by - a) / (2 * least_by), 0)
        lost = lost - gain
    # The least of g in the last tile: at its ends, or where its slope rises.
    near = np.maximum(first, last - by)
    bends = [np.clip(r.bend(c), near, last) for r, c in ((stop, stop.low), (start, start.high))]
    both = ends[1] + functools.reduce(
        np.minimum, [stop(x) - start(x) for x in (near, last, *bends)]
    )
    tiles = np.ceil(n / by * (1 - _ROUNDING))
    # Steps of more tiles are below n/tiles, and the others from there on.
    fewer = np.minimum(np.maximum(least_by, n / tiles), by)
    left = area - n * np.maximum(both, 0) / 2
    some = left / np.where(left >= 0, by, fewer) + tiles * np.maximum(both, 0) / 2
    more = np.where(least_by * tiles < n, area * tiles / n, np.inf)
    inner = np.maximum(area / by, np.minimum(some, more)) - lost
    size = size / np.maximum(fewer, 1) + tiles * np.abs(both) + np.abs(lost)
    words = stop(last) - start(first)
    words = words + np.maximum(inner - 8 * _ROUNDING * size, 0)
    words = np.ceil(words * (1 - _ROUNDING) - _ROUNDING)
    return np.clip(np.where(valid, words, 0), 0, _LARGEST).astype(np.int64), valid


class Lengths:
    """The lengths of a span that follows a tile, from below over a box.

    It covers what the spans of parts of the tile cover.
    """

    def __init__(self, span: Span, tile: Tile, low: Columns, high: Columns) -> None:
        slopes = _slopes(span, tile)
        self.ramps = None if slopes is None else _ramps(span, slopes, Corners(low, high))

    def longest(self, first: Any, last: Any) -> Any:
        """The position up to `last` where it is longest, as long as its start rises no faster."""
        if self.ramps is None:
            return last
        return np.floor(np.clip(self.ramps[1].bend(self.ramps[1].high), first, last))

    def __call__(self, extent: Any, least: Any, most: Any) -> Any:
        """The least of S(y) − T(y − extent) over the stops y between two: at its ends or bends.

        Args:
            extent: what the tile covers at least.
            least, most: the first and the last stop that it may have.
        """
        if self.ramps is None:
            return 0
        low, high = self.ramps
        if low.slope == 0:
            found = high(least) - low(0)
        else:
            at = [high.bend(high.low), low.bend(low.high) + extent]
            at = [least, most, *(np.clip(x, least, most) for x in at)]
            found = functools.reduce(np.minimum, (high(y) - low(y - extent) for y in at))
        return np.maximum(np.floor(found), 0).astype(np.int64)


class Corners:
    """Affine expressions at the corner of a box where they are least, or largest, in float64."""

    def __init__(self, low: Columns, high: Columns) -> None:
        self.low, self.high = low, high

    def __call__(self, value: Affine, top: bool = False) -> Any:
        """The value; edges of tiles apart."""
        total: Any = float(value.const)
        for name, c in value.sizes:
            total = total + c * _real((self.high if (c > 0) == top else self.low)[name])
        return total


def _ramps(span: Span, slopes: tuple[int, int], corners: Corners) -> tuple[_Ramp, _Ramp]:
    """The start of a span at its most in a box, and the stop at its least."""
    found = []
    for top, slope, value in ((True, slopes[0], span.start), (False, slopes[1], span.stop)):
        extent = corners(Affine.of(span.axis), top)
        low, high = 0.0 * extent, extent
        if span.within is not None:
            low, high = (np.clip(corners(x, top), 0, extent) for x in span.within)
            high = np.maximum(low, high)
        found.append(_Ramp(slope, corners(value, top), low, high))
    return found[0], found[1]


def _slopes(span: Span, tile: Tile) -> tuple[int, int] | None:
    """How the start rises with the tile's start, and the stop with its stop; None for others."""
    found = []
    for value, end in ((span.start, "start"), (span.stop, "stop")):
        moves = {name: c for name, c in value.terms if isinstance(name, Edge)}
        slope = moves.pop(Edge(tile, end), 0)  # type: ignore[arg-type]
        if moves or slope < 0:
            return None
        found.append(slope)
    return found[0], found[1]


def _real(values: Any) -> Any:
    return np.asarray(values, np.float64)
