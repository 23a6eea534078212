"""A cache whose policy knows only the past: one loop over the accesses, for all such policies."""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.base.compiled import Backend
from iosim.base.errors import InputError
from iosim.base.memory import check_room
from iosim.cache.lines import Lines, line_of, spread
from iosim.cache.policies import POLICIES
from iosim.cache.policies.base import Cells, Policy, Shape, State
from iosim.cache.policies.lru import LRU
from iosim.cache.record import Cache, Traffic

ABSENT, CLEAN, DIRTY = 0, 1, 2
# What the loop counts, by place.
MISSES, FILLS, EVICTED, THROUGH = range(4)
# Bytes that a replay keeps for a line, at most: its status, and what a policy has of it.
_OF_A_LINE = 1 + 3 * 8


def _single_set(line: int, sets: int, mask: int, masks: bool) -> int:
    return line ^ line  # 0, of the type that numba has for lines


def _parted(line: int, sets: int, mask: int, masks: bool) -> int:
    return line & mask if masks else line % sets


# The loop as it stands is LRU in sets.  `Online` puts other functions for these names.
hit, enter, evict, set_of = LRU.hit, LRU.enter, LRU.evict, _parted


def admit(
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


def _loop(
    address: Cells,
    write: Cells,
    count: int,
    units: int,
    shift: int,
    sets: int,
    mask: int,
    shifts: bool,
    masks: bool,
    covers: bool,
    through: bool,
    status: Cells,
    room: Cells,
    state: State,
    counts: Cells,
) -> None:
    """Replay a chunk.

    Args:
        address, write: of each access.
        count: how many.
        units: addresses in a line.
        shift: log2 of units.
        sets: how many; the sets' entries come before the lines'.
        mask: sets - 1.
        shifts, masks: whether units and sets are powers of two, so that nothing is divided.
        covers: whether a write fills its whole line, which then is not read before.
        through: whether writes go to slow memory at once, and misses around the cache.
        status: of each line: absent, clean or dirty.
        room: of each set, how many lines may enter before one must leave.
        state: the policy's.
        counts: misses, lines read, dirty lines evicted, writes that went through; added to.
    """
    misses = fills = evicted = passed = 0
    for i in range(count):
        line = line_of(address[i], units, shift, shifts)
        s = set_of(line, sets, mask, masks)
        line = spread(line) + sets
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
            misses += 1
            if w and through:
                passed += 1
                continue
            evicted += admit(enter, evict, state, status, room, s, line)
            if w:
                status[line] = DIRTY
                fills += not covers
            else:
                status[line] = CLEAN
                fills += 1
    counts[MISSES] += misses
    counts[FILLS] += fills
    counts[EVICTED] += evicted
    counts[THROUGH] += passed


def emptied(policy: Policy, shape: Shape, count: int, backend: Backend) -> Any:
    """What a loop keeps of an empty cache: status, room, the policy's state, and counts.

    Raises InputError for more than memory has room for, of `count` lines in the address space.
    """
    check_room(
        shape.lines * _OF_A_LINE + shape.sets * shape.ways * 2 * 8,
        f"a replay keeps what it knows of each of {count} lines and {shape.sets * shape.ways} "
        "places",
        "give addresses without gaps between them, longer lines, or a smaller cache",
    )
    if shape.lines + shape.sets >= 2**32:
        raise InputError(
            f"{count} lines: a replay takes fewer than 2³², its own gaps included: "
            "give addresses without gaps between them, or longer lines"
        )
    return backend.arrays(
        (
            np.zeros(shape.sets + shape.lines, np.uint8),
            np.full(shape.sets, shape.ways, np.uint32),
            policy.start(shape),
            np.zeros(4, np.int64),
        )
    )


def moved(arrays: Any, accesses: int, words: int) -> Traffic:
    """What a cache of lines of this many words has moved so far, and what a flush would write."""
    status, _, _, counts = arrays
    dirty = int(np.count_nonzero(np.asarray(status, np.uint8) == DIRTY))
    return Traffic(
        accesses=accesses,
        misses=int(counts[MISSES]),
        loads=int(counts[FILLS]) * words,
        write_backs=int(counts[EVICTED]) * words + int(counts[THROUGH]),
        flush=dirty * words,
    )


class Online:
    """A cache that takes in a stream chunk by chunk."""

    def __init__(self, cache: Cache, lines: Lines, backend: Backend) -> None:
        policy = POLICIES[cache.policy]
        sets, ways = cache.sets, cache.lines // cache.sets
        shape = Shape(sets, ways, lines.places, cache.seed)
        self._arrays = emptied(policy, shape, lines.count, backend)
        self._cache = cache
        self._accesses = 0
        self._backend = backend
        self._loop = backend.build(
            _loop,
            set_of=_single_set if sets == 1 else _parted,
            hit=policy.hit,
            enter=policy.enter,
            evict=policy.evict,
        )
        self._sizes = backend.numbers(lines.units, lines.shift, sets, sets - 1)
        self._marks = lines.shifts, sets & (sets - 1) == 0, lines.covers, cache.write == "through"

    def feed(self, address: Any, write: Any, count: int) -> None:
        """Take in a chunk: what the backend made of its arrays, and how many accesses it has."""
        self._accesses += count
        count = self._backend.number(count)
        self._loop(address, write, count, *self._sizes, *self._marks, *self._arrays)

    def traffic(self) -> Traffic:
        """What it moved so far, and what a flush would write now."""
        return moved(self._arrays, self._accesses, self._cache.line_words)
