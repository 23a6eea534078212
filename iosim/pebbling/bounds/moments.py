"""Moments: what is red while an operation is done, of all operations at once, as a linear program.

Take any schedule and look at it while operation u is done (with recomputation, for the first time).
The values H(u) that u reads or writes are red.  Let, at that moment,

    z(w, u)     be 1 if operation w has been done (u itself has),
    red(v, u)   be 1 if value v, not of H(u), is red,
    y(v, u)     be 1 if v has been touched (read or written), will be needed, and is not red,
    N(v, u)     be how often v has been loaded again: after such a moment, before a later need.

Then these hold, and so do those that the checker lists by the same names:

    cap     the words of red(v, u) together are at most M minus those of H(u) that are surely red
    live    y(v, u) + red(v, u) ≥ z(t, u) − z(t', u), where t touches v and t' needs it
    before  z(w, u) ≥ z(w', u), where w' reads what w makes
    later   z(w, b) ≥ z(w, a), where a comes before b in every schedule
    either  z(a, b) + z(b, a) = 1 (two rows)
    load    N(v, b) ≥ N(v, a) + y(v, a) + z(t, b) − z(t, a) − 1, where t needs v and a is before b
    more    N(v, b) ≥ N(v, a), where a is before b
    loads   L(v) ≥ N(v, u) + y(v, u), L(v) being all loads of v that come again
    store   S(v) ≥ y(v, u), S(v) being 1 if v, made and no output, is stored

z is known where w and u are comparable: 1 if w is u or before u, 0 if it is after u.  So the least
sum of the words of v times L(v) + S(v), all variables being anything from 0 to 1 (N and L to the
number of moments), is a lower bound on the transfers beyond the compulsory ones.  Where a term is
made and added on the fly, these are two moments at one time: first it is made, then it is added.
It takes no word then, so that of H(u) only what is red whichever way u is done counts in cap.
For a single u
the program is Elango's wavefront (`wavefront.py`); together they count what is evicted again.

No trust in a solver is needed: the dual multipliers prove the bound by adding inequalities.  They
are rounded to integers over 2³⁰, and what the rounded ones prove is the bound; they are the
certificate.  With recomputation only inputs are counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from iosim.pebbling.bits import mask, members
from iosim.pebbling.bounds.order import Certified, PartialOrder

ONE = 1 << 30  # the denominator of the multipliers
FEW = 6  # moments of the first program, which takes a fraction of a second
LARGEST = 12_000  # variables z: fewer moments are taken where there would be more
Variable = tuple[str, int, int]
Row = tuple[tuple[Any, ...], int, list[tuple[int, Variable]]]  # name, least value, terms


def bound(order: PartialOrder, seconds: float) -> Certified | None:
    """The compulsory words and what the moments need besides."""
    if not order.n:
        return None
    until = time.monotonic() + seconds
    best: Certified | None = None
    some = _moments(order)
    count = FEW
    while True:  # larger and larger programs
        found = _solved(order, sorted(some[:count]), until)
        if found is None:
            break
        if best is None or found[0] > best[0]:
            best = found
        if count >= len(some):
            break
        count *= 2
    if best is None or best[0] <= 0:
        return None
    return order.compulsory + best[0], best[1]


def _moments(order: PartialOrder) -> list[int]:
    """Operations to look at, those that most values span first."""
    operations = [u for u in range(order.n) if order.above[u] or order.below[u]]
    operations.sort(
        key=lambda u: (
            len(order.spanning(u)),
            min(order.above[u].bit_count(), order.below[u].bit_count()),
        ),
        reverse=True,
    )
    return operations[: max(1, LARGEST // order.n)]


def rows(order: PartialOrder, moments: list[int]) -> Iterator[Row]:
    """The inequalities, Σ terms ≥ least."""
    among = mask(moments)
    for u in moments:
        for w in range(order.n):
            for b in members(order.before[w]):
                yield ("before", b, w, u), 0, [(1, ("z", b, u)), (-1, ("z", w, u))]
    pairs = [(a, b) for a in moments for b in members(order.below[a] & among)]
    for a, b in pairs:
        if not order.below[a] & order.above[b] & among:
            for w in range(order.n):
                yield ("later", w, a, b), 0, [(1, ("z", w, b)), (-1, ("z", w, a))]
    for a in moments:
        for b in members(among >> a + 1 << a + 1 & ~order.below[a] & ~order.above[a]):
            terms: list[tuple[int, Variable]] = [(1, ("z", a, b)), (1, ("z", b, a))]
            yield ("either", a, b, 1), 1, terms
            yield ("either", a, b, -1), -1, [(-x, z) for x, z in terms]
    counted = [
        v for v in order.reloaded_values if order.after[v] and order.touch[v].bit_count() > 1
    ]
    for u in moments:
        terms = [(-order.words[v], ("red", v, u)) for v in counted if not order.hold[u] >> v & 1]
        yield ("cap", u), order.takes[u] - order.M, terms
    for v in counted:
        touch, needs = list(members(order.touch[v])), list(members(order.after[v]))
        for u in moments:
            yield ("loads", v, u), 0, [(1, ("L", v, 0)), (-1, ("N", v, u)), (-1, ("y", v, u))]
            if order.hold[u] >> v & 1:
                continue
            if order.stored >> v & 1:
                yield ("store", v, u), 0, [(1, ("S", v, 0)), (-1, ("y", v, u))]
            for t in touch:
                for t2 in needs:
                    if t != t2 and not (order.below[u] >> t & 1 or order.above[u] >> t2 & 1):
                        yield (
                            ("live", v, u, t, t2),
                            0,
                            [
                                (1, ("y", v, u)),
                                (1, ("red", v, u)),
                                (-1, ("z", t, u)),
                                (1, ("z", t2, u)),
                            ],
                        )
        for a, b in pairs:
            grows: list[tuple[int, Variable]] = [(1, ("N", v, b)), (-1, ("N", v, a))]
            yield ("more", v, a, b), 0, grows
            if order.hold[a] >> v & 1:
                continue
            for t in needs:
                if not (order.above[a] >> t & 1 or order.below[b] >> t & 1):
                    yield (
                        ("load", v, a, b, t),
                        -1,
                        [*grows, (-1, ("y", v, a)), (-1, ("z", t, b)), (1, ("z", t, a))],
                    )


class _Columns:
    """Numbers of the variables; those that are known are none."""

    def __init__(self, order: PartialOrder, moments: int) -> None:
        self.order, self.moments = order, moments
        self.number: dict[Variable, int] = {}
        self.cost: list[int] = []
        self.most: list[int] = []

    def fixed_value(self, x: Variable) -> int | None:
        kind, w, u = x
        if kind == "z":
            if w == u or self.order.above[u] >> w & 1:
                return 1
            return 0 if self.order.below[u] >> w & 1 else None
        return 0 if kind == "y" and self.order.hold[u] >> w & 1 else None

    def __getitem__(self, x: Variable) -> int:
        if x not in self.number:
            self.number[x] = len(self.cost)
            self.cost.append(self.order.words[x[1]] if x[0] in "LS" else 0)
            self.most.append(self.moments if x[0] in "LN" else 1)
        return self.number[x]


def _solved(order: PartialOrder, moments: list[int], until: float) -> Certified | None:
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    solve: Any = linprog

    columns = _Columns(order, len(moments))
    names: list[tuple[Any, ...]] = []
    least: list[int] = []
    at, where, values = [0], list[int](), list[int]()
    for name, low, terms in rows(order, moments):
        if not len(names) & 1023 and time.monotonic() > until:
            return None
        kept = len(where)
        for x, variable in terms:
            known = columns.fixed_value(variable)
            if known is None:
                where.append(columns[variable])
                values.append(x)
            else:
                low -= x * known
        if len(where) == kept:
            continue
        names.append(name)
        least.append(low)
        at.append(len(where))
    if not names:
        return None
    A = csr_matrix((np.array(values, float), where, at), shape=(len(names), len(columns.cost)))
    left = until - time.monotonic()
    if left <= 0:
        return None
    found = solve(
        columns.cost,
        A_ub=-A,
        b_ub=-np.array(least, float),
        bounds=[(0, most) for most in columns.most],
        method="highs",
        options={"time_limit": left},
    )
    if found.status != 0:
        return None
    # Exactly, in integers: Σ multiplier · least − Σ what exceeds a variable's cost · its largest.
    multipliers = [max(0, round(-float(x) * ONE)) for x in found.ineqlin.marginals]
    sums = [0] * len(columns.cost)
    total = 0
    for k, x in enumerate(multipliers):
        if x:
            total += x * least[k]
            for j in range(at[k], at[k + 1]):
                sums[where[j]] += x * values[j]
    for have, cost, most in zip(sums, columns.cost, columns.most, strict=True):
        total -= max(0, have - cost * ONE) * most
    return -(-total // ONE), {
        "denominator": ONE,
        "moments": [order.name(u) for u in moments],
        "rows": [
            [*_named(order, name), x] for name, x in zip(names, multipliers, strict=True) if x
        ],
    }


# Which of a row's numbers are values, the others being operations.
VALUES = {"loads": 1, "store": 1, "live": 1, "more": 1, "load": 1}


def _named(order: PartialOrder, name: tuple[Any, ...]) -> list[Any]:
    kind, *numbers = name
    if kind == "either":
        return [kind, order.name(numbers[0]), order.name(numbers[1]), numbers[2]]
    first = VALUES.get(kind, 0)
    return [
        kind,
        *(order.names[v] for v in numbers[:first]),
        *(order.name(u) for u in numbers[first:]),
    ]
