"""The solver against a plain breadth-first search over states that shares no code with it.

The oracle plays move by move, with every load, store, computation and deletion that the rules
allow, in any order.  Its graphs are lists of operands by number.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import masked_oracle
import networkx as nx
import pytest

from iosim.base.errors import InputError
from iosim.pebbling import Dag, attention, attention_backward, optimum, replay

pytestmark = [pytest.mark.numbers, pytest.mark.usefixtures("brief_annealing")]

Graph = list[list[int]]
State = tuple[int, int, int]


def cheapest(
    start: State, after: Callable[[State], Iterator[tuple[State, int]] | None]
) -> int | None:
    """The least price of a way from a state to one that has nothing after it; None if none."""
    best, queue = {start: 0}, [(0, start)]
    while queue:
        cost, state = heapq.heappop(queue)
        if best[state] < cost:
            continue
        moves = after(state)
        if moves is None:
            return cost
        for there, price in moves:
            if cost + price < best.get(there, 1 << 60):
                best[there] = cost + price
                heapq.heappush(queue, (cost + price, there))
    return None


def oracle(
    graph: Graph, outputs: set[int], M: int, recompute: bool, words: Sequence[int] = ()
) -> int | None:
    """The fewest words of any pebbling; None if there is none."""
    n = len(graph)
    words = words or [1] * n
    need = [sum(1 << p for p in ps) for ps in graph]
    goal = sum(1 << v for v in outputs)

    def moves(state: State) -> Iterator[tuple[State, int]]:
        red, blue, computed = state
        used = sum(words[v] for v in range(n) if red >> v & 1)
        for v in range(n):
            bit = 1 << v
            if red & bit:
                yield (red & ~bit, blue, computed), 0
                if not blue & bit:
                    yield (red, blue | bit, computed), words[v]
            elif used + words[v] <= M:
                if blue & bit:
                    yield (red | bit, blue, computed), words[v]
                if graph[v] and red & need[v] == need[v] and (recompute or not computed & bit):
                    yield (red | bit, blue, computed if recompute else computed | bit), 0

    start = (0, sum(1 << v for v in range(n) if not graph[v]), 0)
    return cheapest(start, lambda s: None if s[1] & goal == goal else moves(s))


def partial_oracle(
    graph: Graph,
    outputs: set[int],
    sums: set[int],
    fused: set[int],
    M: int,
    words: Sequence[int] = (),
) -> int | None:
    """The same where sums take their terms one at a time, and nothing is computed twice.

    A state holds, of each sum, the terms that are in.  A stored sum that takes a further term has
    no blue pebble any more.  A fused term may be made apart, or go into its sum on the fly.
    """
    n = len(graph)
    words = words or [1] * n
    need = [sum(1 << p for p in ps) for ps in graph]
    # What is done is a set of bits: a vertex that is made, or a term that is in its sum.
    terms = [(s, t, 1 << n + k) for k, (s, t) in enumerate((s, t) for s in sums for t in graph[s])]
    whole = [0 if v in sums or not graph[v] else 1 << v for v in range(n)]
    for s, _, bit in terms:
        whole[s] |= bit

    def finished(state: State) -> bool:
        _, blue, done = state
        return all(blue >> v & 1 and done & whole[v] == whole[v] for v in outputs)

    def moves(state: State) -> Iterator[tuple[State, int]]:
        red, blue, done = state
        used = sum(words[v] for v in range(n) if red >> v & 1)
        complete = [done & w == w for w in whole]
        # Not made yet, and could be: all operands are red and complete.
        makes = [
            bool(graph[v])
            and v not in sums
            and not complete[v]
            and red & need[v] == need[v]
            and all(complete[p] for p in graph[v])
            for v in range(n)
        ]
        for v in range(n):
            bit = 1 << v
            if red & bit:
                yield (red & ~bit, blue, done), 0
                if not blue & bit:
                    yield (red, blue | bit, done), words[v]
            elif used + words[v] <= M:
                if blue & bit:
                    yield (red | bit, blue, done), words[v]
                if makes[v]:
                    yield (red | bit, blue, done | bit), 0
        for s, t, bit in terms:
            own = 1 << s
            if done & bit or not (red & own or not done & whole[s]):
                continue
            direct = red >> t & 1 and complete[t]
            on_the_fly = t in fused and makes[t]
            if (direct or on_the_fly) and (red & own or used + words[s] <= M):
                now = done | bit | (0 if direct else 1 << t)
                yield (red | own, blue & ~own, now), 0

    start = (0, sum(1 << v for v in range(n) if not graph[v]), 0)
    return cheapest(start, lambda s: None if finished(s) else moves(s))


def random_graph(rng: random.Random, most: int) -> tuple[Graph, set[int]]:
    n = rng.randint(3, most)
    inputs = rng.randint(1, max(1, n // 2))
    graph: Graph = [[] for _ in range(inputs)]
    for v in range(inputs, n):
        graph.append(sorted(rng.sample(range(v), min(v, rng.choice((1, 2, 2, 2, 3))))))
    sinks = set(range(n)) - {p for ps in graph for p in ps}
    if rng.random() < 0.3:
        sinks |= {rng.randrange(n)}
    return graph, sinks


def as_dag(
    graph: Graph, outputs: set[int], sums: Iterable[int] = (), words: Sequence[int] = ()
) -> Dag:
    return Dag(
        "random",
        {f"v{v}": tuple(f"v{p}" for p in ps) for v, ps in enumerate(graph)},
        tuple(f"v{v}" for v in sorted(outputs)),
        frozenset(f"v{v}" for v in sums),
        tuple(words),
    )


def check(dag: Dag, M: int, want: int | None, **variant: bool) -> None:
    if want is None:
        with pytest.raises(InputError, match="too small"):
            optimum(dag, M, **variant)
        return
    got = optimum(dag, M, **variant)
    assert (got.cost, got.lower_bound, got.optimal) == (want, want, True)
    game = replay(dag, M, got.schedule, **variant)
    assert (game.loads, game.stores) == (got.loads, got.stores)
    assert game.loads + game.stores == want


def once_and_again(seed: int, most: int) -> None:
    rng = random.Random(seed)
    graph, outputs = random_graph(rng, most)
    dag = as_dag(graph, outputs)
    widest = max(len(ps) for ps in graph) + 1
    for M in range(max(1, widest - 1), widest + 2):
        for recompute in (False, True):
            check(dag, M, oracle(graph, outputs, M, recompute), recompute=recompute)


def term_by_term(seed: int, most: int) -> None:
    rng = random.Random(seed)
    graph, outputs = random_graph(rng, most)
    inner = [v for v, ps in enumerate(graph) if ps]
    sums = {v for v in inner if rng.random() < 0.5}
    dag = as_dag(graph, outputs, sums)
    fused = {int(v[1:]) for v in dag.fused}
    for M in range(1, 5):
        check(dag, M, partial_oracle(graph, outputs, sums, fused, M), partial=True)


@pytest.mark.parametrize(
    "block", [*range(6), *(pytest.param(block, marks=pytest.mark.slow) for block in range(6, 10))]
)
def test_random_graphs(block: int) -> None:
    for seed in range(25 * block, 25 * (block + 1)):
        once_and_again(seed, 8)


@pytest.mark.parametrize(
    "block", [*range(4), *(pytest.param(block, marks=pytest.mark.slow) for block in range(4, 10))]
)
def test_random_graphs_term_by_term(block: int) -> None:
    for seed in range(12 * block, 12 * (block + 1)):
        term_by_term(seed, 7)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_larger_random_graphs(block: int) -> None:
    for seed in range(1000 + 10 * block, 1000 + 10 * (block + 1)):
        once_and_again(seed, 10)
        term_by_term(seed, 8)


# --- attention with options ----------------------------------------------------------------------


class ByHand:
    """A graph that is written vertex by vertex; `added` are the vertices that are sums."""

    def __init__(self, sums: str) -> None:
        self.sums, self.graph, self.added = sums, list[list[int]](), set[int]()

    def vertex(self, *operands: int) -> int:
        self.graph.append(list(operands))
        return len(self.graph) - 1

    def total(self, terms: list[int]) -> int:
        if self.sums == "vertex" and len(terms) > 1:
            self.added.add(self.vertex(*terms))
            return len(self.graph) - 1
        while len(terms) > 1:
            terms = [self.vertex(terms[0], terms[1]), *terms[2:]]
        return terms[0]


def attention_by_hand(sums: str, softmax: str, **options: Any) -> tuple[Graph, set[int], set[int]]:
    """Operands by number, outputs, and the vertices that are sums; masks are asked pair by pair."""
    case = masked_oracle.case(**options)
    made = ByHand(sums)
    graph, added, vertex, total = made.graph, made.added, made.vertex, made.total
    q = {
        (h, i, x): vertex() for h in range(case.heads) for i in range(case.N) for x in range(case.d)
    }
    seen = case.columns(range(case.N))
    k = {(g, j, x): vertex() for g in range(case.kv_heads) for j in seen for x in range(case.d)}
    v = {(g, j, y): vertex() for g in range(case.kv_heads) for j in seen for y in range(case.d_v)}
    outputs = set()
    for h in range(case.heads):
        g = h // (case.heads // case.kv_heads)
        for i in range(case.N):
            weights = {}
            for j in range(case.N_k):
                if case.sees(i, j):
                    products = [vertex(q[h, i, x], k[g, j, x]) for x in range(case.d)]
                    weights[j] = total(products)
                    if softmax == "exp":
                        weights[j] = vertex(weights[j])
            row = -1 if softmax == "free" else total(list(weights.values()))
            for y in range(case.d_v):
                o = total([vertex(e, v[g, j, y]) for j, e in weights.items()])
                outputs.add(o if softmax == "free" else vertex(o, row))
    return graph, outputs, added


# Small enough for the search move by move.
TINY: list[dict[str, Any]] = [
    {"N": 1, "d": 1, "N_k": 2},
    {"N": 2, "d": 1, "window": (0, 0)},
    {"N": 2, "d": 1, "N_k": 1},
    {"N": 1, "d": 1, "heads": 2, "kv_heads": 1, "N_k": 1},
    {"N": 1, "d": 1, "heads": 2, "N_k": 1},
    {"N": 1, "d": 2, "d_v": 1, "N_k": 1},
    {"N": 1, "d": 1, "d_v": 3, "N_k": 1},
    {"N": 1, "d": 1, "N_k": 9, "window": (1, 0)},
    {"N": 1, "d": 1, "N_k": 5, "causal": True, "align": "upper left"},
    {"N": 1, "d": 1, "N_k": 4, "window": (0, 0), "sinks": 1},
]
SMALL: list[dict[str, Any]] = [
    {"N": 2, "d": 1, "causal": True},
    {"N": 3, "d": 1, "causal": True},
    {"N": 2, "d": 1, "N_k": 3, "causal": True},
    {"N": 3, "d": 1, "N_k": 2, "causal": True, "align": "upper left"},
    {"N": 3, "d": 1, "window": (1, 0)},
    {"N": 3, "d": 1, "window": (0, 1), "sinks": 1},
    {"N": 3, "d": 1, "window": (0, 0), "sinks": 1},
    {"N": 2, "d": 1, "N_k": 1},
    {"N": 2, "d": 1, "d_v": 2, "causal": True},
    {"N": 1, "d": 2, "heads": 2, "kv_heads": 1, "N_k": 2},
    {"N": 1, "d": 1, "heads": 4, "kv_heads": 2, "N_k": 2},
    {"N": 2, "d": 1, "heads": 2, "kv_heads": 1, "causal": True},
]


@pytest.mark.parametrize("softmax", ["free", "fused"])
@pytest.mark.parametrize("options", TINY, ids=str)
def test_attention_with_options_by_every_move(options: dict[str, Any], softmax: str) -> None:
    graph, outputs, _ = attention_by_hand("chain", softmax, **options)
    dag = attention(**options, softmax=softmax)
    assert len(dag.vertices) == len(graph)
    for M in (3, 4):
        for recompute in (False, True):
            check(dag, M, oracle(graph, outputs, M, recompute), recompute=recompute)
    graph, outputs, sums = attention_by_hand("vertex", softmax, **options)
    dag = attention(**options, sums="vertex", softmax=softmax)
    fused = {
        v
        for v in range(len(graph))
        if graph[v]
        and v not in sums | outputs
        and [v in ps for ps in graph].count(True) == 1
        and any(v in graph[s] for s in sums)
    }
    for M in (3, 4):
        check(dag, M, partial_oracle(graph, outputs, sums, fused, M), partial=True)


@pytest.mark.parametrize("softmax", ["free", "fused", "exp"])
@pytest.mark.parametrize("options", SMALL, ids=str)
def test_attention_with_options_is_the_graph_written_by_hand(
    options: dict[str, Any], softmax: str
) -> None:
    for sums in ("chain", "vertex"):
        by_hand = as_dag(*attention_by_hand(sums, softmax, **options))
        assert is_isomorphic(attention(**options, sums=sums, softmax=softmax), by_hand)


# Names and the order of vertices change nothing.  Those that take long only with --slow.
SOON = (0, 4, 6, 7)


@pytest.mark.parametrize("softmax", ["free", "fused", "exp"])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(x, marks=[] if k in SOON else pytest.mark.slow, id=str(x))
        for k, x in enumerate(SMALL)
    ],
)
def test_the_graph_written_by_hand_has_the_same_optimum(
    options: dict[str, Any], softmax: str
) -> None:
    for sums in ("chain", "vertex"):
        graph, outputs, added = attention_by_hand(sums, softmax, **options)
        dag, want = attention(**options, sums=sums, softmax=softmax), as_dag(graph, outputs, added)
        for M in (5, 6):
            best, other = (optimum(x, M, partial=sums == "vertex") for x in (dag, want))
            assert (best.cost, best.optimal) == (other.cost, other.optimal) == (best.cost, True)


def is_isomorphic(dag: Dag, want: Dag) -> bool:
    """Whether one graph is the other with other names: networkx looks for a renaming.

    Vertices are colored first, by their part and then by the colors around them, so that it
    tries few; a renaming keeps all these.
    """
    both = []
    for one in (dag, want):
        made = nx.DiGraph((p, v) for v, ps in one.preds.items() for p in ps)
        made.add_nodes_from(one.preds)
        near: dict[str, Any] = {v: (v in one.outputs, v in one.sums) for v in one.preds}
        for _ in range(4):
            near = {
                v: hash(
                    (
                        near[v],
                        *(
                            tuple(sorted(hash(near[w]) for w in around[v]))
                            for around in (made.pred, made.succ)
                        ),
                    )
                )
                for v in near
            }
        nx.set_node_attributes(made, near, "near")
        both.append(made)
    return nx.is_isomorphic(*both, node_match=lambda a, b: a == b)


def test_a_value_of_another_column_is_noticed() -> None:
    """One row takes the values of the wrong columns: degrees are the same, the graph isn't."""
    graph, outputs, sums = attention_by_hand("vertex", "free", N=2, d=1)
    right = as_dag(graph, outputs, sums)
    terms = [graph[t] for t in graph[min(outputs)]]
    assert is_isomorphic(attention(2, 1, sums="vertex", softmax="free"), right)
    terms[0][1], terms[1][1] = terms[1][1], terms[0][1]
    wrong = as_dag(graph, outputs, sums)
    assert degrees(wrong) == degrees(right)
    assert not is_isomorphic(wrong, right)


# --- gradients of attention ----------------------------------------------------------------------


def gradients_by_hand(sums: str, softmax: str, **options: Any) -> tuple[Graph, set[int], set[int]]:
    """As `attention_by_hand`: each gradient's terms are asked for pair by pair."""
    case = masked_oracle.case(**options)
    made = ByHand(sums)
    graph, added, vertex, total = made.graph, made.added, made.vertex, made.total
    of = case.heads // case.kv_heads
    rows = [(h, i) for h in range(case.heads) for i in range(case.N)]
    columns = [(g, j) for g in range(case.kv_heads) for j in case.columns(range(case.N))]
    pairs = [(h, i, j) for h, i in rows for j in range(case.N_k) if case.sees(i, j)]
    q, k = (
        {(*at, x): vertex() for at in at_all for x in range(case.d)} for at_all in (rows, columns)
    )
    do, v = (
        {(*at, y): vertex() for at in at_all for y in range(case.d_v)} for at_all in (rows, columns)
    )
    P, dS, D, L = {}, {}, {}, {}
    if softmax != "free":
        L = {at: vertex() for at in rows}
        for at in rows:
            o = [vertex() for _ in range(case.d_v)]
            D[at] = total([vertex(do[(*at, y)], o[y]) for y in range(case.d_v)])
    for h, i, j in pairs:
        g = h // of
        products = [vertex(q[h, i, x], k[g, j, x]) for x in range(case.d)]
        if softmax == "exp":
            P[h, i, j] = vertex(total(products), L[h, i])
        else:
            P[h, i, j] = total([*products, *([L[h, i]] if L else [])])
        dp = total([vertex(do[h, i, y], v[g, j, y]) for y in range(case.d_v)])
        dS[h, i, j] = vertex(P[h, i, j], dp, *([D[h, i]] if D else []))
    outputs = set()
    for h, i in rows:
        for x in range(case.d):
            outputs.add(
                total([vertex(dS[a], k[h // of, a[2], x]) for a in pairs if a[:2] == (h, i)])
            )
    for g, j in columns:
        mine = [a for a in pairs if (a[0] // of, a[2]) == (g, j)]
        outputs |= {total([vertex(dS[a], q[a[0], a[1], x]) for a in mine]) for x in range(case.d)}
        outputs |= {total([vertex(P[a], do[a[0], a[1], y]) for a in mine]) for y in range(case.d_v)}
    return graph, outputs, added


def test_gradients_by_every_move() -> None:
    graph, outputs, _ = gradients_by_hand("chain", "free", N=1, d=1)
    dag = attention_backward(1, 1, softmax="free")
    for recompute, M in itertools.product((False, True), (3, 4, 5)):
        check(dag, M, oracle(graph, outputs, M, recompute), recompute=recompute)
    graph, outputs, sums = gradients_by_hand("vertex", "free", N=1, d=1)
    dag = attention_backward(1, 1, sums="vertex", softmax="free")
    for M in (3, 4, 5):
        check(dag, M, partial_oracle(graph, outputs, sums, set(), M), partial=True)


@pytest.mark.parametrize("softmax", ["free", "fused", "exp"])
@pytest.mark.parametrize("options", [*TINY, *SMALL], ids=str)
def test_gradients_with_options_are_the_graph_written_by_hand(
    options: dict[str, Any], softmax: str
) -> None:
    for sums in ("chain", "vertex"):
        dag = attention_backward(**options, sums=sums, softmax=softmax)
        assert is_isomorphic(dag, as_dag(*gradients_by_hand(sums, softmax, **options)))


def degrees(dag: Dag) -> list[tuple[object, ...]]:
    """Of every vertex: how many operands and users it has, those of its operands, and its part."""
    own = {v: (len(dag.preds[v]), len(dag.succs[v])) for v in dag.vertices}
    return sorted(
        (
            own[v],
            *(sorted(own[w] for w in near[v]) for near in (dag.preds, dag.succs)),
            v in dag.outputs,
            v in dag.sums,
        )
        for v in dag.vertices
    )
