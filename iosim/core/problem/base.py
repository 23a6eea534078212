"""What a problem is: its axes, its options, and the form of the programs that solve it.

An axis is declared once, as a field of its problem; the builder, the commands, sweeps and bounds
read names, defaults and words of help from there.  An option is a field, too: what people vary,
and may leave out.

All problems inherit `BaseProblem`; commands, sweeps and bounds ask it.
``tests/core/test_problem.py`` has what is declared wrongly.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from iosim.base.errors import InputError
from iosim.base.rows import Values
from iosim.base.validate import check_size
from iosim.core.problem.form import (
    LIMITS,
    Array,
    Axis,
    Form,
    Hbm,
    Option,
    Tensor,
    Tensors,
    check_positions,
    derive,
)


def as_array(name: str, value: object) -> NDArray[Any]:
    """Return `value` as an array, or raise InputError where its rows have unequal lengths.

    >>> as_array("X", [[1, 2], [3, 4]]).shape
    (2, 2)
    >>> as_array("X", [[1, 2], [3]])
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: X has rows of unequal lengths: give a whole array
    """
    try:
        return np.asarray(value)
    except ValueError:
        raise InputError(f"{name} has rows of unequal lengths: give a whole array") from None


def joined_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape whose first two axes are one.

    >>> joined_shape((2, 3, 4, 5))
    (6, 4, 5)
    """
    return (shape[0] * shape[1], *shape[2:])


def in_shape(tensor: Tensor, array: Any, shape: tuple[int, ...]) -> Array:
    """A copy in float64, of a tensor's shape; axes that it joins may be given as one.

    Raises InputError for another shape, and for what would lose a part or holds no numbers.

    >>> in_shape(Tensor("X", ("m", "n")), [[1, 2], [3, 4]], (2, 2))
    array([[1., 2.],
           [3., 4.]])
    """
    given = as_array(tensor.name, array)
    if given.dtype.kind not in "biuf":
        raise InputError(f"{tensor.name} is of dtype {given.dtype}: give real numbers")
    if given.shape != shape and not (tensor.joins and given.shape == joined_shape(shape)):
        raise InputError(
            f"{tensor.name} has shape {given.shape}, the problem needs {shape}: reshape it or "
            "change the sizes"
        )
    return given.astype(np.float64, order="C").reshape(shape)


class Arithmetic(NamedTuple):
    """How closed forms of whole numbers are read: with numbers, arrays or symbols.

    Attributes:
        least, most: the smaller and the larger of two.
        half: of an even number.
        real: a whole number, as it may be multiplied without an overflow.

    >>> WHOLE.least(3, 4), WHOLE.half(6)
    (3, 3)
    """

    least: Callable[[Any, Any], Any]
    most: Callable[[Any, Any], Any]
    half: Callable[[Any], Any]
    real: Callable[[Any], Any]


WHOLE = Arithmetic(min, max, lambda x: x // 2, lambda x: x)


def size_names(problem: type[BaseProblem]) -> tuple[str, ...]:
    """Names of a problem's sizes, in the order in which people say them; without options.

    >>> from iosim import Attention
    >>> size_names(Attention)
    ('N', 'd', 'heads')
    """
    return tuple(axis.name for axis in problem.axes())


class BaseProblem:
    """What a program computes: axes, sizes, tensors, inputs and a float64 reference.

    A problem is a frozen dataclass of axes and options, with sizes checked once.

    >>> from iosim import MatMul
    >>> issubclass(MatMul, BaseProblem), MatMul(2, 3, 4).sizes
    (True, {'m': 2, 'n': 3, 'k': 4})
    """

    kind: ClassVar[str]
    inputs: ClassVar[Tensors]
    outputs: ClassVar[Tensors]

    def __post_init__(self) -> None:
        for name in size_names(type(self)):
            object.__setattr__(self, name, check_size(name, getattr(self, name)))
        for one in self.options():
            value = _checked(one, getattr(self, one.name))
            object.__setattr__(self, one.name, value)
            if value is None or not one.divides:
                continue
            whole = getattr(self, one.divides)
            if whole % value:
                raise InputError(
                    f"{one.name} = {value} does not divide {one.divides} = {whole}: give a divisor"
                )

    def __repr__(self) -> str:
        given = self.as_dict
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})"

    @property
    def as_dict(self) -> dict[str, Any]:
        """The fields, options that are not given left out: ``type(p)(**p.as_dict) == p``."""
        sizes = {name: getattr(self, name) for name in size_names(type(self))}
        options = {o.name: getattr(self, o.name) for o in self.options()}
        defaults = {o.name: o.default for o in self.options()}
        return sizes | {k: v for k, v in options.items() if v != defaults[k]}

    @property
    def idle(self) -> tuple[str, ...]:
        """Of options that are given and change nothing here, what people should know."""
        return ()

    @property
    def form(self) -> Form:
        """What a program for this problem is traced for."""
        return self.plain_form()

    @property
    def sizes(self) -> dict[str, int]:
        """Name → extent, of all that a program of its form is bound to."""
        given = {name: getattr(self, name) for name in size_names(type(self))}
        return self.extents(self.form, given)

    @classmethod
    def extents(cls, form: Form, given: Values) -> dict[str, Any]:
        """Name → extent for a program of a form, from what people give; numbers or arrays."""
        return form.extents(given)

    @classmethod
    def plain_form(cls, options: tuple[str, ...] = ()) -> Form:
        """The form without any option, or with some that are sizes: whatever these are."""
        if options:
            return cls(**dict.fromkeys((*size_names(cls), *options), 1)).form
        return Form(cls.kind, cls.axes(), cls.inputs, cls.outputs)

    @classmethod
    def axes(cls) -> tuple[Axis, ...]:
        """The axes, in the order in which people say them.

        Raises InputError where a field is neither an axis nor an option.
        """
        return _axes(cls)  # type: ignore[arg-type]

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """What may be varied and left out."""
        return _options(cls)  # type: ignore[arg-type]

    @classmethod
    def follow(cls, form: Form, sizes: Values, by: Arithmetic = WHOLE) -> dict[str, Any]:
        """What else bounds may name, from the sizes of a form: numbers, arrays or symbols."""
        return {}

    def check_inputs(self, hbm: Values) -> dict[str, Array]:
        """The inputs in float64, each of its tensor's shape and with positions checked.

        Raises InputError where one is missing, has another shape (`in_shape`) or holds no numbers.
        """
        sizes = derive(self.form.derived, self.sizes)
        missing = [t.name for t in self.form.inputs if t.name not in hbm]
        if missing:
            raise InputError(f"{self!r} needs {', '.join(missing)}: give the arrays")
        found = {
            t.name: in_shape(t, hbm[t.name], tuple(sizes[a] for a in t.axes))
            for t in self.form.inputs
        }
        for t in self.form.inputs:
            if t.positions:
                check_positions(t, found[t.name], sizes[t.positions])
        return found

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> Any:
        """The instance to compare with attention of these sizes; InputError if there is none."""
        raise InputError(f"{cls.__name__} has no size to set beside attention: bind() it instead")

    def reference(self, hbm: Hbm) -> dict[str, Array]:
        """The outputs, computed in float64 by the textbook formula of each problem."""
        raise NotImplementedError

    def random(self, seed: int = 0) -> dict[str, Array]:
        """Standard normal inputs, float64, and random positions."""
        rng = np.random.default_rng(seed)
        sizes = derive(self.form.derived, self.sizes)
        return {
            t.name: rng.integers(sizes[t.positions], size=[sizes[a] for a in t.axes]).astype(float)
            if t.positions
            else rng.standard_normal([sizes[a] for a in t.axes])
            for t in self.form.inputs
        }


# What functions that take any problem ask for.
Problem: TypeAlias = BaseProblem


@functools.cache
def _axes(problem: type[BaseProblem]) -> tuple[Axis, ...]:
    found = fields(problem)  # type: ignore[arg-type]
    for f in found:
        if "says" not in f.metadata:
            raise InputError(
                f"{problem.__name__}.{f.name} is not an axis: declare it as "
                f"{f.name}: int = axis('what it counts'), or as a ClassVar"
            )
    return tuple(
        Axis(f.name, default=None if f.default is MISSING else f.default, **f.metadata)
        for f in found
        if "kind" not in f.metadata
    )


@functools.cache
def _options(problem: type[BaseProblem]) -> tuple[Option, ...]:
    found = fields(problem)  # type: ignore[arg-type]
    return tuple(
        Option(f.name, default=f.default, **f.metadata) for f in found if "kind" in f.metadata
    )


def _checked(one: Option, value: Any) -> Any:
    """An option's value as it is kept.  Raises InputError for what it cannot be."""
    if value is None and one.kind in ("size", "limits"):
        return None
    match one.kind:
        case "size":
            return check_size(one.name, value)
        case "count":
            return check_size(one.name, value, least=0)
        case "flag":
            if not isinstance(value, (bool, np.bool_)):
                raise InputError(f"{one.name} = {value!r} is neither True nor False: give one")
            return bool(value)
        case "limits":
            return _limits(one.name, value)
        case "choice":
            if value not in one.choices:
                known = " or ".join(repr(x) for x in one.choices)
                raise InputError(f"{one.name} = {value!r} is unknown: give {known}")
            return value


def _limits(name: str, value: Any) -> tuple[int | None, int | None]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise InputError(
            f"{name} = {value!r} is not a pair: give (left, right), with None for no limit"
        )
    left, right = (
        None if x is None else check_size(f"{name}'s {side}", x, least=0)
        for side, x in zip(LIMITS, value, strict=True)
    )
    return left, right
