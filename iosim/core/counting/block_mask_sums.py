"""Sums over the marked pairs of a block mask, as polynomials in four numbers of the mask.

All tiles of a loop are as long as its step, but the last one, which lacks ⌈n/B⌉·B − n positions.
So with T pairs in all, T_r of them in the last row, T_c in the last column and T_x in both,

    Σ 1 = T
    Σ |i| = B_r·T − lack_r·T_r
    Σ |i||j| = B_r·B_c·T − lack_r·B_c·T_r − B_r·lack_c·T_c + lack_r·lack_c·T_x

Only `closed` calls it.  ``tests/core/test_blocks.py`` compares it with a walk over the pairs.
"""

from __future__ import annotations

import itertools

from iosim.core.counting.poly import Poly, Row, Trips
from iosim.core.program.block_masks import number
from iosim.core.program.index import Affine
from iosim.core.program.ir import Loop


def row(loop: Loop, *, extents: bool) -> Row:
    """The sum over one row of a loop's mask, of 1 or of the extents of the loop's tiles."""
    assert loop.marks is not None
    return Row(loop.marks.name, loop.marks.rows, loop.tile, loop.step, extents)


def pairs(row: Row, rows: Loop, *, extents: bool) -> Poly:
    """The sum over all rows of a row's sum, times 1 or the extents of the rows' tiles."""
    ways = [
        _ways(rows.span.axis, rows.step) if extents else {False: Poly.of(1)},
        _ways(row.columns.axis, row.step) if row.extents else {False: Poly.of(1)},
    ]
    which = {
        (False, False): "marked",
        (True, False): "last_row",
        (False, True): "last_column",
        (True, True): "corner",
    }
    total = Poly()
    for a, b in itertools.product(*ways):
        total = total + ways[0][a] * ways[1][b] * Poly.of(number(row.mask, which[a, b]))
    return total


def extent(loop: Loop, *, last: bool) -> Poly:
    """How long the last tile of a loop over a whole axis is, or any other."""
    if loop.step is None:
        return Poly.of(1)
    step, lack = _ways(loop.span.axis, loop.step).values()
    return step + lack if last else step


def _ways(axis: str, step: str | None) -> dict[bool, Poly]:
    """What an extent is made of: of every tile, and (True) of the last one besides."""
    if step is None or step == axis:
        return {False: Poly.of(1 if step is None else step), True: Poly()}
    lack = Poly.of(Trips(Affine.of(axis), step)) * Poly.of(step) - Poly.of(axis)
    return {False: Poly.of(step), True: Poly.of(-1) * lack}
