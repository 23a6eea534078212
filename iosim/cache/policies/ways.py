"""The ways of each set by number, for policies that choose a place and not a line.

The first three of a policy's arrays are: of each set, its first place among all ways; the line at
each place; and of each set, the way that the next line takes.
"""

from __future__ import annotations

from iosim.cache.policies.base import Shape, Start, State


def start(shape: Shape) -> Start:
    """Empty sets, which fill from way 0 on."""
    return shape.first_places(), shape.numbers(shape.sets * shape.ways), shape.numbers(shape.sets)


def insert_line(state: State, s: int, line: int) -> int:
    """Put a line where the next is to go, and say in which way."""
    first, holds, free = state[0], state[1], state[2]
    way: int = free[s]
    holds[first[s] + way] = line
    free[s] = way + 1
    return way


def take(state: State, s: int, way: int) -> int:
    """Take out the line of a way, into which the next one goes, and say which it was."""
    first, holds, free = state[0], state[1], state[2]
    free[s] = way
    line: int = holds[first[s] + way]
    return line
