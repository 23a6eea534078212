"""The steps that led to the goal of a sweep, each made once more in the schedule's own numbers.

A state is known up to an automorphism of the graph only, so each step's maps are applied to what
follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iosim.pebbling import state_layout
from iosim.pebbling.packed import SweepStep

if TYPE_CHECKING:
    from iosim.pebbling.layered_search import Layers


def path(layers: Layers) -> list[SweepStep]:
    """The steps to the goal of the last sweep."""
    p, table, room = layers.packed, layers.table, layers.scratch
    ranks = [int(table.rank[layers.goal])]
    record = int(table.parent[layers.goal])
    while record >= 0:
        ranks.append(int(table.ranks[record]))
        record = int(table.path[record])
    s, cost = layers.start(), 0
    ops, values = list(range(len(p.target))), list(range(len(p.weight)))
    steps = [SweepStep(0, layers.first)]
    for wanted in ranks[-2::-1]:
        steps.append(_child(layers, s, cost, wanted, ops, values))
        cost += _price(layers, s, room.live)
        s = room.child.copy()
        layers.loop["canonical"](layers.game, layers.images, s, room.image, room.applied)
        for m in room.applied[1 : int(room.applied[0]) + 1]:
            o, v = layers.maps[int(m)]
            ops = [ops[o.index(u)] for u in range(len(o))]
            values = [values[v.index(x)] for x in range(len(v))]
    return steps


def _price(layers: Layers, s: Any, evicted: Any) -> int:
    price = 0
    for k in range(layers.W):
        word = int(evicted[k])
        dirty = int(s[2 * layers.W + k])
        for j in range(64):
            if word >> j & 1:
                price += layers.packed.weight[64 * k + j] * (1 + (dirty >> j & 1))
    return price


def _child(
    layers: Layers, s: Any, cost: int, wanted: int, ops: list[int], values: list[int]
) -> SweepStep:
    """The step to a child, in the schedule's numbers; the child is left in `child`."""
    c, costs = layers.ints(len(layers.control)), layers.table.cost[:1].copy()
    c[state_layout.LIMIT], c[state_layout.COUNT], costs[0] = layers.limit, 1, cost
    table = layers.table._replace(cost=costs, states=s)
    layers.loop["expand"](layers.search._replace(table=table, control=c), layers.ints(1), wanted)
    room = layers.scratch
    trace = [int(u) for u in room.trace[: int(c[state_layout.WORK]) + 1]]
    evicted = sum(int(word) << 64 * k for k, word in enumerate(room.live[: layers.W]))
    out = sum(1 << values[v] for v in range(len(values)) if evicted >> v & 1)
    return SweepStep(out, tuple(ops[u] for u in trace))
