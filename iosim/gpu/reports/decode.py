"""Decoding: one row of queries against a cache, compared with PyTorch's kernel and the bandwidth
of HBM.

Every word of K and V is needed once, so the best time is that of reading them once between L2 and
DRAM.  Tiles, warps and stages are tuned for each schedule; then it is timed in turn with
``scaled_dot_product_attention`` on the same tensors, and with a copy of as many bytes.
`_compare` runs in the worker; the rest only reads what it wrote.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from iosim.base.rows import Row, Values
from iosim.bounds import bound
from iosim.core.algorithms import algorithm
from iosim.core.problem import Attention, every_axis
from iosim.core.units import parse_int
from iosim.gpu.errors import GpuError
from iosim.gpu.records.plain import read_json
from iosim.gpu.records.record import MEASURED, SPEC
from iosim.gpu.reports._entry import (
    MEMORY_OPTION,
    GpuReport,
    ReportOption,
    ReportTable,
    WorkerRun,
    schedule_option,
)
from iosim.gpu.reports._timing import Ready, at_least, fitting, tune
from iosim.gpu.run.job import Job
from iosim.models.hardware import of_driver

THRESHOLD = 0.8  # of the peak bandwidth of HBM, by the best schedule
SCHEDULES = ("decode", "split_kv")
WORD = 2  # bytes: fp16


def _problem(asked: Values) -> Attention:
    """One row of every head of a batch, against a cache that the heads of a group share."""
    batch, heads, groups = asked["batch"], asked["heads"], asked["kv_heads"]
    return Attention(1, asked["d"], batch * heads, N_k=asked["N_k"], kv_heads=batch * groups)


def compulsory_bytes(problem: Attention) -> int:
    """Q, K and V once, and O once: the bound that holds for any M."""
    return WORD * round(bound("compulsory").words(problem, 1))


def candidates(name: str, problem: Attention, M: int) -> list[Job]:
    """The kernels of a schedule within M words that are timed: tiles × warps × stages.

    Raises InputError if none fits.
    """
    program = algorithm(name).program_for(problem)
    steps = {derived.step for derived in program.derived}
    choices: list[tuple[int, ...]] = []
    for p in program.params:
        extent = problem.sizes[p.axis]
        if p.name in steps:  # parts of the cache: 1, 2, 4 or 8
            choices.append(tuple(-(-extent // parts) for parts in (1, 2, 4, 8)))
        elif p.axis == "N_k":
            choices.append((16, 32, 64, 128))
        else:
            choices.append((min(16, extent),))
    names = [p.name for p in program.params]
    found = [
        Job.of(
            name,
            problem,
            dict(zip(names, tiles, strict=True)),
            M=M,
            warps=warps,
            stages=stages,
            extra={"time_only": 1},
        )
        for tiles in itertools.product(*choices)
        for warps, stages in itertools.product((2, 4), (2, 3, 4))
    ]
    return fitting(found, M, f"tile of {name}")


@dataclass(frozen=True)
class DecodeRow:
    """One schedule.  Times are medians; GB/s are compulsory bytes by time."""

    algorithm: str
    sizes: str
    tiles: str
    warps: int
    stages: int
    compulsory_bytes: int
    emitted_s: float
    fused_s: float
    copy_s: float  # of a copy that reads and writes as many bytes in all
    emitted_gb_per_s: float
    fused_gb_per_s: float
    copy_gb_per_s: float
    of_fused: float  # emitted speed / fused speed
    of_copy: float  # emitted speed / the copy's
    difference: float  # largest |emitted − fused|
    launches: int  # timed, per median


def _compare(asked: Row, out: Path) -> Row:
    """Runs in the worker: tune, then time all in turn on the same tensors."""
    from iosim.gpu.run.cuda import torch_module
    from iosim.gpu.run.tasks import environment

    problem, torch, rows = _problem(asked), torch_module(), []
    tuned = tune({name: candidates(name, problem, asked["M"]) for name in asked["schedules"]})
    for job in tuned.values():
        rows.append(asdict(_time(torch, job, asked)))
        torch.cuda.empty_cache()
    return {"environment": environment(), "rows": rows}


def _time(torch: Any, job: Job, asked: Values) -> DecodeRow:
    from iosim.gpu.run.baselines import forward

    ready = Ready(job)
    ready.go()
    q, k, v, o = map(ready.window, "QKVO")
    # PyTorch takes (batch, heads, N, d); a head of a batch is a head here.
    batch, heads, groups = asked["batch"], asked["heads"], asked["kv_heads"]
    q, o = (x.reshape(batch, heads, 1, x.shape[-1]) for x in (q, o))
    k, v = (x.reshape(batch, groups, *x.shape[-2:]) for x in (k, v))
    fused = functools.partial(forward(torch, "fused_batch"), q, k, v)
    total = compulsory_bytes(job.problem)
    source = torch.empty(total // 2 // WORD, dtype=torch.float16, device="cuda").normal_()
    copy = functools.partial(torch.empty_like(source).copy_, source)
    difference = float((fused() - o).abs().max())
    times = ready.time_beside({"fused": fused, "copy": copy}, total, "gb_per_s")
    return DecodeRow(
        algorithm=job.algorithm,
        sizes=" ".join(f"{x}={asked[x]}" for x in ("batch", "heads", "kv_heads", "N_k", "d")),
        tiles=" ".join(f"{x}={n}" for x, n in job.tiles.items()),
        compulsory_bytes=total,
        of_fused=round(times["fused_s"] / times["emitted_s"], 3),
        of_copy=round(times["copy_s"] / times["emitted_s"], 3),
        difference=difference,
        **times | {"stages": job.stages},
    )


def _plan(given: Values) -> tuple[WorkerRun, ...]:
    problem = _problem(given)
    for name in given["schedule"]:
        candidates(name, problem, given["M"])  # raises for an M that holds no tile
    asked = {"schedules" if name == "schedule" else name: x for name, x in given.items()}
    return (WorkerRun("compare", asked, SPEC, MEASURED),)


@dataclass(frozen=True)
class _MeasuredFile:
    rows: tuple[DecodeRow, ...]
    environment: dict[str, str]


def _peak_bandwidth(device: str) -> float:
    """Bytes a second between L2 and DRAM, of a device by the name that its driver gives."""
    found = of_driver(device)
    if found is None:
        raise GpuError(f"the bandwidth of {device} is not known: add it to iosim.models.hardware")
    return found.dram_bytes_per_s


def _table(folder: Path) -> ReportTable:
    found = read_json(folder / MEASURED, _MeasuredFile)
    peak_rate = _peak_bandwidth(found.environment.get("device", ""))
    rows = [
        asdict(row) | {"of_hbm": round(row.compulsory_bytes / row.emitted_s / peak_rate, 3)}
        for row in found.rows
    ]
    best = max((row["of_hbm"] for row in rows), default=0.0)
    text = (
        f"{at_least(best)} of the peak bandwidth of HBM, {peak_rate / 1e9:g} GB/s "
        f"(threshold: {THRESHOLD}); "
        f"a copy reaches {max((r.copy_gb_per_s for r in found.rows), default=0.0):g} GB/s"
    )
    return ReportTable(rows, text, best >= THRESHOLD, "" if rows else "nothing ran")


def _schedules(text: str) -> tuple[str, ...]:
    return tuple(algorithm(name).name for name in text.split(","))


def _size(name: str, default: str, old: tuple[str, ...] = ()) -> ReportOption:
    says = every_axis()[name].says
    return ReportOption(name, default, says, functools.partial(parse_int, name), "INT", old)


REPORT = GpuReport(
    name="decode",
    options=(
        schedule_option(",".join(SCHEDULES), "names", _schedules, old="--schedules"),
        _size("batch", "64"),
        _size("heads", "32"),
        _size("kv_heads", "8", ("--kv_heads",)),
        _size("N_k", "16384", ("--N_k",)),
        _size("d", "128"),
        MEMORY_OPTION,
    ),
    plan=_plan,
    tasks={"compare": _compare},
    table=_table,
)
