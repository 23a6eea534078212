"""Loops of one state: an operation, and all that can be done at once without loss."""

from __future__ import annotations

from typing import Any

from iosim.cache.compiled import popcount
from iosim.pebbling.loops import (
    OPS,
    UNIT,
    WORDS,
    M,
)


def ready(W: int, before: Any, one: Any, s: Any, u: int) -> bool:
    """Whether an operation is not done, and all are that come before it."""
    for k in range(W):
        if before[u * W + k] & ~s[k]:
            return False
    return not s[u >> 6] & one[u & 63]


def settle(sizes: Any, ops: Any, sets: Any, one: Any, s: Any, trace: Any) -> int:
    """Do at once what can be done without loss; how many operations that were.

    `s` is changed in place, and the operations are put in `trace` from place 1 on.  They need no
    eviction, and of missing operands only such as have no further use (their loads are paid).

    * They complete an output that nothing reads, or their sum is dirty already.
    * A dirty operand that was red has no further use: in any later schedule the result can take
      its place, evicted when it is evicted, at no more.  A clean one will do if the result is clean
      (an output, stored at once).
    * Two red operands have no further use: a schedule that evicts one keeps the result in the
      place of the other, and one that evicts both pays two loads, as many transfers as the store
      and the load of the result.  The same holds for one and a sum that was red and clean.

    With weights the place must be large enough: no operand that is counted is smaller.
    """
    W, count, unit = sizes[WORDS], sizes[OPS], sizes[UNIT]
    target, extra, weight = ops[0], ops[1], ops[2]
    stores, quick = ops[3], 0
    before, reads, into, users = sets[0], sets[1], sets[2], sets[3]
    changed = True
    while changed:
        changed = False
        for u in range(count):
            uw, ub = u >> 6, one[u & 63]
            if not ready(W, before, one, s, u):
                continue
            t = target[u]
            tw, tb = t >> 6, one[t & 63]
            # Most operations fail here: no operand is used for the last time, and no sum is added
            # to, and no output made that nothing reads.
            hope = ops[5][t] > 0
            for k in range(W):
                if into[t * W + k] & s[k]:
                    hope = True
                if not hope:
                    word = reads[u * W + k] & s[W + k]
                    while word:
                        rest = word & (word - one[0])
                        v = 64 * k + popcount((word ^ rest) - one[0])
                        word = rest
                        dies = True
                        for j in range(W):
                            if j == uw:
                                if users[v * W + j] & ~(s[j] | ub):
                                    dies = False
                            elif users[v * W + j] & ~s[j]:
                                dies = False
                        if dies:
                            hope = True
                            break
            if not hope:
                continue
            # What is held, in words; whether the target's sum has begun, and is complete now.
            held, begun, complete, last = extra[u], False, True, True
            for k in range(W):
                word = reads[u * W + k]
                if k == tw:
                    word = word | tb
                word = word | s[W + k]
                if unit:
                    held += popcount(word)
                else:
                    while word:
                        rest = word & (word - one[0])
                        held += weight[64 * k + popcount((word ^ rest) - one[0])]
                        word = rest
                done = s[k]
                if k == uw:
                    done = done | ub
                if into[t * W + k] & s[k]:
                    begun = True
                if into[t * W + k] & ~done:
                    complete = False
                if users[t * W + k] & ~done:
                    last = False
            if held > sizes[M]:
                continue
            resident = s[W + tw] & tb
            if begun and not resident:
                continue
            # Operands without a further use: those that were red, and whether all missing are such.
            dying, dirty_dying, missing_stay = 0, 0, False
            for k in range(W):
                word = reads[u * W + k]
                while word:
                    rest = word & (word - one[0])
                    bit = word ^ rest
                    v = 64 * k + popcount(bit - one[0])
                    word = rest
                    dies = True
                    for j in range(W):
                        done = s[j]
                        if j == uw:
                            done = done | ub
                        if users[v * W + j] & ~done:
                            dies = False
                    if s[W + k] & bit:
                        if dies and weight[v] >= weight[t]:
                            dying += 1
                            if s[2 * W + k] & bit:
                                dirty_dying += 1
                    elif not dies:
                        missing_stay = True
            if missing_stay:
                continue
            written = complete and stores[t]
            safe = (written and last) or dirty_dying > 0 or (written and dying > 0)
            if begun:
                safe = safe or dying > 0 or (s[2 * W + tw] & tb) != (one[0] & ~one[0])
            if not (safe or dying >= 2):
                continue
            apply(sizes, ops, sets, one, s, u)
            quick += 1
            trace[quick] = u
            changed = True
    return quick


def apply(sizes: Any, ops: Any, sets: Any, one: Any, s: Any, u: int) -> None:
    """Do an operation; what must be evicted has been taken out of R and D."""
    W = sizes[WORDS]
    t = ops[0][u]
    stores = ops[3]
    reads, into, users = sets[1], sets[2], sets[3]
    uw, ub = u >> 6, one[u & 63]
    tw, tb = t >> 6, one[t & 63]
    s[uw] |= ub
    s[W + tw] |= tb
    s[2 * W + tw] |= tb
    complete, last = True, True
    for k in range(W):
        if into[t * W + k] & ~s[k]:
            complete = False
        if users[t * W + k] & ~s[k]:
            last = False
    for k in range(W):
        s[W + k] |= reads[u * W + k]
        word = reads[u * W + k]
        while word:
            rest = word & (word - one[0])
            bit = word ^ rest
            v = 64 * k + popcount(bit - one[0])
            word = rest
            dies = True
            for j in range(W):
                if users[v * W + j] & ~s[j]:
                    dies = False
            if dies:
                s[W + k] &= ~bit
                s[2 * W + k] &= ~bit
    if complete and stores[t]:
        s[2 * W + tw] &= ~tb
        if last:
            s[W + tw] &= ~tb
