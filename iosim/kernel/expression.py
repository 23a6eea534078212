"""Expressions of a kernel's arguments, as people type them.

`iosim.kernel.launch` reads ``--grid`` with it.  It runs no code of the text:
``tests/kernel/test_findings.py`` has what it refuses.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from iosim.base.errors import InputError, closest

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cdiv": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
    "abs": abs,
    "int": int,
    "next_power_of_2": lambda n: 1 << max(0, n - 1).bit_length(),
}
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


def calculate(option: str, text: str, names: Mapping[str, Any]) -> list[Any]:
    """The values of expressions that commas separate.

    Args:
        option: what they are given for, as messages say it.
        text: numbers, names, + - * // % ** and a few functions.
        names: values by name; None where one isn't known.

    Raises:
        InputError: a name that isn't known, or something that isn't an expression.

    >>> calculate("--grid", "cdiv(N, BLOCK), 2 * N", {"N": 100, "BLOCK": 64})
    [2, 200]
    """
    try:
        parts = parse_expressions(text)
    except SyntaxError:
        raise InputError(
            f"{option} {text!r} isn't an expression: write it like cdiv(N, BLOCK), Z*H"
        ) from None
    return [_calculate(x, names, f"{option} {text!r}") for x in parts]


def parse_expressions(text: str) -> list[ast.expr]:
    """Expressions that commas separate; as in Python, a last comma and parentheses may be there.

    Raises:
        SyntaxError: it isn't a list of expressions.

    >>> [len(parse_expressions(x)) for x in ("N, 2", "N,", "(N, 2)")]
    [2, 1, 2]
    """
    tree = ast.parse(f"({text.strip().removesuffix(',')},)", mode="eval").body
    if not isinstance(tree, ast.Tuple):
        raise SyntaxError(text)
    only = tree.elts[0]
    return only.elts if len(tree.elts) == 1 and isinstance(only, ast.Tuple) else tree.elts


def _calculate(node: ast.expr, names: Mapping[str, Any], where: str) -> Any:
    """The value of an expression: numbers, names, + - * // % and a few functions."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        if names.get(node.id) is None:
            known = [n for n, v in names.items() if v is not None]
            raise InputError(f"{where} needs {node.id}: {closest(node.id, known)}")
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = (_calculate(x, names, where) for x in (node.left, node.right))
        if isinstance(node.op, ast.Pow) and abs(right) > 64:
            raise InputError(f"{where}: an exponent of {right}")
        try:
            return _OPERATORS[type(node.op)](left, right)
        except ZeroDivisionError:
            raise InputError(f"{where} divides by zero") from None
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_calculate(node.operand, names, where))
    if isinstance(node, ast.Call) and not node.keywords:
        called = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        if called in _FUNCTIONS:
            values = [_calculate(x, names, where) for x in node.args]
            try:
                return _FUNCTIONS[called](*values)
            except ZeroDivisionError:
                raise InputError(f"{where} divides by zero") from None
            except (AttributeError, TypeError, ValueError):
                raise InputError(f"{where}: {called} takes other values") from None
    raise InputError(
        f"{where} contains {ast.unparse(node)}: use numbers, names, + - * // % and "
        f"{', '.join(_FUNCTIONS)}"
    )
