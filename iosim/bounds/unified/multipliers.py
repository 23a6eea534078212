"""Segment lengths and multipliers for `iosim.bounds.unified`, stored from a numeric search.

Any choice is valid: a poor one makes the bound weaker, never wrong, since Theorem 1 holds for all
of them.  The tables (``multipliers_*.csv``) are over √(M/d²), in which the best choice is nearly a
straight line, and are interpolated.  ``python -m experiments.multiplier_search`` searches for
better ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.base.arrays import Floats
from iosim.bounds.unified.tables import read_table

_ONCE = read_table("multipliers_once")
_RECOMPUTE = read_table("multipliers_recompute")


def _read(table: Floats, at: Any) -> list[Floats]:
    columns = table.T
    return [np.interp(at, columns[0], column) for column in columns[1:]]


def once(x: Any) -> tuple[Floats, Floats, Floats]:
    """Segment ÷ M, m1, m2 for the class `once` at x = M/d²."""
    root = np.sqrt(x)
    ratio, m1, m2 = _read(_ONCE, root)
    return ratio, m1 * np.minimum(root, _ONCE[-1, 0]), m2


def recompute(x: Any, first: Any = 1.0) -> tuple[Floats, Floats, Floats, Floats]:
    """Segment ÷ M, a0, m1, m2 for the class `recompute` at x = M/d².

    `first` is d/((d + d_v)/2).  The tables are for d = d_v; a0 moves with `first` as the best one
    does where M is small.
    """
    root = np.sqrt(x)
    ratio, a0, m1, m2 = _read(_RECOMPUTE, root)
    m1 = m1 * np.minimum(root, _RECOMPUTE[-1, 0])
    a0 = np.clip(a0 + (first - 1) * (1 + m1 / 2), 0.0, 2.0)
    return ratio, a0, np.minimum(m1, 2 - a0), m2
