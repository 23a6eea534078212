"""A mixture of experts as Mixtral has it: Llama's layer, whose feed-forward network is one of many.

    … N2 → router → the two largest of eight → softmax of them
      → rows of tokens, sorted by expert → gate, up → SwiGLU → down → weighted sum, residual X1 = Y

Each token has a row for each of its experts, and each row is multiplied by its own expert's
weights: nothing is dropped or padded, so that what is computed is right for any routing (Jiang et
al., arXiv 2401.04088).  Words are counted for as many experts as `iosim.models.layers.routing`
says: by default the least that routing allows.  The loss has no term that asks the router for
balance.

>>> from iosim.models.layers.models import config
>>> step = layer(Ask(config("mixtral-8x7b"), "decode", batch=2, N=512))
>>> up = next(op for op in step.operators if op.name == "up")
>>> up.words_in // (4096 * 14336), up.words["WU"][0] / up.reads[1].words
(2, 0.25)
"""

from __future__ import annotations

from iosim.models.layers.blocks import Ask
from iosim.models.layers.graph import Graph
from iosim.models.layers.llama import attention_block


def layer(ask: Ask) -> Graph:
    """A decoder layer from X to Y; in training with its backward pass, from dY to dX."""
    op = ask.writer()
    attention_block(op, ask)
    active = ask.routing.read if ask.routing else 0.0
    op("router", "contraction", "N2[b j i], weight WR[e i] -> router logits[b j e]")
    op("top experts", "top_k", "router logits[b j e] -> best[b j s], numbers:fp32[b j s]", over="e")
    op("router softmax", "softmax", "best[b j s] -> gates[b j s]", over="s")
    op("sort by expert", "by_expert", "numbers[b j s] -> places:fp32[m], experts:fp32[m]")
    op("gather", "gather", "N2[b j i], places[m] -> rows[m i]")
    op("gate", "expert_product", "rows[m i], weight WG[e u i], experts[m] -> G[m u]", active=active)
    op("up", "expert_product", "rows[m i], weight WU[e u i], experts[m] -> U[m u]", active=active)
    op("activation", "swiglu", "G[m u], U[m u] -> A[m u]")
    op("down", "expert_product", "A[m u], weight WD[e i u], experts[m] -> D[m i]", active=active)
    op("combine", "combine", "D[m i], places[m], gates[b j s] -> F[b j i]")
    op("feed-forward residual", "add", "F[b j i], X1[b j i] -> Y[b j i]")
    return ask.finish(op, "layer", "Y")
