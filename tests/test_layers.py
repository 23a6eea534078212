"""Layers as graphs: run in NumPy and held against layers written by hand, which share no code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from iosim.layers.architectures import ARCHITECTURES, asked, layer
from iosim.layers.graph import Graph
from iosim.layers.models import CONFIGS, Config
from iosim.layers.workload import workload

Arrays = dict[str, Any]

SIZES: Any = {"layers": 2, "hidden": 8, "heads": 2, "feed_forward": 12, "vocabulary": 11,
              "positions": 16}  # fmt: skip
BERT = Config(name="small bert", family="bert", dropout=0.2, **SIZES)
GPT2 = Config(name="small gpt2", family="gpt2", dropout=0.2, **SIZES)
LLAMA = Config(name="small llama", family="llama", **{**SIZES, "heads": 4, "kv_heads": 2})
MIXTURE = Config(name="small mixture", family="mixture", experts=4, active=2,
                 **{**SIZES, "heads": 4, "kv_heads": 2})  # fmt: skip
SMALL = (BERT, GPT2, LLAMA, MIXTURE)
BELOW = {"ids": 11, "labels": 11, "positions": 16, "segments": 2}


def given(graph: Graph, seed: int = 0) -> Arrays:
    """Random arrays for a graph's inputs."""
    rng = np.random.default_rng(seed)
    found: Arrays = {
        t.name: rng.integers(BELOW[t.name], size=t.shape) if t.name in BELOW
        else rng.standard_normal(t.shape)
        for t in graph.inputs
    }  # fmt: skip
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
@pytest.mark.parametrize("part", ["embedding", "layer", "head"])
@pytest.mark.parametrize("config", SMALL, ids=lambda c: c.family)
def test_backward_by_finite_differences(config: Config, part: str, attention: str) -> None:
    ask = asked(config, "training", 2, 4, attention=attention)
    graph = getattr(ARCHITECTURES[config.family], part)(ask)
    arrays = given(graph)
    wanted = [t.name for t in graph.inputs if f"d{t.name}" in graph.tensors]
    also = set() if part == "embedding" else {"X"}
    assert {t.name for t in graph.inputs if t.role == "weight"} | also == set(wanted)
    (y,) = (x for x in graph.tensors if x == "loss" or f"d{x}" in arrays)
    dy = arrays.get(f"d{y}", 1 / 8)  # the loss that is differentiated is the mean of 2 × 4
    for k, x in enumerate(wanted):
        got, want = slope(graph, arrays, y, dy, x, k)
        assert got == pytest.approx(want, rel=1e-5, abs=1e-6), x


# Of the tables that the models' own configurations give: transformers' num_parameters().
PARAMETERS = {
    "bert-base": 109_514_298, "bert-large": 335_174_458, "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168, "gpt2-xl": 1_557_611_200, "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496, "mixtral-8x7b": 46_702_792_704,
}  # fmt: skip


def test_parameters_are_the_published_ones() -> None:
    assert {
        name: workload(name, "prefill", batch=1, N=8).parameters for name in CONFIGS
    } == PARAMETERS  # fmt: skip


def test_a_cache_that_is_appended_to_inside_a_kernel_is_read() -> None:
    graph = layer(LLAMA, "decode", batch=3, N=8, tokens=2)
    reads, writes = graph.part(["append key", "scores"])
    assert reads["K"] == 3 * 2 * (8 - 2) * 2  # its other rows; the new ones are at hand
    assert writes["K"] == reads["new K"] == 3 * 2 * 2 * 2
    assert "K cache" not in reads
