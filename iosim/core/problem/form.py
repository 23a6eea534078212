"""What a problem declares: tensors, axes, options; and its form, that programs are traced for.

All problems declare with it, and programs are traced for a `Form`.  ``tests/core/test_problem.py``
has what is declared wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from iosim.base.arrays import Floats
from iosim.base.errors import InputError
from iosim.base.rows import Values

Array = Floats


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in slow memory.

    Attributes:
        wide: whether a word has 4 bytes at least: a statistic kept in fp32, or a position.
        positions: the axis on which the tensor's words are positions; "" where they are numbers
            to compute with.

    >>> from iosim import MatMul
    >>> MatMul.inputs[0]
    Tensor(name='A', axes=('m', 'k'), wide=False, positions='')
    """

    name: str
    axes: tuple[str, ...]
    wide: bool = False
    positions: str = ""

    @property
    def joins(self) -> bool:
        """Whether the first two axes may be given as one: heads of K and V, and those sharing one.

        >>> Tensor("L", ("kv_heads", "group", "N")).joins, Tensor("K", ("heads", "N", "d")).joins
        (True, False)
        """
        return self.axes[1:2] == ("group",) or len(self.axes) > 3


Tensors: TypeAlias = tuple[Tensor, ...]
# What slow memory holds, by tensor.
Hbm: TypeAlias = Mapping[str, Array]


def check_positions(tensor: Tensor, words: Array, extent: int) -> None:
    """Raise InputError unless every word of a tensor is a position on an axis of this extent.

    >>> import numpy as np
    >>> table = Tensor("table", ("n",), positions="pages")
    >>> check_positions(table, np.array([0.0, 3.0]), 4)
    >>> check_positions(table, np.array([0.0, 4.0]), 4)
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: table[1] = 4 is not a position on pages: give whole numbers in \
0..3
    """
    wrong = ~((words >= 0) & (words < extent) & (words == np.floor(words)))
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise InputError(
            f"{tensor.name}[{', '.join(map(str, at))}] = {words[at]:g} is not a position on "
            f"{tensor.positions}: give whole numbers in 0..{extent - 1}"
        )


@dataclass(frozen=True, slots=True)
class Derived:
    """An axis whose length follows from others: ⌈of/step⌉, the tiles of an axis.

    `step` is a tile parameter or a size.

    >>> derive([Derived("splits", "N_k", "B_s")], {"N_k": 100, "B_s": 32})
    {'N_k': 100, 'B_s': 32, 'splits': 4}
    """

    name: str
    of: str
    step: str

    def __str__(self) -> str:
        return f"{self.name} = ⌈{self.of}/{self.step}⌉"


def derive(derived: Iterable[Derived], sizes: Values) -> dict[str, Any]:
    """Sizes and the lengths of derived axes, where both that they follow from are there.

    >>> derive([Derived("splits", "N_k", "B_s")], {"N_k": 64, "B_s": 32})["splits"]
    2
    """
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
        default: its size if none is given; None: one must be given.
        of: its size, of the sizes that people give, where it follows from them; numbers or arrays.
        follows: the axis whose size it has on the command line if none is given, or "".

    >>> from iosim import Attention
    >>> [(a.name, a.default) for a in Attention.axes()]
    [('N', None), ('d', None), ('heads', 1)]
    """

    name: str
    says: str
    letters: str = ""
    default: int | None = None
    of: Callable[[Values], Any] | None = None
    follows: str = ""


def axis(says: str, letters: str = "", default: int | None = None, follows: str = "") -> Any:
    """Declare a field of a problem as an axis; arguments as for `Axis`.

    >>> from dataclasses import dataclass
    >>> from iosim.core.problem import BaseProblem
    >>> @dataclass(frozen=True)
    ... class Vector(BaseProblem):
    ...     n: int = axis("words")
    >>> [(a.name, a.says) for a in Vector.axes()]
    [('n', 'words')]
    """
    told = {"says": says, "letters": letters, "follows": follows}
    return field(metadata=told) if default is None else field(default=default, metadata=told)


OptionKind = Literal["size", "count", "flag", "limits", "choice"]


# What the two numbers of ``limits`` are called.
LIMITS = ("left", "right")
# What the sizes mean that a mask adds to a form.
LIMITS_SAY = {
    "left": "how many columns before its own a row sees",
    "right": "how many columns after its own a row sees",
    "sinks": "how many first columns a row sees however far to the left",
    "unseen": "how many keys at one end no row sees",
}


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
        follows: the size that it is where it is not given; "" for none.

    >>> from iosim import Attention
    >>> [o.name for o in Attention.options()]
    ['N_k', 'd_v', 'kv_heads', 'causal', 'window', 'sinks', 'align', 'statistics']
    """

    name: str
    says: str
    kind: OptionKind
    default: Any = None
    choices: tuple[str, ...] = ()
    divides: str = ""
    follows: str = ""

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
    follows: str = "",
) -> Any:
    """Declare a field of a problem as an option; arguments as for `Option`.

    >>> from dataclasses import dataclass
    >>> from iosim.core.problem import BaseProblem
    >>> @dataclass(frozen=True)
    ... class Vector(BaseProblem):
    ...     n: int = axis("words")
    ...     twice: bool = option("each word counts twice", "flag", False)
    >>> [(o.name, o.default) for o in Vector.options()]
    [('twice', False)]
    """
    told = {"says": says, "kind": kind, "choices": choices, "divides": divides, "follows": follows}
    return field(default=default, kw_only=True, metadata=told)


@dataclass(frozen=True, slots=True)
class Mask:
    """Which columns of a score matrix a row sees; without sizes.

    Row i sees column j if ``i + shift − left ≤ j ≤ i + shift + right``, or if j is one of the first
    ``sinks`` columns and ``j ≤ i + shift + right``.

    Attributes:
        left: whether the size ``left`` limits; otherwise nothing does.
        right: ``limit``: the size ``right`` does; ``causal``: it is 0; None: nothing does.
        sinks: whether the first ``sinks`` columns stay in sight.
        shift: whether rows are aligned at the lower right: shift is N_k − N, otherwise 0.

    >>> from iosim import Attention
    >>> Attention(8, 4, window=(2, 0)).form.mask
    Mask(left=True, right='limit', sinks=False, shift=False)
    """

    left: bool
    right: Literal["limit", "causal"] | None
    sinks: bool
    shift: bool


@dataclass(frozen=True, slots=True)
class Form:
    """What a program is traced for: a problem without its sizes.

    Attributes:
        kind: of the problem, as in `iosim.core.problem.PROBLEMS`.
        axes: of its tensors.
        inputs, outputs: its tensors.
        options: names of the options that are in use, sorted.
        limits: further sizes, which bounds of loops may name; they may be 0.
        mask: which scores are needed, or None for all.
        derived: axes of tensors whose lengths follow from those of others.

    >>> from iosim import Attention
    >>> form = Attention(8, 4, causal=True).form
    >>> form.kind, form.options, form.mask
    ('attention', ('causal',), Mask(left=False, right='causal', sinks=False, shift=False))
    """

    kind: str
    axes: tuple[Axis, ...]
    inputs: Tensors
    outputs: Tensors
    options: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    mask: Mask | None = None
    derived: tuple[Derived, ...] = ()

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of what a program of this form is bound to."""
        return (*(axis.name for axis in self.axes), *self.limits)

    def extents(self, given: Values) -> dict[str, Any]:
        """Name → extent for `sizes`, from the sizes that people give; numbers or arrays."""
        found = {a.name: given[a.name] if a.of is None else a.of(given) for a in self.axes}
        return found | {name: given[name] for name in self.limits}

    def tensor(self, name: str) -> Tensor:
        """The input or output called `name`."""
        return next(t for t in (*self.inputs, *self.outputs) if t.name == name)
