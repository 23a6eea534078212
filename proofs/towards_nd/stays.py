"""Theorem 5: stays of row and column words, on simulated executions and in the game of whole rows.

What the proof counts is counted here step by step, from what is in fast memory at each step.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from math import floor

from iosim.report.proof import require, step

from ..constant_tight.executions import Entry, Task, Word, _Memory, order_of, sizes
from ..constant_tight.tree_executions import _Trees
from . import constants, game, plays
from .plays import Item, Side, Stay


class Recorded(_Memory):
    """The simulated machine; its log says as well when a word leaves."""

    def leave(self, word: Word) -> None:
        """Also log that the word is gone."""
        super().leave(word)
        self.log.append(("gone", word, 0))

    def second_kind(self, i: int, j: int, m: int) -> None:
        """A score that has been used up is gone."""
        super().second_kind(i, j, m)
        if ("s", i, j) not in self.fast:
            self.log.append(("gone", ("s", i, j), 0))


def recorded(order: list[Task], M: int, rng: random.Random, policy: str) -> list[Entry]:
    """An execution of class `once` with M words, its products in order."""
    memory = Recorded(order, M, rng, policy, 0.0)
    uses: dict[Word, list[int]] = {}
    for at, (kind, i, j, c) in enumerate(order, start=1):
        for word in operands(kind, i, j, c):
            uses.setdefault(word, []).append(at)
    memory.next_use = {w: at[::-1] for w, at in uses.items()}
    for at, (kind, i, j, c) in enumerate(order, start=1):
        memory.clock = at
        (memory.first_kind if kind == "E" else memory.second_kind)(i, j, c)
    for word in [w for w in memory.fast if w[0] == "o"]:
        memory.leave(word)
    return memory.log


class RecordedTrees(_Trees):
    """The same with sums by random trees; its log says as well when a word of Q, K or V leaves."""

    def forget(self, word: Word) -> None:
        """Also log that the word is gone."""
        super().forget(word)
        self.log.append(("gone", word, 0))

    def product(self, kind: str, i: int, j: int, c: int) -> None:
        """A result may overwrite an operand: then it is gone at once."""
        begin = len(self.log)
        super().product(kind, i, j, c)
        _, row, column = operands(kind, i, j, c)
        at = next(x for x in range(begin, len(self.log)) if self.log[x][0] == kind)
        for word in (row, column) if kind == "E" else (column,):
            if word not in self.inputs:
                self.log.insert(at + 1, ("gone", word, 0))


def recorded_trees(order: list[Task], M: int, rng: random.Random) -> list[Entry]:
    """An execution of class `trees`."""
    memory, (_, d_v, terms) = RecordedTrees(M, rng), sizes(order)
    left = {(t[1], t[2]): d_v for t in order}
    for kind, i, j, c in order:
        memory.product(kind, i, j, c)
        left[i, j] -= kind == "F"
        if not left[i, j]:
            for part in memory.parts(("s", i, j), memory.fast):
                memory.drop(part)
    for i, c in itertools.product(sorted(terms), range(d_v)):
        memory.leave(memory.finish_sum(("o", i, c)))
    return memory.log


def operands(kind: str, i: int, j: int, c: int) -> tuple[Word, Word, Word]:
    """The words of a product: of its pair, of its row, of its column."""
    row, column = ("q", "k") if kind == "E" else ("o", "v")
    return ("s", i, j), (row, i, c), (column, j, c)


def runs_of(present: Collection[int]) -> list[Stay]:
    """Maximal runs of steps that follow each other."""
    found: list[Stay] = []
    for at in sorted(present):
        if found and found[-1][1] == at - 1:
            found[-1] = (found[-1][0], at)
        else:
            found.append((at, at))
    return found


class Counted:
    """An execution, step by step; with `sums` the last column of V is ones, which are not words."""

    def __init__(self, log: Sequence[Entry], d: int, d_v: int, sums: int, trees: bool) -> None:
        self.log, self.sums, self.trees, self.each = log, sums, trees, d + d_v
        self.ones = d_v - 1 if sums else -1
        self.width = (d + d_v, d + d_v - sums)
        self.held: list[frozenset[Item]] = []  # before a step or after it
        self.after: list[frozenset[Item]] = []
        self.made: dict[tuple[int, int], dict[int, tuple[Item, ...]]] = {}  # pair → step → words
        now: Counter[Item] = Counter()  # how many words of a sum are there, by trees
        there: frozenset[Item] = frozenset()
        for at, (what, item, new) in enumerate(log):
            before, changed = there, item
            if what == "load":
                now[item] += 1  # type: ignore[index]
            elif what == "gone":
                now[item] -= 1  # type: ignore[index]
            elif what in "EF":
                i, j, c = (int(x) for x in item)
                pair, *others = operands(what, i, j, c)
                changed = pair if what == "E" else others[0]
                now[changed] += new if trees else not now[changed]
                self.made.setdefault((i, j), {})[at] = tuple(x for x in others if self.counts(x))
            require(now[changed] >= 0, f"{item} is gone twice")  # type: ignore[index]
            if now[changed] and self.counts(changed):  # type: ignore[arg-type,index]
                there = before | {changed}  # type: ignore[assignment]
            else:
                there = before - {changed}
            self.after.append(there)
            self.held.append(before | there)

    def counts(self, word: Item) -> bool:
        """Whether it is a word: ones are none."""
        return not (self.sums and word[0] == "v" and word[2] == self.ones)

    def moved(self, how: Sequence[str] = ("load", "store")) -> Counter[Item]:
        """Loads and stores of each word."""
        return Counter(
            item
            for what, item, _ in self.log  # type: ignore[misc]
            if what in how and self.counts(item)  # type: ignore[arg-type]
        )

    @functools.cached_property
    def spilled(self) -> set[Item]:
        """What is stored and loaded."""
        return set(self.moved(["store"])) & set(self.moved(["load"]))

    def side(self, which: int, busy_from: float | None = None) -> Side:
        """Rows (0) or columns (1): stays that have a product, busy ones filled up.

        Busy are those with so many pairs in fast memory, Theorem 5's number unless it is given.
        """
        kinds, width = ("qo", "kv")[which], self.width[which]
        most = constants.CROSSED * width - 2
        if busy_from is not None:
            most = constants.ENDS * (busy_from - 1)
        least = constants.BUSY * width if busy_from is None else busy_from
        present: dict[Item, set[int]] = {}
        products: dict[Item, dict[int, tuple[int, int]]] = {}
        for pair, steps in self.made.items():
            for at, words in steps.items():
                for word in words:
                    if word[0] in kinds:
                        products.setdefault(word, {})[at] = pair
        of: dict[int, set[Item]] = {}
        for word in products:
            of.setdefault(word[1], set()).add(word)
        for at, held in enumerate(self.held):
            alive = Counter([word[1 + which] for word in held if word[0] == "s"])
            busy = [of[x] for x, n in alive.items() if n >= least and x in of]
            for word in (products.keys() & held).union(*busy):
                present.setdefault(word, set()).add(at)
        side = Side(width, {}, {})
        for word, steps in products.items():
            for a, b in runs_of(present[word]):
                pairs = {pair for at, pair in steps.items() if a <= at <= b}
                if pairs:
                    side.stays.setdefault(word, []).append((a, b))
                    whole = {p for p in pairs if all(a <= at <= b for at in self.made[p])}
                    side.met[word, (a, b)] = len(whole)
                    self.few_cross(word, (a, b), pairs - whole, most)
        return side

    def few_cross(self, word: Item, stay: Stay, bad: set[tuple[int, int]], most: float) -> None:
        """Of the pairs that a stay meets in part few keep a word in fast memory at its ends."""
        spilled = self.spilled
        kept = {p for p in bad if ("s", *p) not in spilled}
        require(len(kept) <= most, f"{word} in steps {stay}: {len(kept)} pairs, not {most}")


def leavings(rows: Side, columns: Side, M: int, says: str) -> int:
    """The lemma of stays, for rows that leave and for columns that do; how often it says something.

    M is what is in fast memory at most at a step.
    """
    ends = sorted(
        {at for s in (rows, columns) for runs in s.stays.values() for x in runs for at in x}
    )
    there = {id(side): side.there(ends) for side in (rows, columns)}
    words = {at: sum(own[at] for own in there.values()) for at in ends}
    fullest = max(ends, key=words.__getitem__)
    most = words[fullest]
    require(most <= M, f"{says}: stays of {most} words at step {fullest}, M = {M}")
    said = 0
    for leave, claim in ((rows, columns), (columns, rows)):
        free = leave.number() - constants.AT_ONCE * there[id(leave)][fullest]
        widest = constants.WIDEST * max(there[id(claim)].values())
        rates = (Fraction(1), Fraction(5, 4), Fraction(3, 2), Fraction(2))
        for wide, rate in itertools.product({most, int(widest)} - {0}, rates):
            room = [leave.words * g - most + wide for g in claim.met.values()]
            claims = sum(max(0, floor(x / (rate * wide))) for x in room)
            require(
                constants.CLAIM * rate * claims <= free,
                f"{says}: {claims} claims of {rate} on {free} stays",
            )
            said += claims > 0
    return said


def executions(seed: int, count: int, trees: bool) -> Iterator[tuple[str, int, Counted]]:
    """Random executions: many rows of few words, so that columns are busy and words come again."""
    rng = random.Random(seed)
    for draw in range(count):
        N, K, d, d_v = rng.randint(2, 9), rng.randint(2, 9), rng.randint(1, 2), rng.randint(1, 2)
        sums = int(d_v > 1 and rng.random() < 0.5)
        order = order_of([(range(N), range(K))], d, d_v, rng)
        if draw % 3 == 0:  # rows of scores at a time, each column's words one after the other
            order = by_blocks(N, K, d, d_v, rng)
        M = rng.randint(3, (N + K) * (d + d_v))
        if trees:
            log = recorded_trees(order, M, rng)
        else:
            log = recorded(order, M, rng, rng.choice(["lru", "random", "belady"]))
        says = f"N = {N}, N_k = {K}, d = {d}, d_v = {d_v}, M = {M}, draw {draw} of seed {seed}"
        yield says, M, Counted(log, d, d_v, sums, trees)


def by_blocks(N: int, K: int, d: int, d_v: int, rng: random.Random) -> list[Task]:
    """Blocks of rows or columns stay while the others stream past, word by word."""
    side = rng.randrange(2)
    size, other = ((N, K), (K, N))[side]
    width = rng.randint(1, size)
    order: list[Task] = []
    for first in range(0, size, width):
        for y in range(other):
            block = range(first, min(size, first + width))
            pairs = [(x, y) if side == 0 else (y, x) for x in block]
            order += [("E", *p, c) for c in range(d) for p in pairs]
            order += [("F", *p, c) for c in range(d_v) for p in pairs]
    return order


def check_execution(seed: int, trees: bool) -> str:
    """Stays, loads and stores of each word, pairs met in part, claims and leavings."""
    said = count = again = 0
    for says, M, run in executions(seed, 2 * constants.EXECUTIONS, trees):
        rows, columns = run.side(0), run.side(1)
        moved = run.moved()
        for side in (rows, columns):
            for word, runs in side.stays.items():
                n = len(runs)
                if word[0] == "o" and not trees:
                    n = constants.STORED * n - 1
                require(moved[word] >= n, f"{says}: {word} moves {moved[word]} times, {runs}")
                again += len(runs) > 1
        said += leavings(rows, columns, M + constants.RESULT, says)
        count += 1
    require(said > count // 3 and again > count, f"{said} claims, {again} words that come again")
    return f"{count} random executions, {said} claims, {again} words that come again, seed {seed}"


@step(
    "stays-once",
    how="sampled",
    says="Lemma 3 and what goes before it, on executions of class once, with row sums and without",
)
def stays_once() -> str:
    """Scores and entries of O with one accumulator each."""
    return check_execution(31, False)


@step("stays-trees", how="sampled", says="the same with sums by random trees")
def stays_trees() -> str:
    """A sum is there if any word of it is."""
    return check_execution(34, True)


def at_least(R: int, C: int, held: int) -> Fraction:
    """Theorem 5 in this game: a word is a whole row, and nothing is left out."""
    best = Fraction(R + C)
    for q, p in itertools.product(range(1, R + 1), range(1, C + 1)):
        u, v = Fraction(q * held, R), Fraction(p * held, C)
        if max(u, v) <= 1:
            saved = q * (C - held) + p * (R - held) + min(u, v) * constants.SAME_MOMENT * held
            best = max(best, R + C + saved / (1 + max(u, v)))
    return best


@step(
    "stays-game",
    how="sampled",
    says="Lemma 3 in the game of whole rows, and Theorem 5 against optima and random plays",
)
def stays_game() -> str:
    """m items and the one that is loaded are there at a time."""
    rng, said = random.Random(32), 0
    count = 4 * constants.EXECUTIONS
    for _ in range(count):
        R, C = rng.randint(2, 12), rng.randint(2, 12)
        m = rng.randint(1, max(R, C))
        rows, columns, loads = plays.played(R, C, m, rng)
        says = f"{R} rows, {C} columns, m = {m}"
        said += leavings(rows, columns, m + 1, says)
        require(at_least(R, C, m + 1) <= loads, f"{says}: {loads} loads")
    require(said > count // 3, f"{said} claims only")
    found = []
    for N, m in game.GAMES:
        best, low = game.optimum(N, N, m), at_least(N, N, m + 1)
        require(low <= best, f"N = {N}, m = {m}: {float(low)} > {best}")
        found.append(f"{N}/{m}: {float(low):.2f} of {best}")
    steps = game.staircase(5, 2) - 2
    five = plays.five()
    require(at_least(5, 5, 3) <= five < steps, f"{five} loads, the steps say {float(steps)}")
    return (
        f"{count} random plays, {said} claims, seed 32; N/m: {', '.join(found)}; "
        f"5/2 in {five}, where the steps say {float(steps):.2f}"
    )
