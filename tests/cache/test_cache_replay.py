"""Caches that manage themselves, against simulators of lists and dicts that share no code."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pytest

from iosim.base import compiled, memory
from iosim.base.errors import InputError
from iosim.cache import (
    POLICIES,
    Accesses,
    Cache,
    Policy,
    Region,
    Stream,
    Traffic,
    belady,
    closed,
    curve,
    of_arrays,
    partitioned,
    replay,
    replay_many,
    sampled,
    shared,
    tiles,
)
from iosim.cache.files import write_trace
from iosim.cache.policies import ring
from iosim.cache.policies.base import State
from iosim.cache.policies.ring import drop
from iosim.cache.stream import Unit

Trace = list[tuple[int, bool]]


def trace(seed: int, addresses: int = 40, length: int = 400) -> Trace:
    """Reads and writes: some scattered, some in runs, some to a few favorites."""
    draw = random.Random(seed)
    out: Trace = []
    while len(out) < length:
        start = draw.randrange(addresses)
        run = draw.choice([1, 1, 1, 5, 12])
        if draw.random() < 0.4:
            start, run = draw.randrange(1 + addresses // 8), 1
        mark = draw.random()
        out += [((start + k) % addresses, draw.random() < mark) for k in range(run)]
    return out[:length]


def as_stream(accesses: Trace, chunk: int = 64) -> Stream:
    return of_arrays(
        np.array([a for a, _ in accesses], np.int64), [w for _, w in accesses], chunk=chunk
    )


class Order:
    """A set's order, for the dumb simulator: told of what happens, asked who leaves."""

    def __init__(self, ways: int, seed: int) -> None:
        self.ways = ways
        self.queue: list[int] = []

    def hit(self, line: int) -> None: ...

    def enter(self, line: int) -> None:
        self.queue.append(line)

    def leave(self) -> int:
        return self.queue.pop(0)


class Recent(Order):
    def hit(self, line: int) -> None:
        self.queue.remove(line)
        self.queue.append(line)


class Marked(Order):
    """Lines with marks that a hit sets."""

    def __init__(self, ways: int, seed: int) -> None:
        super().__init__(ways, seed)
        self.marks: set[int] = set()

    def hit(self, line: int) -> None:
        self.marks.add(line)


class SecondChance(Marked):
    def leave(self) -> int:
        while self.queue[0] in self.marks:
            self.marks.remove(self.queue[0])
            self.queue.append(self.queue.pop(0))
        return self.queue.pop(0)


class Sieve(Marked):
    """The hand is the line that it comes to next; None: the oldest."""

    hand: int | None = None

    def leave(self) -> int:
        at = 0 if self.hand is None else self.queue.index(self.hand)
        while self.queue[at] in self.marks:
            self.marks.remove(self.queue[at])
            at = (at + 1) % len(self.queue)
        self.hand = self.queue[at + 1] if at + 1 < len(self.queue) else None
        return self.queue.pop(at)


class Tree(Order):
    """Halves of the ways, and for each which half goes first: the one not touched last."""

    def __init__(self, ways: int, seed: int) -> None:
        super().__init__(ways, seed)
        self.at: list[int | None] = [None] * ways
        self.left_goes: dict[tuple[int, int], bool] = {}

    def hit(self, line: int) -> None:
        way, low, high = self.at.index(line), 0, self.ways
        while high - low > 1:
            middle = (low + high) // 2
            self.left_goes[low, high] = way >= middle
            low, high = (low, middle) if way < middle else (middle, high)

    def enter(self, line: int) -> None:
        self.at[self.at.index(None)] = line
        self.hit(line)

    def leave(self) -> int:
        low, high = 0, self.ways
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.left_goes[low, high] else (middle, high)
        line, self.at[low] = self.at[low], None
        assert line is not None
        return line


class Dice(Order):
    """Marsaglia's xorshift with 13, 17 and 5, in numpy's 32 bits."""

    def __init__(self, ways: int, seed: int) -> None:
        super().__init__(ways, seed)
        self.at: list[int | None] = [None] * ways
        self.drawn = ALL_DRAWN.setdefault(
            seed, [np.uint32((seed * 2654435761 + 2654435769) % 4294967295 + 1)]
        )

    def enter(self, line: int) -> None:
        self.at[self.at.index(None)] = line

    def leave(self) -> int:
        x = self.drawn[0]
        for by in (13, -17, 5):
            x ^= x << np.uint32(by) if by > 0 else x >> np.uint32(-by)
        self.drawn[0] = x
        line, self.at[int(x) % self.ways] = self.at[int(x) % self.ways], None
        assert line is not None
        return line


ALL_DRAWN: dict[int, list[np.uint32]] = {}
ORDERS = {
    "lru": Recent,
    "fifo": Order,
    "clock": SecondChance,
    "sieve": Sieve,
    "plru": Tree,
    "random": Dice,
}


def dumb(accesses: Trace, cache: Cache) -> Traffic:
    """One access after the other, words moved as they are moved."""
    sets = cache.capacity // cache.line_words // (cache.ways or cache.capacity // cache.line_words)
    ways = cache.capacity // cache.line_words // sets
    ALL_DRAWN.clear()  # the sets draw from one sequence
    orders = [ORDERS[cache.policy](ways, cache.seed) for _ in range(sets)]
    dirty: list[dict[int, bool]] = [{} for _ in range(sets)]
    misses = loads = back = 0
    for address, write in accesses:
        line = address // cache.line_words
        order, there = orders[line % sets], dirty[line % sets]
        through = write and cache.write == "through"
        back += through
        if line in there:
            order.hit(line)
            there[line] |= write and not through
            continue
        misses += 1
        if through:
            continue
        if len(there) == ways:
            back += cache.line_words * there.pop(order.leave())
        order.enter(line)
        there[line] = write
        if not write or cache.line_words > 1:
            loads += cache.line_words
    flush = cache.line_words * sum(sum(there.values()) for there in dirty)
    return Traffic(
        accesses=len(accesses), misses=misses, loads=loads, write_backs=back, flush=flush
    )


def next_use(accesses: Trace, cache: Cache, line: int, dirty: bool, now: int) -> tuple[int, int]:
    """How far a line's next use is; the largest goes first."""
    for t in range(now + 1, len(accesses)):
        if accesses[t][0] // cache.line_words == line:
            if not accesses[t][1]:
                return 0, t
            if cache.write == "back":
                return int(cache.line_words == 1), t
    return 2, -dirty


def dumb_opt(accesses: Trace, cache: Cache) -> Traffic:
    """The farthest next use leaves, looked up by reading on."""
    size, lines = cache.line_words, cache.capacity // cache.line_words
    dirty: dict[int, bool] = {}
    misses = loads = back = 0
    for now, (address, write) in enumerate(accesses):
        line = address // size

        def use(x: int, soiled: bool, now: int = now) -> tuple[int, int]:
            return next_use(accesses, cache, x, soiled, now)

        through = write and cache.write == "through"
        back += through
        if line in dirty:
            dirty[line] |= write and not through
        else:
            misses += 1
            if through:
                continue
            if not write or size > 1:
                loads += size
            if len(dirty) == lines:
                farthest = max(dirty, key=lambda x: use(x, dirty[x]))
                never = use(line, False)[0] == 2
                if cache.bypass and (never or use(line, write) > use(farthest, dirty[farthest])):
                    back += size * write
                    continue
                back += size * dirty.pop(farthest)
            dirty[line] = write
        if cache.write == "through" and use(line, False)[0] == 2:
            del dirty[line]
    return Traffic(
        accesses=len(accesses),
        misses=misses,
        loads=loads,
        write_backs=back,
        flush=size * sum(dirty.values()),
    )


def fewest_loads(accesses: Trace, cache: Cache) -> int:
    """By trying all that a cache can hold after each access."""
    size, lines = cache.line_words, cache.capacity // cache.line_words
    best: dict[frozenset[int], int] = {frozenset(): 0}
    for address, write in accesses:
        line = address // size
        after: dict[frozenset[int], int] = {}
        for held, cost in best.items():
            there = line in held
            if write and cache.write == "through":
                options = [held]
            else:
                cost += size * (not there and (not write or size > 1))
                options = [held | {line}] if len(held | {line}) <= lines else []
                options += [held - {x} | {line} for x in held - {line}] if not options else []
                options += [held] if cache.bypass else []
            for option in options:
                after[option] = min(cost, after.get(option, cost))
        best = after
    return min(best.values())


def caches(policy: str) -> list[Cache]:
    """Capacities, lines, ways and both ways of writing."""
    shapes = [
        (1, 1, None),
        (4, 1, None),
        (16, 1, None),
        (64, 1, None),
        (12, 3, None),
        (16, 4, None),
        (8, 1, 2),
        (12, 1, 4),
        (24, 1, 8),
        (24, 3, 1),
        (32, 4, 2),
    ]
    return [
        Cache(capacity=c, line_words=b, ways=w, policy=policy, write=mode, seed=c)
        for c, b, w in shapes
        for mode in ("back", "through")
        if (w or c // b).bit_count() == 1 or not POLICIES[policy].binary
        if w is None or not POLICIES[policy].foresees
    ]


def opt_caches() -> list[Cache]:
    plain = caches("opt")
    return plain + [dataclasses.replace(cache, bypass=True) for cache in plain]


@pytest.mark.numbers
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("policy", ORDERS)
def test_replays_are_those_of_the_dumb_simulator(policy: str, fast: bool) -> None:
    for seed in range(12):
        accesses = trace(seed)
        many = caches(policy)
        found = replay_many(as_stream(accesses), many, fast=fast)
        for cache, traffic in zip(many, found, strict=True):
            assert traffic == dumb(accesses, cache), (seed, cache)


@pytest.mark.numbers
@pytest.mark.parametrize("fast", [False, True])
def test_opt_is_that_of_the_dumb_simulator(fast: bool) -> None:
    for seed in range(8):
        accesses = trace(seed, length=250)
        found = replay_many(as_stream(accesses), opt_caches(), fast=fast)
        for cache, traffic in zip(opt_caches(), found, strict=True):
            assert traffic == dumb_opt(accesses, cache), (seed, cache)


@pytest.mark.parametrize("fast", [False, True])
def test_opt_with_codes_of_64_bits_is_the_same(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = as_stream(trace(0))
    narrow = replay_many(stream, opt_caches(), fast=fast)
    monkeypatch.setattr(belady, "_NARROW", 10)
    assert replay_many(stream, opt_caches(), fast=fast) == narrow


@pytest.mark.numbers
@pytest.mark.parametrize("policy", POLICIES)
def test_compiled_and_plain_are_one_over_long_streams(policy: str) -> None:
    """More addresses, and more accesses, than one summary of OPT's covers: 64³ times."""
    draw = np.random.default_rng(7)
    address = (2000 * draw.random(140_000) ** 3).astype(np.int64)
    address[::3] = np.arange(address[::3].size) % 1777
    stream = of_arrays(address, draw.random(address.size) < 0.3)
    given = [
        Cache(capacity=512, policy=policy),
        Cache(capacity=512, line_words=8, ways=None if policy == "opt" else 8, policy=policy),
    ]
    found = replay_many(stream, given, fast=True)
    assert found == replay_many(stream, given, fast=False)
    assert all(address.size / 50 < x.misses < address.size for x in found)


def test_opt_loads_the_fewest_words_that_can_be() -> None:
    """Of all caches of its size, tried one by one; with bypass, of all that need not keep."""
    for seed in range(60):
        accesses = trace(seed, addresses=6, length=24)
        for cache in opt_caches():
            if cache.lines <= 4:
                found = replay(as_stream(accesses), cache, fast=False)
                assert found.loads == fewest_loads(accesses, cache), (seed, cache)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"capacity": 3, "line_words": 4}, "capacity 3 is under one line of 4 words: give 4"),
        ({"capacity": 0}, "capacity 0 is under one line of 1 words: give 1 or more"),
        (
            {"capacity": 10, "line_words": 4},
            "lines of 4 words don't divide a capacity of 10 words: "
            "give a capacity of 8 or 12 words, or other lines",
        ),
        (
            {"capacity": 100, "ways": 8},
            "8 ways don't divide 100 lines .100 words.: give a capacity "
            "of 96 or 104 words, or other ways",
        ),
        ({"capacity": 8, "line_words": 4, "ways": 4}, "give a capacity of 16 words, or other ways"),
        ({"capacity": 8, "policy": "lur"}, "unknown policy 'lur': did you mean 'lru'"),
        ({"capacity": 8, "write": "around"}, "write 'around': give 'back' or 'through'"),
        ({"capacity": 8.5}, "capacity=8.5 is not a whole number"),
        ({"capacity": 8, "ways": 0}, "ways=0: give 1 or more"),
        ({"capacity": 8, "line_words": 0}, "line_words=0: give 1 or more"),
        ({"capacity": 8, "bypass": True}, "lru can't bypass: leave out bypass, or take opt"),
        ({"capacity": 8, "ways": 2, "policy": "opt"}, "opt is fully associative: leave out ways=2"),
        (
            {"capacity": 24, "policy": "plru"},
            "plru needs a power of two of ways, not 24: give 16 or 32",
        ),
    ],
)
def test_caches_that_make_no_sense(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        Cache(**given)
    assert "\n" not in str(error.value)


def test_traffic_is_a_value() -> None:
    a = Traffic(accesses=3, misses=2, loads=2, write_backs=1)
    assert eval(repr(a)) == a
    assert a + Traffic(flush=4) == Traffic(accesses=3, misses=2, loads=2, write_backs=1, flush=4)
    assert (a + Traffic(flush=4)).words == 7
    with pytest.raises(TypeError):
        a + 1  # type: ignore[operator]
    cache = Cache(capacity=64, line_words=4, ways=2)
    assert eval(repr(cache)) == cache


def lying(said: int, addresses: int = 8, first: int = 0) -> Stream:
    def chunks() -> Iterator[Accesses]:
        yield Accesses(np.arange(first, first + 6), np.zeros(6, bool))
        yield Accesses(np.arange(0), np.zeros(0, bool))

    return Stream(chunks, addresses, said)


@pytest.mark.parametrize("policy", ["lru", "opt"])
@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (lying(5), "a stream of 5 accesses goes on after them"),
        (lying(7), "a stream of 7 accesses ends after 6"),
        (lying(6, 5), "address 5 in a stream of 5 addresses"),
        (lying(6, 8, -3), "address -1 in a stream of 8 addresses"),
    ],
)
def test_streams_that_are_not_what_they_say(policy: str, stream: Stream, message: str) -> None:
    with pytest.raises(InputError, match=message):
        replay(stream, Cache(capacity=4, policy=policy))


def test_a_stream_too_long_to_look_ahead_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chunks() -> Iterator[Accesses]:
        raise AssertionError("not to be made")

    stream = Stream(chunks, 10, 10**10)
    monkeypatch.setattr(memory, "free_bytes", lambda: 16 * 10**9)
    with pytest.raises(InputError) as error:
        replay(stream, Cache(capacity=4, policy="opt"))
    assert str(error.value) == (
        "opt needs the next use of each of 10000000000 accesses, 85.0 GB, and 16.0 GB of memory "
        "are free: replay fewer accesses, or another policy"
    )


def test_free_memory_is_known_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    found = memory.free_bytes()
    assert found is None or 2**20 < found < 2**50
    monkeypatch.setattr(memory.Path, "read_text", lambda _: "MemAvailable:  12 kB\n")
    assert memory.free_bytes() == 12 * 1024
    monkeypatch.setattr(memory.Path, "read_text", lambda _: "")
    assert memory.free_bytes() != 12 * 1024
    monkeypatch.setattr(memory.os, "sysconf", lambda _: int("unknown"))
    assert memory.free_bytes() is None


@pytest.mark.parametrize("policy", ["lru", "plru", "opt"])
def test_addresses_that_are_spread_out_too_far_are_refused(policy: str) -> None:
    stream = Stream(lambda: iter(()), 2**50, 0)
    with pytest.raises(InputError, match=r"1125899906842624 lines.* GB of memory are free: give"):
        replay(stream, Cache(capacity=4, policy=policy))


def test_more_lines_than_32_bits_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda: None)
    with pytest.raises(InputError, match="4294967296 lines: a replay takes fewer than 2³²"):
        replay(Stream(lambda: iter(()), 2**32, 0), Cache(capacity=4))


def test_compiled_is_asked_for_where_there_is_no_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.compiled.cache_clear()
    monkeypatch.setattr(compiled, "available", lambda: False)
    with pytest.raises(InputError, match=r"need numba: .*pip install .*cache.*or leave out fast"):
        replay(as_stream(trace(0)), Cache(capacity=4), fast=True)


def test_memory_does_not_grow_with_the_stream() -> None:
    """LRU over 2²² accesses, in as many bytes as over 2¹⁷.

    What it knows of 500,000 lines is much more than the small tuples that Python keeps for later
    calls, up to 100 kB, and a byte for each access would be as much again.
    """
    chunk = Accesses(np.arange(2**16) % 5000, np.zeros(2**16, bool))

    def peak(chunks: int) -> int:
        stream = Stream(lambda: (chunk for _ in range(chunks)), 500_000, chunks * 2**16)
        tracemalloc.start()
        try:
            replay(stream, Cache(capacity=64), fast=True)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)
    short, long = peak(2), peak(64)
    assert long < 1.1 * short


def units(unit: Unit, unit_words: tuple[int, ...], line_words: int) -> Stream:
    accesses = trace(0)
    regions = tuple(Region(f"T{k}", 20 * k, 20 * u, unit_words=u) for k, u in enumerate(unit_words))
    return dataclasses.replace(
        as_stream(accesses), unit=unit, regions=regions, line_words=line_words
    )


def test_lines_of_a_stream_of_rows_or_lines() -> None:
    words = replay(as_stream(trace(0)), Cache(capacity=8))
    rows = replay(units("rows", (4, 4), 1), Cache(capacity=32, line_words=4))
    assert rows.misses == words.misses
    assert rows == dataclasses.replace(
        words, loads=4 * words.loads, write_backs=4 * words.write_backs, flush=4 * words.flush
    )
    # Of a line only some words may be written, so it is fetched first.
    lines = replay(units("lines", (4, 4), 4), Cache(capacity=32, line_words=4))
    assert lines == dataclasses.replace(rows, loads=4 * rows.misses)
    with pytest.raises(InputError, match="rows are of 4, 8 words: a cache has lines of one size"):
        replay(units("rows", (4, 8), 1), Cache(capacity=32, line_words=4))
    with pytest.raises(InputError, match="lines are of 4 words, the cache's lines of 6: give"):
        replay(units("lines", (4, 4), 4), Cache(capacity=36, line_words=6))


def test_an_empty_stream_moves_nothing() -> None:
    for policy in POLICIES:
        assert replay(as_stream([]), Cache(capacity=4, policy=policy)) == Traffic()


def test_a_policy_in_ten_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most recently used: what is written here is all that a new policy takes."""
    monkeypatch.setitem(
        POLICIES,
        "mru",
        Policy(
            name="mru",
            rule="the line that was touched last",
            start=ring.start,
            hit=POLICIES["lru"].hit,
            enter=ring.push,
            evict=_newest,
        ),
    )
    for seed in range(3):
        stream, cache = as_stream(trace(seed)), Cache(capacity=12, policy="mru")
        assert replay(stream, cache, fast=True) == replay(stream, cache, fast=False)
    ring_of = [(a % 5, False) for a in range(400)]  # LRU finds nothing here
    assert replay(as_stream(ring_of), Cache(capacity=4, policy="mru")).misses < 110


def _newest(state: State, s: int) -> int:
    line: int = state[1][s]
    drop(state, line)
    return line


def test_what_was_compiled_is_found_again_unless_its_text_changed(tmp_path: Path) -> None:
    """In a new process: from disk, but not where a function of the policy reads differently."""
    code = (
        "import sys; from iosim.cache import *; from iosim.cache import online;"
        "from iosim.base.compiled import compiled;"
        "replay(of_arrays([0, 1, 0]), Cache(capacity=1, policy={policy!r}), fast=True);"
        "p = POLICIES[{policy!r}];"
        "names = dict(hit=p.hit, enter=p.enter, evict=p.evict);"
        "f = compiled(online._loop, set_of=online._single_set, **names, copies=False);"
        "print(sum(f.stats.cache_hits.values()), sum(f.stats.cache_misses.values()))"
    )

    def run(policy: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code.format(policy=policy)],
            capture_output=True,
            text=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            check=True,
        )
        return done.stdout.strip()

    assert [run(policy) for policy in ("lru", "lru", "fifo")] == ["0 1", "1 0", "0 1"]


def test_a_named_tuple_of_another_name_is_compiled_again() -> None:
    """What numba keeps on disk names it, and could not be read."""
    text = [
        FunctionType(compiled.worth.__code__, {"Kind": NamedTuple(name, [("a", int)])})  # type: ignore[misc]
        for name in ("First", "Other", "First")
    ]
    first, other, again = map(compiled._digest, text)
    assert first == again != other


SOME = of_arrays([0, 1, 0])


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: replay([0, 1], Cache(capacity=4)), "list is not a stream of accesses: make one"),
        (lambda: replay(SOME, 512), "512 is not a cache: give one like Cache(capacity=4096"),
        (lambda: replay_many(SOME, [512]), "512 is not a cache"),
        (lambda: curve([0]), "list is not a stream"),
        (lambda: sampled("x", [4], rate=0.5), "str is not a stream"),
        (lambda: write_trace([0], "x.csv"), "list is not a stream"),
        (lambda: of_arrays([0, 1], ["r", "w"]), "marks like np.str_('r'): give True or 1"),
        (lambda: of_arrays([0, 1], [0, 2]), "marks like"),
        (lambda: of_arrays([2**63]), "address 9223372036854775808 is too large"),
        (lambda: shared.interleaved(SOME, shared.lockstep(1)), "one stream is nothing to"),
        (lambda: shared.interleaved([3], shared.lockstep(1)), "int is not a stream"),
        (lambda: partitioned.replay_parts(SOME, Cache(capacity=2)), "doesn't say whose"),
        (lambda: tiles.passes("x"), "passes of str: bind() a program first"),
        (lambda: closed.loads([], 0), "capacity = 0 is outside"),
    ],
)
def test_what_is_no_stream_or_cache_is_refused_in_one_line(act: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        act()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
