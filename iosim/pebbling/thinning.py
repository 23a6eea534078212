"""Loops over a layer of states, and over the tables that hold them."""

from __future__ import annotations

from typing import Any

from iosim.base.compiled import popcount
from iosim.pebbling.expanding import place
from iosim.pebbling.state_layout import (
    AT,
    BUDGET,
    COUNT,
    DONE,
    FURTHEST,
    GOING,
    KEPT,
    START,
    STATUS,
    UNIT,
    USED,
    WORDS,
    WORK,
)


def thin(
    sizes: Any, weight: Any, one: Any, control: Any, ids: Any, nodes: Any, states: Any
) -> None:
    """Of `ids`, sorted so that equal A stand together, cheapest first, keep what none dominates.

    Let a and b have done the same operations.  What is live and not red has its load paid, so from
    a one gets to b's red values for nothing but what is evicted, and the stores of values that are
    dirty in a and clean in b.  If a with these costs no more than b, b need not be expanded: what
    follows b follows a.  Penalties of a and b are ordered alike, so a stays where b goes.
    """
    W, cost, estimate = sizes[WORDS], nodes[2], nodes[3]
    kept, start = control[KEPT], control[START]
    while control[AT] < control[COUNT]:
        b = ids[control[AT]]
        control[AT] += 1
        B = b * 3 * W
        if kept > start:
            a = ids[start] * 3 * W
            for k in range(W):
                if states[a + k] != states[B + k]:
                    start = kept
                    break
        dominated = False
        for j in range(start, min(kept, start + FURTHEST)):
            control[WORK] += 1
            gap = cost[b] - cost[ids[j]]
            A = ids[j] * 3 * W
            for k in range(W):
                red = states[A + W + k] & ~states[B + W + k]
                dirty = states[A + 2 * W + k] & ~states[B + 2 * W + k]
                if sizes[UNIT]:
                    gap -= popcount(red) + popcount(dirty)
                else:
                    while red:
                        rest = red & (red - one[0])
                        gap -= weight[64 * k + popcount((red ^ rest) - one[0])]
                        red = rest
                    while dirty:
                        rest = dirty & (dirty - one[0])
                        gap -= weight[64 * k + popcount((dirty ^ rest) - one[0])]
                        dirty = rest
            if gap >= 0:
                dominated = True
                break
        if dominated:
            estimate[b] = -1
        else:
            ids[kept] = b
            kept += 1
        if control[WORK] > control[BUDGET]:
            control[KEPT], control[START], control[STATUS] = kept, start, GOING
            return
    control[KEPT], control[START], control[STATUS] = kept, start, DONE


def gather(head: int, ids: Any, nodes: Any) -> int:
    """Put the states of a layer in `ids`; how many they are."""
    estimate, following = nodes[3], nodes[4]
    n = 0
    while head >= 0:
        if estimate[head] >= 0:
            ids[n] = head
            n += 1
        head = following[head]
    return n


def compact(sizes: Any, control: Any, nodes: Any, states: Any, heads: Any) -> None:
    """Close the gaps that expanded states left, and string up the layers anew."""
    W = sizes[WORDS]
    parent, rank, cost, estimate, following, _, _ = nodes
    for k in range(len(heads)):
        heads[k] = -1
    to = 0
    for n in range(control[USED]):
        if estimate[n] < 0:
            continue
        layer = 0
        for k in range(W):
            layer += popcount(states[n * 3 * W + k])
        for k in range(3 * W):
            states[to * 3 * W + k] = states[n * 3 * W + k]
        parent[to], rank[to], cost[to] = parent[n], rank[n], cost[n]
        estimate[to] = estimate[n]
        following[to] = heads[layer]
        heads[layer] = to
        to += 1
    control[USED] = to


def index(sizes: Any, control: Any, states: Any, slots: Any, mix: Any, s: Any) -> None:
    """Fill an empty table with all states."""
    W = sizes[WORDS]
    for n in range(control[USED]):
        for k in range(3 * W):
            s[k] = states[n * 3 * W + k]
        slots[place(W, s, states, slots, mix)] = n
