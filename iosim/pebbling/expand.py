"""With recomputation: all successors of many states at once.

A step computes one operation.  Just before it, its missing operands are loaded, and exactly as many
values are evicted as must be, and stored or not; just after it, an output is stored and values
without a further use are deleted.  Any pebbling can be put into this form without a further
transfer:

* a load can wait until its value is used, a deletion until its place is needed, and a store until
  just before the deletion (or, of an output, be done at once: it must be done anyhow);
* a value without a further use may leave at once.

What a state has still to pay at least is its compulsory rest: a load for each input that is needed
and not red, a store for each output that is not blue.  With a free place, a value that is made from
red ones costs nothing, and neither does deleting it: then no other successor is made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iosim.base.arrays import Bools, Ints
from iosim.pebbling.bits import ONE, WIDTH, ZERO, Words, popcount, words
from iosim.pebbling.rules import Rules
from iosim.pebbling.states import States, concat, one
from iosim.pebbling.subsets import TooMany, count_subsets, subsets, subsets_up_to

AT_ONCE = 1 << 21  # successors made in one part


@dataclass(frozen=True)
class Children:
    """Successors, and how they came about; `states.parent` is the row of the parent."""

    states: States
    rise: Ints  # by how much cost so far + compulsory rest grew
    op: Ints
    evicted: Words
    stored: Words  # of the evicted


class Expander:
    """Successors; at most about `at_once` of them are made in one part."""

    def __init__(self, rules: Rules, at_once: int = AT_ONCE):
        self.rules, self.M, self.at_once = rules, rules.M, at_once
        self.reads = words(rules.reads)
        self.target = words([1 << op.target for op in rules.ops])

    def start(self) -> States:
        """The state before the first step."""
        return one(0, 0, 0)

    def __call__(self, s: States, slack: int) -> Children:
        """All successors of `s` whose rise is at most `slack`.

        Where there are very many, they are made in parts.  Raises TooMany if one state has more
        than can be held.
        """
        try:
            return _expand_recomputed(self, s, slack)
        except TooMany:
            if len(s) == 1:
                raise
        half = len(s) // 2
        first, second = self(s.take(slice(half)), slack), self(s.take(slice(half, None)), slack)
        numbers = np.arange(half, len(s))
        both = concat([first.states, second.states.under(numbers)])
        columns = ((x.rise, x.op, x.evicted, x.stored) for x in (first, second))
        return Children(both, *map(np.concatenate, zip(*columns, strict=True)))

    def choices(self, cand: Words, over: Ints, ways: int = 1) -> tuple[Ints, Words]:
        """The sets that may be evicted."""
        if count_subsets(cand, over).sum() * ways > self.at_once:
            raise TooMany
        return subsets(cand, over)

    def find_goals(self, s: States) -> Bools:
        """Which states are goals."""
        goal = np.uint64(self.rules.outputs)
        done: Bools = (s.A & goal) == goal
        return done


def _only_first(rows: Ints, safe: Bools, count: int) -> Bools:
    """Keep, of a row with safe operations, the first of them; of other rows, everything."""
    at = np.nonzero(safe)[0]
    with_safe, first = np.unique(rows[at], return_index=True)
    has = np.zeros(count, bool)
    has[with_safe] = True
    keep = ~has[rows]
    keep[at[first]] = True
    return keep


def needs(x: Expander, blue: Words, red: Words) -> tuple[Words, Words]:
    """With recomputation: the values with a future use, and those that must be loaded or made.

    A value has a use while an output that depends on it is not blue.  What is needed: outputs
    that are not blue, and the operands of needed values that are neither red nor blue.
    """
    rules = x.rules
    want = np.uint64(rules.outputs) & ~blue
    useful, needed = want.copy(), want.copy()
    for op in reversed(rules.ops):
        t, reads = np.uint64(op.target), np.uint64(sum(1 << r for r in op.reads))
        made = needed & ~red & ~blue
        useful |= np.where((useful >> t) & ONE == ONE, reads, ZERO)
        needed |= np.where((made >> t) & ONE == ONE, reads, ZERO)
    return useful, needed


def remaining_transfers(x: Expander, blue: Words, red: Words) -> tuple[Ints, Words]:
    """With recomputation: the compulsory rest, and the values with a future use."""
    useful, needed = needs(x, blue, red)
    loads = popcount(needed & ~red & np.uint64(x.rules.inputs))
    return loads + popcount(np.uint64(x.rules.outputs) & ~blue), useful


def _expand_recomputed(x: Expander, s: States, slack: int) -> Children:
    inputs, outputs = np.uint64(x.rules.inputs), np.uint64(x.rules.outputs)
    before, useful = remaining_transfers(x, s.A, s.R)
    there = (s.R | s.A | inputs)[:, None]
    wanted = (useful & ~s.R)[:, None]
    rows, op = np.nonzero(((wanted & x.target) != ZERO) & ((x.reads & ~there) == ZERO))
    blue, r = s.A[rows], s.R[rows]
    target = x.target[op]
    hold = x.reads[op] | target
    over = popcount(r | hold) - x.M
    missing = popcount(x.reads[op] & ~r)
    # With a free place, a value made from red ones costs nothing, and neither does deleting it.
    keep = _only_first(rows, (over <= 0) & (missing == 0), len(s))
    rows, op, blue, r = rows[keep], op[keep], blue[keep], r[keep]
    target, hold, over, missing = target[keep], hold[keep], over[keep], missing[keep]

    stores = 2 ** min(int(over.max(initial=0)), max(slack, 0), WIDTH)
    at, evicted = x.choices(r & ~hold, over, stores)
    # The rest falls by no more than the loads of inputs and the store of an output.
    spare = slack - popcount(x.reads[op] & ~r & ~inputs)
    which, stored = subsets_up_to(evicted & ~blue[at] & ~inputs, spare[at])
    at, evicted = at[which], evicted[which]
    write = target[at] & outputs & ~blue[at]
    cost = missing[at] + popcount(stored) + (write != ZERO)
    now = blue[at] | stored | write
    red = (r[at] | hold[at]) & ~evicted
    after, useful = remaining_transfers(x, now, red)
    rise = cost + after - before[rows[at]]
    red, now = red & useful, now & (useful | outputs)
    few = rise <= slack
    none = np.zeros(int(few.sum()), np.uint64)
    return Children(
        States(now[few], red[few], none, rows[at][few]),
        rise[few],
        op[at][few],
        evicted[few],
        stored[few],
    )
