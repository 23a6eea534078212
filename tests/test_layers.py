"""Layers as graphs: run in NumPy and held against layers written by hand, which share no code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from iosim.layers.architectures import layer
from iosim.layers.graph import Graph
from iosim.layers.models import Config

Arrays = dict[str, Any]

BERT = Config(name="small", family="bert", layers=2, hidden=8, heads=2, feed_forward=12,
              vocabulary=11, positions=16, head_size=4)  # fmt: skip


def given(graph: Graph, seed: int = 0) -> Arrays:
    """Random arrays for a graph's inputs."""
    rng = np.random.default_rng(seed)
    found: Arrays = {t.name: rng.standard_normal(t.shape) for t in graph.inputs}
    angles = rng.uniform(0, 6, found["cos"].shape) if "cos" in found else None
    if angles is not None:
        half = angles.shape[-1] // 2
        angles[..., half:] = angles[..., :half]
        found["cos"], found["sin"] = np.cos(angles), np.sin(angles)
    return found


def slope(graph: Graph, arrays: Arrays, y: str, dy: Any, x: str, seed: int) -> tuple[float, float]:
    """Along a random direction of one input: the graph's own gradient, and a finite difference."""
    rng = np.random.default_rng(seed)
    way = rng.standard_normal(arrays[x].shape)
    run = graph.run(arrays)
    h = 1e-5

    def at(step: float) -> float:
        moved = {**arrays, x: arrays[x] + step * way}
        return float(np.sum(graph.run(moved)[y] * dy))

    return float(np.sum(run[f"d{x}"] * way)), (at(h) - at(-h)) / (2 * h)


def normed(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * gamma + beta


def rows_softmax(s: Any) -> Any:
    e = np.exp(s - s.max())
    return e / e.sum()


def attended(Q: Any, K: Any, V: Any, mask: Any, *, causal: bool) -> Any:
    """Q (heads, rows, d), one head and one row at a time; K and V have as many heads or fewer."""
    heads, rows, d = Q.shape
    share = heads // K.shape[0]
    found = np.zeros(Q.shape)
    for h in range(heads):
        for i in range(rows):
            last = K.shape[1] - rows + i + 1 if causal else K.shape[1]
            k, v = K[h // share, :last], V[h // share, :last]
            w = rows_softmax(k @ Q[h, i] / math.sqrt(d))
            found[h, i] = (w * mask[h, i, :last]) @ v
    return found


def relu(x: Any) -> Any:
    return x * (x > 0)


def gelu(x: Any) -> Any:
    return x * np.vectorize(lambda t: 0.5 * (1 + math.erf(t / math.sqrt(2))))(x)


def bert_by_hand(a: Arrays, m: Arrays, act: Any) -> Any:
    """One encoder layer, one sequence after another; m has the masks of dropout."""
    found = []
    for b, X in enumerate(a["X"]):
        q, k, v = (
            np.stack([X @ W.T + c for W, c in zip(a[f"W{y}"], a[f"B{y}"], strict=True)])
            for y in "QKV"
        )
        C = attended(q, k, v, m["P mask"][b], causal=False)
        O = sum(c @ W for c, W in zip(C, a["WO"], strict=True)) + a["BO"]
        Y1 = normed(O * m["O mask"][b] + X, a["γ_Y1"], a["β_Y1"], 1e-12)
        A = act(Y1 @ a["W1"].T + a["BH"]) * m["A mask"][b]
        F = A @ a["W2"].T + a["BF"]
        found.append(normed(F * m["F mask"][b] + Y1, a["γ_Y"], a["β_Y"], 1e-12))
    return np.array(found)


@pytest.mark.parametrize(("activation", "act"), [("relu", relu), ("gelu", gelu)])
def test_bert_forward(activation: str, act: Any) -> None:
    from dataclasses import replace

    config = replace(BERT, activation=activation)
    for phase in ("training", "prefill"):
        graph = layer(config, phase, batch=3, N=5)
        arrays = given(graph)
        run = graph.run(arrays)
        masks = {f"{x} mask": run.get(f"{x} mask", np.ones((3, 2, 5, 5) if x == "P" else (3, 1, 1)))
                 for x in "POAF"}  # fmt: skip
        np.testing.assert_allclose(run["Y"], bert_by_hand(arrays, masks, act), atol=1e-12)


@pytest.mark.parametrize("attention", ["unfused", "fused"])
@pytest.mark.parametrize("config", [BERT], ids=lambda c: c.family)
def test_backward_by_finite_differences(config: Config, attention: str) -> None:
    graph = layer(config, "training", batch=2, N=4, attention=attention)
    arrays = given(graph)
    wanted = [t.name for t in graph.inputs if f"d{t.name}" in graph.tensors]
    assert {t.name for t in graph.inputs if t.role == "weight"} | {"X"} == set(wanted)
    for k, x in enumerate(wanted):
        got, want = slope(graph, arrays, "Y", arrays["dY"], x, k)
        assert got == pytest.approx(want, rel=1e-5, abs=1e-6), x
