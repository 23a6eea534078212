"""What the search without recomputation reads and writes, whose loops are one text, compiled with
numba or plain Python: `settling.py`, `bounding.py`, `expanding.py`, `thinning.py`.

A state is 3·W words of 64 bits: A, the operations that are done; R, the red values; D, the dirty
ones, red and not blue.  Its cost is the penalties so far (see `expand.py` for the normal form): an
eviction of a clean value costs its words, of a dirty one twice that.  Loads after an eviction are
paid at the eviction, so that a live value that is not red may be loaded for nothing.

All arrays are flat, so that lists may take their place; sets are uint64 and numbers int64, never
mixed in one expression, since numba would make floating point of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from iosim.base.compiled import popcount

# Places in `control`.  SKIP: successors that a state left half-way has made.
LAYER, LIMIT, USED, ROOM, RECORDS, WORK, BUDGET, AT, COUNT, STATUS, MOST, KEPT, START, SKIP = range(
    14
)
# What `control[STATUS]` says.
GOING, DONE, FULL = 0, 1, 2
FURTHEST = 2000  # states of equal A that one is compared with


class GameArrays(NamedTuple):
    """A game, forwards or backwards.

    Attributes:
        W: words that a set takes.
        M: words of fast memory.
        unit: whether every value has one word.
        back: whether the search looks from the end.
        ops: how many operations.
        plain: of these, those before the flying ones.
        values: how many values.
        target, extra: of each operation.
        weight, stores, made, sinks: of each value.
        before, reads, does: sets, of each operation.
        into, users, touching, using: sets, of each value.
        one: the sets of one member each, 0 to 63.
    """

    W: int
    M: int
    unit: bool
    back: bool
    ops: int
    plain: int
    values: int
    target: Any
    extra: Any
    weight: Any
    stores: Any
    made: Any
    sinks: Any
    before: Any
    reads: Any
    does: Any
    into: Any
    users: Any
    touching: Any
    using: Any
    one: Any


class ChainArrays(NamedTuple):
    """Chains of operations, and sets at each boundary: see `chains.py`.

    Attributes:
        total: how many chains.
        longest: the length of the longest.
        lengths: of each.
        ops, room: the operation at each boundary, and the words that it leaves.
        until, spans, touched, fresh, above: sets at each boundary.
        ends: values whose time from one boundary ends before another.
        last: values that span no later boundary.
    """

    total: int
    longest: int
    lengths: Any
    ops: Any
    room: Any
    until: Any
    spans: Any
    touched: Any
    fresh: Any
    above: Any
    ends: Any
    last: Any


class MapArrays(NamedTuple):
    """Automorphisms: the images of operations and of values, one map after the other."""

    total: int
    ops: Any
    values: Any


class StateTable(NamedTuple):
    """The states of a sweep.

    Attributes:
        parent, rank, cost, estimate, following: of each state; the next of its layer is last.
        path, ranks: of each state that was expanded: the record before it, and its rank.
        states: 3·W words each.
        slots, mix: a hash table, and the numbers of its hash.
        heads: the first state of each layer.
    """

    parent: Any
    rank: Any
    cost: Any
    estimate: Any
    following: Any
    path: Any
    ranks: Any
    states: Any
    slots: Any
    mix: Any = ()  # both are made for each sweep
    heads: Any = ()


class Scratch(NamedTuple):
    """Room for one state and its successors: sets, then numbers."""

    state: Any
    child: Any
    live: Any
    sets: Any
    room: Any
    image: Any
    remaining: Any
    must: Any
    order: Any
    chosen: Any
    candidates: Any
    keys: Any
    left: Any
    trace: Any
    applied: Any


class SweepArrays(NamedTuple):
    """All that the loops over states take."""

    game: GameArrays
    chains: ChainArrays
    maps: MapArrays
    table: StateTable
    scratch: Scratch
    control: Any


def weigh(game: GameArrays, k: int, word: Any) -> Any:
    """The words of fast memory that the values of one word of a set take."""
    if game.unit:
        return popcount(word)
    one, total = game.one[0], 0
    while word:
        rest = word & (word - one)
        total += game.weight[64 * k + popcount((word ^ rest) - one)]
        word = rest
    return total
