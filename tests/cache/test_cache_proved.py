"""What is proved of caches holds of the replays, on random streams of reads and writes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from test_cache_replay import Trace, as_stream, caches, trace

from iosim.cache import POLICIES, Cache, replay_many
from iosim.cache.curves import STACKS
from iosim.cache.policies.base import Shape

pytestmark = pytest.mark.numbers

SEEDS = range(10)


def loads(accesses: Trace, given: list[Cache]) -> list[int]:
    return [found.loads for found in replay_many(as_stream(accesses), given, fast=False)]


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "opt"])
def test_opt_loads_no_more_than_any_policy(policy: str) -> None:
    """Of the same words, lines and writing; sets only take choices away."""
    given = caches(policy)
    best = [dataclasses.replace(cache, policy="opt", ways=None) for cache in given]
    free = [dataclasses.replace(cache, bypass=True) for cache in best]
    less = 0
    for seed in SEEDS:
        accesses = trace(seed)
        rows = zip(*(loads(accesses, x) for x in (free, best, given)), strict=True)
        for cache, (passing, fewest, found) in zip(given, rows, strict=True):
            assert passing <= fewest <= found, (seed, cache)
            less += fewest < found
    assert less > 50


@pytest.mark.parametrize("line_words", [1, 4])
def test_a_line_more_is_worth_no_less_than_passing_by(line_words: int) -> None:
    """With C + 1 lines and none passing by, OPT loads at most what it does with C and bypass."""
    for seed in SEEDS:
        accesses = trace(seed)
        sizes = [line_words * lines for lines in (1, 2, 3, 5, 9)]
        passing = [
            Cache(capacity=c, line_words=line_words, policy="opt", bypass=True) for c in sizes
        ]
        more = [Cache(capacity=c + line_words, line_words=line_words, policy="opt") for c in sizes]
        for a, b in zip(loads(accesses, more), loads(accesses, passing), strict=True):
            assert a <= b


@pytest.mark.parametrize("policy", ["lru", "opt"])
@pytest.mark.parametrize("line_words", [1, 4])
def test_a_larger_cache_misses_no_more(policy: str, line_words: int) -> None:
    """Inclusion (Mattson et al. 1970).  First in, first out lacks it (Belady et al. 1969)."""
    given = [
        Cache(capacity=line_words * k, line_words=line_words, policy=policy) for k in range(1, 30)
    ]
    for seed in SEEDS:
        found = loads(trace(seed), given)
        assert found == sorted(found, reverse=True)
        assert len(set(found)) > 5


def test_lru_finds_what_a_smaller_lru_finds() -> None:
    """Access by access: what each one costs is read off prefixes of the stream."""
    accesses = trace(3, length=120)
    given = [Cache(capacity=k) for k in (1, 2, 4, 8, 16)]
    before = [0] * len(given)
    for stop in range(1, len(accesses) + 1):
        now = [t.misses for t in replay_many(as_stream(accesses[:stop]), given, fast=False)]
        missed = [n - b for n, b in zip(now, before, strict=True)]
        assert missed == sorted(missed, reverse=True)
        before = now


def test_beladys_anomaly() -> None:
    """The stream of Belady, Nelson and Shedler 1969: FIFO with 4 places misses more than with 3."""
    accesses = [(a, False) for a in (1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5)]
    given = [Cache(capacity=c, policy="fifo") for c in (3, 4)]
    assert loads(accesses, given) == [9, 10]


@pytest.mark.parametrize("policy", ["lru", "fifo", "clock"])
def test_twice_the_lines_make_up_for_the_future(policy: str) -> None:
    """With k lines they miss at most k / (k − h + 1) times OPT's with h lines, plus h.

    Sleator and Tarjan 1985 for LRU and FIFO; CLOCK as well.  Every miss costs alike: lines of
    several words.
    """
    near = 0.0
    for seed in range(40):
        accesses = trace(seed, addresses=120, length=600)
        for h in (1, 2, 4, 8):
            for k in (h, 2 * h):
                found, best = replay_many(
                    as_stream(accesses),
                    [
                        Cache(capacity=4 * k, line_words=4, policy=policy),
                        Cache(capacity=4 * h, line_words=4, policy="opt"),
                    ],
                    fast=False,
                )
                most = k / (k - h + 1) * best.misses + h
                assert found.misses <= most
                near = max(near, found.misses / most)
    assert near > 0.5  # it says something


def test_the_bound_of_sleator_and_tarjan_is_reached() -> None:
    """Their adversary: k + 1 lines in turn, of which LRU with k always misses the next."""
    accesses = [(a % 5, False) for a in range(400)]
    found, best = loads(accesses, [Cache(capacity=4), Cache(capacity=4, policy="opt")])
    assert found == 400
    assert 4 * best + 4 >= found > 3.9 * (best - 4)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_written_arrives(policy: str) -> None:
    """Each word written reaches slow memory once or more often, and no more often than written."""
    for seed in SEEDS:
        accesses = trace(seed)
        writes = sum(w for _, w in accesses)
        for cache, found in zip(
            caches(policy), replay_many(as_stream(accesses), caches(policy)), strict=True
        ):
            arrived = found.write_backs + found.flush
            if cache.write == "through":
                assert (arrived, found.flush) == (writes, 0)
                continue
            lines = {a // cache.line_words for a, w in accesses if w}
            assert len(lines) * cache.line_words <= arrived <= writes * cache.line_words
            assert found.flush <= cache.capacity
            # A line that is fetched is fetched whole, and what is evicted came in.
            assert found.loads % cache.line_words == 0
            assert found.misses >= len({a // cache.line_words for a, _ in accesses})


@pytest.mark.parametrize("policy", POLICIES)
def test_a_cache_of_everything_loads_each_line_once(policy: str) -> None:
    accesses = trace(1)
    first = dict(reversed([(a, w) for a, w in accesses]))
    [found] = replay_many(as_stream(accesses), [Cache(capacity=64, policy=policy)])
    assert found.misses == len(first)
    assert found.loads == sum(not w for w in first.values())
    assert found.write_backs == 0
    assert found.flush == len({a for a, w in accesses if w})


@pytest.mark.parametrize("line_words", [1, 4])
@pytest.mark.parametrize(("name", "bypass"), [("lru", False), ("opt", False), ("opt-bypass", True)])
def test_every_capacity_in_one_pass_is_each_replayed(
    name: str, bypass: bool, line_words: int
) -> None:
    """Two pieces of code that share nothing: a histogram of distances, and a cache."""
    policy = name.split("-")[0]
    given = [
        Cache(capacity=line_words * k, line_words=line_words, policy=policy, bypass=bypass)
        for k in range(1, 25)
    ]
    for seed in SEEDS:
        stream = as_stream(trace(seed))
        curve = STACKS[name](stream, line_words)
        for cache, found in zip(given, replay_many(stream, given, fast=False), strict=True):
            step = curve.step(cache.capacity)
            assert curve.loads[step] == found.loads
            if curve.write_backs is not None and curve.flush is not None:
                assert curve.write_backs[step] == found.write_backs
                assert curve.flush[step] == found.flush
                assert curve.misses[step] == found.misses


def test_the_seed_decides_and_nothing_else() -> None:
    stream = as_stream(trace(5))
    given = [Cache(capacity=16, policy="random", seed=seed) for seed in (0, 0, 1, -7)]
    a, b, *others = replay_many(stream, given)
    assert a == b
    assert len({x.misses for x in (a, *others)}) > 1


def test_random_takes_every_way_about_as_often() -> None:
    """Of 64,000 draws from 64 ways; with 63 degrees of freedom, 120 is exceeded once in 10⁵."""
    random = POLICIES["random"]
    state = random.start(Shape(1, 64, 64, seed=0))
    state[1][:] = np.arange(64)  # way w holds line w
    counts = np.bincount([random.evict(state, 0) for _ in range(64_000)], minlength=64)
    assert 20 < ((counts - 1000) ** 2 / 1000).sum() < 120
