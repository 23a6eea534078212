"""Program instances that share a cache: their streams interleaved into one.

An *order* says when each item is at each of its accesses; the interleaved stream is sorted by
time, and of two accesses at once that of the item with the lower number is first.  An item passes
half an access at a time, so access k is in the middle of its time after 2k + 1 halves.  All times
but recorded ones are whole numbers, so that any other program can make the same streams.

Made chunk by chunk: a window of time after the other, each with about a chunk's accesses.

`iosim.gpu` (L2) and `partitioned` call it.  A new order is a function here.
``tests/cache/test_cache_shared.py`` compares with items that are walked and with lists.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Ints
from iosim.base.errors import InputError
from iosim.base.validate import check_range, check_size
from iosim.cache.address_ranges import spread
from iosim.cache.stream import CHUNK, Accesses, Stream, check_stream, of_arrays

Times: TypeAlias = "NDArray[np.int64] | NDArray[np.float64]"
# Items and halves of accesses, as arrays of one shape, to times that grow with the halves.
Clock: TypeAlias = Callable[[Ints, Ints], Times]
Order: TypeAlias = Callable[[Ints], Clock]

# This many accesses are sorted within a processor's own caches.
SORTED = 2**16
PACE = 1000  # ticks that the fastest item takes for half an access
MOST_DRIFT = 1000  # per mille: then an item may take twice as long


def sweeps(items: int, pieces: int, of: Ints | None = None) -> tuple[Stream, ...]:
    """Items that read the same pieces, each once and in order.

    Args:
        items: how many.
        pieces: of what an item sweeps.
        of: (items,), the number of what each sweeps; none: all sweep the same.

    >>> both = interleaved(sweeps(2, 2), lockstep(2)).stream
    >>> [chunk.address.tolist() for chunk in both.chunks()]
    [[0, 0, 1, 1]]
    """
    items, pieces = check_size("items", items), check_size("pieces", pieces)
    which = np.zeros(items, np.int64) if of is None else of
    one = np.arange(pieces)
    each = {k: of_arrays(one + k * pieces) for k in set(which.tolist())}
    return tuple(each[k] for k in which.tolist())


def lockstep(resident: int) -> Order:
    """`resident` items at a time, all at the same access; the next ones when all have ended.

    Raises InputError for no residents.

    >>> both = interleaved([of_arrays([k, k]) for k in range(3)], lockstep(2)).stream
    >>> [chunk.address.tolist() for chunk in both.chunks()]
    [[0, 1, 0, 1, 2, 2]]
    """
    resident = check_size("resident", resident)

    def order(lengths: Ints) -> Clock:
        firsts = np.arange(0, lengths.size, resident)
        longest = np.maximum.reduceat(lengths, firsts) if lengths.size else lengths
        begin = 2 * (np.cumsum(longest) - longest)
        return lambda items, halves: begin[items // resident] + halves

    return order


def round_robin(resident: int, accesses: int = 1) -> Order:
    """`resident` items take turns with this many accesses each; where one ends, the next begins.

    Raises InputError for no residents or accesses.

    >>> both = interleaved([of_arrays([k, k]) for k in range(3)], round_robin(2, 2)).stream
    >>> [chunk.address.tolist() for chunk in both.chunks()]
    [[0, 0, 1, 1, 2, 2]]
    """
    resident, accesses = check_size("resident", resident), check_size("accesses", accesses)

    def order(lengths: Ints) -> Clock:
        begin = _begins(-(-lengths // accesses), resident)
        return lambda items, halves: begin[items] + halves // 2 // accesses

    return order


def drifting(resident: int, per_mille: int, seed: int = 0, every: int = 0) -> Order:
    """Each item takes longer than the fastest possible one, by up to `per_mille`, drawn at random.

    Args:
        resident: items at a time; where one ends, the next begins.
        per_mille: 0 to `MOST_DRIFT`.
        seed: of the draws, 0 to 2³² − 1.
        every: accesses between two barriers, at which all that run wait for the slowest, and no
            item begins before all have ended; 0 without barriers.

    Raises InputError for numbers out of range.

    >>> two = [of_arrays([0, 0, 0]), of_arrays([1, 1, 1])]
    >>> both = interleaved(two, drifting(2, per_mille=1000, seed=3)).stream
    >>> [chunk.address.tolist() for chunk in both.chunks()]
    [[1, 0, 1, 0, 1, 0]]
    """
    resident = check_size("resident", resident)
    per_mille = check_range("drift", per_mille, 0, MOST_DRIFT)
    seed, every = check_range("seed", seed, 0, 2**32 - 1), check_range("every", every, 0, 2**62)

    def order(lengths: Ints) -> Clock:
        pace = paces(lengths.size, per_mille, seed)
        if not every:
            begin = _begins(2 * lengths * pace, resident)
            return lambda items, halves: begin[items] + pace[items] * halves
        firsts = np.arange(0, lengths.size, resident)
        slowest = np.maximum.reduceat(pace, firsts)
        took = 2 * np.maximum.reduceat(lengths, firsts) * slowest
        begin = np.cumsum(took) - took

        def clock(items: Ints, halves: Ints) -> Times:
            wave, stretch = items // resident, 2 * every
            whole, rest = halves // stretch, halves % stretch
            waited = begin[wave] + whole * stretch * slowest[wave]
            return np.asarray(waited + rest * pace[items], np.int64)

        return clock

    return order


def by_clock(ticks: NDArray[Any]) -> Order:
    """Items as they ran; in between an item moves evenly.

    Args:
        ticks: (items, 2), when each started and ended, in any unit.

    The order raises InputError for ticks of another number of items.

    >>> two = [of_arrays([0, 0]), of_arrays([1, 1])]
    >>> both = interleaved(two, by_clock(np.array([[0, 8], [3, 5]]))).stream
    >>> [chunk.address.tolist() for chunk in both.chunks()]
    [[0, 1, 1, 0]]
    """
    start = ticks[:, 0].astype(float)
    took = np.diff(ticks, axis=1)[:, 0].astype(float)

    def order(lengths: Ints) -> Clock:
        _as_many(lengths, ticks, "pairs of clock readings")
        return lambda items, halves: start[items] + took[items] * (halves / (2 * lengths[items]))

    return order


def by_times(when: Times) -> Order:
    """Items at times that are given.

    Args:
        when: (items, accesses), the time of each access, in any unit; not falling along an item.

    The order raises InputError for times of another number of items, or of fewer accesses.

    >>> two = [of_arrays([0, 0]), of_arrays([1, 1])]
    >>> both = interleaved(two, by_times(np.array([[0, 4], [1, 2]]))).stream
    >>> [chunk.address.tolist() for chunk in both.chunks()]
    [[0, 1, 1, 0]]
    """

    def order(lengths: Ints) -> Clock:
        _as_many(lengths, when, "rows of times")
        if lengths.size and lengths.max() > when.shape[1]:
            raise InputError(
                f"{when.shape[1]} times for an item of {lengths.max()} accesses: give one for each"
            )
        return lambda items, halves: when[items, np.minimum(halves // 2, when.shape[1] - 1)]

    return order


def paces(items: int, per_mille: int, seed: int) -> Ints:
    """(items,): ticks for half an access, of each item: `PACE`, and up to so much more of it."""
    return PACE + (per_mille * (_hash_items(seed, items) >> 16) >> 16)


def _hash_items(seed: int, count: int) -> Ints:
    """(count,): a number below 2³² for each item, by a hash of item and seed."""
    at = (np.arange(count, dtype=np.uint64) * 0x9E3779B1 + seed * 0x85EBCA6B) & 0xFFFFFFFF
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        at = ((at ^ (at >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return (at ^ (at >> np.uint64(16))).astype(np.int64)


def _begins(took: Ints, resident: int) -> Ints:
    """When each item begins, where each takes the place that is free first."""
    ends = [0] * min(resident, took.size)
    begin = np.zeros(took.size, np.int64)
    for item, long in enumerate(took.tolist()):
        begin[item] = ends[0]
        heapq.heapreplace(ends, ends[0] + long)
    return begin


def _as_many(lengths: Ints, given: NDArray[Any], what: str) -> None:
    if len(given) != lengths.size:
        raise InputError(f"{len(given)} {what} for {lengths.size} items: give one for each")


@dataclass(frozen=True)
class Interleaved:
    """Accesses of many items in one order.

    Attributes:
        stream: all of them.
        with_items: makes a new iterator over the same chunks, each with the items' numbers.
    """

    stream: Stream
    with_items: Callable[[], Iterator[tuple[Accesses, Ints]]] = field(repr=False)


def interleaved(streams: Sequence[Stream], order: Order, chunk: int = CHUNK) -> Interleaved:
    """One stream of the streams of items that run at the same time.

    Args:
        streams: one for each item, in the order in which they begin, over one address space.
        order: `lockstep`, `round_robin`, `drifting`, `by_clock` or `by_times`.
        chunk: about this many accesses are made at once, at most.

    Raises InputError for no streams, and an order of another number of items.

    >>> two = [of_arrays([0, 1, 2]), of_arrays([7, 8])]
    >>> both = interleaved(two, round_robin(2, accesses=2)).stream
    >>> [chunk.address.tolist() for chunk in both.chunks()]
    [[0, 1, 7, 8, 2]]
    """
    chunk = check_size("chunk", chunk)
    if isinstance(streams, Stream):
        raise InputError("one stream is nothing to interleave: give a list, one for each item")
    for stream in streams:
        check_stream(stream)
    if not streams:
        raise InputError("no streams to interleave: give one or more")
    lengths = np.array([stream.length for stream in streams], np.int64)
    clock = order(lengths)

    def generate_accesses() -> Iterator[tuple[Accesses, Ints]]:
        apart = {id(stream): stream for stream in streams if stream.length}
        few = sum(stream.length for stream in apart.values()) <= chunk
        read = _read_at_once(apart, streams) if few else _read_in_turn(streams)
        window = min(chunk, max(SORTED, 4 * len(streams)))
        for items, firsts, counts in _windows(lengths, clock, window):
            who, nth = np.repeat(items, counts), spread(firsts, counts)
            sort = np.argsort(clock(who, 2 * nth + 1), kind="stable")
            yield read(items, firsts, counts, sort), who[sort]

    first = streams[0]
    whole = Stream(
        lambda: (accesses for accesses, _ in generate_accesses()),
        max(stream.addresses for stream in streams),
        int(lengths.sum()),
        first.regions,
        first.unit,
        first.line_words,
    )
    return Interleaved(whole, generate_accesses)


# Accesses of items: their numbers, the first access of each, how many, and the order of them all.
_Read = Callable[[Ints, Ints, Ints, Ints], Accesses]


def _read_at_once(apart: Mapping[int, Stream], streams: Sequence[Stream]) -> _Read:
    """Accesses of streams that are few, or the same for many items: all are in memory."""
    taken = [_Reader(stream).take(stream.length) for stream in apart.values()]
    address = np.concatenate([np.zeros(0, np.int64), *(part.address for part in taken)])
    write = np.concatenate([np.zeros(0, bool), *(part.write for part in taken)])
    ends = itertools.accumulate((stream.length for stream in apart.values()), initial=0)
    begin = dict(zip(apart, ends, strict=False))
    begins = np.array([begin.get(id(stream), 0) for stream in streams])

    def read(items: Ints, firsts: Ints, counts: Ints, sort: Ints) -> Accesses:
        at = spread(begins[items] + firsts, counts)[sort]
        return Accesses(address[at], write[at])

    return read


def _read_in_turn(streams: Sequence[Stream]) -> _Read:
    """Accesses of streams of any length, which are read in order."""
    readers = [_Reader(stream) for stream in streams]

    def read(items: Ints, firsts: Ints, counts: Ints, sort: Ints) -> Accesses:
        each = zip(items.tolist(), counts.tolist(), strict=True)
        taken = [readers[i].take(count) for i, count in each]
        address = np.concatenate([part.address for part in taken])[sort]
        return Accesses(address, np.concatenate([part.write for part in taken])[sort])

    return read


class _Reader:
    """The accesses of one item, this many at a time."""

    def __init__(self, stream: Stream) -> None:
        self._chunks = stream.chunks()
        self._left: Accesses | None = None

    def take(self, count: int) -> Accesses:
        """The next ones.  Raises InputError where a stream has fewer than it says."""
        parts: list[Accesses] = []
        while count:
            left = self._left or next(self._chunks, None)
            if left is None:
                raise InputError(f"a stream ends {count} accesses before the length that it says")
            parts.append(Accesses(left.address[:count], left.write[:count]))
            rest = Accesses(left.address[count:], left.write[count:])
            self._left = rest if rest.address.size else None
            count -= parts[-1].address.size
        if len(parts) == 1:
            return parts[0]
        return Accesses(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def _windows(lengths: Ints, clock: Clock, chunk: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Windows of time: which items have accesses in it, the first of each, and how many."""
    at, left, span = np.zeros_like(lengths), int(lengths.sum()), 0.0
    while left:
        items = np.flatnonzero(at < lengths)
        stop = lengths[items]
        if left > chunk:
            now = clock(items, 2 * at[items] + 1)
            if not span:
                high = clock(items, 2 * stop - 1).max()
                span = float(high - now.min()) / math.ceil(left / chunk)
            items, stop, span = _window(items, at, lengths, clock, now, span, 4 * chunk)
        counts = stop - at[items]
        yield items, at[items], counts
        at[items] = stop
        took = int(counts.sum())
        left -= took
        if took < chunk // 2:
            span = 2 * span + 1


def _window(
    items: Ints, at: Ints, lengths: Ints, clock: Clock, now: Times, span: float, most: int
) -> tuple[Ints, Ints, float]:
    """Items with accesses from now on for a span of time, and where they stop.

    The span is halved until there are few enough, or all are at the same time.
    """
    low = now.min()
    while True:
        until = (
            max(low + span, np.nextafter(low, np.inf))
            if now.dtype.kind == "f"
            else (int(low) + max(1, int(span)))
        )
        here = items[now < until]
        stop = _count_before(here, at[here], lengths[here], clock, until)
        if int((stop - at[here]).sum()) <= most or until - low <= max(1, np.spacing(low)):
            return here, stop, span
        span /= 2


def _count_before(items: Ints, first: Ints, length: Ints, clock: Clock, until: Any) -> Ints:
    """How many accesses each item has made before a time."""
    low, high = first.copy(), length.copy()
    while (more := low < high).any():
        middle = (low + high) // 2
        passed = more & (clock(items, 2 * np.minimum(middle, length - 1) + 1) < until)
        low = np.where(passed, middle + 1, low)
        high = np.where(more & ~passed, middle, high)
    return low
