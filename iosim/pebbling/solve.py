"""Exact optima: the least number of transfers that any schedule of a graph needs, with a schedule.

>>> from iosim.pebbling import matmul, optimum
>>> best = optimum(matmul(2, 2, 2), M=4)
>>> best.cost, best.lower_bound, best.optimal
(17, 17, True)
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from iosim.base.display import Tabled
from iosim.base.errors import InputError
from iosim.base.memory import resident_bytes
from iosim.base.rows import Row
from iosim.base.validate import check_size
from iosim.pebbling.dag import Dag, check_dag, check_memory
from iosim.pebbling.game import Game, Move
from iosim.pebbling.rules import compile_rules
from iosim.pebbling.search import SPARE, Found, search

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
    html_by = "iosim.report.views:optimum"
    table_by = "iosim.report.views:optimum_table"

    def __repr__(self) -> str:
        return f"<Optimum of {self.dag.name}, M = {self.M:,}: {self.summary}>"

    @property
    def summary(self) -> str:
        """What was found, in words."""
        if self.optimal:
            return f"{self.cost} I/Os, proved optimal"
        found = "no schedule found" if self.cost is None else f"{self.cost} I/Os found"
        return f"{found}, {self.lower_bound} proved"

    @property
    def optimal(self) -> bool:
        """Whether the cost is proved to be the least."""
        return self.cost == self.lower_bound

    def as_dict(self) -> Row:
        """What ``iosim optimal --json`` prints."""
        return {
            "dag": self.dag.name,
            "vertices": len(self.dag.vertices),
            "M": self.M,
            "recompute": self.recompute,
            "partial": self.partial,
            "cost": self.cost,
            "lower_bound": self.lower_bound,
            "optimal": self.optimal,
            "loads": self.loads,
            "stores": self.stores,
            "seconds": round(self.seconds, 3),
            "states": self.states,
            "stopped": self.stopped,
            "schedule": [
                [m.kind, m.vertex] if m.term is None else [m.kind, m.vertex, m.term]
                for m in self.schedule
            ],
        }


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

    The search ends within `seconds`, the compiling of its loops included, before this process
    takes more than `memory` bytes, or when it is interrupted; then the result is an interval.
    Every schedule was replayed on `Game`.  Raises InputError where M allows no pebbling, where both
    variants are requested, for graphs of more than 512 vertices, and where the process takes more
    than `memory` bytes before the search.

    >>> from iosim.pebbling import matmul
    >>> best = optimum(matmul(2, 2, 1), M=4)
    >>> best.cost, best.lower_bound
    (8, 8)
    """
    check_dag(dag)
    M = check_size("M", M)
    if not seconds > 0:
        raise InputError(f"seconds = {seconds} is no time to search: give more than 0")
    if not memory > 0:
        raise InputError(f"memory = {memory} bytes is too little: give more than 0")
    if (taken := resident_bytes()) > SPARE * memory:
        raise InputError(
            f"memory = {memory / 1e6:.0f} MB is too little: the process takes {taken / 1e6:.0f} MB "
            f"before the search; give at least {1.2 * taken / 1e6:.0f} MB"
        )
    began = time.monotonic()
    check_memory(dag, M, partial)
    # In units of the largest words that all vertices are multiples of.
    unit = math.gcd(*dag.words)
    scaled = dataclasses.replace(dag, words=tuple(words // unit for words in dag.words))
    rules = compile_rules(scaled, M // unit, recompute, partial)

    def tell(found: Found) -> None:
        if progress:
            cost = None if found.cost is None else found.cost * unit
            progress(Known(found.lower * unit, cost, found.states))

    found = search(rules, seconds, memory, tell, began)
    game = Game(dag, M, recompute, partial)
    for move in found.moves:
        game.play(move)
    cost = None if found.cost is None else found.cost * unit
    if cost is not None:
        game.finish()
        if game.loads + game.stores != cost:
            raise AssertionError(f"the schedule moves {game.loads + game.stores}: {cost}")
    return Optimum(
        dag=dag,
        M=M,
        recompute=recompute,
        partial=partial,
        cost=cost,
        lower_bound=found.lower * unit,
        loads=game.loads,
        stores=game.stores,
        schedule=tuple(found.moves),
        seconds=time.monotonic() - began,
        states=found.states,
        stopped=found.stopped,
    )
