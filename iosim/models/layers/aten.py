"""Operators of PyTorch's ATen as operators of a graph: one function each, in `LOWERED`.

Each gets the translation and a node, and gives a `Value`, or several.

`torch_export` calls `LOWERED`.  A new operator is a function here, or in `aten_rows`; what has none
becomes an opaque operator.  ``tests/models/test_torch_export.py`` compares what modules compute
with PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iosim.base.errors import InputError
from iosim.models.layers.aten_rows import (
    Lowering,
    arguments,
    attention,
    embedding,
    loss,
    norm,
    reduced,
    softmax,
)
from iosim.models.layers.lowering import Value, sizes

if TYPE_CHECKING:
    from iosim.models.layers.torch_export import Translation


def _mapped(t: Translation, node: Any, kind: str, xs: list[Any], **settings: Any) -> Value:
    """An operator that takes each word by itself."""
    shape, strides, dtype = t.meta(node)
    values = [t.value(x) for x in xs]
    return t.writer.mapped(kind, values, shape, strides, dtype, **settings)


def _of_words(kind: str, reads: int = 1) -> Lowering:
    """An operator of ATen that is one of a kind, of its first arguments."""
    return lambda t, node: _mapped(t, node, kind, list(node.args[:reads]))


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _one_number(t: Translation, x: Any) -> Any:
    """A number, where an argument is one, or a fixed tensor of one word."""
    if _is_number(x):
        return x
    found: Any = t.fixed.get(x) if not isinstance(x, list) else None
    return float(found) if hasattr(found, "numel") and found.numel() == 1 else None


def _sum(t: Translation, node: Any, sign: int = 1) -> Value:
    x, y, alpha = arguments(node, "self", "other", alpha=1)
    if (number := _one_number(t, y)) is not None:
        return _mapped(t, node, "shift", [x], value=sign * alpha * number)
    if (number := _one_number(t, x)) is not None and sign > 0:
        return _mapped(t, node, "shift", [y], value=number)
    if alpha != 1:
        raise InputError("alpha other than 1 is not known: multiply by it before")
    return _mapped(t, node, "add" if sign > 0 else "subtract", [x, y])


def _rsub(t: Translation, node: Any) -> Value:
    x, y, alpha = arguments(node, "self", "other", alpha=1)
    if alpha != 1:
        raise InputError("alpha other than 1 is not known: multiply by it before")
    if (number := _one_number(t, y)) is None:
        return _mapped(t, node, "subtract", [y, x])
    shape, strides, dtype = t.meta(node)
    minus = t.writer.mapped("negative", [t.value(x)], shape, strides, dtype)
    return t.writer.mapped("shift", [minus], shape, strides, dtype, value=number)


def _product(t: Translation, node: Any) -> Value:
    x, y = node.args[:2]
    for a, b in ((x, y), (y, x)):
        if (number := _one_number(t, b)) is not None:
            return _mapped(t, node, "scale", [a], factor=number)
    return _mapped(t, node, "multiply", [x, y])


def _quotient(t: Translation, node: Any) -> Value:
    x, y = node.args[:2]
    if node.kwargs.get("rounding_mode"):
        raise InputError("a rounded division is not known")
    if (number := _one_number(t, y)) is not None:
        return _mapped(t, node, "scale", [x], factor=1 / number)
    return _mapped(t, node, "divide", [x, y])


def _power(t: Translation, node: Any) -> Value:
    x, y = node.args[:2]
    if not _is_number(y):
        raise InputError("only a power by a number is known")
    return _mapped(t, node, "power", [x], exponent=y)


def _gelu(t: Translation, node: Any) -> Value:
    x, how = arguments(node, "self", approximate="none")
    return _mapped(t, node, "gelu" if how == "none" else "gelu_tanh", [x])


def _masked(t: Translation, node: Any) -> Value:
    x, mask, value = node.args[:3]
    number = _one_number(t, value)
    if number is None:
        raise InputError("only a number is known as what fills a mask")
    return _mapped(t, node, "masked", [x, mask], value=number)


def _where(t: Translation, node: Any) -> Value:
    mask, x, y = node.args[:3]
    if (number := _one_number(t, x)) is not None:
        return _mapped(t, node, "masked", [y, mask], value=number)
    if (number := _one_number(t, y)) is not None:
        return _mapped(t, node, "seen", [x, mask], value=number)
    return _mapped(t, node, "where", [mask, x, y])


def _cast(t: Translation, node: Any) -> Value:
    x = t.value(node.args[0])
    _, strides, dtype = t.meta(node)
    if dtype == x.tensor.dtype or (x.tensor.dtype or t.own) == (dtype or t.own):
        return _same_or_copied(t, x, node)
    return t.writer.mapped("cast", [x], t.meta(node)[0], strides, dtype)


# Views, and copies.


def _same_or_copied(t: Translation, x: Value, node: Any) -> Value:
    """The tensor itself, unless memory has it in another order afterwards."""
    shape, strides, _ = t.meta(node)
    before = node.args[0].meta["val"].stride()
    real = [k for k, n in enumerate(shape) if n > 1]
    if [before[k] for k in real] == [strides[k] for k in real] and not x.repeated:
        return x
    return t.writer.copied(x, strides)


def _clone(t: Translation, node: Any) -> Value:
    return _same_or_copied(t, t.value(node.args[0]), node)


def _pass_through(t: Translation, node: Any) -> Value:
    return t.value(node.args[0])


def _dropout(t: Translation, node: Any) -> Any:
    x, p, train = arguments(node, "input", p=0.5, train=False)
    if not train or not p:
        return t.value(x)
    return _dropped(t, x, p, node)[0]


def _native_dropout(t: Translation, node: Any) -> Any:
    x, p, train = arguments(node, "input", p=0.5, train=True)
    if train is False or not p:
        return [t.value(x), None]
    return _dropped(t, x, p, node.args[0])


def _dropped(t: Translation, x: Any, p: float, like: Any) -> list[Value]:
    """What is left, and the mask, in the shape of what a node gives."""
    names, reads = t.writer.spread([t.value(x)], t.meta(like)[0])
    made = [t.result(like, names, what) for what in ("dropped", "mask")]
    t.writer.write("dropout", reads, [y.tensor for y in made], p=float(p))
    return made


def _view(t: Translation, node: Any) -> Value:
    shape, strides, _ = t.meta(node)
    x = t.value(node.args[0])
    before = node.args[0].meta["val"]
    try:
        before.view(shape)
    except (RuntimeError, ValueError):  # as a reshape, it copies
        x = t.writer.copied(x, None)
    return t.writer.reshaped(x, shape, strides)


def _permuted(t: Translation, node: Any, order: list[int]) -> Value:
    x = t.value(node.args[0])
    return Value(x.tensor, tuple(x.shape[k] for k in order), tuple(x.dims[k] for k in order))


def _transpose(t: Translation, node: Any) -> Value:
    rank = len(node.meta["val"].shape)
    _, a, b = (*node.args, 0, 1)[:3] if len(node.args) > 1 else (None, 0, rank - 1)
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    return _permuted(t, node, order)


def _permute(t: Translation, node: Any) -> Value:
    rank = len(node.args[1])
    return _permuted(t, node, [k % rank for k in node.args[1]])


def _unsqueeze(t: Translation, node: Any) -> Value:
    x = t.value(node.args[0])
    k = node.args[1] % (len(x.shape) + 1)
    return Value(x.tensor, (*x.shape[:k], 1, *x.shape[k:]), (*x.dims[:k], None, *x.dims[k:]))


def _squeeze(t: Translation, node: Any) -> Value:
    x, shape = t.value(node.args[0]), t.meta(node)[0]
    if any(n == 1 and dim for n, dim in zip(x.shape, x.dims, strict=True)):
        x = t.writer.flat(x)
    return x.over(shape)


def _expand(t: Translation, node: Any) -> Value:
    x, shape = t.value(node.args[0]), t.meta(node)[0]
    x = x.lifted(len(shape))
    kept = (d if n == m else None for d, n, m in zip(x.dims, shape, x.shape, strict=True))
    return Value(x.tensor, shape, tuple(kept))


def _part(t: Translation, node: Any, k: int, start: int, stop: int, step: int = 1) -> Value:
    """Some positions along a dimension."""
    x = t.value(node.args[0])
    length = x.shape[k]
    places = range(length)[start:stop:step]
    if len(places) == length:
        return x
    if not len(places):
        raise InputError("a slice without words is not known")
    shape = (*x.shape[:k], len(places), *x.shape[k + 1 :])
    if x.dims[k] is None:  # the same words along all of it
        return Value(x.tensor, shape, x.dims)
    part = [(0, n, 1) for n in x.shape]
    part[k] = (places.start, places[-1] + 1, step)
    return t.writer.reshaped(x, shape, node.args[0].meta["val"].stride(), part)


def _slice(t: Translation, node: Any) -> Value:
    x, k, start, stop, step = arguments(node, "self", dim=0, start=None, end=None, step=1)
    return _part(t, node, t.value(x).dim(k), start or 0, 2**62 if stop is None else stop, step)


def _select(t: Translation, node: Any) -> Value:
    x, k, at = node.args
    k = t.value(x).dim(k)
    at %= t.value(x).shape[k]
    return _without(_part(t, node, k, at, at + 1), k)


def _split(t: Translation, node: Any) -> list[Value]:
    x, size, k = arguments(node, "self", "size", dim=0)
    k = t.value(x).dim(k)
    if isinstance(size, int):
        size = [size] * -(-t.value(x).shape[k] // size)
    return _pieces(t, node, k, size)


def _chunk(t: Translation, node: Any) -> list[Value]:
    x, parts, k = arguments(node, "self", "chunks", dim=0)
    k = t.value(x).dim(k)
    n = t.value(x).shape[k]
    size = -(-n // parts)
    return _pieces(t, node, k, [size] * -(-n // size))


def _pieces(t: Translation, node: Any, k: int, lengths: list[int]) -> list[Value]:
    starts = [sum(lengths[:j]) for j in range(len(lengths))]
    return [_part(t, node, k, s, s + n) for s, n in zip(starts, lengths, strict=True)]


def _unbind(t: Translation, node: Any) -> list[Value]:
    x, k = arguments(node, "self", dim=0)
    k = t.value(x).dim(k)
    pieces = _pieces(t, node, k, [1] * t.value(x).shape[k])
    return [_without(p, k) for p in pieces]


def _without(x: Value, k: int) -> Value:
    """A value without a dimension that has one position."""
    return Value(x.tensor, (*x.shape[:k], *x.shape[k + 1 :]), (*x.dims[:k], *x.dims[k + 1 :]))


def opaque(t: Translation, node: Any) -> Any:
    """An operator without a translation: it reads and writes its tensors once."""
    reads = [t.writer.solid(t.value(x)) for x in node.all_input_nodes if x in t.values]
    val = node.meta["val"]
    several = isinstance(val, list | tuple)
    made = []
    for one in val if several else [val]:
        if not hasattr(one, "stride"):
            raise InputError("it gives something else than tensors: leave it out of the module")
        shape, strides, dtype = sizes(one.shape), tuple(one.stride()), t.dtype_of(one)
        made.append(t.writer.new(t.writer.result(), shape, strides=strides, dtype=dtype))
    operands = [x.operand([t.writer.axis() if dim else None for dim in x.dims]) for x in reads]
    t.writer.write("opaque", operands, [y.tensor for y in made], of=str(node.target))
    return made if several else made[0]


def _getitem(t: Translation, node: Any) -> Value:
    found: Value = t.values[node.args[0]][node.args[1]]
    return found


def _cat(t: Translation, node: Any) -> Value:
    xs, k = arguments(node, "tensors", dim=0)
    values = [t.writer.along(t.writer.solid(t.value(x)), k) for x in xs]
    k = values[0].dim(k)
    shape = t.meta(node)[0]
    names = [t.writer.axis() if n > 1 or j == k else None for j, n in enumerate(shape)]
    y = t.result(node, names)
    reads = [
        v.operand([t.writer.axis() if j == k else x for j, x in enumerate(names)]) for v in values
    ]
    t.writer.write("concatenate", reads, [y.tensor], str(names[k]))
    return y


# Products.


def _linear(t: Translation, node: Any) -> Value:
    x, weight, bias = arguments(node, "input", "weight", bias=None)
    shape, strides, _ = t.meta(node)
    w = t.value(weight)
    turned = Value(w.tensor, w.shape[::-1], w.dims[::-1])
    y = t.writer.matmul(t.value(x), turned, shape, strides)
    return y if bias is None else _biased(t, y, bias, shape, strides)


def _biased(t: Translation, y: Value, bias: Any, shape: Any, strides: Any) -> Value:
    return t.writer.mapped("bias", [y, t.value(bias)], shape, strides)


def _matmul(t: Translation, node: Any) -> Value:
    shape, strides, _ = t.meta(node)
    return t.writer.matmul(t.value(node.args[0]), t.value(node.args[1]), shape, strides)


def _addmm(t: Translation, node: Any) -> Value:
    bias, a, b, beta, alpha = arguments(node, "self", "a", "b", beta=1, alpha=1)
    shape, strides, dtype = t.meta(node)
    y = t.writer.matmul(t.value(a), t.value(b), shape, strides)
    if alpha != 1:
        y = t.writer.mapped("scale", [y], shape, strides, dtype, factor=alpha)
    if beta == 0:
        return y
    if beta != 1:
        raise InputError("beta other than 0 and 1 is not known")
    return _biased(t, y, bias, shape, strides)


def _einsum(t: Translation, node: Any) -> Value:
    equation, tensors = node.args[:2]
    equation = equation.replace(" ", "")
    if len(tensors) != 2 or "->" not in equation or "." in equation:
        raise InputError("only an einsum of two tensors with its result named is known")
    reads, written = equation.split("->")
    shape, strides, _ = t.meta(node)
    names = {x: t.writer.axis() for x in reads if x.isalpha()}
    values = [t.writer.solid(t.value(x)) for x in tensors]
    size = {
        x: n
        for text, v in zip(reads.split(","), values, strict=True)
        for x, n in zip(text, v.shape, strict=True)
    }
    if len(set(written)) < len(written) or any(len(set(x)) < len(x) for x in reads.split(",")):
        raise InputError("an einsum with a letter twice in a tensor is not known")

    def name_axes(text: str) -> list[str | None]:
        return [names[x] if size[x] > 1 else None for x in text]

    first, second = reads.split(",")
    return t.writer.product(
        values[0],
        name_axes(first),
        values[1],
        name_axes(second),
        name_axes(written),
        shape,
        strides,
    )


# Functions of one number that the graph calls as PyTorch does.
_FUNCTIONS = (
    "relu",
    "silu",
    "sigmoid",
    "tanh",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "erf",
    "logical_not",
)

LOWERED: dict[str, Lowering] = {
    "aten.add": _sum,
    "aten.sub": lambda t, node: _sum(t, node, -1),
    "aten.rsub": _rsub,
    "aten.mul": _product,
    "aten.div": _quotient,
    "aten.pow": _power,
    "aten.gelu": _gelu,
    "aten.masked_fill": _masked,
    "aten.where": _where,
    "aten.dropout": _dropout,
    "aten.native_dropout": _native_dropout,
    "aten.eq": _of_words("equal", 2),
    "aten.le": _of_words("less_equal", 2),
    "aten.neg": _of_words("negative"),
    "aten.bitwise_not": _of_words("logical_not"),
    **{f"aten.{x}": _of_words(x, 2) for x in ("maximum", "minimum", "logical_and")},
    **{f"aten.{x}": _of_words(x) for x in _FUNCTIONS},
    "aten.to": _cast,
    "aten._to_copy": _cast,
    "aten.type_as": _cast,
    "aten.clone": _clone,
    "aten.contiguous": _clone,
    "aten.alias": _pass_through,
    "aten.detach": _pass_through,
    "aten.detach_": _pass_through,
    "aten.lift_fresh_copy": _pass_through,
    **dict.fromkeys(
        ("aten.view", "aten._unsafe_view", "aten.reshape", "aten.flatten", "aten.unflatten"), _view
    ),
    "aten.transpose": _transpose,
    "aten.t": _transpose,
    "aten.numpy_T": _transpose,
    "aten.permute": _permute,
    "aten.unsqueeze": _unsqueeze,
    "aten.squeeze": _squeeze,
    "aten.expand": _expand,
    "aten.slice": _slice,
    "aten.select": _select,
    "aten.split": _split,
    "aten.split_with_sizes": _split,
    "aten.chunk": _chunk,
    "aten.unbind": _unbind,
    "getitem": _getitem,
    "aten.cat": _cat,
    "aten.linear": _linear,
    "aten.matmul": _matmul,
    "aten.mm": _matmul,
    "aten.bmm": _matmul,
    "aten.addmm": _addmm,
    "aten.baddbmm": _addmm,
    "aten.einsum": _einsum,
    "aten.scaled_dot_product_attention": attention,
    "aten.softmax": softmax,
    "aten._softmax": softmax,
    "aten.layer_norm": norm("layer_norm"),
    "aten.rms_norm": norm("rms_norm"),
    "aten.mean": reduced("mean"),
    "aten.sum": reduced("sum"),
    "aten.amax": reduced("max"),
    "aten.cross_entropy_loss": loss,
    "aten.embedding": embedding,
}
