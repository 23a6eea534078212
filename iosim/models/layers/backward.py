"""The backward pass of a graph: operators that give gradients, by each kind's own rule.

`blocks` calls it for training, and `iosim.models.fusion.online` to recognize attention's gradients.
The rule of a kind is in `iosim.models.operators`; here they are only put together.
``tests/models/test_layers.py`` compares with finite differences,
``tests/models/test_layers_torch.py`` with autograd.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from iosim.base.errors import InputError
from iosim.models.layers.graph import Graph
from iosim.models.operators import Grads, Operand, Operator, operator


def backward(graph: Graph, of: Iterable[str], to: Iterable[str] | None = None) -> Graph:
    """The graph, with its backward pass after it.

    The gradient of a tensor X is called dX.  Where several operators read X, their parts are added
    up by an operator of their own; gradients that are the same words are one tensor.

    Args:
        of: tensors whose gradients are given from outside, as inputs that wait for them; a loss
            that nothing reads needs none.
        to: tensors whose gradients are computed; by default all weights.

    Raises InputError for an operator on the way that has no gradient, or doesn't write what its
    gradient reads, naming it.

    >>> from iosim.models.operators import operand
    >>> s = {"j": 4, "i": 8, "u": 2}
    >>> x, w = operand("X", "j i", s), operand("W", "i u", s, role="weight")
    >>> graph = Graph("linear", (operator("L", "contraction", [x, w], [operand("Y", "j u", s)]),))
    >>> [op.name for op in backward(graph, ["Y"], ["X", "W"]).operators]
    ['L', 'L dX', 'L dW']
    """
    of = list(of)
    to = [t.name for t in graph.inputs if t.role == "weight"] if to is None else list(to)
    for name in (*of, *to):
        if name not in graph.tensors:
            raise InputError(f"{graph.name} has no tensor {name!r}")
    walk = _Backward(graph, of, _find_dependents(graph, to))
    for op in reversed(graph.operators):
        if any(t.name in walk.needed for t in op.reads):
            walk.add_operators(op)
    sums = [walk.sum_parts(graph.tensors[name]) for name in to]
    read = {t.name for op in walk.operators for t in op.reads}
    waits = [(f"d{name}", name) for name in of if name in graph.writer and f"d{name}" in read]
    # Gradients that nothing writes are given from outside.
    written = {t.name for op in walk.operators for t in op.writes}
    kept = [t.name for t in sums if t is not None and t.name in written]
    return graph.with_operators(walk.operators, kept, waits)


class _Backward:
    """The operators of a backward pass so far, from the graph's last operator to its first.

    Attributes:
        of: tensors whose gradients are given.
        needed: tensors whose gradients are requested.
        parts: by tensor, the parts of its gradient so far.
        operators: those of the backward pass, in order.
    """

    def __init__(self, graph: Graph, of: list[str], needed: set[str]) -> None:
        self.graph, self.of, self.needed = graph, of, needed
        self.parts = {name: [_gradient_of(graph.tensors[name])] for name in of}
        self.operators: list[Operator] = []

    def sum_parts(self, t: Operand) -> Operand | None:
        """The gradient of a tensor, its axes named as there, once all parts of it are known."""
        found = [replace(part, axes=t.axes) for part in self.parts.get(t.name, ())]
        if not found:
            return None
        if len(found) > 1:
            self.operators.append(operator(f"d{t.name}", "add", found, [_gradient_of(t)]))
            found = self.parts[t.name] = [_gradient_of(t)]
        return found[0]

    def add_operators(self, op: Operator) -> None:
        """Add those that give the gradients of what an operator reads."""
        if op.kind.gradient is None:
            raise InputError(f"{op.name} ({op.kind.name}) has no gradient")
        if len(op.writes) < (op.kind.writes or 0):
            raise InputError(
                f"{op.name} writes {len(op.writes)} tensors, and needs "
                f"{op.kind.writes} for a backward pass: keep them"
            )
        requests: list[tuple[Operand, Operand]] = []

        def name_part(t: Operand) -> Operand:
            readers = [r for r in self.graph.readers[t.name] if r.kind.gradient]
            again = sum(x is t for x, _ in requests)
            label = f"d{t.name} by {op.name}" + f" {again + 1}" * bool(again)
            several = len(readers) > 1 or t.name in self.of or again
            part = _gradient_of(t, label) if several else _gradient_of(t)
            requests.append((t, part))
            return part

        grads = Grads(self.sum_parts, name_part, lambda t: t.name in self.needed)
        new = op.kind.gradient(op, grads)
        # No words move: it is the same tensor.
        alias = {one.writes[0].name: one.reads[0] for one in new if one.kind.name == "same"}
        self.operators += [one for one in new if one.kind.name != "same"]
        if new:
            for t, part in requests:
                if t.name in self.needed:
                    self.parts.setdefault(t.name, []).append(alias.get(part.name, part))


def _find_dependents(graph: Graph, to: Iterable[str]) -> set[str]:
    """Tensors that depend on one of those."""
    found = set(to)
    for op in graph.operators:
        if any(t.name in found for t in op.reads):
            found.update(t.name for t in op.writes)
    return found


def _gradient_of(t: Operand, name: str | None = None) -> Operand:
    return t.renamed(name or f"d{t.name}", role="gradient")
