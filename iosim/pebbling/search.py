"""The exact search: A* in whole levels of cost, and beams for a first schedule.

States are expanded in order of cost so far + compulsory rest, a level at a time.  That sum never
falls along a schedule, so when every state below level c has been expanded, no schedule costs less
than c: each finished level is a proof, and the level of the first goal is the optimum.  A beam,
which keeps only the most promising states of each step, finds a good schedule beforehand; states
that cannot lead to a better one are never stored, and its own level need not be searched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from iosim.pebbling.bits import Ints, popcount
from iosim.pebbling.expand import Expander
from iosim.pebbling.rules import Rules
from iosim.pebbling.states import Seen, States, concat, distinct
from iosim.pebbling.subsets import TooMany
from iosim.pebbling.symmetry import Symmetry

CHUNK, BEAM_CHUNK = 1 << 13, 1 << 10  # states expanded at once
NO_LIMIT = 10**6
# Widths of the beams before the search, and once it has grown to so many states.
NARROW = (30, 300)
WIDE = ((20_000, 2_000), (400_000, 20_000))
State = tuple[int, int, int]


@dataclass
class Found:
    """What is known so far: no schedule costs less than `lower`; `path` costs `cost`.

    `expand` made the path: a schedule without recomputation may be the best with it.
    """

    expand: Expander
    lower: int
    cost: int | None = None
    path: list[State] = field(default_factory=list)
    states: int = 0
    stopped: str = ""  # why the search ended early
    symmetry: Symmetry | None = None  # under which the path's states are representatives

    def offer(self, expand: Expander, cost: int, path: list[State]) -> None:
        """Keep a schedule if it is better."""
        if self.cost is None or cost < self.cost:
            self.expand, self.cost, self.path = expand, cost, path


Progress = Callable[[Found], None]


class _Stop(Exception):
    """Time or memory is up."""


@dataclass
class _Limits:
    until: float
    memory: float
    progress: Progress | None

    def check(self, found: Found, in_use: int = 0) -> None:
        if found.cost is not None and time.monotonic() > self.until:
            raise _Stop("time is up")
        if in_use > self.memory:
            raise _Stop(f"memory is up ({self.memory / 2**30:.3g} GiB)")
        if self.progress:
            self.progress(found)


def search(rules: Rules, seconds: float, memory: float, progress: Progress | None = None) -> Found:
    """Find the optimum, or what can be known in the given time and bytes of memory.

    An interrupt from the keyboard ends the search like a lack of time.
    """
    expand = Expander(rules)
    found = Found(expand, rules.compulsory)
    limits = _Limits(time.monotonic() + seconds, memory, progress)
    # Beams never recompute: any schedule without recomputation is one with it.
    beams = Expander(replace(rules, recompute=False), fewer=True)
    try:
        for width in NARROW:
            if found.cost != found.lower:
                _beam(beams, width, found, limits)
        _levels(expand, beams, found, limits)
    except _Stop as stop:
        found.stopped = str(stop)
    except (TooMany, MemoryError):
        found.stopped = "memory is up: a single step has too many successors"
    except KeyboardInterrupt:
        found.stopped = "interrupted"
    return found


def _chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(low, low + size) for low in range(0, count, size))


def _beam(expand: Expander, width: int, found: Found, limits: _Limits) -> None:
    """Compute one operation per step, from the most promising states of the last step."""
    base = expand.rules.compulsory
    layer, rise = expand.start(), np.zeros(1, np.int64)
    history = Seen()
    for _ in expand.rules.ops:
        numbers = history.append(layer)
        slack = NO_LIMIT if found.cost is None else found.cost - 1 - base
        parts: list[States] = []
        rises: list[Ints] = []
        for rows in _chunks(len(layer), BEAM_CHUNK):
            limits.check(found)
            children = expand(layer.take(rows), slack)
            c, total = children.states, rise[rows][children.states.parent] + children.rise
            best = _promising(c, total, slack, 2 * width)
            parts.append(c.take(best).under(numbers[rows]))
            rises.append(total[best])
        layer, rise = concat(parts), np.concatenate(rises)
        best = _promising(layer, rise, slack, width)
        layer, rise = layer.take(best), rise[best]
        if not len(layer):
            return
    found.offer(expand, base + int(rise[0]), [*history.path(int(layer.parent[0])),
                                                    layer.row(0)])  # fmt: skip


def _promising(states: States, rise: Ints, slack: int, width: int) -> Ints:
    """The places of the best states, without duplicates: the cheapest, then the emptiest."""
    rows = np.nonzero(rise <= slack)[0]
    rank = (rise[rows] << 8) + popcount(states.R[rows])
    if len(rows) > 4 * width:
        cut = np.partition(rank, 4 * width)[4 * width]
        rows, rank = rows[rank <= cut], rank[rank <= cut]
    order = np.argsort(rank, kind="stable")
    rows = rows[order]
    first, _ = distinct(states.take(rows))
    return rows[np.sort(first)[:width]]


def _levels(expand: Expander, beams: Expander, found: Found, limits: _Limits) -> None:
    """Expand every state of one level after the other, until one holds the optimum."""
    found.symmetry = symmetry = Symmetry(expand.rules)
    level = expand.rules.compulsory
    pending: dict[int, list[States]] = {level: [expand.start()]}
    wide = list(WIDE)
    seen = Seen()
    while found.cost is None or level < found.cost:
        found.lower = level
        wave = pending.pop(level, [])
        while wave:
            states = concat(wave)
            at, hashes = distinct(states)
            states = states.take(at)
            new = seen.new(states, hashes)
            states = states.take(new)
            numbers = seen.add(states, hashes[new])
            found.states = seen.size
            if wide and seen.size > wide[0][0]:
                _beam(beams, wide.pop(0)[1], found, limits)
                if found.cost == level:
                    return
            wave = []
            for rows in _chunks(len(states), CHUNK):
                waiting = sum(len(s) for group in (*pending.values(), wave) for s in group)
                limits.check(found, seen.size * Seen.BYTES + waiting * States.BYTES)
                slack = NO_LIMIT if found.cost is None else found.cost - 1 - level
                children = expand(states.take(rows), slack)
                c = symmetry.canonical(children.states.under(numbers[rows]))
                done = expand.done(c)
                if done.any():
                    goals = np.nonzero(done)[0]
                    best = int(goals[np.argmin(children.rise[goals])])
                    path = [*seen.path(int(c.parent[best])), c.row(best)]
                    found.offer(expand, level + int(children.rise[best]), path)
                for r in np.unique(children.rise[~done]):
                    group = c.take((children.rise == r) & ~done)
                    group = group.take(distinct(group)[0])
                    (wave if r == 0 else pending.setdefault(level + int(r), [])).append(group)
        level += 1
        if found.cost is not None:
            pending = {k: v for k, v in pending.items() if k < found.cost}
    found.lower = found.cost
