"""Attention under a static block mask: which tiles of scores are needed is an array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from iosim.base.errors import InputError
from iosim.core.problem.base import WHOLE, Arithmetic, BaseProblem, as_array, check_size
from iosim.core.problem.form import (
    Array,
    Form,
    Mask,
    Tensor,
    axis,
    option,
)
from iosim.core.problem.heads import SharedHeads
from iosim.core.problem.scores import form_of

CAUSAL = Mask(left=False, right="causal", sinks=False, shift=True)


@dataclass(frozen=True, repr=False)
class BlockSparse(SharedHeads, BaseProblem):
    """O = softmax(QKᵀ)V over the scores that a block mask marks, the same for all heads.

    The mask belongs to the tiles and is given with them, when a schedule is bound.  Shapes: Q is
    (heads, N, d), K (kv_heads, N_k, d), V (kv_heads, N_k, d_v), O (heads, N, d_v), with d_v = d and
    kv_heads = heads where they are left out.  Heads come in groups as in `Attention`.  `causal`
    hides what is after a row's own column, i + N_k − N, in the tiles that are marked.  A row
    that sees nothing has an output of 0.

    Raises InputError for sizes that are not integers in 1..2**40, and kv_heads that does not divide
    heads.

    >>> BlockSparse(N=64, N_k=128, d=8).sizes
    {'N': 64, 'N_k': 128, 'd': 8, 'heads': 1}
    >>> BlockSparse(N=64, N_k=128, d=8, heads=6, kv_heads=2, d_v=4).sizes
    {'N': 64, 'd': 8, 'kv_heads': 2, 'group': 3, 'N_k': 128, 'd_v': 4}
    """

    N: int = axis("sequence length", letters="i")
    N_k: int = axis("keys", letters="j", follows="N")
    d: int = axis("head dimension", letters="xy")
    heads: int = axis("batch × heads", letters="h", default=1)
    d_v: int | None = option("head dimension of V and O (default: d)", "size", follows="d")
    kv_heads: int | None = option(
        "heads of K and V, a divisor of heads (default: heads)",
        "size",
        divides="heads",
        follows="heads",
    )
    causal: bool = option("a row sees no column after its own", "flag", default=False)

    kind: ClassVar[str] = "block-sparse"
    inputs: ClassVar[tuple[Tensor, ...]] = (
        Tensor("Q", ("heads", "N", "d")),
        Tensor("K", ("heads", "N_k", "d")),
        Tensor("V", ("heads", "N_k", "d")),
    )
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("O", ("heads", "N", "d")),)

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> BlockSparse:
        """Attention of these sizes."""
        return cls(N, N, d, heads)

    @property
    def form(self) -> Form:
        """What a program for this problem is traced for."""
        given = {x.name for x in self.options()} & self.as_dict.keys()
        if not given:
            return self.plain_form()
        mask = CAUSAL if self.causal else None
        return form_of(
            self.kind, True, "d_v" in given, "kv_heads" in given, mask, tuple(sorted(given))
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Name → extent, of all that a program of its form is bound to."""
        given = {
            "N": self.N,
            "N_k": self.N_k,
            "d": self.d,
            "heads": self.heads,
            "d_v": self.values,
            "kv_heads": self.groups,
        }
        return self.extents(self.form, given)

    @classmethod
    def follow(cls, form: Form, sizes: Mapping[str, Any], by: Arithmetic = WHOLE) -> dict[str, Any]:
        """The heads of Q, and d_v."""
        heads = sizes["kv_heads"] * sizes["group"] if "group" in sizes else sizes["heads"]
        return {"heads": heads, "d_v": sizes.get("d_v", sizes["d"])}

    def reference(
        self, hbm: Mapping[str, Array], seen: NDArray[np.bool_] | None = None
    ) -> dict[str, Array]:
        """The textbook formula in float64, a row at a time.

        Q may be (heads, N, d), too, where a program's is (kv_heads, group, N, d); O has the same
        leading axes.

        Args:
            hbm: Q, K and V.
            seen: (N, N_k) booleans: which scores are needed (`scores`).

        Raises InputError where `seen` is missing, and for arrays of another shape.
        """
        shape = (self.N, self.N_k)
        if seen is None or np.shape(seen) != shape:
            got = "nothing" if seen is None else f"an array of shape {np.shape(seen)}"
            raise InputError(
                f"which scores are needed is an array of shape {shape}, got {got}: make it "
                "with scores(mask, B_r, B_c)"
            )
        Q, K, V = self.check_inputs(hbm).values()
        given = np.shape(hbm["Q"])
        Q = Q.reshape(self.heads, self.N, self.d)
        O = np.zeros((self.heads, self.N, self.values))
        for h, i in np.ndindex(self.heads, self.N):
            if seen[i].any():
                g = h * self.groups // self.heads
                S = K[g, seen[i]] @ Q[h, i]
                P = np.exp(S - S.max())
                O[h, i] = P @ V[g, seen[i]] / P.sum()
        return {"O": O.reshape(*given[:-1], self.values)}

    def scores(self, mask: Any, B_r: int, B_c: int) -> NDArray[np.bool_]:
        """A block mask of tiles of B_r rows and B_c keys, spread over single scores; those that
        `causal` hides are left out.

        Raises InputError for tiles that are no sizes, and a mask that is not booleans, one for
        each tile.

        >>> BlockSparse(3, 4, 1).scores([[True, False], [False, True]], 2, 2).astype(int)
        array([[1, 1, 0, 0],
               [1, 1, 0, 0],
               [0, 0, 1, 1]])
        """
        rows, columns = check_size("B_r", B_r), check_size("B_c", B_c)
        marks = as_array("the mask", mask)
        shape = (-(-self.N // rows), -(-self.N_k // columns))
        if marks.dtype != np.bool_ or marks.shape != shape:
            raise InputError(
                f"the mask is an array of {marks.dtype} of shape {marks.shape}, and tiles of {B_r} "
                f"rows and {B_c} keys need booleans of shape {shape}: give one for each tile"
            )
        wide = np.repeat(np.repeat(marks, rows, axis=0), columns, axis=1)
        found = wide[: self.N, : self.N_k]
        if self.causal:
            own = np.arange(self.N)[:, None] + self.N_k - self.N
            found = found & (np.arange(self.N_k) <= own)
        return found
