"""Lemmas 5 and 6 of constant_tight_spills.md: the most charged work, and the table's records."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import random

from iosim.bounds.unified import boxes, spills
from iosim.report.proof import identity, require, step, unsat

from . import constants, shapes


@step(
    "spill-products",
    how="proved",
    says="Lemma 5: products of both kinds and words of V and O, by means of two numbers",
)
def spill_products() -> str:
    """Of one pair, and of roots; sums over pairs are by hand."""
    import sympy
    import z3

    tau, gamma, p, h, A, E = z3.Reals("tau gamma p h A E")
    g = p + h
    sharp = g * (A + p) - constants.SHARP * p * A
    mixed = (1 - tau) * A * A + tau * (g * p + h * A)
    unsat(tau >= 0, tau <= 1, E <= A * A, E <= sharp, E > mixed)
    unsat(gamma > 0, 2 * gamma * h * A > gamma * gamma * h * h + A * A)
    f, kappa, N, low, theta, mu, v, old, new, root = z3.Reals(
        "f kappa N low theta mu v old new root"
    )
    unsat(kappa > 0, 2 * kappa * f * N > kappa * kappa * f * f + N * N)
    # V's words and entries that are older or begin here, at their prices, against the root.
    least = z3.If(theta + mu <= 2 * theta, theta + mu, 2 * theta)
    prices = [theta >= 0, mu >= 0, old >= 0, new >= 0]
    unsat(*prices, (theta + mu) * old + 2 * theta * new < least * (old + new))
    # ab ≤ ((a + b)/2)², where a = θv, b = low·o, and so root·f = √(ab).
    sizes = [theta >= 0, low >= 0, v >= 0, new >= 0, root >= 0, f >= 0]
    product = (theta * v) * (low * new)
    unsat(*sizes, root * root * f * f == product, theta * v + low * new < 2 * root * f)
    # In h and f the bound is convex.
    names = sympy.symbols(
        "theta mu x T p h f e tau gamma sigma kappa whole inner stay root", nonnegative=True
    )
    bound, h_, f_ = shapes.bound(*names), names[5], names[6]
    identity(sympy.diff(bound, h_, 2), names[7] * names[8] * names[9])
    identity(sympy.diff(bound, f_, 2), names[10] * names[11] + 2 * names[13])
    return "all reals"


@step(
    "spill-prices",
    how="proved",
    says="Lemma 5: the bound less the charged work is a sum of what the conditions say is not less "
    "than 0",
)
def spill_prices() -> str:
    """Pairs by kind, words, and room for pairs that stay, each with its price."""
    import sympy

    values = sympy.symbols("theta mu x T p h f e tau gamma sigma kappa whole inner stay root m n r")
    theta, mu, x, T, p, h, f, e, *quadratic, whole, inner, stay, root, m, n, r = values
    bound = shapes.bound(*values[:16])
    weights = boxes.Weights(e, m, n, r)
    prices = boxes.Prices(*quadratic, theta, mu, whole, inner, stay)
    costs = boxes.conditions(weights, prices)[: shapes.KINDS]
    a, low, high = boxes.adds(weights, *quadratic)
    tau, gamma, sigma, kappa = quadratic
    later, begun, spilled_whole, older, Y, W_inner, W_stay = counts = sympy.symbols("z0:7")
    words, before = sympy.symbols("words before")  # of Q, K, V, O; the pairs from before not in it
    p2 = spilled_whole + W_inner + W_stay
    # What the products are at most, with every pair's share of a and b (step spill-products); the
    # words of Q and K cost 2θg, those of V and O 2·root·f.
    products = (
        a * (later + begun + older + Y + p2)
        + low * (later + spilled_whole)
        + high * (older + W_inner + W_stay)
        + e * tau * ((p + h) * p + gamma * h**2 / 2)
        + sigma * kappa * f**2 / 2
    )
    charged = (
        products
        + n * (begun + spilled_whole)
        - m * (Y + W_inner + W_stay)
        + r * (older - Y - W_stay)
    )
    spare_words = T - words - later - begun - spilled_whole - older
    priced = theta * words + mu * before - 2 * theta * (p + h) - 2 * root * f
    rest = (
        theta * spare_words
        + mu * (x - before - older)
        + stay * (x - Y - W_stay)
        + inner * (f**2 - W_inner)
        + whole * (p**2 - p2)
        + priced
    )
    left = sum(z * cost for z, cost in zip(counts, costs, strict=True))
    identity(bound - charged, left + rest)
    return "all reals; each summand's sign is by hand"


@step(
    "spill-records",
    how="proved",
    says="Lemma 6: no segment has more charged work than its record's cap, box by box",
)
def spill_records() -> str:
    """Every record of the table; in floats, with room of a share of 1e-9 for rounding."""
    records = spills.RECORDS[:: constants.RECORDS]
    found = boxes.count_boxes(records)
    for (x, *_, c), boxes_of_one in zip(records, found, strict=True):
        require(boxes_of_one > 0, f"x = {x}: the cap {c} is not proved")
    return f"all reals p, h and f, at each of {len(records)} records; {sum(found)} boxes"


@step(
    "spill-kinds",
    how="sampled",
    says="Lemma 5: segments of random sizes, at random weights and prices",
)
def spill_kinds() -> str:
    """From the sizes of §3 alone; equality is approached, so that a price too low is noticed."""
    rng = random.Random(30)
    nearest, count = 0.0, 100 * constants.SHAPES
    for _ in range(count):
        x = 10 ** rng.uniform(-1, 0.5)
        T = x * rng.uniform(1.5, 4)
        weights = shapes.random_weights(rng)
        shape = shapes.random_shape(x, T, rng)
        work = shape.charged(weights)
        prices = shapes.fitting_prices(shape, weights, rng)
        bound = shape.bound(x, T, prices, weights)
        nearest = max(nearest, work / bound if work > 0 else 0.0)
        require(work <= bound + 1e-9, f"x = {x}: {work}, Lemma 5 says {bound}; {shape}")
    require(nearest > 0.99, f"only {nearest} of the bound")
    return f"{count} shapes, seed 30: at most {nearest:.3f} of the bound"


@step(
    "spill-shapes",
    how="sampled",
    says="Lemma 6: segments of random sizes have less charged work than their record's cap",
)
def spill_shapes() -> str:
    """From the sizes of §3 alone; equality is approached, so that a smaller cap is noticed."""
    rng = random.Random(31)
    closest = 0.0
    for _ in range(constants.SHAPES):
        x, T, *numbers, c = rng.choice(spills.RECORDS)
        weights = boxes.Weights(*numbers)
        for _ in range(100):
            work = shapes.random_shape(x, T, rng).charged(weights)
            closest = max(closest, work / c)
            require(work <= c, f"x = {x}: {work} of {c}")
    require(closest > 0.85, f"the shapes tried reach only {closest} of the caps")
    return f"{constants.SHAPES} records, 100 shapes each, seed 31: at most {closest:.3f} of the cap"
