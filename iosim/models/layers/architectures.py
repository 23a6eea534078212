"""The families of models: how the layers of each are written.

`workload` and the lab's wall make whole models with it, `iosim.gpu.layers` single layers.  A family
is a file beside `llama`, a line in `ARCHITECTURES` and a name in
`iosim.models.layers.models.FAMILIES`; ``tests/models/test_layers.py`` compares the two lists, and
each family with layers by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iosim.base.errors import InputError
from iosim.models.layers import bert, gpt2, llama, mixture
from iosim.models.layers.blocks import Ask
from iosim.models.layers.graph import Graph
from iosim.models.layers.models import Config, config


@dataclass(frozen=True)
class Architecture:
    """A family of models.

    Attributes:
        embedding: from tokens' numbers to the first layer's X.
        layer: from X to Y.
        head: from the last layer's Y to logits, or to the loss.
        tied: weights that the embedding and the head share.
        decodes: whether it makes one token after another.
    """

    embedding: Callable[[Ask], Graph]
    layer: Callable[[Ask], Graph]
    head: Callable[[Ask], Graph]
    tied: tuple[str, ...] = ()
    decodes: bool = True


ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture(bert.embedding, bert.layer, bert.head, tied=("WT",), decodes=False),
    "gpt2": Architecture(gpt2.embedding, gpt2.layer, gpt2.head, tied=("WT",)),
    "llama": Architecture(llama.embedding, llama.layer, llama.head),
    "mixture": Architecture(llama.embedding, mixture.layer, llama.head),
}


def check_request(model: str | Config, phase: str, batch: int, N: int, **options: Any) -> Ask:
    """What is requested, checked; options as of `Ask`.

    Raises InputError as `config` and `Ask` do, and for decoding with a model that doesn't.
    """
    found = model if isinstance(model, Config) else config(model)
    ask = Ask(found, phase, batch, N, **options)
    if ask.cached and not ARCHITECTURES[found.family].decodes:
        raise InputError(
            f"{found.name} encodes whole sequences: it has no decoding; ask for training or prefill"
        )
    return ask


def layer(model: str | Config, phase: str, *, batch: int, N: int, **options: Any) -> Graph:
    """One layer of a model, from X to Y, as a graph.

    Args:
        model: the name of a published configuration, or a configuration.
        phase: ``training`` is forward and backward, from dY to dX and the weights' gradients;
            ``prefill`` forward alone, without dropout, and keeps keys and values; ``decode`` a step
            of decoding with a cache.
        batch: sequences.
        N: tokens of context; in decoding with the new ones.
        options: ``tokens``, new ones of each sequence, in decoding; ``attention``, ``unfused`` or
            ``fused``: one operator whose scores are not tensors; ``dtype`` of a word; ``experts``
            that a mixture reads: ``least`` that routing allows, ``expected`` of uniform routing, or
            a number; ``blocks``, a block mask with its tiles (`iosim.core.problem.MarkedTiles`).

    Raises InputError for an unknown model, phase or way of attention, and sizes that don't fit.

    >>> layer("bert-large", "prefill", batch=8, N=512).flop
    112025706496
    """
    ask = check_request(model, phase, batch, N, **options)
    return ARCHITECTURES[ask.config.family].layer(ask)
