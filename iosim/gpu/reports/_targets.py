"""What reports ask of a target: its option, its counters, and bytes that it should move.

`runner`, `bench` and `validate` ask it; a target itself is a record in `iosim.gpu.targets`.
``tests/gpu/test_gpu_targets.py`` checks which target runs where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from iosim.core.counts import Direction, Key
from iosim.core.program.walk import Instance
from iosim.gpu.errors import EmitError
from iosim.gpu.l2 import WAYS
from iosim.gpu.records.counters import KernelTraffic, moved_at
from iosim.gpu.records.plain import read_json
from iosim.gpu.records.record import PROVENANCE
from iosim.gpu.reports._entry import ReportOption
from iosim.gpu.run.job import Job
from iosim.gpu.targets import AUTO, PLAIN, TARGETS, check_target, target

INSTEAD = "instead"  # in a record's provenance: why another target ran than was requested


def target_option() -> ReportOption:
    """What kernels are emitted for."""
    return ReportOption(
        "target", PLAIN, f"target: {', '.join(TARGETS)}, or {AUTO} by the device", check_target
    )


def style_option() -> ReportOption:
    """How kernels are written, where the target has several ways."""
    names = dict.fromkeys(style for name in TARGETS for style in target(name).styles)
    return ReportOption(
        "style", "", f"style: of the target, {', '.join(names)}, or both with a comma", str
    )


def ran_instead(folder: Path) -> str:
    """The end of a summary: why a record's target is not the one that was requested, or ""."""
    if not (folder / PROVENANCE).exists():
        return ""
    why = read_json(folder / PROVENANCE, dict[str, str]).get(INSTEAD, "")
    return why and f"; {why}"


def formed(job: Job) -> Job | None:
    """A job with tiles for which its target has a form; None if there are none.

    The largest tile is halved until there is one.  The plain target says itself what it lacks.

    >>> job = Job("flash2", {"N": 1024, "d": 64, "heads": 1}, {"B_r": 512, "B_c": 32})
    >>> formed(replace(job, target="hopper")).tiles
    {'B_r': 128, 'B_c': 32}
    """
    least = target(job.target).least_rows
    while least:
        try:
            job.emitted()
        except EmitError:
            name = max(job.tiles, key=lambda x: job.tiles[x])
            if job.tiles[name] <= least:
                return None
            job = replace(job, tiles=job.tiles | {name: job.tiles[name] // 2})
        else:
            break
    return job


def sectors_of(job: Job, instance: Instance) -> dict[Direction, int]:
    """Bytes that the hardware should count between SM and L2 for an instance of a job."""
    return ways_of(target(job.target).bytes(instance, job.dtype))


def copied_of(job: Job, launches: Iterable[KernelTraffic]) -> tuple[int, int]:
    """Bytes loaded and stored by the target's own counters, in addition to those of all kernels."""
    seen = list(launches)
    copied = [moved_at(name, seen) for name in target(job.target).boundaries]
    return sum(x.load_bytes for x in copied), sum(x.store_bytes for x in copied)


def ways_of(table: Mapping[Key, int]) -> dict[Direction, int]:
    """Words or bytes by tensor, added up for either direction."""
    return {way: sum(n for (w, _), n in table.items() if w == way) for way in WAYS}
