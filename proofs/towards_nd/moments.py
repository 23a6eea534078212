"""Lemma 4: row words at one moment on top of columns, in executions and the game of whole rows."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from iosim.checks.proof import require, step

from . import constants, game, plays
from .plays import Item, Side
from .stays import Counted, executions, operands

Pair = tuple[int, int]


@dataclass
class Moments:
    """An execution between its steps: what is in fast memory, and what each product is of.

    Attributes:
        held: words of rows, of columns and of pairs after each number of steps.
        made: the pair of each step, None where nothing is multiplied.
        each: products of a pair.
        runs: how many stays each row or column word has, and how many of them with a product.
    """

    held: list[tuple[set[Item], set[Item], set[Item]]]
    made: list[Pair | None]
    each: int
    runs: dict[Item, tuple[int, int]]


def moments(run: Counted) -> Moments:
    """Count from the log what is there after each step; what goes does so in the step before."""
    now: Counter[Item] = Counter()
    held: list[tuple[set[Item], set[Item], set[Item]]] = [(set(), set(), set())]
    made: list[Pair | None] = []
    used: list[set[Item]] = []
    for what, item, new in run.log:
        if what == "gone":
            now[item] -= 1  # type: ignore[index]
        else:
            made.append(None)
            used.append(set())
            held.append(held[-1])
        if what == "load":
            now[item] += 1  # type: ignore[index]
        elif what in ("E", "F"):
            i, j, c = (int(x) for x in item)
            score, *others = operands(what, i, j, c)
            result = score if what == "E" else others[0]
            now[result] += new if run.trees else result not in +now
            made[-1], used[-1] = (i, j), {x for x in others if run.counts(x)}
        there = {x for x, n in now.items() if n > 0 and run.counts(x)}
        held[-1] = tuple({x for x in there if x[0] in kind} for kind in ("qo", "kv", "s"))  # type: ignore[assignment]
    return Moments(held, made, run.each, stays_of(held, used))


def stays_of(
    held: list[tuple[set[Item], set[Item], set[Item]]], used: list[set[Item]]
) -> dict[Item, tuple[int, int]]:
    """Each word's stays between steps, and how many of them have a product."""
    found: dict[Item, list[int]] = {}
    now: dict[Item, bool] = {}  # what is there, and whether its stay has a product
    for at, words in enumerate(used):
        after = held[at + 1][0] | held[at + 1][1]
        for word in (after | words) - now.keys():
            found.setdefault(word, [0, 0])[0] += 1
            now[word] = False
        for word in words:
            found[word][1] += not now[word]
            now[word] = True
        now = {word: useful for word, useful in now.items() if word in after}
    return {word: (a, b) for word, (a, b) in found.items()}


def rows_of(pairs: Sequence[Pair | None], each: int) -> set[int]:
    """The rows that have a pair all of whose products are among these."""
    return {i for (i, _), n in Counter(p for p in pairs if p is not None).items() if n == each}


def by_rows(pairs: Sequence[Pair | None], each: int, K: int) -> list[int]:
    """Where parts of K rows begin, from the first product on; the last part may have fewer."""
    cuts, made, whole = [], Counter[Pair](), set[int]()
    for at, pair in enumerate(pairs):
        if pair is None:
            continue
        if made[pair] + 1 == each and pair[0] not in whole and len(whole) == K:
            cuts.append(at)
            made, whole = Counter(), set()
        made[pair] += 1
        if made[pair] == each:
            whole.add(pair[0])
    return cuts


def around(run: Moments, at: int, K: int) -> list[int]:
    """Cuts from the beginning and from the end towards one moment, and there if it is needed."""
    left = by_rows(run.made[:at], run.each, K)
    length = len(run.made)
    right = [length - x for x in by_rows(run.made[at:][::-1], run.each, K)][::-1]
    begin, end = (left or [0])[-1], (right or [length])[0]
    middle = len(rows_of(run.made[begin:end], run.each)) > K
    return [*left, *([at] if middle else []), *right]


def lemma(run: Moments, M: int, K: int, at: int, A: int, G: int, says: str) -> int:
    """All that Lemma 4 counts, with parts of K rows around one moment; the words that it says."""
    rows, columns = {p[0] for p in run.made if p}, {p[1] for p in run.made if p}
    pairs = {p for p in run.made if p}
    cuts = around(run, at, K)
    edges = [0, *cuts, len(run.made)]
    parts = [run.made[a:b] for a, b in itertools.pairwise(edges)]
    inner = [{p for p, n in Counter(x for x in part if x).items() if n == run.each}
             for part in parts]  # fmt: skip
    whole = [{i for i, _ in found} for found in inner]
    require(all(len(found) <= K for found in whole), f"{says}: more than {K} rows in a part")
    stays = sum(n for word, (n, _) in run.runs.items() if word[0] in "qo")
    X = len(run.held[at][0])
    middle = next(t for t in range(len(parts)) if edges[t] <= at <= edges[t + 1])
    if at in cuts:  # both parts beside it are one: all words of a row that is whole there
        begin, end = edges[middle], edges[middle + 2]
        there = max(X, A * len(rows_of(run.made[begin:end], run.each)))
        others = [found for t, found in enumerate(whole) if t not in (middle, middle + 1)]
    else:
        there = X
        others = [found for t, found in enumerate(whole) if t != middle]
    carried = sum(len(run.held[x][0]) for x in cuts if x != at)
    least = constants.MOMENT * there + A * sum(map(len, others)) - carried
    require(stays >= least, f"{says}: {stays} stays of row words, {least}")
    n, r = divmod(len(rows), K)
    crossing = len(pairs) - sum(map(len, inner))
    paid = G * sum(len({j for _, j in found}) for found in inner) + crossing
    most = (n * G + min(r, G)) * len(columns)
    if K >= G:
        require(paid >= most * constants.ONE_MORE, f"{says}: columns pay {paid}, not {most}")
    return X


def words(run: Counted, count: Moments, sums: int, ones: int, says: str) -> int:
    """What each row word moves beside its stays; how many entries of O are stored twice."""
    moved, again = run.moved(), 0
    for word, (n, useful) in count.runs.items():
        if word[0] == "o" and sums and word[2] == ones:
            n -= 1
        elif word[0] == "o" and useful > 1:
            n += constants.MORE_MOVES
            again += 1
        require(moved[word] >= n, f"{says}: {word} moves {moved[word]} times, not {n}")
    return again


def counted(seed: int, trees: bool) -> str:
    """Each moment at which rows have most, and some others, with parts of all sizes allowed."""
    rng, tight, count, least = random.Random(seed), 0, 0, 10**9
    for says, M, run in executions(seed, constants.EXECUTIONS, trees):
        A, G = run.width
        sums = int(run.sums)
        count_of = moments(run)
        held = count_of.held
        require(all(sum(map(len, three)) <= M for three in held), f"{says}: more than fits")
        again = words(run, count_of, sums, run.ones, says)
        pairs = {p for p in count_of.made if p}
        R, C = len({i for i, _ in pairs}), len({j for _, j in pairs})
        cost = sum(run.moved().values())
        fullest = max(range(len(held)), key=lambda at: len(held[at][0]))
        for K in range(max(1, ceil(M / A)), R + 1):
            for at in (fullest, rng.randrange(len(held)), rng.randrange(len(held))):
                X = lemma(count_of, M, K, at, A, G, f"{says}, K = {K}, moment {at}")
                if K < G:
                    continue
                n, r = divmod(R, K)
                low = (n * G + min(r, G)) * C + constants.MOMENT * X
                low += constants.MORE_MOVES * again - sums * R
                require(cost >= low, f"{says}, K = {K}, moment {at}: {cost} words, Lemma 4 {low}")
                least = min(least, cost - low)
                tight += 1
        count += 1
    require(tight > count, f"{tight} times only")
    return f"{count} random executions, {tight} moments, {least} words above at least, seed {seed}"


@step(
    "moments-once", how="sampled",
    says="Lemma 4 and all that is counted for it, on executions of class once",
)  # fmt: skip
def moments_once() -> str:
    """With row sums and without."""
    return counted(41, False)


@step("moments-trees", how="sampled", says="the same with sums by random trees")
def moments_trees() -> str:
    """A sum is there if any word of it is."""
    return counted(42, True)


def most_at_once(side: Side, loads: int) -> int:
    """Of one side, how many items are there between two loads."""
    return max(
        (sum(a <= at < b for runs in side.stays.values() for a, b in runs) for at in range(loads)),
        default=0,
    )


def in_game(R: int, C: int, m: int, X: int) -> int:
    """Lemma 4 in the game of whole rows, with X rows there at one moment."""
    n, r = divmod(R, m)
    return (n + constants.ONE_MORE * min(r, 1)) * C + constants.MOMENT * X


@step("moments-game", how="sampled", says="Lemma 4 in the game of whole rows, from both sides")
def moments_game() -> str:
    """Random plays and sweeps, for each the moment at which most rows, or columns, are there."""
    rng, tight = random.Random(43), 0
    count = 4 * constants.EXECUTIONS
    for _ in range(count):
        R, C = rng.randint(2, 12), rng.randint(2, 12)
        m = rng.randint(1, max(R, C))
        *sides, loads = plays.played(R, C, m, rng)
        for side, size, other in zip(sides, (R, C), (C, R), strict=True):
            low = in_game(size, other, m, most_at_once(side, loads))
            require(low <= loads, f"{R} rows, {C} columns, m = {m}: {loads} loads, not {low}")
            tight += low == loads
    require(tight > count // 100, f"it is what is moved {tight} times only")
    for N, m in game.GAMES:  # with no item at all at any moment
        require(in_game(N, N, m, 1) <= game.optimum(N, N, m), f"N = {N}, m = {m}")
    return f"{count} random plays, {tight} times exactly what is loaded, seed 43"
