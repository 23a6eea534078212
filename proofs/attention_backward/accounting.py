"""What the proofs count in a segment, on executions simulated word by word."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from iosim.bounds import charges as table
from iosim.report.proof import require, step

from . import constants, executions


@dataclass(frozen=True)
class Drawn:
    """A set of pairs, products in some order, and M."""

    pairs: list[executions.Pair]
    d: int
    d_v: int
    M: int
    rng: random.Random

    def __str__(self) -> str:
        return f"{len(self.pairs)} pairs, d = {self.d}, d_v = {self.d_v}, M = {self.M}"


def draw_pairs(seed: int, count: int) -> Iterator[Drawn]:
    """Dense heads, grouped heads, masks and random sets of pairs."""
    rng = random.Random(seed)
    for _ in range(count):
        heads, group = rng.choice([(1, 1), (1, 1), (1, 2), (2, 1)])
        most = 5 if heads * group == 1 else 3
        N, K = rng.randint(1, most), rng.randint(1, most)
        pairs = [
            (h * N + i, h // group * K + j)
            for h in range(heads * group)
            for i in range(N)
            for j in range(K)
        ]
        match rng.randrange(3):
            case 0:
                pairs = [(i, j) for i, j in pairs if j % K <= i % N + K - N] or pairs[:1]
            case 1:
                pairs = [pair for pair in pairs if rng.random() < 0.7] or pairs[:1]
        yield Drawn(pairs, rng.randint(1, 4), rng.randint(1, 4), rng.randint(5, 40), rng)


def log_of(case: Drawn, drop: float) -> list[executions.Entry]:
    """The log of one random execution."""
    run = executions.Execution(case.d, case.d_v, case.M, case.rng, drop)
    for task in executions.random_order(case.pairs, case.d, case.d_v, case.rng):
        run.perform(task)
    return run.close()


def _theorem_2(segment: executions.Segment, d: int, d_v: int, at: str) -> None:
    """An inner pair's products are few of its words; and all pairs' together."""
    mean = (d + min(d, d_v)) / 2
    rows, columns, work = executions.tallies(segment)
    crossing = segment.paid | segment.free
    others = 0
    for (i, j), w in work.items():
        s, t = ("s", i, j), ("t", i, j)
        used = any((i, j) == p[:2] for x in "QK" for p in segment.products[x])
        if s in crossing or (used and t in crossing):
            others += w
            most = rows[i] * columns[j] / (4 * mean) + constants.EXCESS * mean
        else:
            most = constants.INNER * rows[i] * columns[j] / (4 * mean)
        require(w <= most + 1e-9, f"{at}: {w} products of a pair, {most} allowed")
    U, z = len(segment.words), len({word[1:] for word in crossing})
    require(others <= math.sqrt(z) * U / 2 + 1e-9, f"{at}: {others} products of crossing pairs")


def _lemma_1(segment: executions.Segment, s: float, r: float, star: float, at: str) -> None:
    """Weighted products over the pairs whose run is visited: s of S, r of Q and K, star of P, V."""
    P = {"s": 0, "t": 0}
    for word in segment.inner | segment.paid | segment.free:
        P[word[0]] += 1
    for kind, (one, row, column) in executions.WORDS.items():
        most = math.sqrt(segment.count(row) * segment.count(column) * P[one])
        E = len(segment.products[kind])
        require(E <= most + 1e-9, f"{at}: {E} products {kind}, {most} allowed")
    h = 2 * r * r / math.sqrt(4 * r * r - s * s)
    weights = {"S": constants.STEEP * s, "P": star, "V": star, "Q": r, "K": r}
    total = sum(w * len(segment.products[x]) for x, w in weights.items())
    most = h * len(segment.words) / 2 * math.sqrt(sum(P.values()))
    require(total <= most + 1e-9, f"{at}: weighted work {total}, {most} allowed")


def _theorem_3(segment: executions.Segment, d: int, d_v: int, at: str) -> None:
    """What a pair does beyond its words' share, by the number of its crossing kinds."""
    both, rows_of = d + d_v, 2 * d + d_v
    L = 2 * both * rows_of
    s, r = both / L, (1 - both * both / L) / rows_of
    of_both = constants.BOTH * (1 + s / r) ** 2 * (2 + s / r) / (2 * (2 + 3 * s / r))
    excess = constants.LOSS * r * r * L / 4 * max(1, of_both)
    work: dict[executions.Pair, float] = {}
    for kind, products in segment.products.items():
        for i, j, _ in products:
            work[i, j] = work.get((i, j), 0.0) + (s if kind in "SV" else r)
    rows, columns, _ = executions.tallies(segment)
    crossing = segment.paid | segment.free
    for (i, j), w in work.items():
        kinds = (("s", i, j) in crossing) + (("t", i, j) in crossing)
        most = rows[i] * columns[j] / L + kinds * excess
        require(w <= most + 1e-9, f"{at}: work {w} of a pair, {most} allowed")


def _theorem_5(segment: executions.Segment, d: int, again: bool, at: str) -> None:
    """Weighted products less charges: of a pair, of its inner kinds alone, and of the segment."""
    rows, columns, _ = executions.tallies(segment)
    crossing = segment.paid | segment.free
    U, z = len(segment.words), len(crossing)
    for one in table.AGAIN if again else (*table.AGAIN[:2], *table.ONCE):
        s, v, p, r, m, kappa, e, h = map(
            float, (one.s, one.v, one.p, one.r, one.m, one.kappa, one.e, one.h)
        )
        e *= constants.CHARGED
        weights = {"S": s, "V": v, "P": p, "Q": r, "K": r}
        work = dict.fromkeys(segment.inner, -m * d) | dict.fromkeys(crossing, 0.0)
        for kind, products in segment.products.items():
            for i, j, _ in products:
                work[executions.WORDS[kind][0], i, j] += weights[kind]
        for i, j in {word[1:] for word in work}:
            kinds = [("s", i, j), ("t", i, j)]
            inner = [word for word in kinds if word in segment.inner]
            others = sum(word in crossing for word in kinds)
            most = kappa * rows[i] * columns[j] / d + 1e-9
            total = sum(work.get(word, 0.0) for word in kinds)
            require(total <= most + e * d * others, f"{at}: {total} of a pair, {most} + e's")
            if not (again and inner == kinds[1:] and others):
                total = sum(work[word] for word in inner)
                require(total <= most, f"{at}: {total} of a pair's inner kinds, {most} allowed")
        most = kappa * U * U / (4 * d) + min(e * d * z, h * U * math.sqrt(z) / 2)
        require(sum(work.values()) <= most + 1e-9, f"{at}: {sum(work.values())}, {most} allowed")


def _check(seed: int, count: int, drop: float) -> str:
    seen = free = 0
    for case in draw_pairs(seed, count):
        log, d, d_v, pairs = log_of(case, drop), case.d, case.d_v, len(case.pairs)
        cost = sum(what in ("load", "store") for what, _, _ in log)
        S = case.rng.choice([case.rng.randint(1, 4), case.rng.randint(1, 3 * case.M)])
        parts = executions.segments(log, case.M, S)
        at = f"{case}, S = {S}"
        require(sum(s.events for s in parts) <= cost, f"{at}: more events than transfers")
        made = dict.fromkeys(executions.WORDS, 0)
        counted, paid, alone = {"s": 0, "t": 0}, 0, 0
        inner: set[executions.Word] = set()
        for s in parts:
            seen += 1
            U = len(s.words)
            require(U + len(s.paid) <= case.M + S, f"{at}: {U} words, {len(s.paid)} paid visits")
            for word in s.inner | s.free:
                counted[word[0]] += 1
            for kind, products in s.products.items():
                made[kind] += len(products)
            free += len(s.free)
            paid += len(s.paid)
            alone += len({w[1:] for w in s.free} - {w[1:] for w in s.paid})
            inner |= s.inner | s.paid
            _theorem_2(s, d, d_v, at)
            half = math.sqrt(3) / 2
            _lemma_1(s, half, half, 1.0, at)
            if not drop:
                _theorem_3(s, d, d_v, at)
            if d == d_v:
                _theorem_5(s, d, drop > 0, at)
        widths = {"S": d, "P": d_v, "V": d_v, "Q": d, "K": d}
        for kind, width in widths.items():
            enough = made[kind] >= pairs * width if drop else made[kind] == pairs * width
            require(enough, f"{at}: {made[kind]} products {kind}")
        require(alone <= paid, f"{at}: {alone} pairs with free starts alone, {paid} paid visits")
        for one, kind in executions.MAKES.items():
            most = made[kind] / widths[kind] if drop else pairs
            require(counted[one] <= most, f"{at}: {counted[one]} charges of runs {one}")
        if not drop:
            require(len(inner) == 2 * pairs, f"{at}: a run is nowhere inner or paid")
    require(free > count // 10, f"only {free} free starts were seen")
    return f"{count} random executions, {seen} segments, {free} free starts, seed {seed}"


@step(
    "accounting-once",
    how="sampled",
    says="words and paid visits, charges, inner pairs, other pairs and Loomis-Whitney in a segment",
)
def accounting_once() -> str:
    """Executions that make each sum once, masks and shared heads among them."""
    return _check(1, constants.EXECUTIONS, 0.0)


@step(
    "accounting-recompute",
    how="sampled",
    says="the same where sums of a pair are forgotten and made again, its runs one by one",
)
def accounting_recompute() -> str:
    """Executions that forget scores, sums dO·V and gradients of scores rather than store them."""
    return _check(2, constants.EXECUTIONS, 0.5)
