"""Hardware counters: Nsight Compute as a subprocess, its CSV as `Counts` per level.

Levels, and the counter that is exact there (docs/gpu.md has the evidence):

- ``sram``: between an SM and L2, what the model calls transfers.  Sectors that the load-store
  units asked for, times 32 bytes.
- ``l2``: what L1 passed on to L2.  Neighbouring SMs that ask for the same sectors at once are
  served together on Hopper, so reads may be fewer.
- ``dram``: what L2 could not serve.  Writes that are still in L2 at the end are not seen.
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from iosim.counts import Counts, Direction
from iosim.gpu.emitter.layout import SECTOR
from iosim.gpu.errors import GpuError

Place = tuple[str, Direction]

# (level, direction) → counter, and bytes per unit.
METRICS: dict[Place, tuple[str, int]] = {
    ("sram", "load"): ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", SECTOR),
    ("sram", "store"): ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", SECTOR),
    ("l2", "load"): ("lts__t_sectors_srcunit_tex_op_read.sum", SECTOR),
    ("l2", "store"): ("lts__t_sectors_srcunit_tex_op_write.sum", SECTOR),
    ("dram", "load"): ("dram__bytes_read.sum", 1),
    ("dram", "store"): ("dram__bytes_write.sum", 1),
}
LEVELS = ("sram", "l2", "dram")
MARK = "spin_kernel"  # what the worker launches between jobs

FORBIDDEN = (
    "the driver lets only administrators read hardware counters (ERR_NVGPUCTRPERM): run as root, "
    "or load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0; in-kernel counts and "
    "timings need no permission, and saved reports replay anywhere"
)
MISSING = (
    "ncu (Nsight Compute) is not on the PATH, so there are no hardware counters: install "
    "nsight-compute, or add its folder to PATH; in-kernel counts and timings come without it"
)


@dataclass(frozen=True)
class Launch:
    """One kernel launch as the hardware saw it: bytes per level, under the tensor name ``*``."""

    name: str
    levels: tuple[tuple[str, Counts], ...]

    def level(self, name: str) -> Counts:
        """Bytes at one level; empty if it was not read."""
        return dict(self.levels).get(name, Counts())


def total(launches: Iterable[Launch], level: str) -> Counts:
    """Bytes of several launches at one level."""
    return sum((launch.level(level) for launch in launches), Counts())


def profile(
    mode: str, spec: Path, out: Path, report: Path, levels: tuple[str, ...] = LEVELS
) -> None:
    """Run the worker under `ncu`; leaves the CSV in `report`, without host name or process id.

    Raises GpuError where `ncu` is missing, forbidden, or fails.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        raise GpuError(MISSING)
    counters = [name for (level, _), (name, _) in METRICS.items() if level in levels]
    log = report.with_suffix(".log")
    command = [
        ncu, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
        "--profile-from-start", "off", "--target-processes", "application-only",
        "--metrics", ",".join(counters), "--log-file", str(log),
        sys.executable, "-m", "iosim.gpu.run.worker", mode, str(spec), str(out),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    text = log.read_text() if log.exists() else ""
    log.unlink(missing_ok=True)
    said = text + done.stdout + done.stderr
    if "ERR_NVGPUCTRPERM" in said:
        raise GpuError(FORBIDDEN)
    if done.returncode:
        last = [line for line in said.splitlines() if line.strip()][-1:]
        raise GpuError(f"ncu failed ({done.returncode}): {' '.join(last)[:300]}")
    report.write_text(anonymous(text))


def anonymous(text: str) -> str:
    """The CSV part of a log: kernels and counters, nothing that names a host or a process."""
    rows = list(csv.reader(io.StringIO(_table(text))))
    wanted = {"Kernel Name", "Block Size", "Grid Size", *(name for name, _ in METRICS.values())}
    keep = [k for k, name in enumerate(rows[0]) if name in wanted]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[row[k] for k in keep] for row in rows])
    return out.getvalue()


def _table(text: str) -> str:
    """The lines from the header on; `ncu` mixes its own messages in, marked ``==``."""
    lines = [line for line in text.splitlines() if line and not line.startswith("==")]
    start = next((k for k, line in enumerate(lines) if "Kernel Name" in line), None)
    if start is None:
        raise GpuError("the report holds no table: ncu saw no kernels")
    return "\n".join(lines[start:])


def parse(text: str) -> list[list[Launch]]:
    """A report as lists of launches, one list per mark, in order.

    Raises GpuError for a report that is not one, or a counter that is not in base units.
    """
    rows = list(csv.DictReader(io.StringIO(text)))
    if len(rows) < 2 or "Kernel Name" not in rows[0]:
        raise GpuError("not a report of ncu --csv --page raw: save it with iosim gpu validate")
    units, *launches = rows
    groups: list[list[Launch]] = []
    for row in launches:
        name = row["Kernel Name"]
        if MARK in name:
            groups.append([])
        elif not groups:
            raise GpuError(f"the report starts with {name}, before any mark: it is cut off")
        else:
            groups[-1].append(Launch(name, _levels(row, units)))
    return groups


def _levels(row: dict[str, str], units: dict[str, str]) -> tuple[tuple[str, Counts], ...]:
    found = []
    for level in LEVELS:
        counts: list[tuple[tuple[Direction, str], int]] = []
        for (at, way), (metric, unit) in METRICS.items():
            if at == level and row.get(metric):
                if units[metric] not in ("sector", "byte"):
                    raise GpuError(
                        f"{metric} is in {units[metric]}: save the report with --print-units base"
                    )
                counts.append(((way, "*"), round(float(row[metric].replace(",", "")) * unit)))
        if counts:
            found.append((level, Counts(*counts)))
    return tuple(found)
