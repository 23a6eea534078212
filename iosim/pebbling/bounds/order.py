"""What comes before what in every schedule of a game, as sets of bits."""

from __future__ import annotations

from functools import cached_property

from iosim.pebbling.annealing import operations
from iosim.pebbling.bits import mask, members
from iosim.pebbling.dag import Dag


class PartialOrder:
    """Operations and values of a game, by number.

    Attributes:
        into: by value, the operations that write it.
        touch: by value, the operations that read or write it.
        after: by value, those of them that need it as it is: its readers, and of a sum that is
            taken term by term all additions.
        above, below: by operation, those that come before it, and after it, in every schedule.
        hold: by operation, the values that are red when it is done.
        words: by value.
    """

    def __init__(self, dag: Dag, M: int, recompute: bool, partial: bool):
        self.dag, self.M, self.recompute = dag, M, recompute
        self.ops = ops = operations(dag, partial)
        self.n, self.values = len(ops.reads), len(ops.values)
        self.words = [dag.words_of[v] for v in ops.values]
        self.into, self.touch = [0] * self.values, [0] * self.values
        self.after = [0] * self.values
        for u, (reads, x) in enumerate(zip(ops.reads, ops.target, strict=True)):
            self.into[x] |= 1 << u
            self.touch[x] |= 1 << u
            for r in reads:
                self.touch[r] |= 1 << u
                self.after[r] |= 1 << u
        for x, writes in enumerate(self.into):
            if writes.bit_count() > 1:
                self.after[x] |= writes
        self.hold = [mask((*reads, x)) for reads, x in zip(ops.reads, ops.target, strict=True)]
        self.before = [mask(w for r in reads for w in members(self.into[r])) for reads in ops.reads]
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
            words for v, words, into, after in
            zip(self.ops.values, self.words, self.into, self.after, strict=True)
            if (v in outputs if into else after)
        )  # fmt: skip

    @cached_property
    def stored(self) -> int:
        """Values whose store, once they are evicted, is no compulsory one."""
        outputs = set(self.dag.outputs)
        return mask(k for k, v in enumerate(self.ops.values) if self.into[k] and v not in outputs)

    @property
    def counted(self) -> range | list[int]:
        """Values that a later use must load once they are evicted: with recomputation, inputs."""
        if self.recompute:
            return [v for v in range(self.values) if not self.into[v]]
        return range(self.values)

    def spanning(self, u: int) -> list[int]:
        """Values touched before an operation and needed after it in every schedule."""
        return [
            v for v in self.counted
            if not self.hold[u] >> v & 1 and self.touch[v] & self.above[u]
            and self.after[v] & self.below[u]
        ]  # fmt: skip

    def name(self, u: int) -> list[str]:
        """An operation for a certificate: its vertex and, of a sum's addition, the term."""
        term = self.ops.term[u]
        return [self.ops.vertex[u]] if term is None else [self.ops.vertex[u], term]

    def total(self, values: int) -> int:
        """The words of a set of values."""
        return sum(self.words[v] for v in members(values))
