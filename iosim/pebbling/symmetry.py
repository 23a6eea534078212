"""Automorphisms of a graph: states that differ by one are the same state.

Any set of automorphisms may be used, so a large group is cut off: fewer states are merged then, and
nothing else changes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from iosim.pebbling.bits import ZERO, Permutation
from iosim.pebbling.rules import Operation, Rules
from iosim.pebbling.states import States

LIMIT = 720


def automorphisms(rules: Rules, limit: int = LIMIT) -> tuple[tuple[int, ...], ...]:
    """Permutations of the operations' and values' numbers that keep every relation.

    Each is a tuple over values, then operations, found by backtracking over a refined colouring;
    the identity comes first, and no more than `limit` are returned.
    """
    return _automorphisms(len(rules.values), rules.ops, rules.inputs, rules.outputs, limit)


@functools.lru_cache(maxsize=16)
def _automorphisms(
    n: int, ops: tuple[Operation, ...], inputs: int, outputs: int, limit: int
) -> tuple[tuple[int, ...], ...]:
    total = n + len(ops)
    links: list[set[tuple[str, int]]] = [set() for _ in range(total)]
    for k, op in enumerate(ops):
        links[n + k].add(("writes", op.target))
        links[op.target].add(("written", n + k))
        for r in op.reads:
            links[n + k].add(("reads", r))
            links[r].add(("read", n + k))
    colour = [(v >= n, v < n and outputs >> v & 1, v < n and inputs >> v & 1) for v in range(total)]
    shade = _number(colour)
    while True:
        finer = _number(
            [(shade[v], tuple(sorted((kind, shade[w]) for kind, w in links[v])))
             for v in range(total)]
        )  # fmt: skip
        if max(finer) == max(shade):
            break
        shade = finer
    # Vertices next to those already placed come first, so that a wrong image fails early.
    order: list[int] = []
    left = set(range(total))
    while left:
        v = min(left, key=lambda v: (-sum(w in order for _, w in links[v]), v))
        order.append(v)
        left.remove(v)
    found: list[tuple[int, ...]] = []
    image: dict[int, int] = {}
    taken: set[int] = set()
    steps = 0

    def place(depth: int) -> None:
        nonlocal steps
        steps += 1
        if len(found) >= limit or steps > 200_000:
            return
        if depth == total:
            found.append(tuple(image[v] for v in range(total)))
            return
        v = order[depth]
        near = [(kind, w) for kind, w in links[v] if w in image]
        same = [v, *(w for w in range(total) if w != v)]
        for w in same:
            if w in taken or shade[w] != shade[v]:
                continue
            if all((kind, image[u]) in links[w] for kind, u in near):
                image[v] = w
                taken.add(w)
                place(depth + 1)
                taken.remove(w)
                del image[v]

    place(0)
    return tuple(found)


def _number(labels: Sequence[object]) -> list[int]:
    known = {label: k for k, label in enumerate(sorted(set(labels), key=repr))}
    return [known[label] for label in labels]


class Symmetry:
    """Maps each state to one representative of those that automorphisms make of it."""

    def __init__(self, rules: Rules):
        n = len(rules.values)
        self.maps = [
            (Permutation(p[:n]), Permutation([k - n for k in p[n:]]))
            for p in automorphisms(rules)[1:]
        ]
        self.recompute = rules.recompute

    def canonical(self, s: States) -> States:
        """The least image of each state, by A, then R, then D.

        Many states share their A: which automorphisms make it least is found once for each.
        """
        if not self.maps:
            return s
        sets, which = np.unique(s.A, return_inverse=True)
        images = np.stack([sets, *((v if self.recompute else o)(sets) for v, o in self.maps)])
        least = images.min(axis=0)
        best = images == least
        A = least[which]
        R, D = (np.where(best[0][which], x, ~ZERO) for x in (s.R, s.D))
        for k, (values, _) in enumerate(self.maps, 1):
            rows = np.nonzero(best[k][which])[0]
            r = values(s.R[rows])
            less = r <= R[rows]
            rows, r = rows[less], r[less]
            d = values(s.D[rows])
            less = (r < R[rows]) | (d < D[rows])
            rows = rows[less]
            R[rows], D[rows] = r[less], d[less]
        return States(A, R, D, s.parent)

    def image(self, state: tuple[int, int, int], k: int) -> tuple[int, int, int]:
        """The image of one state under automorphism k."""
        values, ops = self.maps[k]
        A, R, D = state
        return (values if self.recompute else ops).of(A), values.of(R), values.of(D)
