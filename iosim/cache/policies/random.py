"""Random replacement: each way of a full set leaves as likely as another.

Drawn by xorshift (Marsaglia 2003) in 32 bits, so that a seed gives the same everywhere.
"""

from __future__ import annotations

from iosim.cache.policies import ways
from iosim.cache.policies.base import Policy, Shape, Start, State
from iosim.cache.policies.ways import insert_line, take


def _start(shape: Shape) -> Start:
    # Seeds that differ little give numbers that differ much, and none is 0, where xorshift stays.
    seed = (shape.seed * 2654435761 + 0x9E3779B9) % (2**32 - 1) + 1
    return *ways.start(shape), shape.numbers(1, seed), shape.numbers(1, shape.ways)


def _enter(state: State, s: int, line: int) -> None:
    insert_line(state, s, line)


def _evict(state: State, s: int) -> int:
    _, _, _, drawn, count = state
    x = drawn[0]
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    drawn[0] = x
    return take(state, s, x % count[0])


RANDOM = Policy(
    name="random", rule="a way drawn at random", start=_start, enter=_enter, evict=_evict
)
