"""A ring of lines for each set, which begins and ends at the set's own entry.

The first two of a policy's arrays are the ring's.  `older` leads from the set to its newest line
and on to the oldest, `newer` the other way round.
"""

from __future__ import annotations

from iosim.cache.policies.base import Shape, Start, State


def start(shape: Shape) -> Start:
    """Empty rings: two arrays, in which each set leads to itself."""
    return shape.per_line(), shape.per_line()


def push(state: State, s: int, line: int) -> None:
    """Put a line in as the newest."""
    newer, older = state[0], state[1]
    newest = older[s]
    newer[line] = s
    older[line] = newest
    newer[newest] = line
    older[s] = line


def drop(state: State, line: int) -> None:
    """Take a line out."""
    newer, older = state[0], state[1]
    a = newer[line]
    b = older[line]
    older[a] = b
    newer[b] = a


def pop(state: State, s: int) -> int:
    """Take the oldest line out, and say which it was."""
    oldest: int = state[0][s]
    drop(state, oldest)
    return oldest
