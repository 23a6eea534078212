"""Curves of traces too long to follow whole, from a sample of lines, with an error bar.

SHARDS (Waldspurger, Park, Garthwaite, Ahmad 2015): keep the accesses of those lines whose hash is
small, a share r of all.  Distances in the sample are about r times those in the trace, and every
access that is kept stands for 1/r of them.  Which accesses are kept depends on the line alone, so
reuse survives.

Here the lines that are kept fall into groups, again by their hash, and each group is a smaller
sample of the same kind.  How much the groups' own estimates differ tells the standard error.

``iosim cache --sample`` calls `sampled` by `iosim.cache.methods`.  It is the only method of this
wing that estimates; the exact ones are in `curves`, `closed`, `leaps` and `tiles`.

Changing this file: the same stream, rate and seed give the same numbers, compiled or not;
``docs/caches.md`` prints some.  At rate 1 loads are exact.  ``tests/cache/test_cache_curves.py``
compares with exact curves, also how often the truth lies within the errors.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.arrays import Bools, Floats, Ints
from iosim.base.compiled import built
from iosim.base.errors import InputError
from iosim.base.validate import check_size, whole_number
from iosim.cache.curves import by_lines
from iosim.cache.lru_stack import Timeline
from iosim.cache.stream import Stream, check_stream

GROUPS = 8
# Lines that are hashed at once when the sample is drawn.
DRAWN = 2**22


@dataclass(frozen=True, kw_only=True)
class SampledCurve:
    """Estimated traffic of LRU at chosen capacities.

    Attributes:
        line_words: words in a line.
        accesses: in the whole stream.
        lines: how many lines were followed.
        rate: the share of lines that was requested.
        capacities: words.
        loads: words read from the memory behind it, estimated.
        error: the standard error of each estimate, in words.

    >>> from iosim.cache import of_arrays, sampled
    >>> found = sampled(of_arrays([*range(50), *range(50)]), [10, 50], rate=1.0)
    >>> found.capacities.tolist(), found.loads.tolist()
    ([10, 50], [100.0, 50.0])
    """

    line_words: int
    accesses: int
    lines: int
    rate: float
    capacities: Ints
    loads: Floats
    error: Floats


def _hashed(line: int, seed: int) -> int:
    """62 bits in which nothing of the line's number is left.

    Two rounds of multiplying and shifting, as in splitmix64 (Steele, Lea, Flood 2014); products
    are of 32-bit halves, so that no number overflows.
    """
    low, high = line & 0xFFFFFFFF, (line >> 32) ^ 0x9E3779B9
    for turn in range(4):
        low, high = high ^ ((low * 0x7FEB352D + seed + turn) & 0xFFFFFFFF), low
        low ^= low >> 15
        low = (low * 0x46D9F3B1) & 0xFFFFFFFF
        low ^= low >> 16
        high = (high + low) & 0xFFFFFFFF
    return ((high & 0x3FFFFFFF) << 32) | low


def _draw(first: int, stop: int, below: int, seed: int, found: Ints, hashes: Ints) -> int:
    """The lines from `first` on whose hash is small, with their hashes; returns how many."""
    n = 0
    for line in range(first, stop):
        hashed = _hashed(line, seed)
        if hashed < below:
            found[n] = line
            hashes[n] = hashed
            n += 1
    return n


def _keep(
    lines: Ints,
    write: Bools,
    below: int,
    seed: int,
    kept: Ints,
    kept_write: Bools,
) -> int:
    """The accesses whose line is in the sample; returns how many."""
    n = 0
    for at in range(lines.size):
        if _hashed(lines[at], seed) < below:
            kept[n] = lines[at]
            kept_write[n] = write[at]
            n += 1
    return n


def _sample(
    lines: int, below: int, seed: int, watch: Callable[[int, int], None]
) -> tuple[Ints, Ints]:
    """The lines that are followed, ascending, and the hash of each."""
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    for first in range(0, lines, DRAWN):
        stop = min(first + DRAWN, lines)
        found, hashes = np.empty(stop - first, np.int64), np.empty(stop - first, np.int64)
        n = built(_draw)(first, stop, below, seed, found, hashes)
        parts.append((found[:n].copy(), hashes[:n].copy()))
        watch(stop, lines)
    return np.concatenate([x for x, _ in parts]), np.concatenate([x for _, x in parts])


def _estimates(timeline: Timeline, lines: int, rooms: Ints, line_words: int) -> Floats:
    """Words that caches of this many lines load, as one sample has it."""
    followed = len(timeline.times.last)
    if followed == 0:
        return np.zeros(len(rooms))
    reads, writes = timeline.times.found
    costly = reads if line_words == 1 else reads + writes
    # Of the other lines in a distance, as many are in the sample as of all lines.
    room = np.minimum((rooms - 1) * followed // lines, followed - 1)
    missed = costly.sum() - np.cumsum(costly[1:])[room]
    found: Floats = missed * (lines / followed * line_words)
    return found


def sampled(
    stream: Stream,
    capacities: Sequence[int],
    *,
    rate: float,
    line_words: int = 1,
    seed: int = 0,
    watch: Callable[[int, int], None] = lambda done, lines: None,
) -> SampledCurve:
    """Estimate LRU's loads at many capacities from a share of the lines.

    Args:
        stream: the accesses; memory grows with the lines that are followed.
        capacities: words, at least one line each.
        rate: the share of lines to follow, above 0 and at most 1.
        line_words: words in a line.
        seed: of the hash that chooses them.
        watch: called now and then while lines are chosen, which takes a second for some 10⁸ of
            them, with how many have been looked at, and how many there are.

    Returns:
        A `SampledCurve`.  At rate 1 its loads are exact, and its errors too large.

    Raises InputError for a rate or a capacity out of range, and where fewer than two lines for each
    of the 8 groups would be followed.

    >>> from iosim.cache import of_arrays
    >>> found = sampled(of_arrays([*range(1000)] * 3), [100, 1000], rate=1.0)
    >>> found.loads.tolist()
    [3000.0, 1000.0]
    """
    check_stream(stream)
    line_words = check_size("line_words", line_words)
    drawn_by = whole_number(seed)
    if drawn_by is None:
        raise InputError(f"seed must be a whole number, got {seed!r}: give an integer")
    given: Any = rate
    if isinstance(given, bool) or not isinstance(given, numbers.Real) or not 0 < rate <= 1:
        raise InputError(f"a rate of {rate}: give a share above 0 and at most 1")
    for capacity in capacities:
        if check_size("capacity", capacity) < line_words:
            raise InputError(
                f"a capacity of {capacity} words is under one line of {line_words}: give at least "
                f"{line_words}"
            )
    below, seed = round(rate * 2**62), drawn_by & 0xFFFFFFFF
    lines = -(-stream.addresses // line_words)
    chosen, hashes = _sample(lines, below, seed, watch)
    if len(chosen) < 2 * GROUPS:
        raise InputError(
            f"a rate of {rate} follows {len(chosen)} of {lines} lines, fewer than {2 * GROUPS}: "
            "choose a larger rate, or the exact curve"
        )
    group = hashes % GROUPS
    number = np.zeros(len(chosen), np.int64)  # of a line within its group
    for g in range(GROUPS):
        number[group == g] = np.arange(np.count_nonzero(group == g))
    whole = Timeline(len(chosen))
    parts = [Timeline(int(n)) for n in np.bincount(group, minlength=GROUPS)]
    for chunk in stream.chunks():
        kept, write = np.empty_like(chunk.address), np.empty_like(chunk.write)
        n = built(_keep)(by_lines(chunk, line_words), chunk.write, below, seed, kept, write)
        at, write = np.searchsorted(chosen, kept[:n]), write[:n]
        whole.feed(at, write)
        of = group[at]
        for g, part in enumerate(parts):
            part.feed(number[at[of == g]], write[of == g])
    rooms = np.asarray(capacities, np.int64) // line_words
    each = np.array([_estimates(part, lines, rooms, line_words) for part in parts])
    return SampledCurve(
        line_words=line_words,
        accesses=stream.length,
        lines=len(chosen),
        rate=rate,
        capacities=np.asarray(capacities, np.int64),
        loads=_estimates(whole, lines, rooms, line_words),
        error=each.std(axis=0, ddof=1) / np.sqrt(GROUPS),
    )
