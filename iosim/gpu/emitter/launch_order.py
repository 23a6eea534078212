"""In which order the items of a launch start, where a nest is shared by warps.

Items under a causal mask differ in length, and the longest start first, so that none is left for
the end.  `iosim.gpu.emitter.roles` writes `numbers` into the text: from a program's number to the
item that it runs.  Any order is right, since items are independent; it must name each item once.
"""

from __future__ import annotations

import math

from iosim.core.program.ir import Loop
from iosim.gpu.emitter.nests import grows
from iosim.gpu.emitter.places import Places

NEAR = 2**23  # words that the items of one group stream, so that these stay in L2


def numbers(grid: tuple[Loop, ...], where: Places, streamed: int) -> list[tuple[Loop, str]]:
    """The loops of a launch grid, outermost first, each with the number of its tile as text.

    The innermost loop runs fastest.  Where items of a loop's last tiles take longest, these start
    first: of this many of the other loops' tiles at once as stream about `NEAR` words.

    Args:
        streamed: words that all items of one tile of the other loops stream, each once.
    """
    late = [loop for loop in grid if grows(loop)]
    rest = [loop for loop in grid if not grows(loop)]
    found: dict[Loop, str] = {}
    heads = math.prod(where.trips(loop) for loop in rest)
    if len(late) != 1 or heads == 1:
        _split(sorted(grid, key=lambda loop: not grows(loop)), "item", where, found)
        return [(loop, _backwards(loop, found[loop], where)) for loop in grid]
    trips = where.trips(late[0])
    group = max(n for n in range(1, heads + 1) if heads % n == 0 and n <= max(1, NEAR // streamed))
    all_ = group * trips
    above = f"item // {all_} * {group} + " if group < heads else ""
    place = f"item % {all_}" if group < heads else "item"
    found[late[0]] = f"{place} // {group}" if group > 1 else place
    head = f"({above}item % {group})" if above else f"item % {group}"
    head = head if group > 1 else f"item // {trips}"
    _split(rest, head, where, found)
    return [(loop, _backwards(loop, found[loop], where)) for loop in grid]


def _split(loops: list[Loop], number: str, where: Places, found: dict[Loop, str]) -> None:
    """The number of each loop's tile, of one number for all of them."""
    above = below = math.prod(where.trips(loop) for loop in loops)
    for loop in loops:
        trips = where.trips(loop)
        outer, below = below, below // trips
        text = number if below == 1 else f"{number} // {below}"
        found[loop] = text + (f" % {trips}" if outer < above else "")


def _backwards(loop: Loop, number: str, where: Places) -> str:
    trips = where.trips(loop)
    return f"({trips - 1} - {number})" if trips > 1 and grows(loop) else number
