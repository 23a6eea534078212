"""Backward passes beside PyTorch's: speed, and what its kernels move at SM↔L2.

The emitted schedules get the tiles, warps and stages that are fastest at the shortest length, and
are timed in turn with the two fused backward passes of PyTorch on the same tensors.  The profiler
then counts what these two move (`_moved`).  `_compare` runs in the worker; the rest only reads what
was written.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from iosim.base.errors import InputError
from iosim.core.algorithms import ALGORITHMS, algorithm
from iosim.core.counting.numbers import peak
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
    schedule_option,
    sizes_option,
)
from iosim.gpu.reports._moved import BACKENDS, WATCHED, fused_pass, moved_rows, watch_passes
from iosim.gpu.reports._timing import at_least, fitting, interleaved, timed
from iosim.gpu.reports.bench import CASE_OPTION, heads_of
from iosim.gpu.run.job import Job

BAR = 0.5  # of the faster fused pass, at d = 64
SCHEDULES = ("two_kernels",)
LENGTHS, HEAD_SIZES = (4096, 8192, 16384), (64, 128)


def _problem(case: str, N: int, d: int) -> Any:
    return CASES[case].problem(AttentionBackward, N, d, heads_of(N, d))


def candidates(name: str, case: str, N: int, d: int, M: int) -> list[Job]:
    """The kernels of a schedule within M words that are timed: tiles × warps × stages.

    What stays in a program has 64 or 128 lines, what streams past 32 to 128.

    Raises InputError if none fits.
    """
    problem = _problem(case, N, d)
    params = algorithm(name).program_for(problem).params
    found: dict[tuple[Any, ...], tuple[Job, int]] = {}
    every = itertools.product((64, 128), (32, 64, 128), (4, 8), (2, 3))
    for stays, streams, warps, stages in every:
        sides = {
            "B_c": stays,
            "B_c1": stays,
            "B_r2": stays,
            "B_r": streams,
            "B_r1": streams,
            "B_c2": streams,
        }
        # Row sums, and what is cleared, have tiles of 64 rows.
        tiles = {p.name: sides.get(p.name, min(64, problem.sizes[p.axis])) for p in params}
        job = Job.of(name, problem, tiles, M=M, warps=warps, stages=stages, extra={"time_only": 1})
        found[(*tiles.items(), warps, stages)] = job, peak(job.instance)
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


def _flop(problem: Any) -> float:
    """Multiplications and additions of the five products."""
    return float(10 * problem.pairs * problem.d)


def _compare(asked: dict[str, Any], out: Path) -> dict[str, Any]:
    """Runs in the worker: tune, then time all in turn on the same tensors."""
    from iosim.gpu.run.cuda import Cuda, torch_module
    from iosim.gpu.run.launch import prepare
    from iosim.gpu.run.tasks import compile_all, environment

    case, at = asked["case"], min(asked["lengths"])
    tried = {
        (name, d): candidates(name, case, at, d, asked["M"])
        for name in asked["schedules"]
        for d in asked["head_sizes"]
    }
    compile_all([job for some in tried.values() for job in some])
    torch, rows = torch_module(), []
    for (name, d), some in tried.items():
        tuned = min(some, key=timed)
        for N in asked["lengths"]:
            problem = _problem(case, N, d)
            job = Job.of(
                name, problem, tuned.tiles, M=tuned.M, warps=tuned.warps, stages=tuned.stages
            )
            device = Cuda(job)
            memory = device.tensors()
            kernels = prepare(job.emitted(), memory, device, count=False)

            def go(kernels: Any = kernels) -> None:
                for kernel in kernels:
                    kernel.go()

            go()
            views = {x: device.window(memory[x], x) for x in ("Q", "K", "V", "dO")}
            runs = {x: fused_pass(torch, x, views, case == "causal") for x in BACKENDS}
            want = runs["FlashAttention-2"]()
            differences = [
                float((device.window(memory[x], x) - w[0]).abs().max() / w.abs().max())
                for x, w in zip(("dQ", "dK", "dV"), want, strict=True)
            ]
            times, launches = interleaved(torch, {"emitted": go, **runs})
            own, flash, cudnn = (times[x] for x in ("emitted", *BACKENDS))
            of_own, of_flash, of_cudnn = (_flop(problem) / t / 1e12 for t in (own, flash, cudnn))
            row = BackwardRow(
                name,
                case,
                N,
                d,
                problem.heads,
                tuned.M,
                " ".join(f"{x}={n}" for x, n in sorted(tuned.tiles.items())),
                tuned.warps,
                min(x.stages for x in device.resources.values()),
                own,
                flash,
                cudnn,
                round(of_own, 1),
                round(of_flash, 1),
                round(of_cudnn, 1),
                round(flash / own, 3),
                round(cudnn / own, 3),
                max(differences),
                launches,
            )
            rows.append(asdict(row))
            del memory, kernels, go, views, runs, want
            torch.cuda.empty_cache()
    return {"environment": environment(), "rows": rows}


def _plan(given: Mapping[str, Any]) -> tuple[WorkerRun, ...]:
    for name, d in itertools.product(given["schedule"], given["d"]):
        candidates(name, given["case"], min(given["N"]), d, given["M"])  # raises
    asked = {
        "M": given["M"],
        "lengths": given["N"],
        "head_sizes": given["d"],
        "case": given["case"],
        "schedules": given["schedule"],
        "watched": WATCHED,
    }
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
    best: dict[tuple[int, int], float] = {}
    for row in rows:
        of_fused = min(row.of_flash, row.of_cudnn)
        best[row.N, row.d] = max(best.get((row.N, row.d), 0.0), of_fused)
    least = {
        d: min(x for (_, e), x in best.items() if e == d) for d in sorted({d for _, d in best})
    }
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
            "; reductions of dQ, and bulk copies where there are any, as modelled in "
            f"{len(exact)} of {len(moved)} fused passes"
        )
    good = bool(rows) and least.get(64, BAR) >= BAR and len(exact) == len(moved)
    files = {"moved.csv": [asdict(row) for row in moved]} if moved else {}
    told = [asdict(row) for row in rows]
    return ReportTable(
        told, f"{text} (bar: {BAR} at d 64)", good, "" if rows else "nothing ran", files
    )


def _schedules(text: str) -> tuple[str, ...]:
    found = tuple(map(algorithm, text.split(",")))
    for entry in found:
        if entry.problem is not AttentionBackward:
            known = [x for x in ALGORITHMS if algorithm(x).problem is AttentionBackward]
            raise InputError(f"{entry.name} is no backward pass: give of {', '.join(known)}")
    return tuple(entry.name for entry in found)


REPORT = GpuReport(
    name="backward",
    options=(
        schedule_option(",".join(SCHEDULES), "names", _schedules, old="--schedules"),
        MEMORY_OPTION,
        sizes_option("N", ",".join(map(str, LENGTHS))),
        sizes_option("d", ",".join(map(str, HEAD_SIZES))),
        CASE_OPTION,
    ),
    plan=_plan,
    counters=lambda given: "wanted" if given["case"] == "dense" else "",
    tasks={"compare": _compare, "watch": watch_passes},
    table=_table,
)
