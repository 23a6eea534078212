"""The DRAM table: every run's reads beside what the wave and drift models say."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from iosim.counting.numbers import count
from iosim.gpu import l2 as dram
from iosim.gpu.emitter.layout import model_bytes
from iosim.gpu.errors import GpuError
from iosim.gpu.records import counters as ncu
from iosim.gpu.records.record import Record
from iosim.gpu.run.job import Job

IN_STEP_TOLERANCE = 0.01  # the bar for programs that are kept in step
DRIFT_TOLERANCE = 0.02  # of the bracket that the recorded drift gives for the others


@dataclass(frozen=True)
class Row:
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
        """The boundary above is exact; in step, the wave model is; else drift explains the rest."""
        if self.failed or not self.sram_exact:
            return False
        if self.in_step:
            return abs(self.off) <= IN_STEP_TOLERANCE
        low, high = 1 - DRIFT_TOLERANCE, 1 + DRIFT_TOLERANCE
        return low * self.drift_least <= self.measured <= high * self.drift_most


def rows(record: Record, folder: Path) -> list[Row]:
    """The table of a record whose first job is the gate.  Raises GpuError without counters."""
    if not record.has_counters:
        raise GpuError("DRAM reads need hardware counters: " + ncu.MISSING)
    profiled = json.loads((folder / "profiled.json").read_text())["rows"]
    found = []
    for at, job in enumerate(record.jobs):
        if job.algorithm != "flash2":
            continue
        clock = profiled[at].get("clock")
        ticks = np.load(folder / clock)["ns"] if clock else None
        found.append(_row(job, record, at, ticks))
    return found


def _of_plain(job: Job, record: Record, time_s: float) -> float:
    for other, row in zip(record.jobs, record.rows, strict=True):
        if replace(job, programs=0) == other and "time_s" in row:
            return float(round(time_s / row["time_s"], 3))
    return float("nan")


def _row(job: Job, record: Record, at: int, ticks: np.ndarray | None) -> Row:
    measured, launches = record.rows[at], record.launches[at]
    sms = int(record.provenance["multiprocessors"])
    l2 = int(record.provenance["l2_bytes"])
    failed = str(measured.get("failed", "" if launches else "not profiled"))
    kernel = measured.get("kernels", [{"per_sm": 0, "stages": 0}])[0]
    items = -(-job.sizes["N"] // job.tiles["B_r"]) * job.sizes["heads"]
    programs = min(job.programs or kernel["per_sm"] * sms, items)
    model = model_bytes(count(job.instance), job.instance, job.dtype)
    sram = sum(n for (way, _), n in model.items() if way == "load")
    predicted = dram.predicted_bytes(job, programs, l2) if programs else 0
    reads = ncu.total(launches, "dram")
    least = most = 0
    if ticks is not None and not job.programs:  # in step there is nothing to explain
        least = dram.drift_bytes(ticks, job, l2)
        most = dram.drift_bytes(ticks, job, l2 * dram.L2_SHARE)
    return Row(
        N=job.sizes["N"],
        d=job.sizes["d"],
        B_r=job.tiles["B_r"],
        stages=kernel.get("stages", 0),
        in_step=job.programs > 0,
        programs=programs,
        waves=-(-items // programs) if programs else 0,
        sram_load=sram,
        predicted=predicted,
        measured=reads["load", "*"],
        off=round(reads["load", "*"] / predicted - 1, 5) if predicted else 0.0,
        drift_least=least,
        drift_most=most,
        spread=round(dram.spread(ticks), 4) if ticks is not None else 0.0,
        window=round(min(1.0, l2 * dram.L2_SHARE / dram.swept_bytes(job)), 4),
        written=reads["store", "*"],
        time_s=measured.get("time_s", float("nan")),
        of_plain=_of_plain(job, record, measured.get("time_s", float("nan"))),
        sram_exact=ncu.total(launches, "sram")["load", "*"] == sram,
        failed=failed,
    )
