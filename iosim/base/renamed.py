"""Names that were replaced by the field's: the old ones work for one version, and warn once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@cache
def renamed(old: str, new: str, level: int = 3) -> None:
    """Warn, the first time, that an old name was used: a DeprecationWarning at the caller's caller.

    Args:
        level: that many frames up is who used the name.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     renamed("hue", "colour")
    ...     renamed("hue", "colour")
    >>> [str(x.message) for x in seen]
    ['hue is now called colour; the old name goes with the next version']
    """
    warnings.warn(format_renaming(old, new), DeprecationWarning, stacklevel=level)


def format_renaming(old: str, new: str) -> str:
    """What is said of an old name.

    >>> format_renaming("hue", "colour")
    'hue is now called colour; the old name goes with the next version'
    """
    return f"{old} is now called {new}; the old name goes with the next version"


def rename_argument(
    old: str, new: str
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """A decorator of functions that take an argument by its old name, too, and then warn.

    Raises TypeError, at a call, for an argument by both names.

    >>> @rename_argument("hue", "color")
    ... def paint(*, color): return color
    >>> with warnings.catch_warnings(record=True):
    ...     warnings.simplefilter("always")
    ...     color = paint(hue="red")
    >>> color
    'red'
    """

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        @wraps(function)
        def call(*args: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
            if old in options:
                if new in options:
                    raise TypeError(f"{function.__name__}: {old} is {new}: give one")
                renamed(f"{function.__name__}({old}=…)", f"{new}=…")
                options[new] = options.pop(old)
            return function(*args, **options)

        return call

    return decorate
