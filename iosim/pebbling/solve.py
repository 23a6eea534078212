"""Exact optima: the least number of transfers that any schedule of a graph needs, with a schedule.

>>> from iosim.pebbling import matmul, optimum
>>> best = optimum(matmul(2, 2, 2), M=4)
>>> best.cost, best.lower_bound, best.optimal
(17, 17, True)
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.errors import InputError
from iosim.pebbling.bits import members
from iosim.pebbling.dag import Dag
from iosim.pebbling.game import Game, Move
from iosim.pebbling.rules import Operation, compile_rules
from iosim.pebbling.search import Found, State, search
from iosim.pebbling.states import States, one
from iosim.pebbling.symmetry import Symmetry
from iosim.problem import check_size
from iosim.shown import Tabled

MEMORY = 4 * 2**30


@dataclass(frozen=True, kw_only=True)
class Optimum(Tabled):
    """What was found: no schedule costs less than `lower_bound`, and `schedule` costs `cost`.

    `stopped` says why the search ended before the two met; it is empty where they did.  `cost` is
    None, and the schedule empty, only where the search was interrupted at its very start.

    >>> from iosim.pebbling import pyramid
    >>> best = optimum(pyramid(2), M=4)
    >>> best.cost, best.loads, best.stores, best.optimal
    (4, 3, 1, True)
    """

    dag: Dag
    M: int
    recompute: bool
    partial: bool
    cost: int | None
    lower_bound: int
    loads: int
    stores: int
    schedule: tuple[Move, ...]
    seconds: float
    states: int
    stopped: str
    html_by = "iosim.output.views:optimum"
    table_by = "iosim.output.views:optimum_table"

    def __repr__(self) -> str:
        return f"<Optimum of {self.dag.name}, M = {self.M:,}: {self.said}>"

    @property
    def said(self) -> str:
        """What was found, in words."""
        if self.optimal:
            return f"{self.cost} I/Os, proved optimal"
        found = "no schedule found" if self.cost is None else f"{self.cost} I/Os found"
        return f"{found}, {self.lower_bound} proved"

    @property
    def optimal(self) -> bool:
        """Whether the cost is proved to be the least."""
        return self.cost == self.lower_bound

    def as_dict(self) -> dict[str, Any]:
        """What ``iosim optimal --json`` prints."""
        return {
            "dag": self.dag.name, "vertices": len(self.dag.vertices), "M": self.M,
            "recompute": self.recompute, "partial": self.partial, "cost": self.cost,
            "lower_bound": self.lower_bound, "optimal": self.optimal, "loads": self.loads,
            "stores": self.stores, "seconds": round(self.seconds, 3), "states": self.states,
            "stopped": self.stopped,
            "schedule": [
                [m.kind, m.vertex] if m.term is None else [m.kind, m.vertex, m.term]
                for m in self.schedule
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class Known:
    """What a running search knows: handed to `progress`.

    >>> from iosim.pebbling import pyramid
    >>> told = []
    >>> best = optimum(pyramid(2), M=3, progress=told.append)
    >>> all(isinstance(x, Known) and x.lower_bound <= best.cost for x in told)
    True
    """

    lower_bound: int
    cost: int | None
    states: int


def optimum(
    dag: Dag,
    M: int,
    recompute: bool = False,
    partial: bool = False,
    seconds: float = 60.0,
    memory: float = MEMORY,
    progress: Callable[[Known], None] | None = None,
) -> Optimum:
    """The optimum of the red-blue pebble game on a graph with M red pebbles.

    The search ends after `seconds`, when its tables exceed `memory` bytes, or when it is
    interrupted; then the result is an interval.  Every schedule was replayed on `Game`.  Raises
    InputError where M allows no pebbling, where both variants are asked for, and for graphs beyond
    64 vertices.

    >>> from iosim.pebbling import matmul
    >>> best = optimum(matmul(2, 2, 1), M=4)
    >>> best.cost, best.lower_bound
    (8, 8)
    """
    check_size("M", M)
    if not seconds > 0:
        raise InputError(f"seconds = {seconds} is no time to search: give more than 0")
    if not memory > 0:
        raise InputError(f"memory = {memory} bytes is too little: give more than 0")
    began = time.monotonic()
    rules = compile_rules(dag, M, recompute, partial)

    def tell(found: Found) -> None:
        if progress:
            progress(Known(found.lower, found.cost, found.states))

    found = search(rules, seconds, memory, tell)
    game = Game(dag, M, recompute, partial)
    moves: list[Move] = []
    if found.cost is not None:
        moves = _write(found, game)
        if game.loads + game.stores != found.cost:
            raise AssertionError(f"the schedule moves {game.loads + game.stores}: {found.cost}")
    return Optimum(
        dag=dag, M=M, recompute=recompute, partial=partial, cost=found.cost,
        lower_bound=found.lower, loads=game.loads, stores=game.stores, schedule=tuple(moves),
        seconds=time.monotonic() - began, states=found.states, stopped=found.stopped,
    )  # fmt: skip


def _write(found: Found, game: Game) -> list[Move]:
    """Play the schedule along the path of states, each known up to an automorphism only.

    `values` and `ops` lead from numbers in the present state to those in the schedule.
    """
    expand, rules = found.expand, found.expand.rules
    slack = (found.cost or 0) - rules.compulsory
    values = list(range(len(rules.values)))
    ops = list(range(len(rules.ops)))
    moves: list[Move] = []

    def names(word: np.uint64) -> list[str]:
        return [rules.values[values[v]] for v in members(int(word))]

    for here, there in itertools.pairwise(found.path):
        children = expand(one(*here), slack)
        child, k = _which(found.symmetry, children.states, there)
        moves += _step(
            game,
            rules.ops[ops[int(children.op[child])]],
            names(children.evicted[child]),
            set(names(children.stored[child])),
            set(names(children.states.R[child])),
        )
        if found.symmetry and k >= 0:
            values = [values[v] for v in np.argsort(found.symmetry.maps[k][0].image)]
            ops = [ops[u] for u in np.argsort(found.symmetry.maps[k][1].image)]
    game.finish()
    return moves


def _which(symmetry: Symmetry | None, children: States, goal: State) -> tuple[int, int]:
    """The child that is the goal, and the automorphism that makes it so (−1 for none)."""
    raw = children.find(goal)
    if len(raw):
        return int(raw[0]), -1
    if symmetry is None:
        raise AssertionError("the path has a gap")
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

    def play(kind: str, v: str, term: str | None = None) -> None:
        moves.append(Move(kind, v, term))
        game.play(moves[-1])

    v, dag = op.vertex, game.dag
    for x in evicted:
        if x in stored:
            play("store", x)
        play("delete", x)
    operands = dag.preds[v] if op.term is None else (op.term,)
    if op.term in dag.fused:
        operands = dag.preds[op.term]
    if game.terms.get(v):
        operands = (*operands, v)
    for x in operands:
        if x not in game.red:
            play("load", x)
    play("compute" if op.term is None else "add", v, op.term)
    if v in dag.outputs and v in game.computed and v not in game.blue:
        play("store", v)
    for x in sorted(game.red - after):
        play("delete", x)
    return moves
