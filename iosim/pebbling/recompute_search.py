"""The search with recomputation: A* in whole levels of cost.

States are expanded in order of cost so far + compulsory rest, a level at a time.  That sum never
falls along a schedule, so when every state below level c has been expanded, no schedule costs less
than c: each finished level is a proof, and the level of the first goal is the optimum.  States that
cannot lead to a better schedule than the best so far are never stored.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import numpy as np

from iosim.pebbling.bits import WIDTH, members
from iosim.pebbling.expand import AT_ONCE, Expander
from iosim.pebbling.game import Game, Move
from iosim.pebbling.layered_search import Stop
from iosim.pebbling.operations import Operation
from iosim.pebbling.rules import Rules, search_size
from iosim.pebbling.states import Seen, States, concat, distinct, one
from iosim.pebbling.subsets import TooMany
from iosim.pebbling.symmetry import Symmetry

if TYPE_CHECKING:
    from iosim.pebbling.search import Found, Limits

State = tuple[int, int, int]
NO_LIMIT = 10**6
CHILD = 200  # bytes that a successor takes while it is made
SPAN = 0.05  # seconds that a chunk of states should take


def levels(rules: Rules, found: Found, limits: Limits) -> None:
    """Expand every state of one level after the other, until one holds the optimum."""
    if (size := search_size(rules.dag, False)) > WIDTH:
        raise Stop(f"{size} vertices: with recomputation {WIDTH} at most are searched")
    if not rules.dag.unit:
        raise Stop("with recomputation only vertices of one word are searched")
    try:
        _levels(rules, found, limits)
    except TooMany:
        raise Stop("memory is up: a single step has too many successors") from None


def _levels(rules: Rules, found: Found, limits: Limits) -> None:
    room = max(0.0, limits.room)
    at_once = int(min(AT_ONCE, 0.05 * room / CHILD, 1e5 * max(limits.remaining_seconds, 0.01)))
    expand = Expander(rules, at_once)
    symmetry = Symmetry(rules, min(1.0, 0.05 * limits.remaining_seconds))
    level, chunk = rules.compulsory, 64
    pending: dict[int, list[States]] = {level: [expand.start()]}
    seen = Seen()
    while not found.closed:
        found.prove(level)
        wave = pending.pop(level, [])
        while wave:
            states = concat(wave)
            at, hashes = distinct(states)
            states = states.take(at)
            new = seen.new(states, hashes)
            states = states.take(new)
            numbers = seen.add(states, hashes[new])
            found.states = seen.size
            wave = []
            low = 0
            while low < len(states):
                limits.check(seen.size * Seen.MERGING)
                began = time.monotonic()
                rows = slice(low, low + chunk)
                low += chunk
                slack = NO_LIMIT if found.cost is None else found.cost - 1 - level
                children = expand(states.take(rows), slack)
                c = symmetry.canonical(children.states.under(numbers[rows]))
                done = expand.find_goals(c)
                if done.any():
                    goals = np.nonzero(done)[0]
                    best = int(goals[np.argmin(children.rise[goals])])
                    path = [*seen.path(int(c.parent[best])), c.row(best)]
                    cost = level + int(children.rise[best])
                    found.offer(cost, write(expand, symmetry, path, cost))
                for r in np.unique(children.rise[~done]):
                    group = c.take((children.rise == r) & ~done)
                    group = group.take(distinct(group)[0])
                    (wave if r == 0 else pending.setdefault(level + int(r), [])).append(group)
                took = time.monotonic() - began
                chunk = int(min(1 << 13, max(1, chunk * min(2.0, SPAN / max(took, 1e-6)))))
        if found.cost == level:  # as much as was proved when the level began: an optimum
            return
        level += 1
        found.prove(level)
        if found.cost is not None:
            pending = {k: v for k, v in pending.items() if k < found.cost}


def write(expand: Expander, symmetry: Symmetry, path: list[State], cost: int) -> list[Move]:
    """Play the schedule along the path of states, each known up to an automorphism only.

    `values` and `ops` lead from numbers in the present state to those in the schedule.
    """
    rules = expand.rules
    game = Game(rules.dag, rules.M, recompute=True)
    values = list(range(len(rules.values)))
    ops = list(range(len(rules.ops)))
    moves: list[Move] = []

    def names(word: np.uint64) -> list[str]:
        return [rules.values[values[v]] for v in members(int(word))]

    for here, there in itertools.pairwise(path):
        children = expand(one(*here), cost - rules.compulsory)
        child, k = _which(symmetry, children.states, there)
        moves += _step(
            game,
            rules.ops[ops[int(children.op[child])]],
            names(children.evicted[child]),
            set(names(children.stored[child])),
            set(names(children.states.R[child])),
        )
        if k >= 0:
            values = [values[v] for v in np.argsort(symmetry.maps[k][0].image)]
            ops = [ops[u] for u in np.argsort(symmetry.maps[k][1].image)]
    return moves


def _which(symmetry: Symmetry, children: States, goal: State) -> tuple[int, int]:
    """The child that is the goal, and the automorphism that makes it so (−1 for none)."""
    raw = children.find(goal)
    if len(raw):
        return int(raw[0]), -1
    child = int(symmetry.canonical(children).find(goal)[0])
    for k in range(len(symmetry.maps)):
        if symmetry.image(children.row(child), k) == goal:
            return child, k
    raise AssertionError("the path has a gap")


def _step(
    game: Game, op: Operation, evicted: list[str], stored: set[str], after: set[str]
) -> list[Move]:
    """Play one step: evict, load, compute, store an output, delete what has no further use."""
    moves: list[Move] = []

    def play(kind: str, v: str) -> None:
        moves.append(Move(kind, v))
        game.play(moves[-1])

    v, dag = op.vertex, game.dag
    for x in evicted:
        if x in stored:
            play("store", x)
        play("delete", x)
    for x in dag.preds[v]:
        if x not in game.red:
            play("load", x)
    play("compute", v)
    if v in dag.outputs and v not in game.blue:
        play("store", v)
    for x in sorted(game.red - after):
        play("delete", x)
    return moves
