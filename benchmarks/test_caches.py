"""Replays beside those of libcachesim and pycachesim: the same results, and how soon.

``pip install -e '.[test,cache,peers]'``, then ``pytest benchmarks/test_caches.py -s``.  The peers
are copyleft: an extra of this benchmark, and no dependency of anything else.

Times are CPU seconds of one thread.  Machines are shared and noisy, so the sides take turns and
each one's best counts.  At the end stands which thresholds hold (`thresholds.py`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pytest
import thresholds

from iosim.base.compiled import COMPILED, available
from iosim.cache import Accesses, Cache, Stream, curve, of_arrays, replay, replay_many
from iosim.cache.belady import NextUses, opt
from iosim.cache.files import write_trace
from iosim.cache.lines import of as lines_of

libcachesim = pytest.importorskip("libcachesim", reason="pip install -e '.[peers]'")
cachesim = pytest.importorskip("cachesim", reason="pip install -e '.[peers]'")

N, TILE, CAPACITY = thresholds.size((256, 32, 4096), (32, 8, 64))
CHUNKS = thresholds.size(128, 16)
TURNS = 5
PEERS = {"lru": "LRU", "fifo": "FIFO", "clock": "Clock", "sieve": "Sieve", "opt": "Belady"}
# Seconds, and what was found in them.
Timed: TypeAlias = tuple[float, int]


def oracle(stream: Stream, path: Path) -> Path:
    """A file that libcachesim reads, with each access's next one."""
    write_trace(stream, path, form="oracleGeneral")
    return path


def theirs(path: Path, policy: str, capacity: int, length: int) -> Timed:
    """libcachesim's seconds, and its misses in so many accesses."""
    reader = libcachesim.TraceReader(str(path), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    cache = getattr(libcachesim, PEERS[policy])(cache_size=capacity)
    start = time.process_time()
    ratio, _ = cache.process_trace(reader)
    return time.process_time() - start, round(ratio * length)


def product() -> Iterator[Any]:
    """A blocked product of N × N matrices, three accesses an inner step, chunk by chunk."""
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
    parts = [np.concatenate(x) for x in np.split(np.array(list(product())), CHUNKS)]
    reads = np.zeros(parts[0].size, bool)
    return Stream(
        lambda: (Accesses(part, reads) for part in parts),
        addresses=3 * N * N,
        length=3 * N**3,
    )


@pytest.fixture(scope="module")
def traced(matmul: Stream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = oracle(matmul, tmp_path_factory.mktemp("peers") / "product.oracle")
    yield path
    path.unlink()  # 1.2 GB


def scattered(seed: int, length: int = 3000) -> Any:
    draw = np.random.default_rng(seed)
    return np.where(
        draw.random(length) < 0.5, draw.integers(0, 20, length), draw.integers(0, 150, length)
    )


@pytest.mark.parametrize("policy", PEERS)
def test_misses_are_libcachesims(policy: str, tmp_path: Path) -> None:
    for seed in range(8):
        stream = of_arrays(scattered(seed))
        path = oracle(stream, tmp_path / f"{seed}.oracle")
        caches = [Cache(capacity=c, policy=policy) for c in (1, 2, 7, 16, 64, 149)]
        for cache, found in zip(caches, replay_many(stream, caches), strict=True):
            _, missed = theirs(path, policy, cache.capacity, stream.length)
            assert found.misses == missed, (seed, cache)


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


def timed(run: Callable[[], int]) -> Callable[[], Timed]:
    """The same, and how many seconds it takes."""

    def side() -> Timed:
        start = time.process_time()
        found = run()
        return time.process_time() - start, found

    return side


def race(
    benchmark: Any,
    what: str,
    count: int,
    sides: dict[str, Callable[[], Timed]],
    found: int | None,
    threshold: float | None = None,
) -> None:
    """Two sides in turns, each one's least seconds for so many accesses; all find the same,
    `found` where that is given.

    The first should be `threshold` times as fast.
    """
    runs = [[side() for side in sides.values()] for _ in range(thresholds.rounds(1 + TURNS))]
    each = {each for turn in runs for _, each in turn}
    assert each == {found} if found is not None else len(each) == 1
    # The first turn compiles, and reads the file for the first time.
    best = [min(seconds for seconds, _ in column) for column in zip(*runs[-TURNS:], strict=True)]
    speeds = {side: count / 1e6 / taken for side, taken in zip(sides, best, strict=True)}
    ours, peer = speeds.values()
    if threshold is not None:
        thresholds.at_least(f"{what}: {' / '.join(sides)}", ours / peer, threshold, "times")
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info |= {f"{side}, M accesses/s": speed for side, speed in speeds.items()}
    told = ", ".join(f"{side} {speed:.1f}" for side, speed in speeds.items())
    print(f"\n{what}: M accesses/s: {told}: {ours / peer:.3g} times")


@pytest.fixture(scope="module")
def part(matmul: Stream) -> Stream:
    """A sixteenth of the trace."""
    address = [chunk.address for chunk, _ in zip(matmul.chunks(), range(8), strict=False)]
    return of_arrays(np.concatenate(address), addresses=matmul.addresses)


# Of the full size; at a tiny one the sides have to agree.
LRU_MISSES, OPT_MISSES, EIGHT_MISSES = thresholds.size(
    (1_530_752, 990_984, 59_464_576), (None,) * 3
)


@pytest.mark.skipif(not available(), reason="numba is not installed: pip install -e '.[cache]'")
class TestSpeed:
    def test_lru_target_5_times(self, benchmark: Any, matmul: Stream, traced: Path) -> None:
        race(
            benchmark,
            "LRU",
            matmul.length,
            {
                "iosim": timed(lambda: replay(matmul, Cache(capacity=CAPACITY)).misses),
                "libcachesim": lambda: theirs(traced, "lru", CAPACITY, matmul.length),
            },
            LRU_MISSES,
            threshold=5,
        )

    def test_belady_target_5_times(self, benchmark: Any, matmul: Stream, traced: Path) -> None:
        """The next use is at hand on both sides."""
        cache = Cache(capacity=CAPACITY, policy="opt")
        lines = lines_of(matmul, cache)
        uses = NextUses(matmul, lines, False, COMPILED)
        start = time.process_time()
        for chunk in matmul.chunks():
            uses.feed(chunk._replace(address=chunk.address.view(np.uint64)))
        print(f"\nnext uses: {matmul.length / 1e6 / (time.process_time() - start):.1f} M a second")
        race(
            benchmark,
            "Belady",
            matmul.length,
            {
                "iosim": timed(lambda: opt(cache, lines, uses).misses),
                "libcachesim": lambda: theirs(traced, "opt", CAPACITY, matmul.length),
            },
            OPT_MISSES,
            threshold=5,
        )

    def test_eight_capacities_in_one_pass(self, benchmark: Any, matmul: Stream) -> None:
        caches = [Cache(capacity=2**k) for k in range(8, 16)]
        race(
            benchmark,
            "LRU at 8 capacities",
            len(caches) * matmul.length,
            {
                "one pass": timed(lambda: sum(x.misses for x in replay_many(matmul, caches))),
                "8 passes": timed(lambda: sum(replay(matmul, cache).misses for cache in caches)),
            },
            EIGHT_MISSES,
        )

    def test_lru_at_all_capacities_target_once(
        self, benchmark: Any, matmul: Stream, traced: Path
    ) -> None:
        """A pass that gives every capacity beside a peer's that gives one."""

        def every() -> int:
            found = curve(matmul)
            return int(found.misses[found.step(CAPACITY)])

        race(
            benchmark,
            "LRU",
            matmul.length,
            {
                "iosim, all capacities": timed(every),
                "libcachesim, one": lambda: theirs(traced, "lru", CAPACITY, matmul.length),
            },
            LRU_MISSES,
            threshold=1,
        )

    def test_opt_at_all_capacities(self, benchmark: Any, part: Stream) -> None:
        """Beside OPT at one capacity, next uses included."""
        one = Cache(capacity=CAPACITY, policy="opt")
        race(
            benchmark,
            "OPT",
            part.length,
            {
                "all capacities": timed(lambda: curve(part, "opt").loads_at(CAPACITY)),
                "one": timed(lambda: replay(part, one).loads),
            },
            replay(part, one).loads,
        )

    def test_pycachesim(self, benchmark: Any, part: Stream) -> None:
        """Fully associative, as much as it can take at once."""
        cache = Cache(capacity=CAPACITY)
        given = next(part.chunks()).address[: 2**19]
        some = of_arrays(given, addresses=part.addresses)

        def peer() -> Timed:
            memory = cachesim.MainMemory()
            peer = cachesim.Cache("L1", 1, CAPACITY, 1, "LRU")
            memory.load_to(peer)
            memory.store_from(peer)
            simulator = cachesim.CacheSimulator(peer, memory)
            numbers = given.tolist()
            start = time.process_time()
            simulator.load(numbers)
            return time.process_time() - start, peer.stats()["MISS_count"]

        race(
            benchmark,
            "LRU",
            some.length,
            {"iosim": timed(lambda: replay(some, cache).misses), "pycachesim": peer},
            replay(some, cache).misses,
        )
