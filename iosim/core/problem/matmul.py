"""The problem of a matrix product, C = AB."""

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
class MatMul(BaseProblem):
    """C = AB with A (m, k), B (k, n), C (m, n).

    >>> problem = MatMul(m=2, n=3, k=4)
    >>> problem.sizes, {name: x.shape for name, x in problem.random().items()}
    ({'m': 2, 'n': 3, 'k': 4}, {'A': (2, 4), 'B': (4, 3)})
    """

    m: int = axis("rows of C", letters="i")
    n: int = axis("columns of C", letters="ij")
    k: int = axis("inner size of a matrix product", letters="x")

    kind: ClassVar[str] = "matmul"
    inputs: ClassVar[Tensors] = (Tensor("A", ("m", "k")), Tensor("B", ("k", "n")))
    outputs: ClassVar[Tensors] = (Tensor("C", ("m", "n")),)

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> MatMul:
        """The size of one head's score matrix: N × N × d."""
        return cls(m=N, n=N, k=d)

    def reference(self, hbm: Hbm) -> dict[str, Array]:
        """NumPy's product in float64."""
        A, B = self.check_inputs(hbm).values()
        return {"C": A @ B}
