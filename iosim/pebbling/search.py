"""The search for an optimum: limits, a schedule early, and what proves that none is better.

Without recomputation: sweeps over layers of states under a growing limit (`layered_search.py`).
Lower bounds come from chains of operations (`chains.py`), from the first operation or from the
last, with automorphisms or without, whichever measurements say is faster: some graphs take several
times as long from one end as from the other. Graphs that take a fraction of a second are swept in
plain Python. While numba loads or compiles the loops for others, and wherever a schedule may still
be improved, orders are annealed (`annealing.py`).

With recomputation: whole levels of cost (`recompute_search.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from iosim.base.memory import resident_bytes
from iosim.pebbling.annealing import Annealing
from iosim.pebbling.bounds import root_bound
from iosim.pebbling.chains import choose
from iosim.pebbling.game import Move
from iosim.pebbling.jit_warmup import fits, loaded, waiting
from iosim.pebbling.layered_search import NONE, Layers, Map, Stop, Tables
from iosim.pebbling.moves import to_moves
from iosim.pebbling.packed import Packed
from iosim.pebbling.rules import Rules
from iosim.pebbling.steps import path
from iosim.pebbling.symmetry import generators

PLAIN = 150_000  # work that plain Python does in a fraction of a second
FEW = 500  # changes of an order, in plain Python
LOADING = 4.0  # seconds: shorter searches don't load numba
SPARE = 0.93  # of the memory: the rest is for what comes between two looks at it
SCIPY = 60 << 20  # bytes by which the process grows for the bounds of a whole graph
NARROW, WIDE = 50, 300  # widths of the beams
# A sweep may take this many times as long as expected; then the other ways are tried, too.  A way
# that has taken longer than LONG is kept.
PATIENCE, SHORT, LONG = 4.0, 0.02, 4.0  # times; seconds
SLOWEST, FASTEST = 1.3, 4.0  # growth from sweep to sweep that is reckoned with
Progress = Callable[["Found"], None]


@dataclass
class Found:
    """What is known so far: no schedule costs less than `lower`; `moves` cost `cost`."""

    lower: int
    cost: int | None = None
    moves: Sequence[Move] = field(default=())
    states: int = 0
    stopped: str = ""  # why the search ended early

    def offer(self, cost: int, moves: Sequence[Move]) -> None:
        """Keep a schedule if it is better."""
        if self.cost is None or cost < self.cost:
            self.cost, self.moves = cost, moves
        self._consistent()

    def prove(self, lower: int) -> None:
        """No schedule costs less than that."""
        self.lower = max(self.lower, lower)
        self._consistent()

    def _consistent(self) -> None:
        """A schedule below what is proved shows that some proof is wrong: no answer, then."""
        if self.cost is not None and self.cost < self.lower:
            raise AssertionError(f"{self.lower} are proved, and a schedule costs {self.cost}")

    @property
    def closed(self) -> bool:
        """Whether the best schedule is proved to be one."""
        return self.cost is not None and self.lower >= self.cost


@dataclass
class Limits:
    """When to stop: a moment of `time.monotonic`, and bytes that the process may take."""

    until: float
    memory: float
    found: Found
    progress: Progress | None
    told: float = 0.0

    @property
    def remaining_seconds(self) -> float:
        """Seconds."""
        return self.until - time.monotonic()

    @property
    def room(self) -> float:
        """Bytes by which the process may still grow."""
        return SPARE * self.memory - resident_bytes()

    def check(self, growth: float = 0) -> None:
        """Raise Stop if a limit is reached, or would be with this many bytes more.

        Reports progress now and then.
        """
        if self.remaining_seconds <= 0:
            raise Stop("time is up")
        if self.room < growth:
            raise Stop(f"memory is up ({self.memory / 2**30:.3g} GiB)")
        if self.progress and time.monotonic() > self.told + 0.1:
            self.told = time.monotonic()
            self.progress(self.found)


def search(
    rules: Rules,
    seconds: float,
    memory: float,
    progress: Progress | None = None,
    began: float | None = None,
) -> Found:
    """Find the optimum, or what can be known in the given time and bytes of memory.

    An interrupt from the keyboard ends the search like a lack of time.
    """
    found = Found(rules.compulsory)
    began = time.monotonic() if began is None else began
    limits = Limits(began + 0.97 * seconds, memory, found, progress)
    annealing = None
    try:
        annealing = Annealing(rules.dag, rules.M, rules.recompute, rules.partial)
        annealing.compiles = lambda: fits(limits.room)
        found.offer(annealing.cost, annealing.schedule())
        if not found.closed:
            if rules.recompute:
                # A schedule without recomputation is one with it, and is found sooner.
                first = Annealing(rules.dag, rules.M, False)
                first.compiles = annealing.compiles
                for one in (first, annealing):
                    _anneal(one, found, limits, min(0.07 * limits.remaining_seconds, 8.0))
                from iosim.pebbling.recompute_search import levels

                _root(rules, found, limits)
                levels(rules, found, limits)
            else:
                Once(rules, found, limits, annealing).run()
    except Stop as stop:
        found.stopped = str(stop)
    except MemoryError:
        found.stopped = "memory is up"
    except KeyboardInterrupt:
        found.stopped = "interrupted"
    if annealing and found.cost is not None and annealing.cost < found.cost:
        found.offer(annealing.cost, annealing.schedule())
    if found.closed:
        found.stopped = ""
    if progress:
        progress(found)
    return found


def _anneal(
    annealing: Annealing, found: Found, limits: Limits, seconds: float, steps: int | None = None
) -> None:
    """Anneal for a while; stops where nothing can be gained."""
    seconds = min(seconds, limits.remaining_seconds)
    if seconds <= 0 or found.closed:
        return
    annealing.run(seconds, steps, enough=found.lower)
    if found.cost is None or annealing.cost < found.cost:
        found.offer(annealing.cost, annealing.schedule())
    limits.check()


def _root(rules: Rules, found: Found, limits: Limits) -> None:
    """Bounds of the whole graph that are separate from the search."""
    seconds = min(0.03 * limits.remaining_seconds, 3.0)
    if seconds < 0.3 or limits.room < SCIPY:  # scipy takes some time to load
        return
    try:
        root = root_bound(rules.dag, rules.M, rules.recompute, rules.partial, seconds)
    except ImportError:
        return
    found.prove(root.value)
    limits.check()


@dataclass
class Pace:
    """How far the next limit may be from the last: sweeps grow by about the same factor each time.

    A sweep under a high limit proves as much as all those under lower ones, which together can take
    longer than it.  But one that does not end proves nothing.

    >>> pace = Pace()
    >>> pace.limit(4, 20, 60.0)
    4
    >>> pace.took(4, 1.0)
    >>> pace.took(5, 2.0)
    >>> pace.limit(6, 9, 70.0), pace.limit(6, 20, 70.0), pace.expected(7)
    (9, 7, 8.0)
    """

    step: int = 1  # words of a vertex: what one more transfer costs
    sweeps: list[tuple[int, float]] = field(default_factory=list)

    def took(self, limit: int, seconds: float) -> None:
        """Note a sweep that ended."""
        self.sweeps.append((limit, seconds))

    def expected(self, limit: int) -> float:
        """Seconds of a sweep under this limit."""
        if len(self.sweeps) < 2:
            return SHORT
        (a, before), (b, seconds) = self.sweeps[-2:]
        growth = (max(seconds, SHORT) / max(before, SHORT)) ** (self.step / max(1, b - a))
        steps = min((limit - b) / self.step, 100)
        return float(max(seconds, SHORT) * min(max(growth, SLOWEST), FASTEST) ** steps)

    def limit(self, least: int, most: int, left: float) -> int:
        """A limit for the next sweep, where this many seconds are left."""
        least = min(least + self.step - 1, most)
        if len(self.sweeps) < 2:
            return least
        if self.expected(most) < 0.5 * left:
            return most
        while least < most and self.expected(least + self.step) < 0.2 * left:
            least = min(least + self.step, most)
        return least


@dataclass
class Way:
    """A direction to look in, with automorphisms or without them."""

    layers: Layers
    maps: list[Map]


@dataclass
class Once:
    """The search without recomputation."""

    rules: Rules
    found: Found
    limits: Limits
    annealing: Annealing

    def run(self) -> None:
        """Prove an optimum, or raise Stop."""
        packed = Packed(self.rules)
        self.base = self.rules.compulsory
        self.step = max(1, sum(self.rules.weights) // len(self.rules.weights))
        if self._highest() >= NONE:
            raise Stop("the words of the vertices are too many to search")
        if self._small(packed):
            return
        # Loading numba takes about a second, in parts of which nothing else can run.
        fast = (loaded() or self.limits.remaining_seconds > LOADING) and fits(self.limits.room)
        if fast:
            for seconds in waiting():
                self.limits.check()
                if seconds:  # in plain Python: nothing is compiled in this process
                    _anneal(self.annealing, self.found, self.limits, seconds, steps=FEW)
        if self.found.closed:
            return
        games = [packed, Packed(self.rules, back=True)] if packed.reversible else [packed]
        tables = Tables(max(0.0, self.limits.room), fast)
        self._large([Layers(game, tables, self.limits.check) for game in games])

    def _small(self, packed: Packed) -> bool:
        """Sweeps in plain Python, as far as little work goes; whether that was enough."""
        work = 0

        def check(growth: float) -> None:
            nonlocal work
            work += 1
            self.limits.check(growth)
            if layers.work > PLAIN:
                raise _Enough

        layers = Layers(packed, Tables(max(0.0, self.limits.room), fast=False), check)
        try:
            self._sweep(layers, layers.limit_of(self.found.cost) - 1, width=NARROW)
            while not self.found.closed:
                self._sweep(layers, self._lowest())
        except _Enough:
            return False
        return True

    def _large(self, directions: list[Layers]) -> None:
        limits, found, seconds = self.limits, self.found, self.limits.remaining_seconds
        for width in (NARROW, WIDE):
            for layers in directions:
                self._sweep(layers, layers.limit_of(found.cost) - 1, width)
        if found.closed:
            return
        _anneal(self.annealing, found, limits, min(0.05 * seconds, 5.0))
        _root(self.rules, found, limits)
        ways: list[Way] = []
        for layers in directions:
            start = layers.start()
            chains = choose(
                layers.packed,
                lambda chain: layers.bounds(chain, [start]),  # noqa: B023
                min(0.05 * seconds, 2.0) / len(directions),
                limits.check,
            )
            layers.set_chains(chains)
            found.prove(self.base + max((layers.bounds(c, [start])[0] for c in chains), default=0))
            maps = generators(self.rules, layers.packed, min(0.02 * seconds, 1.0))
            ways += [Way(layers, maps)] + ([Way(layers, [])] if maps else [])
        self._climb(ways)

    def _climb(self, ways: list[Way]) -> None:
        """Sweep under growing limits, in the way that measures say is the fastest.

        Only its tables are held: a way that is stopped gives its own back.
        """
        for way in ways:
            way.layers.release()
        found, pace = self.found, Pace(self.step)
        while not found.closed:
            limit = pace.limit(
                found.lower - self.base, self._highest(), self.limits.remaining_seconds
            )
            patience, took = PATIENCE * pace.expected(limit), None
            while took is None:
                for way in ways:
                    took = self._within(way, limit, patience if len(ways) > 1 else math.inf)
                    if took is not None:
                        break
                patience *= 2
            pace.took(limit, took)
            ways = [way, *(other for other in ways if other is not way and took < LONG)]
            if not found.closed:
                _anneal(self.annealing, found, self.limits, min(0.1 * took, 5.0))

    def _lowest(self) -> int:
        """A limit just above what is proved."""
        return min(self.found.lower - self.base + self.step - 1, self._highest())

    def _highest(self) -> int:
        """The limit of which a sweep finds the optimum for sure, or proves the best schedule."""
        assert self.found.cost is not None
        return self.found.cost - self.base - 1

    def _within(self, way: Way, limit: int, seconds: float) -> float | None:
        """Sweep one way; the seconds that it took, or None where it was stopped after this many."""
        layers, began = way.layers, time.monotonic()
        check = layers.check

        def sooner(growth: float) -> None:
            check(growth)
            if time.monotonic() > began + seconds:
                raise _Enough

        layers.check = sooner
        layers.set_maps(way.maps)
        try:
            self._sweep(layers, limit)
        except _Enough:
            layers.release()
            return None
        finally:
            layers.check = check
        return time.monotonic() - began

    def _sweep(self, layers: Layers, limit: int, width: int = 0) -> None:
        """One sweep, and what it teaches."""
        if self.found.closed or limit < 0:
            return
        before = layers.expanded
        try:
            penalties = layers.sweep(limit, width)
        finally:
            self.found.states += layers.expanded - before
        if penalties is not None:
            moves = to_moves(self.rules, layers.packed, path(layers))
            self.found.offer(self.base + penalties, moves)
        if not width:
            self.found.prove(self.base + (limit + 1 if penalties is None else penalties))


class _Enough(Exception):
    """As much work as was meant."""
