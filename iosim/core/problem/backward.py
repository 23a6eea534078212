"""The backward pass of attention: gradients of Q, K and V from that of O.

``tests/core/test_gradients.py`` compares `reference` with finite differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from iosim.base.errors import InputError
from iosim.base.rows import Values
from iosim.core.problem.attention import Attention
from iosim.core.problem.form import Array, Form, Hbm, Tensor, Tensors
from iosim.core.problem.scores import MaskedScores

# What L and O may be off by: fp16 and bf16 have 11 and 8 bits.
_ROUNDED = 2**-6


@dataclass(frozen=True, repr=False)
class AttentionBackward(MaskedScores):
    """dQ, dK and dV of O = softmax(QKᵀ)V, from dO and what the forward pass leaves: O and L.

    With P = softmax(QKᵀ): dV = Pᵀ dO, dP = dO Vᵀ, D = rowsum(dO ∘ O), dS = P ∘ (dP − D), dQ = dS K,
    dK = dSᵀ Q.  L holds log Σ exp of each row's scores, so that P = exp(QKᵀ − L) needs no maximum;
    it is 0 for a row that sees nothing.

    Shapes and options are those of `Attention`: Q and dQ are (heads, N, d), O and dO (heads, N,
    d_v), L (heads, N), K and dK (kv_heads, N_k, d), V and dV (kv_heads, N_k, d_v).  Heads that
    share one of K and V add to the same dK and dV.

    Raises InputError for sizes and options as `Attention` does.

    Source: Dao et al. 2022 (arXiv 2205.14135), Appendix B.2.

    >>> AttentionBackward(64, 8, heads=4, kv_heads=2).sizes
    {'N': 64, 'd': 8, 'kv_heads': 2, 'group': 2}
    >>> [t.name for t in AttentionBackward(64, 8).form.inputs]
    ['Q', 'K', 'V', 'O', 'dO', 'L']
    """

    kind: ClassVar[str] = "attention-backward"
    in_tables: ClassVar[Mapping[str, str]] = {"pass": "backward"}
    inputs: ClassVar[Tensors] = (
        *(Tensor(x, ("heads", "N", "d")) for x in ("Q", "K", "V", "O", "dO")),
        Tensor("L", ("heads", "N"), wide=True),
    )
    outputs: ClassVar[Tensors] = tuple(Tensor(x, ("heads", "N", "d")) for x in ("dQ", "dK", "dV"))

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> AttentionBackward:
        """The backward pass of attention of these sizes."""
        return cls(N, d, heads)

    @classmethod
    def from_forward(cls, forward: Attention) -> AttentionBackward:
        """The backward pass of a forward pass, with its sizes and options.

        >>> AttentionBackward.from_forward(Attention(64, 8, causal=True, statistics=True))
        AttentionBackward(N=64, d=8, heads=1, causal=True)
        """
        return cls(**{name: x for name, x in forward.as_dict.items() if name != "statistics"})

    @property
    def form(self) -> Form:
        """What a program for this problem is traced for."""
        forward = super().form
        Q, K, V, O = *forward.inputs, *forward.outputs
        statistic = Tensor("L", Q.axes[:-1], wide=True)
        return replace(
            forward,
            inputs=(Q, K, V, O, replace(O, name="dO"), statistic),
            outputs=tuple(replace(x, name=f"d{x.name}") for x in (Q, K, V)),
        )

    def random(self, seed: int = 0) -> dict[str, Array]:
        """Standard normal Q, K, V and dO; O and L are theirs."""
        hbm = super().random(seed)
        return hbm | self.forward(hbm)

    def forward(self, hbm: Values) -> dict[str, Array]:
        """O and L of Q, K and V, in the shapes of this problem's tensors."""
        shapes = {t.name: tuple(self.sizes[a] for a in t.axes) for t in self.form.inputs}
        Q, K, V = (np.asarray(hbm[x], float).reshape(shapes[x]) for x in "QKV")
        O, L = np.empty((self.heads, self.N, self.values)), np.empty((self.heads, self.N))
        for h, g, rows, P, total in self.blocks(Q.reshape(self.heads, self.N, self.d), K):
            O[h, rows], L[h, rows] = P @ V[g], total
        return {"O": O.reshape(shapes["O"]), "L": L.reshape(shapes["L"])}

    def settled(self, hbm: Hbm) -> dict[str, Array]:
        """The inputs, with O and L as Q, K and V make them.

        Raises InputError where O or L differs from that by more than rounding to fp16 does.
        """
        made = self.forward(hbm)
        for name, words in made.items():
            off = np.abs(np.asarray(hbm[name], float).reshape(words.shape) - words)
            # NaN is for who looks at the gradients.
            if (worst := np.max(off / np.maximum(1, np.abs(words)))) > _ROUNDED:
                raise InputError(
                    f"{name} differs by {worst:.2g} from that of the forward pass of Q, K and V: "
                    "give what it leaves with these options (scores are QKᵀ, not divided by √d)"
                )
        return dict(hbm) | made

    def reference(self, hbm: Hbm) -> dict[str, Array]:
        """The textbook formula in float64, from Q, K, V and dO alone.

        Raises InputError for arrays of other shapes.
        """
        given = self.check_inputs(hbm)
        found = self._gradients(given, given, -1)
        return found | {"dQ": found["dQ"].reshape(np.shape(hbm["Q"]))}

    def rounding(self, hbm: Hbm) -> dict[str, float]:
        """How far rounding may move each output's words between two computations in float64.

        A term of dS has an error of 4 weights' at most: P from scores and from L, dP, and D.  So an
        output moves by as much of the sum of its terms' absolute values.
        """
        given = self.check_inputs(hbm)
        sizes = self._gradients(given, {x: np.abs(y) for x, y in given.items()}, +1)
        terms = self.keys + self.values + self.N * self.heads // self.groups
        weight = 4 * self.weight_rounding(given, terms)
        return {x: weight * float(y.max()) for x, y in sizes.items()}

    def _gradients(self, scored: Hbm, summed: Hbm, sign: int) -> dict[str, Array]:
        """The textbook formula with the weights of `scored`, and all else of `summed`.

        Args:
            sign: of D in dS = P ∘ (dP + sign·D).
        """
        rows_of_head = (self.heads, self.N, -1)
        weigh = scored["Q"].reshape(rows_of_head), scored["K"]
        Q, dO = (summed[x].reshape(rows_of_head) for x in ("Q", "dO"))
        K, V = summed["K"], summed["V"]
        dQ, dK, dV = np.empty_like(Q), np.zeros_like(K), np.zeros_like(V)
        for h, g, rows, P, _ in self.blocks(*weigh):
            dP = dO[h, rows] @ V[g].T
            # Row sums of dO ∘ O, as P V = O.
            dS = P * (dP + sign * (P * dP).sum(axis=1, keepdims=True))
            dQ[h, rows] = dS @ K[g]
            dK[g] += dS.T @ Q[h, rows]
            dV[g] += P.T @ dO[h, rows]
        return {"dQ": dQ, "dK": dK, "dV": dV}
