"""The parts of the search against a plain search of every move: bounds, automorphisms, compiled
loops, sets of several words, vertices of several words; and limits that hold.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_pebbling_oracle import Graph, as_dag, oracle, partial_oracle, random_graph

from iosim.base.compiled import available
from iosim.base.errors import InputError
from iosim.pebbling import Dag, butterfly, chain, matmul, optimum, pyramid, replay, tree
from iosim.pebbling.chains import choose
from iosim.pebbling.game import Game
from iosim.pebbling.layered_search import Layers, Tables
from iosim.pebbling.moves import to_moves
from iosim.pebbling.packed import Packed
from iosim.pebbling.rules import compile_rules
from iosim.pebbling.search import Found
from iosim.pebbling.steps import path
from iosim.pebbling.symmetry import generators

pytestmark = pytest.mark.numbers

FAST = [False, pytest.param(True, marks=pytest.mark.skipif(not available(), reason="no numba"))]


def swept(
    dag: Dag, M: int, fast: bool, partial: bool = False, helped: bool = True, back: bool = False
) -> int:
    """The optimum by sweeps alone, with chains and automorphisms if `helped`; replayed."""
    rules = compile_rules(dag, M, False, partial)
    layers = Layers(packed := Packed(rules, back), Tables(1e8, fast), lambda growth: None)
    limit = 0
    if helped:
        start = layers.start()
        chains = choose(packed, lambda x: layers.bounds(x, [start]), 0.02)
        layers.set_chains(chains)
        layers.set_maps(generators(rules, packed, 1.0))
        limit = max((layers.bounds(x, [start])[0] for x in chains), default=0)
    while (penalties := layers.sweep(limit)) is None:
        limit += 1
    assert penalties == limit
    if not helped:  # under a higher limit the goal of a sweep is the least, too
        assert layers.sweep(limit + 2) == penalties
    game = Game(dag, M, partial=partial)
    for move in to_moves(rules, packed, path(layers)):
        game.play(move)
    game.finish()
    assert game.loads + game.stores == rules.compulsory + penalties
    return rules.compulsory + penalties


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize(
    "block", [0, *(pytest.param(b, marks=pytest.mark.slow) for b in range(1, 10))]
)
def test_bounds_and_automorphisms_lose_no_optimum(block: int, fast: bool) -> None:
    for seed in range(10 * block, 10 * (block + 1)):
        rng = random.Random(9000 + seed)
        graph, outputs = random_graph(rng, 9)
        dag = as_dag(graph, outputs)
        for M in range(dag.least_memory(), dag.least_memory() + 2):
            want = oracle(graph, outputs, M, False)
            assert swept(dag, M, fast) == swept(dag, M, fast, helped=False) == want
            assert swept(dag, M, fast, back=True) == want
            assert swept(dag, M, fast, helped=False, back=True) == want


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize(
    ("graph", "outputs", "want"),
    [
        ([[], [0], [0, 1], [1], [1, 2], [1, 3], [2, 3, 4], [3, 5]], {6, 7}, 4),
        ([[], [], [], [], [1, 2, 3], [0, 4], [1, 4], [0, 3, 4], [5, 6]], {7, 8}, 7),
    ],
)
def test_what_must_be_stored_takes_two_places_of_what_need_not(
    graph: list[list[int]], outputs: set[int], want: int, fast: bool
) -> None:
    """Graphs on which an operation that is done too soon costs a transfer more."""
    dag = as_dag(graph, outputs)
    assert oracle(graph, outputs, 4, False) == want
    assert swept(dag, 4, fast) == swept(dag, 4, fast, helped=False) == want


@pytest.mark.parametrize("fast", FAST)
def test_sums_term_by_term_lose_no_optimum(fast: bool) -> None:
    for seed in range(15):
        rng = random.Random(5000 + seed)
        graph, outputs = random_graph(rng, 7)
        sums = {v for v, ps in enumerate(graph) if ps and rng.random() < 0.5}
        dag = as_dag(graph, outputs, sums)
        fused = {int(v[1:]) for v in dag.fused}
        for M in range(dag.least_memory(True), dag.least_memory(True) + 2):
            want = partial_oracle(graph, outputs, sums, fused, M)
            assert swept(dag, M, fast, partial=True) == want


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize(
    "block", [0, *(pytest.param(b, marks=pytest.mark.slow) for b in (1, 2, 3))]
)
def test_vertices_of_several_words(block: int, fast: bool) -> None:
    for seed in range(10 * block, 10 * (block + 1)):
        rng = random.Random(7000 + seed)
        graph, outputs = random_graph(rng, 8)
        words = [rng.choice((1, 1, 2, 3)) for _ in graph]
        dag = as_dag(graph, outputs, words=words)
        for M in range(dag.least_memory(), dag.least_memory() + 3):
            want = oracle(graph, outputs, M, False, words)
            assert swept(dag, M, fast) == swept(dag, M, fast, back=True) == want
            best = optimum(dag, M, seconds=60)
            assert (best.cost, best.lower_bound) == (want, want)


def tight_graph(rng: random.Random, n: int) -> tuple[Graph, set[int]]:
    """Each vertex has two operands: with little memory much is evicted, and stored before."""
    inputs = rng.choice((2, 3))
    graph: Graph = [[] for _ in range(inputs)]
    graph += [sorted(rng.sample(range(v), 2)) for v in range(inputs, n)]
    return graph, set(range(n)) - {p for ps in graph for p in ps}


# The last ones show rules of `settling.py` that are a little too bold: of a place too small, of one
# clean value for a dirty one, of what is dirty.
SEEDS = [*range(8), 28, 35, 68, 78, 92]


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize(
    "seeds", [SEEDS, pytest.param(range(8, 240), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_where_much_is_evicted(seeds: Sequence[int], fast: bool) -> None:
    evicted = 0
    for seed in seeds:
        rng = random.Random(3000 + seed)
        graph, outputs = tight_graph(rng, 9)
        words = [1] * 9 if seed % 2 else [rng.choice((1, 1, 2)) for _ in graph]
        dag = as_dag(graph, outputs, words=words)
        for M in (dag.least_memory(), dag.least_memory() + 1):
            want = oracle(graph, outputs, M, False, words)
            assert want is not None
            evicted += want - compile_rules(dag, M, False, False).compulsory
            for back in (False, True):
                for helped in (False, True):
                    assert swept(dag, M, fast, helped=helped, back=back) == want
    assert evicted > 3 * len(seeds)


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize(
    "block", [0, *(pytest.param(b, marks=pytest.mark.slow) for b in range(1, 10))]
)
def test_sums_where_much_is_evicted(block: int, fast: bool) -> None:
    for seed in range(6 * block, 6 * (block + 1)):
        rng = random.Random(4000 + seed)
        graph, _ = tight_graph(rng, 7)
        for v in range(3, 7):
            if rng.random() < 0.4:
                graph[v] = sorted(rng.sample(range(v), 3))
        outputs = set(range(7)) - {p for ps in graph for p in ps}
        sums = {v for v, ps in enumerate(graph) if len(ps) > 1 and rng.random() < 0.7}
        dag = as_dag(graph, outputs, sums)
        fused = {int(v[1:]) for v in dag.fused}
        M = dag.least_memory(True)
        want = partial_oracle(graph, outputs, sums, fused, M)
        assert swept(dag, M, fast, partial=True) == want
        assert swept(dag, M, fast, partial=True, helped=False) == want


def disjoint_union(*dags: Dag) -> Dag:
    """Graphs side by side, their vertices renamed."""
    preds = {
        f"{k}:{v}": tuple(f"{k}:{p}" for p in ps)
        for k, dag in enumerate(dags)
        for v, ps in dag.preds.items()
    }
    outputs = tuple(f"{k}:{v}" for k, dag in enumerate(dags) for v in dag.outputs)
    return Dag("beside", preds, outputs)


@pytest.mark.parametrize("fast", FAST)
def test_sets_of_several_words(fast: bool) -> None:
    """A chain of more than 128 vertices, swept; more than 64 of a tree and a pyramid, solved."""
    assert swept(chain(150), 2, fast) == 2
    for dag, M, want in ((tree(6), 8, 65), (pyramid(10), 12, 12)):
        best = optimum(dag, M, seconds=60)  # pebbling numbers: every input once, and the output
        assert (best.cost, best.lower_bound) == (want, want)


@pytest.mark.parametrize("fast", FAST)
def test_graphs_side_by_side_cost_what_their_parts_cost(fast: bool) -> None:
    """Each part can be done after the other, and none saves another one a transfer."""
    parts = [(chain(70), 3), (tree(2), 3), (butterfly(1), 3), (tree(2), 3)]
    want = sum(swept(dag, M, fast) for dag, M in parts)
    whole = disjoint_union(*(dag for dag, _ in parts))
    assert len(whole.vertices) > 64
    assert swept(whole, 3, fast) == want


def test_bounds_of_chains_are_not_idle() -> None:
    """On a chain of layers that all use the same inputs the bound is most of the optimum."""
    preds: dict[str, tuple[str, ...]] = {f"x{i}": () for i in range(6)}
    last = "x0"
    for k in range(4):
        for i in range(1, 6):
            preds[f"y{k},{i}"] = (last, f"x{i}")
            last = f"y{k},{i}"
    dag = Dag("again and again", preds)
    rules = compile_rules(dag, 4, False, False)
    layers = Layers(packed := Packed(rules), Tables(1e8, False), lambda growth: None)
    start = layers.start()
    found = [
        layers.bounds(c, [start])[0]
        for c in choose(packed, lambda c: layers.bounds(c, [start]), 0.5)
    ]
    best = optimum(dag, 4)
    assert best.optimal
    assert best.cost is not None
    assert 0.7 * (best.cost - rules.compulsory) <= max(found) <= best.cost - rules.compulsory


# --- limits --------------------------------------------------------------------------------------

WIDE = """
import random, re, sys
from pathlib import Path
from iosim.pebbling import Dag, optimum
rng = random.Random(1)
preds = {f"x{i}": () for i in range(23)}
for k in range(40):
    preds[f"y{k}"] = tuple(rng.sample(sorted(preds), 8))
dag = Dag("wide", preds)
best = optimum(dag, 9, seconds=float(sys.argv[1]), memory=float(sys.argv[2]),
               recompute=sys.argv[3] == "again")
peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(int(peak) * 1024, best.lower_bound, best.cost, best.stopped)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize("memory", [60e6, 250e6, 400e6])
@pytest.mark.parametrize("variant", ["once", "again"])
def test_limits_of_memory_hold(variant: str, memory: float, tmp_path: Path) -> None:
    """63 vertices with in-degree 8: the whole process, numba included, stays below the limit."""
    program = tmp_path / "wide.py"
    program.write_text(WIDE)
    done = subprocess.run(
        [sys.executable, str(program), "8", str(memory), variant],
        capture_output=True,
        text=True,
        check=True,
    )
    peak, lower, cost, *why = done.stdout.split()
    assert int(peak) <= memory
    assert int(lower) <= int(cost)
    assert "is up" in " ".join(why) or lower == cost


def test_a_limit_below_what_the_process_takes_is_refused() -> None:
    with pytest.raises(InputError, match=r"memory = 1 MB is too little: the process takes \d+ MB"):
        optimum(matmul(2, 2, 2), 4, memory=1e6)


def test_a_search_that_is_out_of_time_says_so_and_keeps_its_interval() -> None:
    began = time.monotonic()
    best = optimum(matmul(3, 3, 3), 4, seconds=1.0)
    assert best.stopped == "time is up"
    assert 27 <= best.lower_bound < (best.cost or 0)
    assert time.monotonic() - began < 60  # no figure: the machine may be busy
    replay(best.dag, 4, best.schedule)


def test_a_bound_that_claims_too_much_is_no_answer() -> None:
    """Not an optimum that it "proves": a schedule below what is proved shows a wrong proof."""
    found = Found(lower=4)
    found.offer(8, ())
    found.prove(8)
    assert found.closed
    with pytest.raises(AssertionError, match="9 are proved, and a schedule costs 8"):
        found.prove(9)
    found = Found(lower=9)
    with pytest.raises(AssertionError, match="9 are proved, and a schedule costs 8"):
        found.offer(8, ())
