"""Whole models: the graphs of their parts, and how often each runs.

``iosim roofline``, ``iosim fuse`` and `iosim.models.roofline` call it.  A phase is a name in
`iosim.models.layers.blocks.PHASES`.  ``tests/models/test_layers.py`` compares parameters with
published totals.

>>> step = workload("llama3-8b", "decode", batch=8, N=512)
>>> [(part.graph.name, part.times) for part in step.parts]
[('llama3-8b embedding', 1), ('llama3-8b layer', 32), ('llama3-8b head', 1)]
>>> f"{step.parameters:,}"
'8,030,261,248'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from iosim.base.dtypes import word_bytes
from iosim.models.layers.architectures import ARCHITECTURES, check_request
from iosim.models.layers.graph import Graph
from iosim.models.layers.models import Config, positive
from iosim.models.layers.routing import Routing
from iosim.models.operators import Operand, Operator, operator


@dataclass(frozen=True)
class Stage:
    """A graph that runs several times, with other tensors each time."""

    graph: Graph
    times: int


@dataclass(frozen=True)
class Workload:
    """A model at work: its parts in order.

    Attributes:
        name: of the model.
        phase: ``training``, ``prefill`` or ``decode``.
        dtype: of a word, where a tensor has none of its own.
        parts: of one step of training, of the prompt, or of a step of decoding.  In each run of
            a part, weights of one name are one tensor.
        tied: weights that the embedding and the head share.
        routing: how many experts each layer reads; None if there are none.
    """

    name: str
    phase: str
    dtype: str
    parts: tuple[Stage, ...]
    tied: tuple[str, ...] = ()
    routing: Routing | None = None

    @cached_property
    def flop(self) -> int:
        """Of all parts."""
        return sum(part.times * part.graph.flop for part in self.parts)

    @cached_property
    def parameters(self) -> int:
        """Words of all weights, each once."""
        found: dict[str, int] = {}
        for part in self.parts:
            found |= {t.name: part.times * t.words for t in _weights(part.graph)}
        return sum(found.values())


def workload(
    model: str | Config, phase: str, *, batch: int, N: int, devices: int = 1, **options: Any
) -> Workload:
    """A whole model: embedding, layers, head, and in training the optimizer's step.

    Logits are those of the last position in prefill, of the new tokens in decoding, and of all
    positions in training and of BERT.

    Training is one step: forward, loss, backward, AdamW.  Weights and gradients have the dtype; a
    master copy of the weights and the two moments are fp32.  A dtype as wide has no copy.  Nothing
    is computed again, and gradients are not scaled.

    Several devices train in parallel on data alone: each has the whole model and a batch of its
    own, and sums every gradient over all devices before the step.  Otherwise devices share nothing.
    Tensors, layers and the optimizer's state are never split over devices.

    Args:
        model, phase, batch, N, options: as of `iosim.models.layers.architectures.layer`; the batch
            is one device's.
        devices: how many.

    Raises InputError as `layer` does, and for devices that are not a positive integer.

    >>> train = workload("gpt2", "training", batch=8, N=1024)
    >>> [(part.graph.name, part.times) for part in train.parts][3:]
    [('gpt2 step of the layer', 12), ('gpt2 step of embedding and head', 1)]
    """
    ask = check_request(model, phase, batch, N, **options)
    devices = positive("devices", devices)
    family = ARCHITECTURES[ask.config.family]
    embedding, layer, head = family.embedding(ask), family.layer(ask), family.head(ask)
    parts = [Stage(embedding, 1), Stage(layer, ask.config.layers), Stage(head, 1)]
    if ask.training:
        name = ask.config.name
        parts += [
            Stage(step(f"{name} step of the layer", [layer], devices), ask.config.layers),
            Stage(step(f"{name} step of embedding and head", [embedding, head], devices), 1),
        ]
    return Workload(ask.config.name, phase, ask.dtype, tuple(parts), family.tied, ask.routing)


def step(name: str, graphs: Iterable[Graph], devices: int = 1) -> Graph:
    """A step of AdamW for the weights of graphs, whose gradients are given.

    A weight that several graphs read has its gradients added up first.

    >>> from iosim.models.layers.architectures import layer
    >>> encoder = layer("bert-base", "training", batch=1, N=8)
    >>> [op.name for op in step("step", [encoder], devices=2).operators[:3]]
    ['WQ all-reduce', 'WQ step', 'WQ cast']
    """
    graphs = list(graphs)
    weights: dict[str, list[Operand]] = {}
    for graph in graphs:
        for t in _weights(graph):
            weights.setdefault(t.name, []).append(t)
    made: list[Operator] = []
    for same in weights.values():
        made += _step(same, devices, graphs[0].dtype)
    kept = frozenset(t.name for op in made for t in op.writes if t.name.startswith("next "))
    return Graph(name, tuple(made), kept, graphs[0].dtype)


def _step(same: list[Operand], devices: int, dtype: str) -> list[Operator]:
    """Of one weight, from as many gradients as there are parts that read it."""
    found = []
    w = same[0]
    gradient = w.renamed(f"d{w.name}", "gradient")
    if len(same) > 1:
        parts = [w.renamed(f"d{w.name} {k}", "gradient") for k in range(1, len(same) + 1)]
        found.append(operator(f"{w.name} gradient", "add", parts, [gradient]))
    if devices > 1:
        total = gradient.renamed(f"{gradient.name} of all")
        found.append(
            operator(f"{w.name} all-reduce", "all_reduce", [gradient], [total], devices=devices)
        )
        gradient = total
    mixed = word_bytes(dtype) < word_bytes("fp32")
    wide = "fp32" if mixed else None
    state = [w.renamed(f"{w.name} {x}", "state", wide) for x in ("master", "m", "v")]
    if not mixed:
        state[0] = w
    new = [x.renamed(f"next {x.name}") for x in state]
    found.append(
        operator(f"{w.name} step", "adam", [state[0], gradient, *state[1:]], new, decay=0.01)
    )
    if mixed:
        found.append(operator(f"{w.name} cast", "cast", new[:1], [w.renamed(f"next {w.name}")]))
    return found


def _weights(graph: Graph) -> list[Operand]:
    return [t for t in graph.inputs if t.role == "weight"]
