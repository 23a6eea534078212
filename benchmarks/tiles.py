"""How long the tile search takes: ``python benchmarks/tiles.py``.

For every schedule, dense, causal and with a window, at several N and M: milliseconds of the
processor for the slowest M alone, and microseconds for each of many points in arrays.  Without
options it is small; ``--all`` takes every N up to 2**30, and ``--only`` some schedules.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import problems
import thresholds

import iosim
from iosim.core.tiling import optimal_tiles_many

# Thresholds: milliseconds of a search alone, and microseconds for each of many points.
ALONE, DENSE, MASKED = 30, 50, 1000
MASKS: dict[str, dict[str, Any]] = {
    "dense": {},
    "causal": {"causal": True},
    "window": {"window": (512, 0)},
}
FEW, LENGTHS = thresholds.size((2**12, 2**18), (2**12,)), (2**12, 2**18, 2**22, 2**30)
MEMORY = thresholds.size((1024, 24_576, 2**20), (24_576,))


def cases(N: int) -> Iterator[tuple[str, str, Any, Any]]:
    """Schedules with each of the masks that they support: their programs and problems."""
    for algorithm in problems.SEARCHED:
        for mask, options in MASKS.items():
            problem = problems.problem_for(algorithm, N, 64, 8, **options)
            if problem is not None:
                yield algorithm.name, mask, algorithm.program_for(problem), problem


def cpu_seconds(run: Callable[[], Any], most: float) -> float:
    """Of the quickest of three runs; one run only where it takes more than `most`."""
    took: list[float] = []
    while len(took) < thresholds.rounds(3) and sum(took) < most:
        start = time.process_time()
        run()
        took.append(time.process_time() - start)
    return min(took)


def alone(program: Any, problem: Any) -> float:
    """Seconds of the slowest search at one point."""
    slowest = 0.0
    for M in MEMORY:
        M = max(M, iosim.smallest_capacity(program, problem))

        def search(M: int = M) -> Any:
            return iosim.optimal_tiles(program, problem, M)

        slowest = max(slowest, cpu_seconds(search, 0.5))
    return slowest


def each(program: Any, problem: Any, points: int) -> float:
    """Seconds for each of many points: N down to a half, d 64 and 128, M up to 2**20."""
    rng, columns = np.random.default_rng(0), dict(problem.sizes)
    for axis in {"N", "N_k", "m", "n"}.intersection(columns):
        columns[axis] = rng.integers(max(columns[axis] // 2, 1), columns[axis] + 1, points)
    M = np.exp(rng.uniform(np.log(1024), np.log(2**20), points)).astype(np.int64)
    return cpu_seconds(lambda: optimal_tiles_many(program, columns, M), 2) / points


def main(
    lengths: Sequence[int] = FEW, only: Sequence[str] = (), points: int = thresholds.size(500, 5)
) -> None:
    """Print a table."""
    print(f"{'schedule':18} {'mask':8} {'N':>14} {'ms alone':>10} {'µs each':>10}")
    for N in lengths:
        for name, mask, program, problem in cases(N):
            if only and name not in only:
                continue
            first, many = 1e3 * alone(program, problem), 1e6 * each(program, problem, points)
            thresholds.at_most(f"{name}, {mask}, N {N:,}: alone", first, ALONE, "ms")
            most = DENSE if mask == "dense" else MASKED
            thresholds.at_most(f"{name}, {mask}, N {N:,}: of many", many, most, "µs")
            print(f"{name:18} {mask:8} {N:14,} {first:10.1f} {many:10.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(thresholds.ONLY_PRINT, action="store_true", help=thresholds.HELP)
    parser.add_argument("--all", action="store_true", help="N up to 2**30")
    parser.add_argument("--only", nargs="+", default=[], help="names of schedules")
    parser.add_argument("--points", type=int, default=500, help="in arrays (500)")
    options = parser.parse_args()
    loaded = os.getloadavg()[0]
    main(LENGTHS if options.all else FEW, options.only, options.points)
    text, status = thresholds.report(loaded, options.only_print)
    print(text)
    sys.exit(status)
