"""What a bound is: a formula, the class of algorithms it covers, and where it applies.

A bound's mathematics is written **once**, as a function of `Terms`: sizes, the memory M, and the
few functions that bounds use (roots, minima, roundings, logarithms).  Read with exact numbers it
gives words; read with NumPy arrays, a curve; read with symbols, the sympy expression.  So the
printed expression and the evaluated number cannot drift apart, and a number needs no sympy.
"""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from iosim.errors import InputError, closest
from iosim.problem import PROBLEMS, Problem, check_size, size_names

Kind = Literal["lower", "upper"]
Strength = Literal["exact", "asymptotic"]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BoundClass:
    """A class of attention algorithms, that a lower bound may cover.

    Attributes:
        name: what ``--class`` and the tables call it.
        says: what its algorithms may do, in one sentence.
    """

    name: str
    says: str


CLASSES: dict[str, BoundClass] = {
    klass.name: klass
    for klass in (
        BoundClass(
            "once", "one accumulator per score and per output entry, every score computed once"
        ),
        BoundClass(
            "recompute",
            "one accumulator per score and per output entry; scores may be computed again",
        ),
        BoundClass("trees", "every score computed once; sums in any order and shape (split-K)"),
    )
}


def bound_class(klass: BoundClass | str) -> BoundClass:
    """The class of that name (a record is returned as it is); InputError for an unknown one."""
    if isinstance(klass, BoundClass):
        return klass
    if klass not in CLASSES:
        raise InputError(f"unknown class {klass!r}: {closest(klass, CLASSES)}")
    return CLASSES[klass]


def axis_names(kind: str) -> tuple[str, ...]:
    """Names of a problem's sizes, in the order in which people say them: N, d, heads.

    Raises InputError for an unknown kind of problem.
    """
    if kind not in PROBLEMS:
        raise InputError(f"unknown problem {kind!r}: {closest(kind, PROBLEMS)}")
    return size_names(PROBLEMS[kind])


def _default_sizes(kind: str) -> dict[str, int]:
    axes = PROBLEMS[kind].axes()
    return {axis.name: axis.default for axis in axes if axis.default is not None}


@functools.cache
def sym(name: str) -> Any:
    """The sympy symbol of a size (N, d, heads, m, n, k) or of the memory M: a positive integer.

    Substitute with symbol objects only: in `expr.subs({"N": 8})` the string becomes the function
    `sympy.N`, and symbols made from strings carry no assumptions.
    """
    import sympy

    return sympy.Symbol(name, positive=True, integer=True)


class Terms(abc.ABC):
    """Sizes as attributes, and the functions a formula may use; see `Exact`, `Array`, `Symbolic`.

    `t.N`, `t.d`, `t.heads`, `t.m`, `t.n`, `t.k` and `t.M` are the sizes.
    """

    def __init__(self, sizes: Mapping[str, Any]) -> None:
        self._sizes = dict(sizes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._sizes:
            raise AttributeError(name)
        return self._sizes[name]

    @abc.abstractmethod
    def sqrt(self, x: Any) -> Any:
        """Square root."""

    @abc.abstractmethod
    def log2(self, x: Any) -> Any:
        """Logarithm to base 2."""

    @abc.abstractmethod
    def floor(self, x: Any) -> Any:
        """Largest integer not above x."""

    @abc.abstractmethod
    def ceil(self, x: Any) -> Any:
        """Smallest integer not below x."""

    @abc.abstractmethod
    def min(self, x: Any, y: Any) -> Any:
        """The smaller of two."""


class Exact(Terms):
    """Rational arithmetic; a root that is irrational, or a logarithm, becomes a float."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__({name: Fraction(value) for name, value in sizes.items()})

    def sqrt(self, x: Any) -> Any:
        """A Fraction where the root is rational, else a float."""
        if isinstance(x, Fraction):
            root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
            if root * root == x:
                return root
        return math.sqrt(x)

    def log2(self, x: Any) -> Any:
        """A float."""
        return math.log2(x)

    def floor(self, x: Any) -> Any:
        """Exact for fractions; ⌊√x⌋ is asked for through `isqrt`-safe rationals only."""
        return Fraction(math.floor(x))

    def ceil(self, x: Any) -> Any:
        """Exact for fractions."""
        return Fraction(math.ceil(x))

    def min(self, x: Any, y: Any) -> Any:
        """The smaller of two."""
        return min(x, y)


class Arrays(Terms):
    """NumPy float64: one formula over many points."""

    def __init__(self, sizes: Mapping[str, Any]) -> None:
        super().__init__({name: np.asarray(v, dtype=np.float64) for name, v in sizes.items()})

    def sqrt(self, x: Any) -> Any:
        """Elementwise."""
        return np.sqrt(x)

    def log2(self, x: Any) -> Any:
        """Elementwise."""
        return np.log2(x)

    def floor(self, x: Any) -> Any:
        """Elementwise."""
        return np.floor(x)

    def ceil(self, x: Any) -> Any:
        """Elementwise."""
        return np.ceil(x)

    def min(self, x: Any, y: Any) -> Any:
        """Elementwise."""
        return np.minimum(x, y)


class Symbolic(Terms):
    """sympy: the sizes are the symbols made by `sym`."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__({name: sym(name) for name in names})

    def sqrt(self, x: Any) -> Any:
        """sympy.sqrt."""
        import sympy

        return sympy.sqrt(x)

    def log2(self, x: Any) -> Any:
        """sympy.log to base 2."""
        import sympy

        return sympy.log(x, 2)

    def floor(self, x: Any) -> Any:
        """sympy.floor."""
        import sympy

        return sympy.floor(x)

    def ceil(self, x: Any) -> Any:
        """sympy.ceiling."""
        import sympy

        return sympy.ceiling(x)

    def min(self, x: Any, y: Any) -> Any:
        """sympy.Min."""
        import sympy

        return sympy.Min(x, y)


def _always(t: Terms) -> str | None:
    return None


@dataclass(frozen=True)
class Bound:
    """A lower or an upper bound on the words moved between the two levels, loads plus stores.

    name
        how the command line and the tables call it.
    kind
        "lower": every algorithm of the class moves at least so many words.
        "upper": a named algorithm moves at most so many.
    strength
        "exact": all constants are explicit and it holds at every finite size where it applies.
        "asymptotic": it holds up to an unnamed constant; hold it against fitted slopes only.
    problem
        "attention", "matmul" or "copy".
    covers
        the algorithms it holds for: for a lower bound all of them, for an upper bound the one
        that attains it.
    formula
        the words, as a function of `Terms`.
    validity
        where it applies, as a sentence; `outside` is the same as a function.
    source
        paper and theorem.
    outside
        `Terms` (exact numbers) → the reason why it does not apply there, or None.
    proof
        the name of its proof in proofs/, without a suffix, or None.
    numeric
        where the words need an optimisation rather than a formula: ``{size: integers}`` with M,
        arrays of one shape → words, a float64 array of that shape.
    classes
        the classes that a lower bound covers: all of them for one in print, none for an upper
        bound, which is the count of a single algorithm.
    """

    name: str
    kind: Kind
    strength: Strength
    problem: str
    covers: str
    formula: Callable[[Any], Any]
    validity: str
    source: str
    outside: Callable[[Any], str | None] = _always
    proof: str | None = None
    numeric: Callable[[Mapping[str, Ints]], Floats] | None = None
    classes: tuple[BoundClass, ...] = tuple(CLASSES.values())

    @property
    def expression(self) -> Any:
        """The sympy expression, over the symbols `sym(size)` and `sym("M")`.

        Not clipped at 0, as `words` is.  Imports sympy.
        """
        return self.formula(Symbolic((*axis_names(self.problem), "M")))

    @property
    def everywhere(self) -> bool:
        """Whether it applies at all sizes, so that `curve` needs no check."""
        return self.outside is _always

    def _sizes(self, problem: Problem, M: int) -> dict[str, int]:
        if problem.kind != self.problem:
            raise InputError(
                f"{self.name} bounds {self.problem}, got {problem!r}: "
                f"choose a bound for {problem.kind}"
            )
        return {**problem.sizes, "M": check_size("M", M)}

    def why_not(self, problem: Problem, M: int) -> str | None:
        """Why the bound does not apply to `problem` with M words, or None where it applies.

        Raises InputError for a problem of another kind, or an M that is no size.
        """
        return self.outside(Exact(self._sizes(problem, M)))

    def applies(self, problem: Problem, M: int) -> bool:
        """Whether the theorem covers these sizes; `why_not` gives the reason if not."""
        return self.why_not(problem, M) is None

    def exact(self, problem: Problem, M: int) -> Fraction | float:
        """The words, as a Fraction where no irrational root or logarithm is involved.

        A lower bound that comes out negative is given as 0.  Raises InputError
        where the bound does not apply: it is never extrapolated.
        """
        sizes = self._sizes(problem, M)
        reason = self.outside(Exact(sizes))
        if reason is not None:
            raise InputError(
                f"{self.name} does not apply: {reason}; choose sizes inside, or another bound"
            )
        if self.numeric is None:
            value = self.formula(Exact(sizes))
        else:
            value = self.numeric({name: np.array([size]) for name, size in sizes.items()})[0]
        return max(Fraction(0), value) if isinstance(value, Fraction) else max(0.0, float(value))

    def words(self, problem: Problem, M: int) -> float:
        """The words as a float; otherwise like `exact`."""
        return float(self.exact(problem, M))

    def curve(self, **sizes: Any) -> Any:
        """The words at many points: sizes and M as broadcastable arrays → float64 array.

        Sizes with a default (heads = 1) may be left out.  Clipped at 0 like `words`; whether the
        bound applies at each point is **not** checked here (use `applies`).  Raises InputError if
        a size is missing.
        """
        sizes = _default_sizes(self.problem) | sizes
        need = {*axis_names(self.problem), "M"}
        if set(sizes) != need:
            raise InputError(f"{self.name} needs {sorted(need)}, got {sorted(sizes)}: give each")
        shape = np.broadcast_shapes(*(np.shape(v) for v in sizes.values()))
        if self.numeric is None:
            words = np.broadcast_to(self.formula(Arrays(sizes)), shape)
        else:
            words = self.numeric({name: np.broadcast_to(v, shape) for name, v in sizes.items()})
        return np.maximum(0.0, words)
