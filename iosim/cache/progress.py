"""Runs long loops over arrays in parts, and reports between them how far the loop is.

`methods`, `tiles` and `address_ranges` call it.  ``tests/cache/test_cache_tiles.py`` compares what
it reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

# Is called with how many are done, and of how many.
Watch: TypeAlias = Callable[[int, int], None]

# What is done between two looks.
AT_ONCE = 2**16


def unwatched(done: int, of: int) -> None:
    """Report to nobody."""


def parts(many: int, watch: Watch) -> Iterator[slice]:
    """Slices of this many, in order; `watch` is called after each.

    >>> len(list(parts(10**6, unwatched)))
    16
    """
    for low in range(0, many, AT_ONCE):
        high = min(low + AT_ONCE, many)
        yield slice(low, high)
        watch(high, many)


def stage(number: int, of: int, watch: Watch) -> Watch:
    """A watch of one of several stages that take about as long, counted from 0 on.

    >>> stage(1, 2, print)(0, 10)
    5 10
    """
    return lambda done, many: watch((number * many + done) // of, many)
