"""The best fusion of operators in a row, beside the search for any graph, and of large graphs.

``pytest benchmarks/test_fusion.py -s``: processor seconds of each, and memory.  At the end stands
which thresholds hold (`thresholds.py`).
"""

from __future__ import annotations

import random
import resource
import sys
import time
from pathlib import Path

import pytest
import thresholds

from iosim.base.errors import InputError
from iosim.models.fusion import best as best_module
from iosim.models.fusion.best import best
from iosim.models.fusion.chain import chain
from iosim.models.fusion.groups import Groups
from iosim.models.layers.graph import Graph
from iosim.models.operators import operand, operator

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from fusion_graphs import transformer

M = 31_457_280


def measure_seconds(n: int) -> float:
    """Of one search, for a chain of n operators."""
    groups = Groups(chain(n, 2**22), M)
    began = time.process_time()
    assert len(best(groups)) == 1
    return time.process_time() - began


def test_in_a_row_beside_any_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    n = thresholds.size(40, 4)
    row = measure_seconds(n)
    monkeypatch.setattr(best_module, "in_a_row", lambda groups: False)
    every = measure_seconds(n)
    print(f"\n{n} operators: {1e3 * row:.1f} ms in a row, {1e3 * every:,.0f} ms as any graph")
    thresholds.at_least("40 operators: any graph / in a row", every / row, 5, "times")


def test_in_proportion_to_the_length() -> None:
    few, many = (
        measure_seconds(thresholds.size(1_000, 5)),
        measure_seconds(thresholds.size(10_000, 50)),
    )
    print(f"\nfew operators: {few:.2f} s, ten times as many: {many:.2f} s")
    thresholds.at_least("10,000 operators: least of 20 times 1,000", 20 * few / many, 1, "times")


def search(graph: Graph, words: int) -> tuple[float, str]:
    """Processor seconds of one search, and what it found."""
    began = time.process_time()
    try:
        said = f"{len(best(Groups(graph, words))):,} kernels"
    except InputError as error:
        said = str(error)
    seconds = time.process_time() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"\n{graph.name}, {len(graph.operators):,} operators: {seconds:.2f} s, {said}")
    print(f"the process holds {most:,} MiB at most")
    return seconds, said


def random_dag(n: int, alone: float) -> Graph:
    """Operators that read some of the 50 tensors before; a share are kernels by themselves."""
    rng, s = random.Random(1), {"t": 8, "i": 8, "o": 8}
    ops = []
    for k in range(1, n + 1):
        x, y = (operand(f"X{rng.randrange(max(0, k - 50), k)}", "t i", s) for _ in "xy")
        out = operand(f"X{k}", "t i", s)
        kind = rng.choice(["contraction", "contraction", "softmax", "relu", "add"])
        if rng.random() < alone:
            ops.append(operator(f"op {k}", "opaque", [x, y], [out]))
        elif kind == "contraction":
            reads = [x, operand(f"W{k}", "i o", s)]
            ops.append(operator(f"op {k}", kind, reads, [operand(f"X{k}", "t o", s)]))
        elif kind == "softmax":
            ops.append(operator(f"op {k}", kind, [x], [out], over="i"))
        elif kind == "add" and x.name != y.name:
            ops.append(operator(f"op {k}", kind, [x, y], [out]))
        else:
            ops.append(operator(f"op {k}", "relu", [x], [out]))
    return Graph(f"random, {alone:.0%} alone", tuple(ops))


@pytest.mark.parametrize("layers", [12, 48, 200])
def test_a_transformer_of_many_layers(layers: int) -> None:
    seconds, said = search(transformer(thresholds.size(layers, 2)), M)
    assert said.endswith("kernels")
    thresholds.at_least(f"{layers} layers: 10 s / time", 10 / seconds, 1, "times")


@pytest.mark.parametrize("alone", [0.0, 0.6, 0.8])
def test_a_random_graph(alone: float) -> None:
    seconds, _ = search(random_dag(thresholds.size(5_000, 20), alone), 60)
    thresholds.at_least(f"{alone:.0%} alone: 20 s / time", 20 / seconds, 1, "times")


def test_a_chain() -> None:
    seconds, said = search(chain(thresholds.size(40_000, 50), 2**22), M)
    assert said == "1 kernels"
    thresholds.at_least("40,000 in a chain: 20 s / time", 20 / seconds, 1, "times")
