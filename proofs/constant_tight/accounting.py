"""Lemmas 1 to 5 and 8: segments, on executions simulated word by word."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from iosim.report.proof import require, step

from . import constants, executions, tree_executions


@step(
    "cutting",
    how="exhaustive",
    says="K events, the first M + S in one segment, then S each: K > M + S(n − 1) if n ≥ 2",
)
def cutting() -> str:
    """Cut and count."""
    for M, S in itertools.product(range(1, 9), repeat=2):
        for K in range(60):
            n, left = 1, K - (M + S)
            while left > 0:
                n, left = n + 1, left - S
            if n > 1:
                holds("segments", M + S * (n - 1) + 1, K, f"M = {M}, S = {S}: n = {n}")
            require(n <= max(1, -(-(K - M) // S)), f"M = {M}, S = {S}, K = {K}: n = {n}")
    return "every M, S ≤ 8 and K < 60"


def draw_executions(seed: int, count: int) -> Iterator[Drawn]:
    """Random executions of dense heads."""
    rng = random.Random(seed)
    for _ in range(count):
        H = rng.choice([1, 1, 2, 3])
        N, d = rng.randint(1, 5 if H == 1 else 3), rng.randint(1, 4)
        M = rng.randint(3, 30)
        yield Drawn(executions.random_order(N, d, rng, H), M, rng, f"N = {N}, d = {d}, H = {H}")


@dataclass(frozen=True)
class Drawn:
    """What is executed: all products in some order, and M."""

    order: list[executions.Task]
    M: int
    rng: random.Random
    says: str
    S: int | None = None  # else at random
    made: tuple[executions.Entry, ...] | None = None  # a log made on purpose

    def log(self, kind: str) -> list[executions.Entry]:
        """An execution of a kind: once, recompute or trees."""
        if self.made is not None:
            return list(self.made)
        if kind == "trees":
            return tree_executions.execute_trees(self.order, self.M, self.rng)
        drop = 0.5 if kind == "recompute" else 0.0
        policy = self.rng.choice(["lru", "random"] if drop else ["lru", "random", "belady"])
        return executions.execute(self.order, self.M, self.rng, policy, drop)


def filled_memory(M: int) -> Drawn:
    """M − 1 scores begun in one segment, none of them stored: as many free starts as there can be.

    d = 1, and one column of M − 1 rows; results overwrite operands.
    """
    rows = range(M - 1)
    order: list[executions.Task] = [("E", i, 0, 0) for i in rows] + [("F", i, 0, 0) for i in rows]
    log: list[executions.Entry] = [("load", ("k", 0, 0), 0)]
    for i in rows:  # i scores, the word of K, and then one of Q, which the new score overwrites
        log += [("load", ("q", i, 0), 0), ("E", (i, 0, 0), 1)]
    log.append(("load", ("v", 0, 0), 0))  # in the place of the word of K
    for i in rows:
        score, sums = ("s", i, 0), ("o", i, 0)
        log += [("F", (i, 0, 0), 1), ("gone", score, 0), ("store", sums, 0), ("gone", sums, 0)]
    return Drawn(order, M, random.Random(0), f"{M - 1} rows, one column, d = 1", 1, tuple(log))


def holds(name: str, left: float, right: float, where: str) -> None:
    """Require left ≤ right, or what is stronger where a test says so; rounding apart."""
    least = right - constants.STRONGER[name]
    require(left <= least + 1e-9, f"{name}: {left} is more than {least}; {where}")


def check(cases: Iterable[Drawn], kind: str) -> tuple[int, int]:
    """Lemmas 1 to 5 and 8 on executions; the numbers of segments and of free starts seen."""
    seen = free = count = 0
    again = kind == "recompute"
    for case in cases:
        count += 1
        log, rng, M = case.log(kind), case.rng, case.M
        d, d_v, terms = executions.sizes(case.order)
        cost = sum(what in ("load", "store") for what, _, _ in log)
        S = case.S or rng.choice([rng.randint(1, 4), rng.randint(1, 3 * M)])
        if kind == "trees":
            parts = tree_executions.tree_segments(log, M, S, d + d_v)
        else:
            parts = executions.segments(log, M, S)
        at = f"{case.says}, M = {M}, S = {S}"
        holds("events", sum(s.events for s in parts), cost, at)
        totals = [0] * 9
        for s in parts:
            seen += 1
            q, k, v, o, C, a, y, E, F = counts = s.counts
            here = f"{at}: q, k, v, o, C, a, y, E, F = {counts}"
            totals = [x + z for x, z in zip(totals, counts, strict=True)]
            holds("words", q + k + v + o + a, M + S, here)
            holds("free starts", y, M - (1 if kind == "trees" else 2), here)
            require(kind != "trees" or s.free <= s.held, f"{at}: a free stay ends too early")
            holds("inner, Q and K", C * d * d, q * k, here)
            if not again:
                holds("inner, O and V", C * d_v * d_v, o * v, here)
            p, P = C**0.5, (C + a + y) ** 0.5
            for which, work, width, g, inner in (
                ("first", E, d, (q * k) ** 0.5, p),
                ("second", F, d_v, (o * v) ** 0.5, 0.0 if again else p),
            ):
                sharp = constants.SHARP * width * P * inner
                holds(f"all products of pairs, {which}", work, width * P * P, here)
                holds(f"Loomis and Whitney, {which}", work, g * (P + inner) - sharp, here)
        C, a, y, E, F = totals[4:]
        free += y
        pairs = sum(terms.values())
        holds("every first product", pairs * d, E, at)
        holds("every second product", pairs * d_v, F, at)
        require(again or (pairs * d, pairs * d_v) == (E, F), f"{at}: {E} and {F} products")
        holds("next visits", y, a, at)
        holds("pairs once", d * (y + C), E if again else d * pairs, at)
    require(free > count // 10, f"only {free} free starts were seen")
    return seen, free


def _accounting(seed: int, count: int, kind: str) -> tuple[int, int]:
    return check(draw_executions(seed, count), kind)


def _scope(count: int, seen: int, free: int, seed: int) -> str:
    return f"{count} random executions, H ≤ 3, {seen} segments, {free} free starts, seed {seed}"


@step(
    "accounting-once",
    how="sampled",
    says="Lemmas 1 to 4: paid words, inner pairs, free starts and their sums, scores made once",
)
def accounting_once() -> str:
    """Executions simulated word by word, cut at random lengths."""
    seen, free = _accounting(1, constants.EXECUTIONS, "once")
    return _scope(constants.EXECUTIONS, seen, free, 1)


@step(
    "accounting-recompute",
    how="sampled",
    says="Lemmas 1 to 3 and 5 with scores forgotten and made again, runs of a pair one by one",
)
def accounting_recompute() -> str:
    """The same where a score may be dropped rather than stored."""
    seen, free = _accounting(2, constants.EXECUTIONS, "recompute")
    return _scope(constants.EXECUTIONS, seen, free, 2)


@step(
    "trees",
    how="sampled",
    says="Lemmas 1 to 3 and 8: stays in place of runs, sums by random trees, merged and spilled",
)
def trees() -> str:
    """Sums by random trees, results in words of their own or over operands."""
    filled = (filled_memory(M) for M in range(3, 9))
    seen, free = check(
        itertools.chain(filled, draw_executions(6, constants.TREE_EXECUTIONS)), "trees"
    )
    return _scope(constants.TREE_EXECUTIONS, seen, free, 6)


def disjoint(chosen: Any) -> bool:
    """Whether the lives of runs, each its products' ticks and its end, are apart."""
    return all(x[1] < y[0][0] for x, y in itertools.pairwise(sorted(chosen)))


def _overlapping_lives() -> int:
    """Every order of two unspilled runs' products whose lives overlap contradicts (∗).

    A run has d products of the first kind and a last use, after which its word may go; d ≤ 4.
    """
    overlaps = 0
    for d in (1, 2, 3, 4):
        for places in itertools.combinations(range(2 * d + 2), d + 1):
            runs = [list(places), [at for at in range(2 * d + 2) if at not in places]]
            if runs[0][-1] < runs[1][0] or runs[1][-1] < runs[0][0]:
                continue
            overlaps += 1
            # Finished words are there from a half after the last product to before the last use.
            moments = [
                (run, at - 0.5)
                for run in (0, 1)
                for at in range(runs[run][0], runs[run][d - 1] + 1)
                if runs[1 - run][d - 1] < at <= runs[1 - run][d]
            ]
            require(len(moments) > 0, f"(∗) allows overlapping lives, d = {d}: {runs}")
    return overlaps


@step(
    "two-runs",
    how="exhaustive",
    says="Lemma 5: (∗) keeps unspilled runs' lives apart; then charges and next visits all differ",
)
def two_runs() -> str:
    """All ways to place up to three unspilled runs of one pair, d = 2, in up to 4 segments, or up
    to two and a spilled one, which may be alive at any time, in up to 3.

    A run is a life [start, end] in half-segment ticks and the tick of each of its 2 + 1 products;
    tick τ lies in segment τ // 2.  What (∗) itself rests on, the exchange, is not checked here.
    """
    overlaps = _overlapping_lives()
    d, cases, spilling = 2, 0, 0

    def lives(ticks: int) -> list[tuple[tuple[int, ...], int]]:
        return [
            (ticks_of, tail)
            for ticks_of in itertools.combinations_with_replacement(range(ticks), d)
            for tail in range(ticks_of[-1], ticks)
        ]

    def disjoint_lives(count: int, ticks: int) -> Any:
        for chosen in itertools.combinations(lives(ticks), count):
            if disjoint(chosen):
                yield chosen

    plain = ((8, chosen, ()) for count in (1, 2, 3) for chosen in disjoint_lives(count, 8))
    mixed = (
        (6, chosen, (one,))
        for count in (0, 1, 2)
        for chosen in disjoint_lives(count, 6)
        for one in lives(6)
    )
    for ticks, unspilled, spilled in itertools.chain(plain, mixed):
        chosen = [(run, False) for run in unspilled] + [(run, True) for run in spilled]
        cases += 1
        spilling += len(spilled)
        charged: list[tuple[int, int]] = []
        nexts: list[int] = []
        made = {(c, at // 2) for (made_at, _), _ in chosen for c, at in enumerate(made_at)}
        for t in range(ticks // 2):
            visits = [
                (run, put, {at // 2 for at in (*run[0], run[1])})
                for run, put in chosen
                if any(at // 2 == t for at in (*run[0], run[1]))
            ]
            crossing = [(run, put, where) for run, put, where in visits if len(where) > 1]
            paid = [run for run, put, where in crossing if put or min(where) < t]
            if crossing and not paid:
                require(len(crossing) == 1, f"two free starts in one segment: {chosen}")
                run, _, where = crossing[0]
                charged += [(c, at // 2) for c, at in enumerate(run[0])]
                nexts.append(min(w for w in where if w > t))
            elif visits and not crossing:
                charged += [(c, t) for c in range(d)]
        require(len(set(charged)) == len(charged), f"charged twice: {chosen}")
        require(set(charged) <= made, f"charged to no product: {chosen}")
        require(len(set(nexts)) == len(nexts), f"two next visits coincide: {chosen}")
    return f"up to 3 runs, {cases} cases, {spilling} with a spilled run; {overlaps} overlaps"
