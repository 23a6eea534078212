"""Theorems 2 and 3: the constant 4, and what it takes to lose nothing below it."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

from iosim.report.proof import identity, require, step, unsat

from . import constants


def _q(value: Fraction) -> Any:
    import z3

    return z3.Q(value.numerator, value.denominator)


def _over(r: Any, faces: list[tuple[list[Any], Any]], cap: Any, least: Fraction) -> None:
    for where, value in faces:
        unsat(r > 0, r * r >= _q(least), *where, value > cap)


@step(
    "four-once",
    how="proved",
    says="Theorem 2: for S = M ≥ (5/2)d² every face of Lemma 6 is at most (2 − m1)x²/4",
)
def four_once() -> str:
    """With r = √x, T = 2x, A = 3x; then S·W/c = 4Πd²/M."""
    import sympy
    import z3

    m1, m2 = map(_q, constants.ONCE)
    r, P, u = z3.Reals("r P u")
    x = r * r
    T, A, cap = 2 * x, 3 * x, (2 - m1) * x * x / 4
    faces = [
        ([P >= 0, P * P <= T], (T - P * P) * P / 2 + m2 * P * P),
        ([P >= T / 4, P <= r], T * P / 2 - (m1 + m2) * P * P),
        (
            [P >= r, P * P <= A, (P + 2) * (P + 2) >= 4 + A],
            (A - P * P) * P / 2 + m2 * P * P - (m1 + 2 * m2) * x,
        ),
    ]
    _over(r, faces, cap, constants.FROM["once"])
    off = (u - x / 2) * (u - x / 2)  # (u − T/4)²
    mixed = x * u**3 - (2 + m1) * u**4 / 4 + (2 - m1) * x * x / 4 - (m1 / 2 + m2) * x * u * u
    low = z3.Or(T <= 4 * r, z3.And(u >= x / 2, off >= x * x / 4 - x))
    unsat(
        r > 0,
        x >= _q(constants.FROM["once"]),
        u >= r,
        low,
        off <= x * x / 4 + x,
        mixed > cap * u * u,
    )
    Pi, d, M, m = sympy.symbols("Pi d M m", positive=True)
    X = M / d**2
    identity(M * (2 - m) * Pi * d / ((2 - m) * X**2 / 4 * d**3), constants.CONSTANT * Pi * d**2 / M)
    return "all reals M/d² ≥ 5/2"


@step(
    "four-recompute",
    how="proved",
    says="Theorem 2: for S = M ≥ (9/2)d² every face of Lemma 7 is at most x²/2",
)
def four_recompute() -> str:
    """a0 = 0, so that b = m1 and γ = 2; then S·W/c = 4Πd²/M."""
    import sympy
    import z3

    b, m2 = map(_q, constants.RECOMPUTE)
    r, P, u = z3.Reals("r P u")
    x = r * r
    T, A, cap, least = 2 * x, 3 * x, x * x / 2, constants.FROM["recompute"]

    def at_least(z: Any, by: int) -> Any:  # P ≥ √(by² + z) − by
        return (P + by) * (P + by) >= by * by + z

    def at_most(z: Any, by: int) -> Any:
        return (P + by) * (P + by) <= by * by + z

    start, both = (b + 2 * m2) * x, (b + m2) * x
    up = P >= 0
    faces: list[tuple[list[Any], Any]] = [
        ([], m2 * T),
        ([P >= T / 4, P <= T / 2], -2 * P * P + T * P),
        ([up, P * P <= T, at_least(T, 1)], (T - P * P) * P + m2 * P * P),
        ([P >= T / 2, P <= r], T * P - (b + m2) * P * P),
        ([P >= r, at_least(A, 1), P * P <= A], (A - P * P) * P + m2 * P * P - start),
        ([up, at_least(T, 2), at_most(T, 1)], -(P**3) + (b + m2 - 2) * P * P + T * P),
        ([up, P * P <= T, at_least(T, 1)], b * (T - P * P) * P / 2 + m2 * P * P),
        ([P >= T / 2, P <= r], b * T * P / 2 - (b + m2) * P * P),
        ([P >= r, at_least(A, 1), P * P <= A], b * (A - P * P) * P / 2 + m2 * P * P - start),
        (
            [up, at_least(T, 2), at_most(T, 1)],
            -b * P**3 / 2 + (2 - b + m2) * P * P + b * T * P / 2,
        ),
        ([P >= T / 4, P <= r, P <= T / 2], (2 - 2 * b - m2) * P * P + b * T * P / 2),
        (
            [P >= r, at_least(A, 2), at_most(A, 1)],
            -b * P**3 / 2 + (2 - b + m2) * P * P + b * A * P / 2 - start,
        ),
    ]
    _over(r, faces, cap, least)
    square, off = u * u, (u - x) * (u - x)
    quarter = (u - x / 2) * (u - x / 2)
    mixed: list[tuple[list[Any], Any]] = [
        (
            [u >= r, u >= x, off <= x * x + x],
            x * u**3 - u**4 / 2 + x * x / 2 + x * x * u - both * square,
        ),
        (
            [u >= r, z3.Or(x <= r, z3.And(u >= x, off >= x * x - x)), off <= x * x + x],
            b * x * u**3 - b * u**4 / 2 - (both - b * x / 2) * square,
        ),
        (
            [u >= r, u <= x, z3.Or(x <= 2 * r, z3.And(u >= x / 2, quarter >= x * x / 4 - x))],
            b * x * u**3 - (4 * b - 2) * u**4 / 4 + x * x / 2 - (both - x) * square,
        ),
    ]
    _over(r, mixed, cap * square, least)
    # The conditions of Lemma 7.
    unsat(r > 0, x >= _q(least), P >= 0, at_least(T, 2), m2 > P)
    require(sum(constants.RECOMPUTE) <= 2, "m1 + m2 > 2 − a0")
    Pi, d, M = sympy.symbols("Pi d M", positive=True)
    identity(M * 2 * Pi * d / ((M / d**2) ** 2 / 2 * d**3), constants.CONSTANT * Pi * d**2 / M)
    return "all reals M/d² ≥ 9/2"


@step(
    "few-segments",
    how="proved",
    says="Theorem 2: where one segment may do all, 4Πd²/M ≤ 4HNd",
)
def few_segments() -> str:
    """W ≤ cd³ reads M² ≥ 4Πd² in both classes, with Π = HN²."""
    import z3

    M, N, d, h = z3.Reals("M N d h")  # H = h² ≥ 1
    bound = constants.CONSTANT * h * h * N * N * d * d
    unsat(M > 0, N > 0, d > 0, h >= 1, M >= 2 * h * N * d, bound > 4 * h * h * N * d * M)
    return "all reals M, N, d > 0 and H ≥ 1"


@step(
    "small-memory",
    how="proved",
    says="Theorem 3, leading order: x^(3/2) at y = 0 and y = x; an inequality for a = 0; 4Πd/√M",
)
def small_memory() -> str:
    """With δ = 0, γ = 1, r = √x; at a = 0 only m1/√x = (4/3)^(3/2) − 1 < 3/4: ℓ rises with y."""
    import sympy

    r, P = sympy.symbols("r P", positive=True)
    x = r**2
    m1 = (sympy.Rational(4, 3) ** sympy.Rational(3, 2) - 1) * r
    for words, charge in ((3 * x, 0), (4 * x, m1 * x)):
        value = (words - P**2) * P / 2 - charge
        top = sympy.sqrt(words / 3)
        identity(sympy.simplify(sympy.diff(value, P).subs(P, top)), 0)
        identity(sympy.simplify(value.subs(P, top) - r**3), 0)
        identity(sympy.diff(value, P, 2), -3 * P)
    require(sympy.Rational(4, 3) ** 3 < (1 + sympy.Rational(3, 4)) ** 2, "m1 is too large")
    Pi, d = sympy.symbols("Pi d", positive=True)
    identity(2 * x * d**2 * 2 * Pi * d / (r**3 * d**3), constants.CONSTANT * Pi * d / (r * d))
    return "all reals x > 0; the remainders O(√x) are by hand"


@step(
    "stays",
    how="exhaustive",
    says="Section 7, remark: a sum made by any tree in J stays costs 2J − 1 transfers or more",
)
def stays() -> str:
    """All sequences of stays, by the number of partial sums that wait in slow memory.

    A stay loads some of them, has products or not, merges as it likes, and stores what it keeps.
    The sum is done when one word is left in slow memory; a single accumulator costs 2J − 1 then.
    """
    cases = 0
    states = {(0, 0, 0): 1}  # waiting, stays with products, cost → ways
    for length in range(1, 8):
        after: dict[tuple[int, int, int], int] = {}
        for (waiting, J, cost), ways in states.items():
            for loads, product in itertools.product(range(waiting + 1), (0, 1)):
                for stores in range(1, loads + product + 1):
                    key = (waiting - loads + stores, J + product, cost + loads + stores)
                    after[key] = after.get(key, 0) + ways
        states = after
        cases += sum(states.values())
        for waiting, J, cost in states:
            require(
                waiting != 1 or cost >= constants.STAY * J - 1, f"{J} of {length} stays cost {cost}"
            )
        least = min(cost for waiting, J, cost in states if waiting == 1 and length == J)
        require(least == constants.STAY * length - 1, f"{length} stays cost {least} at least")
    return f"up to 7 stays, {cases} sequences"
