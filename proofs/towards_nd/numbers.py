"""The inequalities of Theorems 1 and 2, the evaluator against them, and counted schedules."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not turned round)

from __future__ import annotations

import random
from fractions import Fraction

from iosim.bounds import bound
from iosim.checks.proof import require, step, unsat
from iosim.problem import Attention

from . import constants


def column(n: int, K: int, D: int) -> Fraction:
    """h(n) of Theorem 1: D for each part but the last, and what is left at half price up to D."""
    return D * (n // K) + min(constants.SHARE * Fraction(n % K), Fraction(D))


@step(
    "columns",
    how="exhaustive",
    says="what a column of n pairs pays in p parts of K rows: Theorem 1's h, Theorem 2's (j + 1)D",
)
def columns() -> str:
    """Every p; pairs beyond pK cross a cut."""
    half = Fraction(1, 2)
    for D in range(1, 5):
        for K in range(int(constants.LEAST * D), 6 * D + 3):
            for n in range(1, 4 * K + 1):
                for p in range(6):
                    over = max(0, n - p * K)
                    pays = D * p + half * over
                    require(pays >= column(n, K, D), f"n = {n}, K = {K}, D = {D}, p = {p}: {pays}")
                    j, left = n // K, n % K
                    if left >= D and p <= j:
                        pays = Fraction(D * p + over)
                        want = (j + 1) * D + (left - D) + (j - p) * (K - D)
                        require(pays >= want, f"n = {n}, K = {K}, D = {D}, p = {p}")
    return "D ≤ 4, K ≤ 6D + 2, n ≤ 4K, p ≤ 5"


@step(
    "rows-alone",
    how="exhaustive",
    says="Theorem 1: a row in no part pays for itself with its share of crossing pairs",
)
def rows_alone() -> str:
    """Half of 2D crossing pairs is D; a row of fewer is not counted."""
    for D in range(1, 30):
        for n in range(2 * D, 100):
            require((1 - Fraction(constants.SHARE)) * n >= D, f"a row of {n} pairs, D = {D}")
    return "D < 30, rows of up to 99 pairs"


@step(
    "few-parts",
    how="proved",
    says="Theorem 2: fewer than j cuts make up for it by crossing pairs",
)
def few_parts() -> str:
    """With c = j − 1 − i cuts, i ≥ 0, columns pay C·[(r − D) + i(K − D)] more."""
    import z3

    C, K, D, M, r, i = z3.Reals("C K D M r i")
    left, some = z3.Q(round(1000 * constants.LEFT), 1000), z3.Q(round(1000 * constants.LEAST), 1000)
    each = (r - D) + i * (K - D)
    # C·each ≥ K·each as each ≥ 0; then K·each ≥ (i + 2)·KD ≥ (i + 2)(KD − M).
    unsat(K >= some * D, D > 0, r >= left * D, i >= 0, each < (i + 2) * D)
    unsat(C >= K, K > 0, each >= 0, each == M, C * M < K * M)
    unsat(K > 0, D > 0, M > 0, i >= 0, (i + 2) * K * D < (i + 2) * (K * D - M))
    return "all reals C ≥ K ≥ 2D > 0, r ≥ 3D, i ≥ 0, M > 0"


@step(
    "either-cut",
    how="proved",
    says="Theorem 2: the larger of two lines in e is at least a mean of them without e",
)
def either_cut() -> str:
    """And exactly j cuts are worse than j + 1 only by what the theorem says."""
    import z3

    Q, F, O, a, b, e = z3.Reals("Q F O a b e")
    unsat(a > 0, b > 0, e >= 0, Q >= F + a * e, Q >= O - b * e, (a + b) * Q < b * F + a * O)
    return "all reals a, b > 0 and e ≥ 0"


def rectangle(D: int, M: int, rows: int, columns: int, count: int) -> Fraction:
    """The largest words of both theorems over all j and K, for `count` dense rectangles."""
    best = Fraction(0)
    for K in range(2 * D, rows + 1):
        if K * D < M:
            continue
        met = rows * (D - Fraction(M, K)) if columns >= 2 * D else Fraction(0)
        best = max(best, count * (columns * column(rows, K, D) + met))
        for j in range(1, rows // K + 1):
            left = rows - j * K
            if count > 1 or columns < K or left < 3 * D:
                continue
            a, b = left - D, (j + 1) * D
            few = (j + 1) * columns * D + j * (K * D - M)
            other = 2 * rows * D + (j + 1) * ((columns - D) * D - M)
            words = min(
                Fraction((j + 1) * ((columns + K) * D - M)),
                Fraction(b * few + a * other, a + b),
                few + a * (columns - D - Fraction(M, D)),
            )
            best = max(best, words)
    return best


def triangle(D: int, M: int, N: int, heads: int, share: int) -> Fraction:
    """The largest words of Theorem 1 for causal heads, each pair of a row and a column counted."""
    best = Fraction(0)
    for K in range(2 * D, 3 * share * N + 3):
        if K * D >= M:
            paid = sum((column(share * n, K, D) for n in range(1, N + 1)), Fraction(0))
            rows = share * sum(n >= 2 * D for n in range(1, N + 1))
            best = max(best, heads * (paid + rows * (D - Fraction(M, K))))
    return best


def keep(N: int, N_k: int, D: int, M: int) -> int:
    """Words of the best schedule that keeps W rows of K and V and sweeps over the others."""
    best = 0
    # Fewer sweeps don't fit, more are worse.
    first = -(-N // (M // D))
    for n in range(first, min(N, first + 4) + 1):
        B = -(-N // n)
        W = min(N_k, (M - B * D) // D)
        if W < 0:
            continue
        words = (N + W + n * (N_k - W)) * D
        best = words if not best else min(best, words)
    return best


@step("evaluator", how="sampled", says="the evaluator's words are at most the theorems' best")
def evaluator() -> str:
    """Every j and K in exact numbers, columns added one by one."""
    rng, seen = random.Random(5), 0
    parts = bound("parts")
    for _ in range(constants.SIZES):
        d, d_v = rng.randint(1, 2), rng.randint(1, 2)
        N, G, share = rng.randint(2, 60), rng.choice([1, 1, 2]), rng.choice([1, 1, 2, 3])
        M = rng.randint(1, 2 * N * (d + d_v))
        D = d + d_v
        if rng.random() < 0.4:
            problem = Attention(N, d, G * share, d_v=d_v, kv_heads=G, causal=True)
            best = triangle(D, M, N, G, share)
        else:
            N_k = rng.randint(2, 60)
            problem = Attention(N, d, G * share, d_v=d_v, kv_heads=G, N_k=N_k)
            best = max(rectangle(D, M, share * N, N_k, G), rectangle(D, M, N_k, share * N, G))
        words = parts.words(problem, M)
        seen += words > 0
        require(words <= best, f"{problem}, M = {M}: {words} > {float(best)}")
    require(seen > constants.SIZES // 5, f"the evaluator says something {seen} times only")
    return f"{constants.SIZES} random sizes, {seen} with words above 0, seed 5"


@step("sweeps", how="exhaustive", says="the bound is at most sweeps with kept rows, counted")
def sweeps() -> str:
    """One row of K and V and the row statistics count for nothing in the schedule's memory."""
    count, closest = 0, 0.0
    for N in (12, 30, 64, 100, 1000, 10000):
        for D in (2, 3, 8):
            for share in range(1, 160, 3 if N > 100 else 1):
                M = N * D * share // 100
                if M < D:
                    continue
                problem = Attention(N, 1, d_v=D - 1)
                words, counted = bound("parts").words(problem, M), keep(N, N, D, M)
                require(words <= counted, f"N = {N}, D = {D}, M = {M}: {words} > {counted}")
                closest = max(closest, words / counted)
                count += 1
    require(closest > 0.97, f"never nearer than {closest}")
    return f"{count} sizes up to N = 10000, at best {closest:.3f} of the schedule"
