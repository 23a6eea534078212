"""All legal kernels of a graph: sets of operators that are connected and leave no path out and in.

Kernels are listed by their first operator.  Its *region* is all after it in the order that hangs
together with it by pairs which share a tensor and may be in one kernel, as each may with the first.
So a legal kernel lies in the region of its first operator.  There sets grow by an operator that
shares a tensor with them, and by all that is between it and them.  Every connected set without such
gaps is met that way.  A set is left alone, with all that contain it, where no larger one can be
legal: two axes of one operator become one, two of its operators can never be together, or an
operator outside of the region is between two of them.  Attention is one kernel more.

Which sets there are, and their words, follow from the region, from what of its tensors is kept or
read outside, and from which paths leave it and come back.  Regions that are the same in all this
except for names, as those of a model's layers, are searched once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

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
        found = ((mask, self.kernel(list(bits(mask)))) for mask in self.sets())
        return {mask: made for mask, made in found if made is not None}

    def kernel(self, places: Sequence[int]) -> FusedKernel | None:
        """Operators that are connected as one kernel.

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
    def pairs(self) -> dict[tuple[int, ...], tuple[FusedKernel, ...]]:
        """Two kernels, by the operators of both: attention, and its gradients with P again.

        They come together or not at all, and move no more than their operators alone.
        """
        found: dict[tuple[int, ...], tuple[FusedKernel, ...]] = {}
        for both in recomputations(self.graph) if self.online_softmax else ():
            places = sorted(self.graph.place[x] for part in both.parts for x in part.names)
            if made := self._build_kernels(places, partial(recomputed, both)):
                found[tuple(places)] = made
        return found

    @cached_property
    def words(self) -> dict[tuple[int, ...], int]:
        """Words of all that a partition is made of, by its operators: kernels, and pairs of them.

        Raises InputError for a graph with too many.
        """
        found: dict[tuple[int, ...], int] = {}
        known: dict[Any, list[tuple[int, int]]] = {}
        for places, kind, sets in self.regions():
            if kind not in known:
                kernels = [(mask, self.kernel([places[k] for k in bits(mask)])) for mask in sets]
                known[kind] = [(mask, one.words) for mask, one in kernels if one is not None]
            for mask, words in known[kind]:
                found[tuple(places[k] for k in bits(mask))] = words
        return found | {
            places: sum(one.words for one in both) for places, both in self.pairs.items()
        }

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

    def places(self, kernel: FusedKernel) -> tuple[int, ...]:
        """The operators of a kernel."""
        return tuple(self.graph.place[x] for x in kernel.names)

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
        for k in reversed(range(self.n)):
            for j in self.needs[k]:
                found[j] |= found[k] | 1 << k
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
        """Sets that are connected, have no gap, and may be legal, or may grow into legal ones.

        Raises InputError for a graph with too many.
        """
        for places, _, sets in self.regions():
            for mask in sets:
                yield _mask(places[k] for k in bits(mask))

    def regions(self) -> Iterator[tuple[list[int], Any, list[int]]]:
        """For each operator: those that may be in a kernel whose first it is, and these `sets`.

        Sets are of places in the list.  Between them is what regions that differ in names alone
        have in common: their sets are the same, and move the same words.
        """
        known: dict[Any, list[int]] = {}
        met = 0
        with count_done(None, "sets of operators") as report:
            for k in range(self.n):
                places = self._region(k)
                local = _Local.of(self, places)
                key = local.signature()
                if key not in known:
                    known[key] = []
                    for mask in local.sets():
                        met += 1
                        report(met)
                        if met > MOST:
                            raise self.too_many(f"more than {MOST:,} were met")
                        known[key].append(mask)
                yield places, key, known[key]

    def _region(self, first: int) -> list[int]:
        """Operators from one on, each of which may be with it, that are connected by such pairs."""
        found, todo = {first}, [first]
        while todo:
            for k in self.partners[todo.pop()]:
                if k > first and k not in found and not self.conflicts(first, k):
                    found.add(k)
                    todo.append(k)
        self.count(len(found) ** 2 // 4)
        return sorted(found.union(*self.attention[first]))

    @cached_property
    def attention(self) -> list[list[tuple[int, ...]]]:
        """By its first operator: each attention without a gap."""
        found: list[list[tuple[int, ...]]] = [[] for _ in range(self.n)]
        for chain in chains(self.graph, self.graph.operators) if self.online_softmax else ():
            places = tuple(self.graph.place[op.name] for op in chain)
            if self.closed(mask := _mask(places)) == mask:
                found[min(places)].append(places)
        return found

    @cached_property
    def partners(self) -> list[list[int]]:
        """The operators with which each shares a tensor, and may be in a kernel."""
        found: list[list[int]] = []
        for k, near in enumerate(self.neighbors):
            self.count(near.bit_count() // 4)
            found.append([j for j in bits(near) if not self.conflicts(*sorted((j, k)))])
        return found

    def conflicts(self, j: int, k: int) -> bool:
        """Whether two operators, j before k, are in no legal kernel but attention.

        Either what they are forbids it, or what is between them, or an input waits between them.
        """
        if self._beyond[j] >> k & 1 or not (self._fusable[j] and self._fusable[k]):
            return True
        first, second = (self.graph.operators[x] for x in (j, k))
        if second.kind is CONTRACTION and not may(first, second, bool(self.behind[j] >> k & 1)):
            return True
        return any(early >> j & 1 and late >> k & 1 for early, late in self.splits)

    @cached_property
    def _fusable(self) -> list[bool]:
        return [fusable(op) for op in self.graph.operators]

    @cached_property
    def _beyond(self) -> list[int]:
        """Of each: those to which a path has two products, or what is a kernel by itself."""
        one, two = [0] * self.n, [0] * self.n
        for k in reversed(range(self.n)):
            op, every = self.graph.operators[k], self.behind[k] | 1 << k
            if not self._fusable[k]:
                one[k] = two[k] = every
            elif op.kind is CONTRACTION:
                one[k], two[k] = every, one[k]
            for j in self.needs[k]:
                one[j] |= one[k]
                two[j] |= two[k]
        return two

    @cached_property
    def splits(self) -> list[tuple[int, int]]:
        """What an input waits for, with all before, and what reads it, with all after."""
        return list(self._waits())

    def _waits(self) -> Iterator[tuple[int, int]]:
        """What an input waits for, with all before, and what reads it, with all after."""
        place = self.graph.place
        for given, made in self.graph.waits:
            writer = place[self.graph.writer[made].name]
            late = 0
            for op in self.graph.readers[given]:
                late |= 1 << place[op.name] | self.behind[place[op.name]]
            yield 1 << writer | self.ancestors[writer], late


@dataclass(frozen=True)
class _Local:
    """Operators of a graph by their places in a list, which rises: masks are of these.

    Attributes:
        groups: of the graph.
        places: the operators.
        after: of each, those that depend on it.
        gaps: of each, those that depend on it by an operator that is not in the list.
    """

    groups: Groups
    places: Sequence[int]
    after: Sequence[int]
    gaps: Sequence[int]

    @classmethod
    def of(cls, groups: Groups, places: Sequence[int]) -> _Local:
        inside = _mask(places)
        after, gaps = [0] * len(places), [0] * len(places)
        for a, j in enumerate(places):
            behind = groups.behind[j]
            for b in range(a + 1, len(places)):
                if behind >> places[b] & 1:
                    after[a] |= 1 << b
                    if behind & groups.ancestors[places[b]] & ~inside:
                        gaps[a] |= 1 << b
        return cls(groups, places, after, gaps)

    @property
    def attention(self) -> list[int]:
        """Those that begin with the first operator."""
        at = {k: a for a, k in enumerate(self.places)}
        return [_mask(at[k] for k in chain) for chain in self.groups.attention[self.places[0]]]

    def signature(self) -> Any:
        """All that sets and their words depend on: everything but names."""
        graph, number = self.groups.graph, dict[str, int]()
        at = {graph.operators[k].name: a for a, k in enumerate(self.places)}
        ops, tensors = [], []
        for k in self.places:
            op = graph.operators[k]
            sides = [
                tuple((number.setdefault(t.name, len(number)), t) for t in side)
                for side in (op.reads, op.writes)
            ]
            ops.append(
                (
                    op.kind.name,
                    op.over,
                    op.settings,
                    *(tuple((x, t.axes, t.role, t.dtype) for x, t in side) for side in sides),
                )
            )
            tensors += [
                (graph.uses(t.name, at), number.get(graph.views.get(t.name, ""))) for t in op.writes
            ]
        waits = [
            tuple(_mask(a for a, k in enumerate(self.places) if half >> k & 1) for half in split)
            for split in self.groups.splits
        ]
        return (
            tuple(ops),
            tuple(tensors),
            tuple(self.after),
            tuple(self.gaps),
            tuple(waits),
            tuple(self.attention),
        )

    def sets(self) -> Iterator[int]:
        """Those of `Groups.sets` that have the first operator."""
        places, n = self.places, len(self.places)
        ahead, apart, near = [0] * n, list(self.gaps), [0] * n
        for a, j in enumerate(places):
            for b in bits(self.after[a]):
                ahead[b] |= 1 << a
            for b in range(a + 1, n):
                if self.groups.conflicts(j, places[b]):
                    apart[a] |= 1 << b
                if self.groups.neighbors[j] >> places[b] & 1:
                    near[a] |= 1 << b
                    near[b] |= 1 << a

        def closed(mask: int) -> int:
            behind = before = 0
            for a in bits(mask):
                behind |= self.after[a]
                before |= ahead[a]
            return mask | (behind & before)

        todo = [1]
        seen = set(todo)
        while todo:
            mask = todo.pop()
            yield mask
            around = 0
            for a in bits(mask):
                around |= near[a]
            for a in bits(around & ~mask):
                more = closed(mask | 1 << a)
                if more in seen:
                    continue
                seen.add(more)
                possible = not any(apart[b] & more for b in bits(more))
                self.groups.count(more.bit_count() if possible else 1)
                if possible and self._aligned(more):
                    todo.append(more)
        yield from self.attention

    def _aligned(self, mask: int) -> bool:
        ops = self.groups.graph.operators
        try:
            return bool(
                Members(self.groups.graph, tuple(ops[self.places[a]] for a in bits(mask))).axis
            )
        except Illegal:
            return False


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
