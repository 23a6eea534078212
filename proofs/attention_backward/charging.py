"""Theorem 5: the inequalities that its records fulfil."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from iosim.bounds import charges as table
from iosim.report.proof import step, unsat

from . import constants
from .executions import OF_ROWS, WORDS

# Column word → the row words that it makes products with.
MEETS = {"k": ("q", "dq"), "dk": ("q",), "v": ("g",), "dv": ("g",)}
KINDS = {"s": "SV", "t": "PQK"}
# What an inner kind touches whole, where sums may be made again, and where not.
WHOLE_AGAIN = {"s": {"q", "k"}, "t": {"g", "v"}}
WHOLE_ONCE = {"s": {"q", "k", "g", "dv"}, "t": {"g", "v", "dq", "k", "q", "dk"}}


def shapes(whole: set[str], rows: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Words of a pair: those of the row as given or whole; of the column whole, 0 or one of those.

    Between these the charged work is affine in each word of the column, and beyond it falls.
    """
    words = {x: 1 if x in whole else n for x, n in rows.items()}
    choices = [(1,) if x in whole else (0, *(words[y] for y in MEETS[x])) for x in MEETS]
    for chosen in itertools.product(*choices):
        yield words | dict(zip(MEETS, chosen, strict=True))


def _pair(one: table.Charges, inner: str, crossing: str, whole: set[str]) -> None:
    """A pair with kinds that are inner and that cross: its charged work is not above κAB + e."""
    import z3

    names = sorted(OF_ROWS)
    rows = dict(zip(names, z3.Reals(" ".join(names)), strict=True))
    limits = [z3.And(n >= 0, n <= 1) for n in rows.values()]
    weights = {"S": one.s, "V": one.v, "P": one.p, "Q": one.r, "K": one.r}

    def real(x: Any) -> Any:
        return z3.Q(x.numerator, x.denominator)

    worse = []
    for words in shapes(whole, rows):
        work: Any = -len(inner) * real(one.m)
        for kind in "".join(KINDS[x] for x in inner + crossing):
            _, row, column = WORDS[kind]
            x, y = words[row], words[column]
            fixed = isinstance(x, int) and isinstance(y, int)
            work = work + real(weights[kind]) * (min(x, y) if fixed else z3.If(x <= y, x, y))
        A = sum(words[x] for x in names)
        B = sum(words[x] for x in MEETS)
        most = real(one.kappa) * A * B + len(crossing) * constants.CHARGED * real(one.e)
        worse.append(work > most)
    for bad in worse:
        unsat(*limits, bad)


@step("charges", how="proved", says="Theorem 5: a pair's charged work, and a segment's, by record")
def charges() -> str:
    """Every record of the evaluator's table: a pair's cases, Lemma 1's norm, and a segment."""
    import z3

    for one in (*table.ONCE, *table.AGAIN):
        whole = WHOLE_AGAIN if one.again else WHOLE_ONCE
        _pair(one, "t", "", WHOLE_ONCE["t"])
        for inner, crossing in (
            ("s", ""),
            ("st", ""),
            ("", "s"),
            ("", "t"),
            ("", "st"),
            ("s", "t"),
            ("t", "s"),
        ):
            _pair(one, inner, crossing, set().union(*(whole[x] for x in inner)))
        s, v, p, r, m, kappa, e, h, T, c = (
            z3.Q(x.numerator, x.denominator)
            for x in (one.s, one.v, one.p, one.r, one.m, one.kappa, one.e, one.h, one.T, one.c)
        )
        unsat(z3.Not(z3.And(m >= 0, s >= m, p >= m) if one.again else m >= 0))
        unsat(z3.Not(z3.And(h >= v, h >= p, 2 * r > s, h * h * (4 * r * r - s * s) >= 4 * r**4)))
        # A segment, n² paid visits: at its own T, and at all from it on for the last record.
        n, more = z3.Reals("n more")
        for longer in (0, more) if one is table.AGAIN[-1] else (0,):
            length, most = T + longer, c + kappa * ((T + longer) * (T + longer) - T * T) / 4
            U = length - n * n
            rest = kappa * U * U / 4 + z3.If(e > m, e - m, 0) * n * n
            given = [n >= 0, U >= 0, more >= 0]
            unsat(*given, e * n <= h * U / 2, rest + e * n * n > most)
            unsat(*given, e * n >= h * U / 2, rest + h * U * n / 2 > most)
    return f"all pairs and segments, {len(table.ONCE) + len(table.AGAIN)} records"


@step(
    "beside-crossing",
    how="proved",
    says="Theorem 5: Lemma 1 covers inner kinds δ with crossing σ, for their charge, by record",
)
def beside_crossing() -> str:
    """Roots of z and z + n, where Lemma 1 says less of z crossing kinds than e for each does."""
    import z3

    few, more, U = z3.Reals("few more U")
    for one in table.AGAIN:
        m, e, h = (z3.Q(x.numerator, x.denominator) for x in (one.m, one.e, one.h))
        rest = constants.APART * m * (more * more - few * few)
        given = [few >= 0, few <= more, U >= 0, h * U / 2 <= e * few]
        unsat(*given, h * U * more / 2 - rest > h * U * few / 2)
    return f"all reals U ≥ 0 and 0 ≤ z ≤ z + n, {len(table.AGAIN)} records"


@step("blended", how="proved", says="Theorem 8: the charged works of Theorems 4 and 5 together")
def blended() -> str:
    """N = k² and a = n²; both branches of Theorem 5's work."""
    import z3

    one, k, n = table.BLEND, *z3.Reals("k n")
    m, share, T, c = (z3.Q(x.numerator, x.denominator) for x in (one.m, one.share, one.T, one.c))
    m5, kappa, e, h = (
        z3.Q(x.numerator, x.denominator) for x in (one.of.m, one.of.kappa, one.of.e, one.of.h)
    )
    U = T - n * n
    sizes = [n >= 0, k >= n, U >= 0]
    work = U * k / 2 - constants.TOGETHER * m * (k * k - n * n) + share * kappa * U * U / 4
    work = work + share * z3.If(e > m5, e - m5, 0) * n * n
    unsat(*sizes, e * n <= h * U / 2, work + share * e * n * n > c)
    unsat(*sizes, e * n >= h * U / 2, work + share * h * U * n / 2 > c)
    # Theorem 4's weights and charge, in the class that limits it.
    unsat(z3.Not(z3.And(z3.Q(2598, 1000) ** 2 * 4 < 27, 4 * m * m <= 3, m <= 1)))
    return "all real N ≥ a ≥ 0"
