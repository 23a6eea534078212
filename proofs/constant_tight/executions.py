"""Random executions of attention, word by word, and their segments.

`execute` carries out the products in a given order with a fast memory of M words and logs each
load, store and product; `segments` cuts such a log as the proof does and counts each segment.
Neither knows anything of the bound.  Rows and columns of all heads are numbered through.  A product
of the first kind is one of d of its pair, one of the second kind one of d_v.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

Word = tuple[str, int, int]
Task = tuple[str, int, int, int]  # ("E", i, j, c) or ("F", i, j, l)
# ("load" | "store", word, run) or ("E" | "F", (i, j, c), run of the score)
Entry = tuple[str, tuple[int, ...] | Word, int]


class _Memory:
    """Fast memory of M words with an evicting policy; logs its transfers."""

    def __init__(self, order: Sequence[Task], M: int, rng: random.Random, policy: str, drop: float):
        self.d, self.d_v, self.terms = sizes(order)
        self.M, self.rng, self.policy, self.drop = M, rng, policy, drop
        self.fast: dict[Word, bool] = {}  # word → changed since it was last stored
        self.slow: set[Word] = set()
        self.log: list[Entry] = []
        self.clock = 0
        self.used: dict[Word, int] = {}
        self.next_use: dict[Word, list[int]] = {}
        self.run: dict[tuple[int, int], int] = {}  # pair → its present run
        self.made: dict[tuple[int, int], set[int]] = {}  # pair → columns in its present run
        self.done: dict[tuple[int, int], int] = {}  # pair → second-kind products done
        self.sums: dict[tuple[int, int], int] = {}  # output entry → terms in
        self.runs = 0

    def run_of(self, word: Word) -> int:
        return self.run.get(word[1:], -1) if word[0] == "s" else -1

    def evict(self, pinned: set[Word]) -> None:
        free = [w for w in self.fast if w not in pinned]
        if self.policy == "random":
            victim = self.rng.choice(free)
        elif self.policy == "lru":
            victim = min(free, key=lambda w: self.used.get(w, -1))
        else:

            def later(w: Word) -> int:
                uses = self.next_use.get(w, [])
                while uses and uses[-1] <= self.clock:
                    uses.pop()
                return uses[-1] if uses else 1 << 30

            victim = max(free, key=later)
        self.leave(victim)

    def leave(self, word: Word) -> None:
        """Take a word out of fast memory, storing it if it is still needed and not yet stored."""
        changed = self.fast.pop(word)
        if word[0] == "s":
            pair = word[1:]
            if self.done[pair] == self.d_v or not changed:
                return
            if self.rng.random() < self.drop and word not in self.slow:
                self.made[pair] = set()  # forgotten: a new run will begin from nothing
                del self.run[pair]
                return
        elif word[0] != "o" or not changed:
            return
        self.log.append(("store", word, self.run_of(word)))
        self.slow.add(word)

    def need(self, words: list[Word]) -> None:
        pinned = set(words)
        for word in words:
            self.used[word] = self.clock
            if word in self.fast:
                continue
            if len(self.fast) >= self.M:
                self.evict(pinned)
            if word in self.slow or word[0] in "qkv":
                self.log.append(("load", word, self.run_of(word)))
                self.fast[word] = False
            else:
                self.fast[word] = True

    def first_kind(self, i: int, j: int, c: int) -> None:
        if c in self.made.setdefault((i, j), set()):
            return
        self.done.setdefault((i, j), 0)
        if (i, j) not in self.run:
            self.run[i, j] = self.runs
            self.runs += 1
        # The run may be dropped only before it is pinned: need() pins it first.
        self.need([("s", i, j), ("q", i, c), ("k", j, c)])
        self.fast["s", i, j] = True
        self.made[i, j].add(c)
        self.log.append(("E", (i, j, c), self.run[i, j]))

    def second_kind(self, i: int, j: int, m: int) -> None:
        while len(self.made.get((i, j), ())) < self.d:
            for c in range(self.d):
                self.first_kind(i, j, c)
        self.need([("s", i, j), ("v", j, m), ("o", i, m)])
        self.fast["o", i, m] = True
        self.log.append(("F", (i, j, m), self.run[i, j]))
        self.sums[i, m] = self.sums.get((i, m), 0) + 1
        self.done[i, j] += 1
        if self.done[i, j] == self.d_v:
            self.fast.pop(("s", i, j))
        if self.sums[i, m] == self.terms[i] and self.rng.random() < 0.5:
            self.leave(("o", i, m))


def sizes(order: Sequence[Task]) -> tuple[int, int, Counter[int]]:
    """d and d_v, and the number of pairs of each row, of all products in some order."""
    d, d_v = (1 + max(c for kind, _, _, c in order if kind == k) for k in "EF")
    return d, d_v, Counter(i for kind, i, _, c in order if kind == "F" and c == 0)


def execute(
    order: list[Task], M: int, rng: random.Random, policy: str, drop: float = 0.0
) -> list[Entry]:
    """Carry out the products in order (scores are made when missing); M ≥ 3 words.

    `drop` is the chance that a score is forgotten rather than stored: 0 gives the class `once`.
    """
    memory = _Memory(order, M, rng, policy, drop)
    uses: dict[Word, list[int]] = {}
    for at, (kind, i, j, c) in enumerate(order, start=1):
        for w in (("s", i, j), *((("q", i, c), ("k", j, c)) if kind == "E" else ())):
            uses.setdefault(w, []).append(at)
        if kind == "F":
            for w in (("v", j, c), ("o", i, c)):
                uses.setdefault(w, []).append(at)
    memory.next_use = {w: at[::-1] for w, at in uses.items()}
    for at, (kind, i, j, c) in enumerate(order, start=1):
        memory.clock = at
        (memory.first_kind if kind == "E" else memory.second_kind)(i, j, c)
    for word in [w for w in memory.fast if w[0] == "o"]:
        memory.leave(word)
    return memory.log


Head = tuple[range, range]  # its rows, its columns


def dense(N: int, H: int) -> list[Head]:
    """H heads of N rows and N columns."""
    return [(range(h, h + N), range(h, h + N)) for h in range(0, H * N, N)]


def random_order(N: int, d: int, rng: random.Random, H: int = 1) -> list[Task]:
    """`order_of` H dense heads."""
    return order_of(dense(N, H), d, d, rng)


def order_of(
    heads: Sequence[Head],
    d: int,
    d_v: int,
    rng: random.Random,
    seen: Container[tuple[int, int]] | None = None,
) -> list[Task]:
    """All products in a valid order: shuffled, or blocked with random tile sizes and loops.

    Heads have equally many rows, and equally many columns; of their pairs those in `seen` count,
    if it is given.
    """
    style = rng.randrange(4)
    pairs = [
        (i, j)
        for rows, columns in heads
        for i in rows
        for j in columns
        if seen is None or (i, j) in seen
    ]
    if style == 0:
        first = [("E", i, j, c) for i, j in pairs for c in range(d)]
        rng.shuffle(first)
        left = dict.fromkeys(pairs, d)
        pool: list[Task] = []
        order: list[Task] = []
        for task in first:
            order.append(task)
            left[task[1:3]] -= 1  # type: ignore[index]
            if not left[task[1:3]]:  # type: ignore[index]
                pool += [("F", task[1], task[2], m) for m in range(d_v)]
            while pool and rng.random() < 0.6:
                order.append(pool.pop(rng.randrange(len(pool))))
        rng.shuffle(pool)
        return order + pool
    I, J = map(len, heads[0])
    b_i, b_j, b_c = rng.randint(1, I), rng.randint(1, J), rng.randint(1, d)
    there = set(pairs)
    blocks = [
        [(i, j) for i in rows[r : r + b_i] for j in columns[k : k + b_j] if (i, j) in there]
        for rows, columns in heads
        for r in range(0, I, b_i)
        for k in range(0, J, b_j)
    ]
    blocks = [block for block in blocks if block]
    if rng.random() < 0.5:
        blocks.sort(key=lambda block: block[0][1])

    def product(kind: str, block: list[tuple[int, int]]) -> list[Task]:
        width = d if kind == "E" else d_v
        if rng.random() < 0.5:
            parts = [range(c, min(width, c + b_c)) for c in range(0, width, b_c)]
            return [(kind, i, j, c) for cs in parts for i, j in block for c in cs]
        return [(kind, i, j, c) for i, j in block for c in range(width)]

    if style == 1:  # one pass, block by block
        return [t for b in blocks for kind in "EF" for t in product(kind, b)]
    if style == 2:  # two passes
        return [t for kind in "EF" for b in blocks for t in product(kind, b)]
    # pair by pair within blocks: the streaming schedules
    return [
        t
        for b in blocks
        for i, j in b
        for t in [*[("E", i, j, c) for c in range(d)], *[("F", i, j, m) for m in range(d_v)]]
    ]


@dataclass
class Segment:
    """What one segment touches; words and products as sets."""

    words: dict[str, set[tuple[int, ...]]] = field(
        default_factory=lambda: {kind: set() for kind in "qkvo"}
    )
    first: set[tuple[int, ...]] = field(default_factory=set)
    second: set[tuple[int, ...]] = field(default_factory=set)
    runs: dict[int, tuple[int, int]] = field(default_factory=dict)  # run → pair
    loaded: set[int] = field(default_factory=set)  # runs of which a word was loaded
    events: int = 0
    inner: set[tuple[int, int]] = field(default_factory=set)
    paid: set[tuple[int, int]] = field(default_factory=set)
    free: set[tuple[int, int]] = field(default_factory=set)
    held: set[tuple[int, int]] = field(default_factory=set)  # trees: pairs present at its end

    @property
    def counts(self) -> tuple[int, ...]:
        """q, k, v, o, C, a, y, E, F."""
        sets = (*(self.words[x] for x in "qkvo"), self.inner, self.paid, self.free)
        return tuple(map(len, (*sets, self.first, self.second)))


def segments(log: list[Entry], M: int, S: int) -> list[Segment]:
    """Cut a log by events (loads, starts of spilled runs) and sort each segment's pairs.

    Products of runs that are forgotten before they are used count for nothing.
    """
    useful = {run for what, _, run in log if what == "F"}
    log = [e for e in log if e[0] != "E" or e[2] in useful]
    spilled = {run for what, _, run in log if what == "store" and run >= 0}
    out = [Segment()]
    started: dict[int, int] = {}
    outputs: set[tuple[int, ...]] = set()
    last: dict[int, int] = {}

    def event(n: int) -> None:
        if n and out[-1].events + n > (M + S if len(out) == 1 else S):
            out.append(Segment())
        out[-1].events += n

    for what, item, run in log:
        if what == "load":
            event(1)
            if run >= 0:
                out[-1].loaded.add(run)
        elif what in "EF":
            i, j, c = item
            if run not in started:
                event(int(run in spilled))
                started[run] = len(out)
            if what == "F" and (i, c) not in outputs:
                event(1)
                outputs.add((i, c))
            now = out[-1]
            for word in (("q", i, c), ("k", j, c)) if what == "E" else (("v", j, c), ("o", i, c)):
                now.words[word[0]].add(word[1:])
            (now.first if what == "E" else now.second).add((i, j, c))
            now.runs[run] = (i, j)
            last[run] = len(out)
    for t, segment in enumerate(out, start=1):
        crossing = {r for r in segment.runs if started[r] < t or last[r] > t}
        for r in crossing:
            if r in spilled or started[r] < t:
                segment.paid.add(segment.runs[r])
        segment.free = {segment.runs[r] for r in crossing} - segment.paid
        segment.inner = set(segment.runs.values()) - segment.paid - segment.free
    return out
