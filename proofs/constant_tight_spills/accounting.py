"""Lemmas 1 to 4 of constant_tight_spills.md on executions simulated word by word."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import sqrt

from iosim.bounds.unified.boxes import Weights
from iosim.report.proof import require, step

from ..constant_tight import executions
from ..constant_tight.accounting import Drawn, draw_executions, filled_memory
from . import constants, cutting, shapes


def holds(name: str, left: float, right: float, where: str) -> None:
    """Require left ≤ right, or what is stronger where a test says so; rounding apart.

    Where the left is 0 nothing stronger is required: it would always fail."""
    least = right - constants.STRONGER[name] * (left > 0)
    require(left <= least + 1e-9, f"{name}: {left} is more than {least}; {where}")


@dataclass
class Seen:
    """What a run of `check` saw."""

    segments: int = 0
    whole: int = 0
    open: int = 0
    spilled_whole: int = 0

    def add(self, other: Seen) -> None:
        """Count what another run saw, too."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def lemma_5(
    weights: Weights, M: int, S: int, sizes: tuple[float, ...], d: int, rng: random.Random
) -> float:
    """Lemma 5's bound in pairs, at random prices, for a segment with p, g and f, unscaled."""
    shares = [rng.choice([0.0, 1.0, rng.random()]) for _ in range(2)]
    gamma, kappa = (10 ** rng.uniform(-1, 1) for _ in range(2))
    prices = shapes.random_prices(weights, (shares[0], gamma, shares[1], kappa), rng)
    *quadratic, theta, mu, whole, inner, stay = map(float, prices)
    p, g, f = sizes[0] / d, sizes[1] / d**2, sizes[2] / d**2
    root = sqrt(theta * min(theta + mu, 2 * theta))
    scaled = M / d**2, (M + S) / d**2, p, g - p, f
    numbers = (*scaled, weights.e, *quadratic, whole, inner, stay, root)
    return float(shapes.bound(theta, mu, *numbers)) * d**2


def check(case: Drawn, kind: str) -> Seen:
    """All inequalities on one execution."""
    log, rng, M = case.log(kind), case.rng, case.M
    d, d_v, _ = executions.sizes(case.order)
    cost = sum(what in ("load", "store") for what, _, _ in log)
    items, spilled = (cutting.tree_items if kind == "trees" else cutting.once_items)(log)
    S = case.S or rng.choice([rng.randint(2, 5), rng.randint(2, 3 * M)])
    parts = cutting.cut(items, M, S)
    at = f"{case.says}, M = {M}, S = {S}"
    entries = d_v * len({item[0] for what, item, _ in log if what == "F"})
    holds("events", sum(part.events for part in parts), cost + entries, at)
    for t, part in enumerate(parts[:-1]):
        holds("full segments", (S if t else M + S) + 1 - constants.SHORT, part.events, at)
    weights = shapes.random_weights(rng)
    low, high = weights.pv_weights
    last = {}  # pair → the last segment in which it has a product
    for t, part in enumerate(parts):
        last.update(dict.fromkeys(part.pairs("E") | part.pairs("F"), t))
    begun: set[cutting.Pair] = set()
    seen = Seen(len(parts))
    E = F = starts = later = stays = spilled_starts = 0
    charged = 0.0
    for t, part in enumerate(parts):
        q, k, v, o = part.words()
        firsts, seconds = part.pairs("E"), part.pairs("F")
        there = firsts | seconds
        fresh, before = there - begun, there & begun
        begun |= fresh
        now = f"{at}, segment {t}"
        # W and Y, spilled pairs that start and have second products or not, older unspilled ones.
        W, Y = (fresh & seconds) - spilled, (fresh - seconds) - spilled
        whole = fresh & seconds
        new = len(part.stays & {(i, c) for i, _, c in part.second})
        s, u, y = len(there & spilled), len(before - spilled), len(Y)
        holds("words", q + k + v + o + new + s + u, M + S, now)
        # The segment begins with a load, or with a product whose factor of V is there.
        holds("words from before", o - new + u, M - (t > 0), now)
        for i, j in whole:
            require({(i, j, c) for c in range(d)} <= part.first, f"{now}: {i, j} is not whole")
        inner = {(i, j) for i, j in W if {(i, j, c) for c in range(d_v)} <= part.second}
        staying = Y | (W - inner)
        # At the last one's start its two factors are there with a word of each other one.
        holds("pairs that stay", len(staying), M - (1 if kind == "trees" else 2), now)
        require(all(last[pair] > t for pair in staying), f"{now}: one ends")
        holds("whole pairs", len(whole) * d * d, q * k, now)
        holds("inner pairs", len(inner) * d_v * d_v, o * v, now)
        p, A = sqrt(len(whole)), sqrt(len(firsts))
        g, f = sqrt(q * k), sqrt(o * v)
        work_E = len(part.first)
        holds("all products of pairs, first", work_E, d * A * A, now)
        sharp = constants.SHARP * d * p * A
        holds("Loomis and Whitney, first", work_E, g * (A + p) - sharp, now)
        weigh = {pair: low if pair in spilled else high for pair in seconds}
        N = sqrt(sum(x * x for x in weigh.values()))
        work_F = sum(weigh[item[:2]] for item in part.second)
        holds("all products of pairs, second", work_F, d_v * sum(weigh.values()), now)
        holds("Loomis and Whitney, second", work_F, f * N, now)
        begins = len(fresh & spilled)
        work = (
            weights.e * work_E / d
            + work_F / d_v
            - weights.m * (len(W) + y)
            + weights.n * begins
            + weights.r * (u - len(staying))
        )
        if d == d_v:
            bound = lemma_5(weights, M, S, (p, g, f), d, rng)
            require(work <= bound + 1e-9, f"{now}: charged {work}, Lemma 5 says {bound}")
        charged += work
        E, F, starts = E + work_E, F + len(part.second), starts + len(W) + y
        later, stays = later + u, stays + len(staying)
        spilled_starts += begins
        seen.add(Seen(0, len(W), y, len(whole - W)))
    pairs = {item[:2] for what, item, _ in log if what == "F"}
    require((E, F) == (d * len(pairs), d_v * len(pairs)), f"{at}: {E} and {F} products")
    holds("spilled starts", len(pairs & spilled), spilled_starts, at)
    holds("unspilled starts", starts, len(pairs - spilled), at)
    holds("next visits", stays, later, at)
    holds("charged work", 2 * len(pairs), charged, at)
    return seen


def _sampled(kind: str, seed: int, count: int, on_purpose: Iterable[Drawn]) -> str:
    seen = Seen()
    for case in itertools.chain(on_purpose, draw_executions(seed, count)):
        seen.add(check(case, kind))
    kinds = seen.whole, seen.open, seen.spilled_whole
    require(min(kinds) > count // 20, f"only {kinds} whole, open and spilled whole pairs")
    return (
        f"{count} random executions, H ≤ 3, {seen.segments} segments, "
        f"{seen.whole + seen.spilled_whole} whole pairs, seed {seed}"
    )


def kept_scores(M: int) -> Drawn:
    """M − 1 unspilled scores that are there when a segment begins in which all are used.

    The scores of `filled_memory`; then loads until the first segment is full.
    """
    case, S = filled_memory(M), 2 * M - 1
    log = list(case.log("trees"))
    at = log.index(("load", ("v", 0, 0), 0))
    again: list[executions.Entry] = [("load", ("v", 0, 0), 0), ("gone", ("v", 0, 0), 0)]
    return replace(case, S=S, made=(*log[:at], *again * S, *log[at:]))


@step(
    "spills-once",
    how="sampled",
    says="Lemmas 1 to 4: words, whole pairs, pairs that stay, sums; one accumulator for each sum",
)
def spills_once() -> str:
    """Executions simulated word by word, cut at random lengths."""
    return _sampled("once", 21, constants.EXECUTIONS, ())


@step(
    "spills-trees",
    how="sampled",
    says="Lemmas 1 to 4 with sums by random trees: closed stays pay by their first load",
)
def spills_trees() -> str:
    """Sums by random trees, results in words of their own or over operands."""
    made = [make(M) for M in (3, 5, 8) for make in (filled_memory, kept_scores)]
    return _sampled("trees", 22, constants.TREE_EXECUTIONS, made)
