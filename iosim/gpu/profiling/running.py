"""Profiling a command: `ncu` with the counters that a verdict needs, and no more.

``iosim profile -- COMMAND`` calls it.  ``tests/gpu/test_profile.py`` has a stand-in for `ncu`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iosim.gpu.errors import GpuError
from iosim.gpu.profiling import metrics
from iosim.gpu.profiling.launch import DEVICE, KernelLaunch
from iosim.gpu.profiling.reading import read_text
from iosim.gpu.run import requirements
from iosim.gpu.run.profiler import find_ncu, listed_counters, ncu_options

MISSING = (
    "ncu (Nsight Compute) is not on the PATH: install nsight-compute or the CUDA toolkit, or add "
    "its folder to PATH; a report that exists needs none: give the file that `ncu --csv --page "
    "raw` printed elsewhere"
)
NO_GPU = (
    "there is no NVIDIA GPU here that the driver shows: profile where there is one, and give the "
    "report here"
)
FORBIDDEN = (
    "the driver lets only administrators read hardware counters (ERR_NVGPUCTRPERM): run as root or "
    "load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0; a report that exists needs "
    "no permission"
)
# Names of metrics that ncu does not list, and has.
_UNLISTED = ("launch__", "device__", "profiler__", "sm__maximum")


@dataclass(frozen=True)
class Profiling:
    """How a command is profiled.

    Attributes:
        command: it and its arguments.
        kernels: a regular expression; only kernels whose name has it. "" for all.
        launches: at most this many launches, after the first `skip`; 0 for all.
        skip: launches that are left out at first.
        marked: whether only what is between cudaProfilerStart and cudaProfilerStop counts.
        patched: whether FLOP of the ordinary units are counted, by patching kernels.
    """

    command: tuple[str, ...]
    kernels: str = ""
    launches: int = 0
    skip: int = 0
    marked: bool = False
    patched: bool = True


def run(asked: Profiling) -> tuple[KernelLaunch, ...]:
    """Profile a command and read what `ncu` printed.

    Raises GpuError where a GPU, `ncu` or the permission is missing, where the command fails, and
    where it launches no kernel.
    """
    ncu = find_ncu(MISSING)
    if not requirements.devices():
        raise GpuError(NO_GPU)
    if requirements.forbidden():
        raise GpuError(FORBIDDEN)
    if shutil.which(asked.command[0]) is None:
        raise GpuError(f"there is no command {asked.command[0]!r}: give it as it is typed")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "report.csv"
        command = [
            ncu,
            *arguments(asked, listed_counters(ncu)),
            "--log-file",
            str(log),
            *asked.command,
        ]
        # What the command prints goes to stderr as it comes, past the tables of this one.
        done = subprocess.run(command, stdout=2)
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if "ERR_NVGPUCTRPERM" in text:
        raise GpuError(FORBIDDEN)
    if done.returncode:
        raise GpuError(f"ncu failed ({done.returncode}): {_reason(text)}")
    return read_text(text, "what ncu printed")


def versions() -> dict[str, str]:
    """Of `ncu` and of the driver here; ``unknown`` where they don't say it."""
    ncu, found = shutil.which("ncu"), None
    if ncu is not None:
        said = subprocess.run([ncu, "--version"], capture_output=True, text=True).stdout
        found = re.search(r"^Version (\S+)", said, re.MULTILINE)
    return {"driver": requirements.driver_version(), "ncu": found[1] if found else "unknown"}


def arguments(asked: Profiling, listed: frozenset[str]) -> list[str]:
    """The options of `ncu`.

    Args:
        listed: the counters that the chip has; none: they are not known, and all are requested.

    >>> arguments(Profiling(("true",), kernels="flash"), frozenset())[-4:-2]
    ['--kernel-name', 'regex:flash']
    """
    more = ["--kernel-name", f"regex:{asked.kernels}"] if asked.kernels else []
    more += ["--launch-count", str(asked.launches)] if asked.launches else []
    more += ["--launch-skip", str(asked.skip)] if asked.skip else []
    more += ["--profile-from-start", "off"] if asked.marked else []
    return ncu_options(counters(asked.patched, listed), "--target-processes", "all", *more)


def counters(patched: bool, listed: frozenset[str]) -> list[str]:
    """The counters to be read: of each quantity the first form that the chip has."""
    found: dict[str, None] = {DEVICE: None}
    for one in metrics.QUANTITIES.values():
        forms = [f for f in one.forms if not listed or all(_there(x, listed) for x in f)]
        for counter in forms[0] if forms else ():
            if patched or metrics.PATCHED not in counter:
                found[counter] = None
    return [x for x in found if not x.startswith("profiler__")]  # these come by themselves


def _there(counter: str, listed: frozenset[str]) -> bool:
    return counter.startswith(_UNLISTED) or counter.partition(".")[0] in listed


def _reason(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("==ERROR==")]
    last: Sequence[str] = errors or lines[-1:]
    return " ".join(last)[:600]
