"""CLOCK (Corbató 1968): first in, first out, with a second chance for what was touched since.

A line's mark is clear when it comes in, and set when it is found.  The oldest line leaves if its
mark is clear; otherwise the mark is cleared and the line is put where the newest is.
"""

from __future__ import annotations

from iosim.cache.policies import ring
from iosim.cache.policies.base import Policy, Shape, Start, State
from iosim.cache.policies.ring import pop, push


def _start(shape: Shape) -> Start:
    return *ring.start(shape), shape.cells(shape.sets + shape.lines)


def _hit(state: State, s: int, line: int) -> None:
    state[2][line] = 1


def _enter(state: State, s: int, line: int) -> None:
    push(state, s, line)
    state[2][line] = 0


def _evict(state: State, s: int) -> int:
    marked = state[2]
    oldest = pop(state, s)
    while marked[oldest]:
        marked[oldest] = 0
        push(state, s, oldest)
        oldest = pop(state, s)
    return oldest


CLOCK = Policy(
    name="clock", rule="the oldest line not touched since it was last looked at",
    start=_start, hit=_hit, enter=_enter, evict=_evict,
)  # fmt: skip
