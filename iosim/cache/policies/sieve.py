"""SIEVE (Zhang et al. 2024): first in, first out, with a hand that spares what was touched.

Lines are in the order in which they came.  The hand goes from the oldest towards the newest,
clears marks, and stops at the first line whose mark is clear; that one leaves.  From the newest it
goes on to the oldest.  Lines keep their places, which is the difference to CLOCK.
"""

from __future__ import annotations

from iosim.cache.policies import marked
from iosim.cache.policies.base import Policy, Shape, Start, State
from iosim.cache.policies.ring import drop


def _start(shape: Shape) -> Start:
    hand = shape.per_line()[: shape.sets]  # at the set's own entry: nowhere yet
    return *marked.start(shape), hand


def _evict(state: State, s: int) -> int:
    newer, _, marks, hand = state
    at: int = hand[s]
    if at == s:
        at = newer[s]
    while marks[at]:
        marks[at] = 0
        at = newer[at]
        if at == s:
            at = newer[s]
    hand[s] = newer[at]
    drop(state, at)
    return at


SIEVE = Policy(
    name="sieve",
    rule="the first line from the hand on that was not touched",
    start=_start,
    hit=marked.mark,
    enter=marked.enter,
    evict=_evict,
)
