"""Speed, side by side in one run: ``pytest benchmarks`` (pytest-benchmark prints the table).

Machines are shared and noisy: no single test fails for its time.  The thresholds that the project
set itself stand in the names, and at the end which of them hold (`thresholds.py`).
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
import problems
import pytest
import thresholds

import iosim
from iosim.core.machine import LANES
from iosim.core.program.block_masks import NUMBERS, masks, number
from iosim.core.program.space import leasts

COLD = {
    "python -c pass": ["-c", "pass"],
    "import numpy": ["-c", "import numpy"],
    "import iosim": ["-c", "import iosim"],
    "iosim --help, target 0.25 s": ["-m", "iosim", "--help"],
    "iosim count, target 0.30 s": [
        "-m",
        "iosim",
        *["count", "flash2", "--N", "1024", "--d", "64", "--M", "24576"],
    ],
}


def cpu_seconds(words: list[str]) -> float:
    """User and system time of a new Python, in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.parametrize("what", COLD)
def test_cold_start(benchmark: Any, what: str) -> None:
    times = [cpu_seconds(COLD[what]) for _ in range(thresholds.rounds(11))]
    benchmark.pedantic(lambda: None, rounds=1)
    benchmark.extra_info |= {"cpu_min_s": min(times), "cpu_median_s": statistics.median(times)}
    if "target" in what:
        name, target = what.split(", target ")
        thresholds.at_most(name, min(times), float(target.removesuffix(" s")), "s")
    print(f"\n{what}: {min(times):.3f} s of CPU at least, {statistics.median(times):.3f} median")


@pytest.mark.parametrize("name", list(iosim.ALGORITHMS))
def test_a_million_points_target_2s(benchmark: Any, name: str) -> None:
    algorithm = iosim.algorithm(name)
    rng, points = np.random.default_rng(0), thresholds.size(10**6, 100)
    tiles = {p.name for p in algorithm.program.params}
    columns = {
        name: rng.integers(1, 300 if name in tiles else 4096, points)
        for name in leasts(algorithm.program)
    }
    for name in masks(algorithm.program):
        # Of 4,096 pairs or more, those in the last row and the last column among all.
        corner, row, column = (rng.integers(0, n, points) for n in (2, 60, 60))
        marked = rng.integers(200, 4096, points)
        of = zip(NUMBERS, (marked, corner + row, corner + column, corner), strict=True)
        columns |= {number(name, which): values for which, values in of}

    def count() -> Any:
        return iosim.count_many(algorithm.program, columns), iosim.peak_many(
            algorithm.program, columns
        )

    counts, peaks = benchmark.pedantic(count, rounds=3)
    thresholds.at_most(f"{name}: a million points", thresholds.least_seconds(benchmark), 2, "s")
    assert all(v.shape == (points,) for v in counts.values())
    assert peaks.shape == (points,)


@pytest.mark.parametrize("M", [2048, 24_576, 10**6, 10**8])
@pytest.mark.parametrize("name", [a.name for a in problems.ATTENTION])
def test_optimal_tiles_target_20ms(benchmark: Any, name: str, M: int) -> None:
    program, problem = problems.program_and_problem(name, 10**6, 128)
    M = max(M, iosim.smallest_capacity(program, problem))
    iosim.optimal_tiles(program, problem, M)  # close the program and list candidates once
    benchmark(lambda: iosim.optimal_tiles(program, problem, M))
    thresholds.at_most(
        f"{name}: tiles at M {M:,}", 1e3 * thresholds.least_seconds(benchmark), 20, "ms"
    )


@pytest.mark.parametrize("name", [a.name for a in problems.ATTENTION])
def test_optimal_tiles_over_all_M_target_20ms_each(benchmark: Any, name: str) -> None:
    """M from the least that works to 2**32 by 1.25; the slowest, best of 3 for each M."""
    program, problem = problems.program_and_problem(name, 10**6, 128)
    sizes = [iosim.smallest_capacity(program, problem)]
    while sizes[-1] < thresholds.size(2**32, 0):
        sizes.append(int(sizes[-1] * 1.25) + 1)

    def slowest() -> float:
        worst = 0.0
        for M in sizes:
            times = []
            for _ in range(thresholds.rounds(3)):
                start = time.perf_counter()
                iosim.optimal_tiles(program, problem, M)
                times.append(time.perf_counter() - start)
            worst = max(worst, min(times))
        return worst

    worst = benchmark.pedantic(slowest, rounds=1)
    thresholds.at_most(f"{name}: tiles at the slowest M", 1e3 * worst, 20, "ms")
    benchmark.extra_info["worst_ms"] = round(1e3 * worst, 2)
    print(f"\n{name}: {len(sizes)} values of M, slowest {1e3 * worst:.1f} ms")


@pytest.mark.parametrize("sizes", ["N 1,024 … 65,536", "N 1,000,000"])
@pytest.mark.parametrize("name", [a.name for a in problems.SEARCHED])
def test_optimal_tiles_of_many_points_target_50us_each(
    benchmark: Any, name: str, sizes: str
) -> None:
    """5,000 points, d 64 and 128, M from 300 to 2**21, or a multiple where more is needed; one
    core.
    """
    lengths = 2 ** np.arange(10, 17) if "…" in sizes else np.array([10**6])
    points = thresholds.size(5_000, 100) // (2 * len(lengths))
    memories = np.geomspace(300, 2**21, points).astype(np.int64)
    N, d, M = (x.ravel() for x in np.meshgrid(lengths, [64, 128], memories, indexing="ij"))
    algorithm = iosim.algorithm(name)
    columns = problems.columns_for(algorithm, N, d)
    largest = problems.problem_for(algorithm, int(lengths[-1]), 128)
    M = M * -(-iosim.smallest_capacity(algorithm.program, largest) // 2**20)
    _, found = benchmark.pedantic(
        lambda: iosim.optimal_tiles_many(algorithm.program, columns, M), rounds=3
    )
    assert found.any()
    each = thresholds.least_seconds(benchmark) / len(M) * 1e6
    thresholds.at_most(f"{name}: tiles of many points, {sizes}", each, 50, "µs")
    benchmark.extra_info["us_each"] = round(each, 1)
    print(f"\n{name}, {sizes}: {each:.1f} µs a point")


@pytest.mark.parametrize("name", [a.name for a in problems.ATTENTION])
def test_simulate_with_numerics_target_3s(benchmark: Any, name: str) -> None:
    program, problem = problems.program_and_problem(name, thresholds.size(2048, 64), 64)
    M = max(24_576, iosim.smallest_capacity(program, problem))
    tiles = iosim.optimal_tiles(program, problem, M).tiles
    instance, hbm = iosim.bind(program, problem.sizes, tiles), problem.random()
    machine = iosim.Machine(M)
    run = benchmark.pedantic(lambda: iosim.simulate(instance, machine, hbm), rounds=2)
    thresholds.at_most(
        f"{name}: simulated with numerics", thresholds.least_seconds(benchmark), 3, "s"
    )
    assert run.counts == iosim.count(instance)


@pytest.mark.parametrize("lanes", [1, LANES], ids=["one by one", "at once"])
@pytest.mark.parametrize("M", [1024, 24_576])
def test_simulate_a_causal_mask(benchmark: Any, M: int, lanes: int) -> None:
    """flash2, N 256, d 64, 8 heads: rows whose inner loops differ in length, as lanes."""
    problem = iosim.Attention(thresholds.size(256, 64), 64, 8, causal=True)
    program = iosim.algorithm("flash2").program_for(problem)
    tiles = iosim.optimal_tiles(program, problem, M).tiles
    instance, hbm = iosim.bind(program, problem.sizes, tiles), problem.random()
    machine = iosim.Machine(M)
    run = benchmark.pedantic(lambda: iosim.simulate(instance, machine, hbm, lanes=lanes), rounds=1)
    assert run.counts == iosim.count(instance)
