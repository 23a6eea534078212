"""A ring of lines for each set: the newest after the set's own entry, the oldest before it."""

from __future__ import annotations

from iosim.cache.policies.base import Shape, Start, State


def start(shape: Shape) -> Start:
    """The ring's two arrays, all rings empty: who is before, and who is after."""
    return shape.per_line(), shape.per_line()


def push(ring: State, s: int, line: int) -> None:
    """Put a line where the newest is."""
    before, after = ring
    newest = after[s]
    before[line] = s
    after[line] = newest
    before[newest] = line
    after[s] = line


def drop(ring: State, line: int) -> None:
    """Take a line out."""
    before, after = ring
    a = before[line]
    b = after[line]
    after[a] = b
    before[b] = a


def pop(ring: State, s: int) -> int:
    """Take the oldest line out, and say which it was."""
    before, after = ring
    oldest: int = before[s]
    a = before[oldest]
    before[s] = a
    after[a] = s
    return oldest
