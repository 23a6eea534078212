"""The most that one segment can do, minus what its multipliers charge: closed forms.

Sizes are scaled by d: words by d², products by d³, so that x = M/d², s = S/d² and T = x + s.
With g = √(q·k) (and √(o·v)), p = √(pairs wholly inside), P = √(all pairs visited) and
u = P + p, w = P − p, Lemma 3 of proofs/constant_tight.md bounds either kind of product by
min(P², g(P + p) − pP).  Lemmas 6 and 7 there show that the charged work is convex in w (or in p)
between the faces of its domain, so that its maximum lies on one of the one-parameter families
below, each of which `_peak` or `_ridge` maximises.  Every function returns an upper bound on the
true maximum, for **any** multipliers in the stated ranges.  It is vectorised over NumPy arrays, and
made of NumPy's functions alone, so that what it does can be written down, too.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from iosim.bounds.base import Floats

_NEWTON_STEPS = 16


def _peak(a3: Any, a2: Any, a1: Any, lo: Any, hi: Any) -> Floats:
    """max of a3·P³ + a2·P² + a1·P over lo ≤ P ≤ hi, with a3 ≤ 0 ≤ a1; −inf where lo > hi.

    The derivative's roots have product a1/3a3 ≤ 0, so at most one is positive: a maximum.
    """
    a2, a3 = np.positive(a2), np.positive(a3)  # numbers of NumPy may be divided by 0
    root = np.sqrt(a2 * a2 - 3 * a3 * a1)
    with np.errstate(divide="ignore", invalid="ignore"):
        cubic = (a2 + root) / (-3 * a3)
        square = -a1 / (2 * a2)
    P = np.where(np.less(a3, 0), cubic, np.where(np.less(a2, 0), square, hi))
    top = np.maximum(lo, hi)
    best: Any = -np.inf
    for at in (lo, hi, np.clip(P, lo, top)):
        best = np.maximum(best, ((a3 * at + a2) * at + a1) * at)
    found: Floats = np.where(lo <= hi, best, -np.inf)
    return found


def _ridge(k: Any, a: Any, b: Any, e: Any, lo: Any, hi: Any) -> Floats:
    """max of f(u) = k·u − a·u² + b/u² + e/u over lo ≤ u ≤ hi, with b, e ≥ 0 and lo > 0.

    f′ is concave on u > 0, so f has at most one inner maximum, at the larger root of f′.  Newton
    from the right of it never passes it; at any point u right of it f(root) ≤ f(u) + |f′(u)|·u.
    """

    def f(u: Any) -> Any:
        return k * u - a * u * u + (b / u + e) / u

    def slope(u: Any) -> Any:
        return k - 2 * a * u - (2 * b / u + e) / (u * u)

    top = np.maximum(lo, hi)
    ends = np.maximum(f(lo), f(top))
    u: Any = top
    for _ in range(_NEWTON_STEPS):
        h = slope(u)
        bend = -2 * a + (6 * b / u + 2 * e) / u**3
        move = (h < 0) & (bend < 0)
        u = np.where(move, np.maximum(u - h / np.where(move, bend, -1.0), lo), u)
    h = slope(u)
    bend = -2 * a + (6 * b / u + 2 * e) / u**3
    # Stopped at lo, or falling and bent upwards: no root right of lo, so f only falls from lo on.
    no_root = (u <= lo) | ((h < 0) & (bend >= 0))
    inner = np.where(no_root, ends, f(u) + np.abs(h) * u)
    # Rising at the right end itself: f′ is concave, so the maximum is at an end.
    inner = np.where(slope(top) >= 0, ends, inner)
    found: Floats = np.where(lo <= hi, np.maximum(ends, inner), -np.inf)
    return found


def _top(*families: Any) -> Floats:
    best: Floats = functools.reduce(np.maximum, families)
    return best


def once_cap(x: Any, s: Any, m1: Any, m2: Any) -> Floats:
    """Upper bound on E + F − m1·(y + C) + m2·(n_paid − y) over all segments; 0 ≤ m1 ≤ 2, m2 ≥ 0."""
    return _top(*once_faces(x, s, m1, m2).values())


def once_faces(x: Any, s: Any, m1: Any, m2: Any) -> dict[str, Floats]:
    """The most on each face of Lemma 6, class `once`, −inf where there is none of its shapes.

    The five faces are pairs wholly inside only; none wholly inside and no free starts; none paid;
    M free starts; M free starts and none paid.
    """
    T = x + s
    A = T + x
    r = np.sqrt(x)
    inside = (2 - m1) * T * T / 16
    paid = _peak(-0.5, m2, T / 2, np.sqrt(4 + T) - 2, np.sqrt(T))
    free = _peak(0.0, -(m1 + m2), T / 2, T / 4, r)
    full = _peak(-0.5, m2, A / 2, np.maximum(r, np.sqrt(4 + A) - 2), np.sqrt(A))
    lo = np.where(4 * r < T, T / 4 + np.sqrt(np.maximum(T * T / 16 - x, 0)), r)
    hi = T / 4 + np.sqrt(T * T / 16 + x)
    mixed = _ridge(T / 2, (2 + m1) / 4, x * x * (2 - m1) / 4, 0.0, lo, hi)
    return {
        "inside": inside,
        "paid": paid,
        "free": free,
        "full": full - (m1 + 2 * m2) * x,
        "mixed": mixed - (m1 / 2 + m2) * x,
    }


def largest_m2(x: Any, s: Any, a0: Any, m1: Any, first: Any = 1.0) -> Floats:
    """The largest m2 that `recompute_cap` allows: two faces are convex up to it; m1 ≤ 2 − a0."""
    slope = a0 + (2 - a0) * (np.sqrt(4 + x + s) - 2) / (2 * (2 - first))
    largest: Floats = np.minimum(slope, 2 - a0 - m1)
    return largest


def bowed(x: Any, s: Any, a0: Any, m2: Any, first: Any) -> Any:
    """Whether the charged work is convex along an edge, as `recompute_cap` needs for first ≠ 1.

    Lemma 4 of proofs/attention_options.md; it is wherever first = 1.
    """
    second = 2 - first
    lean = second - first
    bend = 2 + (1 - a0 + m2) * lean
    least = np.sqrt(second * second + x + s) - second + lean  # of u + ν on the edge
    return (bend <= 3) | ((least >= 0) & (3 * least * least >= bend * bend))


def recompute_cap(x: Any, s: Any, a0: Any, m1: Any, m2: Any, first: Any = 1.0) -> Floats:
    """Upper bound on (b/λ)E + (γ/μ)F − m1·(y + C) + m2·(n_paid − y), b = a0 + m1, γ = 2 − a0.

    For a0 ≥ 0, 0 ≤ m1 ≤ 2 − a0, 0 ≤ m2 ≤ largest_m2; `first` as for `recompute_faces`.
    """
    return _top(*recompute_faces(x, s, a0, m1, m2, first).values())


def recompute_faces(
    x: Any, s: Any, a0: Any, m1: Any, m2: Any, first: Any = 1.0
) -> dict[str, Floats]:
    """The most on each face of Lemma 7, class `recompute`, −inf where there is none of its shapes.

    Four groups of faces: (A) Q, K hold the inner pairs only, (B) Q, K hold all pairs visited,
    (C) no second product, (D) O, V hold all pairs visited.  `first` is λ, the share of a pair's
    products that are of the first kind, times 2; μ = 2 − λ.  It is 1 for d = d_v; else Lemma 7′ of
    proofs/attention_options.md takes the place of Lemma 7, and `bowed` must hold.
    """
    second = 2 - first
    lean = second - first
    T = x + s
    A = T + x
    r = np.sqrt(x)
    b, c = a0 + m1, 2 - a0
    # Half the words, as widths of Q and K, and of V and O.
    T_1, T_2, A_1, A_2 = T / (2 * first), T / (2 * second), A / (2 * first), A / (2 * second)
    four_T, four_A = np.sqrt(4 + T) - 2, np.sqrt(4 + A) - 2
    first_T, first_A = (np.sqrt(first * first + z) - first for z in (T, A))
    second_T, second_A = (np.sqrt(second * second + z) - second for z in (T, A))
    start = (m1 + 2 * m2) * x  # charged for M free starts
    both = (m1 + m2) * x
    # u at which 2u + νx/u = T: λp + μP is T/2 there.
    meet = T * T - 8 * lean * x
    met = np.where(meet < 0, 0.0, (T + np.sqrt(np.maximum(meet, 0))) / 4)

    def above(z: Any) -> Any:
        """Least u = P + x/P-like root with P ≥ z, where uw = x."""
        return np.where(z > r, z + np.sqrt(np.maximum(z * z - x, 0)), r)

    def below(z: Any) -> Any:
        """Largest u with p ≤ z, where uw = x."""
        return z + np.sqrt(z * z + x)

    ratio = b * second / first
    short = np.minimum(r, T_2)
    return {
        "inner": np.asarray(a0 * T_1 * T_1),
        "paid words": np.asarray(m2 * T),
        "inside": _peak(0.0, a0 - c * first / second, c * T_2, T / 4, T_1),
        "A, paid": _peak(-c / (2 * second), m2, c * T_2, second_T, np.sqrt(T)),
        "A, free": _peak(0.0, -(m1 + m2), c * T_2, T_2, r),
        "A, full": _peak(-c / (2 * second), m2, c * A_2, np.maximum(r, second_A), np.sqrt(A))
        - start,
        "A, mixed": _ridge(
            c * T_2 / 2,
            (c * first / second - a0) / 4,
            (c * first / second + a0) * x * x / 4,
            c * T_2 * x / 2,
            np.maximum(r, met),
            below(T_1),
        )
        - a0 * x / 2
        - both,
        "B": _peak(-c / (2 * second), b + m2 - c * first / second, c * T_2, four_T, first_T),
        "C, paid": _peak(-b / (2 * first), m2, b * T_1, first_T, np.sqrt(T)),
        "C, free": _peak(0.0, -(m1 + m2), b * T_1, T_1, r),
        "C, full": _peak(-b / (2 * first), m2, b * A_1, np.maximum(r, first_A), np.sqrt(A)) - start,
        "C, mixed": _ridge(b * T_1, (b + m1) / 4, a0 * x * x / 4, 0.0, above(T_1), below(T_1))
        + m1 * x / 2
        - both,
        "D, paid": _peak(-b / (2 * first), c - ratio + m2, b * T_1, four_T, second_T),
        "D, free": _peak(0.0, c - ratio - m1 - m2, b * T_1, T / 4, short),
        "D, full": _peak(-b / (2 * first), c - ratio + m2, b * A_1, np.maximum(r, four_A), second_A)
        - start,
        "D, mixed": _ridge(
            b * T_1,
            (b + 2 * ratio + m1 - c) / 4,
            x * x / 2,
            0.0,
            above(T / 4),
            met,
        )
        + (c - ratio + m1) * x / 2
        - both,
    }
