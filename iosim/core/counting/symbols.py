"""Exact formulas: the closed form of a program as sympy expressions.

The rule that closes loops lives in `iosim.core.counting.closed`; here its polynomials become sympy.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, assert_never

import sympy

from iosim.base.display import Displayed
from iosim.base.errors import InputError
from iosim.base.rows import Values
from iosim.core.counting.closed import Level, close, highest
from iosim.core.counting.poly import Atom, Clip, Part, Row, Sum, Trips
from iosim.core.counts import Counts, Key
from iosim.core.program.index import Affine, Edge, Name, Span, Tile
from iosim.core.program.ir import Program
from iosim.core.program.space import covered, inside, leasts
from iosim.core.program.walk import bind


def sym(name: str, least: int = 1) -> sympy.Symbol:
    """The one symbol of a size or tile: a positive integer, the same as `iosim.bounds.sym`.

    A stationary part may be 0, and `least=0` makes its symbol non-negative.

    Substitute these, never strings: ``expr.subs({"N": 8})`` would mean the function `sympy.N`.
    """
    assumption = {"positive": True} if least > 0 else {"nonnegative": True}
    return sympy.Symbol(name, integer=True, **assumption)


class MaxOver(sympy.Expr):  # type: ignore[misc]
    """The largest value of an expression over t = a … b; args are the expression and (t, a, b)."""

    def _latex(self, printer: Any) -> str:
        body, (number, first, last) = self.args
        t, a, b, words = (printer._print(x) for x in (number, first, last, body))
        return rf"\max_{{{t} = {a}}}^{{{b}}} \left({words}\right)"

    def _mathml_presentation(self, printer: Any) -> Any:
        """As a sum, with max in the place of its sign."""
        found = printer._print(sympy.Sum(*self.args))
        sign = found.getElementsByTagName("mo")[0]
        sign.firstChild.data = "max"
        return found


# sympy compares both sides for all sizes; the same edges come again in each tensor of a loop.
_smaller, _larger = (functools.lru_cache(maxsize=4096)(f) for f in (sympy.Min, sympy.Max))


class _Symbols:
    """Atom → its sympy expression, for one program.

    Args:
        open_: the edges of the tiles of open loops.
        known: names that have a value.
    """

    def __init__(
        self,
        program: Program,
        open_: Mapping[Edge, Any] | None = None,
        known: Values | None = None,
    ) -> None:
        self.program, self.open, self.known = program, dict(open_ or {}), known or {}
        self._least = leasts(program)

    def name(self, name: Name) -> Any:
        if isinstance(name, Edge):
            return self.open[name]
        if name in self.known:
            return sympy.sympify(self.known[name])
        return sym(name, self._least.get(name, 1))

    def affine(self, value: Affine) -> Any:
        terms = (c * self.name(name) for name, c in value.terms)
        return sympy.Integer(value.const) + sympy.Add(*terms)

    def __call__(self, atom: Atom) -> Any:
        match atom:
            case str():
                return self.name(atom)
            case Trips(length, step):
                return sympy.ceiling(self.affine(length) / self.name(step))
            case Part(span, step):
                start, stop = self._span_edges(span)
                return (
                    stop - start
                    if step is None
                    else sympy.ceiling((stop - start) / self.name(step))
                )
            case Clip(length, step):
                return sympy.Min(self._length(length), self.name(step), evaluate=False)
            case Sum(tile, span, step, factors):
                inner, limits = self._inside(tile, span, step)
                return sympy.Sum(sympy.Mul(*map(inner, factors)), limits)
            case Tile():
                start, stop = covered(atom, self.open)
                return stop - start
            case Row():
                raise AssertionError(f"{atom} is open: close the loop of {atom.rows} first")
            case _:
                assert_never(atom)

    def _length(self, length: Affine | Part | Tile | Clip) -> Any:
        return self.affine(length) if isinstance(length, Affine) else self(length)

    def _span_edges(self, span: Span) -> tuple[Any, Any]:
        """Where a span lies, cut at its axis, or to what is within."""
        start, stop = self.affine(span.start), self.affine(span.stop)
        if not span.edges:
            return start, stop
        low, high = sympy.Integer(0), self.name(span.axis)
        if span.within is not None:
            first, last = map(self.affine, span.within)
            low = _smaller(_larger(first, 0), high)
            high = _larger(low, _smaller(last, high))
        start = _smaller(_larger(start, low), high)
        return start, _larger(start, _smaller(stop, high))

    def _inside(self, tile: Tile, span: Span, step: str | None) -> tuple[_Symbols, Any]:
        """The reading inside a loop, and the range of the loop's number."""
        start, stop = self._span_edges(span)
        by = sympy.Integer(1) if step is None else self.name(step)
        number = sympy.Symbol(tile.var, integer=True, nonnegative=True)
        first = start + number * by
        last = first + 1 if step is None else _smaller(first + by, stop)
        trips = sympy.ceiling((stop - start) / by)
        open_ = inside(self.open, tile, (first, last))
        return _Symbols(self.program, open_, self.known), (number, 0, trips - 1)

    def most(self, level: Level) -> Any:
        inner, limits = self, []
        for loop in level.over:
            inner, limit = inner._inside(loop.tile, loop.span, loop.step)
            limits.append(limit)
        words = functools.reduce(
            inner.where, level.conditions, sympy.sympify(level.words.evaluate(inner))
        )
        for limit in reversed(limits):
            words = MaxOver(words, sympy.Tuple(*limit))
        return words

    def where(self, words: Any, length: Affine | Part) -> Any:
        return sympy.Piecewise((words, self._length(length) > 0), (0, True))

    def largest(self, words: Sequence[Any]) -> Any:
        return sympy.Max(*words, evaluate=False) if len(words) > 1 else sum(words)


@dataclass(frozen=True)
class Formula(Displayed):
    """A program's exact counts and peak.

    Attributes:
        words: ``(direction, tensor)`` → expression in axes and tile parameters, in words.
        peak_words: the largest occupancy, in words.
        assumptions: what the parameters must satisfy for the formula to hold.
    """

    program: Program
    words: Mapping[Key, Any]
    peak_words: Any
    assumptions: tuple[Any, ...]
    html_by = "iosim.report.views:formula"

    def __repr__(self) -> str:
        return f"<Formula of {self.program!r}>"

    def _repr_latex_(self) -> str:
        told = [(f"{way}_{{{tensor}}}", words) for (way, tensor), words in self.words.items()]
        told += [("total", self.total_words), ("peak", self.peak_words)]
        names = self.total_words.free_symbols | self.peak_words.free_symbols
        upright = {x: rf"\mathrm{{{x}}}" for x in names if len(str(x)) > 3}
        lines = (
            rf"\mathrm{{{name}}} &= {sympy.latex(words, symbol_names=upright)}"
            for name, words in told
        )
        return "$$\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}$$"

    @property
    def load_words(self) -> Any:
        """Words read from slow memory."""
        return sympy.Add(*(e for (way, _), e in self.words.items() if way == "load"))

    @property
    def store_words(self) -> Any:
        """Words written to slow memory."""
        return sympy.Add(*(e for (way, _), e in self.words.items() if way == "store"))

    @property
    def total_words(self) -> Any:
        """Words moved in either direction."""
        return self.load_words + self.store_words

    def at(
        self,
        sizes: Mapping[str, int],
        tiles: Mapping[str, int],
        masks: Values | None = None,
    ) -> tuple[Counts, int]:
        """Evaluate counts and peak at numbers, as for `bind`; tiles are clipped to their axis.

        Raises InputError for unknown or missing names.
        """
        env = bind(self.program, sizes, tiles, masks).env
        symbols = _Symbols(self.program)
        at = {symbols.name(name): value for name, value in env.items()}
        counts = Counts.of({key: _number(e, at) for key, e in self.words.items()})
        return counts, _number(self.peak_words, at)


def derive_words(program: Program, known: Values | None = None) -> dict[Key, Any]:
    """The words of a program by direction and tensor, as expressions.

    Args:
        known: sizes or tiles that have a value: a number, or a sympy expression.

    Raises ProgramError where a transfer is not linear in a tile, so that no closed form exists.

    >>> from iosim import algorithm
    >>> derive_words(algorithm("flash2").program, {"B_r": 128})["load", "K"]
    N*d*heads*ceiling(N/128)
    """
    symbols = _Symbols(program, known=known)
    counts = close(program).counts
    return {key: sympy.sympify(poly.evaluate(symbols)) for key, poly in counts.items()}


def count(program: Program) -> Formula:
    """Derive the exact formulas of a program.

    Raises ProgramError where a transfer is not linear in a tile, so that no closed form exists.
    """
    closed, symbols = close(program), _Symbols(program)
    words = derive_words(program)
    peak_words = highest(closed.peak, symbols)
    # That sizes are positive integers is an assumption of the symbols themselves.
    extents = {
        name: symbols.name(name) for p in program.params for name in (p.axis, p.less) if name
    }
    bounds = [symbols.name(p.name) <= p.most(extents) for p in program.params]
    return Formula(program, words, sympy.sympify(peak_words), tuple(bounds))


def peak(program: Program) -> Any:
    """The exact peak occupancy of a program, in words, as a sympy expression."""
    return count(program).peak_words


def _number(expr: Any, at: Mapping[Any, int]) -> int:
    """The value of an expression; sums and maxima over tiles are taken a tile at a time."""
    try:
        value = _value(expr, at)
    except KeyError:
        raise InputError(f"{expr} is not a number: bind every size and tile") from None
    assert value == int(value), f"{expr} is {value}, no whole number"
    return int(value)


_PLAIN: dict[Any, Callable[..., Any]] = {
    sympy.Add: lambda *x: sum(x),
    sympy.Mul: lambda *x: math.prod(x),
    sympy.Pow: lambda base, power: Fraction(base) ** int(power),
    sympy.Min: min,
    sympy.Max: max,
    sympy.ceiling: math.ceil,
    sympy.floor: math.floor,
    sympy.StrictGreaterThan: operator.gt,
    sympy.GreaterThan: operator.ge,
    sympy.StrictLessThan: operator.lt,
    sympy.LessThan: operator.le,
}


def _value(expr: Any, at: Mapping[Any, int]) -> Any:
    """The value in Python's numbers: sympy would reason about the terms of every tile again."""
    if isinstance(expr, sympy.Symbol):
        return at[expr]
    if isinstance(expr, (sympy.Sum, MaxOver)):
        body, *inner, (number, first, last) = expr.args
        body = expr.func(body, *inner) if inner else body  # sympy joins sums of sums
        rows = range(int(_value(first, at)), int(_value(last, at)) + 1)
        values = (_value(body, {**at, number: k}) for k in rows)
        return sum(values) if isinstance(expr, sympy.Sum) else max(values, default=0)
    if isinstance(expr, sympy.Piecewise):
        return next(_value(x, at) for x, where in expr.args if _value(where, at))
    if expr.is_Rational:
        return Fraction(int(expr.p), int(expr.q))
    if expr in (sympy.true, sympy.false):
        return bool(expr)
    return _PLAIN[expr.func](*(_value(x, at) for x in expr.args))
