"""A lower bound on the penalties still to come, from chains of operations.

Let u₁, …, u_k be operations of which each must come before the next.  While u_i is done, its
operands and its result take their words of fast memory, and M − |those| words are left for all
other values.  A value *spans* u_i if an operation that touches it (reads or writes it) comes before
u_i in every schedule, and one comes after it in every schedule.  It is then red at u_i, or it has
been evicted since it was touched last.  An eviction lasts until the value is touched again, so one
eviction can serve several boundaries u_i, …, u_j only if no operation that lies between u_i and
u_j in every schedule touches the value.  So the evictions to come are at least the fewest that an
offline cache needs whose places are the boundaries: of intervals of boundaries, drop as few as
possible so that at no boundary more are left than there is room for.  With equal sizes dropping
the interval that ends last is best (Belady 1966).

In a state, operations that are done come before every boundary left, and values that are live and
not red have their eviction behind them: they stay out for nothing until an operation that must come
before the next boundary touches them.

A dirty value has to be stored when it is evicted for the first time.  How many values must be
stored is counted in the same way, over the values that are dirty now or are still to be made, an
interval being all boundaries that the value spans.  The two numbers are of different transfers, so
their sum is a bound.

Values of several sizes: the words that exceed the room at the worst boundary, all free ones left
out, are a bound.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from iosim.pebbling.packed import Packed, split
from iosim.pebbling.state_layout import ChainArrays


def chain_arrays(
    p: Packed, chains: Sequence[Sequence[int]], make: Callable[[Any], Any]
) -> ChainArrays:
    """Chains as `bounding.bound` takes them."""
    K, W = max((len(c) for c in chains), default=1) or 1, p.words
    count = max(1, len(chains))
    lengths = [len(c) for c in chains] or [0]
    ops, room = np.zeros(count * K, np.int64), np.zeros(count * K, np.int64)
    cut: list[list[int]] = [[0] * (count * K) for _ in range(5)]
    ends = [0] * (count * (K + 1) * K)
    last = [0] * (count * (K + 1))
    for c, chain in enumerate(chains):
        k = len(chain)
        until, spans, fresh = [], [], []
        for i, u in enumerate(chain):
            until.append(p.touched_by(p.above[u] | 1 << u))
            spans.append(p.touched_by(p.below[u]))
            before = 0
            if i:
                w = chain[i - 1]
                before = p.touched_by((p.below[w] | 1 << w) & p.above[u])
            fresh.append(before)
            at = c * K + i
            ops[at], room[at] = u, p.rules.M - p.resident_words(u)
            for row, value in zip(
                cut, (until[i], spans[i], p.touched[u], fresh[i], p.above[u]), strict=True
            ):
                row[at] = value
        for i, u in enumerate(chain):
            alive = spans[i] & ~p.touched[u]
            for j in range(i + 1, k):
                goes = alive & (fresh[j] | p.touched[chain[j]] | ~spans[j])
                ends[(c * (K + 1) + j) * K + i] = goes
                alive &= ~goes
            ends[(c * (K + 1) + k) * K + i] = alive
        for j in range(k):
            later = spans[j + 1] if j + 1 < k else 0
            last[c * (K + 1) + j + 1] = spans[j] & ~later
    return ChainArrays(
        len(chains),
        K,
        *(make(x) for x in (np.array(lengths, np.int64), ops, room)),
        *(make(np.array(split(x, W), np.uint64)) for x in (*cut, ends, last)),
    )


def choose(
    p: Packed,
    value: Callable[[Sequence[int]], Sequence[int]],
    seconds: float,
    check: Callable[[], None] = lambda: None,
    most: int = 2,
) -> list[tuple[int, ...]]:
    """Chains whose bounds are large, by local search.

    Args:
        p: the game.
        value: the bounds of a chain in several states, the start among them.
        seconds: how long to look.
        check: called now and then; may raise.
        most: how many chains to choose at most.
    """
    until = time.monotonic() + seconds
    rng = random.Random(0)
    n = p.rules.count
    if not n:
        return []
    tried: dict[tuple[int, ...], Sequence[int]] = {}

    def worth(chain: tuple[int, ...], beside: Sequence[int]) -> int:
        if chain not in tried:
            tried[chain] = value(chain)
        found = tried[chain]
        return sum(max(a, b) for a, b in zip(found, beside, strict=True)) if beside else sum(found)

    def comparable(chain: tuple[int, ...]) -> list[int]:
        return [
            w
            for w in range(n)
            if w not in chain and all(p.above[w] >> u & 1 or p.below[w] >> u & 1 for u in chain)
        ]

    def path() -> tuple[int, ...]:
        chain: tuple[int, ...] = ()
        while more := comparable(chain):
            chain = tuple(sorted((*chain, rng.choice(more)), key=lambda u: p.above[u].bit_count()))
        return chain

    chosen: list[tuple[int, ...]] = []
    beside: Sequence[int] = ()
    for _ in range(most):
        best: tuple[int, ...] = ()
        score = worth((), beside)
        end = time.monotonic() + max(0.0, until - time.monotonic()) / (most - len(chosen))
        while time.monotonic() < end:
            check()
            here = path()
            now = worth(here, beside)
            stale = 0
            while stale < 3 * n and time.monotonic() < end:
                near = here
                if here and rng.random() < 0.5:
                    out = rng.choice(here)
                    near = tuple(u for u in here if u != out)
                if rng.random() < 0.7 and (more := comparable(near)):
                    near = tuple(
                        sorted((*near, rng.choice(more)), key=lambda u: p.above[u].bit_count())
                    )
                there = worth(near, beside)
                stale = 0 if there > now else stale + 1
                if there >= now:
                    here, now = near, there
            if now > score:
                best, score = here, now
        if not best:
            break
        chosen.append(best)
        found = tried[best]
        beside = [max(a, b) for a, b in zip(found, beside, strict=True)] if beside else found
    return chosen
