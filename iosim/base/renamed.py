"""Deprecated names: each works for one more version, and warns the first time that it is used.

Whatever keeps an old name calls `renamed` when that is used, or decorates a function with
`rename_argument`: modules of `iosim.sweep`, `iosim.models` and `iosim.devices`, and
`iosim.base.moved` for modules.  The command line prints `format_renaming` instead of a warning.

Changing this file: keep the message, which tests compare; `functools.cache` on `renamed`, which
makes each warning come once, and which tests clear; and the frame that is blamed, so that Python
shows the warning to whoever used the name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@cache
def renamed(old: str, new: str, level: int = 3) -> None:
    """Issue a DeprecationWarning for an old name, once in a process for the same arguments.

    Args:
        old, new: the names, as users write them.
        level: ``stacklevel`` of `warnings.warn`.  3 blames the caller of the function that calls
            `renamed`.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     renamed("hue", "color")
    ...     renamed("hue", "color")
    >>> [str(x.message) for x in seen]
    ['hue is now called color; the old name goes with the next version']
    """
    warnings.warn(format_renaming(old, new), DeprecationWarning, stacklevel=level)


def format_renaming(old: str, new: str) -> str:
    """The message about an old name, for warnings and for the command line.

    >>> format_renaming("hue", "color")
    'hue is now called color; the old name goes with the next version'
    """
    return f"{old} is now called {new}; the old name goes with the next version"


def rename_argument(
    old: str, new: str
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """A decorator that lets a function take a keyword argument by its old name, with a warning.

    The decorated function raises TypeError if it gets the argument by both names.

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
