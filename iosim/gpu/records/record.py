"""Recording: run jobs once, keep what was asked, measured and counted, with where it came from.

A record is a folder: ``spec.json`` (the jobs), ``measured.json`` (in-kernel counts, errors,
times, resources, environment), ``report.csv`` (the counters) and ``provenance.json``.  Everything
that iosim says about a record is computed from these files, so a replay needs no GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from iosim.gpu.errors import GpuError
from iosim.gpu.records import counters as ncu
from iosim.gpu.run.job import Job


@dataclass(frozen=True)
class Record:
    """What a folder holds.

    Attributes:
        jobs: in order.
        rows: what the worker measured, one per job.
        launches: what the counters saw, one list per job; empty lists without counters.
        provenance: device, versions, date, commit and command.
    """

    jobs: tuple[Job, ...]
    rows: tuple[dict[str, Any], ...]
    launches: tuple[tuple[ncu.Launch, ...], ...]
    provenance: dict[str, str]

    @property
    def has_counters(self) -> bool:
        """Whether hardware counters were read."""
        return any(self.launches)


def work(mode: str, spec: Path, out: Path) -> None:
    """Run the worker without a profiler.  Raises GpuError with its last line if it fails."""
    command = [sys.executable, "-m", "iosim.gpu.run.worker", mode, str(spec), str(out)]
    # What the compiler says about kernels that fail is in their rows already.
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        raise GpuError(f"the GPU worker failed: {' '.join(last)[:300]}")


def record(
    jobs: Sequence[Job],
    folder: Path,
    command: str,
    *,
    counters: bool = True,
    levels: tuple[str, ...] = ncu.LEVELS,
) -> str:
    """Measure and profile jobs into a folder; returns a warning where counters are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in ("measured.json", "profiled.json", "report.csv", "provenance.json"):
        (folder / stale).unlink(missing_ok=True)
    spec = folder / "spec.json"
    spec.write_text(json.dumps({"jobs": [job.as_dict() for job in jobs]}))
    work("measure", spec, folder / "measured.json")
    environment = json.loads((folder / "measured.json").read_text())["environment"]
    warning = ""
    if counters:
        try:
            ncu.profile("profile", spec, folder / "profiled.json", folder / "report.csv", levels)
        except GpuError as error:
            warning = str(error)
    found = environment | provenance(command)
    (folder / "provenance.json").write_text(json.dumps(found, indent=1) + "\n")
    return warning


def provenance(command: str) -> dict[str, str]:
    """When, from which commit and by which command."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")  # noqa: UP017
    return {"date": now, "commit": _commit(), "command": command}


def _commit() -> str:
    if told := os.environ.get("IOSIM_COMMIT"):  # where the code was copied without its history
        return told
    here = Path(__file__).parent
    try:
        git = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"]
        done = subprocess.run(git, capture_output=True, text=True)
        return done.stdout.strip() or "unknown"
    except OSError:
        return "unknown"


def read(folder: Path) -> Record:
    """Load a record.  Raises GpuError for a folder that is not one."""
    try:
        spec = json.loads((folder / "spec.json").read_text())
        measured = json.loads((folder / "measured.json").read_text())
        where = json.loads((folder / "provenance.json").read_text())
    except (OSError, ValueError) as error:
        raise GpuError(f"{folder} is not a record of iosim gpu: {error}") from None
    jobs = tuple(Job(**job) for job in spec["jobs"])
    report = folder / "report.csv"
    groups: list[list[ncu.Launch]] = [[] for _ in jobs]
    if report.exists():
        profiled = json.loads((folder / "profiled.json").read_text())["rows"]
        seen = [row["job"] for row in profiled if "failed" not in row]
        found = ncu.parse(report.read_text())
        if len(found) != len(seen):
            raise GpuError(
                f"{report} has {len(found)} marks and {len(seen)} jobs were profiled: "
                "the report is cut off or of another run"
            )
        for at, launches in zip(seen, found, strict=True):
            names = {k.name for k in jobs[at].emitted().kernels}
            groups[at] = [launch for launch in launches if launch.name in names]
    return Record(jobs, tuple(measured["rows"]), tuple(map(tuple, groups)), where)
