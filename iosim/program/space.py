"""What the names of a program may be bound to: axes, tile parameters, and the spans they bound.

`bind` asks for one instance, `iosim.counting.numbers` for columns of many.  Both ask here, so that
an instance and a row of a column are clipped and refused alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from iosim.program.ir import Alloc, Load, Loop, Program, Span, Store, nodes


@functools.lru_cache(maxsize=256)
def axes(program: Program) -> tuple[str, ...]:
    """Every axis of the program's tensors, sorted."""
    return tuple(sorted({axis for tensor in program.tensors for axis in tensor.axes}))


@functools.lru_cache(maxsize=256)
def spans(program: Program) -> tuple[Span, ...]:
    """Every part of an axis that a program names, once each."""
    found: dict[Span, None] = {}
    for node in nodes(program.body):
        if isinstance(node, Loop):
            found[node.span] = None
        elif isinstance(node, (Load, Store, Alloc)):
            found |= dict.fromkeys(x for x in node.index if isinstance(x, Span))
    return tuple(s for s in found if not s.whole)


def clipped(
    program: Program, env: Mapping[str, Any], smaller: Callable[[Any, Any], Any]
) -> dict[str, Any]:
    """Tile parameters at most their axis.

    Args:
        env: name → number or array; parameters may be missing.
        smaller: the minimum of two of these.
    """
    return dict(env) | {
        p.name: smaller(env[p.name], env[p.axis]) for p in program.params if p.name in env
    }


def misplaced(program: Program, env: Mapping[str, Any], ever: Callable[[Any], Any]) -> Span | None:
    """The first span that doesn't lie inside its axis, or None.

    Args:
        env: name → number or array; spans with a name that is missing are passed over.
        ever: whether a condition holds anywhere.
    """
    for span in spans(program):
        if {name for end in (span.start, span.stop) for name, _ in end.terms} <= env.keys():
            start, stop = span.start.at(env), span.stop.at(env)
            if ever((start < 0) | (start > stop) | (stop > env[span.axis])):
                return span
    return None
