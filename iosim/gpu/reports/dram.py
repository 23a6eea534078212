"""DRAM reads of flash2: every run's reads compared with the wave and drift models."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from iosim.base.rows import Rows
from iosim.core.counting.numbers import count
from iosim.core.units import bytes_of
from iosim.gpu import l2
from iosim.gpu.errors import GpuError
from iosim.gpu.records.counters import moved_at
from iosim.gpu.records.record import SPEC, Record, naming, read_record
from iosim.gpu.reports import _axes
from iosim.gpu.reports._entry import JOB_TASKS, GpuReport, ReportTable, job_runs
from iosim.gpu.reports.validate import validate_rows
from iosim.gpu.run.job import Job
from iosim.report.plot import draw_legend

ALGORITHM = "flash2"  # its items sweep K and V, which the two models are about
LOCKSTEP_TOLERANCE = 0.01  # the threshold for programs that are kept in lockstep
DRIFT_TOLERANCE = 0.02  # of the bracket that the recorded drift gives for the others
BOUNDARIES = ("sram", "dram")


def dram_jobs() -> list[Job]:
    """flash2 where K and V outgrow L2: plain launches, then in lockstep, over B_r and programs."""
    plain: list[tuple[int, int, int, int, int]] = [  # N, d, B_r, programs, stages
        (131072, 64, 128, 0, 2),
        (262144, 128, 128, 0, 2),
        (524288, 64, 128, 0, 2),
        (524288, 64, 64, 0, 2),
        (524288, 64, 32, 0, 2),
        (1048576, 64, 128, 0, 2),
        (1048576, 64, 64, 0, 1),
        (1048576, 64, 64, 0, 2),
        (1048576, 64, 64, 0, 3),
    ]
    in_step = [
        (262144, 128, 128, 132, 2),
        (524288, 64, 32, 264, 2),
        (524288, 64, 32, 528, 2),
        (524288, 64, 32, 660, 2),
        (524288, 64, 64, 132, 2),
        (524288, 64, 64, 264, 2),
        (524288, 64, 64, 396, 2),
        (524288, 64, 64, 528, 2),
        (524288, 64, 128, 132, 2),
        (524288, 64, 128, 264, 2),
        (1048576, 64, 64, 264, 2),
        (1048576, 64, 64, 528, 2),
        (1048576, 64, 128, 264, 2),
    ]
    return [
        Job(
            ALGORITHM,
            {"N": N, "d": d, "heads": 1},
            {"B_r": B_r, "B_c": 64},
            programs=programs,
            stages=stages,
            clock=True,
            extra={"least": 3},
        )
        for N, d, B_r, programs, stages in plain + in_step
    ]


@dataclass(frozen=True)
class DramRow:
    """One run.  Bytes unless a name says otherwise."""

    N: int
    d: int
    B_r: int
    stages: int
    in_step: bool
    programs: int  # resident at once
    waves: int
    sram_load: int  # the model's, between the SM and L2
    predicted: int  # DRAM reads, wave model
    measured: int
    off: float  # measured / predicted − 1
    drift_least: int  # plain: DRAM reads that the recorded sweeps explain, with all of L2
    drift_most: int  # and with half of it
    spread: float  # of the positions of programs that run at once, as a share of the sweep
    window: float  # what half of L2 holds of the sweep: beyond it the wave model fails
    written: int
    time_s: float
    of_plain: float  # time / that of the plain launch with the same tiles; NaN if it wasn't run
    sram_exact: bool
    failed: str = ""

    @property
    def good(self) -> bool:
        """The boundary above is exact; in lockstep the wave model is, else drift explains it."""
        if self.failed or not self.sram_exact:
            return False
        if self.in_step:
            return abs(self.off) <= LOCKSTEP_TOLERANCE
        low, high = 1 - DRIFT_TOLERANCE, 1 + DRIFT_TOLERANCE
        return low * self.drift_least <= self.measured <= high * self.drift_most


def dram_rows(record: Record) -> list[DramRow]:
    """One row for every job but the gate.  Raises GpuError for a record of another algorithm."""
    found = []
    for at, job in enumerate(record.jobs[1:], start=1):
        with naming(f"{record.folder / SPEC}, job {at}"):
            if job.algorithm != ALGORITHM:
                raise GpuError(f"it runs {job.algorithm}, and the DRAM models are of {ALGORITHM}")
            found.append(_row(record, at))
    return found


def _of_plain(job: Job, record: Record, time_s: float) -> float:
    for other, measured in zip(record.jobs, record.measured, strict=True):
        if replace(job, programs=0) == other and not measured.failed:
            return round(time_s / measured.time_s, 3)
    return float("nan")


def _row(record: Record, at: int) -> DramRow:
    job, measured, launches = record.jobs[at], record.measured[at], record.launches[at]
    sms, l2_bytes = record.device("multiprocessors"), record.device("l2_bytes")
    per_sm, stages = next(((k.per_sm, k.stages) for k in measured.kernels), (0, 0))
    items = record.items(at)
    programs = max(0, min(job.programs or per_sm * sms, items))
    model = bytes_of(count(job.instance), job.instance.program.tensors, job.dtype)
    sram = sum(n for (way, _), n in model.items() if way == "load")
    predicted = l2.predicted_bytes(job, programs, l2_bytes) if programs else 0
    reads = moved_at("dram", launches)
    ticks = record.ticks(at)
    least = most = 0
    if ticks is not None and not job.programs:  # in lockstep there is nothing to explain
        least, most = l2.drift_bytes(ticks, job, (l2_bytes, l2_bytes * l2.L2_SHARE))
    return DramRow(
        N=job.sizes["N"],
        d=job.sizes["d"],
        B_r=job.tiles["B_r"],
        stages=stages,
        in_step=job.programs > 0,
        programs=programs,
        waves=-(-items // programs) if programs else 0,
        sram_load=sram,
        predicted=predicted,
        measured=reads.load_bytes,
        off=round(reads.load_bytes / predicted - 1, 5) if predicted else 0.0,
        drift_least=least,
        drift_most=most,
        spread=round(l2.spread(ticks), 4) if ticks is not None else 0.0,
        window=round(min(1.0, l2_bytes * l2.L2_SHARE / l2.swept_bytes(job)), 4),
        written=reads.store_bytes,
        time_s=measured.time_s,
        of_plain=_of_plain(job, record, measured.time_s),
        sram_exact=moved_at("sram", launches).load_bytes == sram,
        failed=measured.failed or record.profiled[at].failed,
    )


def _summary(rows: list[DramRow]) -> str:
    kept = [abs(r.off) for r in rows if r.in_step]
    plain = [r for r in rows if not r.in_step]
    together = [r for r in plain if abs(r.off) <= LOCKSTEP_TOLERANCE]
    apart = [r for r in plain if r not in together]
    return (
        f"in lockstep: {len(kept)} runs, at most {max(kept, default=0):.2%} off the wave model; "
        f"plain: {len(together)} stayed together and are at most "
        f"{max((abs(r.off) for r in together), default=0):.2%} off it, "
        f"{len(apart)} drifted apart and read "
        f"{min((r.off + 1 for r in apart), default=1):.2f} to "
        f"{max((r.off + 1 for r in apart), default=1):.1f} times as much"
    )


def _table(folder: Path) -> ReportTable:
    record = read_record(folder, BOUNDARIES)
    validate_rows(record)  # the gate, and the exact boundary above
    found = dram_rows(record)
    rows = [asdict(r) | {"good": r.good} for r in found]
    failed = "" if any(not r.failed for r in found) else found[-1].failed if found else "no jobs"
    return ReportTable(rows, _summary(found), all(r.good for r in found), failed)


def _reads_panel(axes: Any, rows: Rows) -> None:
    """DRAM reads against the wave model; a threshold is the drift bracket."""
    kinds = ((True, "in lockstep", _axes.COLORS[0]), (False, "plain", _axes.COLORS[1]))
    for in_step, label, color in kinds:
        mine = [r for r in rows if r["in_step"] == in_step]
        axes.plot(
            [r["predicted"] for r in mine],
            [r["measured"] / r["predicted"] for r in mine],
            "o" if in_step else "s",
            color=color,
            label=label,
            markersize=6,
            markerfacecolor=color if in_step else "none",
        )
        if not in_step:
            for r in mine:
                axes.plot(
                    [r["predicted"]] * 2,
                    [r[x] / r["predicted"] for x in ("drift_least", "drift_most")],
                    color=color,
                    linewidth=2.4,
                    alpha=0.35,
                )
    axes.plot([], [], color=_axes.COLORS[1], linewidth=2.4, alpha=0.35, label="explained by drift")
    _axes.level(axes, 1)
    axes.set_yscale("log")
    worst = max((abs(r["off"]) for r in rows if r["in_step"]), default=0.0)
    axes.set_title(f"L2↔DRAM, reads: in lockstep within {worst:.2%} of the model")
    axes.set_xlabel("predicted bytes at L2↔DRAM (waves of programs)")
    axes.set_ylabel("counted ÷ predicted,\nbytes at L2↔DRAM")
    draw_legend(axes)


def _law_panel(axes: Any, rows: Rows) -> None:
    """DRAM reads against the rows resident on the chip: 2N²d words over rows."""
    kept = [r for r in rows if r["in_step"] and r["d"] == 64]
    for k, N in enumerate(sorted({r["N"] for r in kept})):
        mine = [r for r in kept if r["N"] == N]
        held = [r["programs"] * r["B_r"] for r in mine]
        span = [min(held) * 0.8, max(held) * 1.25]
        axes.plot(
            span,
            [2 * 2 * N * N * 64 / x for x in span],
            color=_axes.COLORS[k],
            linewidth=0.9,
            label=f"2N²d / rows (fp16),\nN = {N:,}",
        )
        for B_r, mark in zip((32, 64, 128), "^os", strict=True):
            points = [(r["programs"] * r["B_r"], r["measured"]) for r in mine if r["B_r"] == B_r]
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    mark,
                    color=_axes.COLORS[k],
                    markersize=6,
                    label=f"B_r = {B_r}",
                )
    axes.set_xscale("log")
    axes.set_yscale("log")
    off = [abs(r["measured"] * r["programs"] * r["B_r"] / (4 * r["N"] ** 2 * 64) - 1) for r in kept]
    axes.set_title(
        f"Reads fall as N²d²/M, M the rows on the chip: within {max(off, default=0.0):.1%}"
    )
    axes.set_xlabel("rows of Q and O resident at once")
    axes.set_ylabel("bytes read at L2↔DRAM,\nin lockstep")
    draw_legend(axes)
    if kept:
        axes.set_ylim(bottom=0.35 * min(r["measured"] for r in kept))


REPORT = GpuReport(
    name="dram",
    plan=lambda given: job_runs(dram_jobs(), BOUNDARIES),
    counters=lambda given: "needed",
    tasks=JOB_TASKS,
    table=_table,
    columns=(
        "N",
        "d",
        "B_r",
        "stages",
        "in_step",
        "programs",
        "waves",
        "predicted",
        "measured",
        "off",
        "drift_least",
        "drift_most",
        "spread",
        "window",
        "time_s",
        "of_plain",
        "failed",
    ),
    panels=(_reads_panel, _law_panel),
)
