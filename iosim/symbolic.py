"""Exact formulas: the closed form of a program as sympy expressions.

The rule that closes loops lives in `iosim.program.closed`; here its polynomials become sympy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy

from iosim.counts import Counts, Key
from iosim.errors import InputError
from iosim.program.closed import Atom, Clip, Trips, close
from iosim.program.ir import Affine, Program
from iosim.program.walk import bind


def sym(name: str) -> sympy.Symbol:
    """The one symbol of that name: a non-negative integer.

    Substitute these, never strings: ``expr.subs({"N": 8})`` would mean the function `sympy.N`.
    """
    return sympy.Symbol(name, integer=True, nonnegative=True)


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
        at = {sym(name): sympy.Integer(value) for name, value in env.items()}
        counts = Counts.of({key: _int(e.xreplace(at)) for key, e in self.words.items()})
        return counts, _int(self.peak_words.xreplace(at))


def count(program: Program) -> Formula:
    """Derive the exact formulas of a program.

    Raises ProgramError where a transfer is not linear in a tile, so that no closed form exists.
    """
    closed = close(program)
    words = {key: sympy.sympify(poly.evaluate(_value)) for key, poly in closed.counts.items()}
    levels = []
    for level in closed.peak:
        expr = sympy.sympify(level.words.evaluate(_value))
        for trips in sorted(level.runs, key=str):
            expr = sympy.Piecewise((expr, _affine(trips.length) > 0), (0, True))
        levels.append(expr)
    bounds: list[Any] = [sym(axis) >= 1 for axis in sorted({a for t in program.tensors
                                                            for a in t.axes})]  # fmt: skip
    for p in program.params:
        bounds += [sym(p.name) >= p.least, sym(p.name) <= sym(p.axis)]
    bounds = [b for b in bounds if b is not sympy.true]
    peak_words = sympy.Max(*levels, evaluate=False) if len(levels) > 1 else sum(levels)
    return Formula(program, words, sympy.sympify(peak_words), tuple(bounds))


def peak(program: Program) -> Any:
    """The exact peak occupancy of a program, in words, as a sympy expression."""
    return count(program).peak_words


def _affine(value: Affine) -> Any:
    return sympy.Integer(value.const) + sympy.Add(*(c * sym(name) for name, c in value.terms))


def _value(atom: Atom) -> Any:
    if isinstance(atom, Trips):
        return sympy.ceiling(_affine(atom.length) / sym(atom.step))
    if isinstance(atom, Clip):
        return sympy.Min(_affine(atom.length), sym(atom.step), evaluate=False)
    return sym(str(atom))


def _int(expr: Any) -> int:
    value = expr if expr.is_Integer else sympy.simplify(expr)
    if not value.is_Integer:
        raise InputError(f"{expr} is not a number: bind every size and tile")
    return int(value)
