"""The emitted flash2 compared with PyTorch's fused and standard attention: same inputs, one run.

Candidates are all tiles within M words × warps × stages; the fastest at N = 4,096 is taken below
N = 32,768, and from there on the fastest at that length.  `_compare` runs in the worker; the rest
only reads what it wrote.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from iosim.base.errors import InputError
from iosim.base.rows import Row, Values
from iosim.core.problem import Attention
from iosim.gpu.records.plain import read_json
from iosim.gpu.records.record import MEASURED, SPEC
from iosim.gpu.reports._cases import CASES
from iosim.gpu.reports._entry import (
    MEMORY_OPTION,
    GpuReport,
    ReportOption,
    ReportTable,
    WorkerRun,
    listed,
    sizes_option,
)
from iosim.gpu.reports._targets import ran_instead, style_option, target_option
from iosim.gpu.reports._timing import Ready, at_least, fitting, resized, tune
from iosim.gpu.run.job import Job
from iosim.gpu.targets import PLAIN, THRESHOLD, target

MASKS = ("dense", "causal")
ALGORITHM = "flash2"  # with which PyTorch's kernels are compared
LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536)
HEAD_SIZES = (64, 128)
TUNED_AT = (4096, 32768)
TOKENS = 16384  # batch × N, as in the FlashAttention papers; heads × d is 2048


def heads_of(N: int, d: int) -> int:
    """Batch × heads: 16,384 tokens of 2,048 numbers, and one sequence where N is longer.

    >>> heads_of(4096, 64), heads_of(65536, 64)
    (128, 32)
    """
    return max(1, TOKENS // N) * (2048 // d)


def _problem(case: str, N: int, d: int) -> Any:
    return CASES[case].problem(Attention, N, d, heads_of(N, d))


def _tuned_at(N: int) -> int:
    """The length at which tiles, warps and stages are chosen for a length."""
    return max((n for n in TUNED_AT if n <= N), default=TUNED_AT[0])


def candidates(
    d: int,
    M: int,
    N: int = TUNED_AT[0],
    case: str = "dense",
    name: str = PLAIN,
    style: str = "",
) -> list[Job]:
    """The flash2 kernels of a target within M words that are timed: of large tiles, if some fit.

    Raises InputError if none fits.
    """
    problem = _problem(case, N, d)
    make = functools.partial(
        Job.of, ALGORITHM, problem, M=M, extra={"time_only": 1}, target=name, style=style
    )
    found = list(target(name).tried(make))
    least = min(side for job in found for side in job.tiles.values())
    fit = fitting(found, M, f"{least} x {least} tile of {ALGORITHM} at d = {d}")
    # Where large tiles fit, small ones are slower and take as long to tune.
    large = [job for job in fit if min(job.tiles.values()) >= 32 and job.tiles["B_r"] >= 64]
    return large or fit


@dataclass(frozen=True)
class BenchRow:
    """One length.  Times are medians; TFLOP/s counts 4d for each score that is needed: 4N²d per
    head where all are."""

    N: int
    d: int
    heads: int
    M_words: int
    tiles: str
    warps: int
    stages: int
    emitted_s: float
    fused_s: float
    standard_s: float  # NaN where it does not fit in device memory
    emitted_tflops: float
    fused_tflops: float
    standard_tflops: float
    of_fused: float  # emitted speed / fused speed
    difference: float  # largest |emitted − fused|
    launches: int  # timed, per median
    case: str = "dense"
    target: str = PLAIN
    style: str = ""


def _compare(asked: Row, out: Path) -> Row:
    """Runs in the worker: tune, then time all three on the same tensors, in turn."""
    from iosim.gpu.run.cuda import torch_module
    from iosim.gpu.run.tasks import environment

    case, name = asked.get("case", "dense"), asked.get("target", PLAIN)
    style, lengths = asked.get("style", ""), asked["lengths"]
    tuned = tune(
        {
            (d, at): candidates(d, asked["M"], at, case, name, style)
            for d in asked["head_sizes"]
            for at in sorted(set(map(_tuned_at, lengths)))
        }
    )
    torch, rows = torch_module(), []
    for d, N in itertools.product(asked["head_sizes"], lengths):
        row = _time(torch, resized(tuned[d, _tuned_at(N)], _problem(case, N, d)), case)
        rows.append(asdict(row))
        torch.cuda.empty_cache()
    return {"environment": environment(), "rows": rows}


def _time(torch: Any, job: Job, case: str) -> BenchRow:
    from iosim.gpu.run.baselines import forward

    problem, ready = job.problem, Ready(job)
    q, k, v, o = map(ready.window, "QKVO")
    ready.go()
    runs = {
        name: functools.partial(forward(torch, name, case == "causal"), q, k, v)
        for name in ("fused", "standard")
    }
    difference = float((runs["fused"]() - o).abs().max())
    flop = 4.0 * problem.pairs * problem.d  # of the two products
    times = ready.time_beside(runs, flop, "tflops", queued=target(job.target).queued)
    return BenchRow(
        N=problem.N,
        d=problem.d,
        heads=problem.heads,
        M_words=job.M,
        tiles=listed(job.tiles),
        of_fused=round(times["fused_s"] / times["emitted_s"], 3),
        difference=difference,
        case=case,
        target=job.target,
        style=job.style,
        **times,
    )


def _plan(given: Values) -> tuple[WorkerRun, ...]:
    target(given["target"]).styled(given["style"])
    for d in given["d"]:
        # raises for an M that holds no tile
        candidates(d, given["M"], case=given["case"], name=given["target"], style=given["style"])
    asked = {"lengths": given["N"], "head_sizes": given["d"]}
    asked |= {name: given[name] for name in ("M", "case", "target", "style")}
    return (WorkerRun("compare", asked, SPEC, MEASURED),)


@dataclass(frozen=True)
class _MeasuredFile:
    rows: tuple[BenchRow, ...]
    environment: dict[str, str]


def _table(folder: Path) -> ReportTable:
    rows = read_json(folder / MEASURED, _MeasuredFile).rows
    long = [row for row in rows if row.N >= 4096]
    thresholds = {
        _kind(row): target(row.target).threshold(row.case, row.d, row.style) for row in long
    }
    good = bool(long) and all(row.of_fused >= thresholds[_kind(row)] for row in long)
    least_of = {key: min(row.of_fused for row in long if _kind(row) == key) for key in thresholds}
    if set(thresholds.values()) <= {THRESHOLD}:
        least = min(least_of.values(), default=0.0)
        share = f"{at_least(least)} of the fused kernel's speed"
        text = f"from N = 4k on at least {share} (threshold: {THRESHOLD})"
    else:
        each = "; ".join(
            f"{'' if name == PLAIN else name + ', '}{case}, d {d}: "
            f"{at_least(least_of[name, case, d])} (threshold: {thresholds[name, case, d]})"
            for name, case, d in thresholds
        )
        text = f"from N = 4k on at least this much of the fused kernel's speed: {each}"
    told = [asdict(row) for row in rows]
    for name, first in (("case", "dense"), ("target", PLAIN), ("style", "")):
        if {row[name] for row in told} <= {first}:  # as records were before there were others
            told = [{k: v for k, v in row.items() if k != name} for row in told]
    return ReportTable(told, text + ran_instead(folder), good, "" if rows else "nothing ran")


def _kind(row: BenchRow) -> tuple[str, str, int]:
    return row.target, row.case, row.d


def _mask_named(text: str) -> str:
    """Reads the name of a case that is timed; raises InputError for another."""
    if text not in MASKS:
        raise InputError(f"case {text!r} is not timed: give {' or '.join(MASKS)}")
    return text


CASE_OPTION = ReportOption("case", "dense", f"case: {' or '.join(MASKS)}", _mask_named)


REPORT = GpuReport(
    name="bench",
    options=(
        MEMORY_OPTION,
        sizes_option("N", LENGTHS),
        sizes_option("d", HEAD_SIZES),
        CASE_OPTION,
        target_option(),
        style_option(),
    ),
    plan=_plan,
    tasks={"compare": _compare},
    table=_table,
)
