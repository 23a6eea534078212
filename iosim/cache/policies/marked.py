"""A ring of lines with a mark for each: clear when it comes in, set when it is found.

The first three of a policy's arrays are the two of `iosim.cache.policies.ring`, and the marks.
"""

from __future__ import annotations

from iosim.cache.policies import ring
from iosim.cache.policies.base import Shape, Start, State
from iosim.cache.policies.ring import push


def start(shape: Shape) -> Start:
    """Empty rings, and all marks clear."""
    return *ring.start(shape), shape.cells(shape.sets + shape.lines)


def mark(state: State, s: int, line: int) -> None:
    """Set a line's mark."""
    state[2][line] = 1


def enter(state: State, s: int, line: int) -> None:
    """Put a line in as the newest, its mark clear."""
    push(state, s, line)
    state[2][line] = 0
