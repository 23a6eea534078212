"""A sum of lengths over the tiles of a loop from below, for every step between two.

Let a loop over n0 … n1 have the step B and F = ⌈n/B⌉ tiles, n = n1 − n0, and a span in it start at
T(i.start) and stop at S(i.stop), where S and T rise: lines, cut to a part of an axis.  Its lengths
S(y) − T(x) over all tiles x … y are S(n1) − T(n0), and at every place between two tiles
g(x) = S(x) − T(x).  Trapezoids over the tiles have at least the integral of g, except for a loss
where its slope falls: by s at a distance a from n0 or n1, it is at most s·a(B − a)/2, and s·B²/8.
With g' the least of g in the last B positions, that is

    Σ g(n0 + kB)  ≥  (∫ g)/B − (g(n0) + g(n1))/2 + (F − n/B)·(g' + g(n1))/2 − loss/B.

Without the third term it falls as B grows; with it, F may be taken for any smaller number.  It is
exact for a causal mask where B divides n, and close to it elsewhere.

`below` and `arrays` call it.  A bound may be closer, but never above an exact sum:
``tests/core/test_masked_tiles.py`` compares both.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.arrays import clip
from iosim.core.counting.poly import Part, Sum
from iosim.core.counting.ramps import (
    ROUNDING,
    Box,
    Columns,
    Corners,
    between,
    ramps,
    real,
    slopes_of,
)
from iosim.core.program.index import Span, Tile


@dataclass(frozen=True)
class Below:
    """A sum over tiles from below, over boxes.

    Attributes:
        words: no more than it anywhere in a box; float64.
        line: at the least and at the largest step of the loop, the ends of a line in the step that
            is nowhere above it; float64.
        valid: where it holds.
    """

    words: Any
    line: tuple[Any, Any]
    valid: Any


def area(atom: Sum, low: Columns, high: Columns, boxes: dict[Any, Box | None]) -> Below | None:
    """Σ |tile|·length, or of |tile|·⌈length/C⌉, from below over boxes.

    None where it has another form.

    With a C the sum is at least that without it over C, and the number of positions that have any
    length.
    """
    parts = [x for x in atom.factors if isinstance(x, Part)]
    if len(parts) != 1 or sorted(map(str, atom.factors)) != sorted(map(str, (atom.tile, *parts))):
        return None
    box = _box(atom, parts[0], low, high, boxes)
    if box is None:
        return None
    words, line = box.rows
    step = None if parts[0].step is None else real(high[parts[0].step])
    if step is not None:
        words = np.maximum(words / step, box.count_positive())
        line = (line[0] / step, line[1] / step)
    if (few := box.few) is not None:
        words = few.largest(words, few.products(step))
    return Below(words, line, box.valid)


def least(atom: Sum, low: Columns, high: Columns, boxes: dict[Any, Box | None]) -> Below | None:
    """The bound over boxes; None where the sum has another form.

    Args:
        low, high: name → values at the corners of the boxes.
        boxes: what other sums over them had of these.
    """
    if len(atom.factors) != 1 or not isinstance(atom.factors[0], Part):
        return None
    (part,) = atom.factors
    assert isinstance(part, Part)
    box = None if part.step is not None else _box(atom, part, low, high, boxes)
    if box is None:
        return None
    first, last, start, stop = box.first, box.last, box.start, box.stop
    least_by, by = box.least_by, box.by
    ends = [box.difference(x) for x in (first, last)]
    valid = box.valid & box.ordered
    n = np.maximum(last - first, 1)
    area = box.integrals[1] - box.integrals[0]
    size = np.abs(box.integrals[0]) + np.abs(box.integrals[1])
    lost: Any = (ends[0] + ends[1]) / 2
    for ramp, cut in ((stop, stop.high), (start, start.low)):
        a = np.minimum(ramp.bend(cut) - first, last - ramp.bend(cut))
        a = clip(a, 0, by / 2)
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
    tiles = np.ceil(n / by * (1 - ROUNDING))
    # Steps of more tiles are below n/tiles, and the others from there on.
    fewer = np.minimum(np.maximum(least_by, n / tiles), by)
    left = area - n * np.maximum(both, 0) / 2
    some = left / np.where(left >= 0, by, fewer) + tiles * np.maximum(both, 0) / 2
    more = np.where(least_by * tiles < n, area * tiles / n, np.inf)
    inner = np.maximum(area / by, np.minimum(some, more)) - lost
    size = size / np.maximum(fewer, 1) + tiles * np.abs(both) + np.abs(lost)
    inner = np.maximum(inner - 8 * ROUNDING * size, 0)
    # As a line: 1/B is above its tangents.
    middle = np.sqrt(least_by * by)
    better = tiles * middle > n
    flow = np.where(better, left, area)
    rest = np.where(better, tiles * np.maximum(both, 0) / 2, 0) - lost - 8 * ROUNDING * size
    falls = [2 / middle - 1 / x for x in (by, least_by)]
    at = [
        np.where(flow > 0, flow * x, flow / y) for x, y in zip(falls, (least_by, by), strict=True)
    ]
    known = [x - ROUNDING * (np.abs(x) + size) for x in box.edges()]
    line = [np.where(x > -np.inf, x, y + rest) for x, y in zip(known, at, strict=True)]
    inner = np.maximum(inner, np.minimum(*known))
    if (few := box.few) is not None:
        inner = few.largest(inner, few.edges())
    whole = stop(last) - start(first)
    words = (whole + inner) * (1 - ROUNDING) - ROUNDING
    return Below(words, (line[0] + whole, line[1] + whole), valid)


def _box(
    atom: Sum, part: Part, low: Columns, high: Columns, boxes: dict[Any, Box | None]
) -> Box | None:
    key = atom.tile, atom.span, atom.step, part.span
    if key not in boxes:
        boxes[key] = Box.of(atom, part.span, low, high)
    return boxes[key]


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
        return np.floor(clip(self.ramps[1].bend(self.ramps[1].high), first, last))

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
            at = [least, most, *(clip(x, least, most) for x in at)]
            found = functools.reduce(np.minimum, (high(y) - low(y - extent) for y in at))
        return np.maximum(np.floor(found), 0).astype(np.int64)
