"""What reports of speed share: kernels that fit, the fastest of them, and several in turn.

`bench`, `backward` and `decode` time kernels with it.  Keys of `UNITS` are in the names of recorded
columns, and `at_least` never rounds up what a verdict says (``tests/gpu/test_gpu_records.py``).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from iosim.base.errors import InputError
from iosim.base.rows import Row
from iosim.core.counting.numbers import peak
from iosim.gpu.errors import GpuError
from iosim.gpu.run.job import Job

K = TypeVar("K")

AHEAD = 400_000  # cycles for which the GPU is kept busy while a launch is queued
# What speeds are in.
UNITS = {"tflops": 1e12, "gb_per_s": 1e9}


def fitting(tried: Iterable[Job], M: int, what: str) -> list[Job]:
    """Of kernels those that need at most M words.

    Raises InputError if none does, with the least M that holds one of `what`.
    """
    found = [(job, peak(job.instance)) for job in tried]
    fit = [job for job, words in found if words <= M]
    if not fit:
        least = min(words for _, words in found)
        raise InputError(f"M = {M} words holds no {what}: use M >= {least}")
    return fit


class Ready:
    """The kernels of a job with their tensors, on the GPU."""

    def __init__(self, job: Job) -> None:
        from iosim.gpu.run.cuda import Cuda
        from iosim.gpu.run.launch import prepare

        self.job, self.device = job, Cuda(job)
        self.memory = self.device.tensors()
        self.kernels = prepare(job.emitted(), self.memory, self.device, count=False)

    def go(self) -> None:
        """Launch them, in order."""
        for kernel in self.kernels:
            kernel.go()

    def window(self, name: str) -> Any:
        """A tensor without its padding."""
        return self.device.window(self.memory[name], name)

    def time_beside(
        self, others: Mapping[str, Callable[[], Any]], work: float, unit: str, queued: bool = False
    ) -> Row:
        """Columns of a row: seconds and speed of these kernels and of others, taken in turn.

        Args:
            others: what else does the work, by name.
            work: FLOP, or bytes.
            unit: of speed, one of `UNITS`.
            queued: as for `interleaved`.
        """
        runs = {"emitted": self.go, **others}
        times, launches = interleaved(self.device.torch, runs, queued=queued)
        return {
            "warps": self.job.warps,
            "stages": min(used.stages for used in self.device.resources.values()),
            **{f"{name}_s": t for name, t in times.items()},
            **{f"{name}_{unit}": round(work / t / UNITS[unit], 1) for name, t in times.items()},
            "launches": launches,
        }


def tune(tried: Mapping[K, list[Job]]) -> dict[K, Job]:
    """The fastest of each list of jobs."""
    from iosim.gpu.run.tasks import compile_all

    compile_all([job for some in tried.values() for job in some])
    return {key: min(some, key=_time) for key, some in tried.items()}


def _time(job: Job) -> float:
    """Seconds of a launch; infinite for what is too large for the chip."""
    try:
        ready = Ready(job)
        return ready.device.median_time(ready.go, least=10)
    except GpuError:  # too many stages for this tile: not a candidate after all
        return math.inf


def resized(tuned: Job, problem: Any) -> Job:
    """A job for another problem, with all that was chosen for one."""
    how = {x: getattr(tuned, x) for x in ("M", "warps", "stages", "target", "style")}
    return Job.of(tuned.algorithm, problem, tuned.tiles, **how)


def at_least(share: float) -> str:
    """A measured share as it stands after "at least": two places, never rounded up.

    >>> at_least(0.997), at_least(0.29), at_least(1.0)
    ('0.99', '0.29', '1.00')
    """
    # 0.29 is 28.999999999999996 hundredths
    return f"{math.floor(round(share * 100, 6)) / 100:.2f}"


def interleaved(
    torch: Any, runs: Mapping[str, Callable[[], Any]], *, queued: bool = False
) -> tuple[dict[str, float], int]:
    """Median seconds of each, taken in turn so that clocks and heat are shared.

    Args:
        queued: launches are queued while the GPU is busy, so that no time of the CPU is counted.
    """
    from iosim.gpu.run.cuda import time_between_events

    left, times = dict(runs), {name: [math.nan] for name in runs}
    for name, go in runs.items():
        try:
            go()
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            del left[name]
    rounds, spent = 0, 0.0
    while rounds < 10 or (spent < 1.0 and rounds < 60):
        for name, go in left.items():
            seconds = time_between_events(torch, go, ahead=AHEAD if queued else 0)
            times[name] = [seconds] if rounds == 0 else [*times[name], seconds]
            spent += seconds
        rounds += 1
    return {name: statistics.median(t) for name, t in times.items()}, rounds
