"""Theorem A: the lemmas on any set of pairs, and the compulsory words."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from iosim.report.proof import require, step, unsat

from ..constant_tight.accounting import Drawn, check
from ..constant_tight.executions import Head, order_of
from . import constants


def draw_pairs(seed: int, count: int) -> Iterator[Drawn]:
    """Random sets of pairs: masks, separate keys, shared heads of K and V; d and d_v."""
    rng = random.Random(seed)
    for _ in range(count):
        groups, group = rng.choice([(1, 1), (1, 1), (1, 2), (2, 1), (2, 2)])
        most = 5 if groups * group == 1 else 3
        N, K = rng.randint(1, most), rng.randint(1, most)
        d, d_v = rng.randint(1, 4), rng.randint(1, 4)
        heads: list[Head] = [
            (range(h * N, h * N + N), range(h // group * K, h // group * K + K))
            for h in range(groups * group)
        ]
        every = [(i, j) for rows, columns in heads for i in rows for j in columns]
        match rng.randrange(4):
            case 0:
                seen = set(every)
            case 1:  # causal, at the lower right
                seen = {(i, j) for i, j in every if j % K <= i % N + K - N}
            case 2:  # a window
                left = rng.randint(0, 2)
                seen = {(i, j) for i, j in every if abs(j % K - i % N) <= left}
            case _:
                seen = {pair for pair in every if rng.random() < 0.6}
        seen = seen or {every[0]}
        says = f"N = {N}, N_k = {K}, d = {d}, d_v = {d_v}, heads {groups} × {group}, {sorted(seen)}"
        yield Drawn(order_of(heads, d, d_v, rng, seen), rng.randint(3, 30), rng, says)


def _scope(kind: str, seed: int) -> str:
    seen, free = check(draw_pairs(seed, constants.EXECUTIONS), kind)
    return (
        f"{constants.EXECUTIONS} random sets of pairs, {seen} segments, {free} free starts, "
        f"seed {seed}"
    )


@step(
    "pairs-once",
    how="sampled",
    says="Lemmas 1 to 4 for random sets of pairs, shared K and V, d ≠ d_v; scores made once",
)
def pairs_once() -> str:
    """Executions simulated word by word."""
    return _scope("once", 11)


@step("pairs-recompute", how="sampled", says="Lemmas 1 to 3 and 5 for the same")
def pairs_recompute() -> str:
    """Scores forgotten and made again."""
    return _scope("recompute", 12)


@step("pairs-trees", how="sampled", says="Lemmas 1 to 3 and 8 for the same")
def pairs_trees() -> str:
    """Sums by random trees."""
    return _scope("trees", 13)


@step(
    "ends-of-pairs",
    how="exhaustive",
    says="Π ≤ RC, and of the pairs of any rows and columns there are at most |I′||J′|",
)
def ends_of_pairs() -> str:
    """Every set of pairs on small grids."""
    cases = 0
    for I, J in ((1, 4), (2, 3), (3, 3), (2, 5)):
        grid = list(itertools.product(range(I), range(J)))
        for chosen in range(1, 1 << len(grid)):
            cases += 1
            pairs = [pair for b, pair in enumerate(grid) if chosen >> b & 1]
            rows, columns = {i for i, _ in pairs}, {j for _, j in pairs}
            require(len(pairs) <= len(rows) * len(columns), f"{pairs}")
            require(max(len(rows), len(columns)) <= len(pairs), f"{pairs}")
    return f"grids of up to 10 pairs, {cases} sets"


@step(
    "few-pairs",
    how="proved",
    says="Theorems A and B: where one segment may do all, 4Πδ²/M ≤ (R + C)(d + d_v)/2",
)
def few_pairs() -> str:
    """W ≤ cδ³ reads M² ≥ 4Πδ²; Π = π² ≤ RC."""
    import z3

    M, R, C, side, root = z3.Reals("M R C side root")
    pairs = root * root
    bound = constants.LEADING * pairs * side * side
    unsat(
        M > 0,
        R > 0,
        C > 0,
        side > 0,
        root > 0,
        pairs <= R * C,
        M >= 2 * root * side,
        bound > (R + C) * side * M,
    )
    # Theorem 3 uses Q ≥ 4δ√Π.
    unsat(R > 0, C > 0, side > 0, root > 0, pairs <= R * C, 4 * side * root > 2 * (R + C) * side)
    return "all reals M, R, C, δ > 0 and Π ≤ RC"


@step(
    "one-segment",
    how="proved",
    says="§7: score-roots and saha-ye-small for any pairs, where one segment does all",
)
def one_segment() -> str:
    """Loads of Q and K, and of zeros."""
    import z3

    M, R, C, d, root = z3.Reals("M R C d root")
    pairs, loads = root * root, (R + C) * d
    some = [M > 0, R > 0, C > 0, d > 0, root > 0, pairs <= R * C]
    unsat(*some, root * d <= M, pairs * d * d > loads * M)  # Π ≤ M²/d²
    unsat(*some, M <= 2 * d * d, pairs <= 2 * M, pairs > 2 * loads)  # Π ≤ 2M
    # With w³ = Πd/M^{3/2} ≤ 1, w ≥ 0: 3w²·M ≥ (2w³ − 1)·M.
    w = z3.Real("w")
    unsat(w >= 0, w <= 1, 3 * w * w < 2 * w * w * w - 1)
    # Means: X + Y + Z ≥ 3(XYZ)^{1/3} for X = α³, …; X = Rd, Y = Cd, Z = Π.
    a, b, c = z3.Reals("a b c")
    unsat(a >= 0, b >= 0, c >= 0, a * a * a + b * b * b + c * c * c < 3 * a * b * c)
    return "all reals M, R, C, d > 0 and Π ≤ RC"
