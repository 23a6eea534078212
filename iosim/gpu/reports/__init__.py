"""Reports of the GPU: one file each, and one line each in `REPORTS`.

A `GpuReport` (`_entry`) has options, a plan of jobs, rows, a verdict and a panel of the figure.
``iosim gpu NAME`` runs it by `runner` into a record, and ``iosim gpu replay`` and ``figure`` read
records without a GPU; the lab's hardware view shows the rows.  Files whose names begin with ``_``
are shared.  An entry of `REPORTS` is an import string and a line of help, so that listing imports
nothing.

Changing files here: each committed record must pass its report's verdict with today's model
(``tests/gpu/test_gpu_records.py``): never loosen a threshold to make it pass.  Names of reports,
jobs and columns are in records and in docs/gpu.md, which shows the tables.  After a change of
columns, run ``python -m iosim.lab.data.hardware``, as a test of the lab asks.  A change of a plan
takes effect only in new runs.

>>> "bench" in REPORTS
True
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from iosim.base.memory import without_collection
from iosim.base.progress import track
from iosim.base.registry import registered
from iosim.gpu.errors import GpuError
from iosim.gpu.records.checksums import check_checksums

if TYPE_CHECKING:
    from iosim.gpu.reports._entry import GpuReport, ReportTable

__all__ = ["REPORTS", "SavedReport", "gpu_report", "replay"]

REPORTS: dict[str, tuple[str, str]] = {
    "validate": (
        "iosim.gpu.reports.validate",
        "Compare model, kernel and hardware byte for byte, over schedules × d × M × N.",
    ),
    "bench": (
        "iosim.gpu.reports.bench",
        "Time the emitted flash2 compared with PyTorch's fused and standard attention.",
    ),
    "backward": (
        "iosim.gpu.reports.backward",
        "Time backward passes compared with PyTorch's, and what its kernels move at SM↔L2.",
    ),
    "decode": (
        "iosim.gpu.reports.decode",
        "Decode one row, compared with PyTorch's kernel and the bandwidth of HBM (L2↔DRAM).",
    ),
    "dram": (
        "iosim.gpu.reports.dram",
        "Compare DRAM reads of flash2, plain and in lockstep, with the wave and drift models.",
    ),
    "l2size": (
        "iosim.gpu.reports.l2size",
        "Measure how much of L2 a sweep can use, by DRAM reads in two orders.",
    ),
    "paper": (
        "iosim.gpu.reports.paper",
        "Measure the FlashAttention paper's HBM traffic (L2↔DRAM) again.",
    ),
    "devices": (
        "iosim.gpu.reports.devices",
        "Compare bytes on links of several GPUs with the model; time with and without overlap.",
    ),
    "layers": (
        "iosim.gpu.reports.layers",
        "Compare layers of BERT, GPT-2 and Llama 3 in PyTorch with the model, kernel by kernel.",
    ),
}


def gpu_report(name: str) -> GpuReport:
    """A registered report, or InputError with the closest name.

    >>> gpu_report("bench").name
    'bench'
    """
    from iosim.gpu.reports._entry import GpuReport

    modules = {name: module for name, (module, _) in REPORTS.items()}
    return registered("report", name, modules, "REPORT", GpuReport)


@dataclass(frozen=True)
class SavedReport:
    """A record in a folder, and its table with today's model.

    >>> from dataclasses import fields
    >>> [field.name for field in fields(SavedReport)]
    ['folder', 'report', 'table']
    """

    folder: Path
    report: GpuReport
    table: ReportTable


@without_collection()
def replay(folder: Path) -> list[SavedReport]:
    """The tables of every record in a folder; the name before a dash says which report it is of.

    Raises GpuError if there is none, or if one is damaged or was changed after it was measured.

    >>> replay(Path("nowhere"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    iosim.gpu.errors.GpuError: nowhere holds no record ...
    """
    named = {path: path.name.split("-")[0] for path in sorted(folder.glob("*")) if path.is_dir()}
    reports = {path: gpu_report(name) for path, name in named.items() if name in REPORTS}
    if not reports:
        raise GpuError(f"{folder} holds no record ({', '.join(REPORTS)}): give the folder above")
    saved = [
        SavedReport(path, reports[path], reports[path].table(path))
        for path in track(reports, "records")
    ]
    for path in reports:
        check_checksums(path)
    return saved
