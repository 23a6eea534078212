"""Attention, with what people vary: masks, keys of their own, heads that share keys and values.

``tests/core/test_attention_options.py`` compares its options with what is written by hand in
``tests/masked_oracle.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from iosim.core.problem.form import Array, Form, Hbm, Tensor, Tensors, option
from iosim.core.problem.scores import MaskedScores


@dataclass(frozen=True, repr=False)
class Attention(MaskedScores):
    """O = softmax(QKᵀ)V for `heads` independent heads (batch × heads).

    Shapes: Q is (heads, N, d), K (kv_heads, N_k, d), V (kv_heads, N_k, d_v), O (heads, N, d_v).
    There is no 1/√d: a user who wants it scales Q, which moves no words.  Options that are left out
    are as in dense self-attention: N_k = N, d_v = d, kv_heads = heads, and every row sees every
    column.

    Row i sees column j if ``i + shift − left ≤ j ≤ i + shift + right``, with ``window=(left,
    right)`` and shift = N_k − N (aligned at the lower right, as FlashAttention's kernels since
    2.1) or 0 (upper left, as PyTorch's ``is_causal``).  `causal` sets right to 0.  The first
    `sinks` columns are seen however far to the left they are, but not beyond the right limit.
    A row that sees nothing has an output of 0.

    With `statistics` L is an output, too: (heads, N), the log Σ exp of each row's scores, in fp32
    at least, and 0 for a row that sees nothing.  `AttentionBackward` reads it.

    With `kv_heads` given, heads come in groups of heads/kv_heads neighbors, which share one head
    of K and V; a program's Q and O are then (kv_heads, group, N, …), the same words in the same
    order.

    Raises InputError for sizes that are not integers in 1..2**40, limits below 0, and kv_heads
    that does not divide heads.

    >>> Attention(4096, 128, 32, kv_heads=8, causal=True).sizes
    {'N': 4096, 'd': 128, 'kv_heads': 8, 'group': 4}
    """

    statistics: bool = option(
        "L = log Σ exp of each row's scores is stored, for the backward pass", "flag", False
    )

    kind: ClassVar[str] = "attention"
    inputs: ClassVar[Tensors] = tuple(Tensor(x, ("heads", "N", "d")) for x in "QKV")
    outputs: ClassVar[Tensors] = (Tensor("O", ("heads", "N", "d")),)

    @property
    def form(self) -> Form:
        """What a program for this problem is traced for."""
        form = super().form
        if not self.statistics:
            return form
        (O,) = form.outputs
        return replace(form, outputs=(O, Tensor("L", O.axes[:-1], wide=True)))

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> Attention:
        """Attention of these sizes."""
        return cls(N, d, heads)

    def reference(self, hbm: Hbm) -> dict[str, Array]:
        """The textbook formula in float64, a block of rows at a time to bound memory.

        Q may be (heads, N, d), too, where a program's is (kv_heads, group, N, d); O has the same
        leading axes.  Raises InputError for arrays of other shapes.
        """
        Q, K, V = self.check_inputs(hbm).values()
        given = np.shape(hbm["Q"])
        Q = Q.reshape(self.heads, self.N, self.d)
        O, L = np.empty((self.heads, self.N, self.values)), np.empty((self.heads, self.N))
        for h, g, rows, P, total in self.blocks(Q, K):
            O[h, rows], L[h, rows] = P @ V[g], total
        found = {"O": O.reshape(*given[:-1], self.values), "L": L.reshape(given[:-1])}
        return {x.name: found[x.name] for x in self.form.outputs}

    def rounding(self, hbm: Hbm) -> dict[str, float]:
        """How far rounding may move each output's words between two computations in float64.

        The weights of a row add up to 1, so O moves by as much, relative to the largest word of V;
        and L by as much as a weight, relative to 1.
        """
        weight = self.weight_rounding(hbm, self.keys, logs=self.keys)
        found = {"O": weight * float(np.abs(hbm["V"]).max()), "L": weight}
        return {x.name: found[x.name] for x in self.form.outputs}
