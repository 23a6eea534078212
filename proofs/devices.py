"""Attention over P devices: see devices.md."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

from iosim.devices.bounds.attention import corners, hull
from iosim.report.proof import identity, require, step, unsat

# Words over d of a foreign row of Q and of a foreign row of K and V.
ROWS, KEYS = 2, 2


@step(
    "dense",
    how="proved",
    says="Theorem 1: P times the chord from (n², 0) to (N², 4(N − n)) at N²/P is 4N(P − 1)/(P + 1)",
)
def dense() -> str:
    """With n = N/P."""
    import sympy

    N, P = sympy.symbols("N P", positive=True)
    n = N / P
    at = 4 * (N - n) * (N**2 / P - n**2) / (N**2 - n**2)
    identity(P * at, 4 * N * (P - 1) / (P + 1))
    for size, devices in ((12, 3), (64, 8)):
        found = hull(corners(size, size // devices, 1, 2, 2, False), Fraction(size**2, devices))
        require(devices * found == Fraction(4 * size * (devices - 1), devices + 1), "another chord")
    return "all N and P"


@step(
    "ring-is-optimal",
    how="proved",
    says="Theorem 1: for G ≥ P the corner (GnN, 2(N − n)) is on the hull; its words are a ring's",
)
def ring_is_optimal() -> str:
    """The corner is not above the chord, and P times its cost is 2N(P − 1)."""
    import sympy
    import z3

    N, P = sympy.symbols("N P", positive=True)
    identity(P * 2 * (N - N / P), 2 * N * (P - 1))
    # in units of n: N = P. The corner (GP, 2(P − 1)) above the chord to (GP², 2(G + 1)(P − 1))?
    g, p = z3.Reals("g p")
    unsat(p > 1, g >= p, 2 * (p - 1) * g * (p * p - 1) > 2 * (g + 1) * (p - 1) * g * (p - 1))
    return "all N, P and G ≥ P"


@step(
    "corners",
    how="proved",
    says="Lemma 3: x + b − μxb is least at an end of x, for every b and μ",
)
def corners_suffice() -> str:
    """A function that is linear in x is least at an end."""
    import z3

    x, low, high, b, m = z3.Reals("x low high b m")
    slope = 1 - m * b
    unsat(low <= x, x <= high, x * slope < low * slope, x * slope < high * slope)
    return "all reals"


@step(
    "every-rectangle",
    how="exhaustive",
    says="Lemma 3: no choice of rows lies below the hull",
)
def every_rectangle() -> str:
    """All a_h and b, also of fewer rows than n."""
    tried = 0
    for N, G, causal in itertools.product(range(1, 7), (1, 2, 3), (False, True)):
        most = N * (N + 1) // 2 if causal else N * N
        for n in range(1, N + 1):
            points = corners(N, n, G, ROWS, KEYS, causal)
            for b, *a in itertools.product(range(N + 1), repeat=1 + G):
                scores = sum(min(x * b, most) for x in a)
                cost = KEYS * max(0, b - n) + ROWS * sum(max(0, x - n) for x in a)
                require(hull(points, Fraction(scores)) <= cost, f"N {N}, n {n}, rows {a}, keys {b}")
                tried += 1
    return f"N ≤ 6, G ≤ 3: {tried} choices"


def _words(N: int, P: int, split: tuple[int, ...], pairs: list[tuple[int, int]]) -> int:
    """Words over d that Lemma 2 counts, where device `split[k]` has the k-th pair."""
    size, more = divmod(N, P)
    owner = [p for p in range(P) for _ in range(size + (p < more))]
    total = 0
    for p in range(P):
        mine = [pair for pair, q in zip(pairs, split, strict=True) if q == p]
        # Q and O of a foreign row, K and V of a foreign key
        total += 2 * len({i for i, _ in mine if owner[i] != p})
        total += 2 * len({j for _, j in mine if owner[j] != p})
    return total


@step(
    "every-split",
    how="exhaustive",
    says="Theorem 1: no way to give the pairs of one head to devices moves fewer words",
)
def every_split() -> str:
    """All ways, with and without a mask; rows sharded in runs, which loses nothing."""
    tried = 0
    for N, P, causal in ((3, 2, False), (3, 3, True), (4, 2, True), (4, 3, True), (3, 3, False)):
        pairs: list[tuple[int, int]] = [
            (i, j) for i in range(N) for j in range(N) if j <= i or not causal
        ]
        bound: Any = P * hull(
            corners(N, -(-N // P), 1, ROWS, KEYS, causal), Fraction(len(pairs), P)
        )
        least = min(
            _words(N, P, split, pairs) for split in itertools.product(range(P), repeat=len(pairs))
        )
        require(least >= bound, f"N {N}, P {P}: {least} words, and the bound is {float(bound)}")
        tried += P ** len(pairs)
    return f"N ≤ 4, P ≤ 3: {tried} splits"
