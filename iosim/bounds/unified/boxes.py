"""The most charged work of a segment, spilled and unspilled pairs apart: a proof by boxes.

Lemma 5 of proofs/constant_tight_spills.md bounds a segment's charged work by a function of three
numbers, p, A and N (roots of sums over its pairs), for any multipliers θ, λ, α and β.  Here the
domain of (p, A, N) is cut into boxes; in each box fixed multipliers are taken, those that are best
at its centre, and the bound's maximum over the box is found exactly, as it is a sum of quadratic
functions of one variable.  A box whose maximum exceeds the cap that is claimed is cut in eight.

Sizes are scaled by d: words by d², products by d³; x = M/d², T = (M + S)/d².
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.bounds.base import Floats

# λ, and θ as a share of the two values at which the bound turns.
_LAMBDAS = (0.0, 0.25, 0.5, 0.75, 1.0, 2.0)
_SHARES = (1.0, 0.6, 0.3)
# Boxes to a side at first, and boxes at most before the search gives up.
_SIDE, _MOST = 16, 300_000
# Room for rounding: a cap is exceeded only where it is by this share.
_ROUND = 1e-9
# The same of a difference under a root, as a share of its terms.
_UNDER = 1e-15


def _weights(e: float, m: float) -> tuple[float, float]:
    """Weights of second products: of spilled pairs, of unspilled ones."""
    return 2 - e, 2 - e + m


def _choices(e: float, m: float, p: Floats, A: Floats, N: Floats) -> Any:
    """Multipliers (θ, λ, α, β) that may be best at the points."""
    spilled, unspilled = (w * w for w in _weights(e, m))
    for lam in _LAMBDAS:
        kappa = min(1 + lam, 2.0) ** 0.5
        first, second = e * (A + p) / 2, N / (2 * kappa)
        low = np.minimum(first, second)
        thetas = [first, second, *(share * low for share in _SHARES[1:])]
        thetas += [np.full_like(p, m), np.full_like(p, m / 2)]
        for theta in thetas:
            held = theta * (1 + lam)
            for alpha in (theta, np.zeros_like(theta), np.minimum(theta, m), None):
                if alpha is None:
                    if spilled == unspilled:
                        continue
                    beta = np.maximum(0.0, (held - theta) / (unspilled - spilled))
                    alpha = np.maximum(0.0, theta - spilled * beta)
                beta = np.minimum((theta - alpha) / spilled, (held - alpha) / unspilled)
                yield theta, lam, alpha, np.maximum(0.0, beta)


def _top(square: Any, line: Any, lo: Any, hi: Any) -> Floats:
    """max of square·z² + line·z over lo ≤ z ≤ hi."""
    ends = np.maximum((square * lo + line) * lo, (square * hi + line) * hi)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.clip(np.where(square < 0, -line / (2 * square), lo), lo, hi)
    found: Floats = np.maximum(ends, (square * z + line) * z)
    return found


def most(x: float, T: float, e: float, m: float, chosen: Any, box: Any) -> Floats:
    """Lemma 5's bound for fixed multipliers, its maximum over boxes ((p, p′), (A, A′), (N, N′))."""
    theta, lam, alpha, beta = chosen
    (p0, p1), (A0, A1), (N0, N1) = box
    spilled, unspilled = _weights(e, m)
    kappa = np.sqrt(np.minimum(1 + lam, 2.0))
    least = min(spilled, unspilled)
    rise = alpha + beta * unspilled * unspilled - m  # of p²
    narrow = _top(rise + e, -2 * theta, p0, p1) - alpha * A0 * A0
    wide = _top(rise, 0.0, p0, p1) + _top(e - alpha, -2 * theta, A0, A1)
    # The root is steep where p² is near x: rounding is covered before it is taken.
    f0 = np.sqrt(np.maximum(0.0, p0 * p0 - x - _UNDER * (p0 * p0 + x)))
    f1 = np.sqrt(np.maximum(0.0, p1 * p1 - x + _UNDER * (p1 * p1 + x)))
    room = N1 - 2 * kappa * theta
    few = np.maximum(f0 * room, f1 * room) - beta * N0 * N0
    all_of_them = _top(1 / least - beta, -2 * kappa * theta / least, N0, N1)
    start = theta * (T + lam * x) + x * np.maximum(0.0, alpha - m)
    found: Floats = start + np.maximum(narrow, wide) + np.maximum(few, all_of_them)
    return found


def _best(x: float, T: float, e: float, m: float, box: Any) -> tuple[Floats, Floats]:
    """The maximum over each box for the multipliers that are best at its centre, and what is there.

    The latter is −inf where no segment has the centre's numbers.
    """
    p, A, N = ((lo + hi) / 2 for lo, hi in box)
    A, N = np.maximum(A, p), np.maximum(N, _weights(e, m)[1] * p)
    centre = ((p, p), (A, A), (N, N))
    least = np.full_like(p, np.inf)
    best = [np.zeros_like(p) for _ in range(4)]
    for chosen in _choices(e, m, p, A, N):
        value = most(x, T, e, m, chosen, centre)
        better = value < least
        least = np.where(better, value, least)
        best = [np.where(better, new, old) for new, old in zip(chosen, best, strict=True)]
    there = _possible(x, T, e, m, centre)
    return most(x, T, e, m, best, box), np.where(there, least, -np.inf)


def _possible(x: float, T: float, e: float, m: float, box: Any) -> Any:
    """Whether a segment may have its (p, A, N) in the box."""
    (p0, p1), (A0, A1), (N0, N1) = box
    spilled, unspilled = _weights(e, m)
    heavy = max(spilled, unspilled) ** 2
    return (
        (p0 <= A1) & (unspilled * p0 <= N1)
        & (p1**2 + x + T >= A0**2) & ((unspilled * p1) ** 2 + heavy * T >= N0**2)
    )  # fmt: skip


def holds(x: float, T: float, e: float, m: float, cap: float) -> int:
    """Boxes that prove that no segment has more charged work than `cap`; 0 if they do not.

    >>> holds(1.0, 3.0, 0.95, 0.48, 1.4) > 0, holds(1.0, 3.0, 0.95, 0.48, 1.1)
    (True, 0)
    """
    if not (x > 0 and x < T and 0 <= e < 2 and m >= 0 and cap > 0):
        return 0
    heavy = max(_weights(e, m)) ** 2
    ends = T / 2, (T * T / 4 + x + T) ** 0.5, (heavy * (T * T / 4 + T)) ** 0.5
    grid = np.meshgrid(*[np.arange(_SIDE, dtype=np.float64)] * 3, indexing="ij")
    sides = zip(grid, ends, strict=True)
    box = [(at.ravel() * end / _SIDE, (at.ravel() + 1) * end / _SIDE) for at, end in sides]
    count = 0
    while len(box[0][0]):
        keep = _possible(x, T, e, m, box)
        box = [(lo[keep], hi[keep]) for lo, hi in box]
        count += len(box[0][0])
        if count > _MOST:
            return 0
        tops, centres = _best(x, T, e, m, box)
        if centres.max(initial=-np.inf) > cap:
            return 0  # smaller boxes would not help
        over = tops > cap * (1 - _ROUND)
        halves = [
            [(lo[over], (lo[over] + hi[over]) / 2), ((lo[over] + hi[over]) / 2, hi[over])]
            for lo, hi in box
        ]
        eighths = [[halves[k][bits >> k & 1] for bits in range(8)] for k in range(3)]
        box = [
            (np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts]))
            for parts in eighths
        ]
    return count
