"""Attention under a static block mask: which tiles of scores are needed is an array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from iosim.errors import InputError
from iosim.problem.base import BaseProblem, as_array, check_size
from iosim.problem.form import (
    Array,
    Tensor,
    axis,
)


@dataclass(frozen=True, repr=False)
class BlockSparse(BaseProblem):
    """O = softmax(QKᵀ)V over the scores that a block mask marks, the same for all heads.

    The mask belongs to the tiles and is given with them, when a schedule is bound.  Shapes: Q and O
    are (heads, N, d), K and V (heads, N_k, d).  A row that sees nothing has an output of 0.

    Raises InputError for sizes that are not integers in 1..2**40.

    >>> BlockSparse(N=64, N_k=128, d=8).sizes
    {'N': 64, 'N_k': 128, 'd': 8, 'heads': 1}
    """

    N: int = axis("sequence length", letters="i")
    N_k: int = axis("keys", letters="j")
    d: int = axis("head dimension", letters="xy")
    heads: int = axis("batch × heads", letters="h", default=1)

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

    def reference(
        self, hbm: Mapping[str, Array], seen: NDArray[np.bool_] | None = None
    ) -> dict[str, Array]:
        """The textbook formula in float64, a row at a time.

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
        Q, K, V = self.given(hbm).values()
        O = np.zeros(Q.shape)
        for h, i in np.ndindex(self.heads, self.N):
            if seen[i].any():
                S = K[h, seen[i]] @ Q[h, i]
                P = np.exp(S - S.max())
                O[h, i] = P @ V[h, seen[i]] / P.sum()
        return {"O": O}

    def scores(self, mask: Any, B_r: int, B_c: int) -> NDArray[np.bool_]:
        """A block mask of tiles of B_r rows and B_c keys, spread over single scores.

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
        return wide[: self.N, : self.N_k]
