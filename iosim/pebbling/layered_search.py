"""The search without recomputation: sweeps over layers of states, under a limit on their cost.

A layer holds the states in which this many operations are done.  Every step does one at least, so
one sweep, from the first layer to the last, meets every state that is left once duplicates,
dominated states and those whose cost and bound exceed the limit are dropped.  If no state of the
last layer is reached, no schedule costs as little as the limit, and the next sweep has a higher
one.  So each finished sweep is a proof, and what must be held is a few layers, not every state.  A
*beam* is a sweep that keeps only the most promising states of each layer: it proves nothing and
finds a schedule soon.

Why dropping loses no optimum: for what it drops, each rule leaves a state with as many or more
operations done from which an optimum can be reached at no more.  Of all states that are kept and
lead to an optimum, take one with the most operations done: none of its successors is dropped
without a state as good that has more done, so it is the goal.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iosim.base.compiled import compiled
from iosim.pebbling import bounding, expanding, settling, state_layout, thinning
from iosim.pebbling.bits import popcount
from iosim.pebbling.chains import chain_arrays
from iosim.pebbling.packed import FULL, Packed, split

MIX = (0x243F6A8885A308D3, 0x9E3779B97F4A7C15, 29, FULL, 0, 1)
Map = tuple[list[int], list[int]]  # images of operations, and of values
NONE = 1 << 30  # a cost beyond all: costs are stored in 32 bits
SMALL, LARGE = 1 << 12, 1 << 16


class Stop(Exception):
    """A limit is reached."""


@dataclass(frozen=True)
class Tables:
    """How large tables may be, in bytes, and whether the loops over them are compiled."""

    memory: float
    fast: bool


LOOPS: tuple[Callable[..., Any], ...] = (
    expanding.expand,
    thinning.thin,
    thinning.gather,
    thinning.compact,
    thinning.index,
    settling.settle,
    expanding.canonical,
    bounding.bound,
)


@functools.cache
def loops_for(fast: bool) -> dict[str, Callable[..., Any]]:
    """The loops by name, compiled (when first called) or plain."""
    plain = {loop.__name__: loop for loop in LOOPS}
    return {name: compiled(loop) for name, loop in plain.items()} if fast else plain


@dataclass
class Layers:
    """Sweeps of one game.

    Args:
        packed: the game.
        tables: bytes that they may take, and whether loops are compiled.
        check: called every few hundredths of a second with the bytes that are about to be taken;
            raises `Stop`.
        maps: automorphisms, of operations and of values.
    """

    packed: Packed
    tables: Tables
    check: Callable[[float], None]
    maps: list[Map] = field(default_factory=list)
    expanded: int = 0  # states, by all sweeps
    work: int = 0
    table: state_layout.StateTable = field(init=False, repr=False)
    room: int = field(init=False)

    def __post_init__(self) -> None:
        self.fast, self.memory = self.tables.fast, self.tables.memory
        self.make: Callable[[Any], Any] = (lambda x: x) if self.fast else (lambda x: x.tolist())
        self.loop = loops_for(self.fast)
        p = self.packed
        self.game = p.arrays(self.make)
        self.W = p.words
        self.set_maps(self.maps)
        self.set_chains([])
        n = max(p.rules.M, len(p.weight), len(p.target)) + 8
        W = self.W
        rooms = (3 * W, 3 * W, 2 * W, W, 3 * W, 3 * W, n * W, n)
        self.scratch = state_layout.Scratch(
            *map(self.words, rooms), *map(self.ints, (n, n, n, n, n, n, 64))
        )
        self.control = self.ints(14)
        # Room for states: all that memory allows where untouched pages cost nothing.
        self.per_state = 24 * self.W + 20
        # What more room takes at once: compiled, the table of slots; in lists, everything.
        self.per_room = 16 if self.fast else 8 * (3 * self.W + 5) + 32
        self.most = int(self.memory / self.per_state) + 2
        self.budget = 2000 if self.fast else 50
        self.release()

    def ints(self, n: int) -> Any:
        """This many numbers."""
        return self.make(np.zeros(n, np.int64))

    def words(self, n: int) -> Any:
        """This many words of 64 bits."""
        return self.make(np.zeros(n, np.uint64))

    def limit_of(self, cost: int | None) -> int:
        """The penalties of a schedule of that cost."""
        return NONE - 1 if cost is None else cost - self.packed.rules.compulsory

    def set_chains(self, chains: list[tuple[int, ...]]) -> None:
        """Use the bounds of these chains."""
        self.chains = chain_arrays(self.packed, chains, self.make)

    def set_maps(self, maps: list[Map]) -> None:
        """Use these automorphisms."""
        self.maps = maps
        ops = [x for o, _ in maps for x in o] or [0]
        values = [x for _, v in maps for x in v] or [0]
        images = (self.make(np.array(x, np.int64)) for x in (ops, values))
        self.images = state_layout.MapArrays(len(maps), *images)

    # --- bounds --------------------------------------------------------------------------------

    def bounds(self, chain: Any, at: list[Any]) -> list[int]:
        """The bounds of one chain in some states."""
        arrays = chain_arrays(self.packed, [tuple(chain)], self.make)
        bound, room = self.loop["bound"], self.scratch
        return [int(bound(self.game, arrays, s, room.live, room.room, NONE)) for s in at]

    def start(self, done: int = 0) -> Any:
        """A first state, with what can be done at once; nothing is red, and all loads are paid."""
        s = self.words(3 * self.W)
        for k, word in enumerate(split([done], self.W)):
            s[k] = word
        trace = self.scratch.trace
        quick = self.loop["settle"](self.game, s, trace)
        self.first = tuple(int(u) for u in trace[1 : quick + 1])
        return s

    # --- sweeps --------------------------------------------------------------------------------

    def sweep(self, limit: int, width: int = 0, done: int = 0) -> int | None:
        """The least penalties of a schedule, if they are within the limit.

        With a width, a beam.
        """
        c = self.control
        for k in range(len(c)):
            c[k] = 0
        c[state_layout.LIMIT] = limit
        self.limit = limit
        self._allocate()
        s = self.start(done)
        layers = len(self.packed.target) + 1
        heads = self.make(np.full(layers, -1, np.int32))
        self.table = self.table._replace(heads=heads)
        self._first_state(s)
        k = -1
        for k in range(layers):
            if heads[k] < 0:
                continue
            if k == layers - 1:
                break
            before = int(c[state_layout.RECORDS])
            try:
                self._layer(k, width)
            finally:
                self.expanded += int(c[state_layout.RECORDS]) - before
        node = int(heads[layers - 1])
        if node < 0:
            return None
        self.goal = node
        return int(self.table.cost[node])

    def _first_state(self, s: Any) -> None:
        table = self.table
        for k in range(3 * self.W):
            table.states[k] = s[k]
        for column, value in zip(table, (-1, 0, 0, 0, -1), strict=False):
            column[0] = value
        table.heads[sum(int(s[k]).bit_count() for k in range(self.W))] = 0
        self.control[state_layout.USED] = 1
        self._index()

    def _allocate(self) -> None:
        """Empty tables.  Compiled, they are as large as allowed, and take what is touched."""
        if not self.room:
            n = self.most if self.fast else SMALL
            records = int(self.memory / 8) + 2 if self.fast else SMALL
            columns = [np.empty(k, np.int32) for k in (n, n, n, n, n, records, records)]
            states = np.empty(n * 3 * self.W, np.uint64)
            slots = np.full(4 * SMALL, -1, np.int32)
            self.table = state_layout.StateTable(*map(self.make, (*columns, states, slots)))
            self.room = min(n, LARGE)
        c = self.control
        c[state_layout.ROOM] = min(self.room, len(self.table.slots) // 2)
        c[state_layout.MOST] = len(self.table.path)

    def release(self) -> None:
        """Give the tables back; the next sweep takes new ones."""
        self.room = 0
        self.table = state_layout.StateTable(*[()] * 9)
        self.control[state_layout.RECORDS] = 0

    def _index(self) -> None:
        """Rebuild the table, large enough for the room."""
        size = 1
        while size < 2 * self.room:
            size *= 2
        table = self.table
        if len(table.slots) != size:
            self.table = table = table._replace(slots=())
            table = table._replace(slots=self.make(np.full(size, -1, np.int32)))
        elif self.fast:
            table.slots.fill(-1)
        else:
            table.slots[:] = [-1] * size
        mix = self.make(np.array((*MIX[:4], size - 1, 1), np.uint64))
        self.table = table._replace(mix=mix)
        self.control[state_layout.ROOM] = self.room
        self.loop["index"](self.W, self.control, self.table, self.scratch.state)

    def grow(self) -> None:
        """Make room: drop what has been expanded, or take more."""
        c = self.control
        used = int(c[state_layout.USED])
        self.loop["compact"](self.W, c, self.table)
        if int(c[state_layout.USED]) > used // 2:
            self.check(self.room * self.per_room)
            self.room *= 2
            if not self.fast:
                for column in (self.table.states, *self.table[:5]):
                    column.extend(column[:])
            elif self.room > self.most:
                self.room = self.most
                if int(c[state_layout.USED]) > 0.9 * self.room:
                    raise Stop("memory is up")
        self._index()

    def _layer(self, k: int, width: int) -> None:
        c = self.control
        self.check(0)
        ids = self._sorted(k, width)
        self._run("thin", ids)
        kept = int(c[state_layout.KEPT])
        if width and kept > width:
            ids = self._best(ids, kept, width)
            kept = width
        c[state_layout.COUNT], c[state_layout.AT] = kept, 0
        while self._run("expand", ids, -1):
            if int(c[state_layout.RECORDS]) >= int(c[state_layout.MOST]) - 1:
                if self.fast:
                    raise Stop("memory is up")
                for column in (self.table.path, self.table.ranks):
                    column.extend([0] * len(column))
                c[state_layout.MOST] = len(self.table.path)
                continue
            self.grow()
            ids = self._gathered(k)
            c[state_layout.COUNT], c[state_layout.AT], c[state_layout.SKIP] = len(ids), 0, 0
        self.table.heads[k] = -1

    def _gathered(self, k: int) -> Any:
        used = int(self.control[state_layout.USED])
        ids: Any = np.empty(used, np.int64) if self.fast else [0] * used
        return ids[: int(self.loop["gather"](self.table, k, ids))].copy()

    def _sorted(self, k: int, width: int) -> Any:
        """The states of a layer: equal A together, of these the cheapest first."""
        c, W, states, cost = self.control, self.W, self.table.states, self.table.cost
        c[state_layout.KEPT] = c[state_layout.START] = c[state_layout.AT] = 0
        ids = self._gathered(k)
        c[state_layout.COUNT] = len(ids)
        if not self.fast:
            return sorted(ids, key=lambda n: (states[3 * W * n : 3 * W * n + W], cost[n]))
        rows = states[: int(c[state_layout.USED]) * 3 * W].reshape(-1, 3 * W)
        self.check(48 * len(ids))
        key = np.zeros(len(ids), np.uint64)
        for j in range(W):
            key = (key ^ rows[ids, j]) * np.uint64(MIX[1])
            key ^= key >> np.uint64(31)
        key = (key << np.uint64(12)) | np.minimum(cost[ids], 4095).astype(np.uint64)
        return ids[np.argsort(key, kind="stable")]

    def _best(self, ids: Any, kept: int, width: int) -> Any:
        """The most promising states of a layer: the least cost and bound, then the emptiest."""
        W = self.W
        states, cost, estimate = self.table.states, self.table.cost, self.table.estimate
        if self.fast:
            some = ids[:kept]
            rows = states[: int(self.control[state_layout.USED]) * 3 * W].reshape(-1, 3 * W)
            red = np.zeros(len(some), np.int64)
            for j in range(W):
                red += popcount(np.ascontiguousarray(rows[some, W + j]))
            price = cost[some].astype(np.int64)
            order = np.lexsort((red, price, price + estimate[some]))
            estimate[some[order[width:]]] = -1
            return some[order[:width]]

        def rank(n: int) -> tuple[int, int, int]:
            reds = sum(states[3 * W * n + W + j].bit_count() for j in range(W))
            return cost[n] + estimate[n], cost[n], reds

        ids = sorted(ids[:kept], key=rank)
        for n in ids[width:]:
            estimate[n] = -1
        return ids[:width]

    @property
    def search(self) -> state_layout.SweepArrays:
        """What the loops take."""
        return state_layout.SweepArrays(
            self.game, self.chains, self.images, self.table, self.scratch, self.control
        )

    def _run(self, what: str, *given: Any) -> bool:
        """Run a loop to its end, looking at the limits; whether it wants room."""
        c, search = self.control, self.search
        patience = 1
        while True:
            at, began = (int(c[state_layout.AT]), int(c[state_layout.SKIP])), time.perf_counter()
            c[state_layout.WORK], c[state_layout.BUDGET] = 0, self.budget * patience
            self.loop[what](search, *given)
            self.work += int(c[state_layout.WORK])
            took = time.perf_counter() - began
            if c[state_layout.STATUS] == state_layout.DONE:
                return False
            if c[state_layout.STATUS] == state_layout.FULL:
                return True
            self.check(0)
            patience = (
                patience * 2 if (int(c[state_layout.AT]), int(c[state_layout.SKIP])) == at else 1
            )
            if patience == 1:
                self.budget = int(min(1e9, max(20, self.budget * min(2.0, 0.03 / max(took, 1e-9)))))
