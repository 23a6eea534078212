"""Hong and Kung's partition theorem, checked on every small graph: see hong_kung.md."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import random
from functools import cache

from iosim.report.proof import require, step, unsat

from .game import Dag, Graph, Move, bits, cheapest, clean, forests, graphs, transfers

# A part of the partition that a segment of s transfers gives: dominated by M + s vertices.
EXTRA = 1  # × s
VERTICES = 5
FOREST = 7


def parts(dag: Dag, moves: list[Move], s: int) -> list[tuple[int, int, int]]:
    """Cut into segments of s transfers: each part, its dominator, and its last pebbles.

    The part: vertices that get their first red pebble in the segment.  The dominator: red at its
    start, or loaded in it.  The last pebbles: red at its end, or stored in it.
    """
    cuts: list[list[Move]] = [[]]
    paid = 0
    for move in moves:
        if move[0] in ("load", "store"):
            if paid == s:
                cuts.append([])
                paid = 0
            paid += 1
        cuts[-1].append(move)
    found, red, ever = [], 0, 0
    for segment in cuts:
        part, dominator, last = 0, red, 0
        for kind, v in segment:
            if kind == "delete":
                red &= ~(1 << v)
            elif kind == "store":
                last |= 1 << v
            else:
                red |= 1 << v
                if kind == "load":
                    dominator |= 1 << v
                if not ever >> v & 1:
                    part |= 1 << v
                    ever |= 1 << v
        found.append((part, dominator, last | red))
    return found


def dominates(dag: Dag, D: int, part: int) -> bool:
    """Whether every path from an input to `part` meets D."""
    reach = 0
    for v in range(dag.n):
        if not D >> v & 1 and (dag.inputs >> v & 1 or dag.parents[v] & reach):
            reach |= 1 << v
    return not reach & part


def minimum(dag: Dag, part: int) -> int:
    """The vertices of `part` without a child in it."""
    return sum(1 << v for v in bits(part) if not dag.children[v] & part)


def check_parts(dag: Dag, moves: list[Move], M: int, s: int) -> int:
    """Require that the segments give an (M + s)-partition; return their number."""
    found = parts(dag, moves, s)
    covered = 0
    for part, dominator, last in found:
        require(not part & covered, "the parts overlap")
        for v in bits(part):
            require(not dag.parents[v] & ~(covered | part), "a part depends on a later one")
        covered |= part
        require(dominates(dag, dominator, part), "a path misses the dominator")
        require(dominator.bit_count() <= M + EXTRA * s, f"dominator of {dominator.bit_count()}")
        require(not minimum(dag, part) & ~last, "a minimum vertex is neither red nor stored")
        require(last.bit_count() <= M + EXTRA * s, f"{last.bit_count()} minimum vertices allowed")
    require(covered == (1 << dag.n) - 1, "a vertex is in no part")
    return len(found)


def fewest_parts(dag: Dag, S: int) -> int:
    """P(S): the least number of parts of an S-partition, by search over down-closed prefixes."""
    full = (1 << dag.n) - 1

    @cache
    def good(part: int) -> bool:
        if minimum(dag, part).bit_count() > S:
            return False
        return any(D.bit_count() <= S and dominates(dag, D, part) for D in range(full + 1))

    reached, count = {0}, 0
    while full not in reached:
        count += 1
        new = set()
        for done in reached:
            free = full & ~done
            part = free
            while part:
                closed = all(not dag.parents[v] & ~(done | part) for v in bits(part))
                if closed and good(part):
                    new.add(done | part)
                part = (part - 1) & free
        reached = new | reached
    return count


def _all_cases(graph: Graph) -> tuple[int, int]:
    """Check every M and s of one graph; how many there are, and how many have P > 1."""
    dag, total, sharp = Dag(graph), 0, 0
    P = cache(lambda S: fewest_parts(dag, S))
    for M in range(dag.least, dag.n + 1):
        Q, moves = cheapest(dag, M)
        moves = clean(dag, moves)
        require(transfers(dag, moves, M) == Q, "cleaning changed an optimal calculation's cost")
        for s in range(1, M + 1):
            h = check_parts(dag, moves, M, s)
            need = P(M + EXTRA * s)
            require(need <= h, f"{graph}: {h} segments, P = {need}")
            require(Q >= s * (need - 1), f"{graph}, M = {M}: Q = {Q}")
            sharp += need > 1
            total += 1
    return total, sharp


@step(
    "every-small-graph",
    how="exhaustive",
    says="Theorem: Q ≥ s(P(M + s) − 1) for the true optimum Q; with s = M, Q ≥ M(P(2M) − 1)",
)
def every_small_graph() -> str:
    """Every graph, every M that allows a pebbling, every segment length s ≤ M."""
    cases = [_all_cases(g) for n in range(2, VERTICES + 1) for g in graphs(n)]
    total = sum(t for t, _ in cases)
    return f"graphs of up to {VERTICES} vertices: {len(cases)} graphs, {total} cases"


@step(
    "every-small-forest",
    how="exhaustive",
    says="Theorem, where it says something (P > 1): forests, whose vertices have one parent each",
)
def every_small_forest() -> str:
    """Every forest, every M that allows a pebbling, every segment length s ≤ M."""
    cases = [_all_cases(g) for n in range(2, FOREST + 1) for g in forests(n)]
    sharp = sum(p for _, p in cases)
    require(sharp >= 10, f"only {sharp} cases have P > 1: the check is empty")
    total = sum(t for t, _ in cases)
    return f"forests of up to {FOREST} vertices: {total} cases, {sharp} with P > 1"


def _random_game(rng: random.Random, n: int) -> tuple[Dag, int, list[Move]]:
    """A random graph and a random, wasteful, complete calculation on it."""
    while True:
        graph = tuple(
            tuple(sorted(rng.sample(range(v), min(v, rng.choice((0, 1, 1, 2)))))) for v in range(n)
        )
        dag = Dag(graph)
        if not dag.inputs & dag.outputs:
            break
    M = rng.randint(dag.least, dag.least + 2)
    red, blue, moves = 0, dag.inputs, []
    # Wasteful on purpose: values are dropped and recomputed, loaded for nothing, stored early.

    def room(keep: int) -> None:
        nonlocal red, blue
        while red.bit_count() >= M:
            v = rng.choice(list(bits(red & ~keep)))
            if not blue >> v & 1 and rng.random() < 0.5:
                moves.append(("store", v))
                blue |= 1 << v
            moves.append(("delete", v))
            red &= ~(1 << v)

    def get(v: int, keep: int) -> None:
        """Make v red, by a load or by computing it again, keeping `keep` red where it fits."""
        nonlocal red, blue
        if red >> v & 1:
            return
        if blue >> v & 1:
            room(keep)
            moves.append(("load", v))
        else:
            for p in bits(dag.parents[v]):
                get(p, 0)
                if not blue >> p & 1:
                    moves.append(("store", p))
                    blue |= 1 << p
            for p in bits(dag.parents[v]):
                get(p, dag.parents[v])
            room(dag.parents[v])
            moves.append(("compute", v))
        red |= 1 << v

    for v in rng.sample(range(n), n):
        if rng.random() < 0.6 or dag.outputs >> v & 1:
            get(v, 0)
            if dag.outputs >> v & 1 and not blue >> v & 1:
                moves.append(("store", v))
                blue |= 1 << v
    return dag, M, moves


@step(
    "wasteful-calculations",
    how="sampled",
    says="Lemmas 1 and 2: cleaned of useless moves, any calculation gives a partition",
)
def wasteful_calculations() -> str:
    """Random calculations with recomputation, cleaned, cut at every segment length."""
    rng = random.Random(0)
    for _ in range(400):
        dag, M, moves = _random_game(rng, rng.randint(4, 12))
        cleaned = clean(dag, moves)
        require(transfers(dag, cleaned, M) <= transfers(dag, moves, M), "cleaning costs transfers")
        for s in range(1, M + 1):
            check_parts(dag, cleaned, M, s)
    return "400 random calculations on graphs of 4 to 12 vertices, seed 0"


@step(
    "cleaning-is-needed",
    how="exhaustive",
    says="Remark: without Lemma 1 a part may have too many minimum vertices",
)
def cleaning_is_needed() -> str:
    """Compute five children of one vertex for nothing, then once more to store them."""
    dag = Dag(((), (0,), (0,), (0,), (0,), (0,)))
    moves: list[Move] = [("load", 0)]
    for v in range(1, 6):
        moves += [("compute", v), ("delete", v)]
    for v in range(1, 6):
        moves += [("compute", v), ("store", v), ("delete", v)]
    M, s = 2, 1
    first = parts(dag, moves, s)[0]
    require(minimum(dag, first[0]).bit_count() > M + EXTRA * s, "the part is small after all")
    check_parts(dag, clean(dag, moves), M, s)
    return "1 calculation on a star of 6 vertices"


@step("counting", how="proved", says="h segments of s transfers, the last one short: Q ≥ s(P − 1)")
def counting() -> str:
    """At least P segments, of which all but the last hold s transfers."""
    import z3

    Q, s, P, h = z3.Ints("Q s P h")
    unsat(s >= 1, P >= 1, h >= P, Q >= s * (h - 1), Q < s * (P - 1))
    return "all integers Q, s, P, h"
