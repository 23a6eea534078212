"""Backward passes compared with PyTorch's: speed, and what its kernels move at SM↔L2.

The emitted schedules get the tiles, warps and stages that are fastest at the shortest length, and
are timed in turn with the two fused backward passes of PyTorch on the same tensors.  The profiler
then counts what these two move (`_moved`).  `_compare` runs in the worker; the rest only reads what
was written.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from iosim.base.errors import InputError
from iosim.base.rows import Row, Values
from iosim.core.algorithms import ALGORITHMS, algorithm
from iosim.core.problem import AttentionBackward
from iosim.gpu.layers.launch_counters import BYTES
from iosim.gpu.layers.launch_counters import COUNTERS as KINDS
from iosim.gpu.records.plain import read_json
from iosim.gpu.records.record import COUNTERS, MEASURED, PROFILED, SPEC
from iosim.gpu.reports._cases import CASES
from iosim.gpu.reports._entry import (
    MEMORY_OPTION,
    GpuReport,
    ReportTable,
    WorkerRun,
    listed,
    schedule_option,
    sizes_option,
)
from iosim.gpu.reports._moved import BACKENDS, WATCHED, fused_pass, moved_rows, watch_passes
from iosim.gpu.reports._timing import Ready, at_least, fitting, resized, tune
from iosim.gpu.reports.bench import CASE_OPTION, heads_of
from iosim.gpu.run.job import Job

THRESHOLD = 0.5  # of the faster fused pass, at d = 64
SCHEDULES = ("two_kernels",)
LENGTHS, HEAD_SIZES = (4096, 8192, 16384), (64, 128)


def _problem(case: str, N: int, d: int) -> Any:
    return CASES[case].problem(AttentionBackward, N, d, heads_of(N, d))


def candidates(name: str, case: str, N: int, d: int, M: int) -> list[Job]:
    """The kernels of a schedule within M words that are timed: tiles × warps × stages.

    What stays in a program has 64 or 128 lines, what is streamed 32 to 128.

    Raises InputError if none fits.
    """
    problem = _problem(case, N, d)
    params = algorithm(name).program_for(problem).params
    found: dict[tuple[Any, ...], Job] = {}
    every = itertools.product((64, 128), (32, 64, 128), (4, 8), (2, 3))
    for stays, streams, warps, stages in every:
        sides = dict.fromkeys(("B_c", "B_c1", "B_r2"), stays)
        sides |= dict.fromkeys(("B_r", "B_r1", "B_c2"), streams)
        # Row sums, and what is cleared, have tiles of 64 rows.
        tiles = {p.name: sides.get(p.name, min(64, problem.sizes[p.axis])) for p in params}
        job = Job.of(name, problem, tiles, M=M, warps=warps, stages=stages, extra={"time_only": 1})
        found[(*tiles.items(), warps, stages)] = job
    return fitting(found.values(), M, f"tile of {name} at d = {d}")


@dataclass(frozen=True)
class BackwardRow:
    """One schedule at one length.  Times are medians of D and the gradients, without the forward
    pass; TFLOP/s counts the five products once, 10d for each score that is needed."""

    algorithm: str
    case: str
    N: int
    d: int
    heads: int
    M_words: int
    tiles: str
    warps: int
    stages: int
    emitted_s: float
    flash_s: float
    cudnn_s: float
    emitted_tflops: float
    flash_tflops: float
    cudnn_tflops: float
    of_flash: float  # emitted speed / FlashAttention-2's in PyTorch
    of_cudnn: float
    difference: float  # largest |emitted − FlashAttention-2's| / largest |FlashAttention-2's|
    launches: int  # timed, per median


def _compare(asked: Row, out: Path) -> Row:
    """Runs in the worker: tune, then time all in turn on the same tensors."""
    from iosim.gpu.run.cuda import torch_module
    from iosim.gpu.run.tasks import environment

    case, at = asked["case"], min(asked["lengths"])
    kinds = itertools.product(asked["schedules"], asked["head_sizes"])
    tuned = tune({(name, d): candidates(name, case, at, d, asked["M"]) for name, d in kinds})
    torch, rows = torch_module(), []
    for ((_, d), job), N in itertools.product(tuned.items(), asked["lengths"]):
        rows.append(asdict(_time(torch, resized(job, _problem(case, N, d)), case)))
        torch.cuda.empty_cache()
    return {"environment": environment(), "rows": rows}


def _time(torch: Any, job: Job, case: str) -> BackwardRow:
    problem, ready = job.problem, Ready(job)
    ready.go()
    views = {x: ready.window(x) for x in ("Q", "K", "V", "dO")}
    flash, cudnn = (fused_pass(torch, x, views, case == "causal") for x in BACKENDS)
    differences = [
        float((ready.window(x) - want[0]).abs().max() / want.abs().max())
        for x, want in zip(("dQ", "dK", "dV"), flash(), strict=True)
    ]
    flop = 10.0 * problem.pairs * problem.d  # of the five products
    times = ready.time_beside({"flash": flash, "cudnn": cudnn}, flop, "tflops")
    return BackwardRow(
        algorithm=job.algorithm,
        case=case,
        N=problem.N,
        d=problem.d,
        heads=problem.heads,
        M_words=job.M,
        tiles=listed(job.tiles),
        of_flash=round(times["flash_s"] / times["emitted_s"], 3),
        of_cudnn=round(times["cudnn_s"] / times["emitted_s"], 3),
        difference=max(differences),
        **times,
    )


def _plan(given: Values) -> tuple[WorkerRun, ...]:
    for name, d in itertools.product(given["schedule"], given["d"]):
        candidates(name, given["case"], min(given["N"]), d, given["M"])  # raises
    asked = {"lengths": given["N"], "head_sizes": given["d"], "watched": WATCHED}
    asked |= {"M": given["M"], "case": given["case"], "schedules": given["schedule"]}
    compare = WorkerRun("compare", asked, SPEC, MEASURED)
    if given["case"] != "dense":
        return (compare,)
    others = tuple(KINDS[x] for x in BYTES)
    watched = WorkerRun("watch", asked, SPEC, PROFILED, COUNTERS, (), others=others)
    return (compare, watched)


@dataclass(frozen=True)
class _MeasuredFile:
    rows: tuple[BackwardRow, ...]
    environment: dict[str, str]


def _table(folder: Path) -> ReportTable:
    rows = read_json(folder / MEASURED, _MeasuredFile).rows
    moved = moved_rows(folder)
    best: dict[int, dict[int, float]] = {}  # of the schedules, by d and N
    for row in sorted(rows, key=lambda row: row.d):
        own = best.setdefault(row.d, {})
        own[row.N] = max(own.get(row.N, 0.0), min(row.of_flash, row.of_cudnn))
    least = {d: min(own.values()) for d, own in best.items()}
    text = "; ".join(
        f"d {d}: at least {at_least(x)} of the faster fused pass" for d, x in least.items()
    )
    exact = [
        row
        for row in moved
        if row.reduced == row.model_reduced and row.bulk_load in (0, row.model_rows)
    ]
    if moved:
        text += (
            "; reductions of dQ, and bulk copies where there are any, as modeled in "
            f"{len(exact)} of {len(moved)} fused passes"
        )
    good = bool(rows) and least.get(64, THRESHOLD) >= THRESHOLD and len(exact) == len(moved)
    files = {"moved.csv": [asdict(row) for row in moved]} if moved else {}
    told = [asdict(row) for row in rows]
    return ReportTable(
        told, f"{text} (threshold: {THRESHOLD} at d 64)", good, "" if rows else "nothing ran", files
    )


def _schedules(text: str) -> tuple[str, ...]:
    found = tuple(map(algorithm, text.split(",")))
    for entry in found:
        if entry.problem is not AttentionBackward:
            known = [x for x in ALGORITHMS if algorithm(x).problem is AttentionBackward]
            raise InputError(f"{entry.name} is not a backward pass: give of {', '.join(known)}")
    return tuple(entry.name for entry in found)


REPORT = GpuReport(
    name="backward",
    options=(
        schedule_option(",".join(SCHEDULES), "names", _schedules, old="--schedules"),
        MEMORY_OPTION,
        sizes_option("N", LENGTHS),
        sizes_option("d", HEAD_SIZES),
        CASE_OPTION,
    ),
    plan=_plan,
    counters=lambda given: "wanted" if given["case"] == "dense" else "",
    tasks={"compare": _compare, "watch": watch_passes},
    table=_table,
)
