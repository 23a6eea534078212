"""A cache whose policy knows only the past: one loop over the accesses, for all such policies."""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.cache.compiled import Backend
from iosim.cache.lines import Lines, line_of, spread
from iosim.cache.memory import check_room
from iosim.cache.policies import POLICIES
from iosim.cache.policies.base import Cells, Shape, State
from iosim.cache.policies.lru import LRU
from iosim.cache.record import Cache, Traffic
from iosim.errors import InputError

ABSENT, CLEAN, DIRTY = 0, 1, 2
# What the loop counts, by place.
MISSES, FILLS, EVICTED, THROUGH = range(4)
# Bytes that a replay keeps for a line, at most: its status, and what a policy has of it.
_OF_A_LINE = 1 + 3 * 8


def _whole(line: int, sets: int, mask: int, masks: bool) -> int:
    return line ^ line  # 0, of the type that numba has for lines


def _parted(line: int, sets: int, mask: int, masks: bool) -> int:
    return line & mask if masks else line % sets


# The loop as it stands is LRU in sets.  `Online` puts other functions for these names.
hit, enter, evict, set_of = LRU.hit, LRU.enter, LRU.evict, _parted


def _loop(
    address: Cells, write: Cells, count: int,
    units: int, shift: int, sets: int, mask: int,
    shifts: bool, masks: bool, covers: bool, through: bool,
    status: Cells, room: Cells, state: State, counts: Cells,
) -> None:  # fmt: skip
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
            if room[s]:
                room[s] -= 1
            else:
                victim = evict(state, s)
                evicted += status[victim] == DIRTY
                status[victim] = ABSENT
            enter(state, s, line)
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


class Online:
    """A cache that takes in a stream chunk by chunk."""

    def __init__(self, cache: Cache, lines: Lines, backend: Backend) -> None:
        policy = POLICIES[cache.policy]
        sets, ways = cache.sets, cache.lines // cache.sets
        check_room(
            lines.places * _OF_A_LINE + cache.lines * 2 * 8,
            f"a replay keeps what it knows of each of {lines.count} lines and {cache.lines} places",
            "give addresses without gaps between them, longer lines, or a smaller cache",
        )
        if lines.places + sets >= 2**32:
            raise InputError(
                f"{lines.count} lines: a replay takes fewer than 2³², its own gaps included: "
                "give addresses without gaps between them, or longer lines"
            )
        self._cache = cache
        self._accesses = 0
        self._backend = backend
        self._loop = backend.build(
            _loop, set_of=_whole if sets == 1 else _parted,
            hit=policy.hit, enter=policy.enter, evict=policy.evict,
        )  # fmt: skip
        self._sizes = backend.numbers(lines.units, lines.shift, sets, sets - 1)
        self._marks = lines.shifts, sets & (sets - 1) == 0, lines.covers, cache.write == "through"
        self._arrays = backend.arrays((
            np.zeros(sets + lines.places, np.uint8),
            np.full(sets, ways, np.uint32),
            policy.start(Shape(sets, ways, lines.places, cache.seed)),
            np.zeros(4, np.int64),
        ))  # fmt: skip

    def feed(self, address: Any, write: Any, count: int) -> None:
        """Take in a chunk: what the backend made of its arrays, and how many accesses it has."""
        self._accesses += count
        count = self._backend.number(count)
        self._loop(address, write, count, *self._sizes, *self._marks, *self._arrays)

    def traffic(self) -> Traffic:
        """What it moved so far, and what a flush would write now."""
        status, _, _, counts = self._arrays
        words = self._cache.line_words
        dirty = int(np.count_nonzero(np.asarray(status, np.uint8) == DIRTY))
        return Traffic(
            accesses=self._accesses,
            misses=int(counts[MISSES]),
            loads=int(counts[FILLS]) * words,
            write_backs=int(counts[EVICTED]) * words + int(counts[THROUGH]),
            flush=dirty * words,
        )
