"""Least recently used (Denning 1968): the line that was not touched for longest leaves."""

from __future__ import annotations

from iosim.cache.policies import ring
from iosim.cache.policies.base import Policy, State
from iosim.cache.policies.ring import drop, push


def _hit(state: State, s: int, line: int) -> None:
    if state[1][s] != line:  # the newest already
        drop(state, line)
        push(state, s, line)


LRU = Policy(
    name="lru",
    rule="the line not touched for longest",
    start=ring.start,
    hit=_hit,
    enter=push,
    evict=ring.pop,
)
