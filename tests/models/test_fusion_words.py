"""Words of kernels against a machine that runs them word by word; values against the graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fusion_graphs import random_graph
from fusion_machine import Machine, schedules

import iosim
from iosim.models.fusion import Illegal, kernel
from iosim.models.fusion.groups import Groups
from iosim.models.fusion.members import Members
from iosim.models.fusion.online import as_operator
from iosim.models.fusion.products import products
from iosim.models.fusion.rows import peak
from iosim.models.layers.blocks import Writer
from iosim.models.layers.graph import Graph
from iosim.models.layers.traffic import moved
from iosim.models.operators import attention_of, operand, operator

pytestmark = pytest.mark.numbers


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


# Kernels of layers: batch axes, operands with some axes of a side, rows of a tile, sums, two
# outputs of one operator, and operators that call axes by other names.  By name: operators as
# lines, the kernel, and the M with which it is asked for.
S = {"b": 2, "h": 3, "j": 4, "k": 4, "p": 2, "i": 6, "u": 5}
LAYERS = {
    "linear, bias, residual, norm": (
        [
            ("linear", "contraction", "X[b j i] W[i u] -> Y[b j u]"),
            ("bias", "bias", "Y[b j u] B[u] -> Z[b j u]"),
            ("residual", "add", "Z[b j u] R[b j u] -> A[b j u]"),
            ("norm", "layer_norm", "A[b j u] G[u] E[u] -> N[b j u] mean[b j] rstd[b j]", "u"),
        ],
        ["linear", "bias", "residual", "norm"],
        (70, 200),
    ),
    "heads and their biases": (
        [
            ("query", "contraction", "X[b j i] WQ[i h p] -> Q0[b h j p]"),
            ("query bias", "bias", "Q0[b h j p] BQ[h p] -> Q[b h j p]"),
            ("key", "contraction", "X[b k i] WK[h p i] -> K0[b h k p]"),
            ("key bias", "bias", "K0[b h k p] BK[h p] -> K[b h k p]"),
            ("value", "contraction", "X[b k i] WV[u i] -> V[b k u]"),
            ("turn", "rope", "Q[b h j p] cos[j p] sin[j p] -> Q1[b h j p]", "p"),
        ],
        ["query", "query bias", "key", "key bias", "value"],
        (20, 60, 200),
    ),
    "products one behind the other, and an operand of rows": (
        [
            ("first", "contraction", "X[b j i] W1[i u] -> Y1[b j u]"),
            ("second", "contraction", "X[b j i] W2[i k] -> Y2[b j k]"),
            ("scaled", "multiply", "Y1[b j u] R[b j] -> Z1[b j u]"),
            ("scaled, too", "multiply", "Y2[b j k] R[b j] -> Z2[b j k]"),
        ],
        ["first", "second", "scaled", "scaled, too"],
        (8, 14, 20, 28, 36, 50),
    ),
    "an operand with some axes of both sides": (
        [
            ("query", "contraction", "X[b j i] WQ[i h p] -> Q0[b h j p]"),
            ("turn", "rope", "Q0[b h j p] cos[j p] sin[j p] -> Q1[b h j p]", "p"),
        ],
        ["query", "turn"],
        (30, 90),
    ),
    "a product with batch axes, and one operand of all batches": (
        [
            ("scores", "contraction", "Q[b h j p] K[b h k p] -> S[b h j k]"),
            ("near", "bias", "S[b h j k] D[j k] -> T[b h j k]"),
            ("softmax", "softmax", "T[b h j k] -> P[b h j k]", "k"),
            ("masked", "multiply", "P[b h j k] F[b h j k] -> O[b h j k]"),
        ],
        ["scores", "near", "softmax", "masked"],
        (25, 60),
    ),
    "gate, up and SwiGLU": (
        [
            ("gate", "contraction", "X[b j i] WG[i u] -> G[b j u]"),
            ("up", "contraction", "X[b j i] WU[u i] -> U[b j u]"),
            ("act", "swiglu", "G[b j u] U[b j u] -> A[b j u]"),
            ("back", "swiglu_back", "D[b j u] G[b j u] U[b j u] -> E[b j u] F[b j u]"),
        ],
        ["gate", "up", "act"],
        (20, 70),
    ),
    "a sum of products with inputs that are made": (
        [
            ("times", "multiply", "dA[b j u] mask[b j u] -> dB[b j u]"),
            ("first", "contraction", "dB[b j u] W1[i u] -> P1[b j i]"),
            ("second", "contraction", "dC[b j h] W2[i h] -> P2[b j i]"),
            ("sum", "add", "P1[b j i] R[b j i] P2[b j i] -> dX[b j i]"),
            ("weights", "contraction", "dB[b j u] X[b j i] -> dW[u i]"),
        ],
        ["times", "first", "second", "sum"],
        (30, 90),
    ),
    "a prologue that lacks k, an epilogue with sums": (
        [
            ("rows", "multiply", "X[b j i] r[b j] -> Y[b j i]"),
            ("columns", "bias", "Y[b j i] c[i] -> Z[b j i]"),
            ("linear", "contraction", "Z[b j i] W[i u] -> O[b j u]"),
            ("relu", "relu_back", "O[b j u] H[b j u] -> dH[b j u]"),
            ("db", "sum", "dH[b j u] -> db[u]", "b j"),
        ],
        ["rows", "columns", "linear", "relu", "db"],
        (25, 40, 100),
    ),
    "a weight's gradient and its update": (
        [
            ("dW", "contraction", "dY[b j u] X[b j i] -> dW[i u]"),
            ("step", "adam", "W[i u] dW[i u] m[i u] v[i u] -> W1[i u] m1[i u] v1[i u]"),
        ],
        ["dW", "step"],
        (20, 80),
    ),
    "rows of the backward pass": (
        [
            ("dG", "layer_norm_dw", "dY[b j i] X[b j i] mean[b j] rstd[b j] -> dG[i] dE[i]", "b j"),
            (
                "dX",
                "layer_norm_dx",
                "dY[b j i] X[b j i] G[i] mean[b j] rstd[b j] -> dX[b j i]",
                "i",
            ),
            ("times", "multiply", "dX[b j i] mask[b j i] -> dZ[b j i]"),
            ("db", "sum", "dZ[b j i] -> db[i]", "b j"),
        ],
        ["dG", "dX", "times", "db"],
        (80,),
    ),
}


def of_lines(name: str) -> Graph:
    write = Writer(S)
    for one, kind, text, *over in LAYERS[name][0]:
        write(one, kind, text, *over)
    return Graph(name, tuple(write.operators))


@pytest.mark.parametrize(("name", "M"), [(name, M) for name in LAYERS for M in LAYERS[name][2]])
def test_kernels_of_layers_run_as_counted(name: str, M: int) -> None:
    check(of_lines(name), LAYERS[name][1], M)


@pytest.mark.parametrize("M", [7, 23, 60, 200, 5000])
@pytest.mark.parametrize(
    "axes", [("t i", "i u", "t u"), ("b t i", "b u i", "b t u"), ("b t i", "i u h", "b h t u")]
)
def test_a_product_with_nothing_beside_it_has_the_words_of_the_matmul_program(
    axes: tuple[str, str, str], M: int
) -> None:
    sizes = {"b": 3, "t": 13, "i": 11, "u": 7, "h": 2}
    a, b, c = (operand(x, y, sizes) for x, y in zip("ABC", axes, strict=True))
    graph = Graph("product", (operator("product", "contraction", [a, b], [c]),))
    found = products(Members.of(graph, ["product"]), M)
    one = moved(graph.operators[0], M)
    assert (found.loads, found.stores) == (one.loads, one.stores)


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_legal_from_the_words_that_the_best_loop_order_holds(seed: int) -> None:
    """The occupancy is the machine's own: not a word less is enough."""
    graph, checked = random_graph(seed), 0
    values = arrays(graph)
    for names in legal(graph, 1000):
        members = Members.of(graph, names)
        if not members.contractions:
            held = min(machine.peak for machine in schedules(graph, names, values, None))
            assert peak(members) == held, names
            kernel(graph, names, held)
            with pytest.raises(Illegal, match="more than M"):
                kernel(graph, names, held - 1)
            checked += 1
    assert checked or all("product" in " ".join(names) for names in legal(graph, 1000))


ATTENTION = {
    "heads": ("Q[b h j p] K[b h k p]", "b h j k", "V[b h k q]", "b h j q", False),
    "causal, and keys of several heads": (
        "Q[b g r j p] K[b g k p]",
        "b g r j k",
        "V[b g k p]",
        "b g r j p",
        True,
    ),
}


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("M", [60, 200])
def test_attention_runs_as_counted(name: str, M: int) -> None:
    reads, scores, value, out, causal = ATTENTION[name]
    write = Writer({"b": 2, "h": 3, "g": 2, "r": 2, "j": 6, "k": 6, "p": 2, "q": 3})
    write("scores", "contraction", f"{reads} -> S[{scores}]")
    write("scale", "scale", f"S[{scores}] -> T[{scores}]", factor=0.5)
    if causal:
        write("mask", "causal", f"T[{scores}] -> U[{scores}]", "j k")
    write("softmax", "softmax", f"{'U' if causal else 'T'}[{scores}] -> P[{scores}]", "k")
    write("sum", "contraction", f"P[{scores}] {value} -> O[{out}]")
    graph = Graph(name, tuple(write.operators))
    names = [op.name for op in graph.operators]
    crossing = kernel(graph, names, M).crossing
    with pytest.raises(Illegal, match="scores is before another contraction"):
        kernel(graph, names, M, online_softmax=False)
    values = arrays(graph)
    one = as_operator(Members.of(graph, names))
    (made,) = one(*(values[t.name] for t in one.reads))
    np.testing.assert_allclose(made, values["O"], rtol=1e-9)

    # The schedule that was counted, run on the two-level machine of schedules.
    problem = attention_of(one)
    chosen, *tiles = crossing.how.removeprefix("online softmax: ").split(", ")
    program = iosim.algorithm(chosen).program_for(problem)
    sizes = {x: int(n) for x, n in (tile.split(" = ") for tile in tiles)}
    instance = iosim.bind(program, problem.sizes, sizes)
    scaled = {"Q": values["Q"] * 0.5, "K": values["K"], "V": values["V"]}
    hbm = {x: np.reshape(scaled[x], y.shape) for x, y in problem.random().items()}
    run = iosim.simulate(instance, iosim.Machine(M), hbm)
    assert {
        "Q": run.counts["load", "Q"],
        "K": run.counts["load", "K"],
        "V": run.counts["load", "V"],
    } == crossing.loads
    assert {"O": run.counts["store", "O"]} == crossing.stores
    np.testing.assert_allclose(
        np.reshape(run.outputs["O"], values["O"].shape), values["O"], rtol=1e-9
    )
