"""GPT-2: norms before the blocks, a causal mask, tanh GELU, biases, dropout in training.

    X → norm 1 → query, key, value (+ biases) → scores → scale → mask → softmax → dropout
      → weighted sum → output (+ bias) → dropout → residual X = X1
      → norm 2 → linear 1 (+ bias) → GELU → linear 2 (+ bias) → dropout → residual X1 = Y

The table of tokens is the head's, too.

>>> from iosim.models.layers.models import config
>>> step = layer(Ask(config("gpt2"), "decode", batch=8, N=512))
>>> step.tensors["K cache"].shape, step.tensors["new K"].shape
((8, 12, 512, 64), (8, 12, 1, 64))
"""

from __future__ import annotations

from iosim.models.layers.blocks import Ask, attend, drop, linear, norm, residual
from iosim.models.layers.embedding_and_head import look_up, predict
from iosim.models.layers.graph import Graph

_EPSILON = 1e-5


def layer(ask: Ask) -> Graph:
    """A decoder layer from X to Y; in training with its backward pass, from dY to dX."""
    op = ask.writer()
    norm(op, "norm 1", "layer_norm", "X", "N1", ask, _EPSILON)
    attend(op, "N1", ask, biases=True)
    linear(op, "output", "C[b h j p], weight WO[h p i]", "O[b j i]", "BO[i]")
    residual(op, "output", "attention", "O", "X", "X1", ask, seed=2)
    norm(op, "norm 2", "layer_norm", "X1", "N2", ask, _EPSILON)
    linear(op, "linear 1", "N2[b j i], weight W1[i u]", "H[b j u]", "BH[u]")
    op("activation", "gelu_tanh", "H[b j u] -> A[b j u]")
    linear(op, "linear 2", "A[b j u], weight W2[u i]", "F[b j i]", "BF[i]")
    residual(op, "linear 2", "feed-forward", "F", "X1", "Y", ask, seed=3)
    return ask.finish(op, "layer", "Y")


def embedding(ask: Ask) -> Graph:
    """Of tokens and positions."""
    op = ask.writer()
    total = look_up(op, positions=True)
    return ask.finish(op, "embedding", drop(op, "embedding dropout", total, "b j i", ask, seed=0))


def head(ask: Ask) -> Graph:
    """The last norm and the logits: of the last position in prefill, else of all rows."""
    op = ask.writer(rows=1 if ask.phase == "prefill" else 0)
    norm(op, "last norm", "layer_norm", "X", "N", ask, _EPSILON)
    return ask.finish(op, "head", predict(op, "N", "WT", ask))
