"""Tree-PLRU: a binary tree over the ways of a set, with a bit at each node.

Each bit leads to the half that was not touched last.  Following them from the root finds the way
that leaves.  The ways are a power of two; node n has the nodes 2n and 2n + 1 below it, and way w
is node ways + w.
"""

from __future__ import annotations

from iosim.cache.policies import ways
from iosim.cache.policies.base import Policy, Shape, Start, State
from iosim.cache.policies.ways import insert_line, take


def _start(shape: Shape) -> Start:
    bits = shape.numbers(shape.sets * shape.ways)
    way_of = shape.numbers(shape.sets + shape.lines)
    return *ways.start(shape), bits, way_of, shape.numbers(1, shape.ways)


def _hit(state: State, s: int, line: int) -> None:
    first, _, _, bits, way_of, count = state
    node = count[0] + way_of[line]
    while node > 1:
        bits[first[s] + (node >> 1)] = 1 - (node & 1)
        node >>= 1


def _enter(state: State, s: int, line: int) -> None:
    state[4][line] = insert_line(state, s, line)
    _hit(state, s, line)


def _evict(state: State, s: int) -> int:
    first, _, _, bits, _, count = state
    node = 1
    while node < count[0]:
        node = 2 * node + bits[first[s] + node]
    return take(state, s, node - count[0])


PLRU = Policy(
    name="plru",
    rule="the way to which a tree of bits leads",
    start=_start,
    hit=_hit,
    enter=_enter,
    evict=_evict,
    binary=True,
)
