"""The steps that led to the goal of a sweep, each made once more in the schedule's own numbers.

A state is known up to an automorphism of the graph only, so each step's maps are applied to what
follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iosim.pebbling import state_layout
from iosim.pebbling.packed import SweepStep

if TYPE_CHECKING:
    from iosim.pebbling.layered_search import Layers


def path(layers: Layers) -> list[SweepStep]:
    """The steps to the goal of the last sweep."""
    ranks = [int(layers.nodes[1][layers.goal])]
    record = int(layers.nodes[0][layers.goal])
    while record >= 0:
        ranks.append(int(layers.nodes[6][record]))
        record = int(layers.nodes[5][record])
    ranks.reverse()
    p = layers.packed
    s, cost = layers.start(), 0
    ops, values = list(range(len(p.target))), list(range(len(p.weight)))
    steps = [SweepStep(0, layers.first)]
    for wanted in ranks[1:]:
        steps.append(_child(layers, s, cost, wanted, ops, values))
        cost += _price(layers, s, layers.rooms[2])
        s = layers.rooms[1][:] if not layers.fast else layers.rooms[1].copy()
        applied = layers.local[6]
        layers.loop["canonical"](
            layers.sizes, layers.images, layers.one, s, layers.rooms[5], applied
        )
        for m in applied[1 : int(applied[0]) + 1]:
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
    """The step to a child, in the schedule's numbers; the child is left in `work`."""
    c = layers.make(np.zeros(14, np.int64))
    c[state_layout.LIMIT], c[state_layout.COUNT] = layers.limit, 1
    nodes = tuple(layers.make(np.zeros(1, np.int64)) for _ in range(7))
    nodes[2][0] = cost
    states = s[:] if not layers.fast else s.copy()
    heads = layers.make(np.zeros(1, np.int32))
    if layers.fast:
        kinds = [x.dtype for x in layers.nodes]
        nodes = tuple(x.astype(kind) for x, kind in zip(nodes, kinds, strict=True))
    layers.loop["expand"](
        layers.sizes,
        layers.ops,
        layers.sets,
        layers.chain,
        layers.cut,
        layers.images,
        layers.one,
        layers.mix,
        c,
        layers.ints(1),
        nodes,
        states,
        layers.slots,
        heads,
        layers.rooms,
        layers.local,
        wanted,
    )
    trace = [int(u) for u in layers.local[5][: int(c[state_layout.WORK]) + 1]]
    evicted = 0
    for k in range(layers.W):
        evicted |= int(layers.rooms[2][k]) << 64 * k
    out = sum(1 << values[v] for v in range(len(values)) if evicted >> v & 1)
    return SweepStep(out, tuple(ops[u] for u in trace))
