"""The loop that makes successors: every operation that may come next, every way to evict."""

from __future__ import annotations

from typing import Any

from iosim.base.compiled import popcount
from iosim.pebbling.bounding import bound
from iosim.pebbling.settling import apply, ready, settle
from iosim.pebbling.state_layout import (
    AT,
    BUDGET,
    COUNT,
    DONE,
    FULL,
    GOING,
    LIMIT,
    MOST,
    RECORDS,
    ROOM,
    SKIP,
    STATUS,
    USED,
    WORK,
    GameArrays,
    MapArrays,
    Scratch,
    StateTable,
    SweepArrays,
    weigh,
)


def canonical(game: GameArrays, maps: MapArrays, s: Any, image: Any, applied: Any) -> None:
    """Climb down to a state that none of the maps makes less.

    The maps that were applied are left in `applied`, from place 1 on, their number in place 0.
    """
    W = game.W
    applied[0] = 0
    changed = True
    while changed:
        changed = False
        for m in range(maps.total):
            if lessens(game, maps, m, s, image):
                for k in range(3 * W):
                    s[k] = image[k]
                changed = True
                if applied[0] + 1 < len(applied):
                    applied[0] += 1
                    applied[applied[0]] = m


def lessens(game: GameArrays, maps: MapArrays, m: int, s: Any, image: Any) -> bool:
    """Whether a map makes a state less: then the image is whole."""
    W, one = game.W, game.one
    order = 0
    for part in range(3):
        for k in range(W):
            image[part * W + k] = one[0] & ~one[0]
        for k in range(W):
            word = s[part * W + k]
            while word:
                rest = word & (word - one[0])
                x = 64 * k + popcount((word ^ rest) - one[0])
                to = maps.values[m * game.values + x] if part else maps.ops[m * game.ops + x]
                image[part * W + (to >> 6)] |= one[to & 63]
                word = rest
        for k in range(part * W, (part + 1) * W):
            if order == 0 and image[k] != s[k]:
                order = -1 if image[k] < s[k] else 1
        if order > 0:
            return False
    return order < 0


def place(W: int, s: Any, table: StateTable) -> Any:
    """The slot of a state in the table, or the free one where it belongs."""
    slots, mix = table.slots, table.mix
    h = mix[0]
    for k in range(3 * W):
        h = ((h ^ s[k]) * mix[1]) & mix[3]
        h = h ^ (h >> mix[2])
    at = h & mix[4]
    while slots[at] >= 0:
        n = slots[at] * 3 * W
        same = True
        for k in range(3 * W):
            if table.states[n + k] != s[k]:
                same = False
                break
        if same:
            return at
        at = (at + mix[5]) & mix[4]
    return at


def expand(search: SweepArrays, ids: Any, wanted: int) -> None:
    """Expand the states of `ids` from `control[AT]` on, until all are, or a limit is reached.

    A state that was left half-way is taken up again where it was left.  With `wanted`
    ≥ 0, the child of this rank of the first state is left in `child`, the evicted values in `live`,
    its operation and those that followed at once in `trace`, and their number in `control[WORK]`.
    """
    game, table, control, s = search.game, search.table, search.control, search.scratch.state
    while control[AT] < control[COUNT]:
        node = ids[control[AT]]
        record = control[RECORDS]
        if wanted < 0 and record >= control[MOST]:
            control[STATUS] = FULL
            return
        for k in range(3 * game.W):
            s[k] = table.states[node * 3 * game.W + k]
        leaf, red = 0, order_red(game, search.scratch)
        for u in range(game.ops):
            if ready(game, s, u):
                leaf = evict(search, node, red, u, leaf, wanted)
                if leaf < 0:
                    return
        if wanted >= 0:
            return
        table.path[record] = table.parent[node]
        table.ranks[record] = table.rank[node]
        table.estimate[node] = -1
        control[SKIP] = 0
        control[RECORDS] = record + 1
        control[AT] += 1
    control[STATUS] = DONE


def order_red(game: GameArrays, scratch: Scratch) -> int:
    """Put the red values in `order`, those with the fewest uses left first, clean before dirty.

    Returns how many.  Where they are 64 at most, `must` says which of them are evicted before each
    is, or no less.
    """
    W, one, using, s = game.W, game.one, game.using, scratch.state
    order, keys = scratch.order, scratch.keys
    n = 0
    for k in range(W):
        word = s[W + k]
        while word:
            rest = word & (word - one[0])
            v = 64 * k + popcount((word ^ rest) - one[0])
            key = 1 if s[2 * W + k] & (word ^ rest) else 0
            word = rest
            adds = 0
            for j in range(W):
                key += 4 * popcount(using[v * W + j] & ~s[j])
                if game.into[v * W + j] & ~s[j]:
                    adds = 2
            key += adds
            i = n
            while i > 0 and keys[i - 1] > key:
                keys[i], order[i] = keys[i - 1], order[i - 1]
                i -= 1
            keys[i], order[i] = key, v
            n += 1
    if n <= 64:
        for i in range(n):
            put_before(game, scratch, i)
    return n


def put_before(game: GameArrays, scratch: Scratch, i: int) -> None:
    """Put in `must[i]` the values that are evicted before the i-th is, or no less."""
    W, one, remaining = game.W, game.one, scratch.remaining
    order, keys, weight = scratch.order, scratch.keys, game.weight
    v = order[i]
    for j in range(W):
        remaining[i * W + j] = game.using[v * W + j] & ~scratch.state[j]
    scratch.must[i] = one[0] & ~one[0]
    for h in range(i):
        if weight[order[h]] != weight[v]:
            continue
        within, equal = True, True
        for j in range(W):
            if remaining[h * W + j] & ~remaining[i * W + j]:
                within = False
            if remaining[h * W + j] != remaining[i * W + j]:
                equal = False
        if keys[h] & 1 and (not equal or keys[h] & 2 or keys[i] & 3 != 1):
            within = False
        if within:
            scratch.must[i] |= one[h]


def evict(search: SweepArrays, node: int, red: int, u: int, leaf: int, wanted: int) -> int:
    """Make the children by an operation: one for each least set of values to evict before it.

    Args:
        red: how many red values there are.
        leaf: the children that the state has so far.

    Returns the children with these, or −1 where a limit is reached or the wanted one is made.
    """
    game, control, scratch = search.game, search.control, search.scratch
    order, chosen, candidates = scratch.order, scratch.chosen, scratch.candidates
    left, keys, one = scratch.left, scratch.keys, game.one
    slack = control[LIMIT] - search.table.cost[node]
    need = game.extra[u] - game.M
    for k in range(game.W):
        word = game.reads[u * game.W + k]
        if k == game.target[u] >> 6:
            word = word | one[game.target[u] & 63]
        scratch.sets[k] = word
        need += weigh(game, k, word | scratch.state[game.W + k])
    if need > slack:
        return leaf
    zero = one[0] & ~one[0]
    m, present, out = 0, zero, zero
    if need > 0:
        m, present = list_candidates(game, scratch, red)
    left[m] = 0
    price, taken, i = 0, 0, 0
    while True:
        control[WORK] += 1
        if control[WORK] > control[BUDGET] and wanted < 0:
            control[SKIP] = max(control[SKIP], leaf)
            control[STATUS] = GOING
            return -1
        back = True
        if need <= 0:
            if price <= slack and is_least(game, scratch, need, taken):
                leaf += 1
                if wanted == leaf or (wanted < 0 and leaf > control[SKIP]):
                    control[WORK] += 8
                    if not make_child(search, node, u, taken, price, leaf, wanted):
                        return -1
        elif i < m and left[i] >= need and price + need <= slack:
            back = False
            x = candidates[i]
            if scratch.must[x] & present & ~out == zero:
                chosen[taken] = i
                taken += 1
                weight = game.weight[order[x]]
                need -= weight
                price += weight * (1 + (keys[x] & 1))
                out |= one[x & 63]
            i += 1
        if back:
            if taken == 0:
                return leaf
            taken -= 1
            i = chosen[taken]
            x = candidates[i]
            weight = game.weight[order[x]]
            need += weight
            price -= weight * (1 + (keys[x] & 1))
            out &= ~one[x & 63]
            i += 1


def list_candidates(game: GameArrays, scratch: Scratch, red: int) -> tuple[int, Any]:
    """The red values that an operation leaves alone: how many, and as a set where they are few."""
    one, order, left = game.one, scratch.order, scratch.left
    m, spare, present = 0, 0, one[0] & ~one[0]
    for i in range(red):
        v = order[i]
        if not scratch.sets[v >> 6] & one[v & 63]:
            scratch.candidates[m] = i
            m += 1
            spare += game.weight[v]
            if red <= 64:
                present |= one[i]
    # left[i]: words of the candidates from i on.
    for i in range(m):
        left[i] = spare
        spare -= game.weight[order[scratch.candidates[i]]]
    return m, present


def is_least(game: GameArrays, scratch: Scratch, need: int, taken: int) -> bool:
    """Whether all that was chosen must be evicted."""
    if not game.unit:
        for j in range(taken):
            if need + game.weight[scratch.order[scratch.candidates[scratch.chosen[j]]]] <= 0:
                return False
    return True


def make_child(
    search: SweepArrays, node: int, u: int, taken: int, price: int, leaf: int, wanted: int
) -> bool:
    """Evict what was chosen, do an operation, and put what that gives in the table.

    A child beyond the limit, or no cheaper than an equal state, is dropped.  False where the table
    is full, or the wanted child is made.
    """
    game, scratch, control, table = search.game, search.scratch, search.control, search.table
    W, s, child, one, cost = game.W, scratch.state, scratch.child, game.one, table.cost
    for k in range(3 * W):
        child[k] = s[k]
    for j in range(taken):
        v = scratch.order[scratch.candidates[scratch.chosen[j]]]
        child[W + (v >> 6)] &= ~one[v & 63]
        child[2 * W + (v >> 6)] &= ~one[v & 63]
    if wanted == leaf:
        for k in range(W):
            scratch.live[k] = s[W + k] & ~child[W + k]
    apply(game, child, u)
    quick = settle(game, child, scratch.trace)
    if wanted == leaf:
        scratch.trace[0] = u
        control[WORK] = quick
        return False
    if search.maps.total:
        canonical(game, search.maps, child, scratch.image, scratch.applied)
    at = place(W, child, table)
    known = table.slots[at]
    total = cost[node] + price
    if known >= 0:
        if total < cost[known]:
            cost[known] = total
            table.parent[known] = control[RECORDS]
            table.rank[known] = leaf
        return True
    most = control[LIMIT] - total
    ahead = bound(game, search.chains, child, scratch.live, scratch.room, most)
    if ahead > most:
        return True
    new = control[USED]
    if new >= control[ROOM]:
        control[STATUS] = FULL
        return False
    control[USED] = new + 1
    table.slots[at] = new
    layer = 0
    for k in range(3 * W):
        table.states[new * 3 * W + k] = child[k]
    for k in range(W):
        layer += popcount(child[k])
    cost[new] = total
    table.estimate[new] = ahead
    table.parent[new] = control[RECORDS]
    table.rank[new] = leaf
    table.following[new] = table.heads[layer]
    table.heads[layer] = new
    return True
