"""The loop that bounds what is still to come: see `chains.py`."""

from __future__ import annotations

from typing import Any

from iosim.base.compiled import popcount
from iosim.pebbling.state_layout import (
    CHAINS,
    LONGEST,
    OPS,
    UNIT,
    VALUES,
    WORDS,
)


def bound(
    sizes: Any,
    ops: Any,
    sets: Any,
    chain: Any,
    cut: Any,
    one: Any,
    s: Any,
    live: Any,
    scratch: Any,
    most: int,
) -> int:
    """Penalties that no completion avoids: see `chains.py`.  Stops once they exceed `most`."""
    W, values, K = sizes[WORDS], sizes[VALUES], sizes[LONGEST]
    touching, using = sets[4], sets[5]
    zero = one[0] & ~one[0]
    best = 0
    if not sizes[CHAINS]:
        return best
    # live: values touched and still to be used; future: those to be dirty, or dirty now.
    for k in range(2 * W):
        live[k] = zero
    for v in range(values):
        begun, ended = False, True
        for k in range(W):
            if touching[v * W + k] & s[k]:
                begun = True
            if using[v * W + k] & ~s[k]:
                ended = False
        if ended:
            continue
        w, b = v >> 6, one[v & 63]
        if begun:
            live[w] |= b
        if ops[4][v] and (not begun or s[2 * W + w] & b):
            live[W + w] |= b
    for c in range(sizes[CHAINS]):
        length = chain[0][c]
        first = 0
        while first < length:
            u = chain[1][c * K + first]
            if not s[u >> 6] & one[u & 63]:
                break
            first += 1
        lost, stored = 0, 0
        for i in range(first, length):
            at = c * K + i
            room, room_dirty = chain[2][at], chain[2][at]
            for k in range(W):
                span = (live[k] | cut[0][at * W + k]) & cut[1][at * W + k] & ~cut[2][at * W + k]
                if i == first:
                    # What is out now stays out until an operation before the boundary needs it.
                    out = span & live[k] & ~s[W + k]
                    scratch[k] = zero
                    scratch[W + k] = out
                    scratch[2 * W + k] = zero
                else:
                    scratch[W + k] = scratch[W + k] & span & ~cut[3][at * W + k]
                scratch[3 * W + k] = span
            if i == first:
                for u in range(sizes[OPS]):
                    if (cut[4][at * W + (u >> 6)] & ~s[u >> 6]) & one[u & 63]:
                        t = ops[0][u]
                        for k in range(W):
                            scratch[W + k] &= ~sets[1][u * W + k]
                        scratch[W + (t >> 6)] &= ~one[t & 63]
            for k in range(W):
                span = scratch[3 * W + k]
                if sizes[UNIT]:
                    room -= popcount(span & ~scratch[W + k])
                    room_dirty -= popcount(span & live[W + k] & ~scratch[2 * W + k])
                else:
                    word = span & ~scratch[W + k]
                    while word:
                        rest = word & (word - one[0])
                        room -= ops[2][64 * k + popcount((word ^ rest) - one[0])]
                        word = rest
                    word = span & live[W + k]
                    while word:
                        rest = word & (word - one[0])
                        room_dirty -= ops[2][64 * k + popcount((word ^ rest) - one[0])]
                        word = rest
            if not sizes[UNIT]:
                # Of values of several sizes: the words beyond the room at the worst boundary.
                lost = max(lost, -room)
                stored = max(stored, -room_dirty)
                continue
            j = length
            while room < 0:
                # Out goes what is needed last: the fewest evictions, as Belady has it.
                for k in range(W):
                    word = scratch[3 * W + k] & ~scratch[W + k]
                    word = word & cut[5][((c * (K + 1) + j) * K + i) * W + k]
                    while word and room < 0:
                        rest = word & (word - one[0])
                        scratch[W + k] |= word ^ rest
                        word = rest
                        room += 1
                        lost += 1
                j -= 1
            j = length
            while room_dirty < 0:
                for k in range(W):
                    word = scratch[3 * W + k] & live[W + k] & ~scratch[2 * W + k]
                    word = word & cut[6][(c * (K + 1) + j) * W + k]
                    while word and room_dirty < 0:
                        rest = word & (word - one[0])
                        scratch[2 * W + k] |= word ^ rest
                        word = rest
                        room_dirty += 1
                        stored += 1
                j -= 1
        if lost + stored > best:
            best = lost + stored
            if best > most:
                return best
    return best
