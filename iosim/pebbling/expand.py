"""All successors of many states at once.

A step computes one operation.  Just before it, its missing operands are loaded, and exactly as many
values are evicted as must be; just after it, an output is stored and values without a further use
are deleted.  Any pebbling can be put into this form without a further transfer:

* a load can wait until its value is used, a deletion until its place is needed, and a store until
  just before the deletion (or, of an output, be done at once: it must be done anyhow);
* a value without a further use may leave at once.

What a state has still to pay at least is its compulsory rest: a load for each value that is read
later and not red, a store for each output.  Without recomputation that rest changes only at an
eviction, so the search minimises *penalties*: evicting a clean value (a blue pebble lies there)
costs its later load, 1; a dirty one costs a store as well, 2.

Some operations can be done at once without loss; then no other successor is made.  They need no
transfer and no eviction, and

* they complete an output that nothing reads, or
* their sum is dirty already, or
* a dirty operand dies: the result can take its place in any later schedule, move by move, or
* two operands die: whenever both are out, their loads pay for the result's store and load; of one
  that dies the same holds if the sum was resident and clean: it and the operand are two values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iosim.pebbling.bits import ONE, ZERO, Bools, Ints, Words, lowest, popcount, words
from iosim.pebbling.rules import Rules
from iosim.pebbling.states import States, one


@dataclass(frozen=True)
class Children:
    """Successors, and how they came about; `states.parent` is the row of the parent."""

    states: States
    rise: Ints  # by how much cost so far + compulsory rest grew
    op: Ints
    evicted: Words
    stored: Words  # of the evicted


def subsets(cand: Words, size: Ints, limit: int) -> tuple[Ints, Words]:
    """Every subset of `size` members of each set: the places of the sets, and the subsets.

    Sizes above `limit` are left out, sizes of 0 or less give the empty set.
    """
    rows_out = [np.nonzero(size <= 0)[0]]
    sets_out = [np.zeros(len(rows_out[0]), np.uint64)]
    rows = np.nonzero((size > 0) & (size <= limit))[0]
    rest, chosen, left = cand[rows], np.zeros(len(rows), np.uint64), size[rows]
    while len(rows):
        parts = []
        while len(rows):
            # The lowest candidate is taken, or skipped for good if enough are left without it.
            low = lowest(rest)
            rest = rest ^ low
            parts.append((rows, rest, chosen | low, left - 1))
            more = popcount(rest) >= left
            rows, rest, chosen, left = rows[more], rest[more], chosen[more], left[more]
        rows, rest, chosen, left = (np.concatenate(p) for p in zip(*parts, strict=True))
        done = left == 0
        rows_out.append(rows[done])
        sets_out.append(chosen[done])
        more = ~done
        rows, rest, chosen, left = rows[more], rest[more], chosen[more], left[more]
    return np.concatenate(rows_out), np.concatenate(sets_out)


def subsets_up_to(sets: Words, limit: Ints) -> tuple[Ints, Words]:
    """Every subset of each set with no more members than its limit: the places and the subsets."""
    at = np.nonzero(limit >= 0)[0]
    chosen, rest = np.zeros(len(at), np.uint64), sets[at]
    while rest.any():
        low = lowest(rest)
        some = (low != ZERO) & (popcount(chosen) < limit[at])
        at = np.concatenate((at, at[some]))
        chosen = np.concatenate((chosen, (chosen | low)[some]))
        rest = rest ^ low
        rest = np.concatenate((rest, rest[some]))
    return at, chosen


class Expander:
    """Successors under one variant of the rules."""

    def __init__(self, rules: Rules):
        self.rules = rules
        self.M = rules.M
        target = [op.target for op in rules.ops]
        self.bit = words([1 << k for k in range(len(rules.ops))])
        self.before = words(rules.before)
        self.reads = words(rules.reads)
        self.target = words([1 << t for t in target])
        self.into = words([rules.into[t] for t in target])
        self.target_users = words([rules.users[t] for t in target])
        self.is_output = words([rules.outputs >> t & 1 for t in target]) == ONE
        width = max((len(op.reads) for op in rules.ops), default=0)
        # The operands of each operation, padded with the first: its bit, and who reads it.
        padded = [[*op.reads, *[op.reads[0]] * (width - len(op.reads))] for op in rules.ops]
        self.operand = [words([1 << row[j] for row in padded]) for j in range(width)]
        self.operand_users = [words([rules.users[row[j]] for row in padded]) for j in range(width)]

    def start(self) -> States:
        """The state before the first step."""
        return one(0, 0, 0)

    def __call__(self, s: States, slack: int) -> Children:
        """All successors of `s` whose rise is at most `slack`."""
        again = self.rules.recompute
        return _again(self, s, slack) if again else _once(self, s, slack)

    def done(self, s: States) -> Bools:
        """Which states are goals."""
        goal = self.rules.outputs if self.rules.recompute else (1 << len(self.rules.ops)) - 1
        done: Bools = (s.A & np.uint64(goal)) == np.uint64(goal)
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


def _once(x: Expander, s: States, slack: int) -> Children:
    A = s.A[:, None]
    rows, op = np.nonzero(((A & x.bit) == ZERO) & ((A & x.before) == x.before))
    a, r, dirty = s.A[rows], s.R[rows], s.D[rows]
    reads, target = x.reads[op], x.target[op]
    begun = (a & x.into[op]) != ZERO
    hold = reads | target
    over = popcount(r | hold) - x.M
    after = a | x.bit[op]
    dying = np.zeros(len(rows), np.uint64)
    for operand, users in zip(x.operand, x.operand_users, strict=True):
        dying |= np.where((users[op] & ~after) == ZERO, operand[op], ZERO)
    stored = x.is_output[op] & ((x.into[op] & ~after) == ZERO)
    leaves = stored & ((x.target_users[op] & ~after) == ZERO)

    ready = (over <= 0) & (((reads | np.where(begun, target, ZERO)) & ~r) == ZERO)
    safe = ready & (
        leaves
        | ((dirty & target) != ZERO)
        | ((dirty & dying) != ZERO)
        | (popcount(dying) + begun >= 2)
    )
    keep = _only_first(rows, safe, len(s)) & (over <= slack)
    rows, op, a, r, dirty = rows[keep], op[keep], after[keep], r[keep], dirty[keep]
    hold, over, dying, target = hold[keep], over[keep], dying[keep], target[keep]
    stored, leaves = stored[keep], leaves[keep]

    at, evicted = subsets(r & ~hold, over, slack)
    rise = popcount(evicted) + popcount(evicted & dirty[at])
    few = rise <= slack
    at, evicted, rise = at[few], evicted[few], rise[few]
    gone = evicted | dying[at] | np.where(leaves[at], target[at], ZERO)
    new_dirty = dirty[at] | target[at]
    written = np.where(stored[at], target[at], ZERO)
    return Children(
        States(
            a[at],
            (r[at] | hold[at]) & ~gone,
            new_dirty & ~(gone | written),
            rows[at],
        ),
        rise,
        op[at],
        evicted,
        evicted & dirty[at],
    )


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


def rest(x: Expander, blue: Words, red: Words) -> tuple[Ints, Words]:
    """With recomputation: the compulsory rest, and the values with a future use."""
    useful, needed = needs(x, blue, red)
    loads = popcount(needed & ~red & np.uint64(x.rules.inputs))
    return loads + popcount(np.uint64(x.rules.outputs) & ~blue), useful


def _again(x: Expander, s: States, slack: int) -> Children:
    inputs, outputs = np.uint64(x.rules.inputs), np.uint64(x.rules.outputs)
    before, useful = rest(x, s.A, s.R)
    there = (s.R | s.A | inputs)[:, None]
    wanted = (useful & ~s.R)[:, None]
    rows, op = np.nonzero(((wanted & x.target) != ZERO) & ((x.reads & ~there) == ZERO))
    blue, r = s.A[rows], s.R[rows]
    target = x.target[op]
    hold = x.reads[op] | target
    over = popcount(r | hold) - x.M
    missing = popcount(x.reads[op] & ~r)
    # With a place to spare a value made from red ones costs nothing, not even when it goes again.
    keep = _only_first(rows, (over <= 0) & (missing == 0), len(s))
    rows, op, blue, r = rows[keep], op[keep], blue[keep], r[keep]
    target, hold, over, missing = target[keep], hold[keep], over[keep], missing[keep]

    at, evicted = subsets(r & ~hold, over, x.M)
    # The rest falls by no more than the loads of inputs and the store of an output.
    spare = slack - popcount(x.reads[op] & ~r & ~inputs)
    which, stored = subsets_up_to(evicted & ~blue[at] & ~inputs, spare[at])
    at, evicted = at[which], evicted[which]
    write = target[at] & outputs & ~blue[at]
    cost = missing[at] + popcount(stored) + (write != ZERO)
    now = blue[at] | stored | write
    red = (r[at] | hold[at]) & ~evicted
    after, useful = rest(x, now, red)
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
