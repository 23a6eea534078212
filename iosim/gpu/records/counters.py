"""Hardware counters: the CSV of Nsight Compute as bytes per boundary.

Boundaries, and the counter that is exact at each (docs/gpu.md has the evidence):

- ``sram``: between an SM and L2, what the model calls transfers.  Sectors that the load-store
  units asked for, times 32 bytes.
- ``l2``: what L1 passed on to L2.  Neighboring SMs that ask for the same sectors at once are
  served together on Hopper, so reads may be fewer.
- ``dram``: what L2 could not serve.  Writes that are still in L2 at the end are not seen.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from iosim.base.errors import InputError
from iosim.base.reading import read_text
from iosim.gpu.emitter.layout import SECTOR
from iosim.gpu.errors import GpuError
from iosim.gpu.records.plain import MOST_BYTES


@dataclass(frozen=True)
class Boundary:
    """A place where traffic is counted.

    Attributes:
        name: the registry's key.
        load, store: the counters of either direction.
        unit_bytes: bytes per unit of both.
    """

    name: str
    load: str
    store: str
    unit_bytes: int


BOUNDARIES: dict[str, Boundary] = {
    b.name: b
    for b in (
        Boundary(
            "sram",
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
            "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
            SECTOR,
        ),
        Boundary(
            "l2",
            "lts__t_sectors_srcunit_tex_op_read.sum",
            "lts__t_sectors_srcunit_tex_op_write.sum",
            SECTOR,
        ),
        Boundary("dram", "dram__bytes_read.sum", "dram__bytes_write.sum", 1),
    )
}
# What bulk copies move (TMA): next to ``sram``, which sees none of it.
BULK = Boundary(
    "bulk",
    "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
    "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
    1,
)
_KNOWN = {**BOUNDARIES, BULK.name: BULK}
MARK = "spin_kernel"  # what the worker launches between jobs


def known_boundary(name: str) -> Boundary:
    """A boundary by name: one of `BOUNDARIES`, or `BULK`.

    >>> known_boundary("bulk").unit_bytes
    1
    """
    return _KNOWN[name]


@dataclass(frozen=True)
class Moved:
    """Bytes that crossed one boundary.

    >>> Moved("sram", 64, 32) + Moved("sram", 32)
    Moved(boundary='sram', load_bytes=96, store_bytes=32)
    """

    boundary: str
    load_bytes: int = 0
    store_bytes: int = 0

    def __add__(self, other: Moved) -> Moved:
        if not isinstance(other, Moved):
            return NotImplemented
        if other.boundary != self.boundary:
            raise ValueError(f"bytes at {self.boundary} and at {other.boundary} do not add up")
        loads, stores = self.load_bytes + other.load_bytes, self.store_bytes + other.store_bytes
        return Moved(self.boundary, loads, stores)


@dataclass(frozen=True)
class KernelTraffic:
    """What the counters say of one kernel launch, at every boundary that was read."""

    kernel: str
    moved: tuple[Moved, ...]

    def at(self, boundary: str) -> Moved:
        """What crossed one boundary; nothing if it was not read."""
        return next((m for m in self.moved if m.boundary == boundary), Moved(boundary))


def moved_at(boundary: str, launches: Iterable[KernelTraffic]) -> Moved:
    """What several launches moved across one boundary."""
    return sum((launch.at(boundary) for launch in launches), Moved(boundary))


def anonymous(log: str, counters: Iterable[str] = ()) -> str:
    """The CSV part of a log: kernels and counters, nothing that names a host or a process.

    Args:
        counters: names of columns to keep in addition to those of `BOUNDARIES`.
    """
    rows = list(csv.reader(io.StringIO(_table(log))))
    counters = {*counters, *(name for b in BOUNDARIES.values() for name in (b.load, b.store))}
    wanted = {"Kernel Name", "Block Size", "Grid Size", *counters}
    keep = [k for k, name in enumerate(rows[0]) if name in wanted]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[row[k] for k in keep] for row in rows])
    return out.getvalue()


def _table(log: str) -> str:
    """The lines from the header on; `ncu` mixes its own messages in, marked ``==``."""
    lines = [line for line in log.splitlines() if line and not line.startswith("==")]
    start = next((k for k, line in enumerate(lines) if "Kernel Name" in line), None)
    if start is None:
        raise GpuError("the report holds no table: ncu saw no kernels")
    return "\n".join(lines[start:])


def read_report(path: Path, boundaries: Iterable[str]) -> list[list[KernelTraffic]]:
    """A saved report as launches, one list per mark, in order.

    Args:
        boundaries: names of those that must have been read.

    Raises GpuError, naming the file, if it cannot be read, is not a report, or is cut off, and for
    a counter that is missing, is not a number or is not in base units.
    """
    wanted = [known_boundary(name) for name in boundaries]
    units, found = read_launches(path)
    for b in wanted:
        _check_units(path, b, units)
    return [
        [
            KernelTraffic(kernel, tuple(_moved(b, row, where) for b in wanted))
            for kernel, row, where in group
        ]
        for group in found
    ]


# A kernel, its row of the report, and the line that it is in.
LaunchRow = tuple[str, dict[str, str], str]


def read_launches(path: Path) -> tuple[dict[str, str], list[list[LaunchRow]]]:
    """The units of a saved report's columns, and its launches, one list per mark, in order.

    Raises GpuError, naming the file, if it cannot be read, is not a report, or is cut off.
    """
    try:
        text = read_text(path, MOST_BYTES)
        rows = list(csv.DictReader(io.StringIO(text)))
    except (InputError, csv.Error) as error:
        raise GpuError(f"cannot read {path} as a table: {error}") from None
    if not text.endswith("\n"):
        raise GpuError(f"{path} ends within a line: it is cut off")
    if len(rows) < 2 or "Kernel Name" not in rows[0]:
        raise GpuError(f"{path} is not a report of ncu --csv --page raw: record it again")
    units, *launches = rows
    groups: list[list[LaunchRow]] = []
    for line, row in enumerate(launches, start=3):
        kernel = row["Kernel Name"]
        if None in row or None in row.values() or not kernel:
            raise GpuError(f"{path}, line {line}: not as many cells as columns: it is cut off")
        if MARK in kernel:
            groups.append([])
            continue
        if not groups:
            raise GpuError(f"{path} starts with {kernel}, before any mark: it is cut off")
        groups[-1].append((kernel, row, f"{path}, line {line}"))
    return units, groups


def _check_units(path: Path, boundary: Boundary, units: Mapping[str, str]) -> None:
    for name in (boundary.load, boundary.store):
        if name not in units:
            raise GpuError(f"{path} has no counter {name}: record it again")
        if units[name] not in ("sector", "byte"):
            raise GpuError(
                f"{path} has {name} in {units[name]}: save the report with --print-units base"
            )


def _moved(boundary: Boundary, row: Mapping[str, str], where: str) -> Moved:
    loads, stores = (
        counter_value(row[name], f"{where}, {name}") * boundary.unit_bytes
        for name in (boundary.load, boundary.store)
    )
    return Moved(boundary.name, loads, stores)


def counter_value(text: str, where: str) -> int:
    """A cell as a number; GpuError, with the place, if it isn't one."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        value = math.nan
    if not 0 <= value < 2**63:
        raise GpuError(f"{where} is {text!r}, not a counter's value: the report is damaged")
    return round(value)
