"""What comes before what in every schedule of a game, as sets of bits."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

from iosim.pebbling.bits import mask, members
from iosim.pebbling.dag import Dag
from iosim.pebbling.operations import operations

# A bound, and the certificate that proves it.
Certified: TypeAlias = tuple[int, dict[str, Any]]


class PartialOrder:
    """Operations and values of a game, by number.

    Attributes:
        into: by value, the operations that write it.
        touch: by value, the operations that read or write it.
        after: by value, those of them that need it as it is: its readers, and of a sum that is
            taken term by term all additions.
        above, below: by operation, those that come before it, and after it, in every schedule.
        hold: by operation, the values that are red when it is done.
        takes: by operation, the words of those of them that are red whichever way it is done.
        words: by value.
    """

    def __init__(self, dag: Dag, M: int, recompute: bool, partial: bool):
        self.dag, self.M, self.recompute = dag, M, recompute
        listed = operations(dag, partial)
        self.ops, self.names, self.into = listed.ops, listed.values, listed.into
        self.n, self.values = len(self.ops), len(self.names)
        self.words = [dag.words_of[v] for v in self.names]
        self.touch, self.after = list(self.into), [0] * self.values
        for u, op in enumerate(self.ops):
            for r in op.reads:
                self.touch[r] |= 1 << u
                self.after[r] |= 1 << u
        for x, writes in enumerate(self.into):
            if writes.bit_count() > 1:
                self.after[x] |= writes
        self.hold = [op.touches for op in self.ops]
        self.takes = [self.total(held) for held in listed.surely_held]
        self.before = [0] * self.n
        for u, op in enumerate(self.ops):
            for r in op.reads:
                self.before[u] |= self.into[r]
        self.above = [0] * self.n
        for u in range(self.n):  # the listing is a legal order
            for w in members(self.before[u]):
                self.above[u] |= self.above[w] | 1 << w
        self.below = [0] * self.n
        for u in range(self.n):
            for w in members(self.above[u]):
                self.below[w] |= 1 << u

    @cached_property
    def compulsory(self) -> int:
        """Words of inputs that are read, and of outputs that are made."""
        outputs = set(self.dag.outputs)
        return sum(
            words
            for v, words, into, after in zip(
                self.names, self.words, self.into, self.after, strict=True
            )
            if (v in outputs if into else after)
        )

    @cached_property
    def stored(self) -> int:
        """Values whose store, once they are evicted, is not a compulsory one."""
        outputs = set(self.dag.outputs)
        return mask(k for k, v in enumerate(self.names) if self.into[k] and v not in outputs)

    @property
    def reloaded_values(self) -> range | list[int]:
        """Values that a later use must load once they are evicted: with recomputation, inputs."""
        if self.recompute:
            return [v for v in range(self.values) if not self.into[v]]
        return range(self.values)

    def spanning(self, u: int) -> list[int]:
        """Values touched before an operation and needed after it in every schedule."""
        return [
            v
            for v in self.reloaded_values
            if not self.hold[u] >> v & 1
            and self.touch[v] & self.above[u]
            and self.after[v] & self.below[u]
        ]

    def name(self, u: int) -> list[str]:
        """An operation for a certificate: its vertex and, of a sum's addition, the term."""
        op = self.ops[u]
        return [op.vertex] if op.term is None else [op.vertex, op.term]

    def total(self, values: int) -> int:
        """The words of a set of values."""
        return sum(self.words[v] for v in members(values))
