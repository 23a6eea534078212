"""Formulas as users type them: sums, products, powers, ⌈⌉, ⌊⌋, min and max, in exact fractions.

The page reads the same language, and also products without a sign (``2Nd``).
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from iosim.base.errors import InputError, closest

# Signs that are written in other ways in Python.
_SIGNS = {
    "^": "**",
    "²": "**2",
    "³": "**3",
    "×": "*",
    "·": "*",
    "−": "-",
    "÷": "/",
    "⌈": " ceil(",
    "⌉": ")",
    "⌊": " floor(",
    "⌋": ")",
}
_BINARY: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_CALLS: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "min": min,
    "max": max,
}
MOST_POWER = 16
MOST_BITS = 4096  # of an intermediate number


def evaluate(text: str, env: Mapping[str, int | Fraction]) -> Fraction:
    """The value of a formula.

    Args:
        env: name → number.

    Raises InputError for what is not a formula, unknown names, and a division by 0.

    >>> evaluate("2·N·d·⌈N/B⌉", {"N": 10, "d": 3, "B": 4})
    Fraction(180, 1)
    """
    try:
        return _value(_tree(text).body, env, text)
    except ZeroDivisionError:
        raise InputError(f"{text!r} divides by 0: choose other numbers") from None


def names_in(text: str) -> set[str]:
    """The names that a formula uses.  Raises InputError for what is not a formula.

    >>> sorted(names_in("min(N, M/(4*d))"))
    ['M', 'N', 'd']
    """
    called = {x.func for x in ast.walk(_tree(text)) if isinstance(x, ast.Call)}
    return {x.id for x in ast.walk(_tree(text)) if isinstance(x, ast.Name) and x not in called}


@functools.lru_cache(maxsize=256)
def _tree(text: str) -> ast.Expression:
    if re.search(r"[²³]\s*(?:\^|\*\*|²|³)", text):
        raise InputError(f"{text!r} has a power of a power: put parentheses around the inner one")
    python = "".join(_SIGNS.get(sign, sign) for sign in text).strip()
    try:
        return ast.parse(python, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"{text!r} is not a formula: write one like 2*N*d*ceil(N/B_r), with * in every product"
        ) from None


def _value(node: ast.expr, env: Mapping[str, int | Fraction], text: str) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return Fraction(repr(number))
        case ast.Name(id=name):
            if name not in env:
                raise InputError(f"{text!r} has an unknown name {name!r}: {closest(name, env)}")
            return Fraction(env[name])
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            value = _value(operand, env, text)
            return -value if isinstance(sign, ast.USub) else value
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            power = _value(right, env, text)
            if power.denominator != 1 or abs(power) > MOST_POWER:
                raise InputError(
                    f"{text!r} has the power {power}: give a whole number up to {MOST_POWER}"
                )
            base = _value(left, env, text)
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if bits * abs(power) > MOST_BITS:
                raise InputError(f"{text!r} has too large a power: write smaller numbers")
            return base ** int(power)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            both = _value(left, env, text), _value(right, env, text)
            return _BINARY[type(sign)](*both)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS and args:
            if name in ("ceil", "floor") and len(args) != 1:
                raise InputError(f"{text!r} gives {name} {len(args)} numbers: give it one")
            return Fraction(_CALLS[name](*(_value(x, env, text) for x in args)))
        case _:
            raise InputError(
                f"{text!r} is not a formula: use + - * / ^, ceil, floor, min, max, names, numbers"
            )
