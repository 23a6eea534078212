"""Attention against a cache in pages: what a server decodes with (vLLM, FlashInfer).

`PROBLEMS` has it, so that commands take ``--problem paged``; its schedule is
`iosim.core.algorithms.paged`, its bound `iosim.bounds.paged`.

Changing this file: `reference` follows the table, and shares nothing with a schedule.
``tests/core/test_paged.py`` compares outputs with attention, counts with each other, and messages
for bad tables and sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from iosim.base.errors import InputError
from iosim.base.rows import Values
from iosim.core.problem.base import BaseProblem
from iosim.core.problem.form import (
    Array,
    Axis,
    Derived,
    Form,
    Hbm,
    Mask,
    Tensor,
    Tensors,
    axis,
    option,
)


@dataclass(frozen=True, repr=False)
class PagedAttention(BaseProblem):
    """O = softmax(QKᵀ)V for N rows of each sequence of a batch, K and V in pages.

    A cache is cut into pages of `page` rows.  Block t of sequence s, with the keys from t·page on,
    lies in page ``table[s, t]``; the last page of a sequence may be filled in part, up to N_k keys.
    Heads come in groups of heads/kv_heads neighbors, which share one head of K and V.

    Shapes: Q and O are (batch, kv_heads, group, N, d), the words of (batch, heads, N, d) in the
    same order; K and V are (pages, kv_heads, page, d), with a page for each block of each sequence;
    the table is (batch, ⌈N_k/page⌉), whole numbers that have 4 bytes or more.  Pages may be shared.
    `causal` lets row i see the keys up to its own, i + N_k − N; decoding with N = 1 needs no mask.

    Raises InputError for sizes that are not integers in 1..2**40, kv_heads that does not divide
    heads, and more causal rows than keys.

    >>> PagedAttention(N_k=100, d=64, heads=32, kv_heads=8, page=16, batch=4).sizes["pages"]
    28
    """

    N_k: int = axis("keys", letters="j")
    d: int = axis("head dimension", letters="x")
    heads: int = axis("heads of each sequence", letters="h")
    kv_heads: int = axis("heads of K and V, a divisor of heads", letters="g")
    page: int = axis("keys of a page")
    batch: int = axis("sequences", letters="b", default=1)
    N: int = axis("sequence length", letters="i", default=1)
    causal: bool = option("a row sees no column after its own", "flag", default=False)

    kind: ClassVar[str] = "paged"
    inputs: ClassVar[Tensors] = (
        Tensor("Q", ("batch", "kv_heads", "group", "N", "d")),
        Tensor("K", ("pages", "kv_heads", "page", "d")),
        Tensor("V", ("pages", "kv_heads", "page", "d")),
        Tensor("table", ("batch", "blocks"), wide=True, positions="pages"),
    )
    outputs: ClassVar[Tensors] = (Tensor("O", ("batch", "kv_heads", "group", "N", "d")),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads % self.kv_heads:
            raise InputError(
                f"kv_heads = {self.kv_heads} does not divide heads = {self.heads}: give a divisor"
            )
        if self.causal and self.N_k < self.N:
            raise InputError(
                f"N_k = {self.N_k} keys are fewer than N = {self.N} causal rows, which see nothing "
                "then: give N_k of N or more"
            )

    @classmethod
    def plain_form(cls, options: tuple[str, ...] = ()) -> Form:
        """The form without any option, or with some."""
        return _form("causal" in options)

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> PagedAttention:
        """One row of each head against a cache of N keys, in pages of 16."""
        return cls(N_k=N, d=d, heads=heads, kv_heads=heads, page=16)

    @property
    def form(self) -> Form:
        """What a program for this problem is traced for."""
        return _form(self.causal)

    def random(self, seed: int = 0) -> dict[str, Array]:
        """Standard normal Q, K and V, and pages in random order."""
        found = super().random(seed)
        order = np.random.default_rng(seed + 1).permutation(self.sizes["pages"])
        return found | {"table": order.reshape(found["table"].shape).astype(np.float64)}

    def reference(self, hbm: Hbm) -> dict[str, Array]:
        """The textbook formula in float64, one sequence and head of K after the other.

        Raises InputError for arrays of other shapes, and where the table points outside the cache.
        """
        Q, K, V, table = self.check_inputs(hbm).values()
        O = np.empty_like(Q)
        own = np.arange(self.N)[:, None] + self.N_k - self.N
        hidden = self.causal & (np.arange(self.N_k) > own)
        for s, g in np.ndindex(self.batch, self.kv_heads):
            pages = table[s].astype(np.int64)
            k, v = (x[pages, g].reshape(-1, self.d)[: self.N_k] for x in (K, V))
            S = np.where(hidden, -np.inf, Q[s, g] @ k.T)
            P = np.exp(S - S.max(axis=-1, keepdims=True))
            O[s, g] = P @ v / P.sum(axis=-1, keepdims=True)
        return {"O": O.reshape(np.shape(hbm["Q"]))}


def _group(given: Values) -> Any:
    return given["heads"] // given["kv_heads"]


def _pages(given: Values) -> Any:
    return given["batch"] * -(-given["N_k"] // given["page"])


def _form(causal: bool) -> Form:
    own = {a.name: a for a in PagedAttention.axes()}
    del own["heads"]
    own["group"] = Axis("group", "heads that share one head of K and V", letters="u", of=_group)
    own["pages"] = Axis("pages", "pages of the cache", letters="p", of=_pages)
    return Form(
        PagedAttention.kind,
        tuple(own.values()),
        PagedAttention.inputs,
        PagedAttention.outputs,
        options=("causal",) * causal,
        mask=Mask(left=False, right="causal", sinks=False, shift=True) if causal else None,
        derived=(Derived("blocks", "N_k", "page"),),
    )
