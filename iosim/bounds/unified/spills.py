"""Theorem 5: a larger bound for `once` and `trees`, with spilled and unspilled scores apart.

`iosim.bounds.unified` takes the larger of this bound and Theorem 1's.  The argument is in
proofs/constant_tight_spills.md, whose step `spill-records` proves the cap of each record in
``spills.csv``.  ``python -m experiments.spill_records`` makes them; don't edit them by hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.base.arrays import Floats
from iosim.bounds.unified.tables import read_table

# M/d², (M + S)/d², the weights e, m, n and r of `boxes.Weights`, cap.
RECORDS: list[list[float]] = read_table("spills").tolist()

_SAFE = 1 - 1e-9
_X, _T, *_, _CAP = np.array(RECORDS).T
_PLACES = np.arange(len(RECORDS), dtype=np.float64)


def words(pairs: Any, ends: Any, d: Any, M: Any) -> Floats:
    """Theorem 5's bound with the record of the next larger M/d²; 0 if there is none.

    `ends` are at least the rows that occur in a pair.  Float64 arrays of one shape, by NumPy's
    functions alone.

    >>> one = np.ones(1)
    >>> round(float(words(4096.0**2 * one, 8192 * one, 64 * one, 4096 * one)[0] / 4096**2), 1)
    3.4
    """
    square = d * d
    x = M / square
    # The place of the first record that is not below x.
    place = -((-np.interp(x, _X, _PLACES)) // 1)
    T, cap = np.interp(place, _PLACES, _T), np.interp(place, _PLACES, _CAP)
    S = T * square - M
    count = _SAFE * 2 * pairs / (cap * square)  # segments
    found = (S - 2) * (count - 1) + M - ends * d
    usable: Floats = np.where((x <= _X[-1]) & (count > 1) & (S > 2), found, 0.0)
    return usable
