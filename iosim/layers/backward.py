"""The backward pass of a graph: operators that give gradients, by each kind's own rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from iosim.errors import InputError
from iosim.layers.graph import Graph
from iosim.operators import Grads, Operand, Operator, operator


def backward(graph: Graph, of: Iterable[str], to: Iterable[str] | None = None) -> Graph:
    """The graph, with its backward pass behind it.

    The gradient of a tensor X is called dX.  Where several operators read X, their parts are added
    up by an operator of their own; gradients that are the same words are one tensor.

    Args:
        of: tensors whose gradients are given from outside, as inputs that wait for them; a loss
            that nothing reads needs none.
        to: tensors whose gradients are wanted; by default all weights.

    Raises InputError for an operator on the way that has no gradient, or doesn't write what its
    gradient reads, naming it.

    >>> from iosim.operators import operand
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
    needed = _find_dependents(graph, to)
    parts: dict[str, list[Operand]] = {name: [_gradient_of(graph.tensors[name])] for name in of}
    made: list[Operator] = []

    def gathered(t: Operand) -> Operand | None:
        """The gradient of a tensor, its axes called as there, once all parts of it are known."""
        found = [replace(part, axes=t.axes) for part in parts.get(t.name, ())]
        if not found:
            return None
        if len(found) > 1:
            made.append(operator(f"d{t.name}", "add", found, [_gradient_of(t)]))
            found = parts[t.name] = [_gradient_of(t)]
        return found[0]

    for op in reversed(graph.operators):
        if not any(t.name in needed for t in op.reads):
            continue
        if op.kind.gradient is None:
            raise InputError(f"{op.name} ({op.kind.name}) has no gradient")
        if len(op.writes) < (op.kind.writes or 0):
            raise InputError(
                f"{op.name} writes {len(op.writes)} tensors, and needs "
                f"{op.kind.writes} for a backward pass: keep them"
            )
        asked: list[tuple[Operand, Operand]] = []

        def part(
            t: Operand, op: Operator = op, asked: list[tuple[Operand, Operand]] = asked
        ) -> Operand:
            several = len([r for r in graph.readers[t.name] if r.kind.gradient]) > 1 or t.name in of
            again = sum(x is t for x, _ in asked)
            label = f"d{t.name} by {op.name}" + f" {again + 1}" * bool(again)
            found = _gradient_of(t, label) if several or again else _gradient_of(t)
            asked.append((t, found))
            return found

        grads = Grads(gathered, part, lambda t: t.name in needed)
        new = op.kind.gradient(op, grads)
        alias: dict[str, Operand] = {}
        for one in new:
            if one.kind.name == "same":  # no words move: it is the same tensor
                alias[one.writes[0].name] = one.reads[0]
            else:
                made.append(one)
        if not new:
            continue
        for t, found in asked:
            if t.name in needed:
                parts.setdefault(t.name, []).append(alias.get(found.name, found))
    kept = []
    for name in to:
        if (last := gathered(graph.tensors[name])) is not None:
            kept.append(last.name)
    read = {t.name for op in made for t in op.reads}
    waits = [(f"d{name}", name) for name in of if name in graph.writer and f"d{name}" in read]
    written = {t.name for op in made for t in op.writes}  # others are given from outside
    return graph.with_operators(made, [x for x in kept if x in written], waits)


def _find_dependents(graph: Graph, to: Iterable[str]) -> set[str]:
    """Tensors that depend on one of those."""
    found = set(to)
    for op in graph.operators:
        if any(t.name in found for t in op.reads):
            found.update(t.name for t in op.writes)
    return found


def _gradient_of(t: Operand, name: str | None = None) -> Operand:
    return t.renamed(name or f"d{t.name}", role="gradient")
