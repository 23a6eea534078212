"""OPT: what the fewest loads are (Belady 1966; Mattson et al. 1970).

**The rule.**  The line leaves whose next use *that would cost a load* is farthest.  Where lines are
of one word and written back, a word that is written before it is read again is dead until then: to
find it there saves no load.  Of longer lines, which are read before they are written, every access
is such a use; where writes go through, every read is.

Keeping a line from one access to the next use that costs a load saves that load and takes one place
in between.  So the most that can be saved is the largest set of intervals of which no more than the
places overlap, and to drop the interval that ends last wherever there are too many is optimal
(Carlisle and Lloyd 1995).  With `bypass` the line that is accessed need take no place, and the
loads are the fewest that any cache of this size can do; without, it must enter.  The write-backs
are those that come of it; to make loads and write-backs fewest together is NP-hard.

**Ties.**  Lines that are never used again leave first, clean ones before dirty ones; then words
whose next access is a write, the farthest first.  Where writes go through, a line that is never
read again counts as absent: a write that comes to it is a miss.

**How.**  The resident set is a bitmap over time: bit t is set while a resident line is next used at
t.  An access at t is a hit if bit t is set.  It clears bit t and sets the bit of its line's next
use; the highest bit is the line that leaves, and which line that is need not be known.  Summaries
of 64 words each find the highest bit in four steps.  A second bitmap has the dirty lines.  Words
that are dead until they are written have bits above all others.

`iosim.cache.replaying` calls it for policy ``opt``.  ``tests/cache/test_cache_replay.py`` compares
with lists.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from iosim.base.compiled import Backend
from iosim.base.memory import check_room
from iosim.cache.lines import Divisor, Lines, WriteRules, line_of, spread
from iosim.cache.policies.base import Cells
from iosim.cache.record import Cache, Traffic
from iosim.cache.stream import Accesses, Stream

# As many times as codes of 32 bits can tell apart.
_NARROW = 2**31 - 1
# Accesses replayed at once: a compiled loop can't be interrupted.
_STRETCH = 2**22


class _Numbers(NamedTuple):
    """Whole numbers of the type that loops are fastest with.

    Attributes:
        one, six, low: 1, 6 and 63: bits of a word.
        top: how many words the highest summary has.
        dead: what is added to the time of a write.
        never: the time of what does not come.
    """

    one: int
    six: int
    low: int
    top: int
    dead: int
    never: int


class _Times(NamedTuple):
    """Bits by time, in words of 64; a summary has a bit for each word of the one before it.

    Attributes:
        bits: whether a resident line is next used then.
        soiled: whether that line is dirty.
        above, higher, highest: summaries of `bits`.
    """

    bits: Any
    soiled: Any
    above: Any
    higher: Any
    highest: Any


def _note(
    chunk: Accesses,
    count: int,
    start: int,
    units: Divisor,
    numbers: _Numbers,
    last: Cells,
    codes: Cells,
) -> None:
    """Note each access's next one.

    Args:
        chunk, count: accesses, the first of which is number `start`.
        units: addresses in a line.
        last: of each line, the number of its last access plus one; 0: none.
        codes: of each access, twice the time of its line's next access, plus one if it writes.
    """
    address, write = chunk.address, chunk.write
    one, dead, never = numbers.one, numbers.dead, numbers.never
    words, shift, shifts = units.by, units.shift, units.binary
    for i in range(count):
        line = spread(line_of(address[i], words, shift, shifts))
        t = start + i
        before = last[line]
        if write[i]:
            codes[t] = never << one | one
            time = t + dead
        else:
            codes[t] = never << one
            time = t
        if before:
            codes[before - one] = time << one | (codes[before - one] & one)
        last[line] = t + one


def _skip_writes(codes: Cells, count: int, numbers: _Numbers) -> None:
    """Let codes say the next read, where they say the next access."""
    one, never = numbers.one, numbers.never
    for back in range(count):
        t = count - one - back
        then = codes[t] >> one
        if then != never and codes[then] & one:
            codes[t] = (codes[then] & ~one) | (codes[t] & one)


def _set_time(times: _Times, key: int, dirty: int, one: int, six: int, low: int) -> None:
    """Set the bit of a time, and the other if its line is dirty."""
    bits = times.bits
    word = key >> six
    if bits[word] == 0:
        a = word >> six
        b = a >> six
        times.above[a] |= one << (word & low)
        times.higher[b] |= one << (a & low)
        times.highest[b >> six] |= one << (b & low)
    bits[word] |= one << (key & low)
    times.soiled[word] |= dirty << (key & low)


def _take(times: _Times, key: int, one: int, six: int, low: int) -> int:
    """Clear the bits of a time, and say whether its line was dirty."""
    bits, soiled = times.bits, times.soiled
    word = key >> six
    at = key & low
    dirty: int = soiled[word] >> at & one
    bits[word] &= ~(one << at)
    soiled[word] &= ~(one << at)
    if bits[word] == 0:
        a = word >> six
        times.above[a] &= ~(one << (word & low))
        if times.above[a] == 0:
            b = a >> six
            times.higher[b] &= ~(one << (a & low))
            if times.higher[b] == 0:
                times.highest[b >> six] &= ~(one << (b & low))
    return dirty


def _top(word: int, one: int) -> int:
    """The place of the highest bit of a word that is not 0."""
    place = word ^ word
    for k in range(5, -1, -1):
        half = one << k
        if word >> half:
            word >>= half
            place |= half
    return place


def _farthest(times: _Times, top: int, one: int, six: int) -> int:
    """The latest time whose bit is set; there is one."""
    c = top - one
    while times.highest[c] == 0:
        c -= one
    b = c << six | _top(times.highest[c], one)
    a = b << six | _top(times.higher[b], one)
    word = a << six | _top(times.above[a], one)
    key: int = word << six | _top(times.bits[word], one)
    return key


def _run(
    codes: Cells,
    start: int,
    stop: int,
    numbers: _Numbers,
    rules: WriteRules,
    times: _Times,
    counts: Cells,
) -> None:
    """Replay the accesses from `start` on, up to `stop`.

    Args:
        codes: as `_note` left them.
        rules: how it writes, and whether lines may pass by.
        times: of resident lines.
        counts: misses, lines read, dirty lines evicted, writes that went through, room, and clean
            and dirty lines that are never used again.
    """
    bits = times.bits
    one, six, low = numbers.one, numbers.six, numbers.low
    top, dead, never = numbers.top, numbers.dead, numbers.never
    covers, through, bypass = rules.covers, rules.through, rules.bypass
    misses, fills, evicted, passed = counts[0], counts[1], counts[2], counts[3]
    room, clean, dirty = counts[4], counts[5], counts[6]
    for t in range(start, stop):
        then = codes[t] >> one
        writes = codes[t] & one
        if through and writes:
            passed += 1
            if then == never or bits[then >> six] >> (then & low) & one == 0:
                misses += 1
            continue
        own = t + dead if writes else t
        if bits[own >> six] >> (own & low) & one:
            soiled = _take(times, own, one, six, low) | writes
        else:
            misses += 1
            if not covers or writes == 0:
                fills += 1
            soiled = writes
            if room:
                room -= 1
            elif bypass and then == never:
                evicted += writes != 0
                continue
            elif clean:
                clean -= 1
            elif dirty:
                dirty -= 1
                evicted += 1
            else:
                far = _farthest(times, top, one, six)
                if bypass and far < then:
                    evicted += writes != 0
                    continue
                evicted += _take(times, far, one, six, low) != 0
        if then != never:
            _set_time(times, then, soiled, one, six, low)
        elif soiled:
            dirty += 1
        else:
            clean += 1
    counts[0], counts[1], counts[2], counts[3] = misses, fills, evicted, passed
    counts[4], counts[5], counts[6] = room, clean, dirty


class NextUses:
    """Each access's next one, for all caches of one kind of lines and writing.

    Raises InputError where it would not fit into memory: 4 bytes an access (8 from 2³¹ times on),
    and 2 bits for each time.
    """

    def __init__(self, stream: Stream, lines: Lines, through: bool, backend: Backend) -> None:
        self.length = stream.length
        # A word that is dead until it is written: its next use is later than any other.
        dead = stream.length if lines.covers and not through else 0
        self.times = self.length + dead
        dtype = np.uint32 if self.times < _NARROW else np.uint64
        check_room(
            self.length * np.dtype(dtype).itemsize + self.times // 4,
            f"opt needs the next use of each of {self.length} accesses",
            "replay fewer accesses, or another policy",
        )
        check_room(
            lines.places * 8,
            f"opt keeps when each of {lines.count} lines was used last",
            "give addresses without gaps between them, or longer lines",
        )
        self.through = through
        self.backend = backend
        never, top = int(np.iinfo(dtype).max) >> 1, self.times // 64**4 + 1
        self.numbers = _Numbers(*backend.numbers(1, 6, 63, top, dead, never))
        self._units = Divisor.of(lines.units, backend)
        self._last, self.codes = backend.arrays(
            (np.zeros(lines.places, np.uint64), np.zeros(self.length, dtype))
        )
        self._note = backend.build(_note)
        self._seen = 0

    def feed(self, chunk: Accesses) -> None:
        """Take in a chunk whose arrays are the backend's."""
        count = len(chunk.address)
        here = self.backend.numbers(count, self._seen)
        self._note(chunk, *here, self._units, self.numbers, self._last, self.codes)
        self._seen += count

    def finish(self) -> None:
        """Call once, after the last chunk."""
        if self.through:
            skip = self.backend.build(_skip_writes)
            skip(self.codes, self.backend.number(self.length), self.numbers)


def opt(cache: Cache, lines: Lines, uses: NextUses) -> Traffic:
    """What OPT moves, every access's next one being known."""
    backend = uses.backend
    sizes = [uses.times // 64**k + 1 for k in range(1, 5)]
    times = backend.arrays(_Times(*(np.zeros(n, np.uint64) for n in (sizes[0], *sizes))))
    counts = backend.arrays(np.array([0, 0, 0, 0, cache.lines, 0, 0]))
    run, rules = backend.build(_run), WriteRules.of(cache, lines)
    for start in range(0, uses.length, _STRETCH):
        part = backend.numbers(start, min(start + _STRETCH, uses.length))
        run(uses.codes, *part, uses.numbers, rules, times, counts)
    misses, fills, evicted, passed, _, _, dirty = map(int, counts)
    words = cache.line_words
    return Traffic(
        accesses=uses.length,
        misses=misses,
        loads=fills * words,
        write_backs=evicted * words + passed,
        flush=dirty * words,
    )
