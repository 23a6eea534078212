"""Block masks by name, for programs whose tiles a mask marks: the same on any machine.

>>> mask("band", 4, 4).astype(int)
array([[1, 1, 1, 1],
       [1, 1, 1, 0],
       [1, 1, 1, 1],
       [1, 0, 1, 1]])
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from iosim.base.errors import InputError, closest

Bools = NDArray[np.bool_]


def _band(rows: int, columns: int) -> Bools:
    """Tiles next to the diagonal, the first row and the first column."""
    i, j = np.ogrid[:rows, :columns]
    found: Bools = (abs(i * columns // rows - j) <= 1) | (i == 0) | (j == 0)
    return found


def _draw_pattern(rows: int, columns: int) -> Bools:
    """Three tiles of ten, drawn, and none in the first row."""
    draw = random.Random(1).random
    found = np.array([[draw() < 0.3 for _ in range(columns)] for _ in range(rows)])
    found[0] = False
    return found


def _below(rows: int, columns: int) -> Bools:
    """Tiles on the diagonal and before it."""
    i, j = np.ogrid[:rows, :columns]
    found: Bools = j * rows < (i + 1) * columns
    return found


PATTERNS: dict[str, Callable[[int, int], Bools]] = {
    "band": _band,
    "drawn": _draw_pattern,
    "below": _below,
}


def mask(name: str, rows: int, columns: int) -> Bools:
    """The mask of a pattern; raises InputError for a name that is none."""
    if name not in PATTERNS:
        raise InputError(f"unknown pattern {name!r}: {closest(name, PATTERNS)}")
    return PATTERNS[name](rows, columns)
