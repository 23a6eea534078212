"""The same where products may be executed again and sums are taken by any trees.

`execute_free` logs an execution, `free_segments` cuts it; see `executions`.  A word is a set of
executed products, so that it is known which of them reach O.  `run_free` has it move by move as
well, as `tree_executions.run_trees` does.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .executions import Entry, Task, Word, sizes
from .tree_executions import Move, Value


@dataclass(eq=False)
class _Sum:
    """A partial sum: its terms, and the products that made it, by number."""

    key: Word
    made: dict[int, int]  # term → number of the product
    slow: bool = False  # has slow memory a copy?

    @property
    def value(self) -> Value:
        """Its terms, the last one first."""
        _, i, j = self.key
        if self.key[0] == "s":
            return self.key, tuple(("E", i, j, c) for c in reversed(self.made))
        return self.key, tuple(("F", i, k, j) for k in reversed(self.made))


class _Free:
    """Fast memory of M words; partial sums are stored, dropped, loaded more than once, made again.

    Log entries: ("load" | "store" | "gone", word or key of a sum, number of words in fast memory
    that the sum gains), and ("E" | "F", product, 1 if its result is a new word).
    """

    def __init__(self, d: int, d_v: int, seen: set[tuple[int, int]], M: int, rng: random.Random):
        self.d, self.d_v, self.seen, self.M, self.rng = d, d_v, seen, M, rng
        self.greed = rng.choice([0.2, 0.8, 1.0])  # the chance that an input is evicted first
        self.forget = rng.choice([0.2, 0.5, 0.9])  # that a sum is dropped, not stored
        self.fresh = rng.choice([0.05, 0.3, 0.8])  # that a product starts a word
        self.inputs: list[Word] = []
        self.fast: list[_Sum] = []
        self.away: list[_Sum] = []
        self.log: list[Entry] = []
        self.moves: list[Move] = []
        self.parents: dict[int, tuple[int, ...]] = {}  # second product → the first ones it used
        self.useful: set[int] = set()
        self.at: dict[int, int] = {}  # entry of the log → number of the product
        self.finished: set[Word] = set()
        self.loads_left = 60 * len(seen) * (d + d_v)

    def room(self, words: list[Word], pinned: list[_Sum]) -> None:
        while len(self.inputs) + len(self.fast) >= self.M:
            inputs = [w for w in self.inputs if w not in words]
            sums = [s for s in self.fast if s not in pinned]
            if inputs and (not sums or self.rng.random() < self.greed):
                word = self.rng.choice(inputs)
                self.inputs.remove(word)
                self.moves.append(("Free", (word, None)))
            else:
                self.leave(self.rng.choice(sums))

    def leave(self, one: _Sum, keep: bool = False) -> None:
        left = self.loads_left > 0
        if not one.slow and (keep or not left or self.rng.random() > self.forget):
            self.log.append(("store", one.key, 0))
            self.moves.append(("Write", one.value))
            one.slow = True
        if one.slow:
            self.away.append(_Sum(one.key, dict(one.made), slow=True))
        self.drop(one)

    def drop(self, one: _Sum) -> None:
        self.fast.remove(one)
        self.log.append(("gone", one.key, -1))
        self.moves.append(("Free", one.value))

    def fetch(self, words: list[Word], pinned: list[_Sum]) -> None:
        for word in words:
            if word not in self.inputs:
                self.room(words, pinned)
                self.inputs.append(word)
                self.log.append(("load", word, 0))
                self.moves.append(("Read", (word, None)))

    def load(self, one: _Sum, pinned: list[_Sum]) -> _Sum:
        self.room([], pinned)
        copy = _Sum(one.key, dict(one.made), slow=True)
        self.fast.append(copy)
        self.log.append(("load", one.key, 1))
        self.moves.append(("Read", one.value))
        self.loads_left -= 1
        return copy

    def product(self, kind: str, i: int, j: int, c: int, pinned: list[_Sum]) -> _Sum:
        """Execute a product; its term goes to a partial sum that lacks it, or to a new one."""
        score = [self.finish_sum(("s", i, j), self.d, pinned)] if kind == "F" else []
        key = ("s", i, j) if kind == "E" else ("o", i, c)
        term = c if kind == "E" else j
        words: list[Word] = [("q", i, c), ("k", j, c)] if kind == "E" else [("v", j, c)]
        self.fetch(words, pinned + score)
        number = len(self.at)
        here = [s for s in self.fast if s.key == key and term not in s.made]
        if here and self.rng.random() > self.fresh:
            one, new = self.rng.choice(here), 0
            self.moves.append(("Mul", (kind, i, j, c), one.value[1], one.value))
            one.made[term], one.slow = number, False
        else:
            self.room(words, pinned + score)
            one, new = _Sum(key, {term: number}), 1
            self.moves.append(("Mul", (kind, i, j, c), (), None))
            self.fast.append(one)
        self.at[len(self.log)] = number
        self.log.append((kind, (i, j, c), new))
        if score:
            self.parents[number] = tuple(score[0].made.values())
        return one

    def finish_sum(self, key: Word, of: int | None, pinned: list[_Sum]) -> _Sum:
        """The finished sum in fast memory: parts merged, loaded, and made where terms lack."""
        terms = set(range(self.d)) if of else {j for i, j in self.seen if i == key[1]}
        have = [s for s in self.fast if s.key == key]
        one = max(have, key=lambda s: len(s.made)) if have else None
        while True:
            lacking = terms - set(one.made) if one else terms
            if one and not lacking:
                return one
            parts = [
                s
                for s in (*self.fast, *self.away)
                if s.key == key and s is not one and set(s.made) <= lacking
            ]
            holding = pinned + ([one] if one else [])
            if parts and self.rng.random() < 0.7:
                part = self.rng.choice(parts)
                if part not in self.fast:
                    part = self.load(part, holding)
                if one is None:
                    one = part
                else:
                    self.merge(one, part)
                continue
            term = self.rng.choice(sorted(lacking))
            kind, product = ("E", (key[1], key[2], term)) if of else ("F", (key[1], term, key[2]))
            made = self.product(kind, *product, holding)
            if one is None:
                one = made
            elif made is not one and made in self.fast and not set(made.made) & set(one.made):
                self.merge(one, made)

    def merge(self, one: _Sum, part: _Sum) -> None:
        self.moves.append(("Add", one.key, part.value[1], one.value[1], one.value))
        one.made, one.slow = one.made | part.made, False
        self.drop(part)


@dataclass
class FreeSegment:
    """What one segment touches; products and words as sets."""

    words: dict[str, set[tuple[int, ...]]] = field(
        default_factory=lambda: {kind: set() for kind in "qkvo"}
    )
    first: set[tuple[int, ...]] = field(default_factory=set)
    second: set[tuple[int, ...]] = field(default_factory=set)
    events: int = 0
    paid: set[tuple[int, int]] = field(default_factory=set)
    whole: set[tuple[int, int]] = field(default_factory=set)

    @property
    def counts(self) -> tuple[int, ...]:
        """q, k, v, o, a, C, F."""
        sets = (*(self.words[x] for x in "qkvo"), self.paid, self.whole, self.second)
        return tuple(map(len, sets))


def execute_free(order: list[Task], M: int, rng: random.Random) -> tuple[list[Entry], set[int]]:
    """Carry out the products, then what was dropped of them; M ≥ 5 words.

    Returns the log and the places in it of the products that reach O.
    """
    return run_free(order, M, rng)[:2]


def run_free(
    order: list[Task], M: int, rng: random.Random
) -> tuple[list[Entry], set[int], list[Move]]:
    """`execute_free`, and its moves."""
    d, d_v, _ = sizes(order)
    seen = {task[1:3] for task in order}
    memory = _Free(d, d_v, seen, M, rng)
    for kind, i, j, c in order:
        memory.product(kind, i, j, c, [])
    for i in sorted({i for i, _ in seen}):
        for c in range(d_v):
            done = memory.finish_sum(("o", i, c), None, [])
            memory.useful |= set(done.made.values())
            if not done.slow:
                memory.log.append(("store", done.key, 0))
                memory.moves.append(("Write", done.value))
            memory.drop(done)
    for number in [n for n in memory.useful if n in memory.parents]:
        memory.useful |= set(memory.parents[number])
    useful = {at for at, number in memory.at.items() if number in memory.useful}
    return memory.log, useful, memory.moves


def free_segments(log: list[Entry], useful: set[int], M: int, S: int) -> list[FreeSegment]:
    """Cut by events: loads, and fresh starts of stays of output entries in which one stores."""
    count: dict[Word, int] = {}
    stay: dict[Word, int] = {}
    begins: dict[int, int] = {}
    storing: set[int] = set()

    def key_of(what: str, item: tuple[int, ...]) -> Word:
        return ("s", item[0], item[1]) if what == "E" else ("o", item[0], item[2])

    for at, (what, item, gain) in enumerate(log):
        key: Word = key_of(what, item) if what in "EF" else item  # type: ignore[arg-type,assignment]
        if what == "store":
            storing.add(stay[key])
        elif gain > 0 and not count.get(key):
            stay[key] = at
            if what == "F":
                begins[at] = at
        count[key] = count.get(key, 0) + gain
    out, count = [FreeSegment()], {}
    there: set[Word] = set()  # sums present when the segment began, or loaded in it
    for at, (what, item, gain) in enumerate(log):
        key = key_of(what, item) if what in "EF" else item  # type: ignore[arg-type,assignment]
        if what == "load" or begins.get(at, -1) in storing:
            if out[-1].events == (M + S if len(out) == 1 else S):
                out.append(FreeSegment())
                there = {held for held, n in count.items() if n}
            out[-1].events += 1
        if what == "load":
            there.add(key)
        count[key] = count.get(key, 0) + gain
        if what not in "EF":
            continue
        i, j, c = item
        now = out[-1]
        if what == "E":
            now.words["q"].add((i, c))
            now.words["k"].add((j, c))
            now.first.add((i, j, c))
        elif at in useful:
            now.words["v"].add((j, c))
            now.words["o"].add((i, c))
            now.second.add((i, j, c))
            (now.paid if ("s", i, j) in there else now.whole).add((i, j))
    return out
