"""The record of a report on layers: what was requested, what ran, what was counted.

``spec.json`` has the runs; ``measured.json`` times, launches and what a compiler fused, one row for
each run; ``report.csv`` the counters of one pass of each, after two checks of known size;
``profiled.json`` which runs these are; ``provenance.json`` device, versions, date, commit, command.

`tasks` writes it and `rows` and the report `iosim.gpu.reports.layers` read it.  Keys stay.
``tests/gpu/test_gpu_layers.py`` reads all committed records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError, closest
from iosim.base.reading import stored
from iosim.gpu.errors import GpuError
from iosim.gpu.layers.cases import VARIANTS, LayerCase, Variant
from iosim.gpu.layers.groups import CompiledGroup
from iosim.gpu.layers.launch_counters import GATES, Counted, read_counted
from iosim.gpu.layers.trace import Launch
from iosim.gpu.records.plain import read_json
from iosim.gpu.records.record import COUNTERS, MEASURED, PROFILED, PROVENANCE, SPEC, naming
from iosim.models.hardware import Hardware, of_driver


@dataclass(frozen=True)
class LayerRun:
    """One case in one variant."""

    case: LayerCase
    variant: str

    @property
    def how(self) -> Variant:
        """The variant."""
        return VARIANTS[self.variant]

    @property
    def name(self) -> str:
        """As a file's name may have it."""
        return f"{self.case.model}-{self.case.phase}-{self.variant}"


@dataclass(frozen=True)
class Spec:
    """What the worker has to do.

    Attributes:
        runs: in order; those of one case follow each other and are timed in turn.
        measure_s, profile_s: after this many seconds no more runs are started.  What measuring
            leaves of its own, the counters have besides.
        cache: the name of a folder for compiled kernels, that of this record alone.
    """

    runs: tuple[LayerRun, ...]
    measure_s: float
    profile_s: float
    cache: str


@dataclass(frozen=True)
class MeasuredRun:
    """What was measured of a run.

    Attributes:
        walls: seconds of one pass, with all that is between its kernels: means over some passes,
            taken in turn with the case's other variants.
        launches: what a pass runs on the GPU, in order, with the median of its times; kernels are
            places in the file's names.
        passes: of how many passes that is.
        covers: the range of each step → the operators of the graph that it covers.
        groups: what a compiler fused; empty where there is none.
        beside_eager: the largest difference of the output from the eager run's, relative to its
            largest; NaN where dropout makes them differ, or nothing was compared.
        failed: why there is nothing else.
    """

    walls: tuple[float, ...] = ()
    launches: tuple[Launch, ...] = ()
    passes: int = 0
    covers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    groups: tuple[CompiledGroup, ...] = ()
    beside_eager: float = math.nan
    failed: str = ""


@dataclass(frozen=True)
class _MeasuredFile:
    rows: tuple[MeasuredRun, ...]
    names: tuple[str, ...]
    took_s: float = 0.0
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProfiledRun:
    """A run whose counters were read, by its place in the spec; or why they were not."""

    run: int
    failed: str = ""


@dataclass(frozen=True)
class _ProfiledFile:
    rows: tuple[ProfiledRun, ...]


@dataclass(frozen=True)
class LayersRecord:
    """What a folder holds; the tuples have one entry per run, in order.

    Attributes:
        counted: what the counters saw of each kernel of a run; None where they were not read.
        gates: the same of what is of known size, by name; empty without counters.
    """

    folder: Path
    runs: tuple[LayerRun, ...]
    measured: tuple[MeasuredRun, ...]
    counted: tuple[tuple[Counted, ...] | None, ...]
    gates: Mapping[str, tuple[Counted, ...]]
    provenance: Mapping[str, str]
    machine: Hardware


def read_layers(folder: Path) -> LayersRecord:
    """Load a record.

    Raises GpuError, naming the file, where one is missing, damaged or of another run.
    """
    spec = read_json(folder / SPEC, Spec)
    found = read_json(folder / MEASURED, _MeasuredFile)
    provenance = read_json(folder / PROVENANCE, dict[str, str])
    if not spec.runs:
        raise GpuError(f"{folder / SPEC} holds no runs: the record is damaged")
    if len(found.rows) != len(spec.runs):
        raise GpuError(
            f"{folder / MEASURED} has {len(found.rows)} rows and {SPEC} "
            f"{len(spec.runs)} runs: they are of different runs"
        )
    for at, run in enumerate(spec.runs):
        with naming(f"{folder / SPEC}, run {at}"):
            _check_run(run)
    rows = []
    for at, (run, row) in enumerate(zip(spec.runs, found.rows, strict=True)):
        with naming(f"{folder / MEASURED}, row {at}"):
            rows.append(_named(run, row, found.names))
    machine = of_driver(provenance.get("device", ""))
    if machine is None:
        raise GpuError(
            f"{folder / PROVENANCE}: no machine of iosim is called "
            f"{provenance.get('device')!r} by its driver: name it there"
        )
    counted, gates = _counters(folder, len(spec.runs))
    return LayersRecord(folder, spec.runs, tuple(rows), counted, gates, provenance, machine)


def _check_run(run: LayerRun) -> None:
    if run.variant not in VARIANTS:
        raise InputError(f"unknown variant {run.variant!r}: {closest(run.variant, VARIANTS)}")
    word_bytes(run.case.dtype)
    run.case.ask(run.how)


def _named(run: LayerRun, row: MeasuredRun, names: tuple[str, ...]) -> MeasuredRun:
    """A row, checked, its kernels by their names."""
    if row.failed:
        return row
    if not row.launches or not row.walls:
        raise GpuError("it has no launches or no times and does not say why")
    for seconds in (*row.walls, *(x.time_s for x in row.launches)):
        if not 0 < seconds < 1e6:
            raise GpuError(f"a time is {seconds} s: no run takes that long")
    known = {op.name for op in run.case.graph(run.how).operators}
    for covered in row.covers.values():
        for name in covered:
            if name not in known:
                raise GpuError(f"{run.case.name} has no operator {name!r}: is it of another iosim?")
    launches = []
    for x in row.launches:
        if not isinstance(x.kernel, int) or not 0 <= x.kernel < len(names):
            raise GpuError(f"kernel {x.kernel} is none of the {len(names)} names")
        launches.append(Launch(**{**vars(x), "kernel": names[x.kernel]}))
    return MeasuredRun(**{**vars(row), "launches": tuple(launches)})


def _counters(
    folder: Path, runs: int
) -> tuple[tuple[tuple[Counted, ...] | None, ...], dict[str, tuple[Counted, ...]]]:
    found: list[tuple[Counted, ...] | None] = [None] * runs
    path, report = folder / PROFILED, folder / COUNTERS
    if not stored(report).exists():
        return tuple(found), {}
    rows = read_json(path, _ProfiledFile).rows
    if [row.run for row in rows] != list(range(runs)):
        raise GpuError(f"{path} is not of these {runs} runs: it is of another run")
    seen = [row.run for row in rows if not row.failed]
    groups = read_counted(report)
    if len(groups) != len(GATES) + len(seen):
        raise GpuError(
            f"{report} has {len(groups)} marks, {len(GATES)} gates and {len(seen)} runs were "
            "profiled: the report is cut off or of another run"
        )
    gates = dict(zip(GATES, groups, strict=False))
    for at, group in zip(seen, groups[len(GATES) :], strict=True):
        found[at] = group
    return tuple(found), gates
