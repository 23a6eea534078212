"""Random executions of the backward pass, word by word, and their segments.

`execute` carries out products in a given order with a fast memory of M words and logs each load,
store, drop, product and use; `segments` cuts such a log as the proof does.  Neither knows
of the bounds.
Rows and columns of all heads are numbered consecutively.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

Pair = tuple[int, int]
Word = tuple[str, int, int]
Task = tuple[str, int, int, int]  # kind of product, i, j, column
Entry = tuple[str, tuple[int, ...] | Word, int]  # what, of what, run (or -1)

# Kind → the word of the pair, and those of its row and its column; the last one is added to.
WORDS = {
    "S": ("s", "q", "k"),
    "P": ("t", "g", "v"),
    "V": ("s", "g", "dv"),
    "Q": ("t", "dq", "k"),
    "K": ("t", "q", "dk"),
}
OUTPUTS = ("dq", "dk", "dv")
OF_ROWS = ("q", "g", "dq")
MAKES = {"s": "S", "t": "P"}  # the products that a word of the pair sums up


@dataclass
class Execution:
    """A fast memory of M ≥ 5 words; `drop` is the chance that a sum is forgotten, not stored."""

    d: int
    d_v: int
    M: int
    rng: random.Random
    drop: float = 0.0
    fast: dict[Word, bool] = field(default_factory=dict)  # word → changed since it was stored
    slow: set[Word] = field(default_factory=set)
    log: list[Entry] = field(default_factory=list)
    run: dict[Word, int] = field(default_factory=dict)  # word of a pair → its present run
    made: dict[Word, set[int]] = field(default_factory=dict)  # products in it
    weights: set[Pair] = field(default_factory=set)  # pairs whose t is ds by now
    done: Counter[Word] = field(default_factory=Counter)  # products that used s or ds
    runs: int = 0

    def dead(self, word: Word) -> bool:
        """Whether no use of a word of a pair is left."""
        kind, i, j = word
        if kind == "s":
            return self.done[word] == self.d_v and (i, j) in self.weights
        return self.done[word] == 2 * self.d

    def leave(self, word: Word) -> None:
        """Take a word out of fast memory: stored, forgotten, or dropped where it isn't needed."""
        changed = self.fast.pop(word)
        if word[0] in MAKES:
            if not changed or self.dead(word):
                self.log.append(("drop", word, self.run.get(word, -1)))
                return
            if self.rng.random() < self.drop and word not in self.slow:
                self.made[word] = set()
                del self.run[word]
                if word[0] == "t":
                    self.weights.discard(word[1:])
                return
        elif word[0] not in OUTPUTS or not changed:
            self.log.append(("drop", word, -1))
            return
        self.log.append(("store", word, self.run.get(word, -1)))
        self.slow.add(word)

    def need(self, *words: Word) -> None:
        """Bring words into fast memory, loaded or started."""
        for word in words:
            if word in self.fast:
                continue
            if len(self.fast) >= self.M:
                self.leave(self.rng.choice([w for w in self.fast if w not in words]))
            if word[0] in MAKES and word not in self.run:
                self.run[word], self.made[word] = self.runs, set()
                self.runs += 1
            here = word in self.slow or word[0] in ("q", "k", "v", "g")
            if here:
                self.log.append(("load", word, self.run.get(word, -1)))
            self.fast[word] = not here

    def execute(self, kind: str, i: int, j: int, c: int, *also: Word) -> None:
        """One product, with other words kept in fast memory."""
        one, row, column = WORDS[kind]
        word, ends = (one, i, j), ((row, i, c), (column, j, c))
        self.need(word, *ends, *also)
        for changed in (*(e for e in ends if e[0] in OUTPUTS), *((word,) if kind in "SP" else ())):
            self.fast[changed] = True
        if kind in "SP":
            self.made[word].add(c)
        else:
            self.done[word] += 1
        self.log.append((kind, (i, j, c), self.run[word]))

    def finish(self, word: Word, *also: Word) -> None:
        """Bring a finished word of a pair into fast memory, with others kept."""
        kind, width = MAKES[word[0]], self.d if word[0] == "s" else self.d_v
        while word not in self.fast or len(self.made[word]) < width:
            self.need(word, *also)
            for c in [c for c in range(width) if c not in self.made[word]]:
                self.execute(kind, *word[1:], c, *also)

    def weight(self, i: int, j: int) -> None:
        """Bring ds into fast memory: made there from s and dp, if it isn't yet."""
        s, t = ("s", i, j), ("t", i, j)
        while t not in self.fast or (i, j) not in self.weights:
            self.finish(t)
            if (i, j) in self.weights:
                return
            self.finish(s, t)
            self.finish(t, s)
            self.log.append(("use", (i, j, 0), self.run[s]))
            self.fast[t] = True
            self.weights.add((i, j))

    def perform(self, task: Task) -> None:
        """One product of the order, and whatever it needs that isn't there."""
        kind, i, j, c = task
        if kind in "SP":
            if c not in self.made.get((WORDS[kind][0], i, j), ()):
                self.execute(*task)
            return
        if kind == "V":
            self.finish(("s", i, j))
        else:
            self.weight(i, j)
        self.execute(*task)

    def close(self) -> list[Entry]:
        """Store the outputs that are left; the log."""
        for word in [w for w in self.fast if w[0] in OUTPUTS]:
            self.leave(word)
        return self.log


def random_order(pairs: Sequence[Pair], d: int, d_v: int, rng: random.Random) -> list[Task]:
    """All products in a valid order: by blocks of random size in some passes, or shuffled."""
    widths = {"S": d, "P": d_v, "V": d_v, "Q": d, "K": d}
    if rng.random() < 0.3:  # as soon as a pair's sums are there, its other products may follow
        order: list[Task] = []
        waiting = [[(x, i, j, c) for x in "SP" for c in range(widths[x])] for i, j in pairs]
        later = [[(x, i, j, c) for x in "VQK" for c in range(widths[x])] for i, j in pairs]
        for tasks in (*waiting, *later):
            rng.shuffle(tasks)
        open_ = list(range(len(pairs)))
        while open_:
            k = rng.choice(open_)
            tasks = waiting[k] or later[k]
            order.append(tasks.pop())
            if not (waiting[k] or later[k]):
                open_.remove(k)
        return order
    b_i, b_j = rng.randint(1, 4), rng.randint(1, 4)
    blocks: dict[Pair, list[Pair]] = {}
    for i, j in pairs:
        blocks.setdefault((i // b_i, j // b_j), []).append((i, j))
    keys = sorted(blocks, key=(lambda b: b) if rng.random() < 0.5 else (lambda b: b[::-1]))
    passes = rng.choice(["SPVQK", "SPV QK", "S P V Q K", "SV PQK", "SP VQK", "SPVK Q"]).split()
    columns_first = rng.random() < 0.5

    def products(kind: str, block: Iterable[Pair]) -> list[Task]:
        if columns_first:
            return [(kind, i, j, c) for c in range(widths[kind]) for i, j in block]
        return [(kind, i, j, c) for i, j in block for c in range(widths[kind])]

    if rng.random() < 0.4:  # pair by pair within blocks
        return [
            t
            for kinds in passes
            for b in keys
            for pair in blocks[b]
            for x in kinds
            for t in products(x, [pair])
        ]
    return [t for kinds in passes for b in keys for x in kinds for t in products(x, blocks[b])]


@dataclass
class Segment:
    """What one segment touches and does; words, products and pairs as sets."""

    words: set[Word] = field(default_factory=set)
    products: dict[str, set[tuple[int, ...]]] = field(
        default_factory=lambda: {kind: set() for kind in WORDS}
    )
    visits: dict[int, tuple[str, int, int]] = field(default_factory=dict)  # run → its word
    loaded: set[int] = field(default_factory=set)
    events: int = 0
    paid: set[Word] = field(default_factory=set)  # words s or t of pairs with a paid visit
    free: set[Word] = field(default_factory=set)
    inner: set[Word] = field(default_factory=set)

    def count(self, name: str) -> int:
        """How many words of an array are touched."""
        return sum(word[0] == name for word in self.words)


def segments(log: list[Entry], M: int, S: int) -> list[Segment]:
    """Cut a log by events: loads, and starts of spilled runs and of output accumulators.

    Products of runs that come to nothing count for nothing.
    """
    useful = {run for what, _, run in log if what in ("V", "Q", "K", "use")}
    log = [e for e in log if e[0] not in ("S", "P") or e[2] in useful]
    spilled = {run for what, _, run in log if what == "store" and run >= 0}
    out = [Segment()]
    started: dict[int, int] = {}
    last: dict[int, int] = {}
    outputs: set[Word] = set()

    def event() -> None:
        if out[-1].events + 1 > (M + S if len(out) == 1 else S):
            out.append(Segment())
        out[-1].events += 1

    for what, item, run in log:
        if what in ("store", "drop"):
            continue
        if what == "load":
            event()
            continue
        i, j, c = cast(tuple[int, int, int], item)
        if run not in started:
            if run in spilled:
                event()
            started[run] = len(out)
        if what == "use":
            out[-1].visits[run] = ("s", i, j)
        else:
            one, row, column = WORDS[what]
            ends: tuple[Word, ...] = ((row, i, c), (column, j, c))
            for word in ends:
                if word[0] in OUTPUTS and word not in outputs:
                    event()
                    outputs.add(word)
            out[-1].words.update(ends)
            out[-1].products[what].add((i, j, c))
            out[-1].visits[run] = (one, i, j)
        last[run] = len(out)
    for t, segment in enumerate(out, start=1):
        crossing = {r for r in segment.visits if started[r] < t or last[r] > t}
        segment.paid = {segment.visits[r] for r in crossing if r in spilled or started[r] < t}
        segment.free = {segment.visits[r] for r in crossing} - segment.paid
        segment.inner = set(segment.visits.values()) - segment.paid - segment.free
    return out


def tallies(segment: Segment) -> tuple[Counter[int], Counter[int], Counter[Pair]]:
    """Words touched by row and by column, and products V, Q and K by pair."""
    rows: Counter[int] = Counter(w[1] for w in segment.words if w[0] in OF_ROWS)
    columns: Counter[int] = Counter(w[1] for w in segment.words if w[0] not in OF_ROWS)
    products = itertools.chain.from_iterable(segment.products[x] for x in "VQK")
    return rows, columns, Counter((p[0], p[1]) for p in products)
