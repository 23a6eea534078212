"""Deprecated names: each works for one more version, and warns the first time that it is used.

Whatever keeps an old name calls `renamed` when that is used: `iosim.sweep.grid`, and
`iosim.base.moved` for modules.  The command line prints `format_renaming` instead of a warning.

Changing this file: keep the message, which tests compare; `functools.cache` on `renamed`, which
makes each warning come once, and which tests clear; and the frame that is blamed, so that Python
shows the warning to whoever used the name.
"""

from __future__ import annotations

import warnings
from functools import cache


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
