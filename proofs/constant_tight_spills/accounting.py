"""Lemmas 1 to 4 of constant_tight_spills.md on executions simulated word by word."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not turned round)

from __future__ import annotations

from math import sqrt

from iosim.checks.proof import require, step

from ..constant_tight import executions
from ..constant_tight.accounting import Drawn, drawn
from . import constants, cutting


def check(case: Drawn, kind: str) -> tuple[int, int, int]:
    """All inequalities on one execution; segments, whole pairs and pairs begun without a word."""
    log, rng, M = case.log(kind), case.rng, case.M
    d, d_v, _ = executions.sizes(case.order)
    cost = sum(what in ("load", "store") for what, _, _ in log)
    items, spilled = (cutting.tree_items if kind == "trees" else cutting.once_items)(log)
    S = rng.choice([rng.randint(2, 5), rng.randint(2, 3 * M)])
    parts = cutting.cut(items, M, S)
    at = f"{case.says}, M = {M}, S = {S}"
    entries = d_v * len({item[0] for what, item, _ in log if what == "F"})
    events = sum(part.events for part in parts)
    require(events <= cost + entries, f"{at}: {events} events, {cost} transfers")
    if len(parts) > 1:
        least = M + (len(parts) - 1) * (S - constants.SHORT)
        require(cost + entries >= least, f"{at}: {len(parts)} segments, {cost} transfers")
    fS, fU = rng.choice([0.5, 1.0, 1.3]), rng.choice([0.6, 1.0, 1.7])
    ended = {}  # pair → the last segment in which it has a product
    for t, part in enumerate(parts):
        ended.update(dict.fromkeys(part.pairs("E") | part.pairs("F"), t))
    begun: set[tuple[int, ...]] = set()
    wholes = open_starts = E = F = F_unspilled = starts = 0
    for t, part in enumerate(parts):
        q, k, v, o = part.words()
        firsts, seconds = part.pairs("E"), part.pairs("F")
        there = firsts | seconds
        fresh = there - spilled - begun
        whole, open_ = fresh & seconds, fresh - seconds
        older = (there - spilled) & begun
        begun |= fresh
        now = f"{at}, segment {t}"
        new = len(part.stays & {(i, c) for i, _, c in part.second})
        s, u, w, y = len(there & spilled), len(older), len(whole), len(open_)
        require(q + k + v + o + new + s + u <= M + S, f"{now}: Lemma 3, the words")
        require(o - new + u <= M, f"{now}: Lemma 3, what was there before")
        for i, j in whole:
            require({(i, j, c) for c in range(d)} <= part.first, f"{now}: {i, j} is not whole")
        inner = {(i, j) for i, j in whole if {(i, j, c) for c in range(d_v)} <= part.second}
        staying = y + len(whole - inner)
        require(staying <= M, f"{now}: {staying} pairs stay")
        require(all(ended[pair] > t for pair in open_ | (whole - inner)), f"{now}: one ends")
        require(w * d * d <= q * k, f"{now}: {w} whole pairs")
        require(len(inner) * d_v * d_v <= o * v, f"{now}: {len(inner)} inner pairs")
        p, A = sqrt(w), sqrt(len(firsts))
        g, f = sqrt(q * k), sqrt(o * v)
        most = min(d * A * A, g * (A + p) - constants.SHARP * d * p * A)
        require(len(part.first) <= most + 1e-9, f"{now}: first products")
        weigh = {pair: fS if pair in spilled else fU for pair in seconds}
        N = sqrt(sum(x * x for x in weigh.values()))
        work = sum(weigh[item[:2]] for item in part.second)
        require(work <= min(f * N, d_v * N * N / min(fS, fU)) + 1e-9, f"{now}: second products")
        require(len(seconds - spilled) == len(seconds & (whole | older)), f"{now}: pairs")
        E, F, starts = E + len(part.first), F + len(part.second), starts + w + y
        F_unspilled += sum(item[:2] not in spilled for item in part.second)
        wholes, open_starts = wholes + w, open_starts + y
    pairs = {item[:2] for what, item, _ in log if what == "F"}
    require((E, F) == (d * len(pairs), d_v * len(pairs)), f"{at}: {E} and {F} products")
    require(starts == len(pairs - spilled), f"{at}: {starts} starts")
    require(F_unspilled == d_v * starts, f"{at}: second products of unspilled pairs")
    return len(parts), wholes, open_starts


def _sampled(kind: str, seed: int, count: int) -> str:
    seen = [check(case, kind) for case in drawn(seed, count)]
    parts, wholes, open_starts = map(sum, zip(*seen, strict=True))
    require(min(wholes, open_starts) > count // 20, f"only {wholes} whole, {open_starts} open")
    return f"{count} random executions, H ≤ 3, {parts} segments, {wholes} whole pairs, seed {seed}"


@step(
    "spills-once",
    how="sampled",
    says="Lemmas 1 to 4: words, whole pairs, pairs that stay, sums; one accumulator for each sum",
)
def spills_once() -> str:
    """Executions simulated word by word, cut at random lengths."""
    return _sampled("once", 21, constants.EXECUTIONS)


@step(
    "spills-trees",
    how="sampled",
    says="Lemmas 1 to 4 with sums by random trees: closed stays pay by their first load",
)
def spills_trees() -> str:
    """Sums by random trees, results in words of their own or over operands."""
    return _sampled("trees", 22, constants.TREE_EXECUTIONS)
