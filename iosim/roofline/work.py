"""What kernels do: flop by unit, and bytes at each boundary.

There are three memories and two boundaries.  At SM↔L2 the fast memory is what one SM holds, at
L2↔DRAM what the chip holds.  The same operator moves other words at each, since M is another.

>>> from iosim.hardware import machine
>>> from iosim.roofline.single import single
>>> (linear,) = works(single("matmul", {"m": 1024, "n": 1024, "k": 4096}), machine("a100"))
>>> linear.products, linear.bytes["L2↔DRAM"], linear.bytes["SM↔L2"]
(8589934592, 18874368, 69206016)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from iosim.errors import InputError
from iosim.hardware import Hardware
from iosim.layers.graph import Graph
from iosim.layers.traffic import Crossing, moved
from iosim.layers.workload import Workload
from iosim.operators import Operator, link_words
from iosim.problem import word_bytes

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
    graph: Graph, machine: Hardware, times: int = 1, *, schedule: str | None = None,
    boundaries: Collection[str] = tuple(BOUNDARIES),
) -> list[Work]:  # fmt: skip
    """The kernels of a graph: one for each operator.

    Args:
        graph: the operators.
        machine: how much is held on the fast side of each boundary.
        times: how often the graph runs.
        schedule: of contractions and attention, at each boundary; by default the one that moves the
            fewest words there.
        boundaries: at which of `BOUNDARIES` bytes are counted.

    Raises InputError where the machine lacks a size, a schedule doesn't fit the operator, or
    nothing fits in the fast memory.
    """
    M = {at: BOUNDARIES[at].M(machine, graph.dtype) for at in boundaries}
    return [
        work_of(
            [op], {at: moved(op, words, schedule) for at, words in M.items()},
            op.words_in, op.words_out, graph, times,
        )
        for op in graph.operators
    ]  # fmt: skip


def works_of(workload: Workload, machine: Hardware, **options: Any) -> list[Work]:
    """The kernels of a model's parts; options as those of `works`."""
    return [
        work
        for part in workload.parts
        for work in works(part.graph, machine, part.times, **options)
    ]


def work_of(
    operators: list[Operator], crossings: Mapping[str, Crossing], words_in: int, words_out: int,
    graph: Graph, times: int = 1,
) -> Work:  # fmt: skip
    """One kernel of some operators of a graph, from the words that it moves at each boundary."""
    dtypes = [_of_products(op, graph.dtype) for op in operators if op.products]
    return Work(
        " + ".join(op.name for op in operators),
        min((op.klass for op in operators), key=CLASSES.index),
        graph.name,
        times,
        sum(op.products for op in operators),
        sum(op.flop - op.products for op in operators),
        max(dtypes, key=word_bytes, default=graph.dtype),
        words_in,
        words_out,
        {at: _by_role(crossing, graph) for at, crossing in crossings.items()},
        {at: crossing.how for at, crossing in crossings.items()},
        sum(_link_bytes(op, graph.dtype) for op in operators),
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
