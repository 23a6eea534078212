"""All legal kernels of a graph: sets of operators that hang together and leave no path out and in.

Sets grow by an operator that shares a tensor with them, and by all that is between it and them.
Every connected set without such gaps is met that way.  A set is left alone, with all that contain
it, where no larger one can be legal: two axes of one operator become one, or two of its operators
can never be together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from iosim.base.errors import InputError
from iosim.base.progress import count_done
from iosim.models.fusion.kernels import FusedKernel, alone, connected, recomputed
from iosim.models.fusion.members import Illegal, Members, fusable
from iosim.models.fusion.online import chains, recomputations
from iosim.models.layers.graph import Graph
from iosim.models.operators import Operator
from iosim.models.operators.contraction import CONTRACTION, product

# Sets of operators that are looked at before a graph is called too large, and their operators.
MOST = 50_000
LOOKED = 1_000_000


@dataclass(frozen=True)
class Groups:
    """Sets of a graph's operators, as bits: operator k is bit k.

    Attributes:
        graph: the graph.
        M: words of fast memory.
        online_softmax: whether attention may be a kernel.
        within: words of a second boundary, at which each kernel fits and moves no more than its
            operators alone, too: of an SM, where M is what the chip holds.
    """

    graph: Graph
    M: int
    online_softmax: bool = True
    within: int | None = None
    looked: list[int] = field(default_factory=lambda: [0], repr=False, compare=False)

    @cached_property
    def legal(self) -> dict[int, FusedKernel]:
        """Every legal kernel that is connected and moves no more than its operators alone.

        Raises InputError for a graph with too many.
        """
        found: dict[int, FusedKernel] = {}
        with count_done(None, "sets of operators") as report:
            for k, mask in enumerate(self.sets()):
                report(k)
                if (made := self.kernel(list(bits(mask)))) is not None:
                    found[mask] = made
        return found

    def kernel(self, places: Sequence[int]) -> FusedKernel | None:
        """Operators that hang together as one kernel.

        None where it is illegal, or moves more than its operators alone.
        """
        part = Members(self.graph, tuple(self.graph.operators[k] for k in places))
        made = self._build_kernels(places, lambda M: (connected(part, M, self.online_softmax),))
        return made[0] if made else None

    def count(self, operators: int) -> None:
        """Count operators that were looked at, in all sets.

        Raises InputError where they are too many.
        """
        self.looked[0] += operators
        if self.looked[0] > LOOKED:
            raise self.too_many(f"sets with {LOOKED:,} operators in all were looked at")

    def too_many(self, why: str) -> InputError:
        """What says that a search stops, and why."""
        return InputError(
            f"{self.graph.name}: too many sets of its {self.n:,} operators may be kernels ({why}): "
            "search its layers one at a time, or give the kernels by --fusion FILE.json"
        )

    @cached_property
    def pairs(self) -> dict[int, tuple[FusedKernel, ...]]:
        """Two kernels, by the operators of both: attention, and its gradients with P again.

        They come together or not at all, and move no more than their operators alone.
        """
        found: dict[int, tuple[FusedKernel, ...]] = {}
        for both in recomputations(self.graph) if self.online_softmax else ():
            places = sorted(self.graph.place[x] for part in both.parts for x in part.names)
            if made := self._build_kernels(places, partial(recomputed, both)):
                found[_mask(places)] = made
        return found

    @cached_property
    def choices(self) -> dict[int, tuple[FusedKernel, ...]]:
        """What a partition is made of, by its operators: legal kernels, and pairs of them."""
        return {mask: (one,) for mask, one in self.legal.items()} | self.pairs

    def _build_kernels(
        self, places: Sequence[int], of: Callable[[int], tuple[FusedKernel, ...]]
    ) -> tuple[FusedKernel, ...]:
        """Kernels of some operators; none where they are illegal or move more than these alone."""
        try:
            made = [of(M) for M in self._alone]
        except Illegal:
            return ()
        for kernels, words in zip(made, self._alone.values(), strict=True):
            if sum(one.words for one in kernels) > sum(words[k] for k in places):
                return ()
        return made[0]

    @cached_property
    def _alone(self) -> dict[int, list[int]]:
        """By the words of each fast memory: what each operator moves by itself."""
        memories = [self.M, *([] if self.within is None else [self.within])]
        parts = [Members(self.graph, (op,)) for op in self.graph.operators]
        return {M: [alone(part, M).words for part in parts] for M in memories}

    @property
    def least(self) -> int:
        """Words of the smallest fast memory."""
        return min(self.M, self.within or self.M)

    def mask(self, kernel: FusedKernel) -> int:
        """The operators of a kernel."""
        return _mask(self.graph.place[x] for x in kernel.names)

    def part(self, mask: int) -> Members:
        """The operators of a set."""
        return Members(self.graph, tuple(self.graph.operators[k] for k in bits(mask)))

    @property
    def n(self) -> int:
        """The number of operators."""
        return len(self.graph.operators)

    @cached_property
    def needs(self) -> list[list[int]]:
        """The operators that each comes after, directly, by their places."""
        place = self.graph.place
        return [[place[x] for x in self.graph.needs[op.name]] for op in self.graph.operators]

    @cached_property
    def ancestors(self) -> list[int]:
        """All operators on which each depends."""
        found: list[int] = []
        for need in self.needs:
            mask = _mask(need)
            for k in need:
                mask |= found[k]
            found.append(mask)
        return found

    @cached_property
    def behind(self) -> list[int]:
        """All operators that depend on each."""
        found = [0] * self.n
        for k, before in enumerate(self.ancestors):
            for j in bits(before):
                found[j] |= 1 << k
        return found

    @cached_property
    def neighbors(self) -> list[int]:
        """The operators that share a tensor with each."""
        users: dict[str, int] = {}
        for k, op in enumerate(self.graph.operators):
            for t in op.tensors:
                users[t.name] = users.get(t.name, 0) | 1 << k
        found = [0] * self.n
        for mask in users.values():
            for k in bits(mask):
                found[k] |= mask & ~(1 << k)
        return found

    def closed(self, mask: int) -> int:
        """A set with all that is between its operators."""
        after = ahead = 0
        for k in bits(mask):
            after |= self.behind[k]
            ahead |= self.ancestors[k]
        return mask | (after & ahead)

    def sets(self) -> Iterator[int]:
        """Sets that hang together, have no gap, and may be legal, or may grow into legal ones.

        Raises InputError for a graph with too many.
        """
        apart = self._never()
        todo = [1 << k for k in range(self.n)]
        seen = set(todo)
        while todo:
            mask = todo.pop()
            yield mask
            near = 0
            for k in bits(mask):
                near |= self.neighbors[k]
            for k in bits(near & ~mask):
                more = self.closed(mask | 1 << k)
                self.count(mask.bit_count())
                if more in seen:
                    continue
                if len(seen) >= MOST:
                    raise self.too_many(f"more than {MOST:,} were met")
                seen.add(more)
                if not any(apart[j] & more for j in bits(more)) and self._aligned(more):
                    todo.append(more)
        if self.online_softmax:
            for chain in chains(self.graph, self.graph.operators):
                yield self.closed(_mask(self.graph.place[op.name] for op in chain))

    def _aligned(self, mask: int) -> bool:
        try:
            return bool(self.part(mask).axis)
        except Illegal:
            return False

    def _never(self) -> list[int]:
        """For each operator: those with which it is in no legal kernel, because of what they are.

        Where one depends on the other, all that is between them is there, too.
        """
        ops = self.graph.operators
        self.count(self.n * (self.n - 1) // 2)
        found = [0] * self.n
        pairs = [(j, k) for k in range(self.n) for j in range(k)]
        for j, k in pairs:
            if not may(ops[j], ops[k], bool(self.ancestors[k] >> j & 1)):
                found[j] |= 1 << k
                found[k] |= 1 << j
        for early, late in self._waits():
            for j in bits(early):
                found[j] |= late
            for k in bits(late):
                found[k] |= early
        direct = list(found)
        for j, k in pairs:
            if self.ancestors[k] >> j & 1 and not found[j] >> k & 1:
                mask = self.closed(1 << j | 1 << k)
                if any(direct[i] & mask for i in bits(mask)) or not self._aligned(mask):
                    found[j] |= 1 << k
                    found[k] |= 1 << j
        return found

    def _waits(self) -> Iterator[tuple[int, int]]:
        """What an input waits for, with all before, and what reads it, with all behind."""
        place = self.graph.place
        for given, made in self.graph.waits:
            writer = place[self.graph.writer[made].name]
            late = 0
            for op in self.graph.readers[given]:
                late |= 1 << place[op.name] | self.behind[place[op.name]]
            yield 1 << writer | self.ancestors[writer], late


def may(first: Operator, second: Operator, depends: bool) -> bool:
    """Whether two operators may be in one kernel, by what they are."""
    if not (fusable(first) and fusable(second)):
        return False
    if second.kind is not CONTRACTION:
        return True
    if first.kind is not CONTRACTION:
        return not depends or not first.over or first.kind.apart
    p, q = product(first), product(second)
    same = p.batch == q.batch and sorted((p.m, p.n)) == sorted((q.m, q.n))
    shared = {t.name for t in first.reads} & {t.name for t in second.reads}
    return not depends and (same or bool(shared))


def bits(mask: int) -> Iterator[int]:
    """The positions of its ones, from the lowest."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def ordered(kernels: Sequence[Sequence[int]], needs: Sequence[Sequence[int]]) -> list[int]:
    """Places of kernels in an order in which they can run; those that can't are left out.

    Args:
        kernels: the operators of each, by their places, rising.
        needs: the operators that each comes after.
    """
    owner = {k: at for at, kernel in enumerate(kernels) for k in kernel}
    wants = [
        {owner[j] for k in kernel for j in needs[k] if owner.get(j, at) != at}
        for at, kernel in enumerate(kernels)
    ]
    todo = sorted(range(len(kernels)), key=lambda at: kernels[at][0])
    done, found = set[int](), list[int]()
    while True:
        later = []
        for at in todo:
            if wants[at] <= done:
                done.add(at)
                found.append(at)
            else:
                later.append(at)
        if len(later) == len(todo) or not later:
            return found
        todo = later


def _mask(places: Iterable[int]) -> int:
    found = 0
    for k in places:
        found |= 1 << k
    return found
