"""The red–blue pebble game on small graphs: every graph, the cheapest game, and its rules."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

from iosim.report.proof import require

Graph = tuple[tuple[int, ...], ...]  # parents of each vertex, all of them smaller
Move = tuple[str, int]


def bits(mask: int) -> Iterator[int]:
    """The members of a set that is stored as the bits of an integer."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Dag:
    """A graph with what the game needs: parents, children, inputs and outputs as bit sets."""

    def __init__(self, graph: Graph) -> None:
        self.n = len(graph)
        self.parents = [sum(1 << p for p in ps) for ps in graph]
        self.children = [0] * self.n
        for v, ps in enumerate(graph):
            for p in ps:
                self.children[p] |= 1 << v
        self.inputs = sum(1 << v for v in range(self.n) if not self.parents[v])
        self.outputs = sum(1 << v for v in range(self.n) if not self.children[v])
        self.least = max(ps.bit_count() for ps in self.parents) + 1


@cache
def graphs(n: int) -> tuple[Graph, ...]:
    """Every acyclic graph on n vertices, none isolated, one of each isomorphism class."""
    pairs = list(itertools.combinations(range(n), 2))
    seen: set[frozenset[tuple[int, int]]] = set()
    found = []
    for chosen in range(1 << len(pairs)):
        edges = [pairs[e] for e in bits(chosen)]
        if len({v for e in edges for v in e}) < n or frozenset(edges) in seen:
            continue
        for order in itertools.permutations(range(n)):
            seen.add(frozenset((order[a], order[b]) for a, b in edges))
        found.append(tuple(tuple(a for a, b in edges if b == v) for v in range(n)))
    return tuple(found)


@cache
def forests(n: int) -> tuple[Graph, ...]:
    """Every forest on n vertices, roots as inputs, none isolated, one of each isomorphism class."""
    found: dict[str, Graph] = {}
    for above in itertools.product(*(range(-1, v) for v in range(n))):
        below: list[list[str]] = [[] for _ in range(n + 1)]
        for v in reversed(range(n)):
            below[above[v]].append("(" + "".join(sorted(below[v])) + ")")
        shape = "".join(sorted(below[-1]))
        if "()" not in below[-1]:
            found.setdefault(shape, tuple((p,) if p >= 0 else () for p in above))
    return tuple(found.values())


def cheapest(dag: Dag, M: int) -> tuple[int, list[Move]]:
    """The fewest transfers of any pebbling with M red pebbles, and one such pebbling.

    Dijkstra with costs 0 and 1 over (red, blue); blue pebbles are never removed, which is no loss.
    """
    start = (0, dag.inputs)
    best = {start: 0}
    back: dict[tuple[int, int], tuple[tuple[int, int], Move]] = {}
    layer, cost = [start], 0
    while True:
        todo, later = layer, []
        while todo:
            state = todo.pop()
            if best[state] < cost:
                continue
            red, blue = state
            if not dag.outputs & ~blue:
                moves = []
                while state != start:
                    state, move = back[state]
                    moves.append(move)
                return cost, moves[::-1]
            room = red.bit_count() < M
            for v in range(dag.n):
                bit = 1 << v
                options: list[tuple[tuple[int, int], Move, int]] = []
                if red & bit:
                    options.append(((red & ~bit, blue), ("delete", v), 0))
                    if not blue & bit:
                        options.append(((red, blue | bit), ("store", v), 1))
                elif room:
                    if blue & bit:
                        options.append(((red | bit, blue), ("load", v), 1))
                    if dag.parents[v] and not dag.parents[v] & ~red:
                        options.append(((red | bit, blue), ("compute", v), 0))
                for new, move, price in options:
                    if best.get(new, 1 << 30) > cost + price:
                        best[new] = cost + price
                        back[new] = (state, move)
                        (later if price else todo).append(new)
        layer, cost = later, cost + 1


def clean(dag: Dag, moves: list[Move]) -> list[Move]:
    """Drop loads, computations and stores that nothing uses, until none is left (Lemma 1)."""
    while True:
        useless: set[int] = set()
        for at, (kind, v) in enumerate(moves):
            if kind == "delete":
                continue
            rest = moves[at + 1 :]
            if kind == "store":
                again = any(m == ("load", v) for m in rest)
                if not (dag.outputs >> v & 1 or again):
                    useless.add(at)
                continue
            used = False
            for k, w in rest:
                if (k, w) == ("delete", v):
                    break
                if (k == "store" and w == v) or (k == "compute" and dag.parents[w] >> v & 1):
                    used = True
                    break
            if not used:
                useless.add(at)
                gone = next((i for i, m in enumerate(rest) if m == ("delete", v)), None)
                if gone is not None:
                    useless.add(at + 1 + gone)
                break
        if not useless:
            return moves
        moves = [m for at, m in enumerate(moves) if at not in useless]


def transfers(dag: Dag, moves: list[Move], M: int) -> int:
    """The transfers of a complete calculation; AssertionError where it breaks a rule."""
    red, blue, paid = 0, dag.inputs, 0
    for kind, v in moves:
        bit = 1 << v
        if kind == "delete":
            require(red & bit, f"{v} is deleted, but not red")
            red &= ~bit
        elif kind == "store":
            require(red & bit, f"{v} is stored, but not red")
            blue, paid = blue | bit, paid + 1
        else:
            if kind == "load":
                require(blue & bit, f"{v} is loaded, but not blue")
                paid += 1
            else:
                require(dag.parents[v] and not dag.parents[v] & ~red, f"{v} lacks a parent")
            red |= bit
            require(red.bit_count() <= M, f"more than {M} red pebbles")
    require(not dag.outputs & ~blue, "an output is not stored")
    return paid
