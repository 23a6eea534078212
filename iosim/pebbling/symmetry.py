"""Automorphisms of a graph: states that differ by one are the same state.

Any set of automorphisms may be used, so a large group is cut off: fewer states are merged then, and
nothing else changes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from iosim.pebbling.bits import ZERO, Permutation
from iosim.pebbling.operations import Operation
from iosim.pebbling.packed import Packed
from iosim.pebbling.rules import Rules
from iosim.pebbling.states import States

LIMIT = 720
DEEPEST = 400  # vertices and operations: Python recurses no deeper by far


def automorphisms(
    rules: Rules, limit: int = LIMIT, seconds: float = math.inf
) -> tuple[tuple[int, ...], ...]:
    """Permutations of the operations' and values' numbers that keep every relation.

    Each is a tuple over values, then operations, found by backtracking over a refined coloring;
    the identity comes first, and no more than `limit` are returned, found in this many seconds.
    """
    n = len(rules.values)
    placing = _Placing(n, rules.ops, rules.inputs, rules.outputs, rules.weights)
    return tuple(placing.images((), limit, 200_000, time.monotonic() + seconds))


class _Placing:
    """Backtracking over a refined coloring; a vertex is a value, or n + an operation."""

    def __init__(
        self,
        n: int,
        ops: tuple[Operation, ...],
        inputs: int,
        outputs: int,
        weights: tuple[int, ...],
    ):
        self.total = total = n + len(ops)
        self.links = links = [set[tuple[str, int]]() for _ in range(total)]
        for k, op in enumerate(ops):
            links[n + k].add(("writes", op.target))
            links[op.target].add(("written", n + k))
            for r in op.reads:
                links[n + k].add(("reads", r))
                links[r].add(("read", n + k))
            for u in op.does:
                links[n + k].add(("does", n + u))
                links[n + u].add(("done by", n + k))
        shade = _number(
            [
                (
                    v >= n,
                    v < n and outputs >> v & 1,
                    v < n and inputs >> v & 1,
                    v < n and weights[v],
                )
                for v in range(total)
            ]
        )
        while True:
            finer = _number(
                [
                    (shade[v], tuple(sorted((kind, shade[w]) for kind, w in links[v])))
                    for v in range(total)
                ]
            )
            if max(finer, default=0) == max(shade, default=0):
                break
            shade = finer
        self.shade = shade
        # Vertices next to those already placed come first, so that a wrong image fails early.
        self.order: list[int] = []
        near = dict.fromkeys(range(total), 0)
        while near:
            v = min(near, key=lambda v: (-near[v], v))
            self.order.append(v)
            del near[v]
            for w in {w for _, w in links[v]} & near.keys():
                near[w] += 1

    def images(
        self, start: tuple[int, ...], limit: int, steps: int, until: float = math.inf
    ) -> list[tuple[int, ...]]:
        """Automorphisms that take the first vertices of `order` to those of `start`.

        At most `limit`, found in this many steps and seconds.
        """
        found: list[tuple[int, ...]] = []
        image: dict[int, int] = {}
        taken: set[int] = set()
        left = steps
        order, shade, links, total = self.order, self.shade, self.links, self.total

        def place(depth: int) -> None:
            nonlocal left
            left -= 1
            if len(found) >= limit or left < 0 or time.monotonic() > until:
                return
            if depth == total:
                found.append(tuple(image[v] for v in range(total)))
                return
            v = order[depth]
            near = [(kind, image[w]) for kind, w in links[v] if w in image]
            same = [v, *(w for w in range(total) if w != v)]
            for w in (start[depth],) if depth < len(start) else same:
                if w in taken or shade[w] != shade[v]:
                    continue
                if all(link in links[w] for link in near):
                    image[v] = w
                    taken.add(w)
                    place(depth + 1)
                    taken.remove(w)
                    del image[v]

        place(0)
        return found


def generators(
    rules: Rules, packed: Packed, seconds: float, most: int = 24
) -> list[tuple[list[int], list[int]]]:
    """A few automorphisms that move little: of operations, and of the values that are tracked.

    Of each vertex, those before it staying where they are, one automorphism to each place where it
    can go is looked for: together they generate the whole group.  States that are made least by
    none of them are represented by themselves, so that fewer merge than under all automorphisms,
    and one costs a few maps, not hundreds.
    """
    until = time.monotonic() + seconds
    n = len(rules.values)
    if n + len(rules.ops) > DEEPEST:
        return []
    graph = _Placing(n, rules.ops, rules.inputs, rules.outputs, rules.weights)
    number = {v: k for k, v in enumerate(packed.tracked)}
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    for depth, v in enumerate(graph.order):
        for w in range(graph.total):
            if w == v or graph.shade[w] != graph.shade[v]:
                continue
            if time.monotonic() > until:
                break
            for image in graph.images((*graph.order[:depth], w), 1, 5_000, until):
                ops = tuple(k - n for k in image[n:])
                values = tuple(number[image[x]] for x in packed.tracked)
                moved = sum(k != to for k, to in enumerate((*image,)))
                if ops != tuple(range(len(ops))) or values != tuple(range(len(values))):
                    found[ops, values] = moved
    least = sorted(found, key=lambda pair: (found[pair], pair))[:most]
    return [(list(o), list(v)) for o, v in least]


def _number(labels: Sequence[object]) -> list[int]:
    known = {label: k for k, label in enumerate(sorted(set(labels), key=repr))}
    return [known[label] for label in labels]


class Symmetry:
    """Maps each state to one representative of those that automorphisms make of it."""

    def __init__(self, rules: Rules, seconds: float = math.inf):
        n = len(rules.values)
        self.maps = [
            (Permutation(p[:n]), Permutation([k - n for k in p[n:]]))
            for p in automorphisms(rules, seconds=seconds)
            if p != tuple(range(len(p)))
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
