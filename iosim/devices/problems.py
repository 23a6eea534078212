"""What devices compute besides attention: feed-forward layers, gradients, collectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from iosim.core.problem import Array, BaseProblem, Tensor, axis


@dataclass(frozen=True, repr=False)
class FeedForward(BaseProblem):
    """Y = max(X W1, 0) W2: two products with an activation between.

    >>> FeedForward(4, 2, 8).sizes
    {'rows': 4, 'width': 2, 'inner': 8}
    """

    rows: int = axis("tokens")
    width: int = axis("columns of X and Y")
    inner: int = axis("columns between the two products")

    kind: ClassVar[str] = "feed-forward"
    inputs: ClassVar[tuple[Tensor, ...]] = (
        Tensor("X", ("rows", "width")),
        Tensor("W1", ("width", "inner")),
        Tensor("W2", ("inner", "width")),
    )
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("Y", ("rows", "width")),)

    def reference(self, hbm: Mapping[str, Array]) -> dict[str, Array]:
        """NumPy's products in float64."""
        X, W1, W2 = self.check_inputs(hbm).values()
        return {"Y": np.maximum(X @ W1, 0) @ W2}


@dataclass(frozen=True, repr=False)
class WeightGradient(BaseProblem):
    """dW = Xᵀ dY: the gradient of the weights of one product, summed over all rows.

    >>> WeightGradient(4, 2, 8).sizes
    {'rows': 4, 'width': 2, 'out': 8}
    """

    rows: int = axis("tokens of the whole batch")
    width: int = axis("columns of X")
    out: int = axis("columns of dY")

    kind: ClassVar[str] = "weight-gradient"
    inputs: ClassVar[tuple[Tensor, ...]] = (
        Tensor("X", ("rows", "width")),
        Tensor("dY", ("rows", "out")),
    )
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("dW", ("width", "out")),)

    def reference(self, hbm: Mapping[str, Array]) -> dict[str, Array]:
        """NumPy's product in float64."""
        X, dY = self.check_inputs(hbm).values()
        return {"dW": X.T @ dY}


@dataclass(frozen=True, repr=False)
class Gather(BaseProblem):
    """Y = X, of which every device has a part at first and all of it at last.

    >>> Gather(5).sizes
    {'n': 5}
    """

    n: int = axis("words of the whole vector")

    kind: ClassVar[str] = "gather"
    inputs: ClassVar[tuple[Tensor, ...]] = (Tensor("X", ("n",)),)
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("Y", ("n",)),)

    def reference(self, hbm: Mapping[str, Array]) -> dict[str, Array]:
        """X itself."""
        return {"Y": self.check_inputs(hbm)["X"]}


@dataclass(frozen=True, repr=False)
class SumOver(BaseProblem):
    """Y = the sum over devices of a vector that each of them has.

    >>> SumOver(5, 2).sizes
    {'n': 5, 'devices': 2}
    """

    n: int = axis("words of each device's vector")
    devices: int = axis("devices")

    kind: ClassVar[str] = "sum-over-devices"
    inputs: ClassVar[tuple[Tensor, ...]] = (Tensor("X", ("devices", "n")),)
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("Y", ("n",)),)

    def reference(self, hbm: Mapping[str, Array]) -> dict[str, Array]:
        """The sum, in float64."""
        return {"Y": self.check_inputs(hbm)["X"].sum(axis=0)}
