"""Kernels without a contraction: loops over parallel axes, and whole rows along the others.

An axis along which an operator needs whole rows (softmax, layer norm) is innermost and whole in
fast memory.  Loops over the others are nested in some order, a position at a time.  In the
innermost one operators run one after another, in the graph's order, on the pieces of their
tensors at that position:

- a tensor that has the axes of all loops is loaded, or made, where it is first used, and
  held until its last use; none is written in place;
- a tensor that lacks the axis of a loop is held while that loop runs: of it as much as the
  loops inside move along its axes.  A bias is held so, and a sum over the loop's axis.

So each word is loaded once and stored once, and the order of loops is the one that holds the
fewest words (all orders of up to six axes; axes that all tensors have or lack together are one).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import permutations
from typing import Any

from iosim.models.fusion.members import Axes, Axis, Illegal, Members
from iosim.models.layers.traffic import Crossing
from iosim.models.operators import Operator

MOST_LOOPS = 6


def rows(part: Members, M: int) -> Crossing:
    """The words that cross the boundary.

    Raises Illegal where the rows don't fit in M words.
    """
    held = peak(part)
    if held > M:
        raise Illegal(f"its rows and sums take {held:,} words, more than M = {M:,}")
    loads, stores = part.graph.part(part.names)
    return Crossing(loads, stores, "stream")


def peak(part: Members) -> int:
    """The words that are held at once, at most.

    Raises Illegal where there are too many loops.
    """
    row: Axes = frozenset().union(*(part.row(op) for op in part.operators))
    loops = _loops(part, row)
    if len(loops) > MOST_LOOPS:
        raise Illegal(f"it has {len(loops)} loops that differ: orders of {MOST_LOOPS} are tried")
    return min(_count_resident(part, row, order) for order in permutations(loops))


def _loops(part: Members, row: Axes) -> list[Axes]:
    """Axes that all tensors have or lack together, as one loop each."""
    where: dict[frozenset[str], set[Axis]] = {}
    for a in part.size:
        if a not in row:
            where.setdefault(frozenset(x for x, axes in part.has.items() if a in axes), set()).add(
                a
            )
    return [frozenset(axes) for axes in where.values()]


def _count_resident(part: Members, row: Axes, order: Sequence[Axes]) -> int:
    always, passing = 0, {}
    for name, axes in part.has.items():
        piece = part.words(axes & row)
        lacks = next((k for k, loop in enumerate(order) if not loop & axes), None)
        if lacks is None:
            passing[name] = piece
        else:
            inner: Axes = frozenset().union(*order[lacks:])
            always += piece * part.words(axes & inner)
    most: int = max(live(part.operators, passing, passing.__getitem__))
    return always + most


def live(
    operators: Sequence[Operator], names: Collection[str], piece: Callable[[str], Any]
) -> list[Any]:
    """While each operator runs: the sum of the pieces of tensors between first and last use."""
    last = {t.name: k for k, op in enumerate(operators) for t in op.tensors if t.name in names}
    held: Any = 0
    there: set[str] = set()
    found = []
    for k, op in enumerate(operators):
        mine = [t.name for t in op.tensors if t.name in names]
        for x in mine:
            if x not in there:
                there.add(x)
                held = held + piece(x)
        found.append(held)
        for x in mine:
            if last[x] == k:
                held = held - piece(x)
    return found
