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
    USED,
    WORK,
    StateTable,
    SweepArrays,
    weigh,
)


def thin(search: SweepArrays, ids: Any) -> None:
    """Of `ids`, sorted so that equal A are adjacent, cheapest first, keep what none dominates.

    Let a and b have done the same operations.  What is live and not red has its load paid, so from
    a one gets to b's red values for nothing but what is evicted, and the stores of values that are
    dirty in a and clean in b.  If a with these costs no more than b, b need not be expanded: what
    follows b follows a.  Penalties of a and b are ordered alike, so a stays where b goes.
    """
    game, control = search.game, search.control
    W, cost, states = game.W, search.table.cost, search.table.states
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
                red = weigh(game, k, states[A + W + k] & ~states[B + W + k])
                gap -= red + weigh(game, k, states[A + 2 * W + k] & ~states[B + 2 * W + k])
            if gap >= 0:
                dominated = True
                break
        if dominated:
            search.table.estimate[b] = -1
        else:
            ids[kept] = b
            kept += 1
        if control[WORK] > control[BUDGET]:
            control[KEPT], control[START], control[STATUS] = kept, start, GOING
            return
    control[KEPT], control[START], control[STATUS] = kept, start, DONE


def gather(table: StateTable, layer: int, ids: Any) -> int:
    """Put the states of a layer in `ids`; how many they are."""
    head, n = table.heads[layer], 0
    while head >= 0:
        if table.estimate[head] >= 0:
            ids[n] = head
            n += 1
        head = table.following[head]
    return n


def compact(W: int, control: Any, table: StateTable) -> None:
    """Close the gaps that expanded states left, and string up the layers again."""
    states, heads, cost, estimate = table.states, table.heads, table.cost, table.estimate
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
        table.parent[to], table.rank[to] = table.parent[n], table.rank[n]
        cost[to], estimate[to] = cost[n], estimate[n]
        table.following[to] = heads[layer]
        heads[layer] = to
        to += 1
    control[USED] = to


def index(W: int, control: Any, table: StateTable, s: Any) -> None:
    """Fill an empty table with all states."""
    for n in range(control[USED]):
        for k in range(3 * W):
            s[k] = table.states[n * 3 * W + k]
        table.slots[place(W, s, table)] = n
