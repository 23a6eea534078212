"""Traffic at every capacity from one pass over a stream: what stack algorithms give.

A policy is a stack algorithm where a larger cache always holds what a smaller one holds.  LRU and
OPT are.  Then every access has a distance, the least number of lines with which it hits, and a
histogram of distances tells the traffic of all caches at once (Mattson et al. 1970).

`iosim.cache.methods` and `sampling` call it.  A policy that is a stack algorithm is a line in
`STACKS`.  ``tests/cache/test_cache_curves.py`` compares with caches simulated one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.compiled import interruptible
from iosim.base.errors import InputError, closest
from iosim.base.memory import check_room
from iosim.base.validate import check_size
from iosim.cache.stream import Accesses, Stream, check_stream

# Bytes that an access takes where the whole trace must be at hand: a line, a mark, a next use and
# a distance.
WHOLE = 8 + 1 + 8 + 8
# Bytes of LRU's timeline for a line, at least.
OF_LINE = 40


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Words moved between a cache and the memory behind it, as step functions of its capacity.

    Step i holds for capacities from ``capacities[i]`` on, up to the next one.

    Attributes:
        policy: who decides what is dropped.
        line_words: words in a line.
        accesses: in the stream.
        capacities: words, ascending, from one line on; where something changes.
        misses: accesses whose line was not held.  Of OPT, only those that load.
        loads: words read from the memory behind it.
        write_backs: words written when their line was dropped; None where the pass can't tell.
        flush: words that were written and still held at the end; None likewise.

    >>> from iosim.cache import curve, of_arrays
    >>> found = curve(of_arrays([0, 1, 0, 1, 2]))
    >>> found.capacities.tolist(), found.loads.tolist()
    ([1, 2], [5, 3])
    """

    policy: str
    line_words: int
    accesses: int
    capacities: Ints
    misses: Ints
    loads: Ints
    write_backs: Ints | None = None
    flush: Ints | None = None

    def step(self, capacity: int) -> int:
        """Which step holds at a capacity in words; InputError below one line."""
        capacity = check_size("capacity", capacity)
        if capacity < self.line_words:
            raise InputError(
                f"a capacity of {capacity} words is under one line of {self.line_words}: give at "
                f"least {self.line_words}"
            )
        return int(np.searchsorted(self.capacities, capacity, side="right")) - 1

    def loads_at(self, capacity: int) -> int:
        """Words read from behind a cache of this many words."""
        return int(self.loads[self.step(capacity)])


def by_lines(chunk: Accesses, line_words: int) -> Ints:
    """The lines of a chunk's addresses."""
    return chunk.address if line_words == 1 else chunk.address // line_words


def _steps(line_words: int, *of_lines: Ints) -> tuple[Ints, list[Ints]]:
    """Where step functions over 1, 2, … lines change, in words, and their values there."""
    changes = np.zeros(of_lines[0].size, bool)
    changes[0] = True
    for values in of_lines:
        changes[1:] |= np.diff(values) != 0
    at = np.flatnonzero(changes)
    return (at + 1) * line_words, [values[at] for values in of_lines]


def _beyond(histogram: Ints) -> Ints:
    """Accesses that miss in 1, 2, … lines: further than that, or at distance 0, which is never."""
    found: Ints = histogram.sum() - np.cumsum(histogram[1:])
    return found


def _lru(stream: Stream, line_words: int) -> Curve:
    from iosim.cache.lru_stack import Timeline

    lines = -(-stream.addresses // line_words)
    check_room(
        lines * OF_LINE,
        f"LRU at every capacity keeps what it knows of each of {lines:,} lines",
        "choose smaller sizes, longer lines, or a sample",
    )
    timeline = Timeline(lines)
    for chunk in stream.chunks():
        timeline.feed(by_lines(chunk, line_words), chunk.write)
    back, flush = timeline.close()
    reads, writes = (_beyond(histogram) for histogram in timeline.times.found)
    fetched = reads if line_words == 1 else reads + writes
    capacities, found = _steps(
        line_words,
        reads + writes,
        fetched * line_words,
        back[1:] * line_words,
        flush[1:] * line_words,
    )
    misses, loads, write_backs, flushed = found
    return Curve(
        policy="lru",
        line_words=line_words,
        accesses=stream.length,
        capacities=capacities,
        misses=misses,
        loads=loads,
        write_backs=write_backs,
        flush=flushed,
    )


def _opt(bypass: bool) -> Callable[[Stream, int], Curve]:
    def measure_opt(stream: Stream, line_words: int) -> Curve:
        from iosim.cache import opt_stack

        check_room(
            stream.length * WHOLE,
            f"OPT at every capacity holds {stream.length:,} accesses and what is next used",
            "choose smaller sizes, longer units, chosen capacities, or LRU",
        )
        parts = [(by_lines(chunk, line_words), chunk.write) for chunk in stream.chunks()]
        lines = np.concatenate([np.empty(0, np.int64), *(part for part, _ in parts)])
        write = np.concatenate([np.empty(0, bool), *(part for _, part in parts)])
        count = -(-stream.addresses // line_words)
        covers = line_words == 1
        ahead = opt_stack.follows(lines, write, covers, count)
        depth: Ints = interruptible(opt_stack.depths, ahead, bypass=bypass)
        costs = depth[~write] if covers else depth
        missing = _beyond(np.bincount(costs, minlength=count + 1).astype(np.int64))
        capacities, (misses, loads) = _steps(line_words, missing, missing * line_words)
        return Curve(
            policy="opt-bypass" if bypass else "opt",
            line_words=line_words,
            accesses=stream.length,
            capacities=capacities,
            misses=misses,
            loads=loads,
        )

    return measure_opt


STACKS: dict[str, Callable[[Stream, int], Curve]] = {
    "lru": _lru,
    "opt": _opt(bypass=False),
    "opt-bypass": _opt(bypass=True),
}


def curve(stream: Stream, policy: str = "lru", *, line_words: int = 1) -> Curve:
    """Traffic at every capacity, of a fully associative cache that writes back.

    Args:
        stream: the accesses.
        policy: a stack algorithm: ``lru``, ``opt`` (Belady's, where every miss enters) or
            ``opt-bypass``.
        line_words: words in a line.

    Returns:
        A `Curve`.  OPT minimizes loads, and its pass tells nothing of write-backs.

    Raises:
        InputError: another policy, or a trace too long for OPT, which takes about 25 bytes an
            access, or more addresses than memory has room for.

    >>> from iosim.cache import of_arrays
    >>> found = curve(of_arrays([0, 1, 2, 0, 1, 2]))
    >>> found.capacities.tolist(), found.loads.tolist()
    ([1, 3], [6, 3])
    >>> found = curve(of_arrays([0, 1, 2, 0, 1, 2]), "opt")
    >>> found.capacities.tolist(), found.loads.tolist()
    ([1, 2, 3], [6, 4, 3])
    """
    check_stream(stream)
    line_words = check_size("line_words", line_words)
    if policy not in STACKS:
        raise InputError(f"no curve of policy {policy!r} in one pass: {closest(policy, STACKS)}")
    if stream.addresses == 0:
        none = np.zeros(1, np.int64)
        return Curve(
            policy=policy,
            line_words=line_words,
            accesses=0,
            capacities=none + line_words,
            misses=none,
            loads=none,
            write_backs=none,
            flush=none,
        )
    return STACKS[policy](stream, line_words)
