"""What comes before the layers of a model, and after them.

The families `bert`, `gpt2` and `llama` call it.  ``tests/models/test_layers.py`` compares with
``tests/layers_by_hand.py``.
"""

from __future__ import annotations

from iosim.base.errors import InputError
from iosim.models.layers.blocks import LOSS, Ask, Writer, linear


def look_up(op: Writer, *, positions: bool = False, segments: bool = False) -> str:
    """Rows of the table of tokens, WT, and of the others that there are, added up: E.

    A number of a row has 4 bytes.  Raises InputError for a context longer than the table of
    positions.
    """
    parts = [op("token embedding", "embedding", "input ids:fp32[b j], weight WT[v i] -> ET[b j i]")]
    if positions:
        if (N := op.sizes["k"]) > (most := op.sizes["n"]):
            raise InputError(
                f"N = {N} is more than the {most} rows of the table of positions: give less"
            )
        op("position embedding", "embedding", "input positions:fp32[j], weight WP[n i] -> EP[j i]")
        parts.append("EP[j i]")
    if segments:
        op(
            "segment embedding",
            "embedding",
            "input segments:fp32[b j], weight WS[t i] -> ES[b j i]",
        )
        parts.append("ES[b j i]")
    if len(parts) == 1:
        return parts[0]
    return op("embedding sum", "add", f"ET[b j i], {', '.join(parts[1:])} -> E[b j i]")


def predict(op: Writer, x: str, table: str, ask: Ask, *, bias: bool = False) -> str:
    """Logits of every token of the vocabulary; in training the loss of each position.

    The loss that the backward pass starts from is their mean.
    """
    linear(op, "logits", f"{x}[b j i], weight {table}[v i]", "L[b j v]", "BL[v]" if bias else "")
    if not ask.training:
        return "L"
    text = f"L[b j v], input labels:fp32[b j] -> {LOSS}:fp32[b j], lse:fp32[b j]"
    return op("loss", "cross_entropy", text, over="v")
