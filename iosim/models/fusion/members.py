"""Some operators of a graph, looked at as one kernel: their tensors and the axes that are one.

Operators name axes each for themselves, and meet in tensors by position: the rows j of K are the
columns k of QKᵀ.  So two axes are one where they are at one place of a tensor that both operators
have.  A loop over such an axis serves both.  Where two axes of one operator become one, no loop
nest over single axes does, and the operators are not a kernel.

The families `rows`, `products` and `online` read it, and refuse with `Illegal`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from iosim.base.errors import InputError
from iosim.models.layers.graph import Graph
from iosim.models.operators import Operand, Operator
from iosim.models.operators.contraction import CONTRACTION

Axis = int
Axes = frozenset[Axis]


class Illegal(InputError):
    """Operators that are not a kernel; the message says why.

    >>> from iosim.models.fusion import kernel
    >>> from iosim.models.layers.graph import Graph
    >>> from iosim.models.operators import operand, operator
    >>> sizes = {"t": 3, "u": 4, "v": 2}
    >>> axes = {"X": "t u", "W": "u v", "Y": "t v", "Z": "v u", "R": "t u"}
    >>> x, w, y, z, r = (operand(name, text, sizes) for name, text in axes.items())
    >>> a, b = operator("a", "contraction", [x, w], [y]), operator("b", "contraction", [y, z], [r])
    >>> kernel(Graph("two", (a, b)), ["a", "b"], M=5)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    iosim.models.fusion.members.Illegal: a + b: a is before another contraction: ...
    """


@dataclass(frozen=True)
class Members:
    """Operators of a graph, in its order.

    Attributes:
        graph: where they are from.
        operators: they.
    """

    graph: Graph
    operators: tuple[Operator, ...]

    @classmethod
    def of(cls, graph: Graph, names: Collection[str]) -> Members:
        """The operators of these names."""
        return cls(graph, graph.named(names))

    @cached_property
    def names(self) -> frozenset[str]:
        """Of the operators."""
        return frozenset(op.name for op in self.operators)

    @cached_property
    def tensors(self) -> dict[str, Operand]:
        """By name, in the order in which they come."""
        return {t.name: t for op in self.operators for t in op.tensors}

    @cached_property
    def written_tensors(self) -> frozenset[str]:
        """Tensors that one of them writes."""
        return frozenset(t.name for op in self.operators for t in op.writes)

    @cached_property
    def read(self) -> frozenset[str]:
        """Tensors that one of them reads."""
        return frozenset(t.name for op in self.operators for t in op.reads)

    @cached_property
    def stored(self) -> frozenset[str]:
        """Tensors made here that are read outside or kept."""
        return frozenset(
            x
            for x in self.written_tensors
            if x in self.graph.output_names
            or any(r.name not in self.names for r in self.graph.readers[x])
        )

    @cached_property
    def contractions(self) -> tuple[Operator, ...]:
        """Those among them."""
        return tuple(op for op in self.operators if op.kind is CONTRACTION)

    @cached_property
    def axis(self) -> Mapping[tuple[str, str], Axis]:
        """A number for each (operator, axis); one that is shared has one number.

        Raises Illegal where two axes of one operator become one.
        """
        parent: list[int] = []
        number: dict[tuple[str, str], int] = {}
        place: dict[tuple[str, int], int] = {}

        def root(k: int) -> int:
            while parent[k] != k:
                parent[k] = k = parent[parent[k]]
            return k

        for op in self.operators:
            for t in (*op.reads, *op.writes):
                for at, name in enumerate(t.names):
                    k = number.setdefault((op.name, name), len(parent))
                    if k == len(parent):
                        parent.append(k)
                    parent[root(k)] = root(place.setdefault((t.name, at), k))
        found = {key: root(k) for key, k in number.items()}
        seen: dict[tuple[str, int], str] = {}
        for (op_name, name), k in found.items():
            other = seen.setdefault((op_name, k), name)
            if other != name:
                raise Illegal(
                    f"axes {other} and {name} of {op_name} become one: a tensor is read along both"
                )
        return found

    def axes_of(self, op: Operator, names: Iterable[str]) -> Axes:
        """The numbers of an operator's axes."""
        return frozenset(self.axis[op.name, a] for a in names)

    @cached_property
    def space(self) -> Mapping[str, Axes]:
        """The axes of each operator."""
        return {op.name: self.axes_of(op, op.sizes) for op in self.operators}

    @cached_property
    def has(self) -> Mapping[str, Axes]:
        """The axes of each tensor."""
        return {t.name: self.axes_of(op, t.names) for op in self.operators for t in op.tensors}

    @cached_property
    def size(self) -> Mapping[Axis, int]:
        """Of each axis."""
        return {self.axis[op.name, a]: n for op in self.operators for a, n in op.sizes.items()}

    def words(self, axes: Iterable[Axis]) -> int:
        """The product of their sizes."""
        return math.prod(self.size[a] for a in axes)

    def sums(self, op: Operator) -> bool:
        """Whether it only adds up, and nothing here reads the sums: they may gather over a loop."""
        return reduces(op) and not any(t.name in self.read for t in op.writes)

    def row(self, op: Operator) -> Axes:
        """The axes along which it needs whole rows at once."""
        if op.kind.apart or self.sums(op):
            return frozenset()
        return self.axes_of(op, op.over)

    def find_ancestors(self, names: Iterable[str]) -> frozenset[str]:
        """Names of the operators here on which some tensors depend."""
        found: set[str] = set()
        todo = [x for x in names if x in self.written_tensors]
        while todo:
            op = self.graph.writer[todo.pop()]
            if op.name not in found:
                found.add(op.name)
                todo += [t.name for t in op.reads if t.name in self.written_tensors]
        return frozenset(found)

    def components(self) -> Iterator[Members]:
        """Parts that share no tensor, in order."""
        users: dict[str, list[Operator]] = {}
        for op in self.operators:
            for t in op.tensors:
                users.setdefault(t.name, []).append(op)
        seen: set[str] = set()
        for first in self.operators:
            inside, todo = set[str](), [first]
            while todo:
                if (op := todo.pop()).name not in seen:
                    seen.add(op.name)
                    inside.add(op.name)
                    todo += [x for t in op.tensors for x in users.pop(t.name, ())]
            if inside:
                yield Members.of(self.graph, inside)


def reduces(op: Operator) -> bool:
    """Whether no output has an axis along which it works."""
    return bool(op.over) and not any(a in t.names for t in op.writes for a in op.over)


def fusable(op: Operator) -> bool:
    """Whether it may be fused with others: a contraction, or a map or a normalization along axes.

    Look-ups, caches, attention and what moves words between devices are kernels of their own.
    """
    if op.kind is CONTRACTION:
        return True
    read = {a for t in op.reads for a in t.names}
    made = {a for t in op.writes for a in t.names}
    streams = op.klass in ("normalisation", "elementwise") and op.kind.touched is None
    return streams and op.kind.check is None and made <= read
