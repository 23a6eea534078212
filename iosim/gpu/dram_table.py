"""The DRAM table: every run's reads beside what the wave and drift models say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from iosim.gpu import dram, ncu
from iosim.gpu.errors import GpuError
from iosim.gpu.jobs import Job
from iosim.gpu.layout import model_bytes
from iosim.gpu.record import Record
from iosim.program.evaluate import count

IN_STEP_TOLERANCE = 0.01  # the bar for programs that are kept in step


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
    drift_predicted: int  # DRAM reads that the recorded sweeps explain
    drift_off: float
    spread: float  # of positions, as a share of the sweep
    written: int
    time_s: float
    sram_exact: bool
    failed: str = ""

    @property
    def good(self) -> bool:
        """The boundary above is exact, and a run in step is within 1% of its prediction."""
        near = not self.in_step or abs(self.off) <= IN_STEP_TOLERANCE
        return not self.failed and self.sram_exact and near


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
    drifted, spread = 0, 0.0
    if ticks is not None:
        drifted, spread = dram.drift_bytes(ticks, job, l2 * dram.L2_SHARE)
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
        drift_predicted=drifted,
        drift_off=round(reads["load", "*"] / drifted - 1, 5) if drifted else 0.0,
        spread=round(spread, 4),
        written=reads["store", "*"],
        time_s=measured.get("time_s", float("nan")),
        sram_exact=ncu.total(launches, "sram")["load", "*"] == sram,
        failed=failed,
    )
