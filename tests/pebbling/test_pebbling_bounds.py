"""Lower bounds of whole graphs: never above the true optimum, and proved by their certificates."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from typing import Any

import pytest
from test_pebbling_oracle import as_dag, oracle, partial_oracle, random_graph

from iosim.base.errors import InputError, ProgramError
from iosim.pebbling import Dag, butterfly, chain, matmul, optimum, pyramid, tree
from iosim.pebbling.bounds import root_bound, root_bounds
from iosim.pebbling.bounds.checking import proved

pytestmark = [pytest.mark.numbers, pytest.mark.usefixtures("brief_annealing")]


def check(dag: Dag, M: int, best: int, better: Counter[str], **variant: bool) -> None:
    """All bounds of a game whose optimum is known; those above the compulsory one are counted."""
    found = {b.name: b for b in root_bounds(dag, M, seconds=60, **variant)}
    low = found["compulsory"].value
    for name, bound in found.items():
        assert bound.value <= best, (dag.preds, M, variant, name)
        traveled = json.loads(json.dumps(bound.certificate))
        assert proved(dag, M, name, traveled, **variant) == bound.value
        better[name] += bound.value > low
        better[f"{name}, attained"] += bound.value == best > low


def random_tree(rng: random.Random, most: int) -> Dag:
    """A tree, from its root down."""
    preds: dict[str, tuple[str, ...]] = {"v0": ()}
    while len(preds) < most:
        leaf = rng.choice([v for v, ps in preds.items() if not ps])
        preds[leaf] = tuple(f"v{len(preds) + k}" for k in range(rng.choice((1, 2, 2, 3))))
        preds |= dict.fromkeys(preds[leaf], ())
    return Dag("random tree", preds)


@pytest.mark.parametrize(
    ("seeds", "most"),
    [(range(3000, 3080), 8), pytest.param(range(3200, 3350), 9, marks=pytest.mark.slow)],
)
def test_no_bound_is_above_the_optimum(seeds: range, most: int) -> None:
    better: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        graph, outputs = random_graph(rng, most)
        dag = as_dag(graph, outputs)
        least = dag.least_memory()
        for recompute in (False, True):
            best = oracle(graph, outputs, least, recompute)
            assert best is not None
            check(dag, least, best, better, recompute=recompute)
        sums = {v for v, ps in enumerate(graph) if ps and rng.random() < 0.5}
        dag = as_dag(graph, outputs, sums)
        fused = {int(v[1:]) for v in dag.fused}
        M = dag.least_memory(partial=True)
        best = partial_oracle(graph, outputs, sums, fused, M)
        assert best is not None
        check(dag, M, best, better, partial=True)
    print(dict(better))
    assert better["moments"] > 20
    assert better["wavefront"] > 10
    assert better["moments, attained"] > 10


def test_trees_have_their_optimum() -> None:
    better: Counter[str] = Counter()
    for seed in range(40):
        dag = random_tree(random.Random(seed), 11)
        M = dag.least_memory()
        best = optimum(dag, M)
        assert best.optimal
        assert best.cost is not None
        check(dag, M, best.cost, better)
        assert {b.name: b.value for b in root_bounds(dag, M)}["trees"] == best.cost
    assert better["trees"] > 2
    assert root_bound(tree(5), 4).value == 47


@pytest.mark.parametrize(
    ("dag", "M", "variant"),
    [
        (butterfly(2), 3, {}),
        (matmul(2, 2, 2), 4, {}),
        (matmul(2, 2, 2, sums="vertex"), 3, {"partial": True}),
        (matmul(2, 2, 2), 4, {"recompute": True}),
    ],
    ids=str,
)
def test_known_graphs(dag: Dag, M: int, variant: dict[str, bool]) -> None:
    best = optimum(dag, M, **variant)
    assert best.cost is not None
    check(dag, M, best.cost, Counter(), **variant)


def test_vertices_of_several_words() -> None:
    """All words twice as many: every bound twice as large."""
    dag = butterfly(2)
    twice = Dag("twice", dag.preds, dag.outputs, words=(2,) * len(dag.preds))
    single = {b.name: b.value for b in root_bounds(dag, 3)}
    for bound in root_bounds(twice, 6):
        assert proved(twice, 6, bound.name, bound.certificate) == bound.value
        assert bound.value >= 2 * single[bound.name] - 1


def damaged(certificate: Any, name: str) -> list[Any]:
    """Certificates that claim more than they may."""
    out = []
    if name == "moments":
        for k, row in enumerate(certificate["rows"]):
            worse = copy.deepcopy(certificate)
            worse["rows"][k] = [*row[:-1], row[-1] * 50]
            out.append(worse)
            wrong = {
                "later": [*row[:-3], row[-2], row[-3], row[-1]],
                "more": [*row[:-3], row[-2], row[-3], row[-1]],
                "live": [*row[:-2], row[-3], row[-1]],
                "load": [*row[:-2], row[2], row[-1]],
            }
            if row[0] in wrong:
                worse = copy.deepcopy(certificate)
                worse["rows"][k] = wrong[row[0]]
                out.append(worse)
    if name == "trees":
        for v, row in certificate["cuts"].items():
            worse = copy.deepcopy(certificate)
            worse["cuts"][v] = [x + 1 for x in row]
            out.append(worse)
    if name == "wavefront":
        for key in ("loads", "stores"):
            for path in certificate[key]:
                out.append({**certificate, key: [*certificate[key], path]})
                out.append({**certificate, key: [*certificate[key], path[:1]]})
    return out


@pytest.mark.parametrize(
    ("name", "dag", "M"),
    [
        ("moments", butterfly(2), 3),
        ("trees", tree(4), 4),
        ("wavefront", pyramid(4), 3),
    ],
    ids=str,
)
def test_a_damaged_certificate_proves_no_more(name: str, dag: Dag, M: int) -> None:
    (bound,) = (b for b in root_bounds(dag, M) if b.name == name)
    refused = 0
    for worse in damaged(bound.certificate, name):
        try:
            assert proved(dag, M, name, worse) <= bound.value
        except ProgramError:
            refused += 1
    assert refused


def test_large_graphs_are_bounded_in_time() -> None:
    dag = matmul(6, 6, 6)
    best = root_bound(dag, 8, seconds=2)
    assert best.value >= 108


def test_bad_input() -> None:
    with pytest.raises(InputError, match="M = 2 is too small"):
        root_bound(butterfly(1), 2)
    with pytest.raises(InputError, match="can't be combined"):
        root_bound(chain(3), 2, recompute=True, partial=True)
