"""References of a kernel, each with the loops around it, as one `Program`.

`iosim.kernel.closing` and `formula` call it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import TypeAlias

from iosim.core.problem import Tensor
from iosim.core.program.index import Affine, Edge, Span, Tile
from iosim.core.program.ir import Alloc, Free, Load, Loop, Node, Program, Store

# Loops around a reference, outermost first, and the reference.
Nested: TypeAlias = tuple[tuple[Loop, ...], Load | Store]
# An axis that is longer than whatever lies on it.
FAR = "∞"
# A loop of one iteration, whose tile begins at 0: a span that names it may move.
ONE = Loop(Tile("one", "1", True), Span("1", Affine(), Affine.of("1")), None, False, ())


def build_program(name: str, found: Sequence[Nested], made: Collection[str]) -> Program:
    """References with the loops around them as one program.

    Args:
        name: of the kernel.
        found: in the order in which the kernel has them.
        made: names of sizes that follow from others, and may be 0.
    """
    if any(ONE.tile.edges[0] in _edges(path, node) for path, node in found):
        found = [((ONE, *path), node) for path, node in found]
    body = _nest(found)
    names = {x.tensor for _, x in found}
    used = {x.axis for _, node in found for x in node.index if isinstance(x, (Span, Tile))}
    used |= {n for path, _ in found for x in path for n in (x.span.axis, x.step) if n}
    axes = tuple(sorted(used - set(made)))
    named = {n for path, node in found for n in _sizes(path, node)}
    limits = tuple(sorted((used | named) - set(axes)))
    tensors = tuple(Tensor(x, axes) for x in sorted(names))
    return Program(name, "", (), tensors, body, limits)


def _spans(path: Sequence[Loop], node: Load | Store) -> list[Span]:
    return [x.span for x in path] + [x for x in node.index if isinstance(x, Span)]


def _edges(path: Sequence[Loop], node: Load | Store) -> set[Edge]:
    return set().union(*(x.edges for x in _spans(path, node)))


def _sizes(path: Sequence[Loop], node: Load | Store) -> set[str]:
    """Names that bounds have."""
    return {n for x in _spans(path, node) for b in x.bounds for n, _ in b.sizes}


def _shares_loop(loop: Loop, one: Nested) -> bool:
    return one[0][:1] == (loop,)


def _nest(found: Sequence[Nested]) -> tuple[Node, ...]:
    """Neighbors in the same loop share it."""
    out: list[Node] = []
    at = 0
    while at < len(found):
        path, node = found[at]
        if not path:
            made = [Alloc(node.buffer, node.index)] if isinstance(node, Store) else []
            out += [*made, node, Free(node.buffer)]
            at += 1
            continue
        same = list(takewhile(partial(_shares_loop, path[0]), found[at:]))
        out.append(replace(path[0], body=_nest([(p[1:], n) for p, n in same])))
        at += len(same)
    return tuple(out)
