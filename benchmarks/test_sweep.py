"""Speed, overhead and memory of sweeps: ``pytest benchmarks/test_sweep.py``.

Machines are shared and noisy: no single test fails for its time.  The thresholds that the project
set itself stand in the names, and at the end which of them hold (`thresholds.py`); what is measured
is printed with the table (``extra_info``).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import problems
import pytest
import thresholds

import iosim
from iosim.core.tiling import optimal_tiles_many, smallest_capacity
from iosim.sweep import Folder, Pool, Sweep, collect, dask, processes, serial

GRID = {"schedule": "flash2", "N": "1024:65536:x2", "d": "64,128", "M": "256:1Mi:x1.2"}
MILLION = GRID | {"tiles": "B_r=1:1024:x1.12,B_c=1:1024:x1.22"}
# 2·10^5 points each: a thousand pairs of sizes, and one large one.
OPTIMAL = {
    "N 1,024 … 65,536": GRID | {"N": "1024:65536:x1.03", "d": "32:256:+32", "M": "512:1Mi:x1.04"},
    "N 1,000,000": GRID | {"N": "1000000", "d": "128", "M": "512:2Mi:x1.00002"},
}
SEARCHED = GRID | {"schedule": "flash2,small_cache", "M": "256:1Mi:x1.001"}
RULE = {
    "schedule": "flash1",
    "N": "1024:65536:x2",
    "d": "64,128",
    "M": "16Ki:87Ki:+1",
    "tiles": "paper",
}

# Sweeps of a second or a few, and who computes them.
ONE = GRID | {"N": "1024:4096:x2", "d": "64"}
RUN = {
    "schedule": "flash2",
    "N": "128:512:x2",
    "d": "32",
    "M": "1Ki:64Ki:x1.08",
    "engine": "simulate",
}
SHORT = {
    "10^5 given tiles": ONE | {"tiles": "B_r=1:1024:x1.12,B_c=1:1024:x1.6"},
    "3·10^5 given tiles": MILLION | {"N": "1024:16Ki:x2", "d": "64"},
    "2·10^5 optimal tiles": SEARCHED,
    "165 simulated": RUN,
}
MASKS: tuple[dict[str, Any], ...] = (
    {},
    {"causal": True},
    {"causal": True, "N_k": 4096},
    {"causal": True, "kv_heads": 2},
    {"window": (512, 0)},
    {"window": (512, 0), "sinks": 4},
    {"window": (512, 0), "N_k": 4096},
)
WHERE = {
    "serial": ["--workers", "1"],
    "2 processes": ["--workers", "2"],
    "2 of Dask": ["--workers", "2", "--dask", "local"],
}
# Each of both: all pairs, or with --tiny each one at least once.
PAIRS = thresholds.size(
    list(itertools.product(SHORT, WHERE)), list(zip(SHORT, itertools.cycle(WHERE), strict=False))
)


def grid(options: dict[str, Any]) -> dict[str, Any]:
    """A sweep's options; with --tiny only the ends of their ranges."""
    ends = {k: re.sub(r"\w+:(\w+):[^,]+", r"\1", v) for k, v in options.items()}
    return thresholds.size(options, ends)


def run(
    benchmark: Any,
    folder: Path,
    pool: Pool,
    options: dict[str, Any],
    what: str,
    seconds: float | None = None,
) -> None:
    """Sweep once; note points per second, and the share of the workers' time not on shards.

    The threshold is `seconds` for a million points, or without it an overhead of 5%.
    """
    sweep = Sweep.of(**grid(options))
    report = benchmark.pedantic(
        lambda: collect(Folder.declare(folder / "s", sweep), pool), rounds=1, iterations=1
    )
    assert report.done == sweep.points
    benchmark.extra_info["points"] = report.points
    benchmark.extra_info["points_per_s"] = round(report.points / report.wall_s)
    benchmark.extra_info["overhead"] = f"{report.overhead:.1%}"
    if seconds is None:
        thresholds.at_most(f"{what}: overhead", 100 * report.overhead, 5, "%")
    else:
        thresholds.at_most(what, 1e6 * report.wall_s / report.points, seconds, "s a million")
    speed = f"{benchmark.extra_info['points_per_s']:,} per s, overhead {report.overhead:.1%}"
    print(f"\n{report.points:,} points in {report.wall_s:.1f} s on {report.pool}: {speed}")


def test_a_million_given_tiles_on_two_cores_target_30s(benchmark: Any, tmp_path: Path) -> None:
    assert Sweep.of(**grid(MILLION)).points > thresholds.size(10**6, 0)
    run(benchmark, tmp_path, processes(2), MILLION, "a million given tiles", 30)


def test_a_million_by_the_papers_rule_on_two_cores_target_30s(
    benchmark: Any, tmp_path: Path
) -> None:
    assert Sweep.of(**grid(RULE)).points > thresholds.size(10**6, 0)
    run(benchmark, tmp_path, processes(2), RULE, "a million by the paper's rule", 30)


@pytest.mark.parametrize("sizes", OPTIMAL)
@pytest.mark.parametrize("name", [a.name for a in problems.ATTENTION])
def test_optimal_tiles_on_two_cores_target_20s_a_million(
    benchmark: Any, tmp_path: Path, name: str, sizes: str
) -> None:
    given = problems.required_options(iosim.algorithm(name), 4096, 64, 4)
    options = OPTIMAL[sizes] | {"schedule": name} | {k: str(v) for k, v in given.items()}
    assert Sweep.of(**grid(options)).points > thresholds.size(2 * 10**5, 0)
    print(f"\n{name}, {sizes}:", end="")
    run(benchmark, tmp_path, processes(2), options, f"{name}: tilings, {sizes}", 20)


@pytest.mark.parametrize("name", [a.name for a in problems.ATTENTION])
def test_optimal_tiles_under_masks_target_1ms(benchmark: Any, name: str) -> None:
    """500 points at once, and one alone; the dense schedule, where there is one, comes first."""
    benchmark.pedantic(lambda: None, rounds=1)
    algorithm, points = iosim.algorithm(name), thresholds.size(500, 5)
    for mask in MASKS:
        one, rng = problems.problem_for(algorithm, 4096, 64, 4, **mask), np.random.default_rng(0)
        if one is None:
            continue
        program = algorithm.program_for(one)
        N, d = rng.integers(256, 65536, points), rng.choice([32, 64, 128], points)
        given = problems.columns_for(algorithm, N, d, 4, **mask)
        M = rng.integers(4096, 2**20, points)
        many = quickest(functools.partial(optimal_tiles_many, program, given, M), 3) / points
        enough = max(65536, smallest_capacity(program, one))
        alone = quickest(functools.partial(iosim.optimal_tiles, program, one, enough), 3)
        said = f"{many * 1e6:.0f} µs a point of {points:,}, {alone * 1e3:.1f} ms alone"
        what = ", ".join(f"{k} {v}" for k, v in one.as_dict.items() if k not in ("N", "d", "heads"))
        print(f"\n{name}, {what or 'dense'}: {said}", end="", flush=True)
        benchmark.extra_info[what or "dense"] = said
        thresholds.at_most(
            f"{name}, {what or 'dense'}: tiles of a point among many", many * 1e3, 1, "ms"
        )


def quickest(run: Any, times: int) -> float:
    """The least time of some, in seconds on a core."""
    found = []
    for _ in range(thresholds.rounds(times)):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


@pytest.mark.parametrize("tiles", ["given", "searched"])
def test_overhead_of_serial_target_5_percent(benchmark: Any, tmp_path: Path, tiles: str) -> None:
    options = MILLION if tiles == "given" else SEARCHED
    run(benchmark, tmp_path, serial(), options, f"serial, tiles {tiles}")


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_overhead_of_two_workers_target_5_percent(
    benchmark: Any, tmp_path: Path, kind: str
) -> None:
    """Long enough that the workers' start doesn't hide the rest."""
    options = SEARCHED | {"M": "256:1Mi:x1.0005"}
    with dask("local", 2) if kind == "dask" else contextlib.nullcontext(processes(2)) as pool:
        run(benchmark, tmp_path, pool, options, f"two workers, {kind}")


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_overhead_of_short_sweeps_target_5_percent(
    benchmark: Any, tmp_path: Path, name: str, kind: str
) -> None:
    """The command itself, each time anew, so that workers have to start."""
    options = [word for k, v in grid(SHORT[name]).items() for word in (f"--{k}", v)]
    command = [sys.executable, "-m", "iosim", "sweep", *options, *WHERE[kind], "--json", "--out"]
    found: list[dict[str, Any]] = []

    def once() -> None:
        out = str(tmp_path / str(len(found)))
        done = subprocess.run([*command, out], capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))

    benchmark.pedantic(once, rounds=3, iterations=1)
    wall = statistics.median(x["wall_s"] for x in found)
    overheads = [x["overhead"] for x in found]
    middle = benchmark.extra_info["overhead"] = f"{statistics.median(overheads):.1%}"
    thresholds.at_most(f"{name}, {kind}: overhead", 100 * statistics.median(overheads), 5, "%")
    points = f"{found[0]['done_points']:,} points in {wall:.2f} s"
    between = f"{min(overheads):.1%} … {max(overheads):.1%}"
    print(f"\n{name}, {kind}: {points}, overhead {middle} ({between})")


def test_memory_does_not_grow_with_the_grid(benchmark: Any, tmp_path: Path) -> None:
    """Largest resident size of a process that sweeps n points in shards of 65,536."""
    code = """if True:
        import json, resource, sys
        from iosim.sweep import Folder, Sweep, collect
        options = json.loads(sys.argv[1])
        collect(Folder.declare(sys.argv[2], Sweep.of(**options)))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    """

    def mib(lengths: str) -> tuple[int, int]:
        options = grid(MILLION | {"N": lengths})
        command = [sys.executable, "-c", code, json.dumps(options), str(tmp_path / lengths)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return Sweep.of(**options).points, int(done.stdout)

    small, large = mib("1024"), benchmark.pedantic(lambda: mib("1024:262144:x1.2"), rounds=1)
    print(f"\n{small[0]:,} points: {small[1]} MiB; {large[0]:,} points: {large[1]} MiB")
    assert large[0] > thresholds.size(10, 0) * small[0]
    thresholds.at_most("memory of ten times as many points", large[1] / small[1], 1.5, "times")


def test_memory_of_combine_and_query_does_not_grow_with_the_rows(
    benchmark: Any, tmp_path: Path
) -> None:
    """Largest resident size of the commands over n rows; DuckDB gets 1 GiB, and spills the rest."""

    def mib(name: str, *words: str) -> int:
        code = """if True:
            import resource, subprocess, sys
            subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
            print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
        """
        command = [sys.executable, "-m", "iosim", *words]
        done = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True
        )
        print(f"\n{name}: {int(done.stdout)} MiB", end="")
        return int(done.stdout)

    def both(name: str, d: str) -> tuple[int, int]:
        folder, out = tmp_path / name, tmp_path / f"combined {name}"
        sweep = Sweep.of(**grid(MILLION | {"d": d}))
        collect(Folder.declare(folder, sweep), processes(2))
        rows = f"{sweep.points:,} rows"
        return (
            mib(f"combine, {rows}", "combine", str(folder), "--out", str(out)),
            mib(f"query --json, {rows}", "query", "SELECT * FROM rows", str(folder), "--json"),
        )

    both("small", "64")
    combining, asking = benchmark.pedantic(lambda: both("large", "64:96:+8"), rounds=1)
    thresholds.at_most("memory of combine", combining, 2048, "MiB")
    thresholds.at_most("memory of query --json", asking, 2048, "MiB")
