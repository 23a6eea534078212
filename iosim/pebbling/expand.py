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
* a dirty operand has no further use: the result can take its place in any later schedule, or
* two operands have no further use: a schedule that evicts both pays two loads, as many transfers
  as the store and the load of the result; the same holds for one such operand and a sum that was
  resident and clean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iosim.pebbling.bits import ONE, WIDTH, ZERO, Bools, Ints, Words, popcount, words
from iosim.pebbling.rules import Rules
from iosim.pebbling.states import States, concat, one
from iosim.pebbling.subsets import TooMany, count_subsets, first_members, subsets, subsets_up_to

AT_ONCE = 1 << 21  # successors made in one part
FEW = 300  # ways to evict, beyond which a beam tries one only


@dataclass(frozen=True)
class Children:
    """Successors, and how they came about; `states.parent` is the row of the parent."""

    states: States
    rise: Ints  # by how much cost so far + compulsory rest grew
    op: Ints
    evicted: Words
    stored: Words  # of the evicted


class Expander:
    """Successors under one variant of the rules; `fewer` for a beam, which may skip some."""

    def __init__(self, rules: Rules, fewer: bool = False):
        self.rules = rules
        self.fewer = fewer
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
        """All successors of `s` whose rise is at most `slack`.

        Where there are very many, they are made in parts.  Raises TooMany if one state has more
        than can be held.
        """
        try:
            return _again(self, s, slack) if self.rules.recompute else _once(self, s, slack)
        except TooMany:
            if len(s) == 1:
                raise
        half = len(s) // 2
        first, second = self(s.take(slice(half)), slack), self(s.take(slice(half, None)), slack)
        numbers = np.arange(half, len(s))
        return Children(
            concat([first.states, second.states.under(numbers)]),
            np.concatenate((first.rise, second.rise)),
            np.concatenate((first.op, second.op)),
            np.concatenate((first.evicted, second.evicted)),
            np.concatenate((first.stored, second.stored)),
        )

    def choices(self, cand: Words, over: Ints, dirty: Words, ways: int = 1) -> tuple[Ints, Words]:
        """The sets that may be evicted: all, or where a beam would meet too many, the first."""
        number = count_subsets(cand, over)
        many = (number > FEW) & self.fewer
        if np.where(many, 1, number).sum() * ways > AT_ONCE:
            raise TooMany
        if not many.any():
            return subsets(cand, over)
        at, sets = subsets(cand, np.where(many, 0, over))
        clean = cand & ~dirty
        greedy = first_members(clean, np.where(many, over, 0))
        left = np.where(many, over - popcount(greedy), 0)
        greedy |= first_members(cand & dirty, left)
        return at, np.where(many[at], greedy[at], sets)

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

    at, evicted = x.choices(r & ~hold, over, dirty)
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
    # With a free place, a value made from red ones costs nothing, and neither does deleting it.
    keep = _only_first(rows, (over <= 0) & (missing == 0), len(s))
    rows, op, blue, r = rows[keep], op[keep], blue[keep], r[keep]
    target, hold, over, missing = target[keep], hold[keep], over[keep], missing[keep]

    stores = 2 ** min(int(over.max(initial=0)), max(slack, 0), WIDTH)
    at, evicted = x.choices(r & ~hold, over, r & ~blue & ~inputs, stores)
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
