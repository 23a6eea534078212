"""Sums over tiles from below, over boxes: by integrals, or by the positions that tiles cover.

`arrays` and `iosim.core.tiling` call it.  A new form of sum starts here; no bound may be above an
exact sum (``tests/core/test_masked_tiles.py``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import numpy as np

from iosim.core.counting import integral
from iosim.core.counting.poly import Atom, Part, Sum, names_of
from iosim.core.counting.ramps import Columns, real
from iosim.core.program.index import Affine, Edge, Span, Tile

Reading: TypeAlias = Callable[[Columns], Callable[[Atom], Any]]

# Bounds in float64 are cut to these: less than int64 holds, and more than any count.
_MOST, _MOST_OF_OBJECTS = 2.0**62, 2.0**400


def sum_below(
    atom: Sum, low: Columns, high: Columns, boxes: dict[Any, Any], reading: Reading
) -> tuple[Any, tuple[Any, Any]]:
    """A sum from below over boxes, exact where one is a single point, and a line below it.

    The line is in the step of the loop: its ends are at the least and the largest step of every
    box, in float64.

    Args:
        low, high: name → values at the corners of the boxes.
        boxes: what other sums at these corners had in common; it is added to.
        reading: an environment → the values of atoms in it.
    """
    found = integral.least(atom, low, high, boxes) or integral.area(atom, low, high, boxes)
    names = sorted(names_of(atom))
    least: Any = 0
    if found is not None:
        wide = any(isinstance(low[x], int) or np.asarray(low[x]).dtype == object for x in names)
        least = floor_to_integers(
            np.where(found.valid, np.maximum(found.words, 0), 0), object if wide else int
        )
    if found is not None and np.all(found.valid):
        words, line = least, found.line
    elif found is None:
        words = _by_positions(atom, low, high, reading)
        line = words, words
    else:
        words = np.maximum(least, _by_positions(atom, low, high, reading))
        line = tuple(np.where(found.valid, x, words) for x in found.line)
    line = real(line[0]), real(line[1])
    # Whichever is larger in the middle.
    level = real(words)
    flat = 2 * level >= line[0] + line[1]
    line = np.where(flat, level, line[0]), np.where(flat, level, line[1])
    apart = [np.equal(low[x], high[x]) for x in names if low[x] is not high[x]]
    shape = np.broadcast_shapes(np.shape(words), *(np.shape(low[x]) for x in names))
    single = np.broadcast_to(functools.reduce(np.logical_and, apart, np.True_), shape)
    rows = np.flatnonzero(np.asarray(single, bool))
    if shape and len(rows):
        key = shape, rows.tobytes()  # sums at the same points share their pieces
        if key not in boxes:
            boxes[key] = reading({x: v[rows] if np.ndim(v) else v for x, v in low.items()})
        exact = boxes[key](atom)

        def insert_exact(x: Any, dtype: Any) -> Any:
            found = np.empty(shape, dtype)
            found[...] = x
            found[rows] = exact
            return found

        words, line = (
            insert_exact(words, exact.dtype),
            (insert_exact(line[0], float), insert_exact(line[1], float)),
        )
    return words, line


def floor_to_integers(values: Any, dtype: Any) -> Any:
    """Bounds from below in float64 as whole numbers of a dtype, int64 or object."""
    if dtype is int or dtype == np.int64:
        return np.minimum(np.ceil(values), _MOST).astype(np.int64)
    found = np.frompyfunc(math.ceil, 1, 1)(np.minimum(values, _MOST_OF_OBJECTS))
    return np.asarray(found, object)


def _by_positions(atom: Sum, low: Columns, high: Columns, reading: Reading) -> Any:
    """The sum over positions, divided by the steps."""
    parts = [x for x in atom.factors if isinstance(x, Part)]
    tiles = sum(isinstance(x, Tile) for x in atom.factors)
    places = Sum(atom.tile, atom.span, None, tuple(Part(x.span) for x in parts))
    if (
        len(parts) + tiles < len(atom.factors)
        or atom.span.edges
        or not all(_covers(x.span, atom.tile) for x in parts)
        or not fixed(names_of(places), low, high)
    ):
        return 0
    total = reading(low)(places)
    steps = [x.step for x in parts] + ([] if tiles else [atom.step])
    for step in steps:
        if step is not None:
            total = -(-total // high[step])
    return total


def _covers(span: Span, tile: Tile) -> bool:
    """Whether a span of a tile covers the spans of all its positions."""

    def moves(value: Affine, end: str) -> int:
        return sum(c for name, c in value.terms if isinstance(name, Edge) and name.end == end)

    edges = {edge.tile for edge in span.edges}
    return (
        edges == {tile}
        and moves(span.start, "start") >= 0 >= moves(span.start, "stop")
        and moves(span.stop, "stop") >= 0 >= moves(span.stop, "start")
    )


def fixed(names: Collection[str], low: Columns, high: Columns) -> bool:
    """Whether a box is a single point in these names."""
    return all(low[x] is high[x] or np.array_equal(low[x], high[x]) for x in names)
