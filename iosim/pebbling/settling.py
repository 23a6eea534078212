"""Loops of one state: an operation, and all that can be done at once without loss."""

from __future__ import annotations

from typing import Any

from iosim.base.compiled import popcount
from iosim.pebbling.state_layout import GameArrays, weigh


def ready(game: GameArrays, s: Any, u: int) -> bool:
    """Whether an operation is not done, and all are that come before it."""
    if s[u >> 6] & game.one[u & 63]:
        return False
    W = game.W
    for k in range(W):
        missing = game.before[u * W + k] & ~s[k]
        if missing:
            return False
    return True


def settle(game: GameArrays, s: Any, trace: Any) -> int:
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
    quick = 0
    changed = True
    while changed:
        changed = False
        for u in range(game.plain):
            # Most operations fail at the second.
            if ready(game, s, u) and has_place(game, s, u) and is_free(game, s, u):
                apply(game, s, u)
                quick += 1
                trace[quick] = u
                changed = True
    return quick


def is_past(game: GameArrays, sets: Any, s: Any, u: int, v: int) -> bool:
    """Whether all operations of a value's set are done after `u`."""
    W = game.W
    for k in range(W):
        word = sets[v * W + k] & ~s[k]
        if k == u >> 6:
            word = word & ~game.one[u & 63]
        if word:
            return False
    return True


def has_place(game: GameArrays, s: Any, u: int) -> bool:
    """Whether an operation may free a place, or want none.

    An operand is used for the last time, or a sum is added to, or an output is made that nothing
    reads.
    """
    W, t, one = game.W, game.target[u], game.one[0]
    if game.sinks[t] > 0:
        return True
    for k in range(W):
        if game.into[t * W + k] & s[k]:
            return True
        word = game.reads[u * W + k] & s[W + k]
        while word:
            rest = word & (word - one)
            if is_past(game, game.users, s, u, 64 * k + popcount((word ^ rest) - one)):
                return True
            word = rest
    return False


def is_free(game: GameArrays, s: Any, u: int) -> bool:
    """Whether what an operation makes and loads finds places, as `settle` has it."""
    W, t, weight, one = game.W, game.target[u], game.weight, game.one
    tw, tb = t >> 6, one[t & 63]
    # What is held, in words; whether the target's sum has begun.
    held, begun = game.extra[u], False
    for k in range(W):
        word = game.reads[u * W + k]
        if k == tw:
            word = word | tb
        held += weigh(game, k, word | s[W + k])
        if game.into[t * W + k] & s[k]:
            begun = True
    if held > game.M or (begun and not s[W + tw] & tb):
        return False
    # What is new: to be stored before it goes, or not; how large it may be.
    dirty_new, clean_new, largest = 0, 0, 0
    for k in range(W):
        word = game.reads[u * W + k] & ~s[W + k]
        while word:
            rest = word & (word - one[0])
            v = 64 * k + popcount((word ^ rest) - one[0])
            word = rest
            if is_past(game, game.users, s, u, v):
                continue
            largest = max(largest, weight[v])
            met = not game.made[v]
            for j in range(W):
                if game.touching[v * W + j] & s[j]:
                    met = True
            if met:
                clean_new += 1
            else:
                dirty_new += 1
    dirty_free, clean_free = 0, 0
    if not game.back:
        written = game.stores[t] > 0 and is_past(game, game.into, s, u, t)
        if not (written and is_past(game, game.users, s, u, t)):
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
        word = game.reads[u * W + k] & s[W + k]
        while word:
            rest = word & (word - one[0])
            bit = word ^ rest
            v = 64 * k + popcount(bit - one[0])
            word = rest
            if weight[v] >= largest and is_past(game, game.users, s, u, v):
                if s[2 * W + k] & bit:
                    dirty_free += 1
                else:
                    clean_free += 1
    same = min(dirty_new, dirty_free)
    return 2 * (dirty_new - same) + clean_new <= dirty_free - same + clean_free


def apply(game: GameArrays, s: Any, u: int) -> None:
    """Do an operation; what must be evicted has been taken out of R and D."""
    W, t, one = game.W, game.target[u], game.one
    reads, users = game.reads, game.users
    tw, tb = t >> 6, one[t & 63]
    if game.back:  # dirty is what is touched first, unless it needs no store
        for k in range(W):
            word = reads[u * W + k] & ~s[W + k]
            while word:
                rest = word & (word - one[0])
                v = 64 * k + popcount((word ^ rest) - one[0])
                fresh = game.made[v] > 0
                for j in range(W):
                    if users[v * W + j] & s[j]:
                        fresh = False
                if fresh:
                    s[2 * W + k] |= word ^ rest
                word = rest
    else:
        s[2 * W + tw] |= tb
    for k in range(W):
        s[k] |= game.does[u * W + k]
    s[W + tw] |= tb
    for k in range(W):
        s[W + k] |= reads[u * W + k]
        word = reads[u * W + k]
        while word:
            rest = word & (word - one[0])
            bit = word ^ rest
            if is_past(game, game.users, s, u, 64 * k + popcount(bit - one[0])):
                s[W + k] &= ~bit
                s[2 * W + k] &= ~bit
            word = rest
    if game.stores[t] and is_past(game, game.into, s, u, t):
        s[2 * W + tw] &= ~tb
        if is_past(game, game.users, s, u, t):
            s[W + tw] &= ~tb
