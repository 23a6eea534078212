"""Theorem 5: what each stay claims, how both sides are put together, and the evaluator."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

from iosim.bounds import bound
from iosim.core.problem import Attention
from iosim.report.proof import require, step, unsat

from . import constants, left_over


@step("stays-pieces", how="proved", says="Lemma 3: there is room for the pieces of a stay")
def stays_pieces() -> str:
    """A stay that meets rows of g words; M words are there at most, Y ≤ W of its own side."""
    import z3

    g, M, Y, W, rate, pieces = z3.Reals("g M Y W rate pieces")
    claim = z3.Q(round(1000 * constants.CLAIM), 1000)
    room = g - M + Y
    unsat(
        g >= M - W + pieces * rate * W,
        Y >= 0,
        Y <= W,
        W <= M,
        rate >= 1,
        pieces >= 1,
        claim * rate * Y + (pieces - 1) * claim * rate * W > room,
    )
    return "all reals rate ≥ 1, 0 ≤ Y ≤ W ≤ M, pieces ≥ 1"


@step(
    "stays-floors", how="exhaustive", says="n stays that meet R rows in all have q + 1 − n pieces"
)
def stays_floors() -> str:
    """Every way to part R rows among n stays, a piece for each R/q rows."""
    count = 0
    for q, R in itertools.product(range(1, 5), range(1, 13)):
        for n in range(1, q + 1):
            for cuts in itertools.combinations_with_replacement(range(R + 1), n - 1):
                edges = (0, *cuts, R)
                pieces = sum((b - a) * q // R for a, b in itertools.pairwise(edges))
                require(pieces >= q + constants.SPARE - n, f"q = {q}, R = {R}, {edges}: {pieces}")
                count += 1
    return f"{count} ways, q ≤ 4, R ≤ 12"


@step(
    "both-sides", how="proved", says="Theorem 5 from its two inequalities; a smaller M* is no worse"
)
def both_sides() -> str:
    """L and L′ are stays, S spilled pairs, X and Y what is there at one moment, w ≤ uX + vY."""
    import z3

    L, K, S, X, Y, w, t, u, v, q, p, AR, GC = z3.Reals("L K S X Y w t u v q p AR GC")
    spilled = z3.Q(round(1000 * constants.SPILLED), 1000)
    words = AR + GC + t * (q * GC - u * AR) + t * (p * AR - v * GC) + t * w
    first = t * (K + u * (L - X) - (q + 1) * GC) + S
    second = t * (L + v * (K - Y) - (p + 1) * AR) + S
    rest = (1 - t - t * u) * (L - AR) + (1 - t - t * v) * (K - GC) + t * (u * X + v * Y - w)
    # Each of these three is 0 or more.
    unsat(z3.simplify(L + K + spilled * S - words - first - second - rest, som=True) != 0)
    least = z3.If(u <= v, u, v)
    unsat(X >= 0, Y >= 0, u >= 0, v >= 0, u * X + v * Y < least * (X + Y))
    low, high, s, k = z3.Reals("low high s k")
    moment = z3.Q(round(1000 * constants.SAME_MOMENT), 1000)
    unsat(
        low >= 0,
        low <= high,
        k >= 0,
        k * high <= 1,
        s >= 2,
        -s * low + moment * k * low * low < -s * high + moment * k * high * high,
    )
    return "all reals"


def theorem(D: int, M: int, rows: int, columns: int, sums: int) -> Fraction:
    """The largest words of Theorem 5 over all q and p and some t, for one rectangle of pairs."""
    best, A, held = Fraction(0), D + constants.SUM * sums, M + constants.RESULT
    for q, p in itertools.product(range(1, rows // D + 1), range(1, columns // A + 1)):
        for share in (Fraction(1, 2), Fraction(3, 5), Fraction(3, 4), Fraction(1)):
            met_rows = rows - (constants.CROSSED + share) * q * D
            met_columns = columns - (constants.CROSSED + share) * p * A
            if min(met_rows, met_columns) < 1:
                continue
            u, v = q * held / (A * met_rows), p * held / (D * met_columns)
            if max(u, v) > 1:
                continue
            t = min(share, 1 / (1 + max(u, v)))
            saved = q * D * columns - u * A * rows + p * A * rows - v * D * columns
            words = A * rows + D * columns + t * (saved + min(u, v) * constants.SAME_MOMENT * held)
            best = max(best, words - constants.STARTS * sums * rows)
    return best


@step(
    "stays-evaluator", how="sampled", says="`stays` says at most Theorem 5's best, or Theorem 6's"
)
def stays_evaluator() -> str:
    """Every q and p, in exact numbers."""
    rng, seen = random.Random(33), [0, 0]
    for draw in range(constants.SIZES // 2):
        sums = draw % 2
        low = bound(("stays", "stays-sums")[sums])
        D, share, groups = rng.choice([2, 2, 3]), rng.choice([1, 1, 2]), rng.choice([1, 1, 3])
        N, N_k = rng.randint(30, 120), rng.randint(30, 120)
        if rng.random() < 0.5:
            N_k = share * N
        M = rng.randint(N * D // 4, 2 * N * D)
        problem = Attention(N, 1, groups * share, d_v=D - 1, kv_heads=groups, N_k=N_k)
        best = theorem(D, M, share * N, N_k, sums)
        # The head dimensions of Q and K are 1.
        best = groups * max(best, left_over.theorem(M, D - 1, share * N, N_k, D, sums))
        words = low.words(problem, M)
        seen[sums] += words > 0
        require(words <= best, f"{low.name}, {problem}, M = {M}: {words} > {float(best)}")
    require(min(seen) > constants.SIZES // 20, f"the evaluator says something {seen} times only")
    return f"{constants.SIZES // 2} random sizes, {sum(seen)} with words above 0, seed 33"
