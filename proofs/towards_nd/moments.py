"""Lemma 4: row words at one moment on top of columns, in executions and the game of whole rows."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf, sqrt

from iosim.report.proof import require, step

from . import constants, game, plays
from .plays import Item, Side
from .stays import Counted, executions, operands

Pair = tuple[int, int]


@dataclass(frozen=True)
class Product:
    """What is multiplied: its pair, its word of the row, and that of the column if it has one."""

    pair: Pair
    row: Item
    column: Item | None


@dataclass
class Moments:
    """An execution between its steps: what is in fast memory, and what each product is of.

    Attributes:
        held: words of rows, of columns and of pairs after each number of steps.
        made: the product of each step, None where nothing is multiplied.
        runs: how many stays each row or column word has, and how many of them with a product.
    """

    held: list[tuple[set[Item], set[Item], set[Item]]]
    made: list[Product | None]
    runs: dict[Item, tuple[int, int]]


def moments(run: Counted) -> Moments:
    """What is there between steps; what goes does so in the step before."""
    held: list[tuple[set[Item], set[Item], set[Item]]] = [(set(), set(), set())]
    made: list[Product | None] = []
    for (what, item, _), there in zip(run.log, run.after, strict=True):
        if what != "gone":
            made.append(None)
            held.append(held[-1])
        if what in ("E", "F"):
            i, j, c = (int(x) for x in item)
            _, row, column = operands(what, i, j, c)
            made[-1] = Product((i, j), row, column if run.counts(column) else None)
        rows, columns, pairs = ({x for x in there if x[0] in kind} for kind in ("qo", "kv", "s"))
        held[-1] = rows, columns, pairs
    used = [{x.row, x.column} - {None} if x else set() for x in made]
    return Moments(held, made, stays_of(held, used))


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


def by_row_words(made: Sequence[Product | None], H: int) -> list[int]:
    """Where parts begin in which H row words have a product, but the last one with H or fewer."""
    cuts: list[int] = []
    touched: set[Item] = set()
    for at, product in enumerate(made):
        if product is None:
            continue
        if product.row not in touched and len(touched) == H:
            cuts.append(at)
            touched = set()
        touched.add(product.row)
    return cuts


def row_words(made: Sequence[Product | None]) -> set[Item]:
    """The row words that have a product."""
    return {x.row for x in made if x}


def around(made: list[Product | None], at: int, H: int) -> list[int]:
    """Cuts from the beginning and from the end towards one moment, and there if it is needed."""
    left = by_row_words(made[:at], H)
    right = [len(made) - x for x in by_row_words(made[at:][::-1], H)][::-1]
    begin, end = (left or [0])[-1], (right or [len(made)])[0]
    return [*left, *([at] if len(row_words(made[begin:end])) > H else []), *right]


def least_paid(A: int, G: int, R: int, H: int, sums: int) -> float:
    """Lemma 4: what a column pays."""
    n, D = divmod(A * R, H)
    one_more = min(constants.ONE_MORE * (n + 1) * G, n * G + constants.ROOTS * sqrt(D) - sums)
    return min(one_more, constants.ROOTS * sqrt(A * R) - sums)


def lemma(run: Moments, H: int, at: int, low: float, says: str) -> None:
    """All that Lemma 4 counts, with parts of H row words around one moment."""
    cuts = around(run.made, at, H)
    edges = [0, *cuts, len(run.made)]
    parts = [[x for x in run.made[a:b] if x] for a, b in itertools.pairwise(edges)]
    touched = [len(row_words(part)) for part in parts]
    require(max(touched) <= H, f"{says}: {touched} row words in parts")
    middle = next(t for t in range(len(parts)) if edges[t] <= at <= edges[t + 1])
    there = len(run.held[at][0])
    others = sum(touched) - touched[middle]
    if at in cuts:  # the two parts next to the moment are one here
        there = max(there, len(row_words(run.made[edges[middle] : edges[middle + 2]])))
        others -= touched[middle + 1]
    carried = sum(len(run.held[x][0]) for x in cuts if x != at)
    stays = sum(n for word, (n, _) in run.runs.items() if word[0] in "qo")
    least = constants.MOMENT * there + others - carried
    require(stays >= least, f"{says}: {stays} stays of row words, not {least}")
    within: dict[Pair, set[int]] = {}
    paid: Counter[int] = Counter()
    for t, part in enumerate(parts):
        paid.update(word[1] for word in {x.column for x in part if x.column})
        for x in part:
            within.setdefault(x.pair, set()).add(t)
    paid.update(j for (_, j), where in within.items() if len(where) > 1)
    require(min(paid.values()) >= low - 1e-9, f"{says}: a column pays {min(paid.values())}, {low}")


def words(run: Counted, runs: dict[Item, tuple[int, int]], says: str) -> int:
    """What each row word moves in addition to its stays; how many entries of O are stored twice."""
    moved, again = run.moved(), 0
    for word, (n, useful) in runs.items():
        least = fewest(run, word, n, useful)
        require(moved[word] >= least, f"{says}: {word} moves {moved[word]} times, not {least}")
        again += word[0] == "o" and useful > 1 and not of_sum(run, word)
    return again


def of_sum(run: Counted, word: Item) -> bool:
    """Whether a word is a row's sum."""
    return bool(run.sums and word[0] == "o" and word[2] == run.ones)


def fewest(run: Counted, word: Item, stays: int, useful: int) -> int:
    """What a row word moves at least that has so many stays, and so many with a product."""
    if of_sum(run, word):
        return stays - 1
    return stays + constants.MORE_MOVES * (word[0] == "o" and useful > 1)


def check_execution(seed: int, trees: bool) -> str:
    """The moment at which rows have most, and some others, with parts of some sizes allowed."""
    rng, checked, count, nearest = random.Random(seed), 0, 0, 10.0**9
    for says, M, run in executions(seed, constants.EXECUTIONS, trees):
        A, G = run.width
        between = moments(run)
        held = between.held
        require(all(sum(map(len, three)) <= M for three in held), f"{says}: more than fits")
        again = words(run, between.runs, says)
        pairs = {x.pair for x in between.made if x}
        R, C = len({i for i, _ in pairs}), len({j for _, j in pairs})
        cost = sum(run.moved().values())
        fullest = max(range(len(held)), key=lambda at: len(held[at][0]))
        for H in {M, *(rng.randint(M, max(M, A * R)) for _ in range(3))}:
            for at in (fullest, rng.randrange(len(held)), rng.randrange(len(held))):
                here = f"{says}, H = {H}, moment {at}"
                paid = least_paid(A, G, R, H, run.sums)
                lemma(between, H, at, paid, here)
                low = paid * C + constants.MOMENT * len(held[at][0])
                low += constants.MORE_MOVES * again - run.sums * R
                require(cost >= low - 1e-9, f"{here}: {cost} words, Lemma 4 says {low}")
                nearest = min(nearest, cost - low)
                checked += 1
        count += 1
    return f"{count} executions, {checked} moments, at the nearest {nearest:.1f} words, seed {seed}"


@step(
    "moments-once",
    how="sampled",
    says="Lemma 4 and all that is counted for it, on executions of class once",
)
def moments_once() -> str:
    """With row sums and without."""
    return check_execution(41, False)


@step("moments-trees", how="sampled", says="the same with sums by random trees")
def moments_trees() -> str:
    """A sum is there if any word of it is."""
    return check_execution(42, True)


def one_stay(run: Counted, M: int, B: int, says: str) -> tuple[int, int]:
    """Theorem 6's own stays: rows with B pairs are busy, columns never; claims, words with one."""
    (A, G), held = run.width, M + constants.RESULT
    rows, columns = run.side(0, B), run.side(1, inf)
    at_once = max(len(words) for words, _, _ in moments(run).held)
    x = at_once + 1 + Fraction(A * held, B)
    ends = sorted(
        {
            at
            for side in (rows, columns)
            for runs in side.stays.values()
            for stay in runs
            for at in stay
        }
    )
    row_words_at, column_words_at = rows.there(ends), columns.there(ends)
    full = max(ends, key=lambda at: row_words_at[at] + column_words_at[at])
    most = row_words_at[full] + column_words_at[full]
    require(most <= held, f"{says}, B = {B}: {most} words at step {full}, not {held}")
    widest = max(row_words_at.values())
    require(constants.WIDEST * x >= widest, f"{says}, B = {B}: {widest} row words, not {x}")
    C, spilled = len({j for _, j in run.made}), Counter(w[1] for w in run.spilled if w[0] == "s")
    moved, single = run.moved(), 0
    for word, runs in rows.stays.items():
        if len(runs) == 1:
            least = C - constants.ENDS * (B - 1) - spilled[int(word[1])]
            found = rows.met[word, runs[0]]
            require(found >= least, f"{says}, B = {B}: {word} meets {found} whole, not {least}")
            single += least > 0
        else:
            least = fewest(run, word, len(runs), len(runs))
            require(moved[word] >= least, f"{says}: {word} moves {moved[word]} times, not {least}")
    free, said = columns.number() - column_words_at[full], 0
    for rate in (Fraction(1), Fraction(5, 4), Fraction(2)):
        claims = sum(max(0, floor((G * g - most + x) / (rate * x))) for g in rows.met.values())
        require(
            constants.CLAIM * rate * claims <= free, f"{says}, B = {B}: {claims} claims, {free}"
        )
        said += claims > 0
    return said, single


@step("one-stay", how="sampled", says="Theorem 6: what row words with one stay meet, and claim")
def one_stays() -> str:
    """Executions of both classes, with B from A to A + 6."""
    rng, said, single, count = random.Random(44), 0, 0, 0
    for seed, trees in ((45, False), (46, True)):
        for says, M, run in executions(seed, constants.EXECUTIONS, trees):
            B = rng.randint(run.width[0], run.width[0] + 6)
            found = one_stay(run, M, B, says)
            said, single, count = said + found[0], single + found[1], count + 1
    require(min(said, single) > count // 6, f"{said} claims, {single} words with one stay")
    return f"{count} random executions, {said} claims, {single} words with one stay, seeds 45, 46"


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
