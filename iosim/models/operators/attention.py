"""Attention as one operator: its scores are not tensors of the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.base.rows import Row
from iosim.core.problem import Attention, AttentionBackward, BlockSparse
from iosim.models.operators.base import Grads, Kind, Operand, Operator
from iosim.models.operators.elementwise import _kind


def attention_of(op: Operator) -> Attention:
    """The problem of an attention operator, from the names of its axes; without block masks.

    Q has the rows (the first axis of `over`) and d, K and V the columns (the second) and d or d_v.
    Axes of all of them are batch; axes of Q and O alone, other than rows, are heads that share K
    and V.

    >>> from iosim.models.operators import operand, operator
    >>> s = {"b": 2, "j": 512, "k": 512, "g": 8, "r": 4, "p": 128, "q": 128}
    >>> Q, K, V, O = (operand(x, axes, s) for x, axes in
    ...     {"Q": "b g r j p", "K": "b g k p", "V": "b g k q", "O": "b g r j q"}.items())
    >>> attention_of(operator("flash", "attention", [Q, K, V], [O], over="j k", causal=True))
    Attention(N=512, d=128, heads=64, kv_heads=16, causal=True)
    """
    rows, columns = op.over
    batch, share, d, d_v = _axes(op)

    def size(axes: Sequence[str]) -> int:
        return math.prod(op.sizes[a] for a in axes)

    groups = size(batch)
    options: Row = {
        "N_k": op.sizes[columns] if op.sizes[columns] != op.sizes[rows] else None,
        "d_v": size(d_v) if size(d_v) != size(d) else None,
        "kv_heads": groups if size(share) > 1 else None,
        "causal": op.setting("causal"),
        "window": op.setting("window"),
    }
    return Attention(op.sizes[rows], size(d), groups * size(share), **options)


def _block_sparse(op: Operator) -> BlockSparse:
    """The problem of an operator with a block mask; log Σ exp of each row is not part of it."""
    p = attention_of(op)
    return BlockSparse(p.N, p.keys, p.d, p.heads, d_v=p.d_v, kv_heads=p.kv_heads, causal=p.causal)


def _problem(op: Operator) -> Attention | BlockSparse:
    """The problem of an operator that may keep log Σ exp of each row, or have a block mask."""
    if op.setting("blocks") is not None:
        return _block_sparse(op)
    return replace(attention_of(op), statistics=len(op.writes) > 1)


def _pairs(op: Operator) -> int:
    """Of a row and a column that it sees, over all heads."""
    blocks = op.setting("blocks")
    if blocks is None:
        return attention_of(op).pairs
    problem = _block_sparse(op)
    return problem.heads * int(problem.visible(blocks).pairs)


def _visible_pairs(op: Operator) -> Any:
    """Which columns each row sees: booleans."""
    blocks, problem = op.setting("blocks"), attention_of(op)
    if blocks is None:
        return problem.sees(np.arange(problem.N)[:, None], np.arange(problem.keys))
    return _block_sparse(op).scores(blocks.mask.array, **blocks.tiles)


def _back_inputs(op: Operator) -> Sequence[Operand]:
    """Q, K, V, O, dO and L."""
    dO, Q, K, V, O, L = op.reads
    return Q, K, V, O, dO, L


def _axes(op: Operator) -> tuple[list[str], list[str], list[str], list[str]]:
    """Batch, heads that share K and V, d, d_v."""
    rows, _ = op.over
    q, k, v, o = (set(t.names) for t in (*_qkv(op), _o(op)))
    order = list(op.sizes)
    return tuple(  # type: ignore[return-value]
        [a for a in order if a in axes]
        for axes in (q & k & v & o, (q & o) - k - v - {rows}, (q & k) - v - o, (v & o) - q - k)
    )


def _qkv(op: Operator) -> tuple[Any, ...]:
    return op.reads[:3] if op.kind is ATTENTION else op.reads[1:4]


def _o(op: Operator) -> Any:
    return op.writes[0] if op.kind is ATTENTION else op.reads[0]


def _check(op: Operator) -> None:
    rows, columns = op.over
    q, k, v, o = (set(t.names) for t in (*_qkv(op), _o(op)))
    batch, share, d, d_v = map(set, _axes(op))
    for name, got, want in (
        ("Q", q, batch | share | {rows} | d),
        ("K", k, batch | {columns} | d),
        ("V", v, batch | {columns} | d_v),
        ("O", o, batch | share | {rows} | d_v),
    ):
        if got != want or not d or not d_v:
            have = " ".join(sorted(got))
            raise InputError(
                f"{op.name}: {name} has the axes {have}, which fit no attention: Q and K share d, "
                "V and O share d_v, Q and O have the rows, K and V the columns"
            )
    attention_of(op)
    if (blocks := op.setting("blocks")) is None:
        return
    if op.setting("window") is not None:
        raise InputError(f"{op.name} has a window and a block mask: leave out one")
    try:
        _block_sparse(op).check_mask(blocks.mask.array, **blocks.tiles)
    except InputError as error:
        raise InputError(f"{op.name}: {error}") from None


def _check_forward(op: Operator) -> None:
    _check(op)
    _check_sums(op, op.writes[1:])


def _check_back(op: Operator) -> None:
    """As forward, and gradients have the axes of what they are of."""
    _refuse_gradients(op)
    _check(op)
    for dx, x in zip((op.reads[0], *op.writes), (op.reads[4], *op.reads[1:4]), strict=True):
        if dx.axes != x.axes:
            raise InputError(f"{op.name}: {dx.name} must have the axes of {x.name}")
    _check_sums(op, op.reads[5:])


def _refuse_gradients(op: Operator) -> None:
    if op.setting("blocks") is not None:
        raise InputError(
            f"{op.name}: no schedule gives the gradients of attention under a block mask: leave "
            "it out, or write scores, mask and softmax as operators of their own"
        )


def _check_sums(op: Operator, sums: Sequence[Operand]) -> None:
    rows, _ = op.over
    batch, share, *_ = _axes(op)
    for t in sums:
        if set(t.names) != {*batch, *share, rows}:
            raise InputError(
                f"{op.name}: {t.name} must have the axes of {_o(op).name} but those "
                "of V alone: it is a sum of each row"
            )


def _standard(op: Operator, tensors: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """Q (batch, share, rows, d), K (batch, columns, d), V (batch, columns, d_v), as wanted."""
    rows, columns = op.over
    batch, share, d, d_v = _axes(op)
    found = []
    for t, x in zip(tensors, arrays, strict=True):
        parts = [batch, share, [rows], [columns], d, d_v]
        order = [a for part in parts for a in part if a in t.names]
        turned = np.transpose(x, [t.names.index(a) for a in order])
        shape = [
            math.prod(op.sizes[a] for a in part)
            for part in parts
            if any(a in t.names for a in part) or (part is share and rows in t.names)
        ]
        found.append(np.reshape(turned, shape))
    return found


def _back(op: Operator, t: Any, x: Any) -> Any:
    rows, columns = op.over
    parts = [*_axes(op)[:2], [rows], [columns], *_axes(op)[2:]]
    order = [a for part in parts for a in part if a in t.names]
    flat = np.reshape(x, [op.sizes[a] for a in order])
    return np.transpose(flat, [order.index(a) for a in t.names])


def _weights(op: Operator, Q: Any, K: Any) -> Any:
    """Softmax of the scores that are seen, the mask of dropout, the log of the sum of exp."""
    seen = _visible_pairs(op)
    scores = np.einsum("gujd,gkd->gujk", Q, K) * op.setting("factor")
    scores = np.where(seen, scores, -np.inf)
    # A row that sees nothing has weights of 0, and a sum of 0.
    some = seen.any(axis=-1, keepdims=True)
    top = np.where(some, np.max(scores, axis=-1, keepdims=True), 0)
    total = np.sum(np.exp(scores - top), axis=-1, keepdims=True)
    lse = top + np.log(np.where(some, total, 1))
    return np.exp(scores - lse), _mask(op, scores.shape), lse


def _drops(op: Operator) -> bool:
    return bool(op.setting("p"))


def _mask(op: Operator, shape: Any) -> Any:
    """The factors of dropout: computed again in the backward pass, and never stored."""
    if not _drops(op):
        return 1.0
    p = op.setting("p")
    return (np.random.default_rng(op.setting("seed")).random(shape) >= p) / (1 - p)


def _run(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    Q, K, V = _standard(op, op.reads, arrays)
    P, mask, lse = _weights(op, Q, K)
    found = [np.einsum("gujk,gke->guje", P * mask, V), lse[..., 0]]
    return [_back(op, t, x) for t, x in zip(op.writes, found, strict=False)]


def _run_back(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    dO, Q, K, V, O = _standard(op, op.reads[:5], arrays[:5])
    P, mask, _ = _weights(op, Q, K)
    D = np.sum(dO * O, axis=-1, keepdims=True)
    dP = np.einsum("guje,gke->gujk", dO, V) * mask
    dS = P * (dP - D) * op.setting("factor")
    found = (
        np.einsum("gujk,gkd->gujd", dS, K),
        np.einsum("gujk,gujd->gkd", dS, Q),
        np.einsum("gujk,guje->gke", P * mask, dO),
    )
    return [_back(op, t, x) for t, x in zip(op.writes, found, strict=True)]


def _products(op: Operator) -> int:
    """Of the pairs that are seen: two contractions."""
    p = attention_of(op)
    return _pairs(op) * 2 * (p.d + p.values)


def _flop(op: Operator) -> int:
    """With a scale, a softmax and a mask of dropout, of those pairs."""
    return _products(op) + _pairs(op) * (1 + 4 + _drops(op))


def _products_back(op: Operator) -> int:
    """Of the pairs that are seen: five contractions."""
    p = attention_of(op)
    return p.pairs * 2 * (3 * p.d + 2 * p.values)


def _flop_back(op: Operator) -> int:
    """With the weights again, the scores' gradient, and a mask of dropout twice; and D."""
    p = attention_of(op)
    each = 3 + 3 + 2 * _drops(op)
    return _products_back(op) + p.pairs * each + 2 * p.heads * p.N * p.values


def _gradient(op: Operator, grads: Grads) -> list[Operator]:
    dO = grads.of(op.writes[0])
    if dO is None:
        return []
    _refuse_gradients(op)
    return [
        Operator(
            f"{op.name} dX",
            _kind("attention_back"),
            (dO, *op.reads, *op.writes),
            tuple(map(grads.to, op.reads)),
            op.over,
            op.settings,
        )
    ]


_SETTINGS = {
    "factor": 1.0,
    "causal": False,
    "window": None,
    "blocks": None,
    "p": 0.0,
    "seed": 1,
}

ATTENTION = Kind(
    "attention",
    "dropout(softmax(factor · QKᵀ)) V, and log Σ exp of rows; along (rows, columns)",
    "contraction",
    _run,
    reads=3,
    writes=2,
    kept=1,
    over=2,
    check=_check_forward,
    gradient=_gradient,
    flop=_flop,
    products=_products,
    settings=_SETTINGS,
    problem=lambda op: [(1, _problem(op))],
)
ATTENTION_BACK = Kind(
    "attention_back",
    "gradients of attention, with the weights computed again",
    "contraction",
    _run_back,
    reads=6,
    writes=3,
    over=2,
    check=_check_back,
    flop=_flop_back,
    products=_products_back,
    settings=_SETTINGS,
    inputs=_back_inputs,
    problem=lambda op: [(1, AttentionBackward.from_forward(attention_of(op)))],
)

KINDS = (ATTENTION, ATTENTION_BACK)
