"""A cache whose policy knows only the past: one loop over the accesses, for all such policies.

`replaying`, `leaps` and `partitioned` call it.  A policy is a file in `iosim.cache.policies`, not a
case here.  ``tests/cache/test_cache_replay.py`` compares every policy with lists.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.compiled import Backend, built
from iosim.base.errors import InputError
from iosim.base.memory import check_room
from iosim.cache.lines import Divisor, Lines, WriteRules, gathered, line_of, spread
from iosim.cache.policies import POLICIES
from iosim.cache.policies.base import Cells, Shape, State
from iosim.cache.policies.lru import LRU
from iosim.cache.record import Cache, Traffic
from iosim.cache.stream import Accesses

ABSENT, CLEAN, DIRTY = 0, 1, 2
# What the loop counts, by place.
MISSES, FILLS, EVICTED, THROUGH = range(4)
# Bytes that a replay keeps for a line, at most: its status, and what a policy has of it.
_OF_A_LINE = 1 + 3 * 8


class CacheState(NamedTuple):
    """What a loop keeps of a cache.

    Attributes:
        status: of each line: absent, clean or dirty; the sets' entries come before the lines'.
        room: of each set, how many lines may enter before one must leave.
        state: the policy's.
        counts: misses, lines read, dirty lines evicted, writes that went through.
    """

    status: Any
    room: Any
    state: State
    counts: Any


def _single_set(line: int, sets: int, mask: int, binary: bool) -> int:
    return line ^ line  # 0, of the type that numba has for lines


def _parted(line: int, sets: int, mask: int, binary: bool) -> int:
    return line & mask if binary else line % sets


# The loop as it is here is LRU in sets that hold no copies.  `Online` puts others for these names.
hit, enter, evict, set_of, copies = LRU.hit, LRU.enter, LRU.evict, _parted, False


def _admit(
    enter: Any, evict: Any, state: State, status: Cells, room: Cells, s: int, line: int
) -> bool:
    """Let a line into a set; says whether a dirty one had to leave."""
    dirty = False
    if room[s]:
        room[s] -= 1
    else:
        victim = evict(state, s)
        dirty = status[victim] == DIRTY
        status[victim] = ABSENT
    enter(state, s, line)
    return dirty


def _find_copies(status: Cells, line: int, s: int, sets: int, write: bool) -> bool:
    """Whether another set holds a copy of set s's line; a write leaves copies clean."""
    found = False
    for other in range(sets):
        if other != s:
            copy = spread(line - s + other) + sets
            if status[copy]:
                found = True
                if write:
                    status[copy] = CLEAN
    return found


def _loop(
    chunk: Accesses, count: int, units: Divisor, sets: Divisor, rules: WriteRules, kept: CacheState
) -> None:
    """Replay a chunk.

    Args:
        chunk, count: accesses, and how many.
        units: addresses in a line.
        sets: how many.
        rules: how it writes; nothing goes by.
        kept: what the cache holds, and counts, which are added to.
    """
    address, write, status, state = chunk.address, chunk.write, kept.status, kept.state
    room, counts = kept.room, kept.counts
    words, shift, shifts = units.by, units.shift, units.binary
    many, mask, masks = sets.by, sets.mask, sets.binary
    covers, through = rules.covers, rules.through
    misses = fills = evicted = passed = 0
    missed = True  # where a line is absent: no other set has it
    for i in range(count):
        line = line_of(address[i], words, shift, shifts)
        s = set_of(line, many, mask, masks)
        if copies:
            missed = not _find_copies(status, line, s, many, write[i])
        line = spread(line) + many
        w = write[i]
        was = status[line]
        if was:
            hit(state, s, line)
            if w:
                if through:
                    passed += 1
                else:
                    status[line] = DIRTY
        else:
            misses += missed
            if w and through:
                passed += 1
                continue
            evicted += _admit(enter, evict, state, status, room, s, line)
            if w:
                status[line] = DIRTY
                if not covers:
                    fills += missed
            else:
                status[line] = CLEAN
                fills += missed
    counts[MISSES] += misses
    counts[FILLS] += fills
    counts[EVICTED] += evicted
    counts[THROUGH] += passed


def _list_ring(older: Cells, status: Cells, found: Any) -> None:
    """List the lines of the ring of set 0, newest first, with their status."""
    line = older[0]
    for k in range(found.shape[1]):
        found[0, k] = line
        found[1, k] = status[line]
        line = older[line]


class Online:
    """A cache that takes in a stream chunk by chunk.

    Args:
        copies: whether its sets are parts that may hold the same lines: line n of part s of p has
            the number n·p + s.

    Raises InputError for more than memory has room for.
    """

    def __init__(
        self, cache: Cache, lines: Lines, backend: Backend, *, copies: bool = False
    ) -> None:
        policy = POLICIES[cache.policy]
        sets, ways = cache.sets, cache.lines // cache.sets
        shape = Shape(sets, ways, lines.places, cache.seed)
        check_room(
            shape.lines * _OF_A_LINE + sets * ways * 2 * 8,
            f"a replay keeps what it knows of each of {lines.count} lines and {sets * ways} places",
            "give addresses without gaps between them, longer lines, or a smaller cache",
        )
        if shape.lines + sets >= 2**32:
            raise InputError(
                f"{lines.count} lines: a replay takes fewer than 2³², its own gaps included: "
                "give addresses without gaps between them, or longer lines"
            )
        kept = CacheState(
            status=np.zeros(sets + shape.lines, np.uint8),
            room=np.full(sets, ways, np.uint32),
            state=policy.start(shape),
            counts=np.zeros(4, np.int64),
        )
        self._kept: CacheState = backend.arrays(kept)
        self._words, self._lines = cache.line_words, cache.lines
        self._accesses = 0
        self._backend = backend
        self._loop = backend.build(
            _loop,
            set_of=_single_set if sets == 1 else _parted,
            hit=policy.hit,
            enter=policy.enter,
            evict=policy.evict,
            copies=copies,
        )
        self._sizes = Divisor.of(lines.units, backend), Divisor.of(sets, backend)
        self._rules = WriteRules.of(cache, lines)

    def feed(self, chunk: Accesses) -> None:
        """Take in a chunk whose arrays are the backend's."""
        count = len(chunk.address)
        self._accesses += count
        self._loop(chunk, self._backend.number(count), *self._sizes, self._rules, self._kept)

    def list_lines(self) -> tuple[Ints, Ints]:
        """The lines of a cache with one set and a ring, newest first, and the status of each."""
        found = np.zeros((2, self._lines - int(self._kept.room[0])), np.int64)
        built(_list_ring)(self._kept.state[1], self._kept.status, found)
        return gathered(found[0] - 1), found[1]

    def leap(self, lines: Ints, status: Ints, counts: Ints, accesses: int) -> None:
        """Go on by so many counts and accesses, to where as many lines as now are held."""
        newer, older = self._kept.state
        self._kept.status[spread(self.list_lines()[0]) + 1] = ABSENT
        ring = np.concatenate([[0], spread(lines) + 1, [0]])
        self._kept.status[ring[1:-1]] = status
        older[ring[:-1]], newer[ring[1:]] = ring[1:], ring[:-1]
        self._kept.counts[:] += counts
        self._accesses += accesses

    @property
    def counts(self) -> Ints:
        """What the loop has counted, by place."""
        return np.array(self._kept.counts)

    def traffic(self) -> Traffic:
        """What it moved so far, and what a flush would write now."""
        counts = self._kept.counts
        dirty = int(np.count_nonzero(np.asarray(self._kept.status, np.uint8) == DIRTY))
        return Traffic(
            accesses=self._accesses,
            misses=int(counts[MISSES]),
            loads=int(counts[FILLS]) * self._words,
            write_backs=int(counts[EVICTED]) * self._words + int(counts[THROUGH]),
            flush=dirty * self._words,
        )
