"""What reports ask of a target: its option, its counters, and bytes that it should move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from iosim.counts import Direction, Key
from iosim.errors import InputError, closest
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.bulk import bulk_bytes
from iosim.gpu.emitter.kernels import TARGETS
from iosim.gpu.emitter.warps import ROWS as LEAST_ROWS
from iosim.gpu.errors import EmitError
from iosim.gpu.records.counters import BOUNDARIES, BULK, KernelTraffic, moved_at
from iosim.gpu.reports._entry import ReportOption
from iosim.gpu.run.job import Job
from iosim.program.walk import Instance


def target_option() -> ReportOption:
    """What kernels are emitted for."""
    return ReportOption("target", TARGETS[0], " or ".join(TARGETS), _target)


def _target(text: str) -> str:
    if text not in TARGETS:
        raise InputError(f"unknown target {text!r}: {closest(text, TARGETS)}")
    return text


def formed(job: Job) -> Job | None:
    """A job with tiles for which its target has a form; None where there are none.

    The largest tile is halved until there is one.  The plain target says itself what it lacks.

    >>> job = Job("flash2", {"N": 1024, "d": 64, "heads": 1}, {"B_r": 512, "B_c": 32})
    >>> formed(replace(job, target="hopper")).tiles
    {'B_r': 128, 'B_c': 32}
    """
    if job.target == TARGETS[0]:
        return job
    while True:
        try:
            job.emitted()
        except EmitError:
            name = max(job.tiles, key=lambda x: job.tiles[x])
            if job.tiles[name] <= LEAST_ROWS:
                return None
            job = replace(job, tiles=job.tiles | {name: job.tiles[name] // 2})
        else:
            return job


def boundaries_of(jobs: Iterable[Job]) -> tuple[str, ...]:
    """Where counters are read for some jobs."""
    bulk = any(job.target == "hopper" for job in jobs)
    return (*BOUNDARIES, BULK.name) if bulk else tuple(BOUNDARIES)


def sectors_of(job: Job, instance: Instance) -> dict[Direction, int]:
    """Bytes that the hardware should count between SM and L2 for an instance of a job."""
    folds = {"triton": layout.sector_bytes, "hopper": bulk_bytes}
    return ways_of(folds[job.target](instance, job.dtype))


def copied_of(job: Job, launches: Iterable[KernelTraffic]) -> tuple[int, int]:
    """Bytes that bulk copies loaded and stored, where the job's kernels have any."""
    if job.target != "hopper":
        return 0, 0
    copied = moved_at(BULK.name, launches)
    return copied.load_bytes, copied.store_bytes


def ways_of(table: Mapping[Key, int]) -> dict[Direction, int]:
    """Words or bytes by tensor, added up for either direction."""
    ways: tuple[Direction, Direction] = ("load", "store")
    return {way: sum(n for (w, _), n in table.items() if w == way) for way in ways}
