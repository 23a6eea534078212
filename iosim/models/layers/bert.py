"""BERT: an encoder layer as Ivanov et al. draw it, forward and backward (arXiv 2007.00072).

    X → query, key, value (+ biases) → scores → scale → softmax → dropout → weighted sum
      → output (+ bias) → dropout → residual X → layer norm = Y1
      → linear 1 (+ bias) → activation → dropout → linear 2 (+ bias) → dropout → residual Y1
      → layer norm = Y

The layer has no mask: every sequence fills its context.  The paper's activation is ReLU, that of
Devlin et al. GELU; `Config.activation` chooses.

>>> from iosim.models.layers.models import config
>>> encoder = layer(Ask(config("bert-large"), "training", batch=8, N=512))
>>> encoder.readers["X"][0].name, encoder.writer["Y"].name
('query', 'feed-forward norm')
>>> encoder.operators[0].flop, encoder.operators[0].words_out
(8589934592, 4194304)
"""

from __future__ import annotations

from iosim.models.layers.blocks import Ask, Writer, attend, drop, linear, norm, residual
from iosim.models.layers.embedding_and_head import look_up, predict
from iosim.models.layers.graph import Graph

_EPSILON = 1e-12


def layer(ask: Ask) -> Graph:
    """An encoder layer from X to Y; in training with its backward pass, from dY to dX."""
    op = ask.writer()
    attend(op, "X", ask, biases=True, causal=False)
    linear(op, "output", "C[b h j p], weight WO[h p i]", "O[b j i]", "BO[i]")
    _close(op, "output", "attention", "O", "X", "Y1", ask, seed=2)
    linear(op, "linear 1", "Y1[b j i], weight W1[u i]", "H[b j u]", "BH[u]")
    op("activation", ask.config.activation, "H[b j u] -> A[b j u]")
    a = drop(op, "activation dropout", "A", "b j u", ask, seed=3)
    linear(op, "linear 2", f"{a}[b j u], weight W2[i u]", "F[b j i]", "BF[i]")
    _close(op, "linear 2", "feed-forward", "F", "Y1", "Y", ask, seed=4)
    return ask.finish(op, "layer", "Y")


def _close(
    op: Writer, last: str, block: str, x: str, beside: str, y: str, ask: Ask, seed: int
) -> None:
    """What ends both blocks of a layer: dropout, the residual, a layer norm."""
    total = residual(op, last, block, x, beside, f"R{y}", ask, seed)
    norm(op, f"{block} norm", "layer_norm", total, y, ask, _EPSILON)


def embedding(ask: Ask) -> Graph:
    """Of tokens, positions and segments (two of them), summed and normalized."""
    op = ask.writer()
    look_up(op, positions=True, segments=True)
    norm(op, "embedding norm", "layer_norm", "E", "NE", ask, _EPSILON)
    return ask.finish(op, "embedding", drop(op, "embedding dropout", "NE", "b j i", ask, seed=0))


def head(ask: Ask) -> Graph:
    """Of the masked language model: one more linear operator, and every position is predicted.

    In training the loss is taken at all positions, too.  The prediction of the next sentence and
    its pooler are left out.
    """
    op = ask.writer()
    linear(op, "transform", "X[b j l], weight WM[l i]", "M[b j i]", "BM[i]")
    op("transform activation", "gelu", "M[b j i] -> A[b j i]")
    norm(op, "head norm", "layer_norm", "A", "N", ask, _EPSILON)
    return ask.finish(op, "head", predict(op, "N", "WT", ask, bias=True))
