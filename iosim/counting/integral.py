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
from typing import Any

import numpy as np

from iosim.counting.poly import Part, Sum
from iosim.counting.ramps import Box, Columns, Corners, Few, between, ramps, real, slopes_of
from iosim.program.index import Span, Tile

# More than what rounding in float64 adds to a sum of a few terms.
_ROUNDING = 1e-12
_LARGEST = 2.0**61


def area(atom: Sum, low: Columns, high: Columns) -> tuple[Any, Any] | None:
    """Σ |tile|·length, or of |tile|·⌈length/C⌉, from below over boxes, and where it holds.

    None where it has another form.

    Every position of a tile counts the length of the tile.  That is the length at the position
    x, S(x + 1) − T(x), and what S rises from there to the tile's stop, and T from its start.
    Along a ramp of slope s that is cut into k positions a tile, these are s·k(k − 1)/2.  The k are
    B, but for the first and the last; Σ k² is least at the least B, also when the first is short:
    then it is at least LB − B²/2, where L ≥ B is the length of the ramp, and at least L²/2.
    With a C the sum is at least this over C, and the number of positions that have any length.
    """
    parts = [x for x in atom.factors if isinstance(x, Part)]
    if len(parts) != 1 or sorted(map(str, atom.factors)) != sorted(map(str, (atom.tile, *parts))):
        return None
    box = Box.of(atom, parts[0].span, low, high)
    if box is None:
        return None
    first, last, start, stop = box.first, box.last, box.start, box.stop
    by = box.least_by
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
    words = words - 8 * _ROUNDING * size - _ROUNDING
    step = None if parts[0].step is None else real(high[parts[0].step])
    if step is not None:
        words = np.maximum(words / step, box.seen())
    if (few := Few.of(box, box.valid)) is not None:
        words = few.largest(words, few.products(step))
    return _whole(words, box.valid), box.valid


def least(atom: Sum, low: Columns, high: Columns) -> tuple[Any, Any] | None:
    """The bound over boxes, and where it holds; None where the sum has another form.

    Args:
        low, high: name → values at the corners of the boxes.
    """
    if len(atom.factors) != 1 or not isinstance(atom.factors[0], Part):
        return None
    (part,) = atom.factors
    assert isinstance(part, Part)
    box = None if part.step is not None else Box.of(atom, part.span, low, high)
    if box is None:
        return None
    first, last, start, stop = box.first, box.last, box.start, box.stop
    least_by, by = box.least_by, box.by
    ends = [box.apart(x) for x in (first, last)]
    valid = box.valid & box.ordered
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
    both = ends[1] + between(box, near, last)
    tiles = np.ceil(n / by * (1 - _ROUNDING))
    # Steps of more tiles are below n/tiles, and the others from there on.
    fewer = np.minimum(np.maximum(least_by, n / tiles), by)
    left = area - n * np.maximum(both, 0) / 2
    some = left / np.where(left >= 0, by, fewer) + tiles * np.maximum(both, 0) / 2
    more = np.where(least_by * tiles < n, area * tiles / n, np.inf)
    inner = np.maximum(area / by, np.minimum(some, more)) - lost
    size = size / np.maximum(fewer, 1) + tiles * np.abs(both) + np.abs(lost)
    inner = np.maximum(inner - 8 * _ROUNDING * size, 0)
    if (few := Few.of(box, valid)) is not None:
        inner = few.largest(inner, few.edges())
    words = stop(last) - start(first) + inner
    return _whole(words * (1 - _ROUNDING) - _ROUNDING, valid), valid


def _whole(words: Any, valid: Any) -> Any:
    """Bounds as whole numbers, 0 where they don't hold."""
    return np.clip(np.where(valid, np.ceil(words), 0), 0, _LARGEST).astype(np.int64)


class Lengths:
    """The lengths of a span that follows a tile, from below over a box.

    It covers what the spans of parts of the tile cover.
    """

    def __init__(self, span: Span, tile: Tile, low: Columns, high: Columns) -> None:
        slopes = slopes_of(span, tile)
        self.ramps = None if slopes is None else ramps(span, slopes, Corners(low, high))

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
