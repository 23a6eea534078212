"""What kernels do: flop by unit, and bytes at each boundary.

There are three memories and two boundaries.  At SM↔L2 the fast memory is what one SM holds, at
L2↔DRAM what the chip holds.  The same operator moves other words at each, since M is another.

>>> from iosim.models.hardware import machine
>>> from iosim.models.roofline.single import single
>>> (linear,) = works(single("matmul", {"m": 1024, "n": 1024, "k": 4096}), machine("a100"))
>>> linear.products, linear.bytes["L2↔DRAM"], linear.bytes["SM↔L2"]
(8589934592, 18874368, 69206016)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError
from iosim.base.progress import track
from iosim.models.fusion import Absent, fused, partition
from iosim.models.hardware import Hardware
from iosim.models.layers.graph import Graph
from iosim.models.layers.traffic import Crossing, moved
from iosim.models.layers.workload import Workload
from iosim.models.operators import Operator, link_words

SM_L2, L2_DRAM = "SM↔L2", "L2↔DRAM"
# The role of what a schedule stores for itself.
SCRATCH = "scratch"


@dataclass(frozen=True)
class MemoryBoundary:
    """A boundary, from a machine's point of view.

    Attributes:
        name: `SM_L2` or `L2_DRAM`.
        M: words of a dtype that its fast side holds; InputError where that has no source.
        bytes_per_s: of a machine; None where no source gives it.
    """

    name: str
    M: Callable[[Hardware, str], int]
    bytes_per_s: Callable[[Hardware], float | None]


BOUNDARIES = {
    one.name: one
    for one in (
        MemoryBoundary(L2_DRAM, Hardware.chip_words, lambda h: h.dram_bytes_per_s),
        MemoryBoundary(SM_L2, Hardware.sm_words, lambda h: h.l2_bytes_per_s),
    )
}


@dataclass(frozen=True)
class Work:
    """What one kernel does, once.

    Attributes:
        name: of its operator, or of its operators with + between them.
        klass: of its operator; of several, the first of `CLASSES` that one of them has.
        part: the graph that it is in.
        times: how often it runs: in how many equal layers.
        products, others: flop of matrix products, and all others.
        dtype: of what is multiplied in the products.
        words_in, words_out: of its tensors, each once.
        roles: bytes at a boundary by what the tensors are for.
        how: at a boundary, the schedule with its tiles, or ``stream``.
        link_bytes: that one device sends to others, and as many that it receives.
        least: words at a boundary of `Crossing.least`, where there are any.
    """

    name: str
    klass: str
    part: str
    times: int
    products: int
    others: int
    dtype: str
    words_in: int
    words_out: int
    roles: Mapping[str, Mapping[str, int]]
    how: Mapping[str, str]
    link_bytes: int = 0
    least: Mapping[str, int] = field(default_factory=dict)

    @property
    def flop(self) -> int:
        """Of both kinds."""
        return self.products + self.others

    @property
    def bytes(self) -> dict[str, int]:
        """At each boundary."""
        return {at: sum(found.values()) for at, found in self.roles.items()}

    def intensity(self, at: str) -> float:
        """FLOP per byte at a boundary; infinite where no byte crosses it."""
        crossed = self.bytes[at]
        return self.flop / crossed if crossed else math.inf


# A kernel of several operators is of the first class that one of them has.
CLASSES = ("contraction", "normalisation", "elementwise", "communication")


def works(
    graph: Graph,
    machine: Hardware,
    times: int = 1,
    *,
    schedule: str | None = None,
    fusion: str | Sequence[Sequence[str]] = "none",
    online_softmax: bool = True,
    boundaries: Collection[str] = tuple(BOUNDARIES),
) -> list[Work]:
    """The kernels of a graph.  Views of tensors, which compute and move nothing, are none.

    Args:
        graph: the operators.
        machine: how much is held on the fast side of each boundary.
        times: how often the graph runs.
        schedule: of contractions and attention, at each boundary; by default the one that moves the
            fewest words there.
        fusion: ``none``, where each operator is a kernel; or another of
            `iosim.models.fusion.fused`.  The
            best move the fewest words at L2↔DRAM, among kernels that fit in an SM and move no more
            at SM↔L2 than their operators alone.  Or groups of the operators' names.
        online_softmax: whether scores, softmax and the product with V may be one kernel.
        boundaries: at which of `BOUNDARIES` bytes are counted.

    Raises InputError where the machine lacks a size, a schedule doesn't fit the operator or is
    given for fused kernels, nothing fits in the fast memory, or as `iosim.models.fusion.fused`
    does.
    """
    M = {at: BOUNDARIES[at].M(machine, graph.dtype) for at in boundaries}
    if fusion == "none":
        return [
            work_of([op], {at: moved(op, words, schedule) for at, words in M.items()}, graph, times)
            for op in track(graph.operators, "operators")
            if not _is_view(op, graph)
        ]
    if schedule is not None:
        raise InputError(f"--schedule {schedule} is for operators that are not fused: leave it out")
    chip, sm = (BOUNDARIES[at].M(machine, graph.dtype) for at in (L2_DRAM, SM_L2))
    named = {op.name: op for op in graph.operators}
    if isinstance(fusion, str):
        found = fused(graph, fusion, chip, online_softmax=online_softmax, within=sm)
    else:
        found = partition(graph, fusion, chip, "file", online_softmax=online_softmax)
    names = [one.names for one in found.groups]
    groups = {
        at: found.groups
        if at == L2_DRAM
        else partition(graph, names, words, found.how, online_softmax=online_softmax).groups
        for at, words in M.items()
    }
    return [
        work_of(
            list(one.operators),
            {at: kernels[k].crossing for at, kernels in groups.items()},
            graph,
            times,
            name=" + ".join(one.names),
        )
        for k, one in enumerate(track(found.groups, "kernels"))
        if not all(_is_view(named[x], graph) for x in one.names)
    ]


def _is_view(op: Operator, graph: Graph) -> bool:
    return all(t.name in graph.views for t in op.writes)


def works_of(
    workload: Workload, machine: Hardware, *, fusion: str = "none", **options: Any
) -> list[Work]:
    """The kernels of a model's parts; options as those of `works`.

    A part that has none of the operators of a fusion's groups is not fused.  Raises InputError
    where that is every part, and as `works` does.
    """
    found: list[Work] = []
    absent: list[Absent] = []
    for part in workload.parts:
        try:
            found += works(part.graph, machine, part.times, fusion=fusion, **options)
        except Absent as error:
            absent.append(error)
            found += works(part.graph, machine, part.times, **options)
    if len(absent) == len(workload.parts):
        raise absent[0]
    return found


def work_of(
    operators: list[Operator],
    crossings: Mapping[str, Crossing],
    graph: Graph,
    times: int = 1,
    *,
    name: str | None = None,
) -> Work:
    """One kernel of some operators, from the words that it moves at each boundary.

    The operators are a graph's, or compute what some of a graph's do; then they have their name.
    """
    reads, writes = graph.part({op.name for op in operators})
    others = [op for op in operators if op.name not in graph.needs]
    dtypes = [_of_products(op, graph.dtype) for op in operators if op.products]
    return Work(
        name or " + ".join(op.name for op in operators),
        min((op.klass for op in operators), key=CLASSES.index),
        graph.name,
        times,
        sum(op.products for op in operators),
        sum(op.flop - op.products for op in operators),
        max(dtypes, key=word_bytes, default=graph.dtype),
        sum(reads.values()) + sum(op.words_in for op in others),
        sum(writes.values()) + sum(op.words_out for op in others),
        {at: _by_role(crossing, graph) for at, crossing in crossings.items()},
        {at: crossing.how for at, crossing in crossings.items()},
        sum(_link_bytes(op, graph.dtype) for op in operators),
        {at: one.least for at, one in crossings.items() if one.least is not None},
    )


def _by_role(crossing: Crossing, graph: Graph) -> dict[str, int]:
    found: dict[str, int] = {}
    for moves in (crossing.loads, crossing.stores):
        for name, words in moves.items():
            t = graph.tensors.get(name)
            role = SCRATCH if t is None else t.role
            size = word_bytes((t and t.dtype) or graph.dtype, name in crossing.wide)
            found[role] = found.get(role, 0) + words * size
    return found


def _of_products(op: Operator, dtype: str) -> str:
    """The wider dtype of the first two inputs, which are multiplied."""
    return max((t.dtype or dtype for t in op.reads[:2]), key=word_bytes)


def _link_bytes(op: Operator, dtype: str) -> int:
    if op.klass != "communication":
        return 0
    if len(op.reads) != 1:
        raise InputError(f"{op.name}: {op.kind.name} has no words of a link: use all_reduce")
    return link_words(op) * word_bytes(op.reads[0].dtype or dtype)
