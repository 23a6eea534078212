"""Runs of the worker: on its own, or under Nsight Compute, which reads the hardware's counters."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from iosim.base.writing import write_text
from iosim.gpu.errors import GpuError
from iosim.gpu.records.counters import anonymous, known_boundary
from iosim.gpu.run.requirements import FORBIDDEN, NO_NCU

# How counters are printed: as one table, in base units.
EXPORT = ("--csv", "--page", "raw", "--print-units", "base")


def work(report: str, task: str, spec: Path, out: Path) -> None:
    """Run one task of a report's worker.  Raises GpuError with its last line if it fails."""
    # What the compiler says about kernels that fail is in their rows already.
    done = subprocess.run(_worker(report, task, spec, out), capture_output=True, text=True)
    if done.returncode:
        raise GpuError(f"the GPU worker failed: {_last_line(done.stderr)}")


def profile(
    report: str,
    task: str,
    spec: Path,
    out: Path,
    counters: Path,
    boundaries: Iterable[str],
    others: Iterable[Sequence[str]] = (),
) -> None:
    """Run one task of a report's worker under `ncu`.

    Leaves the counters at `boundaries` as CSV in the file `counters`, without host name or
    process id, and of each of `others` the first that this machine has.  Raises GpuError where
    `ncu` is missing, forbidden, or fails.
    """
    ncu = find_ncu(NO_NCU)
    read = [known_boundary(name) for name in boundaries]
    metrics = [x for one in read for x in (one.load, one.store)]
    metrics += _there(ncu, list(others))
    log = counters.with_suffix(".log")
    options = ["--profile-from-start", "off", "--target-processes", "application-only"]
    command = [
        ncu,
        *ncu_options(metrics, *options, "--log-file", str(log)),
        *_worker(report, task, spec, out),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    text = log.read_text() if log.exists() else ""
    log.unlink(missing_ok=True)
    said = text + done.stdout + done.stderr
    if "ERR_NVGPUCTRPERM" in said:
        raise GpuError(FORBIDDEN)
    if done.returncode:
        raise GpuError(f"ncu failed ({done.returncode}): {_last_line(said)}")
    write_text(counters, anonymous(text, metrics))


def _there(ncu: str, others: list[Sequence[str]]) -> list[str]:
    """Of each, the first that `ncu` lists for this machine; the first of all where it lists none.

    A counter that a chip has not would make `ncu` refuse all.
    """
    if not others:
        return []
    listed = listed_counters(ncu)
    if not any(_base(name) in listed for names in others for name in names):
        return [names[0] for names in others]
    found = (next((x for x in names if _base(x) in listed), "") for names in others)
    return [name for name in found if name]


def find_ncu(missing: str) -> str:
    """The path of `ncu`, or GpuError with what to say."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise GpuError(missing)
    return ncu


def ncu_options(metrics: Iterable[str], *options: str) -> list[str]:
    """Options with which `ncu` reads counters into a table, at the clocks that there are."""
    return [*EXPORT, "--clock-control", "none", *options, "--metrics", ",".join(metrics)]


def listed_counters(ncu: str) -> frozenset[str]:
    """The counters of this chip, as `ncu` lists them; none where it lists none."""
    done = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True)
    names = (line.split()[0] for line in done.stdout.splitlines() if line.strip())
    return frozenset(x for x in names if "__" in x)


def _base(name: str) -> str:
    """A counter without the way in which units are added up."""
    return name.partition(".")[0]


def _worker(report: str, task: str, spec: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "iosim.gpu.run.worker", report, task, str(spec), str(out)]


def _last_line(text: str) -> str:
    last = [line for line in text.splitlines() if line.strip()][-1:]
    return " ".join(last)[:300]
