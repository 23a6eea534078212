"""What reports of speed share: kernels that fit, one kernel's time, and several in turn."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any

from iosim.base.errors import InputError
from iosim.gpu.errors import GpuError
from iosim.gpu.run.job import Job


def fitting(tried: Iterable[tuple[Job, int]], M: int, what: str) -> list[Job]:
    """Of kernels with the words they need, those within M words.

    Raises InputError if none is, with the least M that holds one of `what`.
    """
    found = list(tried)
    fit = [job for job, words in found if words <= M]
    if not fit:
        least = min(words for _, words in found)
        raise InputError(f"M = {M} words holds no {what}: use M >= {least}")
    return fit


def timed(job: Job) -> float:
    """Seconds of a launch; infinite for what is too large for the chip."""
    from iosim.gpu.run.cuda import Cuda
    from iosim.gpu.run.launch import prepare

    device = Cuda(job)
    try:
        kernels = prepare(job.emitted(), device.tensors(), device, count=False)

        def go() -> None:
            for kernel in kernels:
                kernel.go()

        return device.median_time(go, least=10)
    except GpuError:  # too many stages for this tile: not a candidate after all
        return float("inf")


def at_least(share: float) -> str:
    """A measured share as it stands after "at least": two places, never rounded up.

    >>> at_least(0.997), at_least(0.29), at_least(1.0)
    ('0.99', '0.29', '1.00')
    """
    # 0.29 is 28.999999999999996 hundredths
    return f"{math.floor(round(share * 100, 6)) / 100:.2f}"


AHEAD = 400_000  # cycles for which the GPU is kept busy while a launch is queued


def interleaved(
    torch: Any, runs: dict[str, Any], *, queued: bool = False
) -> tuple[dict[str, float], int]:
    """Median seconds of each, taken in turn so that clocks and heat are shared.

    Args:
        queued: launches are queued while the GPU is busy, so that no time of the CPU is counted.
    """
    left, times = dict(runs), {name: [float("nan")] for name in runs}
    for name, go in runs.items():
        try:
            go()
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            del left[name]
    rounds, spent = 0, 0.0
    while rounds < 10 or (spent < 1.0 and rounds < 60):
        for name, go in left.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if queued:
                torch.cuda._sleep(AHEAD)
            start.record()
            go()
            stop.record()
            stop.synchronize()
            seconds = start.elapsed_time(stop) / 1000
            times[name] = [seconds] if rounds == 0 else [*times[name], seconds]
            spent += seconds
        rounds += 1
    return {name: statistics.median(t) for name, t in times.items()}, rounds
