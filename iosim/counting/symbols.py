"""Exact formulas: the closed form of a program as sympy expressions.

The rule that closes loops lives in `iosim.counting.closed`; here its polynomials become sympy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from iosim.counting.closed import Atom, Clip, Trips, close, highest
from iosim.counts import Counts, Key
from iosim.errors import InputError
from iosim.program.ir import Affine, Program
from iosim.program.walk import bind


def sym(name: str, least: int = 1) -> sympy.Symbol:
    """The one symbol of a size or tile: a positive integer, the same as `iosim.bounds.sym`.

    A hold may be 0, and `least=0` makes its symbol non-negative.

    Substitute these, never strings: ``expr.subs({"N": 8})`` would mean the function `sympy.N`.
    """
    assumption = {"positive": True} if least > 0 else {"nonnegative": True}
    return sympy.Symbol(name, integer=True, **assumption)


class _Symbols:
    """Atom → its sympy expression, for one program."""

    def __init__(self, program: Program) -> None:
        self._least = {p.name: p.least for p in program.params}

    def name(self, name: str) -> sympy.Symbol:
        return sym(name, self._least.get(name, 1))

    def affine(self, value: Affine) -> Any:
        terms = (c * self.name(name) for name, c in value.terms)
        return sympy.Integer(value.const) + sympy.Add(*terms)

    def __call__(self, atom: Atom) -> Any:
        if isinstance(atom, Trips):
            return sympy.ceiling(self.affine(atom.length) / self.name(atom.step))
        if isinstance(atom, Clip):
            length = self.affine(atom.length)
            return sympy.Min(length, self.name(atom.step), evaluate=False)
        return self.name(str(atom))

    def where(self, words: Any, length: Affine) -> Any:
        return sympy.Piecewise((words, self.affine(length) > 0), (0, True))

    def largest(self, words: Sequence[Any]) -> Any:
        return sympy.Max(*words, evaluate=False) if len(words) > 1 else sum(words)


@dataclass(frozen=True)
class Formula:
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

    @property
    def load_words(self) -> Any:
        """Words read from HBM."""
        return sympy.Add(*(e for (way, _), e in self.words.items() if way == "load"))

    @property
    def store_words(self) -> Any:
        """Words written to HBM."""
        return sympy.Add(*(e for (way, _), e in self.words.items() if way == "store"))

    @property
    def total_words(self) -> Any:
        """Words moved in either direction."""
        return self.load_words + self.store_words

    def at(self, sizes: Mapping[str, int], tiles: Mapping[str, int]) -> tuple[Counts, int]:
        """Evaluate counts and peak at numbers; tiles are clipped to their axis.

        Raises InputError for unknown or missing names.
        """
        env = bind(self.program, sizes, tiles).env
        # xreplace puts all numbers in at once; subs would leave Max and Min with one symbol
        # after the other still free, and reason about them each time.
        symbols = _Symbols(self.program)
        at = {symbols.name(name): sympy.Integer(value) for name, value in env.items()}
        counts = Counts.of({key: _int(e.xreplace(at)) for key, e in self.words.items()})
        return counts, _int(self.peak_words.xreplace(at))


def count(program: Program) -> Formula:
    """Derive the exact formulas of a program.

    Raises ProgramError where a transfer is not linear in a tile, so that no closed form exists.
    """
    closed, symbols = close(program), _Symbols(program)
    words = {key: sympy.sympify(poly.evaluate(symbols)) for key, poly in closed.counts.items()}
    peak_words = highest(
        ((v.words.evaluate(symbols), sorted(v.runs, key=str)) for v in closed.peak), symbols
    )
    # That sizes are positive integers is an assumption of the symbols themselves.
    bounds = [symbols.name(p.name) <= symbols.name(p.axis) for p in program.params]
    return Formula(program, words, sympy.sympify(peak_words), tuple(bounds))


def peak(program: Program) -> Any:
    """The exact peak occupancy of a program, in words, as a sympy expression."""
    return count(program).peak_words


def _int(expr: Any) -> int:
    value = expr if expr.is_Integer else sympy.simplify(expr)
    if not value.is_Integer:
        raise InputError(f"{expr} is not a number: bind every size and tile")
    return int(value)
