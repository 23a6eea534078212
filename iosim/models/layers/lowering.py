"""Tensors as PyTorch sees them, over tensors of a graph: what views are, and how axes are named.

A `Value` is a tensor of the graph with a place for each dimension.  Dimensions of size 1 have no
axis, and neither have those along which words are repeated: so transposing, expanding, squeezing
and adding dimensions makes no operator.

`torch_export` and `aten` use it.  A new view gives a `Value` with other places, and makes no
operator.  ``tests/models/test_torch_export.py`` counts copies and compares with PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from iosim.base.errors import InputError
from iosim.models.layers.graph import Graph
from iosim.models.operators import Operand, Operator, operand, operator

Names = Sequence[str | None]


@dataclass(frozen=True)
class Value:
    """A tensor in the shape that PyTorch sees.

    Attributes:
        tensor: of the graph, its axes in the order of memory.
        shape: the sizes of the dimensions.
        dims: the axis of each dimension, or None if there is none.
    """

    tensor: Operand
    shape: tuple[int, ...]
    dims: tuple[str | None, ...]

    def operand(self, names: Names) -> Operand:
        """The tensor, its axes called as an operator calls these dimensions."""
        called = {dim: name for dim, name in zip(self.dims, names, strict=True) if dim}
        axes = tuple((str(called[a]), n) for a, n in self.tensor.axes)
        return Operand(self.tensor.name, axes, self.tensor.role, self.tensor.dtype)

    def lifted(self, rank: int) -> Value:
        """With this many dimensions, new ones of size 1 in front."""
        new = rank - len(self.shape)
        return Value(self.tensor, (1,) * new + self.shape, (None,) * new + self.dims)

    def over(self, shape: Sequence[int]) -> Value:
        """In a shape that has other dimensions of size 1, or none."""
        found = iter([dim for n, dim in zip(self.shape, self.dims, strict=True) if n > 1])
        dims = tuple(next(found) if n > 1 else None for n in shape)
        return Value(self.tensor, tuple(shape), dims)

    @property
    def repeated(self) -> bool:
        """Whether it has words several times."""
        return any(n > 1 and dim is None for n, dim in zip(self.shape, self.dims, strict=True))

    def dim(self, k: int) -> int:
        """A number of a dimension, counted from the front."""
        return k % max(len(self.shape), 1)


@dataclass
class Lowered:
    """A graph that is being written.

    Attributes:
        operators: so far.
        here: the name of what is being translated, for operators and messages.
    """

    operators: list[Operator] = field(default_factory=list)
    here: str = ""
    _axes: Any = field(default_factory=count)
    _named: dict[str, int] = field(default_factory=dict)

    def axis(self) -> str:
        """A new name of an axis: a … z, a1 …"""
        k = next(self._axes)
        return "abcdefghijklmnopqrstuvwxyz"[k % 26] + (str(k // 26) if k >= 26 else "")

    def name(self, base: str) -> str:
        """A name that nothing has yet."""
        n = self._named[base] = self._named.get(base, 0) + 1
        return base if n == 1 else self.name(f"{base} {n}")

    def new(
        self,
        name: str,
        shape: Sequence[int],
        names: Names | None = None,
        *,
        strides: Sequence[int] | None = None,
        role: str = "activation",
        dtype: str | None = None,
    ) -> Value:
        """A tensor of this shape; its axes in memory by falling strides."""
        names = [self.axis() if n > 1 else None for n in shape] if names is None else names
        every = range(len(shape))
        order = sorted(every, key=lambda k: -strides[k]) if strides else list(every)
        sizes = {str(names[k]): shape[k] for k in every if names[k]}
        axes = " ".join(str(names[k]) for k in order if names[k])
        tensor = operand(self.name(name), axes, sizes, role, dtype)
        return Value(tensor, tuple(shape), tuple(names))

    def write(
        self,
        kind: str,
        reads: Iterable[Operand],
        writes: Iterable[Operand],
        over: str = "",
        **settings: Any,
    ) -> None:
        """Another operator, called after what is being translated."""
        same = self.here.split(" ")[-1].rstrip("_0123456789") == kind
        name = self.name(self.here if same else f"{self.here} {kind}")
        self.operators.append(operator(name, kind, [*reads], [*writes], over, **settings))

    def result(self, kind: str = "") -> str:
        """The name of a tensor that comes of what is being translated."""
        return f"{self.here}:{kind}" if kind else f"{self.here}:out"

    # What PyTorch calls a view.

    def reshaped(
        self,
        x: Value,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        part: Sequence[tuple[int, int, int]] | None = None,
    ) -> Value:
        """The same words in another shape, or a part of them: a start, stop and step each."""
        x = self.solid(x)
        told = None
        if part is not None:
            told = tuple(p for p, dim in zip(part, x.dims, strict=True) if dim)
        elif [n for n in x.shape if n > 1] == [n for n in shape if n > 1]:
            return x.over(shape)
        y = self.new(
            self.result("view"), shape, strides=strides, role=x.tensor.role, dtype=x.tensor.dtype
        )
        return self._viewed(x, y, part=told)

    def _viewed(self, x: Value, y: Value, **settings: Any) -> Value:
        """The second value, made as a view of the first."""
        order = [self.axis() if dim else None for dim in x.dims]
        axes = {"order": " ".join(filter(None, order)), "into": " ".join(filter(None, y.dims))}
        self.write("view", [x.operand(order)], [y.tensor], **settings, **axes)
        return y

    def solid(self, x: Value) -> Value:
        """The value with an axis for each dimension: words that are repeated are written so."""
        if not x.repeated:
            return x
        names = [
            dim or (self.axis() if n > 1 else None) for n, dim in zip(x.shape, x.dims, strict=True)
        ]
        y = self.new(self.result("repeated"), x.shape, names, dtype=x.tensor.dtype)
        self.write("repeat", [x.operand(names)], [y.tensor])
        return y

    def along(self, x: Value, k: int) -> Value:
        """The value with an axis for a dimension of size 1, which an operator works along."""
        k = x.dim(k)
        if x.dims[k] is not None:
            return x
        if x.shape[k] > 1:
            return self.along(self.solid(x), k)
        names: list[str | None] = [self.axis() if dim else None for dim in x.dims]
        old = x.operand(names)
        names[k] = self.axis()
        axes = (*old.axes, (str(names[k]), 1))
        y = Operand(self.name(self.result("view")), axes, x.tensor.role, x.tensor.dtype)
        order = " ".join(a for a, _ in old.axes)
        self.write("view", [old], [y], order=order, into=" ".join(a for a, _ in axes))
        return Value(y, x.shape, tuple(names))

    def copied(self, x: Value, strides: Sequence[int] | None) -> Value:
        """The same words in another place."""
        x = self.solid(x)
        y = self.new(self.result("copy"), x.shape, x.dims, strides=strides, dtype=x.tensor.dtype)
        self.write("copy", [x.operand(x.dims)], [y.tensor])
        return y

    # What computes.

    def spread(self, values: Sequence[Value], shape: Sequence[int]) -> tuple[Names, list[Operand]]:
        """Names of the axes of a result that values are broadcast to, and the operands."""
        values = [v.lifted(len(shape)) for v in values]
        for k, n in enumerate(shape):
            if n > 1 and not any(v.dims[k] for v in values):
                first = values[0]
                grown = (*first.shape[:k], n, *first.shape[k + 1 :])
                values[0] = self.solid(Value(first.tensor, grown, first.dims))
        names: list[str | None] = []
        for k, n in enumerate(shape):
            known = [v.dims[k] for v in values if v.dims[k] and v.dims[k] not in names]
            names.append((known[0] if known else self.axis()) if n > 1 else None)
        for k, v in enumerate(values):
            # An axis of size 1 that an operator asked for is none here.
            if any(dim and not name for dim, name in zip(v.dims, names, strict=True)):
                values[k] = self.flat(v)
        return names, [v.operand(names) for v in values]

    def flat(self, x: Value) -> Value:
        """The value without axes of size 1."""
        y = self.new(self.result("view"), x.shape, dtype=x.tensor.dtype, role=x.tensor.role)
        return self._viewed(x, y)

    def mapped(
        self,
        kind: str,
        values: Sequence[Value],
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        dtype: str | None = None,
        **settings: Any,
    ) -> Value:
        """An operator that takes each word by itself."""
        names, reads = self.spread(values, shape)
        y = self.new(self.result(), shape, names, strides=strides, dtype=dtype)
        self.write(kind, reads, [y.tensor], **settings)
        return y

    def product(
        self,
        a: Value,
        a_names: Names,
        b: Value,
        b_names: Names,
        names: Names,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """A contraction, by the names of its axes."""
        y = self.new(self.result("product"), shape, names, strides=strides)
        self.write("contraction", [a.operand(a_names), b.operand(b_names)], [y.tensor])
        return y

    def matmul(
        self, a: Value, b: Value, shape: Sequence[int], strides: Sequence[int] | None = None
    ) -> Value:
        """``a @ b`` as NumPy and PyTorch have it."""
        if len(a.shape) == 1:
            a = Value(a.tensor, (1, *a.shape), (None, *a.dims))
            inside = (*shape[:-1], 1, shape[-1]) if len(b.shape) > 1 else (1,)
            y = self.matmul(a, b, inside)
            return self.reshaped(y, shape)
        if len(b.shape) == 1:
            b = Value(b.tensor, (*b.shape, 1), (*b.dims, None))
            return self.reshaped(self.matmul(a, b, (*shape, 1)), shape)
        a, b = (self.solid(x).lifted(len(shape)) for x in (a, b))
        names = [self.axis() if n > 1 else None for n in shape]
        k = self.axis()
        a_names = [*names[:-1], k]
        b_names = [*names[:-2], k, names[-1]]
        return self.product(a, a_names, b, b_names, names, shape, strides)

    def graph(self, name: str, keeps: Iterable[str], dtype: str) -> Graph:
        """What was written."""
        if not self.operators:
            raise InputError(f"{name} computes nothing: there is no operator in it")
        return Graph(name, tuple(self.operators), frozenset(keeps), dtype)


def sizes(shape: Iterable[Any]) -> tuple[int, ...]:
    """A shape of plain numbers; InputError where one is not known."""
    found = tuple(shape)
    if any(not isinstance(n, int) for n in found):
        raise InputError(f"a shape {found} is not fixed: export without dynamic shapes")
    if math.prod(found) == 0:
        raise InputError(f"a tensor has the shape {found}, without words: give larger inputs")
    return found
