"""Operators as values: named tensors in, named tensors out, and a kind that says what happens.

>>> from iosim.models.operators import operand, operator
>>> sizes = {"b": 8, "j": 512, "i": 1024, "u": 4096}
>>> x, w = operand("X", "b j i", sizes), operand("W", "i u", sizes, role="weight")
>>> linear = operator("linear", "contraction", [x, w], [operand("Y", "b j u", sizes)])
>>> linear.flop, linear.words_in, linear.words_out
(34359738368, 8388608, 16777216)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError, closest
from iosim.base.rows import Values
from iosim.base.validate import check_size
from iosim.core.problem import Attentions, BlockSparse, MatMul
from iosim.models.operators.flop import Outline, Shape, Tally

Class = Literal["contraction", "normalisation", "elementwise", "communication"]
# How often each problem is solved, on average.
Solved = MatMul | Attentions | BlockSparse
Problems = Sequence[tuple[int | Fraction, Solved]]
ROLES = ("activation", "input", "weight", "gradient", "state", "cache")


@dataclass(frozen=True)
class Operand:
    """A tensor of a graph.

    Attributes:
        name: one name, one tensor.
        axes: the name and the size of each axis, the slowest first.
        role: what it is for: one of `ROLES`.
        dtype: of a word, where it isn't the graph's own.

    >>> x = Operand("X", (("t", 6), ("i", 2)))
    >>> x.names, x.shape, x.words
    (('t', 'i'), (6, 2), 12)
    """

    name: str
    axes: tuple[tuple[str, int], ...]
    role: str = "activation"
    dtype: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the axes."""
        return tuple(name for name, _ in self.axes)

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""
        return tuple(size for _, size in self.axes)

    @property
    def words(self) -> int:
        """All its words."""
        return math.prod(self.shape)

    def renamed(self, name: str, role: str | None = None, dtype: str | None = None) -> Operand:
        """A tensor of the same axes."""
        return Operand(name, self.axes, role or self.role, dtype or self.dtype)


def operand(
    name: str,
    axes: str,
    sizes: Mapping[str, int],
    role: str = "activation",
    dtype: str | None = None,
) -> Operand:
    """A tensor whose axes are named in one string, slowest first.

    Raises InputError for an axis without a size, a size that is not an integer from 1 to 2**40, an
    axis named twice, and an unknown role or dtype.

    >>> operand("X", "b j", {"b": 8, "j": 512}).words
    4096
    """
    found: list[tuple[str, int]] = []
    for axis in axes.split():
        if axis not in sizes:
            raise InputError(f"tensor {name}: axis {axis!r} has no size: give one of {axis}=…")
        size = check_size(f"tensor {name}: the size of axis {axis!r}", sizes[axis])
        if axis in (a for a, _ in found):
            raise InputError(f"tensor {name} has axis {axis!r} twice: name each axis once")
        found.append((axis, size))
    if role not in ROLES:
        raise InputError(f"tensor {name}: unknown role {role!r}: {closest(role, ROLES)}")
    if dtype is not None:
        word_bytes(dtype)
    return Operand(name, tuple(found), role, dtype)


@dataclass(frozen=True)
class Kind:
    """What operators of one kind have in common: one record each, in `OPERATORS`.

    Attributes:
        name: the registry's key.
        says: what it computes.
        klass: its class, as Ivanov et al. have them (arXiv 2007.00072, Section III); what moves
            words between devices is a class of its own.
        run: its outputs, from the operator and arrays of its inputs; NumPy alone, so that flop are
            counted by running it.
        reads, writes: how many tensors it reads and writes; None for any number.
        kept: how many of those that it writes, the last ones, only a backward pass needs: an
            operator may be without them.
        over: how many axes it works along: 0, 1, or None for any number.
        check: raises InputError where shapes don't meet; None where any that align are right.
        gradient: operators that give the gradients of its inputs; None where it has none.
        flop: counts them another way; None where `run` is what is counted.
        products: of its flop those of matrix products; None where they are all of them in a
            contraction, and none in other classes.
        touched: words of its tensors that it reads or writes, by name, where that is not all.
        problem: problems that it solves, and how often each, where schedules solve them: the first
            tensors that it reads and writes are theirs.  None where it is a stream.
        inputs: the tensors that it reads, in the order of the problem; None where it reads them so.
        again: whether a row that doesn't fit in fast memory is read twice: for a statistic of it,
            and for its use.
        apart: whether a word of an output depends on one word of each input only, although it works
            along axes: a mask knows positions, and needs no whole row.
        settings: the names of its settings, with their defaults; a default of None must be given.

    >>> from iosim.models.operators import OPERATORS
    >>> gelu = OPERATORS["gelu"]
    >>> gelu.says, gelu.klass, gelu.reads, gelu.writes
    ('x Φ(x), with the error function', 'elementwise', 1, 1)
    """

    name: str
    says: str
    klass: Class
    run: Callable[[Operator, Sequence[Any]], Sequence[Any]]
    reads: int | None = 1
    writes: int | None = 1
    kept: int = 0
    over: int | None = 0
    check: Callable[[Operator], None] | None = None
    gradient: Callable[[Operator, Grads], list[Operator]] | None = None
    flop: Callable[[Operator], int] | None = None
    products: Callable[[Operator], int] | None = None
    touched: Callable[[Operator], Mapping[str, int]] | None = None
    problem: Callable[[Operator], Problems] | None = None
    inputs: Callable[[Operator], Sequence[Operand]] | None = None
    again: bool = False
    apart: bool = False
    settings: Values = field(default_factory=dict)


@dataclass(frozen=True)
class Operator:
    """One operator of a graph.

    Attributes:
        name: one name, one operator.
        kind: its kind.
        reads, writes: its tensors, in the order of its kind.
        over: the axes that it works along: those that a normalization reduces.
        settings: values of its kind's settings, by name, sorted.

    >>> from iosim.models.operators import operand, operator
    >>> x, y = (operand(name, "t u", {"t": 3, "u": 4}) for name in "XY")
    >>> one = operator("a", "gelu", [x], [y])
    >>> one.kind.name, one.flop, one.words_in, one.words_out
    ('gelu', 60, 12, 12)
    """

    name: str
    kind: Kind = field(repr=False)
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    over: tuple[str, ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def klass(self) -> Class:
        """Of its kind."""
        return self.kind.klass

    def setting(self, name: str) -> Any:
        """The value of a setting."""
        return dict(self.settings).get(name, self.kind.settings[name])

    @property
    def tensors(self) -> tuple[Operand, ...]:
        """Read and written ones, each once."""
        return tuple({t.name: t for t in (*self.reads, *self.writes)}.values())

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of each axis."""
        return {name: size for t in (*self.reads, *self.writes) for name, size in t.axes}

    @cached_property
    def flop(self) -> int:
        """By the rule of `iosim.models.operators.flop`."""
        if self.kind.flop is not None:
            return self.kind.flop(self)
        tally = Tally()
        self.kind.run(self, [Outline(t.shape, tally) for t in self.reads])
        return tally.flop

    @property
    def products(self) -> int:
        """Of its flop those of matrix products."""
        if self.kind.products is not None:
            return self.kind.products(self)
        return self.flop if self.klass == "contraction" else 0

    @cached_property
    def words(self) -> dict[str, tuple[int, int]]:
        """Words read and written, each once, by tensor."""
        touched = self.kind.touched(self) if self.kind.touched else {}
        found = dict.fromkeys((t.name for t in self.tensors), (0, 0))
        for t in self.reads:
            found[t.name] = (touched.get(t.name, t.words), 0)
        for t in self.writes:
            found[t.name] = (found[t.name][0], touched.get(t.name, t.words))
        return found

    @property
    def words_in(self) -> int:
        """Words of its inputs, each once."""
        return sum(n for n, _ in self.words.values())

    @property
    def words_out(self) -> int:
        """Words of its outputs, each once."""
        return sum(n for _, n in self.words.values())

    def __call__(self, *arrays: Any) -> list[Any]:
        """Run it on arrays, one for each tensor that it reads: those that it writes.

        Raises InputError where a shape isn't its tensor's.
        """
        for t, array in zip(self.reads, arrays, strict=True):
            if np.shape(array) != t.shape:
                raise InputError(
                    f"{self.name}: {t.name} has shape {np.shape(array)}, not {t.shape}"
                )
        return list(self.kind.run(self, arrays))


@dataclass(frozen=True)
class Grads:
    """The names of gradients, for a kind's `gradient`.

    Attributes:
        of: the gradient of a tensor that an operator writes; None where nothing depends on it.
        to: a new tensor for a part of the gradient of one that it reads.
        wanted: whether the gradient of a tensor is requested.

    >>> from iosim.models.operators import operand
    >>> x = operand("X", "t", {"t": 3})
    >>> grads = Grads(of=lambda y: None, to=lambda y: y.renamed("d" + y.name), wanted=None)
    >>> grads.to(x).name
    'dX'
    """

    of: Callable[[Operand], Operand | None]
    to: Callable[[Operand], Operand]
    wanted: Callable[[Operand], bool]


def mapped(code: Callable[..., Any]) -> Callable[[Operator, Sequence[Any]], Sequence[Any]]:
    """Run code on arrays that are aligned by their axes' names, the axes of `over` last.

    An axis that a tensor lacks has length 1.  Where there are axes to work along, the code gets
    them as ``axis``, and keeps those that it reduces, with length 1.  Settings go by name.
    """

    def run(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
        every = dict.fromkeys(a for t in (*op.reads, *op.writes) for a in t.names)
        order = [*(a for a in every if a not in op.over), *op.over]
        aligned = [_aligned(t, x, order) for t, x in zip(op.reads, arrays, strict=True)]
        told = {name: op.setting(name) for name in op.kind.settings}
        if op.over:
            told["axis"] = tuple(range(-len(op.over), 0))
        found = code(*aligned, **told)
        found = found if isinstance(found, tuple) else (found,)
        return [_unaligned(t, x, order) for t, x in zip(op.writes, found, strict=False)]

    return run


def elementwise_kind(
    name: str, says: str, code: Callable[..., Any], reads: int | None = 1, **more: Any
) -> Kind:
    """An elementwise kind, whose code runs on arrays that are aligned."""
    return Kind(name, says, "elementwise", mapped(code), reads, **more)


def row_kind(name: str, says: str, code: Callable[..., Any], reads: int = 1, **more: Any) -> Kind:
    """A normalization along a row, or along what `more` says, whose code runs on aligned arrays."""
    return Kind(name, says, "normalisation", mapped(code), reads, **{"over": 1, **more})


def _aligned(t: Operand, x: Any, order: Sequence[str]) -> Any:
    there = [a for a in order if a in t.names]
    turned = np.transpose(x, [t.names.index(a) for a in there])
    sizes = dict(t.axes)
    return np.reshape(turned, tuple(sizes.get(a, 1) for a in order))


def _unaligned(t: Operand, x: Any, order: Sequence[str]) -> Any:
    there = [a for a in order if a in t.names]
    sizes = dict(t.axes)
    whole = np.broadcast_to(x, tuple(sizes.get(a, 1) for a in order))
    flat = np.reshape(whole, tuple(sizes[a] for a in there))
    return np.transpose(flat, [there.index(a) for a in t.names])
