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
    MAPS,
    MOST,
    OPS,
    RECORDS,
    ROOM,
    SKIP,
    STATUS,
    UNIT,
    USED,
    VALUES,
    WORDS,
    WORK,
    M,
)


def canonical(sizes: Any, images: Any, one: Any, s: Any, scratch: Any, applied: Any) -> None:
    """Climb down to a state that none of the maps makes less.

    The maps that were applied are left in `applied`, from place 1 on, their number in place 0.
    """
    W, values, count = sizes[WORDS], sizes[VALUES], sizes[OPS]
    zero = one[0] & ~one[0]
    applied[0] = 0
    again = True
    while again:
        again = False
        for m in range(sizes[MAPS]):
            order = 0
            for part in range(3):
                for k in range(W):
                    scratch[part * W + k] = zero
                at = m * count if part == 0 else m * values
                for k in range(W):
                    word = s[part * W + k]
                    while word:
                        rest = word & (word - one[0])
                        x = 64 * k + popcount((word ^ rest) - one[0])
                        to = images[0][at + x] if part == 0 else images[1][at + x]
                        scratch[part * W + (to >> 6)] |= one[to & 63]
                        word = rest
                if order == 0:
                    for k in range(W):
                        if order == 0 and scratch[part * W + k] != s[part * W + k]:
                            order = -1 if scratch[part * W + k] < s[part * W + k] else 1
                if order > 0:
                    break
            if order < 0:
                for k in range(3 * W):
                    s[k] = scratch[k]
                again = True
                if applied[0] + 1 < len(applied):
                    applied[0] += 1
                    applied[applied[0]] = m


def place(W: int, s: Any, states: Any, slots: Any, mix: Any) -> Any:
    """The slot of a state in the table, or the free one where it belongs."""
    h = mix[0]
    for k in range(3 * W):
        h = ((h ^ s[k]) * mix[1]) & mix[3]
        h = h ^ (h >> mix[2])
    at = h & mix[4]
    while slots[at] >= 0:
        n = slots[at] * 3 * W
        same = True
        for k in range(3 * W):
            if states[n + k] != s[k]:
                same = False
                break
        if same:
            return at
        at = (at + mix[5]) & mix[4]
    return at


def expand(
    sizes: Any,
    ops: Any,
    sets: Any,
    chain: Any,
    cut: Any,
    images: Any,
    one: Any,
    mix: Any,
    control: Any,
    ids: Any,
    nodes: Any,
    states: Any,
    slots: Any,
    heads: Any,
    work: Any,
    local: Any,
    wanted: int,
) -> None:
    """Expand the states of `ids` from `control[AT]` on, until all are, or a limit is reached.

    A state that was left half-way is taken up again where it was left.  With `wanted`
    ≥ 0, the child of this rank of the first state is left in `child`, the evicted values in `live`,
    its operation and those that followed at once in `trace`, and their number in `control[WORK]`.
    """
    W, count, unit = sizes[WORDS], sizes[OPS], sizes[UNIT]
    target, extra, weight = ops[0], ops[1], ops[2]
    before, reads, into, using = sets[0], sets[1], sets[2], sets[5]
    parent, rank, cost, estimate, following, path, ranks = nodes
    order, chosen, cand, mine, left, trace, applied = local
    s, child, live, scratch, room, image, remaining, must = work
    zero = one[0] & ~one[0]
    while control[AT] < control[COUNT]:
        node = ids[control[AT]]
        record = control[RECORDS]
        if wanted < 0 and record >= control[MOST]:
            control[STATUS] = FULL
            return
        for k in range(3 * W):
            s[k] = states[node * 3 * W + k]
        slack = control[LIMIT] - cost[node]
        leaf = 0
        # The red values, those with the fewest uses left first, clean before dirty.
        n = 0
        for k in range(W):
            word = s[W + k]
            while word:
                rest = word & (word - one[0])
                v = 64 * k + popcount((word ^ rest) - one[0])
                dirty = 1 if s[2 * W + k] & (word ^ rest) else 0
                word = rest
                uses, adds = 0, 0
                for j in range(W):
                    uses += popcount(using[v * W + j] & ~s[j])
                    if into[v * W + j] & ~s[j]:
                        adds = 2
                key = 4 * uses + adds + dirty
                i = n
                while i > 0 and mine[i - 1] > key:
                    mine[i], order[i] = mine[i - 1], order[i - 1]
                    i -= 1
                mine[i], order[i] = key, v
                n += 1
        # must[i]: the values that are evicted before order[i] is, or no less.
        few = n <= 64
        if few:
            for i in range(n):
                v = order[i]
                for j in range(W):
                    remaining[i * W + j] = using[v * W + j] & ~s[j]
                must[i] = zero
                for h in range(i):
                    if weight[order[h]] != weight[v]:
                        continue
                    within, equal = True, True
                    for j in range(W):
                        if remaining[h * W + j] & ~remaining[i * W + j]:
                            within = False
                        if remaining[h * W + j] != remaining[i * W + j]:
                            equal = False
                    if mine[h] & 1 and (not equal or mine[h] & 2 or mine[i] & 3 != 1):
                        within = False
                    if within:
                        must[i] |= one[h]
        for u in range(count):
            if not ready(W, before, one, s, u):
                continue
            t = target[u]
            over, m, spare, present = extra[u] - sizes[M], 0, 0, zero
            for k in range(W):
                word = reads[u * W + k]
                if k == t >> 6:
                    word = word | one[t & 63]
                scratch[k] = word
                word = word | s[W + k]
                if unit:
                    over += popcount(word)
                else:
                    while word:
                        rest = word & (word - one[0])
                        over += weight[64 * k + popcount((word ^ rest) - one[0])]
                        word = rest
            if over > slack:
                continue
            if over > 0:
                for i in range(n):
                    v = order[i]
                    if not scratch[v >> 6] & one[v & 63]:
                        cand[m] = i
                        m += 1
                        spare += weight[v]
                        if few:
                            present |= one[i]
                # left[i]: words of the candidates from i on.
                for i in range(m):
                    left[i] = spare
                    spare -= weight[order[cand[i]]]
            left[m] = 0
            need, price, taken, i, out = over, 0, 0, 0, zero
            while True:
                control[WORK] += 1
                if control[WORK] > control[BUDGET] and wanted < 0:
                    control[SKIP] = max(control[SKIP], leaf)
                    control[STATUS] = GOING
                    return
                leave = False
                if need <= 0:
                    minimal = True
                    if not unit:
                        for j in range(taken):
                            if need + weight[order[cand[chosen[j]]]] <= 0:
                                minimal = False
                    if minimal and price <= slack:
                        leaf += 1
                        if wanted == leaf or (wanted < 0 and leaf > control[SKIP]):
                            control[WORK] += 8
                            for k in range(3 * W):
                                child[k] = s[k]
                            for j in range(taken):
                                v = order[cand[chosen[j]]]
                                child[W + (v >> 6)] &= ~one[v & 63]
                                child[2 * W + (v >> 6)] &= ~one[v & 63]
                            if wanted == leaf:
                                for k in range(W):
                                    live[k] = s[W + k] & ~child[W + k]
                            apply(sizes, ops, sets, one, child, u)
                            quick = settle(sizes, ops, sets, one, child, trace)
                            if wanted == leaf:
                                trace[0] = u
                                control[WORK] = quick
                                return
                            if sizes[MAPS]:
                                canonical(sizes, images, one, child, image, applied)
                            at = place(W, child, states, slots, mix)
                            known = slots[at]
                            total = cost[node] + price
                            if known >= 0:
                                if total < cost[known]:
                                    cost[known] = total
                                    parent[known] = record
                                    rank[known] = leaf
                            else:
                                ahead = bound(
                                    sizes,
                                    ops,
                                    sets,
                                    chain,
                                    cut,
                                    one,
                                    child,
                                    live,
                                    room,
                                    slack - price,
                                )
                                if ahead + price <= slack:
                                    new = control[USED]
                                    if new >= control[ROOM]:
                                        control[STATUS] = FULL
                                        return
                                    control[USED] = new + 1
                                    slots[at] = new
                                    layer = 0
                                    for k in range(3 * W):
                                        states[new * 3 * W + k] = child[k]
                                    for k in range(W):
                                        layer += popcount(child[k])
                                    cost[new] = total
                                    estimate[new] = ahead
                                    parent[new] = record
                                    rank[new] = leaf
                                    following[new] = heads[layer]
                                    heads[layer] = new
                    back = True
                else:
                    back = i >= m or left[i] < need or price + need > slack
                    if not back:
                        x = cand[i]
                        if few:
                            leave = (must[x] & present & ~out) != zero
                        if not leave:
                            chosen[taken] = i
                            taken += 1
                            v = order[x]
                            need -= weight[v]
                            price += weight[v] * (1 + (mine[x] & 1))
                            if few:
                                out |= one[x]
                        i += 1
                if back:
                    if taken == 0:
                        break
                    taken -= 1
                    i = chosen[taken]
                    x = cand[i]
                    v = order[x]
                    need += weight[v]
                    price -= weight[v] * (1 + (mine[x] & 1))
                    if few:
                        out &= ~one[x]
                    i += 1
        if wanted >= 0:
            return
        path[record] = parent[node]
        ranks[record] = rank[node]
        estimate[node] = -1
        control[SKIP] = 0
        control[RECORDS] = record + 1
        control[AT] += 1
    control[STATUS] = DONE
