"""Caps: the most charged work that one segment of an execution can do, in closed form.

Notation is that of proofs/constant_tight.md, sections 3 to 5.  A segment is a stretch of an
execution with S events (loads, and starts of runs that are spilled).  Its charged work is the left
side of (1) there: its products q·k (E) and p·v (F), weighted, and what the multipliers m1 and m2
subtract or add for its pairs.  `iosim.bounds.unified` divides by `once_cap` and `recompute_cap` to
get lower bounds; proofs and tests also call `once_faces` and `recompute_faces`.

Words are divided by d² and products by d³ (by powers of (d + d_v)/2 if d_v ≠ d): x = M/d²,
s = S/d² and T = x + s.  q, k, o and v are words of Q, K, O and V that a segment touches.
With g = √(q·k) (and √(o·v)), p = √(pairs wholly inside), P = √(all pairs visited) and u = P + p,
w = P − p, Lemma 3 bounds either kind of product by min(P², g(P + p) − pP).  Lemmas 6 and 7 show
that the charged work is convex in w (or in p) between the faces of its domain, so that its maximum
is on one of the faces below.  A face has at most one free parameter, over which `_peak` or
`_ridge` maximizes.

Changing this file: a cap that is too small makes a **false** lower bound, one that is too large a
weaker one.  So each cap must be at least the true maximum, for any multipliers in its ranges; a
face may be added or changed only with its lemma.  Names of faces stay: proofs name them.  Code
must broadcast over NumPy arrays, without branches on values or `np.asarray`, and use only functions
that ``iosim/lab/data/traced.py`` lists: the lab runs it on symbols.  If a bound changes, raise
`iosim.base.revision.REVISION`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from iosim.base.arrays import Floats

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
    So with fewer `_NEWTON_STEPS` the result may be larger, but is never too small.
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
    """The largest of several values, elementwise."""
    best: Floats = functools.reduce(np.maximum, families)
    return best


def once_cap(x: Any, s: Any, m1: Any, m2: Any) -> Floats:
    """Upper bound on E + F − m1·(y + C) + m2·(a − y) over all segments, class `once`; Lemma 6.

    C pairs are wholly inside a segment, y have a free start and no paid visit there, a have a paid
    visit.  Holds for 0 ≤ m1 ≤ 2 and m2 ≥ 0; the caller ensures it.
    """
    return _top(*once_faces(x, s, m1, m2).values())


def once_faces(x: Any, s: Any, m1: Any, m2: Any) -> dict[str, Floats]:
    """Face of Lemma 6 → the most charged work on it, class `once`; −inf where the face is empty.

    On "inside" all pairs are wholly inside.  "paid", "free" and "full" have no pair wholly inside,
    and no free start, no paid visit, and M free starts.  "mixed" has M free starts and no paid
    visit.
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
    """The largest m2 for which `recompute_cap` holds; `iosim.bounds.unified` lowers m2 to it.

    Not a cap.  Lemma 7 needs it for convexity, and so that m1 + m2 ≤ 2 − a0; the caller ensures
    m1 ≤ 2 − a0.  `first` as for `recompute_faces`.
    """
    slope = a0 + (2 - a0) * (np.sqrt(4 + x + s) - 2) / (2 * (2 - first))
    largest: Floats = np.minimum(slope, 2 - a0 - m1)
    return largest


def bowed(x: Any, s: Any, a0: Any, m2: Any, first: Any) -> Any:
    """Whether `recompute_cap` holds for first ≠ 1: the charged work is convex along an edge.

    Not a cap.  It is condition (∪) of Lemma 7′ in proofs/attention_options.md, section 5, and true
    wherever first = 1.
    """
    second = 2 - first
    lean = second - first
    bend = 2 + (1 - a0 + m2) * lean
    least = np.sqrt(second * second + x + s) - second + lean  # of u + ν on the edge
    return (bend <= 3) | ((least >= 0) & (3 * least * least >= bend * bend))


def recompute_cap(x: Any, s: Any, a0: Any, m1: Any, m2: Any, first: Any = 1.0) -> Floats:
    """Upper bound on (b/λ)E + (γ/μ)F − m1·(y + C) + m2·(a − y) over all segments, `recompute`.

    b = a0 + m1 and γ = 2 − a0 are weights of the two kinds of products; C, y and a are as for
    `once_cap`; λ is `first`, and μ = 2 − λ, as for `recompute_faces`.  Holds for a0 ≥ 0, 0 ≤ m1 ≤
    2 − a0 and 0 ≤ m2 ≤ `largest_m2`, and for first ≠ 1 only where `bowed`; the caller ensures it.
    """
    return _top(*recompute_faces(x, s, a0, m1, m2, first).values())


def recompute_faces(
    x: Any, s: Any, a0: Any, m1: Any, m2: Any, first: Any = 1.0
) -> dict[str, Floats]:
    """Face of Lemma 7 → the most charged work on it, class `recompute`; −inf where it is empty.

    Letters say how many words of Q, K, O and V there are: (A) g = p, words of Q and K for the pairs
    wholly inside only; (B) g = P, for all pairs visited; (C) no product p·v; (D) words of O and V
    for all pairs visited.  "paid", "free", "full" and "mixed" are as in `once_faces`.  "inner",
    "paid words" and "inside" belong to more than one letter.

    `first` is λ = 2d/(d + d_v), and μ = 2 − λ.  It is 1 for d = d_v; else Lemma 7′ of
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
        "inner": a0 * T_1 * T_1,
        "paid words": m2 * T,
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
