"""Lemmas 5 and 6 of constant_tight_spills.md: the most charged work, and the table's records."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not turned round)

from __future__ import annotations

import numpy as np

from iosim.bounds.unified import boxes, spills
from iosim.checks.proof import require, step, unsat

from . import constants


@step(
    "spill-ends",
    how="proved",
    says="Lemma 5: what products add beyond their words' price is largest at an end",
)
def spill_ends() -> str:
    """E for p ≤ g ≤ A; F for f ≥ f₀; c stands for κ, w for the least weight."""
    import z3

    e, theta, p, g, A, f, f0, N, c, w = z3.Reals("e theta p g A f f0 N c w")
    sizes = [e >= 0, theta >= 0, p >= 0, g >= p, A >= p]
    narrow, wide = e * p * p - 2 * theta * p, e * A * A - 2 * theta * A
    line = e * (g * (A + p) - constants.SHARP * p * A) - 2 * theta * g
    unsat(*sizes, g <= A, line > narrow, line > wide)
    unsat(*sizes, g >= A, e * A * A - 2 * theta * g > wide)
    sizes = [theta >= 0, c > 0, w > 0, N >= 0, f >= f0, f0 >= 0]
    few, enough = f0 * (N - 2 * c * theta), (N / w) * (N - 2 * c * theta)
    unsat(*sizes, f * w <= N, f * N - 2 * c * theta * f > few, f * N - 2 * c * theta * f > enough)
    unsat(*sizes, f * w >= N, f0 * w <= N, N * N / w - 2 * c * theta * f > enough)
    unsat(*sizes, f * w >= N, f0 * w >= N, N * N / w - 2 * c * theta * f > few)
    return "all reals"


@step(
    "spill-prices",
    how="proved",
    says="Lemma 5: what pairs cost is at least α and β times what they add to A² and N²",
)
def spill_prices() -> str:
    """A pair with products of both kinds, or of one; then the pairs of Y, at most x."""
    import z3

    alpha, beta, theta, lam, m, x, y, fu, fs = z3.Reals("alpha beta theta lam m x y fu fs")
    prices = [
        alpha >= 0, beta >= 0, theta >= 0, lam >= 0, fu >= 0, fs >= 0,
        alpha + fs * beta <= theta, alpha + fu * beta <= theta * (1 + lam),
    ]  # fmt: skip
    for cost, weight in ((theta, fs), (theta * (1 + lam), fu)):
        for first, second in ((1, 1), (1, 0), (0, 1)):
            unsat(*prices, cost < first * alpha + second * weight * beta)
    start = z3.If(alpha > m, x * (alpha - m), 0)
    unsat(0 <= y, y <= x, (alpha - m) * y > start)
    return "all reals; the sum over pairs is by hand"


@step(
    "spill-records",
    how="proved",
    says="Lemma 6: no segment has more charged work than its record's cap, box by box",
)
def spill_records() -> str:
    """Every record of the table; in floats, with room of a share of 1e-9 for rounding."""
    records = spills.RECORDS[:: constants.RECORDS]
    count = 0
    for x, T, e, m, c in records:
        found = boxes.holds(x, T, e, m, c)
        require(found > 0, f"x = {x}: the cap {c} is not proved")
        count += found
    return f"all reals p, A and N, at each of {len(records)} records; {count} boxes"


@step(
    "spill-shapes",
    how="sampled",
    says="Lemma 6: segments of random sizes have less charged work than their record's cap",
)
def spill_shapes() -> str:
    """From the sizes of §3 alone; equality is approached, so that a smaller cap is noticed."""
    rng = np.random.default_rng(31)
    closest = 0.0
    for _ in range(constants.SHAPES):
        x, T, e, m, c = spills.RECORDS[rng.integers(len(spills.RECORDS))]
        n = 8000
        share = rng.dirichlet([0.25] * 11, size=n) * T
        q, k, v, there, new, s0, s1, s2, u0, u1, u2 = share.T
        even = rng.random(n) < 0.7
        q, k = np.where(even, (q + k) / 2, q), np.where(even, (q + k) / 2, k)
        level = rng.random(n) < 0.3
        v, there = np.where(level, (v + there) / 2, v), np.where(level, (v + there) / 2, there)
        # A new entry counts twice; what is there before is at most x.
        older = u0 + u1 + u2 + there
        ok = np.minimum(1.0, x / older)
        u0, u1, u2, there = (z * ok for z in (u0, u1, u2, there))
        new = new / 2
        o = there + new
        g, f = np.sqrt(q * k), np.sqrt(o * v)
        staying = x * rng.choice([0.0, 1.0, 0.5], size=n)
        w = rng.choice([0.0, 1.0, 0.6], size=n) * np.minimum(g * g, f * f + staying)
        y = np.minimum(staying, x - np.maximum(0.0, w - f * f))
        p = np.sqrt(w)
        A = np.sqrt(w + y + u0 + u1 + s0 + s1)
        fS, fU = 2 - e, 2 - e + m
        N2 = fU * fU * (w + u0 + u2) + fS * fS * (s0 + s2)
        all_of_them = fU * (w + u0 + u2) + fS * (s0 + s2)
        E = np.minimum(A * A, g * (A + p) - constants.SHARP * p * A)
        F = np.minimum(all_of_them, f * np.sqrt(N2))
        work = e * E + F - m * (w + y)
        closest = max(closest, float(work.max()) / c)
        require(work.max() <= c, f"x = {x}: {work.max()} of {c}")
    require(closest > 0.85, f"the shapes tried reach only {closest} of the caps")
    return (
        f"{constants.SHAPES} records, 8000 shapes each, seed 31: at most {closest:.3f} of the cap"
    )
