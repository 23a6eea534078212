"""What a problem is: its axes, its options, and the form of the programs that solve it.

An axis is declared once, as a field of its problem; the builder, the commands, sweeps and bounds
read names, defaults and words of help from there.  An option is a field, too: what people vary,
and may leave out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from iosim.errors import InputError

Array = NDArray[np.float64]

# A count of 2**62 words would overflow the vectorised engine; no memory comes near it.
LARGEST_SIZE = 2**40


def check_size(name: str, value: object, least: int = 1) -> int:
    """Return `value` as an int, or raise InputError unless it is an integer in [least, 2**40]."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} must be a whole number, got {value!r}: give an integer")
    if not least <= int(value) <= LARGEST_SIZE:
        raise InputError(
            f"{name} = {value} is outside {least}..{LARGEST_SIZE} (2**40): choose a size inside"
        )
    return int(value)


def as_array(name: str, value: object) -> NDArray[Any]:
    """Return `value` as an array, or raise InputError where its rows have unequal lengths."""
    try:
        return np.asarray(value)
    except ValueError:
        raise InputError(f"{name} has rows of unequal lengths: give a whole array") from None


class Arithmetic(NamedTuple):
    """How closed forms of whole numbers are read: with numbers, arrays or symbols.

    Attributes:
        least, most: the smaller and the larger of two.
        half: of an even number.
        real: a whole number, as it may be multiplied without an overflow.
    """

    least: Callable[[Any, Any], Any]
    most: Callable[[Any, Any], Any]
    half: Callable[[Any], Any]
    real: Callable[[Any], Any]


WHOLE = Arithmetic(min, max, lambda x: x // 2, lambda x: x)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in HBM.

    Attributes:
        wide: whether a word has 4 bytes at least: a statistic kept in fp32, or a position.
        positions: the axis on which the tensor's words are positions; "" where they are numbers
            to compute with.
    """

    name: str
    axes: tuple[str, ...]
    wide: bool = False
    positions: str = ""


def check_positions(tensor: Tensor, words: Array, extent: int) -> None:
    """Raise InputError unless every word of a tensor is a position on an axis of this extent."""
    wrong = ~((words >= 0) & (words < extent) & (words == np.floor(words)))
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise InputError(
            f"{tensor.name}[{', '.join(map(str, at))}] = {words[at]:g} is no position on "
            f"{tensor.positions}: give whole numbers in 0..{extent - 1}"
        )


@dataclass(frozen=True, slots=True)
class Derived:
    """An axis whose length follows from others: ⌈of/step⌉, the tiles of an axis.

    `step` is a tile parameter or a size.
    """

    name: str
    of: str
    step: str

    def __str__(self) -> str:
        return f"{self.name} = ⌈{self.of}/{self.step}⌉"


def derive(derived: Iterable[Derived], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes and the lengths of derived axes, where both that they follow from are there."""
    return dict(sizes) | {
        x.name: -(-sizes[x.of] // sizes[x.step]) for x in derived if {x.of, x.step} <= sizes.keys()
    }


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a problem.

    Attributes:
        name: of its size, and of the axis in a program.
        says: what it is, for help.
        letters: what tiles along it are called, in this order.
        default: its size where none is given; None: one must be given.
        of: its size, of the sizes that people give, where it follows from them; numbers or arrays.
    """

    name: str
    says: str
    letters: str = ""
    default: int | None = None
    of: Callable[[Mapping[str, Any]], Any] | None = None


def axis(says: str, letters: str = "", default: int | None = None) -> Any:
    """Declare a field of a problem as an axis; arguments as for `Axis`."""
    told = {"says": says, "letters": letters}
    return field(metadata=told) if default is None else field(default=default, metadata=told)


OptionKind = Literal["size", "count", "flag", "limits", "choice"]
# What the two numbers of ``limits`` are called.
LIMITS = ("left", "right")


@dataclass(frozen=True, slots=True)
class Option:
    """What people vary in a problem, and may leave out.

    Attributes:
        name: of the field.
        says: what it is, for help.
        kind: a ``size`` from 1 on, a ``count`` from 0 on, a ``flag``, ``limits`` (a pair of counts,
            each of which may be left out), or a ``choice`` of words.
        default: the field's value where it is not given.
        choices: of a choice.
        divides: the size of which this one is a divisor; "" for none.
    """

    name: str
    says: str
    kind: OptionKind
    default: Any = None
    choices: tuple[str, ...] = ()
    divides: str = ""

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the whole numbers that it is made of, which may differ from point to point."""
        if self.kind == "limits":
            return LIMITS
        return (self.name,) if self.kind in ("size", "count") else ()

    @property
    def least(self) -> int:
        """The least of these numbers."""
        return 1 if self.kind == "size" else 0


def option(
    says: str,
    kind: OptionKind,
    default: Any = None,
    choices: tuple[str, ...] = (),
    divides: str = "",
) -> Any:
    """Declare a field of a problem as an option; arguments as for `Option`."""
    told = {"says": says, "kind": kind, "choices": choices, "divides": divides}
    return field(default=default, kw_only=True, metadata=told)


@dataclass(frozen=True, slots=True)
class Mask:
    """Which columns of a score matrix a row sees, sizes apart.

    Row i sees column j if ``i + shift − left ≤ j ≤ i + shift + right``, or if j is one of the first
    ``sinks`` columns and ``j ≤ i + shift + right``.

    Attributes:
        left: whether the size ``left`` limits; otherwise nothing does.
        right: ``limit``: the size ``right`` does; ``causal``: it is 0; None: nothing does.
        sinks: whether the first ``sinks`` columns stay in sight.
        shift: whether rows are aligned at the lower right: shift is N_k − N, otherwise 0.
    """

    left: bool
    right: Literal["limit", "causal"] | None
    sinks: bool
    shift: bool


@dataclass(frozen=True, slots=True)
class Form:
    """What a program is traced for: a problem without its sizes.

    Attributes:
        kind: of the problem, as in `iosim.problem.PROBLEMS`.
        axes: of its tensors.
        inputs, outputs: its tensors.
        options: names of the options that are in use, sorted.
        limits: further sizes, which bounds of loops may name; they may be 0.
        mask: which scores are needed, or None for all.
        derived: axes of tensors whose lengths follow from those of others.
    """

    kind: str
    axes: tuple[Axis, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    options: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    mask: Mask | None = None
    derived: tuple[Derived, ...] = ()

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of what a program of this form is bound to."""
        return (*(axis.name for axis in self.axes), *self.limits)

    def extents(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Name → extent for `sizes`, from the sizes that people give; numbers or arrays."""
        found = {a.name: given[a.name] if a.of is None else a.of(given) for a in self.axes}
        return found | {name: given[name] for name in self.limits}

    def tensor(self, name: str) -> Tensor:
        """The input or output called `name`."""
        return next(t for t in (*self.inputs, *self.outputs) if t.name == name)


class Problem(Protocol):
    """What a program computes: axes, sizes, tensors, inputs and a float64 reference."""

    kind: ClassVar[str]
    inputs: ClassVar[tuple[Tensor, ...]]
    outputs: ClassVar[tuple[Tensor, ...]]

    @classmethod
    def axes(cls) -> tuple[Axis, ...]:
        """The axes, in the order in which people say them."""
        ...

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """What may be varied and left out."""
        ...

    @classmethod
    def plain_form(cls, options: tuple[str, ...] = ()) -> Form:
        """The form without any option, or with some sizes given."""
        ...

    @classmethod
    def extents(cls, form: Form, given: Mapping[str, Any]) -> dict[str, Any]:
        """Name → extent for a program of a form, from what people give; numbers or arrays."""
        ...

    @property
    def told(self) -> dict[str, Any]:
        """The fields, options that are not given left out."""
        ...

    @property
    def form(self) -> Form:
        """What a program for this problem is traced for."""
        ...

    @property
    def sizes(self) -> dict[str, int]:
        """Name → extent, of all that a program of its form is bound to."""
        ...

    @classmethod
    def follow(cls, form: Form, sizes: Mapping[str, Any], by: Arithmetic) -> dict[str, Any]:
        """What else bounds may name, from the sizes of a form: numbers, arrays or symbols."""
        ...

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> Problem:
        """The instance to set beside attention of these sizes, in one table or sweep."""
        ...

    def random(self, seed: int = 0) -> dict[str, Array]:
        """Random inputs, float64."""
        ...

    def reference(self, hbm: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs, computed in float64 by the textbook formula."""
        ...


def size_names(problem: type[Problem] | type[BaseProblem]) -> tuple[str, ...]:
    """Names of a problem's sizes, in the order in which people say them; options apart."""
    return tuple(axis.name for axis in problem.axes())


class BaseProblem:
    """What problems share: a frozen dataclass of axes and options, with sizes checked once."""

    kind: ClassVar[str]
    inputs: ClassVar[tuple[Tensor, ...]]
    outputs: ClassVar[tuple[Tensor, ...]]

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
        given = self.told
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})"

    @property
    def told(self) -> dict[str, Any]:
        """The fields, options that are not given left out: ``type(p)(**p.told) == p``."""
        sizes = {name: getattr(self, name) for name in size_names(type(self))}
        options = {o.name: getattr(self, o.name) for o in self.options()}
        defaults = {o.name: o.default for o in self.options()}
        return sizes | {k: v for k, v in options.items() if v != defaults[k]}

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
    def extents(cls, form: Form, given: Mapping[str, Any]) -> dict[str, Any]:
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
        found = fields(cls)  # type: ignore[arg-type]
        for f in found:
            if "says" not in f.metadata:
                raise InputError(
                    f"{cls.__name__}.{f.name} is no axis: declare it as "
                    f"{f.name}: int = axis('what it counts'), or as a ClassVar"
                )
        return tuple(
            Axis(f.name, default=None if f.default is MISSING else f.default, **f.metadata)
            for f in found
            if "kind" not in f.metadata
        )

    @classmethod
    def options(cls) -> tuple[Option, ...]:
        """What may be varied and left out."""
        found = fields(cls)  # type: ignore[arg-type]
        return tuple(
            Option(f.name, default=f.default, **f.metadata) for f in found if "kind" in f.metadata
        )

    @classmethod
    def follow(cls, form: Form, sizes: Mapping[str, Any], by: Arithmetic = WHOLE) -> dict[str, Any]:
        """What else bounds may name, from the sizes of a form: numbers, arrays or symbols."""
        return {}

    @classmethod
    def beside_attention(cls, N: int, d: int, heads: int) -> Any:
        """The instance to set beside attention of these sizes; InputError where there is none."""
        raise InputError(f"{cls.__name__} has no size to set beside attention: bind() it instead")

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
            f"{name} = {value!r} is no pair: give (left, right), with None for no limit"
        )
    left, right = (
        None if x is None else check_size(f"{name}'s {side}", x, least=0)
        for side, x in zip(LIMITS, value, strict=True)
    )
    return left, right
