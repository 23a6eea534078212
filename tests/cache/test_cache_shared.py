"""Streams of many items in one order, and what caches that they share move."""

from __future__ import annotations

import numpy as np
import pytest

import iosim
from iosim.base.errors import InputError
from iosim.cache import Cache, Traffic, of_arrays, replay, transfers
from iosim.cache.of_program import items
from iosim.cache.partitioned import replay_parts
from iosim.cache.shared import (
    by_clock,
    by_times,
    drifting,
    interleaved,
    lockstep,
    round_robin,
    sweeps,
)


def _pairs(both):
    """Pairs of an item and the number of its access, in order."""
    seen = {}
    found = []
    for chunk, who in both.with_items():
        assert chunk.address.size == who.size
        for address, item in zip(chunk.address.tolist(), who.tolist(), strict=True):
            nth = seen.setdefault(item, 0)
            assert address == 1000 * item + nth
            seen[item] += 1
            found.append((item, nth))
    return found


def _numbered(lengths):
    return [of_arrays(np.arange(n) + 1000 * k) for k, n in enumerate(lengths)]


def _walked(lengths, resident, burst, waits):
    """Items in places, one round after the other, with no clock."""
    left, places, found = list(range(len(lengths))), [], []
    while left or places:
        if not (waits and places):
            while left and len(places) < resident:
                places.append([left.pop(0), 0])
        for place in sorted(places):
            for _ in range(burst):
                if place[1] < lengths[place[0]]:
                    found.append(tuple(place))
                    place[1] += 1
        places = [p for p in places if p[1] < lengths[p[0]]]
    return found


def test_in_step_and_in_turn_against_items_that_are_walked():
    rng = np.random.default_rng(1)
    for _ in range(200):
        lengths = rng.integers(1, 25, rng.integers(1, 12)).tolist()
        resident, burst = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        chunk = int(rng.choice([1, 2, 7, 1000]))
        both = interleaved(_numbered(lengths), lockstep(resident), chunk)
        assert _pairs(both) == _walked(lengths, resident, 1, True)
        both = interleaved(_numbered(lengths), round_robin(resident, burst), chunk)
        assert _pairs(both) == _walked(lengths, resident, burst, False)


def test_any_order_is_sorted_by_its_times_whatever_the_chunk():
    rng = np.random.default_rng(2)
    for seed in range(100):
        lengths = rng.integers(0, 30, rng.integers(1, 12))
        start = rng.integers(0, 100, lengths.size)
        ticks = np.stack([start, start + rng.integers(0, 200, lengths.size)], axis=1)
        when = np.sort(rng.random((lengths.size, 30)), axis=1)
        for order in (
            drifting(3, int(rng.integers(0, 1001)), seed),
            drifting(4, 300, seed, every=3),
            by_clock(ticks),
            by_times(when),
        ):
            clock = order(lengths)
            want = sorted(
                (float(clock(np.array([k]), np.array([2 * nth + 1]))[0]), k, nth)
                for k, n in enumerate(lengths.tolist())
                for nth in range(n)
            )
            both = interleaved(_numbered(lengths), order, int(rng.choice([1, 3, 50, 1000])))
            assert _pairs(both) == [(k, nth) for _, k, nth in want]
            assert both.stream.length == len(want)


LAUNCHES = {"copy": [17], "flash2": [12], "naive": [12, 12, 24], "matmul": [36], "flash1": [2]}


@pytest.mark.parametrize("name", LAUNCHES)
@pytest.mark.parametrize("unit", ["words", "rows", "lines"])
def test_items_one_after_the_other_are_the_transfers(name, unit):
    found = iosim.algorithm(name)
    problem = found.problem.beside_attention(11, 3, 2)
    program = found.program_for(problem)
    instance = iosim.bind(program, problem.sizes, {p.name: max(p.least, 2) for p in program.params})
    whole = transfers(instance, unit=unit, line_words=3)
    launches = items(instance, unit=unit, line_words=3)
    assert [len(launch) for launch in launches] == LAUNCHES[name]
    parts = [interleaved(launch, lockstep(1)).stream for launch in launches]
    for x in ("address", "write"):
        got = np.concatenate([getattr(c, x) for part in parts for c in part.chunks()])
        assert (got == np.concatenate([getattr(c, x) for c in whole.chunks()])).all()
    assert sum(part.length for part in parts) == whole.length
    assert max(part.addresses for part in parts) == whole.addresses
    assert all(part.regions == whole.regions for part in parts)


def _by_lists(both, room, parts, words):
    """Each part a list of lines, the one touched last in front."""
    held = [[] for _ in range(parts)]
    dirty = set()  # pairs of part and line
    misses = loads = backs = accesses = 0
    for chunk, who in both.with_items():
        for address, write, item in zip(
            chunk.address.tolist(), chunk.write.tolist(), who.tolist(), strict=True
        ):
            accesses += 1
            line, side = address // words, item % parts
            if not any(line in part for part in held):
                misses += 1
                loads += words if words > 1 or not write else 0
            if line in held[side]:
                held[side].remove(line)
            held[side].insert(0, line)
            if write:
                dirty -= {(part, line) for part in range(parts)}
                dirty.add((side, line))
            if len(held[side]) > room:
                gone = (side, held[side].pop())
                backs += words if gone in dirty else 0
                dirty.discard(gone)
    return Traffic(
        accesses=accesses, misses=misses, loads=loads, write_backs=backs, flush=words * len(dirty)
    )


@pytest.mark.parametrize("fast", [False, True])
def test_parts_of_a_cache_against_lists(fast):
    rng = np.random.default_rng(3)
    for seed in range(40):
        words, parts = int(rng.choice([1, 2, 3])), int(rng.choice([1, 2, 3]))
        room = int(rng.integers(1, 8))
        streams = [
            of_arrays(rng.integers(0, 30, n), rng.random(n) < 0.3, addresses=30)
            for n in rng.integers(0, 60, 6)
        ]
        both = interleaved(streams, drifting(3, 500, seed), chunk=64)
        part = Cache(capacity=room * words, line_words=words)
        got = replay_parts(both, part, parts=parts, side=lambda k, n=parts: k % n, fast=fast)
        assert got == _by_lists(both, room, parts, words)
        if parts == 1:
            assert got == replay(both.stream, part)


def test_what_cannot_be_shared():
    two = sweeps(2, 4)
    with pytest.raises(InputError, match="no streams to interleave: give one or more"):
        interleaved([], lockstep(1))
    with pytest.raises(InputError, match="1 pairs of clock readings for 2 items"):
        interleaved(two, by_clock(np.array([[0, 1]])))
    with pytest.raises(InputError, match="3 times for an item of 4 accesses"):
        interleaved(two, by_times(np.zeros((2, 3))))
    with pytest.raises(InputError, match="drift = 1001 is out of range: give 0 to 1000"):
        drifting(1, 1001)
    with pytest.raises(InputError, match="resident"):
        lockstep(0)
    both = interleaved(two, lockstep(2))
    with pytest.raises(InputError, match=r"fully associative, writes back, .* not Cache"):
        replay_parts(both, Cache(capacity=4, ways=2))
    with pytest.raises(InputError, match="item on side 1 of a cache of 1 parts: give 0 to 0"):
        replay_parts(both, Cache(capacity=4), parts=1)
