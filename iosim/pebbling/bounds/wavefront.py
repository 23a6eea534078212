"""The wavefront of one operation, by a minimum cut.

Elango, Rastello, Pouchet, Ramanujam and Sadayappan, *On characterizing the data access complexity
of programs*, POPL 2015.  Let P be what has been done when operation u is done.  P holds with each
operation those before it, u and what comes before u, and nothing that comes after u.  A value is on
the *boundary* if an operation of P touches it and one outside P needs it.  Of the boundary and the
values H(u) that u holds at most M words are red, and the rest has been evicted: it costs a load
each, and a store where it is made and no output.  The least boundary, over all P, is a minimum cut,
in a graph in which each value can be cut once.  A maximum flow proves it: this many paths, no value
on two of them, from an operation that is in P to one that is not.

The certificate has the paths: operations, from one that is u or before u to one after u; each step
leads to an operation that it depends on (the value is null), or along a value that the one touches
and the other needs.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import numpy as np

from iosim.pebbling.bits import members
from iosim.pebbling.bounds.order import Certified, PartialOrder

MANY = 400  # operations, beyond which only some are tried
Path = list[tuple[int, int | None]]  # operations, and the value that leads to each


def bound(order: PartialOrder, seconds: float) -> Certified | None:
    """The compulsory words, and what the operation with the largest wavefront needs besides."""
    if not order.dag.unit:
        return None
    until = time.monotonic() + seconds
    best: tuple[int, int] = (0, -1)
    candidates = [u for u in range(order.n) if order.above[u] and order.below[u]]
    candidates.sort(key=lambda u: -len(order.spanning(u)))
    counted = set(order.reloaded_values)
    for u in candidates[:MANY]:
        if time.monotonic() > until:
            break
        extra = sum(
            max(0, order.hold[u].bit_count() + len(_cut(order, u, some)) - order.M)
            for some in (counted, counted & set(members(order.stored)))
        )
        best = max(best, (extra, u))
    extra, u = best
    if extra <= 0:
        return None
    return order.compulsory + extra, {
        "operation": order.name(u),
        "loads": _named(order, _cut(order, u, counted)),
        "stores": _named(order, _cut(order, u, counted & set(members(order.stored)))),
    }


def _named(order: PartialOrder, paths: list[Path]) -> list[list[Any]]:
    values = order.names
    return [[[order.name(w), None if v is None else values[v]] for w, v in path] for path in paths]


def _cut(order: PartialOrder, u: int, counted: set[int]) -> list[Path]:
    """Paths that prove how large the boundary is, of values that count."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import maximum_flow

    most_flow: Any = maximum_flow

    n = order.n
    source, sink = n + 2 * order.values, n + 2 * order.values + 1
    most = order.values + 1
    arcs: dict[tuple[int, int], int] = {}
    for w in (u, *members(order.above[u])):
        arcs[source, w] = most
    for w in members(order.below[u]):
        arcs[w, sink] = most
    for w in range(n):
        for before in members(order.before[w]):
            arcs[w, before] = most
    for v in counted:
        if not order.hold[u] >> v & 1:
            enters, leaves = n + 2 * v, n + 2 * v + 1
            arcs[enters, leaves] = 1
            for w in members(order.touch[v]):
                arcs[w, enters] = most
            for w in members(order.after[v]):
                arcs[leaves, w] = most
    i, j = zip(*arcs, strict=True)
    ends = (np.array(i, np.int32), np.array(j, np.int32))
    graph = coo_matrix((np.array(list(arcs.values()), np.int32), ends), (sink + 1, sink + 1))
    flow = most_flow(graph.tocsr(), source, sink).flow.tocoo()
    left: dict[int, dict[int, int]] = defaultdict(dict)
    for a, b, x in zip(flow.row.tolist(), flow.col.tolist(), flow.data.tolist(), strict=True):
        if x > 0:
            left[a][b] = x
    paths: list[Path] = []
    while left[source]:
        node, walk = source, list[int]()
        while node != sink:
            to = next(iter(left[node]))
            left[node][to] -= 1
            if not left[node][to]:
                del left[node][to]
            if to in walk:  # a cycle of the flow: leave it out
                walk = walk[: walk.index(to)]
            walk.append(to)
            node = to
        path: Path = []
        value = None
        for node in walk[:-1]:
            if node < n:
                path.append((node, value))
                value = None
            else:
                value = (node - n) // 2
        paths.append(path)
    return paths
