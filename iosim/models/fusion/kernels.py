"""Kernels: operators of a graph that one kernel computes, with the words that it moves.

`best`, `groups`, `intervals` and `partitions` ask it what operators move as one kernel.  A new
family is tried in `connected` (``tests/models/test_fusion_words.py``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from iosim.base.errors import InputError, closest
from iosim.models.fusion import online
from iosim.models.fusion.members import Illegal, Members, fusable
from iosim.models.fusion.products import products
from iosim.models.fusion.rows import rows
from iosim.models.layers.graph import Graph
from iosim.models.layers.traffic import Crossing, moved
from iosim.models.operators import Operator


@dataclass(frozen=True)
class FusedKernel:
    """Operators as one kernel.

    Attributes:
        names: of the operators, in the graph's order.
        crossing: the words that cross the boundary, by tensor.
        operators: what it computes: these operators, or one attention in their place.

    >>> from iosim.models.fusion import kernel
    >>> from iosim.models.layers.graph import Graph
    >>> from iosim.models.operators import operand, operator
    >>> x, y, z = (operand(name, "t u", {"t": 3, "u": 4}) for name in "XYZ")
    >>> graph = Graph("two", (operator("a", "gelu", [x], [y]), operator("b", "gelu", [y], [z])))
    >>> one = kernel(graph, ["a", "b"], M=100)
    >>> one.names, one.words
    (('a', 'b'), 24)
    """

    names: tuple[str, ...]
    crossing: Crossing
    operators: tuple[Operator, ...]

    @property
    def words(self) -> int:
        """All that cross the boundary."""
        return self.crossing.words


def kernel(
    graph: Graph, names: Collection[str], M: int, *, online_softmax: bool = True
) -> FusedKernel:
    """Some operators of a graph as one kernel, with M words of fast memory.

    Operators that share no tensor run one after another.  One operator is counted as
    `iosim.models.layers.traffic` does; what nobody reads or keeps isn't written.

    Raises Illegal where they are not a kernel, saying why, and InputError for an unknown operator.

    >>> from iosim.models.operators import operand, operator
    >>> s = {"t": 64, "i": 32, "u": 16}
    >>> x, w, b = operand("X", "t i", s), operand("W", "i u", s), operand("B", "u", s)
    >>> y, z = operand("Y", "t u", s), operand("Z", "t u", s)
    >>> graph = Graph("linear", (operator("linear", "contraction", [x, w], [y]),
    ...                          operator("bias", "bias", [y, b], [z])))
    >>> found = kernel(graph, ["linear", "bias"], 1000).crossing
    >>> found.loads, found.stores, found.how
    ({'X': 2048, 'W': 1024, 'B': 32}, {'Z': 1024}, 'matmul, B_m = 32, B_n = 16, B_k = 1')
    """
    part = Members.of(graph, names)
    for name in names:
        if name not in part.names:
            raise InputError(f"{graph.name} has no operator {name!r}: {closest(name, graph.place)}")
    if again := _leaves(part):
        raise Illegal(f"{_format_names(part)}: {again} is between them, and not among them")
    found = [connected(each, M, online_softmax) for each in part.components()]
    if len(found) == 1:
        return found[0]
    return FusedKernel(
        tuple(op.name for op in part.operators),
        _sum_crossings([each.crossing for each in found]),
        tuple(op for each in found for op in each.operators),
    )


def _leaves(part: Members) -> str:
    """An operator outside that is after one of them and before another; empty if there is none."""
    wait = dict(part.graph.waits)
    behind: set[str] = set()
    first, last = (part.graph.place[part.operators[k].name] for k in (0, -1))
    for op in part.graph.operators[first : last + 1]:
        for t in op.reads:
            made = wait.get(t.name)
            if made in behind or made in part.written_tensors:
                behind.add(t.name)
        after = any(t.name in behind or t.name in part.written_tensors for t in op.reads)
        if op.name in part.names:
            if any(t.name in behind for t in op.reads):
                x = next(t.name for t in op.reads if t.name in behind)
                if x in wait:
                    return f"what makes {x} of {wait[x]}"
                return part.graph.writer[x].name
        elif after:
            behind |= {t.name for t in op.writes}
    return ""


def connected(part: Members, M: int, online_softmax: bool = True) -> FusedKernel:
    """Operators that are connected as one kernel; Illegal where they are none."""
    names = tuple(op.name for op in part.operators)
    if len(part.operators) == 1:
        return FusedKernel(names, alone(part, M), part.operators)
    if apart := [op for op in part.operators if not fusable(op)]:
        raise Illegal(
            f"{_format_names(part)}: {apart[0].name} ({apart[0].kind.name}) is a kernel by itself"
        )
    try:
        if not part.contractions:
            return FusedKernel(names, rows(part, M), part.operators)
        if online_softmax and part.operators in online.chains(part.graph, part.contractions[-1:]):
            attention = online.as_operator(part)
            return FusedKernel(names, online.crossing(attention, M), (attention,))
        return FusedKernel(names, products(part, M), part.operators)
    except Illegal as error:
        raise Illegal(f"{_format_names(part)}: {error}") from None


def recomputed(both: online.Recomputation, M: int) -> tuple[FusedKernel, ...]:
    """Attention and its gradients as two kernels, the second of which computes the weights again.

    Raises Illegal where nothing fits.
    """
    return tuple(
        FusedKernel(tuple(x.name for x in part.operators), online.crossing(op, M), (op,))
        for part, op in zip(both.parts, both.operators, strict=True)
    )


def alone(part: Members, M: int) -> Crossing:
    """The words of one operator."""
    found = moved(part.operators[0], M)
    unread = part.written_tensors - part.stored
    stores = {x: n for x, n in found.stores.items() if x not in unread}
    least = found.least if stores == found.stores else None
    return replace(found, stores=stores, least=least)


def _sum_crossings(found: list[Crossing]) -> Crossing:
    loads: dict[str, int] = {}
    stores: dict[str, int] = {}
    for each in found:
        for total, words in ((loads, each.loads), (stores, each.stores)):
            for name, n in words.items():
                total[name] = total.get(name, 0) + n
    how = "; ".join(dict.fromkeys(each.how for each in found))
    return Crossing(loads, stores, how, frozenset().union(*(each.wide for each in found)))


def _format_names(part: Members) -> str:
    return " + ".join(op.name for op in part.operators)
