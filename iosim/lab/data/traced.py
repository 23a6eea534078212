"""Formulas as JSON that the page evaluates, so that it has none of its own.

The project's own code is run on values that write down what is done with them: how sizes of a
program follow from what people type, and the bounds, whose words are made of NumPy's functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from iosim.base.rows import Values
from iosim.bounds import Bound
from iosim.bounds.terms import Terms
from iosim.core.problem import PROBLEMS, Arithmetic, Attention, Form
from iosim.core.problem.form import LIMITS
from iosim.core.problem.scores import LOWER_RIGHT, UPPER_LEFT
from iosim.lab.columns import Json

# The names of sizes that people may give, in any problem.
NAMES = (
    "N",
    "d",
    "heads",
    "N_k",
    "d_v",
    "kv_heads",
    "left",
    "right",
    "sinks",
    "m",
    "n",
    "k",
    "page",
    "batch",
)

# NumPy's name of a function → how it is written down.
_UFUNCS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "floor_divide": "//",
    "minimum": "min",
    "maximum": "max",
    "sqrt": "sqrt",
    "log2": "log2",
    "floor": "floor",
    "ceil": "ceil",
    "rint": "rint",
    "absolute": "abs",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "bitwise_and": "&",
    "bitwise_or": "|",
}


@dataclass
class Formulas:
    """What was written down: an entry is a number, a name, or ``[sign, place, …]``.

    Places are those of earlier entries; equal entries are one.  ``interp`` has the place of a value
    and two lists of numbers.  Conditions are 1 or 0.

    >>> table = Formulas()
    >>> N, M = table.name("N"), table.name("M")
    >>> (np.minimum(N * N / 2, M) - N * N).place, table.entries
    (6, ['N', 'M', ['*', 0, 0], 2.0, ['/', 2, 3], ['min', 4, 1], ['-', 5, 2]])
    """

    entries: list[Any] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)
    _asked: list[Traced] = field(default_factory=list)
    _answers: tuple[bool, ...] | None = None

    def name(self, name: str) -> Traced:
        """A size that people give."""
        return self._entry(name)

    def entry(self, sign: str, *values: Any) -> Traced:
        """What a sign makes of values, which are written down here or numbers."""
        return self._entry([sign, *(self.of(x).place for x in values)])

    def of(self, value: Any) -> Traced:
        """A value as it is written down here."""
        if isinstance(value, Traced):
            return value
        number = float(value)
        return self._entry(["inf" if number > 0 else "-inf"] if np.isinf(number) else number)

    def interp(self, at: Traced, xs: Any, ys: Any) -> Traced:
        """NumPy's function of this name."""
        return self._entry(["interp", at.place, [float(x) for x in xs], [float(y) for y in ys]])

    def choose(self, value: Callable[[], Any]) -> Traced:
        """What code with branches gives: it is run for each way through its conditions."""

        def along(answers: tuple[bool, ...]) -> Traced:
            self._asked, self._answers = [], answers
            found = value()
            self._answers = None
            if len(self._asked) == len(answers):
                return self.of(found)
            condition = self._asked[len(answers)]
            return self.entry("where", condition, along((*answers, True)), along((*answers, False)))

        return along(())

    def answer(self, condition: Traced) -> bool:
        """Which way a branch goes in this run of `choose`.

        Raises TypeError outside of it: one way would be left out.  NumPy branches, too, where it
        compares arrays of objects, such as ``np.asarray`` of a traced value.
        """
        if self._answers is None:
            raise TypeError("a traced value was asked for its truth outside of Formulas.choose")
        self._asked.append(condition)
        at = len(self._asked) - 1
        return at < len(self._answers) and self._answers[at]

    def tree(self, place: int) -> Any:
        """An entry with the entries that it names in their places."""
        entry = self.entries[place]
        return [entry[0], *map(self.tree, entry[1:])] if isinstance(entry, list) else entry

    def _entry(self, entry: Any) -> Traced:
        key = repr(entry)
        if key not in self._places:
            self._places[key] = len(self.entries)
            self.entries.append(entry)
        return Traced(self, self._places[key])


def _by(sign: str) -> tuple[Callable[..., Traced], Callable[..., Traced]]:
    """An operator, and the same with the other value before it."""
    return (
        lambda self, other: self.table.entry(sign, self, other),
        lambda self, other: self.table.entry(sign, other, self),
    )


@dataclass(frozen=True, eq=False)
class Traced:
    """An entry of a table, which writes down there what Python and NumPy do with it."""

    table: Formulas = field(repr=False)
    place: int

    __add__, __radd__ = _by("+")
    __sub__, __rsub__ = _by("-")
    __mul__, __rmul__ = _by("*")
    __truediv__, __rtruediv__ = _by("/")
    __floordiv__, __rfloordiv__ = _by("//")
    __and__, __rand__ = _by("&")
    __or__, __ror__ = _by("|")
    __lt__, __gt__ = _by("<")[0], _by(">")[0]
    __le__, __ge__ = _by("<=")[0], _by(">=")[0]
    __eq__ = _by("==")[0]  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Traced:
        return self.table.entry("-", 0, self)

    def __pow__(self, power: int) -> Traced:
        # NumPy squares by a product.
        return self * self if power == 2 else self.table.entry("pow", self, power)

    def __bool__(self) -> bool:
        return self.table.answer(self)

    def __array_ufunc__(self, ufunc: Any, method: str, *values: Any, **_: Any) -> Traced:
        if ufunc.__name__ == "positive":
            return self
        return self.table.entry(_UFUNCS[ufunc.__name__], *values)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _FUNCTIONS[function.__name__](self.table, *args)


# Functions of NumPy that are no ufuncs.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "where": lambda table, c, a, b: table.entry("where", c, a, b),
    "clip": lambda table, x, low, high: table.entry("min", table.entry("max", x, low), high),
    "interp": lambda table, at, xs, ys: table.interp(at, xs, ys),
    "full_like": lambda table, like, value: table.of(value),
    # What is only computed where some value needs it is written down.
    "any": lambda table, condition: True,
    "all": lambda table, condition: False,
    "array_equal": lambda table, a, b: False,
}


class TracedTerms(Terms):
    """What a bound's formula may use, written down: sizes of a form, and M."""

    def __init__(self, form: Form, table: Formulas) -> None:
        self.table = table
        sizes = {name: table.name(name) for name in (*form.sizes, "M")}
        super().__init__(sizes | _follow(form, sizes))

    @classmethod
    def of_any(cls, table: Formulas) -> TracedTerms:
        """Terms of attention with any of its options.

        Sizes are what people type.  ``given left``, ``given right``, ``given causal`` and ``given
        align`` are 1 where the option is given (and of two choices not the first), or 0; an N_k, a
        d_v and a kv_heads that are not given are what they follow, and sinks are 0.
        """
        numbers = [x.name for x in Attention.options() if x.kind in ("size", "count")]
        names = [*(axis.name for axis in Attention.axes()), *numbers, *LIMITS]
        told: Json = {name: table.name(name) for name in names}
        far = told["N"] + told["N_k"]  # so far away no column is
        for limit in LIMITS:
            told[limit] = table.entry("where", table.name(f"given {limit}"), told[limit], far)
        told["right"] = table.entry("where", table.name("given causal"), 0, told["right"])
        found = []
        for align in (UPPER_LEFT, LOWER_RIGHT):
            any_other = Attention(1, 1, N_k=1, d_v=1, kv_heads=1, window=(1, 1), sinks=1)
            form = replace(any_other, align=align).form
            found.append(_follow(form, Attention.extents(form, told)))
        turned = table.name("given align")
        both = {name: table.entry("where", turned, *(x[name] for x in found)) for name in found[0]}
        made = cls(Attention.plain_form(), table)
        made._sizes |= both | {"left": told["left"]}
        return made

    def sqrt(self, x: Any) -> Any:
        """As NumPy's."""
        return self.table.entry("sqrt", x)

    def log2(self, x: Any) -> Any:
        """As NumPy's."""
        return self.table.entry("log2", x)

    def floor(self, x: Any) -> Any:
        """As NumPy's."""
        return self.table.entry("floor", x)

    def ceil(self, x: Any) -> Any:
        """As NumPy's."""
        return self.table.entry("ceil", x)

    def min(self, x: Any, y: Any) -> Any:
        """The smaller of two."""
        return np.minimum(x, y)

    def max(self, *values: Any) -> Any:
        """The largest of several."""
        return functools.reduce(np.maximum, values)

    def each(self, words: Callable[..., Any], **values: Any) -> Any:
        """A function of NumPy's functions alone."""
        return words(**values)


def _follow(form: Form, sizes: Values) -> Json:
    """What follows from sizes that are written down."""
    by = Arithmetic(np.minimum, np.maximum, lambda x: x // 2, lambda x: x)
    found: Json = PROBLEMS[form.kind].follow(form, sizes, by)
    return found


def traced_bound(bound: Bound, terms: TracedTerms) -> dict[str, int]:
    """Where in a table a bound is: whether it ``applies``, and its ``words``, 0 at least.

    >>> from iosim.bounds import bound
    >>> table = Formulas()
    >>> found = traced_bound(bound("compulsory"), TracedTerms(Attention.plain_form(), table))
    >>> table.tree(found["applies"]), table.entries[found["words"]][0]
    (1.0, 'max')
    """
    table = terms.table
    applies = table.choose(lambda: float(bound.outside(terms) is None))
    words = (bound.numeric or bound.formula)(terms)
    return {"applies": applies.place, "words": table.entry("max", 0, words).place}


def traced_sizes(problem: type[Any], form: Form) -> Json:
    """Name → expression for every size that a program of a form is bound to.

    An expression is a name of what people type, a number, or ``[sign, a, b]``.

    >>> traced_sizes(Attention, Attention(8, 4, 2, kv_heads=1).form)
    {'N': 'N', 'd': 'd', 'kv_heads': 'kv_heads', 'group': ['//', 'heads', 'kv_heads']}
    """
    table = Formulas()
    given: Values = {name: table.name(name) for name in NAMES}
    if "N_k" not in form.sizes:
        given = {**given, "N_k": given["N"]}
    found = problem.extents(form, given)
    return {name: table.tree(table.of(x).place) for name, x in found.items()}
