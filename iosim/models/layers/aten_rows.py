"""Attention, normalizations, sums and look-ups of ATen, for `iosim.models.layers.aten`.

``tests/models/test_torch_export.py`` compares what they compute with PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from iosim.base.errors import InputError
from iosim.base.rows import Row
from iosim.models.layers.lowering import Lowered, Value
from iosim.models.operators import Operand

if TYPE_CHECKING:
    from iosim.models.layers.torch_export import Translation

Lowering = Callable[[Any, Any], Any]


def arguments(node: Any, *names: str, **defaults: Any) -> list[Any]:
    """Of a node, by position or name."""
    told = dict(zip((*names, *defaults), node.args, strict=False)) | node.kwargs
    return [told.get(x, defaults.get(x)) for x in (*names, *defaults)]


def attention(t: Translation, node: Any) -> Value:
    """Attention as one operator, or with a mask of its own in pieces."""
    q, k, v, mask, p, causal, scale, grouped = arguments(
        node,
        "query",
        "key",
        "value",
        attn_mask=None,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        enable_gqa=False,
    )
    w = t.writer
    shape, strides, dtype = t.meta(node)
    Q, K, V = (w.solid(t.value(x)) for x in (q, k, v))
    *batch, rows, d = Q.shape
    columns, values = K.shape[-2], V.shape[-1]
    factor = d**-0.5 if scale is None else float(scale)
    if causal and rows != columns:
        raise InputError(
            f"is_causal hides by the upper left of {rows} rows and {columns} columns: "
            "give attn_mask, or as many rows as columns"
        )
    share = None
    if grouped and batch[-1] != K.shape[-3]:
        groups, share = K.shape[-3], batch[-1] // K.shape[-3]
        split = (*batch[:-1], groups, share, rows, d)
        Q = w.reshaped(Q, split, _split_strides(node.args[0].meta["val"], share))
        names = [w.axis() if n > 1 else None for n in split[:-2]]
        of_keys = names[:-1]
    else:
        names = [w.axis() if n > 1 else None for n in batch]
        of_keys = names
    Q, K, V = (w.along(w.along(x, -1), -2) for x in (Q, K, V))
    j, c, dd, e = (w.axis() for _ in range(4))

    reads = [
        Q.operand([*names, j, dd]),
        _named(K, [*of_keys, c, dd]),
        _named(V, [*of_keys, c, e]),
    ]
    if mask is None:
        o_shape = (*Q.shape[:-1], values)
        o_strides = strides if share is None else _split_strides(node.meta["val"], share)
        y = w.new(w.result(), o_shape, [*names, j, e], strides=o_strides, dtype=dtype)
        settings: Row = {"causal": True} if causal else {}
        settings |= {"p": float(p)} if p else {}
        w.write("attention", reads, [y.tensor], f"{j} {c}", factor=factor, **settings)
    else:
        axes = [*names, j], of_keys, c, dd, e
        y = _in_pieces(t, (Q, K, V), mask, axes, share=share, factor=factor, p=p)
    return w.reshaped(y, shape, strides)


def _split_strides(val: Any, share: int) -> tuple[int, ...]:
    """With the heads split into groups and what shares them."""
    s = tuple(val.stride())
    return (*s[:-3], s[-3] * share, *s[-3:])


def _named(x: Value, names: list[str | None]) -> Operand:
    """The operand; dimensions of size 1 have no name, but those that attention works along."""
    return x.operand([n if dim else None for n, dim in zip(names, x.dims, strict=True)])


def _masks_of_groups(w: Lowered, m: Value, share: int | None) -> Value:
    """A mask whose heads, if it has any, are split into groups and what shares them."""
    if share is None or len(m.shape) < 3:
        return m
    k = len(m.shape) - 3
    if m.shape[k] > 1:
        return w.reshaped(m, (*m.shape[:k], m.shape[k] // share, share, *m.shape[-2:]))
    return Value(m.tensor, (*m.shape[:-2], 1, *m.shape[-2:]), (*m.dims[:-2], None, *m.dims[-2:]))


def _in_pieces(
    t: Translation,
    values: tuple[Value, ...],
    mask: Any,
    axes: tuple[Any, ...],
    *,
    share: int | None,
    factor: float,
    p: float,
) -> Value:
    """Attention with a mask of its own: products, a scale, the mask, a softmax."""
    w, (Q, K, V) = t.writer, values
    rows, of_keys, c, dd, e = axes
    s = w.new(w.result("scores"), (*Q.shape[:-1], K.shape[-2]), [*rows, c])
    reads = [_named(Q, [*rows, dd]), _named(K, [*of_keys, c, dd])]
    w.write("contraction", reads, [s.tensor])

    def write(kind: str, name: str, *operands: Operand, over: str = "", **settings: Any) -> Operand:
        found = s.tensor.renamed(w.name(w.result(name)))
        w.write(kind, operands, [found], over, **settings)
        return found

    scaled = write("scale", "scaled", s.tensor, factor=factor)
    m = _masks_of_groups(w, t.value(mask), share)
    named = _named(m.lifted(len(s.shape)), [*rows, c])
    if m.tensor.dtype == "bool":
        hidden = write("seen", "masked", scaled, named, value=-math.inf)
    else:
        hidden = write("add", "masked", scaled, named)
    weights = write("softmax", "weights", hidden, over=c)
    if p:
        dropped, kept = (s.tensor.renamed(w.name(w.result(x))) for x in ("dropped", "kept"))
        w.write("dropout", [weights], [dropped, kept], p=float(p))
        weights = dropped
    y = w.new(w.result("attended"), (*Q.shape[:-1], V.shape[-1]), [*rows, e])
    w.write("contraction", [weights, _named(V, [*of_keys, c, e])], [y.tensor])
    return y


# Normalizations, and sums.


def softmax(t: Translation, node: Any) -> Value:
    """Along one dimension."""
    x = t.writer.along(t.writer.solid(t.value(node.args[0])), node.args[1])
    y = t.result(node, x.dims)
    t.writer.write("softmax", [x.operand(x.dims)], [y.tensor], str(x.dims[x.dim(node.args[1])]))
    return y


def norm(kind: str) -> Lowering:
    """A layer norm or an RMS norm along the last dimension."""

    def lowered(t: Translation, node: Any) -> Value:
        if kind == "layer_norm":
            x, shape, *weights, epsilon = arguments(
                node, "input", "shape", weight=None, bias=None, eps=1e-5
            )
        else:
            x, shape, *weights, epsilon = arguments(node, "input", "shape", weight=None, eps=None)
        if len(shape) != 1 or any(x is None for x in weights):
            raise InputError("only a norm along the last dimension, with its weights, is known")
        if epsilon is None:
            epsilon = t.torch.finfo(node.meta["val"].dtype).eps
        w = t.writer
        value = w.along(w.solid(t.value(x)), -1)
        along = str(value.dims[-1])
        y = t.result(node, value.dims)
        gains = [w.along(t.value(g), -1).operand([along]) for g in weights]
        reads = [value.operand(value.dims), *gains]
        w.write(kind, reads, [y.tensor], along, epsilon=epsilon)
        return y

    return lowered


def reduced(kind: str) -> Lowering:
    """A sum, a mean or a maximum over dimensions."""

    def lowered(t: Translation, node: Any) -> Value:
        x, over = arguments(node, "self", dim=None)
        w, (shape, _, dtype) = t.writer, t.meta(node)
        value = w.solid(t.value(x))
        rank = len(value.shape)
        over = range(rank) if not over and over != 0 else [over] if isinstance(over, int) else over
        gone = {k % rank for k in over}
        kept = [
            (n, d)
            for k, (n, d) in enumerate(zip(value.shape, value.dims, strict=True))
            if k not in gone
        ]
        along = " ".join(d for k, d in enumerate(value.dims) if k in gone and d)
        if not along:
            return w.reshaped(value, shape)
        y = w.new(w.result(), [n for n, _ in kept], [d for _, d in kept], dtype=dtype)
        w.write(kind, [value.operand(value.dims)], [y.tensor], along)
        return y.over(shape)

    return lowered


def loss(t: Translation, node: Any) -> Value:
    """Cross entropy of (tokens, classes), and its mean or sum."""
    x, labels, weight, reduction, _, smoothing = arguments(
        node, "input", "target", weight=None, reduction=1, ignore=-100, smoothing=0.0
    )
    if weight is not None or smoothing or reduction not in (0, 1, 2):
        raise InputError("a loss with weights or smoothing is not known")
    w = t.writer
    value, ids = w.along(w.solid(t.value(x)), -1), t.value(labels)
    if len(value.shape) > 2:
        raise InputError("only a loss of (tokens, classes) is known: reshape before")
    rows = value.dims[:-1]
    y = w.new(w.result("losses"), value.shape[:-1], rows)
    w.write(
        "cross_entropy",
        [value.operand(value.dims), ids.operand(rows)],
        [y.tensor],
        str(value.dims[-1]),
    )
    if reduction == 0 or not y.tensor.axes:
        return Value(y.tensor, t.meta(node)[0], y.dims if reduction == 0 else ())
    one = w.new(w.result(), ())
    w.write("mean" if reduction == 1 else "sum", [y.tensor], [one.tensor], str(rows[0]))
    return one


def embedding(t: Translation, node: Any) -> Value:
    """Rows of a table."""
    w = t.writer
    table, ids = w.along(w.along(t.value(node.args[0]), -1), -2), w.solid(t.value(node.args[1]))
    if ids.tensor.names != tuple(d for d in ids.dims if d):
        ids = w.copied(ids, None)
    shape = (*ids.shape, table.shape[-1])
    names = [*ids.dims, w.axis()]
    y = w.new(w.result(), shape, names, dtype=t.meta(node)[2])
    w.write("embedding", [ids.tensor, table.operand([w.axis(), names[-1]])], [y.tensor])
    return y
