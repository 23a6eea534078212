"""Records: what one run was to do, measured and counted, with where it came from.

A record is a folder: ``spec.json`` (the jobs), ``measured.json`` (in-kernel counts, errors,
times, resources, environment), ``report.csv`` (the counters), ``profiled.json`` (what the counters
were read of) and ``provenance.json``.  Everything that iosim says about a record is computed from
these files, so a replay needs no GPU.  Each of them may be packed by gzip, as ``measured.json.gz``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.dtypes import word_bytes
from iosim.base.errors import IosimError
from iosim.base.reading import stored
from iosim.base.rows import Row
from iosim.core.counts import Counts, Key
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.kernels import KernelItems, count_items
from iosim.gpu.errors import GpuError
from iosim.gpu.records.counters import BOUNDARIES, KernelTraffic, read_report
from iosim.gpu.records.plain import read_json
from iosim.gpu.run.job import Job
from iosim.gpu.run.memory import check_dtype
from iosim.gpu.targets import target

SPEC, MEASURED, PROFILED = "spec.json", "measured.json", "profiled.json"
COUNTERS, PROVENANCE = "report.csv", "provenance.json"
FILES = (SPEC, MEASURED, PROFILED, COUNTERS, PROVENANCE)


@dataclass(frozen=True)
class KernelUse:
    """One kernel of a job: how long it took, and what the compiler gave it."""

    name: str
    grid: int
    time_s: float
    per_sm: int
    registers: int
    spills: int
    shared_bytes: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Measured:
    """What the worker measured of one job.

    Attributes:
        words: the kernels' own counts, by ``"load K"``; None where they were not requested.
        error: the largest one of any output, relative to the largest output.
        failed: why there is nothing else.
        beside_fused: the largest difference to PyTorch's fused attention, relative to the largest
            output; NaN where there is none, or none was taken.
    """

    words: dict[str, int] | None = None
    error: float = math.nan
    time_s: float = math.nan
    kernels: tuple[KernelUse, ...] = ()
    failed: str = ""
    beside_fused: float = math.nan

    def counts(self, job: Job) -> Counts | None:
        """The kernels' own counts.  Raises GpuError for a tensor that the program has not."""
        if self.words is None:
            return None
        moved = job.instance.program.keys()
        keys: dict[str, Key] = {" ".join(key): key for key in moved}
        if unknown := sorted(set(self.words) - set(keys)):
            raise GpuError(f"{job.algorithm} moves no {unknown[0]!r}")
        return Counts.of({keys[name]: n for name, n in self.words.items()})


@dataclass(frozen=True)
class Profiled:
    """What was read of one job while its counters were: the file of its clock, if it has one."""

    job: int
    clock: str = ""
    failed: str = ""


@dataclass(frozen=True)
class Record:
    """What a folder holds; the tuples have one entry per job, in order.

    Attributes:
        folder: where it lies.
        jobs: what was run; the first is the copy of known size.
        kernels: of each job, as they are emitted today.
        measured: what the worker measured.
        profiled: what was read in addition to the counters; empty where none were read.
        launches: what the counters saw; empty tuples where none were read.
        provenance: device, versions, date, commit and command.
        drawn: the seed and the number of the jobs after the first, where they were drawn.
    """

    folder: Path
    jobs: tuple[Job, ...]
    kernels: tuple[tuple[KernelItems, ...], ...]
    measured: tuple[Measured, ...]
    profiled: tuple[Profiled, ...]
    launches: tuple[tuple[KernelTraffic, ...], ...]
    provenance: dict[str, str]
    drawn: dict[str, int] = field(default_factory=dict)

    def device(self, what: str) -> int:
        """A number of the device, such as ``l2_bytes``; GpuError if the record has none."""
        return _device(self.provenance, what, self.folder)

    def warps(self, at: int) -> list[int]:
        """Of each kernel of a job."""
        return [kernel.warps for kernel in self.measured[at].kernels]

    def ticks(self, at: int) -> Ints | None:
        """When each item of a job started and ended, (items, 2) in nanoseconds; None without.

        Raises GpuError for a file that holds anything else.
        """
        clock = self.profiled[at].clock if self.profiled else ""
        if not clock:
            return None
        return _ticks(self.folder / clock, self.items(at))

    def items(self, at: int) -> int:
        """Of all kernels of a job."""
        return sum(kernel.items for kernel in self.kernels[at])


@dataclass(frozen=True)
class _Spec:
    jobs: tuple[Job, ...]
    drawn: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _MeasuredFile:
    rows: tuple[Measured, ...]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _ProfiledFile:
    rows: tuple[Profiled, ...]


def boundaries_of(jobs: Iterable[Job]) -> tuple[str, ...]:
    """Where counters are read for some jobs."""
    own = (name for job in jobs for name in target(job.target).boundaries)
    return tuple(dict.fromkeys((*BOUNDARIES, *own)))


def read_record(
    folder: Path, boundaries: Iterable[str] | None = None, *, needed: bool = True
) -> Record:
    """Load a record of jobs.

    Args:
        boundaries: where their counters were read; by default those of `boundaries_of`.
        needed: whether the counters must be there.

    Raises GpuError, naming the file, where one is missing, damaged or of another run.
    """
    spec, measured = _read_rows(folder)
    jobs = spec.jobs
    provenance = read_json(folder / PROVENANCE, dict[str, str])
    memory = _device(provenance, "memory_bytes", folder)
    kernels = []
    for at, (job, row) in enumerate(zip(jobs, measured, strict=True)):
        with naming(f"{folder / SPEC}, job {at}"):
            kernels.append(_kernels_of(job, memory))
        with naming(f"{folder / MEASURED}, row {at}"):
            _check_measured(job, row)
    profiled: tuple[Profiled, ...] = ()
    launches: list[tuple[KernelTraffic, ...]] = [() for _ in jobs]
    if needed or stored(folder / COUNTERS).exists():
        profiled = _read_profiled(folder, len(jobs))
        where = boundaries_of(jobs) if boundaries is None else boundaries
        launches = _read_launches(folder, kernels, profiled, where)
    return Record(
        folder, jobs, tuple(kernels), measured, profiled, tuple(launches), provenance, spec.drawn
    )


def read_measured(folder: Path) -> tuple[tuple[Job, ...], tuple[Measured, ...]]:
    """Jobs of a record and what was measured of each, with neither kernels nor counters.

    Raises GpuError, naming the file, where one is missing, damaged or of another run.
    """
    spec, measured = _read_rows(folder)
    return spec.jobs, measured


def _read_rows(folder: Path) -> tuple[_Spec, tuple[Measured, ...]]:
    spec = read_json(folder / SPEC, _Spec)
    measured = read_json(folder / MEASURED, _MeasuredFile).rows
    if not spec.jobs:
        raise GpuError(f"{folder / SPEC} holds no jobs: the record is damaged")
    if len(measured) != len(spec.jobs):
        raise GpuError(
            f"{folder / MEASURED} has {len(measured)} rows and {SPEC} {len(spec.jobs)} jobs: "
            "they are of different runs"
        )
    return spec, measured


@contextlib.contextmanager
def naming(where: str) -> Iterator[None]:
    """Say in which file and entry an error was found."""
    try:
        yield
    except IosimError as error:
        raise GpuError(f"{where}: {error}") from None


def _kernels_of(job: Job, memory: int) -> tuple[KernelItems, ...]:
    """The job's kernels; raises IosimError for a job that no run can have had."""
    check_dtype(job.dtype)
    job.check_form()
    instance = job.instance
    need = sum(
        layout.allocation(t, instance) * word_bytes(job.dtype, t.wide)
        for t in instance.program.tensors
    )
    if need > memory:
        raise GpuError(f"its tensors take {need} bytes and the device has {memory}")
    return count_items(instance)


def _check_measured(job: Job, row: Measured) -> None:
    row.counts(job)
    if row.time_s <= 0 or any(k.time_s <= 0 for k in row.kernels):
        raise GpuError(f"time_s is {row.time_s}: no run takes that long")
    if not row.failed and not row.kernels:
        raise GpuError("it has no kernels and does not say why")


def _read_profiled(folder: Path, jobs: int) -> tuple[Profiled, ...]:
    path = folder / PROFILED
    rows = read_json(path, _ProfiledFile).rows
    if [row.job for row in rows] != list(range(jobs)):
        raise GpuError(f"{path} is not of these {jobs} jobs: it is of another run")
    for row in rows:
        if row.clock != Path(row.clock).name:
            raise GpuError(f"{path} names the clock {row.clock!r}, which is not a file next to it")
    return rows


def _read_launches(
    folder: Path,
    kernels: list[tuple[KernelItems, ...]],
    profiled: tuple[Profiled, ...],
    boundaries: Iterable[str],
) -> list[tuple[KernelTraffic, ...]]:
    path = folder / COUNTERS
    seen = [row.job for row in profiled if not row.failed]
    groups = read_report(path, boundaries)
    if len(groups) != len(seen):
        raise GpuError(
            f"{path} has {len(groups)} marks and {len(seen)} jobs were profiled: "
            "the report is cut off or of another run"
        )
    found: list[tuple[KernelTraffic, ...]] = [() for _ in kernels]
    for at, group in zip(seen, groups, strict=True):
        wanted = [kernel.name for kernel in kernels[at]]
        # What clears the counter of the check is a launch, too, and no kernel of the job.
        own = tuple(launch for launch in group if launch.kernel in wanted)
        if [launch.kernel for launch in own] != wanted:
            saw = ", ".join(launch.kernel for launch in group)[:200] or "nothing"
            raise GpuError(
                f"{path} has for job {at} the kernels {saw} instead of {', '.join(wanted)}: "
                "the report is of another run"
            )
        found[at] = own
    return found


def read_device(folder: Path, what: str) -> int:
    """A number of the device of a record, such as ``l2_bytes``; GpuError if it has none."""
    return _device(read_json(folder / PROVENANCE, dict[str, str]), what, folder)


def _device(provenance: dict[str, str], what: str, folder: Path) -> int:
    text = provenance.get(what, "")
    if not (text.isdecimal() and len(text) < 19 and int(text)):
        raise GpuError(f"{folder / PROVENANCE} has no number {what}: the record is damaged")
    return int(text)


def _ticks(path: Path, items: int) -> Ints:
    try:
        with zipfile.ZipFile(path) as archive, archive.open("ns.npy") as file:
            # The header first: a small file may unpack to anything.
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        if shape != (items, 2) or dtype != np.int64:
            raise GpuError(
                f"{path} holds {dtype} of shape {shape}, not the two times of {items} items: "
                "it is of another run"
            )
        with np.load(path, allow_pickle=False) as archive_:
            found: Ints = archive_["ns"]
    except GpuError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy raise a dozen kinds for damaged files
        raise GpuError(f"cannot read {path} as clock readings: {error}") from None
    return found


def as_plain(row: Measured | Profiled) -> Row:
    """A row as JSON data, without the fields that have their defaults."""
    plain = dataclasses.asdict(row)
    blank = {f.name: f.default for f in dataclasses.fields(row)}
    # NaN is a default and equals nothing.
    return {name: x for name, x in plain.items() if x is not blank[name] and x != blank[name]}
