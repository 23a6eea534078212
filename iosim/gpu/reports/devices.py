"""Several GPUs: bytes on their links compared with the model's words, and times with and without
overlap.

Calls of NCCL on vectors of known size, and schedules of `iosim.devices`, run as they are written by
a process for each GPU.  NVML's counters say what crossed NVLink.  Of each schedule four things are
timed: its products alone, its transfers alone, both one after the other, and both with overlap.
The model's time with overlap is the larger of the first two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from iosim.base.errors import InputError, IosimError
from iosim.base.rows import Row, Values
from iosim.core.units import parse_int
from iosim.devices.timing import DeviceTimes, device_times, link_speed
from iosim.gpu.errors import GpuError
from iosim.gpu.links.cases import LinkCase, calls, schedules
from iosim.gpu.links.tasks import LIMIT_S, measure
from iosim.gpu.records.plain import read_json
from iosim.gpu.records.record import MEASURED, PROVENANCE, SPEC, naming
from iosim.gpu.reports._entry import (
    GpuReport,
    ReportOption,
    ReportTable,
    WorkerRun,
    integers,
    sizes_option,
)
from iosim.gpu.run.requirements import devices
from iosim.models.hardware import of_driver

T = TypeVar("T")

# Bytes by counter over those of the model, from this many bytes in a run on, are below this.
THRESHOLD, FROM_BYTES = 1.002, 2**24
# Below this the host, which launches each transfer, takes longer than the devices.
FROM_US = 5000
# Results of fp16 compared with one device's.
LARGEST_DIFFERENCE = 5e-3
PROTOCOLS = ("Simple", "LL", "LL128")
PROTOCOL_MIB = (1, 16)


@dataclass(frozen=True)
class MeasuredLinks:
    """What was measured of a case; NaN and empty where nothing was.

    Attributes:
        data_sent, data_received: bytes of data on NVLink by device, over `counted_runs`.
        raw_sent, raw_received: the same with what the protocol adds.
        compute_s, communication_s: of products alone, and of transfers alone.
        apart_s, overlapped_s: of both, one after the other and with overlap.
        difference: the largest from one device's result, relative to the largest entry.
        runs: in one of the timings.
        failed: why there is nothing else.
    """

    counted_runs: int = 0
    data_sent: tuple[int, ...] = ()
    data_received: tuple[int, ...] = ()
    raw_sent: tuple[int, ...] = ()
    raw_received: tuple[int, ...] = ()
    compute_s: float = math.nan
    communication_s: float = math.nan
    apart_s: float = math.nan
    overlapped_s: float = math.nan
    difference: float = math.nan
    runs: int = 0
    failed: str = ""

    def __post_init__(self) -> None:
        for name in ("compute_s", "communication_s", "apart_s", "overlapped_s"):
            if not (getattr(self, name) > 0 or math.isnan(getattr(self, name))):
                raise GpuError(f"{name} is {getattr(self, name)}: no run takes that long")
        if self.counted_runs < 0 or min((*self.data_sent, *self.raw_sent, 0)) < 0:
            raise GpuError("a counter is below 0")


@dataclass(frozen=True)
class _SpecFile:
    cases: tuple[LinkCase, ...]
    backend: str
    limit_s: float


@dataclass(frozen=True)
class _MeasuredFile:
    rows: tuple[MeasuredLinks, ...]
    environment: dict[str, str]
    counters: str = ""


def _plan(given: Values) -> tuple[WorkerRun, ...]:
    P = given["P"]
    if P < 2:
        raise InputError(f"P = {P} has no link: give 2 or more")
    if 0 < (there := devices()) < P:
        raise GpuError(
            f"P = {P} GPUs are needed and the driver shows {there}: run on a machine that has "
            "them, or replay saved reports (iosim gpu replay)"
        )
    cases = calls(given["MiB"], P) + schedules(given["N"], P)
    for protocol in PROTOCOLS:
        cases += calls(PROTOCOL_MIB, P, protocol)
    cases += schedules(given["N"], P, graph=True)
    for case in cases:
        assert case.sent_bytes  # raises for what can't be sharded
    asked = {"cases": [case.as_dict() for case in cases], "backend": "nccl", "limit_s": LIMIT_S}
    return (WorkerRun("measure", asked, SPEC, MEASURED),)


def _ratio(bytes_by_device: tuple[int, ...], runs: int, model: int) -> float:
    if not (bytes_by_device and runs and model):
        return math.nan
    return round(max(bytes_by_device) / runs / model, 5)


def _modeled(case: LinkCase, device: str) -> DeviceTimes | None:
    """By the peaks of a machine that is known."""
    found = of_driver(device)
    if found is None or case.call:
        return None
    parts = [
        device_times(one, found.peak(case.dtype), link_speed(found), found.launch_s, case.dtype)
        for one in case.instances
    ]
    return DeviceTimes(
        sum(x.compute_s for x in parts),
        sum(x.communication_s for x in parts),
        sum(x.written_s for x in parts),
    )


def _us(seconds: float) -> float:
    return seconds if math.isnan(seconds) else float(f"{seconds * 1e6:.4g}")


def _row(case: LinkCase, found: MeasuredLinks, device: str) -> Row:
    model = max(case.sent_bytes)
    best = max(found.compute_s, found.communication_s)
    modeled = _modeled(case, device)
    how = "NCCL" if case.call else "graph" if case.graph else "program"
    return {
        "schedule": case.schedule,
        "how": how,
        "sizes": case.text,
        "P": case.P,
        "protocol": case.protocol or "chosen",
        "pieces": case.pieces,
        "model_sent_bytes": model,
        "data_over_model": _ratio(found.data_sent, found.counted_runs, model),
        "raw_over_model": _ratio(found.raw_sent, found.counted_runs, model),
        "gb_per_s": round(model / found.communication_s / 1e9, 1),
        "compute_us": _us(found.compute_s),
        "communication_us": _us(found.communication_s),
        "sum_us": _us(found.compute_s + found.communication_s),
        "apart_us": _us(found.apart_s),
        "max_us": _us(best if best == best else math.nan),
        "overlapped_us": _us(found.overlapped_s),
        "overlapped_over_max": round(found.overlapped_s / best, 3),
        "least_us": math.nan if modeled is None else _us(modeled.overlapped_s),
        "difference": found.difference,
        "failed": found.failed,
    }


def _read(path: Path, kind: type[T]) -> T:
    """A file of a record; every error names it."""
    try:
        return read_json(path, kind)
    except IosimError as error:
        text = str(error)
        raise GpuError(text if str(path) in text else f"{path}: {text}") from None


def _table(folder: Path) -> ReportTable:
    spec, measured = _read(folder / SPEC, _SpecFile), _read(folder / MEASURED, _MeasuredFile)
    told = read_json(folder / PROVENANCE, dict[str, str])
    if "device" not in told:
        raise GpuError(f"{folder / PROVENANCE} names no device: the record is damaged")
    device = told["device"]
    if len(spec.cases) != len(measured.rows):
        raise GpuError(
            f"{folder / MEASURED} has {len(measured.rows)} rows and {SPEC} {len(spec.cases)} "
            "cases: they are of different runs"
        )
    rows = []
    for at, (case, found) in enumerate(zip(spec.cases, measured.rows, strict=True)):
        with naming(f"{folder / SPEC}, case {at}"):
            rows.append(_row(case, found, device))
    ran = [row for row in rows if not row["failed"]]
    large = [
        row["data_over_model"]
        for row in ran
        if row["model_sent_bytes"] >= FROM_BYTES
        and row["protocol"] == "chosen"
        and not math.isnan(row["data_over_model"])
    ]
    both = [row["overlapped_over_max"] for row in ran if row["max_us"] >= FROM_US]
    worst = max((row["difference"] for row in ran), default=math.nan)
    counted = (
        f"bytes on NVLink are {min(large):.5f} to {max(large):.5f} of the model's from 16 MiB on"
        if large
        else f"no bytes were counted ({measured.counters or 'no counters'})"
    )
    overlapped = (
        f"; with overlap {min(both):.2f} to {max(both):.2f} times max(compute, communication) "
        f"where that is {FROM_US / 1e3:g} ms or more"
        if both
        else ""
    )
    text = (
        f"{len(rows)} cases, {len(rows) - len(ran)} failed; {counted}{overlapped}; results within "
        f"{worst:.1e} of one device's"
    )
    near = all(0.9999 <= x <= THRESHOLD for x in large)
    good = bool(ran) and worst <= LARGEST_DIFFERENCE and near
    why = "" if ran else next((row["failed"] for row in rows), "nothing ran")
    return ReportTable(rows, text, good, why)


REPORT = GpuReport(
    name="devices",
    options=(
        ReportOption(
            "P", "2", "devices: GPUs, a process each", lambda text: parse_int("P", text), "INT"
        ),
        ReportOption(
            "MiB", "1,4,16,64,256", "MiB of whole vectors, fp16", integers("MiB"), "INT,…"
        ),
        sizes_option("N", (2**k for k in range(11, 18))),
    ),
    plan=_plan,
    tasks={"measure": measure},
    table=_table,
    columns=(
        "schedule",
        "how",
        "sizes",
        "protocol",
        "model_sent_bytes",
        "data_over_model",
        "gb_per_s",
        "compute_us",
        "communication_us",
        "apart_us",
        "max_us",
        "overlapped_us",
        "difference",
        "failed",
    ),
)
