"""Files that are not reports of `ncu`: what they are, and what to give in their place.

`FOREIGN` has one record for each format that people have at hand next to a report of kernels.

`reading` calls it.  ``tests/gpu/test_profile_reading.py`` compares the messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from iosim.gpu.errors import GpuError

RECORD = (
    "record one with `ncu --csv --page raw --print-units base --log-file report.csv COMMAND`, or "
    "let `iosim profile -- COMMAND` do it"
)


@dataclass(frozen=True)
class ForeignFormat:
    """A format that is not read.

    Attributes:
        title: what it is.
        starts: how its bytes start, blanks left out.
        columns: words that its first line of a table has, all of them.
        instead: what to do.
    """

    title: str
    starts: tuple[bytes, ...] = ()
    columns: tuple[bytes, ...] = ()
    instead: str = RECORD


_NSYS = "it has times and no counters; nsys says which kernel is the slowest, ncu why: " + RECORD
_AS_IT_WAS = "give the file as ncu wrote it, with commas"
FOREIGN: tuple[ForeignFormat, ...] = (
    ForeignFormat("a page of HTML", (b"<!doctype html", b"<html", b"<!--")),
    ForeignFormat("XML", (b"<?xml",)),
    ForeignFormat("a database of SQLite, as nsys exports", (b"sqlite format 3",), instead=_NSYS),
    ForeignFormat(
        "an archive", (b"pk\x03\x04", b"\x1f\x8b", b"(\xb5/\xfd", b"bzh"), instead="unpack it first"
    ),
    ForeignFormat("a PDF", (b"%pdf",)),
    ForeignFormat("a picture", (b"\x89png", b"\xff\xd8\xff", b"gif8")),
    ForeignFormat("a program", (b"\x7felf",), instead="`iosim profile -- COMMAND` profiles it"),
    ForeignFormat("JSON, such as PyTorch's profiler writes", (b"{", b"[{", b"[\n"), instead=_NSYS),
    ForeignFormat("a table of nsys", columns=(b"total time", b"instances"), instead=_NSYS),
    ForeignFormat("a trace of nsys", columns=(b"duration (ns)", b"corrid"), instead=_NSYS),
    ForeignFormat("a table of nvprof", columns=(b"time(%)", b"calls"), instead=_NSYS),
    ForeignFormat(
        "a report of ncu as text",
        columns=(b"metric name", b"metric unit"),
        instead="save it with --csv --page raw",
    ),
    ForeignFormat(
        "a table with semicolons, as spreadsheets write it",
        columns=(b"kernel name", b"block size", b";"),
        instead=_AS_IT_WAS,
    ),
    ForeignFormat(
        "a table with tabs, as spreadsheets write it",
        columns=(b"kernel name", b"block size", b"\t"),
        instead=_AS_IT_WAS,
    ),
    ForeignFormat(
        "a table of one kernel's lines",
        columns=(b"source", b"# samples"),
        instead="save the report with --page raw in place of --page source",
    ),
)


def refuse(path: Path, data: bytes) -> NoReturn:
    """Raise GpuError with what a file is, its first line, and what to give in its place."""
    start = data.lstrip()[:64].lower()
    for one in FOREIGN:
        if one.starts and start.startswith(one.starts):
            raise GpuError(f"{path} is {one.title}, not a report of ncu: {one.instead}")
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:2000], 1):
        for one in FOREIGN:
            if one.columns and all(word in line.lower() for word in one.columns):
                raise GpuError(
                    f"{path}, line {number}: this is {one.title}, not a report of ncu "
                    f"--csv: {one.instead}"
                )
    number, first = next(((k, x) for k, x in enumerate(lines, 1) if x.strip()), (1, b""))
    shown = first.strip().decode("utf-8", "backslashreplace")[:80]
    raise GpuError(
        f"{path}, line {number}: {shown!r} is not of a report of ncu, which has a "
        f"column 'Kernel Name': {RECORD}"
    )
