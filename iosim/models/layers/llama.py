"""Llama 3: RMS norms before the blocks, RoPE, heads that share keys and values, SwiGLU, no biases.

    X → norm 1 → query, key, value → RoPE of queries and keys → scores → scale → mask → softmax
      → weighted sum → output → residual X = X1
      → norm 2 → gate, up → SwiGLU → down → residual X1 = Y

There is no dropout, and the head has a table of its own.

>>> from iosim.models.layers.models import config
>>> prefill = layer(Ask(config("llama3-8b"), "prefill", batch=8, N=512))
>>> [t.name for t in prefill.outputs]
['K', 'V', 'Y']
"""

from __future__ import annotations

from iosim.models.layers.blocks import Ask, Writer, attend, norm
from iosim.models.layers.embedding_and_head import look_up, predict
from iosim.models.layers.graph import Graph

EPSILON = 1e-5


def layer(ask: Ask) -> Graph:
    """A decoder layer from X to Y; in training with its backward pass, from dY to dX."""
    op = ask.writer()
    attention_block(op, ask)
    op("gate", "contraction", "N2[b j i], weight WG[u i] -> G[b j u]")
    op("up", "contraction", "N2[b j i], weight WU[u i] -> U[b j u]")
    op("activation", "swiglu", "G[b j u], U[b j u] -> A[b j u]")
    op("down", "contraction", "A[b j u], weight WD[i u] -> F[b j i]")
    op("feed-forward residual", "add", "F[b j i], X1[b j i] -> Y[b j i]")
    return ask.finish(op, "layer", "Y")


def attention_block(op: Writer, ask: Ask) -> None:
    """From X to N2, the feed-forward network's input, and X1."""
    norm(op, "norm 1", "rms_norm", "X", "N1", ask, EPSILON)
    attend(op, "N1", ask, rope=True)
    heads = "g r" if ask.config.group > 1 else "h"
    op("output", "contraction", f"C[b {heads} j p], weight WO[{heads} p i] -> O[b j i]")
    op("attention residual", "add", "O[b j i], X[b j i] -> X1[b j i]")
    norm(op, "norm 2", "rms_norm", "X1", "N2", ask, EPSILON)


def embedding(ask: Ask) -> Graph:
    """Of tokens; positions come in by RoPE."""
    op = ask.writer()
    return ask.finish(op, "embedding", look_up(op))


def head(ask: Ask) -> Graph:
    """The last norm and the logits: of the last position in prefill, else of all rows."""
    op = ask.writer(rows=1 if ask.phase == "prefill" else 0)
    norm(op, "last norm", "rms_norm", "X", "N", ask, EPSILON)
    return ask.finish(op, "head", predict(op, "N", "WL", ask))
