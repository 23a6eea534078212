"""Reports of Nsight Compute as launches, whatever page and layout they were saved in.

`READERS` has one reader for each layout of ``ncu --csv``; which one a table needs follows from its
columns.  A ``.ncu-rep`` is exported by ``ncu --import`` first.  A folder is a record of iosim,
whose counters are in ``report.csv``.

``iosim profile`` and `running` call it.  ``tests/gpu/test_profile_reading.py`` wants the same
launches from every layout.
"""

from __future__ import annotations

import codecs
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from iosim.base.errors import InputError
from iosim.base.reading import parse, read_bytes, stored
from iosim.base.reading import read_text as text_of
from iosim.base.rows import Row
from iosim.gpu.errors import GpuError
from iosim.gpu.profiling.foreign import refuse
from iosim.gpu.profiling.labels import counter_of
from iosim.gpu.profiling.launch import CAPABILITY, DEVICE, Dim, KernelLaunch
from iosim.gpu.profiling.tables import BLOCK, GRID, KERNEL, TableLine, TextTable, find_table
from iosim.gpu.profiling.units import ABSENT, check_value, in_base
from iosim.gpu.records.checksums import check_checksums
from iosim.gpu.records.counters import MARK
from iosim.gpu.run.profiler import EXPORT

REPORT, PROVENANCE, SUFFIX = "report.csv", "provenance.json", ".ncu-rep"
VERSIONS = ("driver", "ncu")
ROUNDED = "rounded"  # a record's counters of which the report had rounded values
MAGIC = b"NVR"
MOST_BYTES = 2**28  # of a report
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Columns that are not counters: what they name is of the host, or of the order of launches.
PLACES = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    KERNEL,
    "Kernel Time",
    "Context",
    "Stream",
    BLOCK,
    GRID,
    "Device",
    CAPABILITY,
    "Device Name",
    "Section Name",
    "Rule Name",
    "Invocations",
)
# Of these a cell may be text.
_TEXTS = ("device__attribute_", "launch__", "profiler__", "nvlink__", "numa__", "pmsampling:")
_DIM = re.compile(r"\(?\s*{0}\s*,\s*{0}\s*,\s*{0}\s*\)?".format(r"([1-9]\d{0,9})"), re.ASCII)
_NO_KERNELS = (
    "{} holds no kernels: check that the program launches any, and that its name filter and "
    "cudaProfilerStart let some through"
)


@dataclass(frozen=True)
class TableReader:
    """A layout of ``ncu --csv``.

    Attributes:
        title: what it is called in messages.
        needs: the columns that identify it; the first reader that has all of them is taken.
        read: the table → its launches, in order.
    """

    title: str
    needs: frozenset[str]
    read: Callable[[TextTable], Iterator[KernelLaunch]]


def read(path: Path) -> tuple[KernelLaunch, ...]:
    """All launches of a report, in order.

    Args:
        path: what ``ncu --csv`` printed, a ``.ncu-rep``, or the folder of a record.

    Raises GpuError, naming the file and the line, for a file that can't be read, is of another
    format, is cut off or damaged, or holds no kernels.

    >>> folder = Path("experiments/data/gpu/h200/validate")
    >>> first = read(folder)[0]
    >>> first.short, first.grid, first.block, first.metrics["dram__bytes_read.sum"]
    ('copy', (8192, 1, 1), (256, 1, 1), 134229504.0)
    """
    if path.is_dir():
        return _read_record(path)
    try:
        data = read_bytes(path, MOST_BYTES)
    except InputError as error:
        raise GpuError(
            f"cannot read {path} ({error}): give a report of ncu, or the folder of a record"
        ) from None
    if not data.strip():
        raise GpuError(f"{path} is empty: record it again")
    if path.suffix == SUFFIX or data.startswith(MAGIC):
        return read_text(_exported(path, data), str(path))
    wide = data.startswith(UTF_16)  # as PowerShell writes what is redirected
    # Names of kernels may be in another encoding; counters are ASCII.
    errors = "replace" if wide or KERNEL.encode() in data else "strict"
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig", errors)
    except UnicodeDecodeError:
        refuse(path, data)
    return read_text(text, str(path))


def read_text(text: str, source: str) -> tuple[KernelLaunch, ...]:
    """What ``ncu --csv`` printed as launches; `source` is its name in messages."""
    table = find_table(text, source)
    if table is None:
        if "No kernels were profiled" in text:
            raise GpuError(_NO_KERNELS.format(source))
        refuse(Path(source), text.encode())
    columns = set(table.columns)
    reader = next((one for one in READERS.values() if one.needs <= columns), None)
    if reader is None:
        raise GpuError(
            f"{source}, line {table.header}: a table of ncu without columns of counters:"
            " save it with --page raw"
        )
    found = tuple(reader.read(table))
    if not found:
        raise GpuError(_NO_KERNELS.format(source))
    return found


def _read_record(folder: Path) -> tuple[KernelLaunch, ...]:
    """The counters of a record, without the marks between its jobs."""
    path = folder / REPORT
    if not stored(path).is_file():
        raise GpuError(
            f"{folder} holds no {REPORT}: give a record with counters, or a report of ncu"
        )
    device, rounded = _read_provenance(folder / PROVENANCE)
    found = []
    for launch in read(path):
        if MARK not in launch.name:
            texts = {DEVICE: device} | dict(launch.texts) if device else launch.texts
            more = {"texts": texts, "rounded": launch.rounded | (rounded & launch.metrics.keys())}
            found.append(KernelLaunch(**{**vars(launch), **more}))
    if not found:
        raise GpuError(_NO_KERNELS.format(path))
    check_checksums(folder)
    return tuple(found)


def versions(path: Path) -> dict[str, str]:
    """What counters were read with: ``ncu`` and ``driver``, ``unknown`` where nothing says it.

    The tables of ncu name neither; a record's provenance does.  Raises GpuError where that is
    damaged.

    >>> versions(Path("experiments/data/gpu/profile/h200"))
    {'driver': '580.159.04', 'ncu': '2025.3.1.0'}
    >>> versions(Path("experiments/data/gpu/profile/layouts/raw-base.csv"))
    {'driver': 'unknown', 'ncu': 'unknown'}
    """
    found = _provenance(path / PROVENANCE) if path.is_dir() else {}
    return {name: str(found.get(name) or "unknown") for name in VERSIONS}


def _provenance(path: Path) -> Row:
    """What a record says of itself; nothing where it says nothing."""
    if not path.exists():
        return {}
    try:
        found = parse(text_of(path), "JSON")
    except InputError as error:
        raise GpuError(f"{path} is not JSON ({error}): the record is damaged") from None
    if not isinstance(found, dict) or not isinstance(found.get("device", ""), str):
        raise GpuError(f"{path} names no device: the record is damaged")
    return found


def _read_provenance(path: Path) -> tuple[str, frozenset[str]]:
    """The device that a record's provenance names, if any, and the counters that were rounded."""
    found = _provenance(path)
    device = found.get("device", "")
    rounded = found.get(ROUNDED, [])
    if not isinstance(rounded, list) or not all(isinstance(x, str) for x in rounded):
        raise GpuError(f"{path}, {ROUNDED}: {rounded!r} are not names: the record is damaged")
    return device, frozenset(rounded)


def _exported(path: Path, data: bytes) -> str:
    """The table of a ``.ncu-rep``, by `ncu` itself."""
    if not data.startswith(MAGIC):
        raise GpuError(
            f"{path} is not a report of ncu, though it ends in {SUFFIX}: its first bytes "
            f"are {data[:8]!r}: record it again"
        )
    ncu = shutil.which("ncu")
    if ncu is None:
        raise GpuError(
            f"reading {path} needs ncu (Nsight Compute), which is not on the PATH: add its folder "
            f"to PATH, or run `ncu --import {path.name} {' '.join(EXPORT)} > report.csv` where it "
            "is, and give report.csv"
        )
    done = subprocess.run([ncu, "--import", str(path), *EXPORT], capture_output=True, text=True)
    if done.returncode:
        said = [x for x in (done.stdout + done.stderr).splitlines() if x.strip()]
        raise GpuError(
            f"ncu cannot import {path}: {' '.join(said[-1:])[:300]}: it is cut off, or "
            "of a newer ncu"
        )
    return done.stdout


def _raw(table: TextTable) -> Iterator[KernelLaunch]:
    """One row for each launch, below a row of units."""
    if not table.lines:
        return
    units, *rows = table.lines
    if units.cells[KERNEL]:
        raise GpuError(f"{table.at(units)}: the row of units is missing: the report is damaged")
    counters = [x for x in table.columns if x not in PLACES]
    for line in rows:
        yield _launch(table, line, {x: (line.cells[x], units.cells[x], line) for x in counters})


def _long(table: TextTable) -> Iterator[KernelLaunch]:
    """One row for each metric of a launch; a launch is what has one ID."""
    first: TableLine | None = None
    found: dict[str, tuple[str, str, TableLine]] = {}
    for line in table.lines:
        if first is not None and _key(line) != _key(first):
            yield _launch(table, first, found)
            found = {}
        if not found:
            first = line
        cells = line.cells
        if name := counter_of(cells["Metric Name"], cells["Metric Unit"]):
            found[name] = (cells["Metric Value"], cells["Metric Unit"], line)
    if first is not None:
        yield _launch(table, first, found)


def _key(line: TableLine) -> tuple[str, ...]:
    return tuple(line.cells.get(x, "") for x in ("ID", "Process ID", KERNEL))


def _launch(
    table: TextTable, first: TableLine, cells: Mapping[str, tuple[str, str, TableLine]]
) -> KernelLaunch:
    """One launch from the value, the unit and the line of each of its counters."""
    name = first.cells[KERNEL]
    if not name:
        raise GpuError(
            f"{table.at(first)}: a launch without a kernel's name: the report is damaged"
        )
    metrics: dict[str, float] = {}
    units: dict[str, str] = {}
    texts = {CAPABILITY: first.cells[CAPABILITY]} if first.cells.get(CAPABILITY) else {}
    rounded = set()
    for counter, (text, unit, line) in cells.items():
        try:
            value, base, scaled = in_base(text, unit)
            if value is not None:
                check_value(counter, value, base)
        except GpuError as error:
            if not counter.startswith(_TEXTS):
                raise GpuError(f"{table.at(line)}, {counter}: {error}") from None
            texts[counter] = text
            continue
        if value is not None:
            metrics[counter], units[counter] = value, base
            if scaled:
                rounded.add(counter)
    return KernelLaunch(
        name=name,
        grid=_dim(table, first, GRID),
        block=_dim(table, first, BLOCK),
        metrics=metrics,
        units=units,
        texts=texts,
        rounded=frozenset(rounded),
        where=table.at(first),
    )


def _dim(table: TextTable, line: TableLine, column: str) -> Dim | None:
    text = line.cells.get(column, "").strip()
    if text.lower() in ABSENT:
        return None
    found = _DIM.fullmatch(text)
    if found is None:
        raise GpuError(
            f"{table.at(line)}, {column}: {text!r} is not three sizes: the report is damaged"
        )
    x, y, z = map(int, found.groups())
    return x, y, z


def _summary(table: TextTable) -> Iterator[KernelLaunch]:
    raise GpuError(
        f"{table.source}, line {table.header}: a summary has no single launches: save "
        "the report without --print-summary"
    )


READERS: dict[str, TableReader] = {
    "summary": TableReader("a summary", frozenset({KERNEL, "Invocations"}), _summary),
    "long": TableReader(
        "the details page", frozenset({KERNEL, "Metric Name", "Metric Unit", "Metric Value"}), _long
    ),
    "raw": TableReader("the raw page", frozenset({KERNEL, GRID, BLOCK}), _raw),
}
