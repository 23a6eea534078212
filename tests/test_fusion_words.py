"""Words of kernels against a machine that runs them word by word; values against the graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fusion_graphs import random_graph
from fusion_machine import Machine, schedules

from iosim.fusion import kernel
from iosim.fusion.groups import Groups
from iosim.layers.graph import Graph


def arrays(graph: Graph, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return graph.run({t.name: rng.uniform(0.5, 1.5, t.shape) for t in graph.inputs})


def check(graph: Graph, names: Sequence[str], M: int) -> Machine:
    """One of the machine's runs moves the very words, in M, and gives the graph's values."""
    crossing = kernel(graph, names, M).crossing
    values = arrays(graph)
    found = re.search(r"B_m = (\d+), B_n = (\d+)", crossing.how)
    tiles = (int(found[1]), int(found[2])) if found else None
    seen = []
    for machine in schedules(graph, names, values, tiles):
        for x, made in machine.out.items():
            np.testing.assert_allclose(made, values[x], rtol=1e-9, err_msg=x)
        moved = machine.loads, machine.stores
        if moved == (crossing.loads, crossing.stores) and machine.peak <= M:
            return machine
        seen.append((dict(machine.loads), dict(machine.stores), machine.peak))
    raise AssertionError(f"{graph.name} {names} {M}: {crossing}, but ran {seen}")


def legal(graph: Graph, M: int) -> list[tuple[str, ...]]:
    return [k.names for k in Groups(graph, M).legal.values() if len(k.names) > 1]


@pytest.mark.parametrize("part", range(4))
def test_every_legal_kernel_of_random_graphs_runs_as_counted(part: int) -> None:
    ran = products = 0
    for seed in range(part * 40, part * 40 + 40):
        graph = random_graph(seed)
        for M in (8, 20, 60):
            for names in legal(graph, M):
                check(graph, names, M)
                ran += 1
                products += any("product" in name for name in names)
    assert ran > 100
    assert products > 30
