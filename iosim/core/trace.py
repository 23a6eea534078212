"""Streams of accesses: what a schedule moves, one transfer at a time."""

from __future__ import annotations

from collections.abc import Iterator

from iosim.core.counts import Counts
from iosim.core.program.walk import Instance, Transfer, walk

__all__ = ["Transfer", "tally", "transfers"]


def transfers(instance: Instance) -> Iterator[Transfer]:
    """The explicit loads and stores of an instance, in program order.

    >>> from iosim import algorithm, bind
    >>> for moved in transfers(bind(algorithm("copy").program, {"n": 3}, {"B": 2})):
    ...     print(moved.direction, moved.tensor, moved.ranges)
    load X ((0, 2),)
    store Y ((0, 2),)
    load X ((2, 3),)
    store Y ((2, 3),)
    """
    return walk(instance)


def tally(instance: Instance) -> Counts:
    """Sum the transfer stream.  Time grows with the number of tiles.

    >>> from iosim import algorithm, bind, count
    >>> instance = bind(algorithm("copy").program, {"n": 3}, {"B": 2})
    >>> tally(instance) == count(instance)
    True
    """
    words = dict.fromkeys(instance.program.keys(), 0)
    for t in transfers(instance):
        words[t.direction, t.tensor] += t.words
    return Counts.of(words)
