"""Flop, counted from an operator's own NumPy code by one rule.

The rule, for each value that comes out of a step of the code:

- an addition, subtraction, multiplication, division, negation, square root, exponential, logarithm,
  hyperbolic tangent, error function, sine or cosine is 1 flop;
- a sum is 1 flop for each value that is added;
- a contraction is 2 flop for each product (a multiplication and an addition);
- a maximum, a comparison, a choice, a look-up, a move, a conversion, a random number are none.

It is the rule of the artifact of Ivanov et al. (arXiv 2007.00072; github.com/spcl/substation),
which counts binary and unary operators, exp, tanh and sqrt as 1, min and max as 0, a reduction as 1
for each input, and a product of matrices as 2MNK.

An operator is run on arrays that have a shape and no values, which is quick at any size:

>>> import numpy as np
>>> def rms_norm(x, weight):
...     return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) / x.shape[-1]) * weight
>>> flop(rms_norm, (1000, 64), (64,))
258000
>>> flop(lambda a, b: np.einsum("ik,kj->ij", a, b), (10, 20), (20, 30))
12000
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from iosim.base.errors import InputError
from iosim.base.rows import Row

Shape = tuple[int, ...]

ONE = frozenset(
    {
        "add",
        "subtract",
        "multiply",
        "divide",
        "negative",
        "square",
        "power",
        "sqrt",
        "reciprocal",
        "exp",
        "log",
        "tanh",
        "erf",
        "sin",
        "cos",
    }
)
NONE = frozenset(
    {
        "maximum",
        "minimum",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "logical_not",
    }
)


@dataclass
class Tally:
    """Flop so far."""

    flop: int = 0


def flop(code: Callable[..., Any], *shapes: Shape) -> int:
    """The flop of NumPy code on arrays of these shapes.

    Raises InputError for a NumPy function that the rule doesn't know.
    """
    tally = Tally()
    code(*(Outline(shape, tally) for shape in shapes))
    return tally.flop


def _unknown(name: str) -> InputError:
    return InputError(
        f"no flop are known of NumPy's {name}: use others, or add it to "
        "iosim/models/operators/flop.py"
    )


@dataclass(eq=False)
class Outline(NDArrayOperatorsMixin):
    """An array without values: its shape, and the flop that are spent on it."""

    shape: Shape
    tally: Tally = field(repr=False)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of values."""
        return math.prod(self.shape)

    @property
    def T(self) -> Outline:
        """The transpose."""
        return self._of(self.shape[::-1])

    def reshape(self, *shape: int) -> Outline:
        """The same values in another shape; one length may be −1."""
        known = -math.prod(shape)
        new = tuple(self.size // known if n < 0 else n for n in shape)
        if math.prod(new) != self.size:
            raise ValueError(f"{self.shape} has another size than {new}")
        return self._of(new)

    def __getitem__(self, key: Any) -> Outline:
        # A view of one value that is repeated: it takes no memory, and NumPy finds the shape.
        return self._of(np.broadcast_to(np.int8(0), self.shape)[key].shape)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        if name not in ONE | NONE:
            raise _unknown(name)
        if method == "__call__":
            found = self._of(np.broadcast_shapes(*map(np.shape, inputs)))
            self.tally.flop += found.size * (name in ONE)
            return found
        if method == "reduce":
            self.tally.flop += inputs[0].size * (name in ONE)
            return self._reduced(inputs[0], options.get("axis"), options.get("keepdims", False))
        raise _unknown(f"{name}.{method}")

    def __array_function__(
        self, function: Any, types: Any, given: tuple[Any, ...], options: Row
    ) -> Any:
        known = _FUNCTIONS.get(function.__name__)
        if known is None:
            raise _unknown(function.__name__)
        return known(self, *given, **options)

    def _of(self, shape: Sequence[int]) -> Outline:
        return Outline(tuple(shape), self.tally)

    def _reduced(self, x: Outline, axis: Any, keepdims: bool) -> Outline:
        every = range(x.ndim) if axis is None else np.atleast_1d(axis) % x.ndim
        gone = {int(a) for a in every}
        shape = [1 if k in gone else n for k, n in enumerate(x.shape) if keepdims or k not in gone]
        return self._of(shape)


def _sum(x: Outline, of: Outline, axis: Any = None, keepdims: bool = False) -> Outline:
    x.tally.flop += of.size
    return x._reduced(of, axis, keepdims)


def _max(x: Outline, of: Outline, axis: Any = None, keepdims: bool = False) -> Outline:
    return x._reduced(of, axis, keepdims)


def _einsum(x: Outline, spec: str, *operands: Any) -> Outline:
    reads, written = spec.split("->")
    sizes = {
        letter: n
        for letters, operand in zip(reads.split(","), operands, strict=True)
        for letter, n in zip(letters, np.shape(operand), strict=True)
    }
    x.tally.flop += 2 * math.prod(sizes.values())
    return x._of([sizes[letter] for letter in written])


def _where(x: Outline, *operands: Any) -> Outline:
    return x._of(np.broadcast_shapes(*map(np.shape, operands)))


def _concatenate(x: Outline, parts: Sequence[Any], axis: int = 0) -> Outline:
    shapes = [list(np.shape(part)) for part in parts]
    length = sum(shape.pop(axis) for shape in shapes)
    if any(shape != shapes[0] for shape in shapes):
        raise ValueError("parts of different shapes")
    axis %= len(shapes[0]) + 1
    return x._of([*shapes[0][:axis], length, *shapes[0][axis:]])


def _take(x: Outline, of: Any, indices: Any, axis: int = 0) -> Outline:
    shape = list(np.shape(of))
    axis %= len(shape)
    return x._of([*shape[:axis], *np.shape(indices), *shape[axis + 1 :]])


def _like_second(x: Outline, _: Any, indices: Any, axis: int = 0) -> Outline:
    return x._of(np.shape(indices))


def _transpose(x: Outline, of: Outline, axes: Sequence[int]) -> Outline:
    return x._of([of.shape[a] for a in axes])


def _as_first(x: Outline, of: Any, *_: Any, **__: Any) -> Outline:
    return x._of(np.shape(of))


def _broadcast(x: Outline, of: Any, shape: Sequence[int]) -> Outline:
    if np.broadcast_shapes(np.shape(of), tuple(shape)) != tuple(shape):
        raise ValueError(f"{np.shape(of)} is not part of {tuple(shape)}")
    return x._of(shape)


def _reshape(x: Outline, of: Outline, shape: Sequence[int]) -> Outline:
    return of.reshape(*shape)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": _sum,
    "max": _max,
    "einsum": _einsum,
    "where": _where,
    "concatenate": _concatenate,
    "take": _take,
    "take_along_axis": _like_second,
    "transpose": _transpose,
    "broadcast_to": _broadcast,
    "reshape": _reshape,
    "argsort": _as_first,
    "zeros_like": _as_first,
    "ones_like": _as_first,
    "shape": lambda x, of: of.shape,
}
