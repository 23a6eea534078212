"""What is left of a bound program once everything empty is gone, and how its nests split.

A hold of W = 0 makes an empty buffer, and a loop over the rest of an axis that is wholly held
runs zero times: neither leaves a trace in a kernel.
"""

from __future__ import annotations

from iosim.program.ir import Alloc, Load, Loop, Node, Op, Span, Store, nodes
from iosim.program.walk import Instance

Body = tuple[Node, ...]


def nests(instance: Instance) -> tuple[Body, ...]:
    """The bodies of the kernels, one per top-level node, empties dropped.

    A buffer at the top level spans nests: then the whole program is one kernel.
    """
    body = prune(instance, instance.program.body)
    if any(isinstance(n, (Load, Alloc)) for n in body):
        return (body,)
    moving = (Load, Store)
    return tuple((node,) for node in body if any(isinstance(n, moving) for n in nodes((node,))))


def prune(instance: Instance, body: Body, empty: frozenset[str] = frozenset()) -> Body:
    """Drop loops that run zero times and whatever touches an empty buffer."""
    kept: list[Node] = []
    for node in body:
        if isinstance(node, Loop):
            inside = prune(instance, node.body, empty)
            if inside and not _empty(instance, node.span):
                kept.append(Loop(node.tile, node.span, node.step, node.parallel, inside))
        elif isinstance(node, Op):
            if not any(ref.buffer in empty for ref in node.operands):
                kept.append(node)
        else:
            # A name may come back with another shape once it is freed, so this is per scope.
            if isinstance(node, (Load, Alloc)):
                none = any(_empty(instance, x) for x in node.index)
                empty = empty | {node.buffer} if none else empty - {node.buffer}
            if node.buffer not in empty:
                kept.append(node)
    return tuple(kept)


def _empty(instance: Instance, x: object) -> bool:
    if not isinstance(x, Span):
        return False
    start, stop = instance.span(x)
    return start == stop


def chain(body: Body) -> tuple[tuple[Loop, ...], Body]:
    """The grid loops that hold nothing but one another, outermost first, and what they hold."""
    found: list[Loop] = []
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].parallel:
        found.append(body[0])
        body = body[0].body
    return tuple(found), body


def touched(body: Body, kind: type[Load] | type[Store]) -> set[str]:
    """The tensors that a body loads, or stores."""
    return {n.tensor for n in nodes(body) if isinstance(n, kind)}
