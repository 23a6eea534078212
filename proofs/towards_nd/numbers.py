"""The inequalities of Theorems 1 to 3, the evaluator against them, and counted schedules."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import random
from fractions import Fraction

from iosim.bounds import bound
from iosim.core.problem import Attention
from iosim.report.proof import require, step, unsat

from . import constants


def column(n: int, K: int, D: int, share: Fraction | float | None = None) -> Fraction:
    """h(n) of Theorem 1: D for each part but the last, and what is left at half price up to D.

    With share = 1 it is that of Theorem 2.
    """
    share = constants.SHARE if share is None else share
    return D * (n // K) + min(share * Fraction(n % K), Fraction(D))


@step(
    "columns",
    how="exhaustive",
    says="what a column of n pairs pays in p parts of K rows: Theorem 1's h, Theorem 3's (j + 1)D",
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
    "columns-alone",
    how="exhaustive",
    says="Theorem 2: what a column of n pairs pays in p parts of K ≥ D rows, if rows take nothing",
)
def columns_alone() -> str:
    """Every p; a pair beyond pK costs a word."""
    for D in range(1, 6):
        for K in range(D * constants.LEAST_ALONE, 6 * D + 3):
            for n in range(1, 4 * K + 1):
                for p in range(6):
                    pays = D * p + max(0, n - p * K)
                    want = column(n, K, D, constants.ALONE)
                    require(pays >= want, f"n = {n}, K = {K}, D = {D}, p = {p}: {pays}")
    return "D ≤ 5, K ≤ 6D + 2, n ≤ 4K, p ≤ 5"


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
    more = constants.SUM
    for D in range(1, 30):
        for tenths in range(10 * D + 11):  # M/K, at most what a row has
            carried = Fraction(tenths, 10)
            for p in range(1, 6):
                pays = (D + more - carried) * p - constants.STARTS
                require(pays >= D - carried, f"D = {D}, M/K = {carried}, in {p} parts: {pays}")
    return "D < 30, rows of up to 99 pairs, in up to 5 parts"


@step(
    "few-parts",
    how="proved",
    says="Theorem 3: fewer than j cuts make up for it by crossing pairs",
)
def few_parts() -> str:
    """With c = j − 1 − i cuts, i ≥ 0, columns of D words pay C·[(r − D) + i(K − D)] more."""
    import z3

    C, K, D, A, M, r, i = z3.Reals("C K D A M r i")
    left, some = z3.Q(round(1000 * constants.LEFT), 1000), z3.Q(round(1000 * constants.LEAST), 1000)
    each = (r - D) + i * (K - D)
    # C·each ≥ (i + 2)·CD ≥ (i + 2)·KA ≥ (i + 2)(KA − M), rows of A words.
    unsat(K >= some * D, D > 0, r >= left * D, i >= 0, each < (i + 2) * D)
    enough, per = z3.Real("enough"), z3.Real("per")
    unsat(C > 0, per >= enough, C * per < C * enough)
    unsat(
        C * D >= z3.Q(round(1000 * constants.WIDE), 1000) * K * A,
        K * A > 0,
        M > 0,
        i >= 0,
        (i + 2) * C * D < (i + 2) * (K * A - M) + (i + 2) * M,
    )
    return "all reals CD ≥ KA, K ≥ 2D > 0, r ≥ 3D, i ≥ 0, M > 0"


@step(
    "either-cut",
    how="proved",
    says="Theorem 3: the larger of two lines in e is at least a mean of them without e",
)
def either_cut() -> str:
    """And exactly j cuts are worse than j + 1 only by what the theorem says."""
    import z3

    Q, F, O, a, b, e = z3.Reals("Q F O a b e")
    unsat(a > 0, b > 0, e >= 0, Q >= F + a * e, Q >= O - b * e, (a + b) * Q < b * F + a * O)
    return "all reals a, b > 0 and e ≥ 0"


def rectangle(D: int, M: int, rows: int, columns: int, sums: int = 0) -> Fraction:
    """The largest words of the theorems over all j and K, for one dense rectangle.

    Rows are cut, and then columns; `sums` is 1 where rows have row sums.
    """
    lost = constants.STARTS * sums * rows
    row = D + constants.SUM * sums
    return max(
        _cut(D, M, rows, columns, (row, D), lost, sums),
        _cut(D, M, columns, rows, (D, row), lost, sums),
    )


def _cut(
    D: int,
    M: int,
    rows: int,
    columns: int,
    words: tuple[int, int],
    lost: int,
    sums: int,
) -> Fraction:
    """The same with `rows` cut, of words[0] words each; a column has words[1]."""
    best = Fraction(0)
    A, G = words
    for K in range(1, max(rows, -(-M // A), G) + 1):
        if K * A < M:
            continue
        if sums and K >= G:
            best = max(best, columns * column(rows, K, G, Fraction(1)) - lost)
        if K < 2 * G:
            continue
        met = rows * (D - Fraction(M, K)) if columns >= 2 * D else Fraction(0)
        best = max(best, columns * column(rows, K, G) + met - lost)
        for j in range(1, rows // K + 1):
            left = rows - j * K
            if columns * G < K * A or left < 3 * G:
                continue
            a, b = left - G, (j + 1) * G
            few = (j + 1) * columns * G + j * (K * A - M)
            other = 2 * rows * A + (j + 1) * ((columns - A) * G - M)
            words_ = min(
                Fraction((j + 1) * (columns * G + K * A - M)),
                Fraction(b * few + a * other, a + b),
                few + a * (columns - A - Fraction(M, G)),
            )
            best = max(best, words_ - lost)
    return best


def triangle(D: int, M: int, N: int, heads: int, share: int, sums: int = 0) -> Fraction:
    """The largest words for causal heads, each pair of a row and a column counted."""
    best = Fraction(0)
    for K in range(1, 3 * share * N + 3):
        paid = [column(share * n, K, D) for n in range(1, N + 1)]
        if K >= 2 * D and K * D >= M:
            rows = share * sum(n >= 2 * D for n in range(1, N + 1))
            best = max(best, heads * (sum(paid, Fraction(0)) + rows * (D - Fraction(M, K))))
        if sums and K >= D and K * (D + constants.SUM) >= M:
            alone = sum((column(share * n, K, D, Fraction(1)) for n in range(1, N + 1)), Fraction())
            best = max(best, heads * (alone - constants.STARTS * share * N))
    return best


def keep(N: int, N_k: int, D: int, M: int, sums: int = 0) -> int:
    """Words of the best schedule that keeps W rows of K and V and sweeps over the others."""
    best = 0
    # Fewer sweeps don't fit, more are worse.
    first = -(-N // max(1, M // (D + sums)))
    for n in range(first, min(N, first + 4) + 1):
        B = -(-N // n)
        W = min(N_k, (M - B * (D + sums)) // D)
        if W < 0:
            continue
        words = (N + W + n * (N_k - W)) * D
        best = words if not best else min(best, words)
    return best


@step("evaluator", how="sampled", says="the evaluator's words are at most the theorems' best")
def evaluator() -> str:
    """Every j and K in exact numbers, columns added one by one; without row sums and with them."""
    rng, seen = random.Random(5), [0, 0]
    for draw in range(constants.SIZES):
        sums = draw % 2
        low = bound(("parts", "parts-sums")[sums])
        d, d_v = rng.randint(1, 2), rng.randint(1, 2)
        N, G, share = rng.randint(2, 60), rng.choice([1, 1, 2]), rng.choice([1, 1, 2, 3])
        M = rng.randint(1, 2 * N * (d + d_v))
        D = d + d_v
        if rng.random() < 0.4:
            problem = Attention(N, d, G * share, d_v=d_v, kv_heads=G, causal=True)
            best = triangle(D, M, N, G, share, sums)
        else:
            N_k = rng.randint(2, 60)
            problem = Attention(N, d, G * share, d_v=d_v, kv_heads=G, N_k=N_k)
            best = G * rectangle(D, M, share * N, N_k, sums)
        words = low.words(problem, M)
        seen[sums] += words > 0
        require(words <= best, f"{low.name}, {problem}, M = {M}: {words} > {float(best)}")
    require(min(seen) > constants.SIZES // 8, f"the evaluator says something {seen} times only")
    return f"{constants.SIZES} random sizes, {sum(seen)} with words above 0, seed 5"


@step("sweeps", how="exhaustive", says="the bounds are at most sweeps with kept rows, counted")
def sweeps() -> str:
    """One row of K and V and a score count for nothing in the schedule's memory."""
    count, closest = 0, [0.0, 0.0]
    for N in (10000, 1000, 100, 64, 30, 12):  # the closest first
        for D in (2, 3, 8):
            for share in range(1, 160, constants.STEP * (3 if N > 100 else 1)):
                M = N * D * share // 100
                for sums, names in enumerate((("parts", "stays"), ("parts-sums", "stays-sums"))):
                    if M < D + sums:
                        continue
                    problem = Attention(N, 1, d_v=D - 1)
                    words, name = max((bound(x).words(problem, M), x) for x in names)
                    counted = keep(N, N, D, M, sums)
                    says = f"{name}, N = {N}, D = {D}, M = {M}: {words} > {counted}"
                    require(words <= counted, says)
                    closest[sums] = max(closest[sums], words / counted)
                    count += 1
    require(min(closest) > 0.97, f"never nearer than {closest}")
    told = " and ".join(f"{share:.3f}" for share in closest)
    return f"{count} sizes up to N = 10000, at best {told} of the schedule"
