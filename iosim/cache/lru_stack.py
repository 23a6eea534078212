"""LRU at every capacity at once: stack distances, in time that hardly grows with the distance.

Mattson et al. 1970: what a fully associative LRU cache of C lines holds are the C lines that were
touched last, so an access hits where at most C − 1 other lines were touched since its own line
was.  That number plus one is its *stack distance*.

Every access takes the next slot of a timeline, and a bit marks the slots that are some line's
last one.  A distance is then the number of marks from the line's last slot on: bits of a word,
and counts of marks by 8 words, 64 words and 4,096 words.  When the timeline is full, the marked
slots move to its start (Bennett and Kruskal 1975 count in a tree; Almási et al. 2002 mark as
here).

Dirty lines follow Thompson and Smith 1989: a line is dirty in the caches of at least this many
lines, its *level*, which a write makes 1.  Found again at distance s it was written back by
those from its level up to s − 1 lines.

`iosim.cache.curves` and `sampling` feed it.  ``tests/cache/test_cache_curves.py`` compares with
caches simulated one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Bools, Ints
from iosim.base.compiled import built, popcount

# Slots of the timeline: at least this many, and twice the lines.
SLOTS = 2**19
# Slots below a mark's word, 8 words, 64 words, 4,096 words, as shifts.
WORD, EIGHT, GROUP, BLOCK = 6, 9, 12, 18


class SlotMarks(NamedTuple):
    """Marks of slots: bits, and counts by 8 words, 64 words and 4,096 words."""

    bits: NDArray[np.uint64]
    eights: NDArray[np.int32]
    groups: NDArray[np.int32]
    blocks: NDArray[np.int32]


class LastTimes(NamedTuple):
    """What the loop keeps.

    Attributes:
        last: of each line, its last slot; −1: none.
        owner: of each slot, its line.
        marks: which slots are some line's last one.
        level: of each line, from how many lines on caches have it dirty; 0: none.
        found: (2, lines + 1): reads and writes by distance; at 0 those of lines never seen before.
        written: changes of the lines written back, from one capacity to the next.
    """

    last: NDArray[np.int32]
    owner: NDArray[np.int32]
    marks: SlotMarks
    level: NDArray[np.int32]
    found: Ints
    written: Ints


class Timeline:
    """The state between chunks: what the loop keeps, and the next free slot."""

    def __init__(self, lines: int) -> None:
        slots = SLOTS
        while slots < 2 * lines:
            slots *= 2
        counts = (np.zeros((slots >> shift) + 1, np.int32) for shift in (EIGHT, GROUP, BLOCK))
        self.times = LastTimes(
            last=np.full(lines, -1, np.int32),
            owner=np.zeros(slots, np.int32),
            marks=SlotMarks(np.zeros(slots >> WORD, np.uint64), *counts),
            level=np.zeros(lines, np.int32),
            found=np.zeros((2, lines + 1), np.int64),
            written=np.zeros(lines + 2, np.int64),
        )
        self.head = 0

    def feed(self, lines: Ints, write: Bools) -> None:
        """Take in a chunk."""
        self.head = built(_feed)(lines, write, self.head, self.times)

    def close(self) -> tuple[Ints, Ints]:
        """Lines written back, and dirty at the end, in caches of 0, 1, … lines."""
        last, written = self.times.last, self.times.written
        flush = np.zeros_like(written)
        seen = last >= 0
        order = np.argsort(-last[seen], kind="stable")
        level = self.times.level[seen][order].astype(np.int64)
        depth = np.arange(1, len(order) + 1)
        dirty = level > 0
        level, depth = level[dirty], depth[dirty]
        np.add.at(flush, np.maximum(level, depth), 1)
        gone = level < depth
        np.add.at(written, level[gone], 1)
        np.add.at(written, depth[gone], -1)
        return np.cumsum(written)[:-1], np.cumsum(flush)[:-1]


def _set(marks: SlotMarks, slot: int) -> None:
    """Mark a slot."""
    marks.bits[slot >> WORD] |= np.uint64(1) << np.uint64(slot & 63)
    marks.eights[slot >> EIGHT] += 1
    marks.groups[slot >> GROUP] += 1
    marks.blocks[slot >> BLOCK] += 1


def _clear(marks: SlotMarks, slot: int) -> None:
    """Take a slot's mark away."""
    marks.bits[slot >> WORD] &= ~(np.uint64(1) << np.uint64(slot & 63))
    marks.eights[slot >> EIGHT] -= 1
    marks.groups[slot >> GROUP] -= 1
    marks.blocks[slot >> BLOCK] -= 1


def _compact(head: int, times: LastTimes) -> int:
    """Move the marked slots to the start; returns how many there are."""
    last, owner, marks = times.last, times.owner, times.marks
    n = 0
    for slot in range(head):
        line = owner[slot]
        if last[line] == slot:
            owner[n] = line
            last[line] = n
            n += 1
    marks.bits[:] = 0
    marks.eights[:] = 0
    marks.groups[:] = 0
    marks.blocks[:] = 0
    for slot in range(n):
        _set(marks, slot)
    return n


def _marks_from(slot: int, final: int, marks: SlotMarks) -> int:
    """How many slots from `slot` up to `final` are marked, both included."""
    bits, eights, groups = marks.bits, marks.eights, marks.groups
    word, end = slot >> WORD, final >> WORD
    n: int = popcount(bits[word] >> np.uint64(slot & 63))
    if word >> 3 == end >> 3:
        for k in range(word + 1, end + 1):
            n += popcount(bits[k])
        return n
    for k in range(word + 1, ((word >> 3) + 1) << 3):
        n += popcount(bits[k])
    word, end = word >> 3, end >> 3
    if word >> 3 == end >> 3:
        for k in range(word + 1, end + 1):
            n += eights[k]
        return n
    for k in range(word + 1, ((word >> 3) + 1) << 3):
        n += eights[k]
    word, end = word >> 3, end >> 3
    if word >> 6 == end >> 6:
        for k in range(word + 1, end + 1):
            n += groups[k]
        return n
    for k in range(word + 1, ((word >> 6) + 1) << 6):
        n += groups[k]
    for k in range((word >> 6) + 1, (end >> 6) + 1):
        n += marks.blocks[k]
    return n


def _feed(lines: Ints, write: Bools, head: int, times: LastTimes) -> int:
    """Take in accesses; returns the next free slot."""
    last, owner, marks, level = times.last, times.owner, times.marks, times.level
    found, written = times.found, times.written
    for at in range(lines.size):
        line = lines[at]
        if head == owner.size:
            head = _compact(head, times)
        slot = last[line]
        distance = 0
        if slot >= 0:
            if slot == head - 1:
                found[np.int64(write[at]), 1] += 1
                if write[at]:
                    level[line] = 1
                continue
            distance = _marks_from(slot, head - 1, marks)
            _clear(marks, slot)
            dirty = level[line]
            if dirty > 0 and dirty < distance:
                written[dirty] += 1
                written[distance] -= 1
                level[line] = distance
        _set(marks, head)
        owner[head] = line
        last[line] = head
        head += 1
        if write[at]:
            level[line] = 1
        found[np.int64(write[at]), distance] += 1
    return head
