"""Names that were replaced by the field's: the old ones work for one version, and warn once."""

from __future__ import annotations

import warnings
from functools import cache


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
