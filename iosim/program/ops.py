"""OPS: one record per operation, holding its redundant forms side by side.

`numpy` works on arrays with any number of leading *lane* dimensions (independent copies of the
fast memory that run at once); it returns the new values of the operands named in `writes`, in
that order, and never changes its arguments.  Arithmetic inside an operation is free and needs no
words beyond its operands (`docs/cost-model.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OpSpec:
    """What an operation means.

    Attributes:
        says: the mathematics, one line.
        dims: a string of index letters per operand, equal letters meaning equal extents;
            ``"*"`` takes any shape.
        reads, writes: positions of the operands whose old value matters, and that change.
        numpy: the meaning; its parameters name the operands.
        triton: the same on block values, as text that `iosim.gpu.emitter` fills in: ``{s}`` is the
            operand s, ``{s.shape}`` its block shape.  None: the operation has no GPU form.
        lowest: operands whose columns beyond a ragged edge must read −inf in that text; those of
            every other operand read 0 wherever they are contracted.
    """

    says: str
    dims: tuple[str, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    numpy: Callable[..., tuple[Array, ...]]
    triton: str | None = None
    lowest: str = ""


def _dot(a: Array, b: Array) -> Array:
    """Stacked matrix product; NumPy's is slow for the outer products that tiny tiles make."""
    return a * b if a.shape[-1] == 1 else np.matmul(a, b)


def _t(a: Array) -> Array:
    return a.swapaxes(-1, -2)


def _online(m: Array, l: Array, s: Array) -> tuple[Array, Array, Array, Array]:
    """New row maximum and sum, the weights exp(s − m), and the factor for what came before.

    Milakov and Gimelshein 2018, arXiv 1805.02867, Algorithm 3.
    """
    top = np.maximum(m, s.max(axis=-1))
    p = np.exp(s - top[..., None])
    shrink = np.exp(m - top)
    return top, l * shrink + p.sum(axis=-1), p, shrink


def _row_stats(m: Array, l: Array, s: Array) -> tuple[Array, ...]:
    top, total, _, _ = _online(m, l, s)
    return top, total


def _online_softmax(o: Array, m: Array, l: Array, s: Array, v: Array) -> tuple[Array, ...]:
    top, total, p, shrink = _online(m, l, s)
    return o * shrink[..., None] + _dot(p, v), top, total, p


def _online_mean(o: Array, m: Array, l: Array, s: Array, v: Array) -> tuple[Array, ...]:
    top, total, p, shrink = _online(m, l, s)
    return (o * (l * shrink)[..., None] + _dot(p, v)) / total[..., None], top, total, p


def _online_weights(o: Array, m: Array, l: Array, s: Array) -> tuple[Array, ...]:
    top, total, p, shrink = _online(m, l, s)
    return o * shrink[..., None], top, total, p


# Shared by the softmax family: `_online` above, on tiles.  exp2 is the one that hardware has.
_ONLINE = """\
_top = tl.maximum({m}, tl.max({s}, 1))
_shrink = tl.exp2(({m} - _top) * LOG2E)
"""
# One multiply-add per element, for which the row maximum is scaled first.
_EXP = "tl.exp2({s}.to(tl.float32) * LOG2E - (_top * LOG2E)[:, None])"
_WEIGHTS = "{s} = " + _EXP + "\n"
_SUM = "{l} = {l} * _shrink + tl.sum({s}, 1)\n"
_WEIGHTED = 'tl.dot({s}.to({v}.dtype), {v}, %s, input_precision="ieee")'

OPS: dict[str, OpSpec] = {
    "zero": OpSpec(
        "x = 0", ("*",), (), (0,), lambda x: (np.zeros_like(x),),
        "{x} = tl.zeros({x.shape}, tl.float32)",
    ),
    "lowest": OpSpec(
        "x = -inf", ("*",), (), (0,), lambda x: (np.full_like(x, -np.inf),),
        '{x} = tl.full({x.shape}, float("-inf"), tl.float32)',
    ),
    "matmul_nt": OpSpec(
        "s += q kᵀ", ("ij", "ix", "jx"), (0, 1, 2), (0,),
        lambda s, q, k: (s + _dot(q, _t(k)),),
        '{s} = tl.dot({q}, tl.trans({k}), {s}, input_precision="ieee")',
    ),
    "matmul_nn": OpSpec(
        "o += p v", ("ix", "ij", "jx"), (0, 1, 2), (0,),
        lambda o, p, v: (o + _dot(p, v),),
        '{o} = tl.dot({p}.to({v}.dtype), {v}, {o}, input_precision="ieee")',
    ),
    "online_softmax": OpSpec(
        "m' = max(m, max s); s = exp(s − m'); l = l exp(m − m') + Σ s; o = o exp(m − m') + s v",
        ("ix", "i", "i", "ij", "jx"), (0, 1, 2, 3, 4), (0, 1, 2, 3),
        _online_softmax,
        _ONLINE + _WEIGHTS + _SUM + "{o} = " + _WEIGHTED % "{o} * _shrink[:, None]"
        + "\n{m} = _top", "s",
    ),
    "online_mean": OpSpec(
        "m' = max(m, max s); s = exp(s − m'); l' = l exp(m − m') + Σ s; "
        "o = (o l exp(m − m') + s v) / l'; l = l'",
        ("ix", "i", "i", "ij", "jx"), (0, 1, 2, 3, 4), (0, 1, 2, 3),
        _online_mean,
        _ONLINE + _WEIGHTS + "{o} = " + _WEIGHTED % "{o} * ({l} * _shrink)[:, None]"
        + "\n" + _SUM + "{o} = {o} / {l}[:, None]\n{m} = _top", "s",
    ),
    "online_weights": OpSpec(
        "m' = max(m, max s); s = exp(s − m'); l = l exp(m − m') + Σ s; o = o exp(m − m')",
        ("ix", "i", "i", "ij"), (0, 1, 2, 3), (0, 1, 2, 3),
        _online_weights,
        _ONLINE + _WEIGHTS + _SUM + "{o} = {o} * _shrink[:, None]\n{m} = _top", "s",
    ),
    "row_stats": OpSpec(
        "m' = max(m, max s); l = l exp(m − m') + Σ exp(s − m')",
        ("i", "i", "ij"), (0, 1, 2), (0, 1),
        _row_stats,
        _ONLINE + "{l} = {l} * _shrink + tl.sum(" + _EXP + ", 1)\n{m} = _top", "s",
    ),
    "normalise": OpSpec(
        "s = exp(s − m) / l", ("ij", "i", "i"), (0, 1, 2), (0,),
        lambda s, m, l: (np.exp(s - m[..., None]) / l[..., None],),
        "{s} = tl.exp2(({s} - {m}[:, None]) * LOG2E) / {l}[:, None]", "s",
    ),
    "finish": OpSpec(
        "o = o / l", ("ix", "i"), (0, 1), (0,), lambda o, l: (o / l[..., None],),
        "{o} = {o} / {l}[:, None]",
    ),
}  # fmt: skip
