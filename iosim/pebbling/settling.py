"""Loops of one state: an operation, and all that can be done at once without loss."""

from __future__ import annotations

from typing import Any

from iosim.base.compiled import popcount
from iosim.pebbling.state_layout import (
    BACK,
    PLAIN,
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
    eviction.

    What is new is what they touch that is not red and has a further use: it wants a place.  (A load
    after an eviction is paid already.)  A place falls free where a red value has no further use.
    Each new value can have a place so that it costs no more than what has left it would have, in
    any later schedule: it is evicted when that is.

    * One that a store must come before (made, no output, not evicted yet, or a sum that grows)
      takes the place of a dirty one, or those of two clean ones: a schedule that evicts one of
      these keeps it in the place of the other, and one that evicts both pays two loads, as many as
      its store and load.
    * Any other takes any place.

    A sum that is red already leaves its own place and takes one.  With weights a place must be
    large enough for every new value.

    Flying operations are left to choice: the term made apart may wait in a smaller place than the
    sum's.  A term that is made apart here, whose place is free, could as well be added on the fly
    later: then it is added from that place when the other schedule does that, and takes no more.
    """
    W, count, unit = sizes[WORDS], sizes[PLAIN], sizes[UNIT]
    target, extra, weight = ops[0], ops[1], ops[2]
    stores, quick = ops[3], 0
    before, reads, into, users, touching = sets[0], sets[1], sets[2], sets[3], sets[4]
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
            # What is new: to be stored before it goes, or not; how large it may be.
            dirty_new, clean_new, largest = 0, 0, 0
            for k in range(W):
                word = reads[u * W + k] & ~s[W + k]
                while word:
                    rest = word & (word - one[0])
                    v = 64 * k + popcount((word ^ rest) - one[0])
                    word = rest
                    dies, met = True, False
                    for j in range(W):
                        done = s[j]
                        if touching[v * W + j] & done:
                            met = True
                        if j == uw:
                            done = done | ub
                        if users[v * W + j] & ~done:
                            dies = False
                    if dies:
                        continue
                    largest = max(largest, weight[v])
                    if met or not ops[4][v]:
                        clean_new += 1
                    else:
                        dirty_new += 1
            dirty_free, clean_free = 0, 0
            if not sizes[BACK]:
                written = complete and stores[t]
                if not (written and last):
                    largest = max(largest, weight[t])
                    if written:
                        clean_new += 1
                    else:
                        dirty_new += 1
                if begun and weight[t] >= largest:
                    if s[2 * W + tw] & tb:
                        dirty_free += 1
                    else:
                        clean_free += 1
            for k in range(W):
                word = reads[u * W + k] & s[W + k]
                while word:
                    rest = word & (word - one[0])
                    bit = word ^ rest
                    v = 64 * k + popcount(bit - one[0])
                    word = rest
                    dies = weight[v] >= largest
                    for j in range(W):
                        done = s[j]
                        if j == uw:
                            done = done | ub
                        if users[v * W + j] & ~done:
                            dies = False
                    if dies:
                        if s[2 * W + k] & bit:
                            dirty_free += 1
                        else:
                            clean_free += 1
            same = min(dirty_new, dirty_free)
            pairs = 2 * (dirty_new - same)
            if pairs + clean_new > dirty_free - same + clean_free:
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
    tw, tb = t >> 6, one[t & 63]
    if sizes[BACK]:  # dirty is what is touched first, unless it needs no store
        for k in range(W):
            word = reads[u * W + k] & ~s[W + k]
            while word:
                rest = word & (word - one[0])
                v = 64 * k + popcount((word ^ rest) - one[0])
                fresh = ops[4][v] > 0
                for j in range(W):
                    if users[v * W + j] & s[j]:
                        fresh = False
                if fresh:
                    s[2 * W + k] |= word ^ rest
                word = rest
    else:
        s[2 * W + tw] |= tb
    for k in range(W):
        s[k] |= sets[6][u * W + k]
    s[W + tw] |= tb
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
