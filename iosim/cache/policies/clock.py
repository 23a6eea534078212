"""CLOCK (Corbató 1968): first in, first out, with a second chance for what was touched since.

A line's mark is clear when it comes in, and set when it is found.  The oldest line leaves if its
mark is clear; otherwise the mark is cleared and the line is put where the newest is.
"""

from __future__ import annotations

from iosim.cache.policies import marked
from iosim.cache.policies.base import Policy, State
from iosim.cache.policies.ring import pop, push


def _evict(state: State, s: int) -> int:
    marks = state[2]
    oldest = pop(state, s)
    while marks[oldest]:
        marks[oldest] = 0
        push(state, s, oldest)
        oldest = pop(state, s)
    return oldest


CLOCK = Policy(
    name="clock",
    rule="the oldest line not touched since it was last looked at",
    start=marked.start,
    hit=marked.mark,
    enter=marked.enter,
    evict=_evict,
)
