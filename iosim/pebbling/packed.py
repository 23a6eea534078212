"""A game without recomputation as flat arrays, forwards or backwards.

The compiled loops (`state_layout.py`) read them.

What a schedule costs can be read from either end.  Take its operations in order and, at each, the
values that are red.  A value's time goes from the first operation that touches it (reads or writes
it) to the last, and it costs a load for each of the gaps in which it is not red, and a store if it
has a gap and was made.  Neither depends on the direction in which one looks.  So a search may as
well do the last operation first: each operation then comes after those that need its result, a
value begins where it is touched last, and may go once its maker has been met.  Where sums are taken
term by term it depends: a partial sum costs a store for each gap before which it has grown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iosim.pebbling.bits import members
from iosim.pebbling.rules import Rules
from iosim.pebbling.state_layout import GameArrays

WIDTH = 64
FULL = 2**64 - 1


def split(sets: Iterable[int], words: int) -> list[int]:
    """Sets of any size as consecutive words of 64 bits."""
    return [x >> WIDTH * k & FULL for x in sets for k in range(words)]


@dataclass(frozen=True)
class SweepStep:
    """One step of a schedule, by number: what is evicted, and operations done one by one."""

    evicted: int
    ops: tuple[int, ...]


@dataclass
class Packed:
    """Operations and the values that a search has to decide on, by number.

    Inputs that one operation reads are not among the values: they come just before it and leave
    with it, so that they only take `extra` words of fast memory for its time.

    Args:
        rules: the game.
        back: whether to look from the end; of sums that are taken term by term it may not be so.

    Attributes:
        tracked: the number of each value in the rules.
        words: of 64 bits that a set takes.
    """

    rules: Rules
    back: bool = False
    tracked: list[int] = field(init=False)
    words: int = field(init=False)

    def __post_init__(self) -> None:
        r = self.rules
        n = len(r.values)
        self.tracked = [
            v
            for v in range(n)
            if (r.users[v] or r.into[v]) and not (r.inputs >> v & 1 and r.users[v].bit_count() == 1)
        ]
        number = {v: k for k, v in enumerate(self.tracked)}
        self.number = number
        self.words = max(1, -(-max(len(r.ops), len(self.tracked)) // WIDTH))
        weights = r.weights
        self.weight = [weights[v] for v in self.tracked]
        self.target = [number[op.target] for op in r.ops]
        self.reads = [sum(1 << number[v] for v in op.reads if v in number) for op in r.ops]
        self.extra = [sum(weights[v] for v in op.reads if v not in number) for op in r.ops]
        self.before = list(r.before)
        if self.back:
            assert self.reversible
            self.before = [
                sum(1 << u for u, first in enumerate(r.before) if first >> w & 1)
                for w in range(len(r.ops))
            ]
        self.into = [r.into[v] for v in self.tracked]
        self.users = [r.users[v] for v in self.tracked]
        self.stores = [r.outputs >> v & 1 for v in self.tracked]
        self.made = [int(bool(r.into[v]) and not r.outputs >> v & 1) for v in self.tracked]
        self.sinks = [int(s and not u) for s, u in zip(self.stores, self.users, strict=True)]
        # Operations that must have come before each, in any number of steps, and that follow it.
        self.above: list[int] = []
        for before in self.before:
            self.above.append(before)
        changed = True
        while changed:
            changed = False
            for u, before in enumerate(self.above):
                more = before
                for w in members(before):
                    more |= self.above[w]
                if more != before:
                    self.above[u], changed = more, True
        self.below = [
            sum(1 << w for w in range(r.count) if self.above[w] >> u & 1) for u in range(len(r.ops))
        ]
        self.touched = [self.reads[u] | 1 << self.target[u] for u in range(len(r.ops))]

    @property
    def reversible(self) -> bool:
        """Whether every value is made at once, so that the end is as good as the beginning."""
        r = self.rules
        return len(r.ops) == r.count and all(into.bit_count() <= 1 for into in r.into)

    def resident_words(self, u: int) -> int:
        """Words of fast memory that an operation takes, whichever way it is done."""
        r = self.rules
        return sum(r.weights[v] for v in members(r.surely_held[u]))

    def touched_by(self, ops: int) -> int:
        """The values that some operation of a set reads or writes."""
        out = 0
        for u in members(ops):
            out |= self.touched[u]
        return out

    def arrays(self, make: Callable[[Any], Any]) -> GameArrays:
        """The game as the loops take it."""
        W, r = self.words, self.rules
        using = [i | u for i, u in zip(self.into, self.users, strict=True)]
        reads, into, users, stores = self.reads, self.into, self.users, self.stores
        touching = [i or u for i, u in zip(into, users, strict=True)]
        if self.back:  # an operation finds its result as it finds its operands
            reads, users, touching = self.touched, using, using
            into, stores = [0] * len(using), [0] * len(using)
        numbers = (self.target, self.extra, self.weight, stores, self.made, self.sinks)
        sets = (self.before, reads, list(r.does), into, users, touching, using)
        arrays = [np.array(x or [0], np.int64) for x in numbers]
        arrays += [np.array(split(x, W) or [0], np.uint64) for x in sets]
        one = np.array([1 << k for k in range(64)], np.uint64)
        unit = all(w == 1 for w in r.weights)
        counts = len(r.ops), r.count, len(self.weight)
        return GameArrays(W, r.M, unit, self.back, *counts, *map(make, (*arrays, one)))
