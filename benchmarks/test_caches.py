"""Replays beside those of libcachesim and pycachesim: the same results, and how soon.

``pip install -e '.[test,cache,peers]'``, then ``pytest benchmarks/test_caches.py -s``.  The peers
are copyleft: an extra of this benchmark, and no dependency of anything else.

Times are CPU seconds of one thread.  Machines are shared and noisy, so the sides take turns and
each one's best counts; nothing here is a test of time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from iosim.cache import Accesses, Cache, Stream, curve, of_arrays, replay, replay_many
from iosim.cache.belady import NextUses, opt
from iosim.cache.compiled import COMPILED, available
from iosim.cache.lines import of as lines_of

libcachesim = pytest.importorskip("libcachesim", reason="the extra peers is not installed")
cachesim = pytest.importorskip("cachesim", reason="the extra peers is not installed")

N, TILE, CAPACITY = 256, 32, 4096
TURNS = 5
PEERS = {"lru": "LRU", "fifo": "FIFO", "clock": "Clock", "sieve": "Sieve", "opt": "Belady"}
# A record of libCacheSim's format oracleGeneral.
ORACLE = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def oracle(address: Any, path: Path) -> Path:
    """A file that libcachesim reads, with each access's next one."""
    following = np.full(address.size, -1, np.int64)
    order = np.argsort(address, kind="stable")
    same = address[order][1:] == address[order][:-1]
    following[order[:-1][same]] = order[1:][same]
    records = np.zeros(address.size, ORACLE)
    records["id"], records["size"], records["next"] = address, 1, following
    records["time"] = np.arange(address.size)
    records.tofile(path)
    return path


def theirs(path: Path, policy: str, capacity: int) -> tuple[float, float]:
    """The misses by libcachesim, and its seconds."""
    reader = libcachesim.TraceReader(str(path), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    cache = getattr(libcachesim, PEERS[policy])(cache_size=capacity)
    start = time.process_time()
    ratio, _ = cache.process_trace(reader)
    return ratio, time.process_time() - start


def product() -> Iterator[Any]:
    """A blocked product of 256 × 256 matrices, three accesses an inner step, chunk by chunk."""
    i, j, k = np.meshgrid(*[np.arange(TILE)] * 3, indexing="ij")
    for first in range(0, N, TILE):
        for second in range(0, N, TILE):
            for third in range(0, N, TILE):
                a = (first + i) * N + third + k
                b = N * N + (third + k) * N + second + j
                c = 2 * N * N + (first + i) * N + second + j
                yield np.stack([a, b, c], axis=-1).reshape(-1)


@pytest.fixture(scope="module")
def matmul() -> Stream:
    parts = [np.concatenate(x) for x in np.split(np.array(list(product())), 128)]
    reads = np.zeros(parts[0].size, bool)
    return Stream(
        lambda: (Accesses(part, reads) for part in parts),
        addresses=3 * N * N,
        length=3 * N**3,
    )


@pytest.fixture(scope="module")
def traced(matmul: Stream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("peers") / "product.oracle"
    yield oracle(np.concatenate([chunk.address for chunk in matmul.chunks()]), path)
    path.unlink()  # 1.2 GB


def scattered(seed: int, length: int = 3000) -> Any:
    draw = np.random.default_rng(seed)
    return np.where(draw.random(length) < 0.5, draw.integers(0, 20, length),
                    draw.integers(0, 150, length))  # fmt: skip


@pytest.mark.parametrize("policy", PEERS)
def test_misses_are_libcachesims(policy: str, tmp_path: Path) -> None:
    for seed in range(8):
        address = scattered(seed)
        path = oracle(address, tmp_path / f"{seed}.oracle")
        capacities = (1, 2, 7, 16, 64, 149)
        caches = [Cache(capacity=c, policy=policy) for c in capacities]
        for cache, found in zip(caches, replay_many(of_arrays(address), caches), strict=True):
            ratio, _ = theirs(path, policy, cache.capacity)
            assert found.misses == round(ratio * address.size), (seed, cache)


@pytest.mark.parametrize("policy", ["lru", "fifo"])
@pytest.mark.parametrize("write", ["back", "through"])
def test_traffic_is_pycachesims(policy: str, write: Literal["back", "through"]) -> None:
    """Lines of 4 words, whose writes fetch there as here; its byte is our word.

    Its LRU doesn't take note of a store to a line that is there, so here a load of the same word
    comes before each store.
    """
    for seed, ways in enumerate((1, 2, 4, 16)):
        draw = random.Random(seed)
        accesses: list[tuple[int, bool]] = []
        for address in scattered(seed).tolist():
            writes = draw.random() < 0.3
            if writes and policy == "lru":
                accesses.append((address, False))
            accesses.append((address, writes))
        cache = Cache(capacity=64, line_words=4, ways=ways, policy=policy, write=write)
        found = replay(of_arrays([a for a, _ in accesses], [w for _, w in accesses]), cache)
        memory, back = cachesim.MainMemory(), write == "back"
        peer = cachesim.Cache(
            "L1", cache.sets, ways, 4, policy.upper(), write_back=back, write_allocate=back
        )
        memory.load_to(peer)
        memory.store_from(peer)
        simulator = cachesim.CacheSimulator(peer, memory)
        for address, writes in accesses:
            (simulator.store if writes else simulator.load)(address)
        before = peer.stats()
        simulator.force_write_back()
        after = peer.stats()
        assert found.loads == 4 * before["MISS_count"]
        assert found.write_backs == (before["EVICT_byte"] if back else before["STORE_count"])
        assert found.flush == after["EVICT_byte"] - before["EVICT_byte"]


def best(*sides: Callable[[], float]) -> list[float]:
    """Each side's least seconds, in turns."""
    for side in sides:
        side()  # compiles, and reads the file for the first time
    taken = [[side() for side in sides] for _ in range(TURNS)]
    return [min(column) for column in zip(*taken, strict=True)]


def report(benchmark: Any, what: str, count: int, seconds: dict[str, float]) -> None:
    speeds = {side: count / 1e6 / taken for side, taken in seconds.items()}
    ours, peer = speeds.values()
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info |= {f"{side}, M accesses/s": speed for side, speed in speeds.items()}
    sides = ", ".join(f"{side} {speed:.1f}" for side, speed in speeds.items())
    print(f"\n{what}: M accesses/s: {sides}: {ours / peer:.1f} times")


@pytest.mark.skipif(not available(), reason="numba is not installed")
class TestSpeed:
    def test_lru_target_5_times(self, benchmark: Any, matmul: Stream, traced: Path) -> None:
        missed: list[float] = []

        def ours() -> float:
            start = time.process_time()
            missed.append(replay(matmul, Cache(capacity=CAPACITY)).misses)
            return time.process_time() - start

        def peer() -> float:
            ratio, seconds = theirs(traced, "lru", CAPACITY)
            missed.append(round(ratio * matmul.length))
            return seconds

        mine, its = best(ours, peer)
        assert set(missed) == {1_530_752}
        report(benchmark, "LRU", matmul.length, {"iosim": mine, "libcachesim": its})

    def test_belady_target_5_times(self, benchmark: Any, matmul: Stream, traced: Path) -> None:
        """The next use is at hand on both sides."""
        cache = Cache(capacity=CAPACITY, policy="opt")
        lines = lines_of(matmul, cache)
        uses = NextUses(matmul, lines, False, COMPILED)
        start = time.process_time()
        for chunk in matmul.chunks():
            uses.feed(chunk.address.view(np.uint64), chunk.write, chunk.address.size)
        print(f"\nnext uses: {matmul.length / 1e6 / (time.process_time() - start):.1f} M a second")
        missed: list[float] = []

        def ours() -> float:
            start = time.process_time()
            missed.append(opt(cache, lines, uses).misses)
            return time.process_time() - start

        def peer() -> float:
            ratio, seconds = theirs(traced, "opt", CAPACITY)
            missed.append(round(ratio * matmul.length))
            return seconds

        mine, its = best(ours, peer)
        assert set(missed) == {990_984}
        report(benchmark, "Belady", matmul.length, {"iosim": mine, "libcachesim": its})

    def test_eight_capacities_in_one_pass(self, benchmark: Any, matmul: Stream) -> None:
        caches = [Cache(capacity=2**k) for k in range(8, 16)]

        def together() -> float:
            start = time.process_time()
            replay_many(matmul, caches)
            return time.process_time() - start

        def apart() -> float:
            start = time.process_time()
            for cache in caches:
                replay(matmul, cache)
            return time.process_time() - start

        one, each = best(together, apart)
        count = len(caches) * matmul.length
        report(benchmark, "LRU at 8 capacities", count, {"one pass": one, "8 passes": each})

    def test_lru_at_all_capacities_target_once(
        self, benchmark: Any, matmul: Stream, traced: Path
    ) -> None:
        """A pass that gives every capacity beside a peer's that gives one."""
        missed: list[float] = []

        def ours() -> float:
            start = time.process_time()
            found = curve(matmul)
            seconds = time.process_time() - start
            missed.append(int(found.misses[found.step(CAPACITY)]))
            return seconds

        def peer() -> float:
            ratio, seconds = theirs(traced, "lru", CAPACITY)
            missed.append(round(ratio * matmul.length))
            return seconds

        mine, its = best(ours, peer)
        assert set(missed) == {1_530_752}
        sides = {"iosim, all capacities": mine, "libcachesim, one": its}
        report(benchmark, "LRU", matmul.length, sides)

    def test_opt_at_all_capacities(self, benchmark: Any, matmul: Stream) -> None:
        """A sixteenth of the trace, beside OPT at one capacity, next uses included."""
        address = np.concatenate(
            [c.address for c, _ in zip(matmul.chunks(), range(8), strict=False)]
        )
        stream = of_arrays(address, addresses=matmul.addresses)
        loads: list[int] = []

        def every() -> float:
            start = time.process_time()
            loads.append(curve(stream, "opt").loads_at(CAPACITY))
            return time.process_time() - start

        def one() -> float:
            start = time.process_time()
            loads.append(replay(stream, Cache(capacity=CAPACITY, policy="opt")).loads)
            return time.process_time() - start

        mine, its = best(every, one)
        assert len(set(loads)) == 1
        report(benchmark, "OPT", stream.length, {"all capacities": mine, "one": its})

    def test_pycachesim(self, benchmark: Any, matmul: Stream) -> None:
        """A sixteenth of the trace, fully associative, as much as it can take at once."""
        address = np.concatenate(
            [c.address for c, _ in zip(matmul.chunks(), range(8), strict=False)]
        )
        stream = of_arrays(address, addresses=matmul.addresses)

        def ours() -> float:
            start = time.process_time()
            replay(stream, Cache(capacity=CAPACITY))
            return time.process_time() - start

        def peer() -> float:
            memory = cachesim.MainMemory()
            cache = cachesim.Cache("L1", 1, CAPACITY, 1, "LRU")
            memory.load_to(cache)
            memory.store_from(cache)
            simulator = cachesim.CacheSimulator(cache, memory)
            given = address[: 2**19].tolist()
            start = time.process_time()
            simulator.load(given)
            return (time.process_time() - start) * address.size / len(given)

        mine, its = best(ours, peer)
        report(benchmark, "LRU", address.size, {"iosim": mine, "pycachesim": its})
