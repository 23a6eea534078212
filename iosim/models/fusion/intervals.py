"""The best partition of operators in a row, where each reads what the one before it writes.

There a set without gaps is an interval, intervals can always run one after another, and the best
partition follows from the best ones of all that is after: dynamic programming, from the last
operator to the first.  Three things keep the intervals few:

- no interval grows over two operators that are never in one kernel, or over rows that don't fit;
- where an interval that ends at such places moves each of its tensors once, no partition of it
  moves less, and none has fewer kernels: it is one kernel;
- intervals that differ in names alone are counted once.

So a chain of n operators takes time in proportion to n where kernels are short, or where all of it
is one kernel.

Only `best` calls it.  ``tests/models/test_fusion_scale.py`` compares it with the search for any
graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from iosim.base.progress import track
from iosim.models.fusion.groups import Groups, may
from iosim.models.fusion.kernels import FusedKernel
from iosim.models.fusion.members import Illegal, Members
from iosim.models.fusion.online import chains


def in_a_row(groups: Groups) -> bool:
    """Whether each operator comes directly after the one before it, and nothing else waits."""
    needs = groups.needs
    return not groups.graph.waits and all(k - 1 in needs[k] for k in range(1, groups.n))


def best_in_a_row(groups: Groups) -> list[FusedKernel]:
    """The kernels of the best partition.

    Raises InputError where too many intervals may be kernels.
    """
    row = _Row(groups)
    n = groups.n
    # By the first operator: words and kernels from there on, and where the first kernel ends.
    best: dict[int, tuple[int, int, int]] = {n: (0, 0, n)}
    segments = list(row.segments())
    for start, stop in track(segments[::-1], "parts of a chain"):
        words = row.words(start, stop)
        if words is not None and words == row.once(start, stop):
            rest = best[stop]
            best[start] = rest[0] + words, rest[1] + 1, stop
            continue
        for first in reversed(range(start, stop)):
            options = []
            for end in row.candidate_stops(first, stop):
                if (words := row.words(first, end)) is not None:
                    options.append((best[end][0] + words, best[end][1] + 1, -end))
            total, kernels, end = min(options)
            best[first] = total, kernels, -end
    found, first = [], 0
    while first < n:
        end = best[first][2]
        made = groups.kernel(range(first, end))
        assert made is not None
        found.append(made)
        first = end
    return found


@dataclass
class _Row:
    groups: Groups
    known: dict[Any, int | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ops = self.groups.graph.operators
        place = self.groups.graph.place
        self.attention: dict[int, int] = {}
        if self.groups.online_softmax:
            for chain in chains(self.groups.graph, self.ops):
                first, last = place[chain[0].name], place[chain[-1].name]
                if last - first == len(chain) - 1:
                    self.attention[first] = last + 1

    def segments(self) -> Iterator[tuple[int, int]]:
        """Intervals over whose ends no kernel reaches."""
        inside = {k for a, b in self.attention.items() for k in range(a + 1, b)}
        start = 0
        for k in track(range(1, self.groups.n + 1), "operators of a chain"):
            if k == self.groups.n or not (k in inside or self._grows(k - 1, k)):
                yield start, k
                start = k

    def candidate_stops(self, first: int, stop: int) -> Iterator[int]:
        """Where intervals that may be kernels end, from the shortest."""
        beyond = self.attention.get(first, 0)
        yield first + 1
        for k in range(first + 1, stop):
            if not self._grows(first, k):
                break
            yield k + 1
            beyond = beyond if beyond > k + 1 else 0
        if beyond:
            yield beyond

    def _grows(self, first: int, k: int) -> bool:
        """Whether an interval that ends before an operator may have it, too."""
        self.groups.count(k - first)
        if not all(may(self.ops[j], self.ops[k], True) for j in range(first, k)):
            return False
        part = Members(self.groups.graph, self.ops[first : k + 1])
        try:
            return fits(part, self.groups.least)
        except Illegal:
            return False

    def once(self, first: int, end: int) -> int:
        """The words of an interval's tensors, each once."""
        names = {op.name for op in self.ops[first:end]}
        return sum(sum(each.values()) for each in self.groups.graph.part(names))

    def words(self, first: int, end: int) -> int | None:
        """What an interval moves as one kernel; None where it is none."""
        part = Members(self.groups.graph, self.ops[first:end])
        key = None if self.groups.graph.views else _signature(part)
        if key is None or key not in self.known:
            self.groups.count(end - first)
            made = self.groups.kernel(range(first, end))
            self.known[key] = None if made is None else made.words
        return self.known[key]


def fits(part: Members, M: int) -> bool:
    """Whether whole rows of each tensor fit that an operator with rows touches.

    Where they don't, they don't with more operators either: rows only get more axes.  Raises
    Illegal where axes of one operator become one.
    """
    rows = {op.name: part.row(op) for op in part.operators if part.axis}
    every = frozenset().union(*rows.values())
    touched = {t.name for op in part.operators if rows.get(op.name) for t in op.tensors}
    return all(part.words(part.has[x] & every) <= M for x in touched)


def _signature(part: Members) -> Any:
    """All that words depend on: operators without their names, and which tensors are stored."""
    number: dict[str, int] = {}
    found = []
    for op in part.operators:
        sides = [
            tuple((number.setdefault(t.name, len(number)), t.axes) for t in side)
            for side in (op.reads, op.writes)
        ]
        found.append((op.kind.name, op.over, op.settings, *sides))
    return tuple(found), frozenset(number[x] for x in part.stored)
