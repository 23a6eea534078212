"""Theorem 6: how its two sides are put together, and what it says in exact numbers."""

from __future__ import annotations

import itertools
from fractions import Fraction

from iosim.checks.proof import require, step, unsat

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
    unsat(X >= 0, Y >= X, x >= 0, E > 0, share >= 0, share <= 1,
          side(middle) > share * side(X) + (1 - share) * side(Y))  # fmt: skip
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


@step("spoilt", how="proved", says="Theorem 6: spilled pairs take no more pieces than they cost")
def spoilt() -> str:
    """S pairs of a row of A words, more than A; pieces of rate·x words, 2x ≥ AG, rate ≤ 2."""
    import z3

    S, A, G, x, rate = z3.Reals("S A G x rate")
    cost = z3.Q(round(1000 * constants.SPILLED), 1000)
    lost = rate * A * (1 + (S - A) * G / (rate * x))
    unsat(A >= 1, G >= 1, S > A, 2 * x >= A * G, rate >= 1, rate <= 2, lost > cost * S)
    return "all reals"


def theorem(M: int, O: int, rows: int, columns: int, D: int, sums: int) -> Fraction:
    """The largest words of Theorem 6 over all B, one rectangle of pairs: X to 40 binary digits."""
    A, G, held = D + constants.SUM * sums, D, M + constants.RESULT
    swept = Fraction(least_paid(A, G, rows, M, sums)) * columns
    best = Fraction(0)
    for B in range(A, 2 * held // G + 1):
        more = 1 + Fraction(A * held, B)
        free = G * (columns - constants.ENDS * B - A) - held
        if free <= 0:
            break
        short = swept + more - 2 * A * rows - held
        top = min(O * rows - more * max(short / free, 1), free - more)
        low, high = Fraction(0), max(top, Fraction(0))
        if more * max(short, free) > O * rows * free:
            continue
        for _ in range(40):
            X = (low + high) / 2
            if (X + more) * max(2 * X + short, free) <= O * rows * free:
                low = X
            else:
                high = X
        best = max(best, high)
    return swept + constants.MOMENT * best - constants.STARTS * sums * rows
