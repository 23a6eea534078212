"""Small models, random arrays for their graphs, and runs of whole models part by part."""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.models.layers.architectures import ARCHITECTURES, check_request
from iosim.models.layers.graph import Graph
from iosim.models.layers.models import Config

Arrays = dict[str, Any]

SIZES: Any = {
    "layers": 2,
    "hidden": 8,
    "heads": 2,
    "feed_forward": 12,
    "vocabulary": 11,
    "positions": 16,
}
GROUPED: Any = {**SIZES, "heads": 4, "kv_heads": 2}
BERT = Config(name="small bert", family="bert", activation="relu", dropout=0.2, **SIZES)
GPT2 = Config(name="small gpt2", family="gpt2", dropout=0.2, **SIZES)
LLAMA = Config(name="small llama", family="llama", **GROUPED)
MIXTURE = Config(name="small mixture", family="mixture", experts=4, active=2, **GROUPED)
SMALL = (BERT, GPT2, LLAMA, MIXTURE)
DECODERS = (GPT2, LLAMA, MIXTURE)
WAYS = ("unfused", "fused")
BELOW = {"ids": 11, "labels": 11, "positions": 16, "segments": 2}


def draw_inputs(graph: Graph, seed: int = 0) -> Arrays:
    """Random arrays for a graph's inputs."""
    rng = np.random.default_rng(seed)
    found: Arrays = {
        t.name: rng.integers(BELOW[t.name], size=t.shape)
        if t.name in BELOW
        else rng.standard_normal(t.shape)
        for t in graph.inputs
    }
    if "cos" in found:
        found |= angles(*found["cos"].shape)
    return found


def angles(rows: int, d: int, first: int = 0) -> Arrays:
    """Of positions from `first` on, as RoPE wants them."""
    turns = np.arange(first, first + rows)[:, None] / 7.0 ** np.arange(d // 2)
    both = np.concatenate([turns, turns], axis=-1)
    return {"cos": np.cos(both), "sin": np.sin(both)}


def masks(graph: Graph, run: Arrays) -> Arrays:
    """Of dropout, by the tensor that is dropped; 1 where nothing is."""
    ones = {"P": (3, 2, 5, 5), "O": (3, 1, 1), "A": (3, 1, 1), "F": (3, 1, 1)}
    return {x: run.get(f"{x} mask", np.ones(shape)) for x, shape in ones.items()}


class Model:
    """A whole small model in training: its parts in order, and random arrays for each."""

    def __init__(self, config: Config) -> None:
        family, ask = ARCHITECTURES[config.family], check_request(config, "training", 2, 4)
        layer = family.layer(ask)
        self.graphs = [family.embedding(ask), *[layer] * config.layers, family.head(ask)]
        self.arrays = [draw_inputs(graph, seed) for seed, graph in enumerate(self.graphs)]
        for name in family.tied:
            self.arrays[-1][name] = self.arrays[0][name]
        self.weights = [
            (k, t.name)
            for k, graph in enumerate(self.graphs)
            for t in graph.inputs
            if t.role == "weight" and not (k and t.name in family.tied)
        ]
        self.tied = family.tied

    def forward(self) -> list[Arrays]:
        """Runs of all parts; gradients in them mean nothing."""
        runs: list[Arrays] = []
        for k, graph in enumerate(self.graphs):
            if k:
                self.arrays[k]["X"] = runs[-1][self.result(k - 1)]
            runs.append(graph.run(self.arrays[k]))
        return runs

    def result(self, k: int) -> str:
        """The tensor of a part whose gradient comes from the next."""
        (dy,) = (t.name for t in self.graphs[k].inputs if t.role == "gradient")
        return dy[1:]

    def loss(self) -> float:
        """The mean over all positions."""
        return float(self.forward()[-1]["loss"].mean())

    def gradients(self) -> dict[tuple[int, str], Any]:
        """Of all weights, by part and name; a tied one has its parts added up, under the first."""
        runs = self.forward()
        for k in reversed(range(len(self.graphs) - 1)):
            self.arrays[k][f"d{self.result(k)}"] = runs[k + 1]["dX"]
            runs[k] = self.graphs[k].run(self.arrays[k])
        found = {(k, name): runs[k][f"d{name}"] for k, name in self.weights}
        for name in self.tied:
            found[0, name] = found[0, name] + runs[-1][f"d{name}"]
        return found
