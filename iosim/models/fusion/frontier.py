"""The cheapest exact cover of operators in order, by dynamic programming over a frontier.

Operators are visited in the graph's order.  The first that is in no kernel yet gets in turn
each option that has it, and none that is taken: so all partitions are met.  Before operator p, all
that the rest of a partition depends on is its *state*: for each kernel that has operators from p on
(*open*), which these are (F), and which operators from p on must come after it, by paths that left
it (R).  States that are equal have the same ways on, and only the cheapest way to each counts.

A partition can run if no kernel has to come after itself.  R is closed: it has F and R of each open
kernel whose F it meets, since an operator waits for all of its kernel.  An edge of the graph counts
when p passes the operator that it leaves; all edges lead to later operators.  Take a cycle of
kernels, and its edge that counts last, from a to b: b is after p, so its kernel is open, and it
reaches a's kernel by edges that have counted; a is in that kernel's F, so it was in the R of b's
kernel, which now gets b, an operator of its F.  So a state in which some R meets its own F is left
out, and no other has a cycle.  A kernel that has no operator from p on needs no place in the state:
nothing leads into it any more, and what is after it is in the R of each open one that leads there.

Only `best` calls it, for each piece.  ``tests/models/test_fusion_best.py`` compares with every
partition.
"""

from __future__ import annotations

from collections.abc import Sequence

from iosim.base.errors import InputError

# Steps from state to state before a search gives up.
STEPS = 400_000

# What covers some operators at once, each kernel as a mask, and its cost.
Option = tuple[tuple[int, ...], int]
# F and R of each open kernel, with operator p as the lowest bit.
State = tuple[tuple[int, int], ...]


class TooManySteps(InputError):
    """A search over states gave up."""


def cheapest_cover(options: Sequence[Sequence[Option]], after: Sequence[int]) -> list[int]:
    """Which option each operator begins with; -1 for one that another's option has.

    Of covers that cost the same it is the first: the one whose first operator has an option that
    is earlier, and so on.

    Args:
        options: of each operator, those whose first it is; each operator has one alone.
        after: of each, the operators that come directly after it, as a mask.

    Raises TooManySteps.

    >>> alone = [[((1 << k,), 10)] for k in range(3)]
    >>> cheapest_cover([[((0b101,), 12), *alone[0]], alone[1], alone[2]], [0, 0, 0])
    [0, 0, -1]
    >>> cheapest_cover([[((0b101,), 12), *alone[0]], alone[1], alone[2]], [0b010, 0b100, 0])
    [1, 0, 0]
    """
    n = len(options)
    layers: list[dict[State, list[tuple[int, int, State]]]] = [{} for _ in range(n + 1)]
    layers[0][()] = []
    steps = 0
    for p, layer in enumerate(layers[:-1]):
        mine = [([part >> p for part in parts], cost) for parts, cost in options[p]]
        for state, ways in layer.items():
            covered = 0
            for ahead, _ in state:
                covered |= ahead
            for at, (parts, cost) in enumerate(mine) if not covered & 1 else [(-1, ([], 0))]:
                if any(part & covered for part in parts):
                    continue
                steps += 1
                if steps > STEPS:
                    raise TooManySteps(f"{STEPS:,} steps")
                if (more := _pass(state, parts, after[p] >> p)) is not None:
                    layers[p + 1].setdefault(more, [])
                    ways.append((at, cost, more))
    least: dict[State, int] = {(): 0}
    chosen: list[dict[State, tuple[int, State]]] = []
    for layer in reversed(layers[:-1]):
        here, first = dict[State, int](), dict[State, tuple[int, State]]()
        for state, ways in layer.items():
            totals = [(cost + least[more], at, more) for at, cost, more in ways if more in least]
            if totals:
                here[state], at, more = min(totals, key=lambda total: total[:2])
                first[state] = at, more
        least = here
        chosen.append(first)
    found, now = list[int](), State()
    for first in reversed(chosen):
        at, now = first[now]
        found.append(at)
    return found


def _pass(state: State, parts: Sequence[int], after: int) -> State | None:
    """The state after its first operator, for which some kernels are new; None with a cycle.

    Args:
        parts: operators of the new kernels; none where the first operator is in an open one.
        after: the operators that come directly after the first.
    """
    if not state and tuple(parts) == (1,):
        return ()
    opened = [[ahead, late] for ahead, late in state] + [[part, 0] for part in parts]
    for one in opened:
        if one[0] & 1:
            one[1] |= after & ~one[0]
    changed = True
    while changed:
        changed = False
        for one in opened:
            for other in opened:
                if one[1] & other[0] and (more := (other[0] | other[1]) & ~one[1]):
                    one[1] |= more
                    changed = True
            if one[1] & one[0]:
                return None
    return tuple(sorted((ahead >> 1, late >> 1) for ahead, late in opened if ahead > 1))
