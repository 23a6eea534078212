"""Theorem 6: how its two sides are put together, and what it says in exact numbers."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

from iosim.bounds import left_over as evaluated
from iosim.report.proof import require, step, unsat

from . import constants
from .moments import least_paid


@step("one-moment", how="proved", says="Theorem 6 from its two sides, for what rows have at once")
def one_moment() -> str:
    """X words of rows at a moment, e entries stored twice, F pieces each, f words without X."""
    import z3

    Q, X, e, F, AR, OR, W, f, x, E = z3.Reals("Q X e F AR OR W f x E")
    moment = z3.Q(round(1000 * constants.MOMENT), 1000)
    stored = z3.Q(round(1000 * constants.MORE_MOVES), 1000)
    first = f + moment * X + stored * e
    second = 2 * AR - 2 * OR + OR * (1 + F) - (F - 2) * e + W - x
    both = f + X + OR + (2 * AR + W - x - f - X) / (F - 1)
    # (F − 2)·first + second ≤ (F − 1)·Q, and e is gone.
    unsat(F > 2, first <= Q, second <= Q, e >= 0, both > Q)
    # A memory that is never full, by w words, leaves as many to each piece.
    k, w = z3.Reals("k w")
    unsat(E > 0, w >= 0, (k + w) * E > z3.If(k > E, k, E) * (E + w))
    return "all reals F > 2"


@step("between", how="proved", says="Theorem 6's two sides are least at one of the two ends")
def between() -> str:
    """X − (X + x)·max(2X + k, E)/E is concave where X ≥ 0."""
    import z3

    X, Y, x, k, E, share = z3.Reals("X Y x k E share")

    def side(at: z3.ArithRef) -> z3.ArithRef:
        other = 2 * at + k
        return (at + x) * z3.If(other > E, other, E)

    middle = share * X + (1 - share) * Y
    unsat(
        X >= 0,
        Y >= X,
        x >= 0,
        E > 0,
        share >= 0,
        share <= 1,
        side(middle) > share * side(X) + (1 - share) * side(Y),
    )
    return "all reals X ≥ 0, x ≥ 0, E > 0"


@step("columns-pay", how="exhaustive", says="Lemma 4: what a column pays in any number of parts")
def columns_pay() -> str:
    """p parts with all its words, Y words in others, z pairs that cross: pG + Y + z."""
    count = 0
    for G, A, R, H in itertools.product(range(1, 5), range(1, 5), range(1, 9), range(1, 33)):
        sums = A - G
        if sums not in (0, 1):
            continue
        low = least_paid(A, G, R, H, sums)
        for p, Y, z in itertools.product(range(A * R // H + 2), range(3 * G), range(R + 1)):
            if z * (Y + sums) >= A * R - p * H:
                require(p * G + Y + z >= low - 1e-9, f"{G}, {A}, {R}, {H}: {p}, {Y}, {z}")
                count += 1
    return f"{count} cases, G, A ≤ 4, R ≤ 8, H ≤ 32"


@step("spoiled", how="proved", says="Theorem 6: spilled pairs take no more pieces than they cost")
def spoiled() -> str:
    """S pairs of a row of A words, more than A; pieces of rate·x words, 2x ≥ AG, rate ≤ 2."""
    import z3

    S, A, G, x, rate = z3.Reals("S A G x rate")
    cost = z3.Q(round(1000 * constants.SPILLED), 1000)
    lost = rate * A * (1 + (S - A) * G / (rate * x))
    unsat(A >= 1, G >= 1, S > A, 2 * x >= A * G, rate >= 1, rate <= 2, lost > cost * S)
    return "all reals"


def largest(
    M: int, A: int, G: int, O: int, rows: int, columns: int, swept: Fraction, B: int
) -> Fraction:
    """The largest X that Theorem 6 allows with one B, to 40 binary digits; 0 if there is none."""
    held = M + constants.RESULT
    more = 1 + Fraction(A * held, B)
    free = G * (columns - constants.ENDS * B - A) - held
    if A > B or 2 * held < B * G or free <= 0:
        return Fraction(0)
    short = swept + more - 2 * A * rows - held
    low, high = Fraction(0), min(O * rows - more * max(short / free, 1), free - more)
    if high <= 0 or more * max(short, free) > O * rows * free:
        return Fraction(0)
    for _ in range(40):
        X = (low + high) / 2
        if (X + more) * max(2 * X + short, free) <= O * rows * free:
            low = X
        else:
            high = X
    return high


def theorem(M: int, O: int, rows: int, columns: int, D: int, sums: int) -> Fraction:
    """The largest words of Theorem 6 over all B, for one rectangle of pairs."""
    A, G = D + constants.SUM * sums, D
    swept = Fraction(least_paid(A, G, rows, M, sums)) * columns
    every = range(A, 2 * (M + constants.RESULT) // G + 1)
    best = max((largest(M, A, G, O, rows, columns, swept, B) for B in every), default=Fraction(0))
    return swept + constants.MOMENT * best - constants.STARTS * sums * rows


@step(
    "left-over-evaluator",
    how="sampled",
    says="the words of `left_over` are at most Theorem 6's best, its X the one of the same B",
)
def left_over_evaluator() -> str:
    """Words that are left over from none to more than (G + 1)²/4, all B."""
    rng, over, small = random.Random(47), 0, 0
    for _ in range(constants.SIZES):
        G, sums = rng.choice([6, 8, 12]), rng.randint(0, 1)
        A, O = G + sums, rng.randint(1, G - 1)
        rows, columns = rng.randint(40, 120), rng.randint(40, 400)
        M = (A * rows - rng.randint(0, G * G // 3)) // rng.randint(1, 8)
        if rng.random() < 0.3:
            M = rng.randint(1, A * rows // 8)
        words = float(evaluated.left_over(M, A, G, O, rows, columns))
        best = theorem(M, O, rows, columns, G, sums)
        says = f"A = {A}, G = {G}, O = {O}, {rows} rows, {columns} columns, M = {M}"
        require(words <= best * (1 + Fraction(1, 10**12)), f"{says}: {words}, not {float(best)}")
        over += 0 < A * rows % M < (G + sums) ** 2 / 4
        B = rng.randint(A, 2 * A)
        swept = Fraction(least_paid(A, G, rows, M, sums)) * columns
        X = float(largest(M, A, G, O, rows, columns, swept, B))
        found = float(evaluated.at_a_moment(M, A, G, O, rows, columns, float(swept), B))
        require(abs(X - found) <= 1e-6 * (1 + X), f"{says}, B = {B}: X = {found}, not {X}")
        small += X > 0
    require(over > constants.SIZES // 4 < 4 * small, f"{over} with a few over, {small} with X > 0")
    return f"{constants.SIZES} random sizes, {over} with a few words over, {small} with X, seed 47"
