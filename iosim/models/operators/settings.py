"""What the value of a setting may be, by its name, which means the same in every kind.

`iosim.models.operators.operator` calls it.  A setting has a row in `RULES` unless the type of its
default says enough.  ``tests/models/test_operators.py`` gives each one a wrong value, and
``test_graph_files.py`` compares messages.

>>> checked("P", "epsilon", 1e-5, 1e-6)
1e-06
>>> checked("P", "epsilon", 1e-5, "small")
Traceback (most recent call last):
iosim.base.errors.InputError: P: epsilon must be a number ≥ 0, got 'small'
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from iosim.base.errors import InputError
from iosim.core.problem import MarkedTiles


def _is_size(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= 2**40


def _number(value: Any) -> bool:
    """Finite."""
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and abs(value) < math.inf and abs(value) <= 1e300


def _limits(value: Any) -> bool:
    return value is None or (
        isinstance(value, tuple)
        and len(value) == 2
        and all(x is None or _is_size(x) for x in value)
        and value != (None, None)
    )


def _part(value: Any) -> bool:
    return value is None or (
        isinstance(value, tuple)
        and all(
            isinstance(x, tuple)
            and len(x) == 3
            and _is_size(x[0])
            and _is_size(x[1], 1)
            and _is_size(x[2], 1)
            for x in value
        )
    )


Rule = tuple[Callable[[Any], bool], str]
_FLAG: Rule = (lambda x: isinstance(x, bool), "true or false")
_REAL: Rule = (_number, "a finite number")
_NOT_NEGATIVE: Rule = (lambda x: _number(x) and x >= 0, "a number ≥ 0")
_SHARE: Rule = (lambda x: _number(x) and 0 <= x < 1, "a number from 0 to below 1")
_COUNT: Rule = (lambda x: _is_size(x, 1), "an integer ≥ 1")

RULES: dict[str, Rule] = {
    "p": _SHARE,
    "beta1": _SHARE,
    "beta2": _SHARE,
    "epsilon": _NOT_NEGATIVE,
    "active": _NOT_NEGATIVE,
    "decay": _NOT_NEGATIVE,
    "devices": _COUNT,
    "step": _COUNT,
    "causal": _FLAG,
    "seed": (_is_size, "an integer ≥ 0"),
    "window": (_limits, "two limits, integers ≥ 0 or none, at most one none"),
    "blocks": (
        lambda x: x is None or isinstance(x, MarkedTiles),
        "a block mask with its tiles, or none",
    ),
    "part": (_part, "a start, a stop and a step for each axis"),
    "value": (
        lambda x: isinstance(x, int | float) and not isinstance(x, bool) and not math.isnan(x),
        "a number, or an infinity",
    ),
}


def checked(operator: str, setting: str, default: Any, value: Any) -> Any:
    """The value, if a setting may have it; a setting without a rule has the type of its default.

    Raises InputError, with the operator's name, where it may not.
    """
    if setting in RULES:
        allowed, says = RULES[setting]
    elif isinstance(default, bool):
        allowed, says = _FLAG
    elif isinstance(default, str):
        allowed, says = (lambda x: isinstance(x, str)), "text"
    elif isinstance(default, int):
        allowed, says = _is_size, "an integer ≥ 0"
    else:
        allowed, says = _REAL
    if not allowed(value):
        shown = repr(value)
        shown = shown if len(shown) <= 60 else f"{shown[:60]} and so on"
        raise InputError(f"{operator}: {setting} must be {says}, got {shown}")
    return value
