"""OPT at every capacity at once: the stack that Belady's choices make.

Belady 1966 drops the line whose next use is furthest; Mattson et al. 1970 show that the caches of
1, 2, 3, … lines hold the first 1, 2, 3, … entries of one list, in which only the next uses matter.
When a line is touched, a *carry* goes down the list: every entry keeps the sooner of itself and
the carry, and passes the later one on, until the place where the line itself was is filled.  That
place is the access's distance: caches of fewer lines had dropped it.

With bypass the carry starts with the touched line's own next use, so that a line may not stay at
all; without, the line is first in the list and the old first entry is the carry.

Going down entry by entry takes time proportional to the distance.  Here the list is cut into
blocks.  A carry that passes a whole block leaves the block's smallest entries, and takes out the
largest: a heap answers that.  Where in the block they stay is found only when it is needed: if
carries c₁, c₂, … passed, then each entry in turn keeps the smallest of itself and the carries, and
that one leaves them, in whatever order they came.  So an access takes about
(distance/b)·log b + b·log b steps with blocks of b entries.  Entries are next uses, all different,
and the line that is touched at time t is the entry t, which is the smallest.

`iosim.cache.curves` calls it.  ``tests/cache/test_cache_curves.py`` compares with caches simulated
one by one.
"""

from __future__ import annotations

import numpy as np

from iosim.base.arrays import Bools, Ints
from iosim.base.compiled import built

NEVER = 2**62
ENTRIES = 128  # in a block


def follows(lines: Ints, write: Bools, covers: bool, distinct: int) -> Ints:
    """For every access, when its line is next used at a cost; `NEVER` where it is not.

    Args:
        lines: the line of each access.
        write: whether it writes.
        covers: whether a write covers its line, and so costs nothing when it misses.
        distinct: lines are 0 … distinct − 1.
    """
    found = np.empty(lines.size, np.int64)
    built(_follow)(lines, write, covers, np.full(distinct, NEVER, np.int64), found)
    return found


def _follow(lines: Ints, write: Bools, covers: bool, after: Ints, found: Ints) -> None:
    for at in range(lines.size - 1, -1, -1):
        line = lines[at]
        found[at] = after[line]
        after[line] = NEVER if covers and write[at] else at


def _swap_top(heap: Ints, size: int, value: int, sign: int) -> int:
    """Put a value for the top of a heap and return the top; sign 1: the least is on top."""
    top: int = heap[0]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and sign * heap[child + 1] < sign * heap[child]:
            child += 1
        if sign * heap[child] >= sign * value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value
    return top


def _settle(entries: Ints, waiting: Ints, count: int) -> None:
    """Let the carries that passed a block go by its entries."""
    if count == 0:
        return
    least = np.sort(waiting[:count])  # sorted, so it is a heap
    for k in range(entries.size):
        if least[0] < entries[k]:
            entries[k] = _swap_top(least, count, entries[k], 1)


def _depths(next_use: Ints, bypass: bool, entries_in_block: int) -> Ints:
    """The distance of every access: 0 where no cache, however large, can have kept the line."""
    b = entries_in_block
    depth = np.zeros(next_use.size, np.int64)
    alive = np.zeros(next_use.size, np.bool_)  # whether the access at t was kept for
    rows = 16
    entries = np.full((rows, b), NEVER, np.int64)
    largest = np.full((rows, b), NEVER, np.int64)
    waiting = np.empty((rows, b), np.int64)
    waits = np.zeros(rows, np.int64)
    least = np.full(rows, NEVER, np.int64)
    used = 0  # blocks
    first = np.int64(NEVER)  # the entry that must be in, without bypass
    above = 0 if bypass else 1
    for now in range(next_use.size):
        own = next_use[now]
        if own != NEVER:
            alive[own] = True
        looking = alive[now]
        carry = own
        if not bypass:
            carry = first
            if looking and first == now:
                depth[now] = 1
                first = own
                continue
            first = own
        block = 0
        while looking or carry != NEVER:
            if block == used:
                if used == rows:
                    blank = np.full((rows, b), NEVER, np.int64)
                    entries = np.concatenate((entries, blank))
                    largest = np.concatenate((largest, blank))
                    waiting = np.concatenate((waiting, blank))
                    waits = np.concatenate((waits, np.zeros(rows, np.int64)))
                    least = np.concatenate((least, blank[:, 0]))
                    rows *= 2
                used += 1
            if looking and least[block] == now:
                row = entries[block]
                _settle(row, waiting[block], waits[block])
                waits[block] = 0
                at = 0
                while row[at] != now:
                    if row[at] > carry:
                        row[at], carry = carry, row[at]
                    at += 1
                row[at] = carry
                depth[now] = above + block * b + at + 1
                largest[block] = np.sort(row)[::-1]
                least[block] = largest[block, b - 1]
                break
            if carry < largest[block, 0]:
                if waits[block] == b:
                    _settle(entries[block], waiting[block], b)
                    waits[block] = 0
                waiting[block, waits[block]] = carry
                waits[block] += 1
                least[block] = min(least[block], carry)
                carry = _swap_top(largest[block], b, carry, -1)
            block += 1
    return depth


def depths(next_use: Ints, *, bypass: bool) -> Ints:
    """How many lines a cache must have so that Belady's keeps each access's line: its distance.

    Args:
        next_use: as `follows` gives it.
        bypass: whether a line that misses may pass the cache by.

    Returns:
        One number an access; 0 where the line was not worth keeping, or is touched first.

    >>> follows(np.array([0, 1, 0, 1]), np.zeros(4, bool), True, 2).tolist()[:2]
    [2, 3]
    >>> depths(np.array([2, 3, NEVER, NEVER]), bypass=True).tolist()
    [0, 0, 1, 2]
    >>> depths(np.array([2, 3, NEVER, NEVER]), bypass=False).tolist()
    [0, 0, 2, 2]
    """
    found: Ints = built(_depths, arrays=True)(next_use, bypass, ENTRIES)
    return found
