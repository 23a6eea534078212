"""The problem of copying n words: the smallest problem, and the one to start from for a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from iosim.core.problem.base import BaseProblem
from iosim.core.problem.form import (
    Array,
    Hbm,
    Tensor,
    Tensors,
    axis,
)


@dataclass(frozen=True, repr=False)
class Copy(BaseProblem):
    """Y = X, vectors of n words: the smallest problem there is.

    >>> problem = Copy(n=5)
    >>> problem.sizes, problem.reference({"X": [1, 2, 3, 4, 5]})["Y"]
    ({'n': 5}, array([1., 2., 3., 4., 5.]))
    """

    n: int = axis("length of a vector", letters="ij")

    kind: ClassVar[str] = "copy"
    inputs: ClassVar[Tensors] = (Tensor("X", ("n",)),)
    outputs: ClassVar[Tensors] = (Tensor("Y", ("n",)),)

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> Copy:
        """As many words as one head of Q has: N·d."""
        return cls(n=N * d)

    def reference(self, hbm: Hbm) -> dict[str, Array]:
        """X itself."""
        return {"Y": self.check_inputs(hbm)["X"]}
