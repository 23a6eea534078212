"""Operations of a device on what it holds: one record each, with its NumPy code and its FLOP.

FLOP are those of matrix products, 2 for a multiplication with its addition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.rows import Row
from iosim.core.problem import Array

# Of each operand its positions along the axes, by the axis's name.
Where = Sequence[Row]
LOWEST = -1e30


@dataclass(frozen=True)
class DeviceOp:
    """One operation.

    Attributes:
        name: the registry's key.
        says: the mathematics, in one line; operands by their letters.
        writes: which operands it changes.
        run: arrays, their positions, whether rows see no later key → the operands that it writes.
        flop: the shapes of its operands → FLOP of its products; with `pairs`, for each pair of a
            row and a key.
        pairs: the two operands whose rows and keys meet, or None.
    """

    name: str
    says: str
    writes: tuple[int, ...]
    run: Callable[[Sequence[Array], Where, bool], tuple[Array, ...]]
    flop: Callable[[Sequence[tuple[Any, ...]]], Any] = lambda shapes: 0
    pairs: tuple[int, int] | None = None


def _visible_pairs(where: Where, q: int, k: int, causal: bool) -> Any:
    rows, keys = where[q]["N"], where[k]["N"]
    return keys[None, :] <= rows[:, None] if causal else np.ones((len(rows), len(keys)), bool)


def _attend(x: Sequence[Array], where: Where, causal: bool) -> tuple[Array, ...]:
    o, m, l, q, k, v = x
    s = np.einsum("guid,gjd->guij", q, k)
    s = np.where(_visible_pairs(where, 3, 4, causal), s, LOWEST)
    top = np.maximum(m, s.max(axis=-1, initial=LOWEST))
    p = np.where(s > LOWEST, np.exp(s - top[..., None]), 0.0)
    scale = np.exp(m - top)
    return (
        o * scale[..., None] + np.einsum("guij,gjd->guid", p, v),
        top,
        l * scale + p.sum(axis=-1),
    )


def _finish(x: Sequence[Array], where: Where, causal: bool) -> tuple[Array, ...]:
    o, l = x
    return (o / np.where(l > 0, l, 1.0)[..., None],)


def _row_sums(x: Sequence[Array], where: Where, causal: bool) -> tuple[Array, ...]:
    return ((x[1] * x[2]).sum(axis=-1),)


def _attend_back(x: Sequence[Array], where: Where, causal: bool) -> tuple[Array, ...]:
    dq, dk, dv, q, do, L, D, k, v = x
    s = np.einsum("guid,gjd->guij", q, k) - L[..., None]
    p = np.where(_visible_pairs(where, 3, 7, causal), np.exp(s), 0.0)
    ds = p * (np.einsum("guid,gjd->guij", do, v) - D[..., None])
    return (
        dq + np.einsum("guij,gjd->guid", ds, k),
        dk + np.einsum("guij,guid->gjd", ds, q),
        dv + np.einsum("guij,guid->gjd", p, do),
    )


OPS: dict[str, DeviceOp] = {
    op.name: op
    for op in (
        DeviceOp("copy", "y = x", (0,), lambda x, where, causal: (x[1],)),
        DeviceOp(
            "squeeze", "y = x without its first axis", (0,), lambda x, where, causal: (x[1][0],)
        ),
        DeviceOp(
            "matmul",
            "y += a b",
            (0,),
            lambda x, where, causal: (x[0] + x[1] @ x[2],),
            lambda shapes: 2 * shapes[0][0] * shapes[0][1] * shapes[1][1],
        ),
        DeviceOp(
            "matmul_tn",
            "y += aᵀ b",
            (0,),
            lambda x, where, causal: (x[0] + x[1].T @ x[2],),
            lambda shapes: 2 * shapes[0][0] * shapes[0][1] * shapes[1][0],
        ),
        DeviceOp("relu", "x = max(x, 0)", (0,), lambda x, where, causal: (np.maximum(x[0], 0),)),
        DeviceOp(
            "attend",
            "o, m, l: online softmax of q kᵀ, with v",
            (0, 1, 2),
            _attend,
            lambda shapes: 4 * shapes[3][0] * shapes[3][1] * shapes[3][3],
            (3, 4),
        ),
        DeviceOp("finish", "o = o / l", (0,), _finish),
        DeviceOp("row_sums", "D = rowsum(o ∘ do)", (0,), _row_sums),
        DeviceOp(
            "attend_back",
            "dq, dk, dv += those of q, do, L, D with k, v",
            (0, 1, 2),
            _attend_back,
            lambda shapes: 10 * shapes[3][0] * shapes[3][1] * shapes[3][3],
            (3, 7),
        ),
    )
}
