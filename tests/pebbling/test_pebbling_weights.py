"""Vertices of several words, sums term by term among them, against every move that the rules allow.

Two oracles that share no code: one over sets of bits, and one that plays `Game` itself, a copy for
each move.
"""

from __future__ import annotations

import copy
import heapq
import itertools
import random
from typing import Any

import pytest
from test_pebbling_oracle import as_dag, check, oracle, partial_oracle, random_graph
from test_pebbling_search import FAST, swept

from iosim.base.errors import CapacityError, InputError, ProgramError, ResidencyError
from iosim.pebbling import Dag, Game, Move, annealed, optimum, replay
from iosim.pebbling.bounds import root_bounds
from iosim.pebbling.bounds.checking import proved
from iosim.pebbling.operations import operations

pytestmark = [pytest.mark.numbers, pytest.mark.usefixtures("brief_annealing")]

# The way on the fly does not fit, or costs more; and the other way round.
APART = Dag(
    "apart",
    {"a": (), "b": (), "t": ("a",), "s": ("t", "b")},
    sums=frozenset("s"),
    words=(2, 1, 1, 2),
)
FLYING = Dag(
    "flying",
    {"a": (), "b": (), "t": ("a",), "s": ("t", "b")},
    sums=frozenset("s"),
    words=(1, 1, 2, 3),
)
LATER = Dag(
    "later",
    {"v0": (), "v1": ("v0",), "v2": ("v1",), "v3": ("v1", "v2"), "v4": ("v0", "v3")},
    sums=frozenset({"v2", "v4"}),
    words=(5, 2, 1, 1, 3),
)


def played(dag: Dag, M: int, **variant: bool) -> int | None:
    """The fewest words of a game, by every move of `Game`; None if there is none."""
    every = [Move(kind, v) for v in dag.preds for kind in ("load", "store", "compute", "delete")]
    every += [Move("add", s, t) for s in dag.sums for t in dag.preds[s]]

    def key(game: Game) -> Any:
        terms = frozenset((s, t) for s, ts in game.terms.items() for t in ts)
        return frozenset(game.red), frozenset(game.blue), frozenset(game.computed), terms

    tie = itertools.count()
    queue, seen = [(0, next(tie), Game(dag, M, **variant))], set()
    while queue:
        cost, _, game = heapq.heappop(queue)
        if key(game) in seen:
            continue
        seen.add(key(game))
        try:
            game.finish()
            return cost
        except (ProgramError, ResidencyError, CapacityError):
            pass
        for move in every:
            after = copy.copy(game)
            after.red, after.blue, after.computed = {*game.red}, {*game.blue}, {*game.computed}
            after.terms = {s: {*ts} for s, ts in game.terms.items()}
            try:
                after.play(move)
            except (ProgramError, ResidencyError, CapacityError):
                continue
            heapq.heappush(queue, (after.loads + after.stores, next(tie), after))
    return None


@pytest.mark.parametrize(
    ("dag", "M", "want"),
    [
        (APART, 2, None),
        (APART, 3, 5),
        (FLYING, 3, None),
        (FLYING, 4, 5),
        (LATER, 7, None),
        (LATER, 8, 12),
        (LATER, 9, 8),
    ],
)
def test_a_term_lighter_than_its_sum_has_two_ways(dag: Dag, M: int, want: int | None) -> None:
    assert played(dag, M, partial=True) == want
    check(dag, M, want, partial=True)
    if want is None:
        with pytest.raises(InputError, match="too small"):
            annealed(dag, M, partial=True, steps=10)
        return
    game = replay(dag, M, annealed(dag, M, partial=True, seconds=60, steps=2000), partial=True)
    assert game.loads + game.stores == want


def test_only_terms_as_heavy_as_their_sum_are_folded() -> None:
    for t, s in itertools.product((1, 2, 3), repeat=2):
        dag = Dag("fold", APART.preds, sums=frozenset("s"), words=(1, 1, t, s))
        assert dag.folded == (frozenset("t") if t >= s else frozenset())
        assert len(operations(dag, True).flying) == (t < s)


def weighted(seed: int, most: int, heaviest: int) -> tuple[Any, ...]:
    """A random graph with sums and words, and its fused terms.

    Every other graph is full of terms that are lighter than the one sum that uses them.
    """
    rng = random.Random(seed)
    graph, outputs = random_graph(rng, most)
    sums = {v for v, ps in enumerate(graph) if ps and rng.random() < 0.6}
    words = [rng.randint(1, heaviest) for _ in graph]
    if seed % 2:
        graph = [[] for _ in range(rng.randint(1, 2))]
        words, sums = [rng.randint(1, heaviest) for _ in graph], set()
        while len(graph) < most - 1:
            n = len(graph)
            terms = range(n, min(most - 1, n + rng.randint(1, 3)))
            graph += [sorted(rng.sample(range(n), min(n, rng.choice((1, 1, 2))))) for _ in terms]
            words += [rng.randint(1, max(1, heaviest - 1)) for _ in terms]
            more = rng.sample(range(n), rng.randint(0, min(n, 1)))
            sums.add(len(graph))
            graph.append(sorted({*terms, *more}))
            words.append(rng.randint(min(2, heaviest), heaviest))
        outputs = set(range(len(graph))) - {p for ps in graph for p in ps}
    dag = as_dag(graph, outputs, sums, words)
    return graph, outputs, sums, words, dag, {int(v[1:]) for v in dag.fused}


@pytest.mark.parametrize(
    "block", [*range(2), *(pytest.param(b, marks=pytest.mark.slow) for b in range(2, 30))]
)
def test_weighted_sums_term_by_term(block: int) -> None:
    """Every M from one that is too small on; the search, its sweeps, annealing and all bounds."""
    light = 0
    for seed in range(20 * block, 20 * (block + 1)):
        graph, outputs, sums, words, dag, fused = weighted(11000 + seed, 7, 2 + seed % 4)
        least = dag.least_memory(partial=True)
        light += len(operations(dag, True).flying)
        for M in range(max(1, least - 2), least + 4):
            want = partial_oracle(graph, outputs, sums, fused, M, words)
            assert (want is None) == (least > M), (seed, M)
            check(dag, M, want, partial=True)
            if want is not None:
                assert swept(dag, M, False, partial=True) == want, (seed, M)
                assert swept(dag, M, False, partial=True, helped=False) == want, (seed, M)
                bounded(dag, M, want, partial=True)
    assert light > 10


def bounded(dag: Dag, M: int, want: int, **variant: bool) -> None:
    """No bound is above the optimum, its certificate proves it, and no annealed game is below."""
    for bound in root_bounds(dag, M, **variant):
        assert bound.value <= want, bound.name
        assert proved(dag, M, bound.name, bound.certificate, **variant) == bound.value
    game = replay(dag, M, annealed(dag, M, seconds=60, steps=200, **variant), **variant)
    assert game.loads + game.stores >= want


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(b, marks=pytest.mark.slow) for b in range(1, 10))]
)
def test_weighted_graphs(block: int) -> None:
    """Whole vertices; with recomputation the search gives an interval."""
    for seed in range(20 * block, 20 * (block + 1)):
        graph, outputs, _, words, dag, _ = weighted(12000 + seed, 7, 2 + seed % 4)
        least = dag.least_memory()
        for M in range(max(1, least - 1), least + 3):
            want = oracle(graph, outputs, M, False, words)
            assert (want is None) == (least > M)
            check(dag, M, want)
            if want is not None:
                bounded(dag, M, want)
                again = oracle(graph, outputs, M, True, words)
                assert again is not None
                bounded(dag, M, again, recompute=True)
                best = optimum(dag, M, recompute=True, seconds=20)
                assert best.cost is not None
                assert best.lower_bound <= again <= best.cost


@pytest.mark.parametrize("fast", FAST)
def test_compiled_sweeps_of_weighted_sums(fast: bool) -> None:
    for seed in range(12):
        graph, outputs, sums, words, dag, fused = weighted(13000 + seed, 7, 2 + seed % 3)
        M = dag.least_memory(partial=True) + seed % 2
        want = partial_oracle(graph, outputs, sums, fused, M, words)
        assert swept(dag, M, fast, partial=True) == want


def test_the_oracles_play_the_same_game() -> None:
    for seed in range(8):
        graph, outputs, sums, words, dag, fused = weighted(14000 + seed, 5, 2)
        for M in range(2, 6):
            want = partial_oracle(graph, outputs, sums, fused, M, words)
            assert played(dag, M, partial=True) == want
            for recompute in (False, True):
                want = oracle(graph, outputs, M, recompute, words)
                assert played(dag, M, recompute=recompute) == want


LADDER = [[], [], [0, 1], [0, 2], [1, 2], [3, 4], [2, 5], [0, 6]]


@pytest.mark.parametrize("unit", [1000, 20_000, 2**37])
def test_words_may_be_large(unit: int) -> None:
    """Costs were kept in 16 bits: from 32,768 words on they were wrong."""
    words = [unit] * 8
    best = optimum(as_dag(LADDER, {7}, words=words), 3 * unit, seconds=20)
    assert best.cost == best.lower_bound == unit * oracle(LADDER, {7}, 3, False)
    words = [unit, unit + 1, unit + 3] * 2 + [unit] * 2
    M = 4 * unit
    want = oracle(LADDER, {7}, M, False, words)
    best = optimum(as_dag(LADDER, {7}, words=words), M, seconds=20)
    assert best.cost == want
    assert best.lower_bound == want or unit == 2**37  # too large to sweep: an interval
    game = replay(best.dag, M, annealed(best.dag, M, seconds=60, steps=2000))
    assert game.loads + game.stores >= want


def test_the_second_opinion_counts_words() -> None:
    from cp_sat_model import cp_sat

    graph, words = [[], [], [0, 1], [0, 2], [1, 3]], [3, 1, 2, 1, 2]
    for M in (6, 7):
        want = oracle(graph, {4}, M, False, words)
        assert cp_sat(as_dag(graph, {4}, words=words), M) == (want, want)
