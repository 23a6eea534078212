"""The same with sums by random trees: many partial sums of each score and of each output entry.

`execute_trees` logs an execution, `tree_segments` cuts it; see `executions`.  `run_trees` has it
move by move as well, with the terms of every partial sum, as proofs/rocq/classes.v would have it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from .executions import Entry, Segment, Task, Word, sizes

Value = tuple[Word, tuple[Task, ...] | None]  # a partial sum, by its terms; None: an input
Move = tuple[Any, ...]


@dataclass
class _Part:
    """A partial sum: of a score ("s", i, j) or of an output entry ("o", i, l)."""

    key: Word
    made: tuple[Task, ...]  # its terms, the last one first
    slow: bool = False  # has slow memory a copy that is up to date?

    @property
    def value(self) -> Value:
        return self.key, self.made


class _Trees:
    """Fast memory of M words in which sums are taken by random trees; logs its transfers.

    Log entries: ("load" | "store" | "gone", word or key of a partial sum, 0), and ("E" | "F",
    product, 1 if its result is a new word, which may overwrite an operand).
    """

    def __init__(self, M: int, rng: random.Random):
        self.M, self.rng = M, rng
        self.overwrites = rng.random() < 0.5
        self.greed = rng.choice([0.2, 0.8, 1.0])  # the chance that an input is evicted first
        self.fresh = rng.choice([0.05, 0.3, 0.8])
        self.merges = rng.choice([0.1, 0.5])
        self.spills = rng.choice([0.0, 0.0, 0.1])
        self.inputs: list[Word] = []
        self.fast: list[_Part] = []
        self.away: list[_Part] = []
        self.log: list[Entry] = []
        self.moves: list[Move] = []

    def parts(self, key: Word, where: list[_Part]) -> list[_Part]:
        return [part for part in where if part.key == key]

    def leave(self, part: _Part) -> None:
        self.store(part)
        self.drop(part)
        self.away.append(part)

    def store(self, part: _Part) -> None:
        if not part.slow:
            self.log.append(("store", part.key, 0))
            self.moves.append(("Write", part.value))
            part.slow = True

    def drop(self, part: _Part) -> None:
        self.fast = [other for other in self.fast if other is not part]
        self.log.append(("gone", part.key, 0))
        self.moves.append(("Free", part.value))

    def merge(self, a: _Part, b: _Part) -> None:
        self.moves.append(("Add", a.key, a.made, b.made, a.value))
        a.made, a.slow = a.made + b.made, False
        self.drop(b)

    def room(self, words: list[Word], pinned: list[_Part]) -> None:
        while len(self.inputs) + len(self.fast) >= self.M:
            inputs = [w for w in self.inputs if w not in words]
            parts = [p for p in self.fast if not any(p is x for x in pinned)]
            if inputs and (not parts or self.rng.random() < self.greed):
                self.forget(self.rng.choice(inputs))
            else:
                self.leave(self.rng.choice(parts))

    def forget(self, word: Word) -> None:
        self.inputs.remove(word)
        self.moves.append(("Free", (word, None)))

    def fetch(self, words: list[Word], pinned: list[_Part]) -> None:
        for word in words:
            if word not in self.inputs:
                self.room(words, pinned)
                self.inputs.append(word)
                self.log.append(("load", word, 0))
                self.moves.append(("Read", (word, None)))

    def load(self, part: _Part, words: list[Word], pinned: list[_Part]) -> None:
        self.room(words, pinned)
        self.away = [other for other in self.away if other is not part]
        self.fast.append(part)
        self.log.append(("load", part.key, 0))
        self.moves.append(("Read", part.value))

    def finish_sum(self, key: Word) -> _Part:
        """The finished sum, in fast memory."""
        while True:
            here, away = self.parts(key, self.fast), self.parts(key, self.away)
            if len(here) > 1:
                self.merge(here[0], here[1])
            elif away:
                self.load(away[0], [], here)
            else:
                return here[0]

    def product(self, kind: str, i: int, j: int, c: int) -> None:
        key = ("s", i, j) if kind == "E" else ("o", i, c)
        words: list[Word] = [("q", i, c), ("k", j, c)] if kind == "E" else [("v", j, c)]
        pinned = [] if kind == "E" else [self.finish_sum(("s", i, j))]
        self.fetch(words, pinned)
        away = self.parts(key, self.away)
        if away and self.rng.random() < 0.3:
            self.load(self.rng.choice(away), words, pinned)
        here, task = self.parts(key, self.fast), (kind, i, j, c)
        if here and self.rng.random() > self.fresh:
            part = self.rng.choice(here)
            self.moves.append(("Mul", task, part.made, part.value))
            part.made, part.slow = (task, *part.made), False
            self.log.append((kind, (i, j, c), 0))
        else:
            over: Value | None = None
            if self.overwrites and self.rng.random() < 0.5:
                self.inputs.remove(words[0])
                over = words[0], None
            else:
                self.room(words, pinned)
            self.moves.append(("Mul", task, (), over))
            self.fast.append(_Part(key, (task,)))
            self.log.append((kind, (i, j, c), 1))
        here = self.parts(key, self.fast)
        if len(self.inputs) + len(self.fast) > self.M:
            raise ValueError(f"more than {self.M} words in fast memory")
        if len(here) > 1 and self.rng.random() < self.merges:
            self.merge(here[0], here[1])
        if self.fast and self.rng.random() < self.spills:
            part = self.rng.choice(self.fast)
            if self.rng.random() < 0.5:
                self.leave(part)
            else:  # stored, and kept
                self.store(part)


def execute_trees(order: list[Task], M: int, rng: random.Random) -> list[Entry]:
    """Carry out the products in order, sums by random trees; M ≥ 3 words."""
    return run_trees(order, M, rng)[0]


def run_trees(order: list[Task], M: int, rng: random.Random) -> tuple[list[Entry], list[Move]]:
    """`execute_trees`, and its moves."""
    _, d_v, terms = sizes(order)
    memory = _Trees(M, rng)
    left = {(t[1], t[2]): d_v for t in order}
    for kind, i, j, c in order:
        memory.product(kind, i, j, c)
        if kind == "F":
            left[i, j] -= 1
            if not left[i, j]:
                for part in memory.parts(("s", i, j), memory.fast):
                    memory.drop(part)
    for i in sorted(terms):
        for c in range(d_v):
            part = memory.finish_sum(("o", i, c))
            if len(part.made) != terms[i]:
                raise ValueError(f"output entry {i}, {c} has {len(part.made)} terms of {terms[i]}")
            memory.leave(part)
    return memory.log, memory.moves


def tree_segments(log: list[Entry], M: int, S: int, made_of: int) -> list[Segment]:
    """Cut a log of `execute_trees` by events and sort each segment's pairs, of d + d_v products.

    Events are the loads and the fresh starts of stays in which something is stored.
    """
    count: dict[Word, int] = {}
    stay: dict[Word, int] = {}  # sum → its present stay
    stays = 0
    storing: set[int] = set()
    begins: dict[int, int] = {}  # entry of the log → the stay that starts fresh there
    for at, (what, item, fresh) in enumerate(log):
        if what == "store":
            storing.add(stay[item])  # type: ignore[index]
            continue
        if what in "EF":
            i, j, c = item
            key: Word = ("s", i, j) if what == "E" else ("o", i, c)
        else:
            key, fresh = item, {"load": 1, "gone": -1}[what]  # type: ignore[assignment]
        if not count.get(key) and fresh > 0:
            stays += 1
            stay[key] = stays
            if what in "EF":
                begins[at] = stays
        count[key] = count.get(key, 0) + fresh
    out = [Segment()]
    count = {}
    paid: set[Word] = set()  # sums present when the segment began, loaded, or begun and stored
    products: list[dict[tuple[int, int], int]] = [{}]

    def close() -> None:
        now, made = out[-1], products[-1]
        now.inner = {pair for pair, n in made.items() if n == made_of}
        now.paid = {pair for pair in made if ("s", *pair) in paid} - now.inner
        now.free = set(made) - now.inner - now.paid
        now.held = {key[1:] for key, n in count.items() if n and key[0] == "s"}

    def event() -> None:
        if out[-1].events == (M + S if len(out) == 1 else S):
            close()
            out.append(Segment())
            products.append({})
            paid.clear()
            paid.update(key for key, n in count.items() if n)
        out[-1].events += 1

    for at, (what, item, fresh) in enumerate(log):
        if what == "load":
            event()
            paid.add(item)  # type: ignore[arg-type]
            count[item] = count.get(item, 0) + 1  # type: ignore[index,arg-type]
        elif what == "gone":
            count[item] -= 1  # type: ignore[index]
        elif what in "EF":
            i, j, c = item
            key = ("s", i, j) if what == "E" else ("o", i, c)
            if begins.get(at) in storing:
                event()
                paid.add(key)
            count[key] = count.get(key, 0) + fresh
            now = out[-1]
            for word in (("q", i, c), ("k", j, c)) if what == "E" else (("v", j, c), ("o", i, c)):
                now.words[word[0]].add(word[1:])
            (now.first if what == "E" else now.second).add((i, j, c))
            products[-1][i, j] = products[-1].get((i, j), 0) + 1
    close()
    return out
