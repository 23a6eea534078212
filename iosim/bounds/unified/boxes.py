"""The most charged work of a segment, spilled and unspilled pairs separate: a proof by boxes.

Lemma 5 of proofs/constant_tight_spills.md bounds a segment's charged work by a quadratic function
of three numbers, p, g and f, for any prices that meet its conditions.  Here the domain of (p, h, f)
is cut into boxes; in each box fixed prices are taken, those that are best at its center, and the
bound's maximum over the box is found exactly.  A box whose maximum exceeds the cap that is claimed
is cut in eight.

Sizes are scaled by d: words by d², products by d³; x = M/d², T = (M + S)/d².

No bound calls this when it is evaluated: step `spill-records` of the proof runs `count_boxes` on
the records of `spills`, and ``experiments/spill_records.py`` finds their caps by `holds`.

Changing this file: the search may change (`_SIDE`, `_MOST`, `_DEPTH`, the steps, `_quadratic`,
`_candidates`, `_cheapest`), since `count_boxes` checks all prices: a worse one only proves less.
`adds`, `conditions` and `most` are Lemma 5 and change only with it; `_ROUND` and `_SLACK` are room
for rounding.  Proofs and ``tests/bounds/test_spills.py`` use or replace functions by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from iosim.base.arrays import Floats

# Boxes to a side at first, boxes at most and cuts at least before the search gives up.
_SIDE, _MOST, _DEPTH = 8, 100_000, 2
# Where the search for prices begins (`_quadratic`), its steps, how often they are shortened.
_BEGIN = [(a, b, 0.5) for a in (0.02, 0.1, 0.3, 0.7) for b in (0.05, 0.25, 0.6, 1.0, 1.6)]
_AROUND = [(i, j, 0) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j] + [(0, 0, 1), (0, 0, -1)]
_STEPS, _SHORTER, _TIMES = {True: (0.2, 0.25, 0.5), False: (0.06, 0.06, 0.2)}, 0.6, 6
# Room for rounding: in a cap, as a share of it, and in a condition.
_ROUND, _SLACK = 1e-9, 1e-13

Box = Any  # ((p, p′), (h, h′), (f, f′)), arrays


class Weights(NamedTuple):
    """Weights of charged work, for Theorem 5: e, m, n and r.

    `e` is that of a first product; `m` what the start of an unspilled pair costs; `n` what that of
    a spilled one adds; `r` what an unspilled pair's later visits add and its staying costs.

    >>> Weights(0.875, 0.125, 0.25, 0.5).pv_weights
    (0.875, 1.25)
    """

    e: float
    m: float
    n: float
    r: float

    @property
    def pv_weights(self) -> tuple[float, float]:
        """φ and ψ: weights of second products, of spilled and of unspilled pairs."""
        return 2 - self.e - self.n, 2 - self.e + self.m

    @property
    def usable(self) -> bool:
        """Whether Theorem 5 allows them."""
        return min(self.e, self.m, self.n, self.r) >= 0 and min(self.pv_weights) > 0


class Prices(NamedTuple):
    """Lemma 5's numbers: τ, γ, σ and κ, and the prices θ, μ, π, π₁ and π₂."""

    tau: Floats
    gamma: Floats
    sigma: Floats
    kappa: Floats
    theta: Floats
    mu: Floats
    whole: Floats
    inner: Floats
    stay: Floats


def adds(weights: Weights, tau: Any, gamma: Any, sigma: Any, kappa: Any) -> tuple[Any, Any, Any]:
    """a, b and b′: what a pair's first products add, and second ones of spilled and others."""
    low, high = ((1 - sigma) * w + sigma * w * w / (2 * kappa) for w in weights.pv_weights)
    return weights.e * (1 - tau + tau / (2 * gamma)), low, high


def conditions(weights: Weights, prices: Prices) -> list[Any]:
    """What each kind of pair costs beyond what it adds: Lemma 5 needs that none is negative."""
    _, m, n, r = weights
    tau, gamma, sigma, kappa, theta, mu, whole, inner, stay = prices
    a, low, high = adds(weights, tau, gamma, sigma, kappa)
    return [
        theta - a - low,  # spilled, begun before
        theta - a - n,  # spilled, begun, without second products
        theta + whole - a - low - n,  # spilled, begun, with second products
        theta + mu - a - high - r,  # unspilled, begun before
        m + r + stay - a,  # Y
        m + whole + inner - a - high,  # W, inner
        m + r + whole + stay - a - high,  # W, staying
        theta,
        mu,
        inner,
        stay,
        tau,
        1 - tau,
        sigma,
        1 - sigma,
        gamma,
        kappa,
    ]


def _satisfies_conditions(weights: Weights, prices: Prices) -> Any:
    """Whether the conditions are met, up to rounding."""
    return np.minimum.reduce(np.broadcast_arrays(*conditions(weights, prices))) > -_SLACK


def most(x: Any, T: Any, weights: Weights, prices: Prices, box: Box) -> Floats:
    """Lemma 5's bound for fixed prices, its maximum over boxes ((p, p′), (h, h′), (f, f′))."""
    tau, gamma, sigma, kappa, theta, mu, whole, inner, stay = prices
    (p0, p1), hs, fs = box
    first = weights.e * tau
    square = whole + first  # of p
    with np.errstate(divide="ignore", invalid="ignore"):
        # Convex in h and in f: largest at ends.  In p the maximum may be inside.
        tops = []
        for h in hs:
            line = first * h - 2 * theta
            inside = np.clip(np.where(square < 0, -line / (2 * square), p0), p0, p1)
            found = [(square * p + line) * p for p in (p0, p1, inside)]
            tops.append(np.maximum.reduce(found) + (first * gamma / 2 * h - 2 * theta) * h)
    root = np.sqrt(theta * np.minimum(theta + mu, 2 * theta))
    ends = [((sigma * kappa / 2 + inner) * f - 2 * root) * f for f in fs]
    result: Floats = theta * T + (mu + stay) * x + np.maximum(*tops) + np.maximum(*ends)
    return result


def _quadratic(weights: Weights, free: Any, steep: Floats) -> tuple[Floats, ...]:
    """τ, γ, σ and κ from three free numbers, so that the bounds on products touch theirs.

    `steep` is the slope of g(A + p) − pA over A² where A = g.  The three are a/e; a number that
    makes b fall from 0 to 1 to that of few products, from 1 to 2 rise to that of all; and κ's place
    between φ and ψ.
    """
    share, place, between = free
    tau = np.where(share < steep, 1.0, (1 - share) / (1 - steep))
    low, high = weights.pv_weights
    kappa = (low + (high - low) * between) / np.minimum(1.0, place)
    return tau, 1 / (2 * np.minimum(share, steep)), np.minimum(1.0, 2 - place), kappa


def _candidates(weights: Weights, quadratic: tuple[Floats, ...]) -> Iterator[Prices]:
    """Prices that meet the conditions, each as small as another one lets it be."""
    _, m, n, r = weights
    a, low, high = adds(weights, *quadratic)
    least, older = np.maximum(a + low, a + n), a + high + r
    started = np.maximum(0.0, a - m - r)
    for theta, free in (
        (least, False),
        (np.maximum(least, older), False),
        (np.maximum(least, older / 2), True),
        (3 * np.maximum(least, older), False),
    ):
        mu = theta if free else np.maximum(0.0, older - theta)
        spilled = a + low + n - theta
        staying = np.maximum(spilled, a + high - m - r - started)
        for whole in (spilled, staying, np.maximum(staying, a + high - m)):
            inner = np.maximum(0.0, a + high - m - whole)
            stay = np.maximum(started, a + high - m - r - whole)
            yield Prices._make((*quadratic, theta, mu, whole, inner, stay))


def _cheapest(
    x: Floats, T: Floats, weights: Weights, box: Box, free: Any, *, anew: bool
) -> tuple[Floats, Prices, Floats]:
    """The least bounds found over boxes, their prices, and the prices' free numbers."""
    (_, p), (_, h), _ = box
    steep = h / (2 * (p + h))
    least = np.full_like(p, np.inf)
    best = [np.ones_like(p) for _ in Prices._fields]
    free = np.array(free)

    def offer(numbers: Any) -> None:
        nonlocal least, free
        numbers = np.clip(numbers, 1e-4, np.array([1.0, 2.0, 1.0])[:, None])
        for prices in _candidates(weights, _quadratic(weights, numbers, steep)):
            value = most(x, T, weights, prices, box)
            better = value < least
            least = np.where(better, value, least)
            free = np.where(better, numbers, free)
            for old, new in zip(best, prices, strict=True):
                np.copyto(old, new, where=better)

    # Of small segments a and b are small, as the root of T.
    small = np.minimum(1.0, 2 * np.sqrt(T))
    scale = np.array([small, small, np.ones_like(small)])
    offer(free)
    for begin in _BEGIN if anew else ():
        offer(np.array(begin)[:, None] * scale + 0 * p)
    for shorter in range(_TIMES):
        for way in _AROUND:
            offer(free + (np.array(way) * _STEPS[anew] * _SHORTER**shorter)[:, None] * scale)
    return least, Prices(*best), free


def _centres(x: Floats, T: Floats, weights: Weights, prices: Prices, ends: Any) -> Floats:
    """The bound at the boxes' centres; 0 where no segment is."""
    centre = (ends[0] + ends[1]) / 2
    value = most(x, T, weights, prices, [(z, z) for z in centre])
    return np.where(centre.sum(axis=0) <= T / 2, value, 0.0)


def _eighths(box: Any, picked: Any) -> Any:
    """Boxes cut in eight: low ends and high ends, 3 × boxes."""
    low, high = (ends[:, picked] for ends in box)
    half = (low + high) / 2
    bits = [np.array([k >> n & 1 for n in range(3)], bool)[:, None] for k in range(8)]
    lows = [np.where(bit, half, low) for bit in bits]
    highs = [np.where(bit, high, half) for bit in bits]
    return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)


def holds(x: float, T: float, weights: Weights, cap: float) -> int:
    """Boxes that prove that no segment has more charged work than `cap`; 0 if they do not.

    >>> one = Weights(0.82, 0.01, 0.14, 0.31)
    >>> holds(1.0, 2.9, one, 1.2) > 0, holds(1.0, 2.9, one, 1.1)
    (True, 0)
    """
    return count_boxes([(x, T, *weights, cap)])[0]


def count_boxes(records: Sequence[Sequence[float]]) -> list[int]:
    """As `holds`, of each of some records (x, T, e, m, n, r, cap): their arrays are joined."""
    lost = np.array(
        [not (0 < x < T and Weights(*w).usable and cap > 0) for x, T, *w, cap in records]
    )
    table, counts = np.array(records, float).T, np.zeros(len(records), int)
    grid = np.indices((_SIDE,) * 3).reshape(3, 1, -1)
    side = table[1][:, None] / 2 / _SIDE
    ends = (grid * side).reshape(3, -1), (grid * side + side).reshape(3, -1)
    owner, free = np.arange(len(records)).repeat(_SIDE**3), np.full(ends[0].shape, 0.5)
    depth = 0
    while owner.size:
        there = (ends[0].sum(axis=0) <= table[1, owner] / 2) & ~lost[owner]
        counts += np.bincount(owner[there], minlength=len(records))
        lost |= counts > _MOST
        there &= ~lost[owner]
        owner, free = owner[there], free[:, there]
        ends = ends[0][:, there], ends[1][:, there]
        x, T, *rest, cap = table[:, owner]
        weights, box = Weights(*rest), tuple(zip(*ends, strict=True))
        top, prices, free = _cheapest(x, T, weights, box, free, anew=depth == 0)
        over = (top > cap * (1 - _ROUND)) | ~_satisfies_conditions(weights, prices)
        if depth > _DEPTH:  # smaller boxes would hardly help
            lost[owner[_centres(x, T, weights, prices, ends) > cap]] = True
        ends, free, depth = _eighths(ends, over), np.tile(free[:, over], 8), depth + 1
        owner = np.tile(owner[over], 8)
    return [int(n) for n in np.where(lost, 0, counts)]
