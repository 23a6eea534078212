"""Sizes, and functions of them, as a bound's formula uses them: numbers, arrays or symbols.

A formula is a function of `Terms`, and is called with one of its subclasses.  Besides the sizes of
the problem's form, it may use what follows from them: for attention the heads, and how many pairs,
rows and columns a mask leaves.  The lab has one more subclass (`iosim.lab.data.traced`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from iosim.base.arrays import Floats
from iosim.base.errors import InputError
from iosim.base.rows import Values
from iosim.base.validate import LARGEST_SIZE
from iosim.core.problem import PROBLEMS, WHOLE, Arithmetic, Form


@functools.cache
def sym(name: str, positive: bool = True) -> Any:
    """The sympy symbol of a size (N, d, heads, m, n, k) or of the memory M: a positive integer.

    The limits of a window may be 0: their symbols are nonnegative.

    Substitute with symbol objects only: in `expr.subs({"N": 8})` the string becomes the function
    `sympy.N`, and symbols made from strings carry no assumptions.

    >>> sym("N") * sym("d")
    N*d
    """
    import sympy

    sign = {"positive": True} if positive else {"nonnegative": True}
    return sympy.Symbol(name, integer=True, **sign)


def check_entries(name: str, values: Any, least: int = 1) -> None:
    """Raise InputError unless an array holds integers in [least, 2**40] only."""
    given = np.asarray(values)
    if not np.issubdtype(given.dtype, np.integer):
        raise InputError(f"{name} has entries of type {given.dtype}: give integers")
    if given.size and not (given.min() >= least and given.max() <= LARGEST_SIZE):
        raise InputError(
            f"{name} has entries {given.min()}..{given.max()}, "
            f"outside {least}..{LARGEST_SIZE} (2**40): choose sizes inside"
        )


def _real(x: Any) -> Any:
    return np.asarray(x, dtype=np.float64)


_ELEMENTWISE = Arithmetic(np.minimum, np.maximum, lambda x: x // 2, _real)


def _to_integers(values: Any) -> Any:
    """Whole numbers as int64, as Python's integers where products of two may be beyond 2**62."""
    numbers = np.asarray(values)
    return numbers.astype(object) if numbers.size and numbers.max() >= 2**29 else numbers


# Floats are whole words' worth apart from 2**53 on; from here on bounds are rounded down.
ROUNDED_FROM = 2.0**48


def below(value: Fraction | float) -> float:
    """A float that is at most the value: the nearest one, or for floats some digits below.

    A float stands for a number that it may exceed by rounding, by 2**-49 of it at most.  One below
    2**48 is returned as it is: it exceeds its number by half a word at most.

    >>> below(Fraction(2**53 + 1)) == 2**53, below(2.0**60) < 2**60, below(21.5)
    (True, True, 21.5)
    """
    if isinstance(value, Fraction):
        near = float(value)
        return math.nextafter(near, -math.inf) if near > value else near
    return float(lowered(value))


def lowered(values: Any) -> Any:
    """`below` of floats in an array."""
    return np.where(values < ROUNDED_FROM, values, values * (1 - 2.0**-48))


# Points that are evaluated at once.
_CHUNK = 1 << 15


def in_chunks(words: Callable[..., Any], sizes: Values) -> Floats:
    """A function of float64 arrays by name, of arrays that broadcast, some points at a time.

    Raises InputError if they do not broadcast.

    >>> in_chunks(lambda M, N: N * N / M, {"M": [4, 8], "N": 4})
    array([4., 2.])
    """
    given = {name: np.asarray(v) for name, v in sizes.items()}
    try:
        arrays = np.broadcast_arrays(*given.values())
    except ValueError:
        shapes = ", ".join(f"{name} {v.shape}" for name, v in given.items())
        raise InputError(f"shapes {shapes} do not broadcast: give shapes that do") from None
    shape = arrays[0].shape
    flat = [np.asarray(v, dtype=np.float64).ravel() for v in arrays]
    out: Floats = np.empty(flat[0].size)
    for start in range(0, out.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        out[part] = words(**dict(zip(given, (v[part] for v in flat), strict=True)))
    return out.reshape(shape)


class Terms:
    """Sizes as attributes, and the functions a formula may use: NumPy's, if not others.

    `t.N`, `t.d`, `t.heads`, `t.m`, `t.n`, `t.k` and `t.M` are the sizes.  Of attention there are
    also `t.N_k`, `t.d_v` and `t.kv_heads`, given or not; `t.scores`, `t.rows` and `t.columns`, the
    pairs that a mask leaves to one head, and the rows and columns that occur in them; and
    `t.pairs`, those of all heads.
    """

    sqrt: Callable[[Any], Any] = np.sqrt
    log2: Callable[[Any], Any] = np.log2
    floor: Callable[[Any], Any] = np.floor
    ceil: Callable[[Any], Any] = np.ceil
    min: Callable[[Any, Any], Any] = np.minimum
    larger: Callable[[Any, Any], Any] = np.maximum

    def __init__(self, sizes: Values) -> None:
        self._sizes = dict(sizes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._sizes:
            raise AttributeError(name)
        return self._sizes[name]

    def products(self) -> Any:
        """How many products there are; no term of a bound is of another order than this, or M."""
        of = self._sizes
        if "pairs" in of:
            return of["pairs"] * (of["d"] + of["d_v"])
        return math.prod((of[x] for x in of if x != "M"), start=1)

    def max(self, *values: Any) -> Any:
        """The largest of several."""
        return functools.reduce(self.larger, values)


class Exact(Terms):
    """Rational arithmetic; a root that is irrational, or a logarithm, becomes a float."""

    log2: Callable[[Any], Any] = math.log2
    min: Callable[[Any, Any], Any] = min
    larger: Callable[[Any, Any], Any] = max

    def __init__(self, form: Form, sizes: Mapping[str, int]) -> None:
        known = dict(sizes) | PROBLEMS[form.kind].follow(form, sizes, WHOLE)
        super().__init__({name: Fraction(value) for name, value in known.items()})

    def sqrt(self, x: Any) -> Any:
        """A Fraction where the root is rational, else a float."""
        if isinstance(x, Fraction):
            root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
            if root * root == x:
                return root
        return math.sqrt(x)

    def floor(self, x: Any) -> Any:
        """Exact for fractions; ⌊√x⌋ is computed through `isqrt`-safe rationals only."""
        return Fraction(math.floor(x))

    def ceil(self, x: Any) -> Any:
        """Exact for fractions."""
        return Fraction(math.ceil(x))


class Close(Exact):
    """Rational arithmetic; roots that are irrational are rounded down, 256 bits after the point."""

    def sqrt(self, x: Any) -> Any:
        """A Fraction."""
        x = Fraction(x)
        near = math.isqrt((x.numerator * x.denominator) << 512)
        return Fraction(near, x.denominator << 256)


class Arrays(Terms):
    """NumPy float64: one formula over many points."""

    def __init__(self, form: Form, sizes: Values) -> None:
        floats = {name: _real(v) for name, v in sizes.items()}
        # What a mask leaves may be a small difference of large numbers.
        exact = floats if form.mask is None else {x: _to_integers(v) for x, v in sizes.items()}
        follow = PROBLEMS[form.kind].follow(form, exact, _ELEMENTWISE)
        super().__init__(floats | {x: _real(v) for x, v in follow.items()})

    def each(self, words: Callable[..., Any], **values: Any) -> Any:
        """A function of NumPy's functions alone, at every point: see `in_chunks`."""
        return in_chunks(words, values)


class Symbolic(Terms):
    """sympy: the sizes are the symbols made by `sym`."""

    def __init__(self, form: Form) -> None:
        import sympy

        sizes = {name: sym(name, name not in form.limits) for name in (*form.sizes, "M")}
        by = Arithmetic(sympy.Min, sympy.Max, lambda x: x / 2, lambda x: x)
        super().__init__(sizes | PROBLEMS[form.kind].follow(form, sizes, by))
        self.sqrt, self.floor, self.ceil = sympy.sqrt, sympy.floor, sympy.ceiling
        self.log2 = lambda x: sympy.log(x, 2)
        self.min = sympy.Min

    def max(self, *values: Any) -> Any:
        """sympy.Max, unevaluated: sympy would compare all pairs of the values for all sizes."""
        import sympy

        return sympy.Max(*values, evaluate=False)
