"""The loop that bounds what is still to come: see `chains.py`."""

from __future__ import annotations

from typing import Any

from iosim.pebbling.state_layout import ChainArrays, GameArrays, weigh


def bound(game: GameArrays, chains: ChainArrays, s: Any, live: Any, room: Any, most: int) -> int:
    """Penalties that no completion avoids: see `chains.py`.  Stops once they exceed `most`."""
    best = 0
    if not chains.total:
        return best
    list_live(game, s, live)
    for c in range(chains.total):
        best = max(best, bound_chain(game, chains, c, s, live, room))
        if best > most:
            break
    return best


def list_live(game: GameArrays, s: Any, live: Any) -> None:
    """The values touched and still to be used; then those to be dirty, or dirty now."""
    W, touching, using, one = game.W, game.touching, game.using, game.one
    for k in range(2 * W):
        live[k] = one[0] & ~one[0]
    for v in range(game.values):
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
        if game.made[v] and (not begun or s[2 * W + w] & b):
            live[W + w] |= b


def bound_chain(game: GameArrays, chains: ChainArrays, c: int, s: Any, live: Any, room: Any) -> int:
    """The bound of one chain.

    `room` gets the values that are out at a boundary, those that have been stored, and those that
    span it, from places 0, W and 2·W on.
    """
    W, K, one = game.W, chains.longest, game.one
    length, first = chains.lengths[c], 0
    while first < length:
        u = chains.ops[c * K + first]
        if not s[u >> 6] & one[u & 63]:
            break
        first += 1
    lost, stored = 0, 0
    for i in range(first, length):
        at = c * K + i
        for k in range(W):
            span = (live[k] | chains.until[at * W + k]) & chains.spans[at * W + k]
            span = span & ~chains.touched[at * W + k]
            room[2 * W + k] = span
            if i == first:
                # What is out now stays out until an operation before the boundary needs it.
                room[k] = span & live[k] & ~s[W + k]
                room[W + k] = one[0] & ~one[0]
            else:
                room[k] = room[k] & span & ~chains.fresh[at * W + k]
        if i == first:
            for u in range(game.ops):
                if (chains.above[at * W + (u >> 6)] & ~s[u >> 6]) & one[u & 63]:
                    t = game.target[u]
                    for k in range(W):
                        room[k] &= ~game.reads[u * W + k]
                    room[t >> 6] &= ~one[t & 63]
        free = free_dirty = chains.room[at]
        for k in range(W):
            span = room[2 * W + k]
            free -= weigh(game, k, span & ~room[k])
            free_dirty -= weigh(game, k, span & live[W + k] & ~room[W + k])
        if not game.unit:
            # Of values of several sizes: the words beyond the room at the worst boundary.
            lost = max(lost, -free)
            stored = max(stored, -free_dirty)
            continue
        j = length
        while free < 0:
            # Out goes what is needed last: the fewest evictions, as Belady has it.
            for k in range(W):
                word = room[2 * W + k] & chains.ends[((c * (K + 1) + j) * K + i) * W + k]
                taken = take_out(one[0], room, k, word, -free)
                free += taken
                lost += taken
            j -= 1
        j = length
        while free_dirty < 0:
            for k in range(W):
                word = room[2 * W + k] & live[W + k] & chains.last[(c * (K + 1) + j) * W + k]
                taken = take_out(one[0], room, W + k, word, -free_dirty)
                free_dirty += taken
                stored += taken
            j -= 1
    return lost + stored


def take_out(one: Any, room: Any, at: int, word: Any, most: int) -> int:
    """Put up to this many members of a word that are not in it yet in `room[at]`; how many."""
    taken = 0
    word = word & ~room[at]
    while word and taken < most:
        rest = word & (word - one)
        room[at] |= word ^ rest
        word = rest
        taken += 1
    return taken
