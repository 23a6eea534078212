"""Good schedules early: simulated annealing over orders, with clairvoyant eviction.

A schedule without recomputation is an order of operations and, at each, a choice of what to
evict.  Annealing changes the order: an operation moves forwards or backwards, and takes with it
what must stay on its side of it, so that every order tried is legal.  It evicts what is used last,
times a weight that is annealed too: Belady's rule minimizes loads only, and here a value without
a blue pebble costs a store besides.  With recomputation an operation may come again; a term that
may be made apart or added on the fly (`operations.py`) is switched from one way to the other.

The result is an upper bound, at any number of vertices; nothing is proved.

>>> from iosim.pebbling import matmul, replay
>>> moves = annealed(matmul(2, 2, 2), M=4, seconds=60, steps=2000)
>>> game = replay(matmul(2, 2, 2), 4, moves)
>>> game.loads + game.stores
17
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.compiled import available, compiled
from iosim.base.errors import InputError
from iosim.base.validate import check_size
from iosim.pebbling import annealing_loops as state_layout
from iosim.pebbling.annealing_loops import VOID
from iosim.pebbling.bits import members
from iosim.pebbling.dag import Dag, check_memory
from iosim.pebbling.game import Game, Move
from iosim.pebbling.operations import Operation, Operations, operations

HOT, COLD = 2.0, 0.12  # of the heats of a round, in transfers
FIRST, LONGEST = 4_000, 1 << 20  # changes tried in the first round, and in the longest
SPAN = 0.02  # seconds between looks at the clock
PLAIN = 5_000  # changes that plain Python tries in the time that numba takes to load


def annealed(
    dag: Dag,
    M: int,
    recompute: bool = False,
    partial: bool = False,
    seconds: float = 10.0,
    seed: int = 0,
    steps: int | None = None,
    enough: int = 0,
) -> tuple[Move, ...]:
    """The best schedule found by annealing, replayed on `Game`.

    Args:
        dag: of any size; its vertices may have several words.
        M: words of fast memory.
        recompute: whether a vertex may be computed again.
        partial: whether sums take their terms one at a time.
        seconds: when to end.
        seed: of the random numbers.
        steps: changes to try at most; a seed and a number of steps that fit into the seconds give
            one schedule, whether compiled or not.
        enough: a number of transfers that ends the search, a lower bound say.

    Raises InputError where M allows no pebbling, where both variants are requested, and where a
    number is none.

    >>> from iosim.pebbling import pyramid
    >>> sum(m.kind in ("load", "store") for m in annealed(pyramid(3), M=5, steps=500))
    5
    """
    annealing = Annealing(dag, M, recompute, partial, seed)
    annealing.run(seconds, steps, enough)
    return annealing.schedule()


class Annealing:
    """Annealing that can be carried on, and interrupted at any time without a loss.

    Plain Python until numba has compiled the loops in the background, or loaded what it compiled
    before; the numbers are the same.  Raises what `annealed` raises.

    Attributes:
        cost: the transfers of the best schedule so far.
        tried: changes so far.
        compiles: says whether numba may be used.

    >>> from iosim.pebbling import pyramid
    >>> annealing = Annealing(pyramid(3), M=4)
    >>> annealing.run(seconds=60, steps=500)
    >>> annealing.cost, len(annealing.schedule())
    (7, 24)
    """

    def __init__(
        self, dag: Dag, M: int, recompute: bool = False, partial: bool = False, seed: int = 0
    ):
        M = check_size("M", M)
        self._fresh = functools.partial(Game, dag, M, recompute, partial)
        self._fresh()
        check_memory(dag, M, partial)
        listed = operations(dag, partial)
        self._values = names = listed.values
        words = [dag.words_of[v] for v in names]
        ways = _ways(listed, words, M)
        self._ops = ops = ways.ops
        n, values = len(listed.ops), len(names)
        after: list[list[int]] = [[] for _ in ops]
        for u, ws in enumerate(ways.before):
            for w in ws:
                after[w].append(u)
        made = listed.into
        inputs = [int(not writes) for writes in made]
        output = [int(v in dag.outputs and not inputs[k]) for k, v in enumerate(names)]
        maker = [min(members(writes), default=-1) for writes in made]
        reads = [op.reads for op in ops]
        width = max((len(r) for r in reads), default=0)
        longest = 3 * n + 8 if recompute else n
        self._game = state_layout.FlatGame(
            M,
            recompute,
            *_rows(reads),
            [op.target for op in ops],
            [writes.bit_count() for writes in made],
            output,
            inputs,
            *_rows(ways.before),
            *_rows(after),
            maker,
            words,
            width,
            ways.switches,
            [-math.log((k + 0.5) / 256) for k in range(256)],
        )
        rooms = [longest * width, longest, *[values] * 7, len(ops), max(longest, 8), 1]
        order = [*ways.order, *[0] * (longest - n)]
        self._room = state_layout.Playing(*([0] * k for k in rooms))
        self._sequences = state_layout.Sequences(
            [n, 0, n, 0, 1 + seed % 2147483646, 0],
            order,
            list(order),
            list(order),
            [1.0] * values + [0.6],
            [1.0] * values + [0.6],
        )
        self._anneal: Any = state_layout.anneal
        self._compiled: Any = None
        self._compiling: threading.Thread | None = None
        self.compiles: Callable[[], bool] = available
        self.cost = self._play(order[:n], [1.0] * values + [0.6])
        self._best = (order[:n], [1.0] * values + [0.6])
        counters = self._sequences.counters
        counters[state_layout.COST] = counters[state_layout.BEST_COST] = self.cost
        self.tried = 0
        self._round, self._left, self._heat, self._fall = -1, 0, 0.0, 1.0

    def run(self, seconds: float, steps: int | None = None, enough: int = 0) -> None:
        """Anneal for some seconds or changes, or until this many transfers are left."""
        end = time.monotonic() + seconds
        if not seconds > 0:
            raise InputError(f"seconds = {seconds} is no time to search: give more than 0")
        if steps is not None:
            steps = check_size("steps", steps)
        last = math.inf if steps is None else self.tried + steps
        if not self._ops:
            return
        if last - self.tried > PLAIN and not self._compiling and self.compiles():
            self._compiling = threading.Thread(target=self._compile)
            self._compiling.start()
            self._compiling.join(seconds / 2)
        pace = 1
        while self.tried < last and self.cost > enough:
            if not self._left:
                self._next_round()
            self._change_over()
            count = int(min(self._left, pace, last - self.tried))
            began = time.monotonic()
            self._heat = self._anneal(
                self._game, self._room, self._sequences, count, self._heat, self._fall
            )
            self.tried, self._left = self.tried + count, self._left - count
            self._keep()
            now = time.monotonic()
            spent = max(now - began, 1e-6)
            if now + spent > end:
                return
            pace = int(min(max(count * SPAN / spent, 1), 4 * pace, count * (end - now) / spent))

    def schedule(self) -> tuple[Move, ...]:
        """The best schedule so far; it has been replayed."""
        sequence, weights = self._best
        # Of each operation: its operands and its target loaded, as many stored and deleted.
        log = [0] * (2 * len(sequence) * (4 * self._game.width + 8) + 1)
        log[0] = 1
        cost = self._play(sequence, weights, log)
        game = self._fresh()
        kinds = {
            state_layout.LOAD: "load",
            state_layout.STORE: "store",
            state_layout.DELETE: "delete",
        }
        moves: list[Move] = []
        for kind, x in zip(log[1 : log[0] : 2], log[2 : log[0] : 2], strict=True):
            if kind == state_layout.MAKE:
                op = self._ops[x]
                moves.append(Move("compute" if op.term is None else "add", op.vertex, op.term))
            else:
                moves.append(Move(kinds[kind], self._values[x]))
            game.play(moves[-1])
        game.finish()
        if not game.loads + game.stores == cost == self.cost:
            raise AssertionError(f"the schedule moves {game.loads + game.stores}: {self.cost}")
        return tuple(moves)

    def _play(self, sequence: list[int], weights: list[float], log: Sequence[int] = ()) -> int:
        columns = ([0] * len(column) for column in self._room)
        room = state_layout.Playing(*columns)._replace(log=log)
        lists: Any = [x.tolist() if isinstance(x, np.ndarray) else x for x in self._game]
        game = state_layout.FlatGame(*lists)
        return state_layout.play(
            game, room, sequence, len(sequence), weights, state_layout.UNLIMITED, bool(log)
        )

    def _next_round(self) -> None:
        """From hot to cold again: every other time from the best so far, and less hot."""
        self._round += 1
        heat = HOT
        counters, now, trial, _, weights, _ = self._sequences
        if self._round % 2:
            heat /= 2
            best, best_weights = self._best
            now[: len(best)] = trial[: len(best)] = _like(now, best)
            weights[:] = _like(weights, best_weights)
            counters[state_layout.LENGTH], counters[state_layout.COST] = len(best), self.cost
        self._left = min(FIRST << self._round // 4, LONGEST)
        self._heat, self._fall = heat, (COLD / heat) ** (1 / self._left)

    def _keep(self) -> None:
        counters, _, _, best, _, weights = self._sequences
        if counters[state_layout.BEST_COST] < self.cost:
            length = int(counters[state_layout.BEST_LENGTH])
            self._best = ([int(u) for u in best[:length]], [float(w) for w in weights])
            self.cost = int(counters[state_layout.BEST_COST])

    def _compile(self) -> None:
        anneal = compiled(state_layout.anneal)
        anneal(*self._as_arrays(), 0, 1.0, 1.0)
        self._compiled = anneal

    def _as_arrays(self) -> tuple[Any, Any, Any]:
        return _arrays(self._game), _arrays(self._room), _arrays(self._sequences)

    def _change_over(self) -> None:
        if self._compiled and self._anneal is not self._compiled:
            self._game, self._room, self._sequences = self._as_arrays()
            self._anneal = self._compiled


@dataclass(frozen=True)
class _Ways:
    """Operations that may be in a sequence, which of them must come before each, and a start.

    A sequence has a place for each operation that a schedule does.  A flying operation is where
    the term would be made, and a void one where it would be added.  `switches` are four operations
    for each term that has two ways: made, added, flying, void.
    """

    ops: tuple[Operation, ...]
    before: list[list[int]]
    order: list[int]
    switches: list[int]


def _ways(listed: Operations, words: Sequence[int], M: int) -> _Ways:
    ops = list(listed.ops)
    writers = [list(members(writes)) for writes in listed.into]
    order, switches = list(range(len(ops))), list[int]()

    def fits(op: Operation) -> bool:
        return sum(words[v] for v in members(op.touches)) <= M

    after_flying = {}
    for both in listed.flying:
        made, added = both.does
        flying, void = len(ops), len(ops) + 1
        ops += [both, Operation(VOID, (), both.vertex, both.term)]
        writers[both.target].append(void)
        after_flying[void] = [flying]
        if not (fits(ops[made]) and fits(ops[added])):
            order[made], order[added] = flying, void
        elif fits(both):
            switches += [made, added, flying, void]
    before = [
        after_flying.get(u, [w for r in op.reads for w in writers[r]]) for u, op in enumerate(ops)
    ]
    return _Ways(tuple(ops), before, order, switches)


def _arrays(columns: Any) -> Any:
    """Lists as arrays."""
    return columns._make(
        np.array(x, np.float64 if x and isinstance(x[0], float) else np.int64)
        if isinstance(x, list)
        else x
        for x in columns
    )


def _like(column: Any, entries: list[Any]) -> Any:
    return np.array(entries, column.dtype) if isinstance(column, np.ndarray) else entries


def _rows(rows: Any) -> tuple[list[int], list[int]]:
    """Where each row starts, and the rows one after the other."""
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    return starts, [x for row in rows for x in row]
