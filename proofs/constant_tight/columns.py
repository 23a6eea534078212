"""Lemma 3: a sharper Loomis–Whitney inequality, column by column."""

from __future__ import annotations

import itertools
import random

from iosim.report.proof import identity, require, step, unsat

from . import constants


@step(
    "one-column",
    how="proved",
    says="Lemma 3: min(P², g²) ≤ g(P + p) − pP for g ≥ p ≥ 0, P ≥ p",
)
def one_column() -> str:
    """Two factorizations, and the inequality itself by the solver."""
    import sympy
    import z3

    g, p, P = sympy.symbols("g p P")
    chord = g * (P + p) - constants.SHARP * p * P
    identity(chord - g**2, (P - g) * (g - p))
    identity(chord - P**2, (g - P) * (P + p))
    a, b, c = z3.Reals("g p P")
    line = a * (c + b) - constants.SHARP * b * c
    unsat(b >= 0, a >= b, c >= b, a * a > line, c * c > line)
    return "all reals g ≥ p, P ≥ p, p ≥ 0"


@step(
    "columns-together",
    how="proved",
    says="Lemma 3: √(q₁k₁) + √(q₂k₂) ≤ √((q₁ + q₂)(k₁ + k₂)), the step of the sum over columns",
)
def columns_together() -> str:
    """With q = α², k = β²: Lagrange's identity."""
    import sympy

    a, b, c, e = sympy.symbols("a b c e")
    square = constants.TOGETHER * (a**2 + b**2) * (c**2 + e**2)
    identity(square - (a * c + b * e) ** 2, (a * e - b * c) ** 2)
    return "all reals, and by induction any number of columns"


def _sharp_on(products: set[tuple[int, int, int]], d: int, extra: int) -> None:
    """Lemma 3 for a set of products, every choice of inner pairs, `extra` idle pairs."""
    q = len({(i, c) for i, _, c in products})
    k = len({(j, c) for _, j, c in products})
    pairs: dict[tuple[int, int], int] = {}
    for i, j, _ in products:
        pairs[i, j] = pairs.get((i, j), 0) + 1
    whole = sum(n == d for n in pairs.values())
    g, P = (q * k) ** 0.5, (len(pairs) + extra) ** 0.5
    for C in range(whole + 1):
        p = C**0.5
        most = min(d * P * P, g * (P + p) - constants.SHARP * d * p * P)
        require(len(products) <= most + 1e-9, f"{len(products)} > {most}: {sorted(products)}")


@step(
    "sharpened-loomis-whitney",
    how="exhaustive",
    says="Lemma 3: E ≤ min(dP², g(P + p) − dpP), for each number of inner pairs",
)
def sharpened_loomis_whitney() -> str:
    """Every set of products on small grids."""
    cases = 0
    for rows, columns, d in ((2, 2, 2), (3, 2, 2), (2, 2, 3), (4, 3, 1), (1, 4, 3)):
        grid = list(itertools.product(range(rows), range(columns), range(d)))
        for chosen in range(1 << len(grid)):
            cases += 1
            _sharp_on({w for b, w in enumerate(grid) if chosen >> b & 1}, d, 0)
    return f"grids of up to 12 products, {cases} sets"


@step(
    "sharpened-loomis-whitney-larger",
    how="sampled",
    says="Lemma 3 on larger grids, for sets that are whole rows, few columns, or mixed",
)
def sharpened_larger() -> str:
    """Unions of boxes come closest to equality."""
    rng = random.Random(3)
    for _ in range(constants.SETS):
        n, d = rng.randint(2, 8), rng.randint(1, 8)
        products: set[tuple[int, int, int]] = set()
        for _ in range(rng.randint(1, 3)):
            I, J = (rng.sample(range(n), rng.randint(1, n)) for _ in "IJ")
            cs = range(d) if rng.random() < 0.5 else rng.sample(range(d), rng.randint(1, d))
            products |= set(itertools.product(I, J, cs))
        if rng.random() < 0.3:
            products -= set(rng.sample(sorted(products), rng.randint(0, len(products) // 3)))
        _sharp_on(products, d, rng.choice([0, 0, rng.randint(0, 9)]))
    return f"{constants.SETS} sets on grids up to 8 × 8 × 8, seed 3"
