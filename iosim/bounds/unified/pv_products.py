"""Theorem 4: a bound from products p·v alone, for class `recompute-trees`.

`iosim.bounds.unified` calls `second_segment`; the class allows recomputation and sums in any order.
The argument is Theorem 4 of proofs/constant_tight.md.  If a pair has a product p·v in a segment,
then one of its words is there when the segment begins, or one is loaded, or its row of Q and its
row of K are touched whole.  So T words allow at most `second_cap` products p·v.  Sizes may be
scaled, as in `iosim.bounds.unified.caps`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.base.arrays import Floats


def second_cap(T: Any, d: Any, d_v: Any) -> Floats:
    """The most products p·v that T words make: the maximum of the proof, in closed form.

    For P² pairs the best is P whole rows of Q and of K, or none and P² words of pairs.
    """
    whole = np.where(d_v >= d, T * T / (16 * d), d_v * T * T / (4 * (d + d_v) * (d + d_v)))
    loaded = np.sqrt(d_v * d_v + T) - d_v
    third = T / 3
    paid = np.where(third <= d_v * d_v, third * np.sqrt(third), d_v * loaded * loaded)
    cap: Floats = np.maximum(whole, paid)
    return cap


def second_segment(x: Any, M: Any, square: Any, d: Any, d_v: Any) -> tuple[Floats, Floats]:
    """Words S of a segment that give most, of those tried, and the cap: x = M/square, d² likewise.

    Every S gives a bound: S·(products/cap − 1) + M.
    """
    cross = np.where(d_v >= d, 16 * d * d_v - 8 * d_v * np.sqrt(d * d_v), 4 * d * (d + d_v))
    best: Any = 0.0
    S: Any = 1.0
    cap: Any = 1.0
    for T in (2 * x, 3 * x, x * (2 + x / (d_v * d_v)), cross):
        length = np.maximum(1.0, np.rint(T * square - M))
        most = second_cap(x + length / square, d, d_v)
        better = length / most > best
        best = np.where(better, length / most, best)
        S, cap = np.where(better, length, S), np.where(better, most, cap)
    return S, cap
