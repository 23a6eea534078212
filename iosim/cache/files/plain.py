"""CSV: a line for each access, its address and a mark.

The first line is `address,write`; the mark is 1 where the address is written.  What is read may
leave the first line out, and the mark (all are reads then), and say r and w in its place.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from iosim.base.arrays import Bools
from iosim.base.errors import InputError
from iosim.cache.files._form import Numbers, TraceForm, cannot, numbered
from iosim.cache.stream import Stream

_HEAD = b"address,write"
_MARKS = {"0": False, "1": True, "r": False, "w": True}


def write(stream: Stream, path: Path) -> None:
    """Write a stream."""
    with path.open("w", encoding="ascii", newline="\n") as file:
        file.write(_HEAD.decode() + "\n")
        for part in stream.chunks():
            lines = map("{},{:d}\n".format, part.address.tolist(), part.write.tolist())
            file.write("".join(lines))


def read(path: Path, line_words: int, chunk: int) -> Stream:
    """The stream of a file.  Raises InputError for a line that says no access."""

    def records() -> Iterator[Numbers]:
        try:
            with path.open("rb") as file:
                yield from _records(path, file, chunk)
        except OSError as error:
            raise cannot("read", path, error) from error

    return numbered(records, line_words)


def _records(path: Path, file: BinaryIO, chunk: int) -> Iterator[Numbers]:
    first = file.readline(_LONGEST)
    number, columns = 1, 0
    if first.strip().lower().replace(b" ", b"") not in (_HEAD, b"address"):
        file.seek(0)
        number = 0
    while lines := file.readlines(16 * chunk):
        columns = columns or lines[0].count(b",") + 1
        for low in range(0, len(lines), chunk):
            some = lines[low : low + chunk]
            yield _fast(some, columns) or _slow(path, some, number + low, columns)
        number += len(lines)


# No line of a trace is as long.
_LONGEST = 2**16

_PLAIN = b"0123456789,\r\n"


def _fast(lines: list[bytes], columns: int) -> Numbers | None:
    """Lines of plain numbers; None where some line is something else."""
    text = b"".join(lines)
    if columns > 2 or text.translate(None, _PLAIN) or not text.strip():
        return None
    try:
        found = np.loadtxt(io.BytesIO(text), np.uint64, delimiter=",", ndmin=2)
    except (ValueError, OverflowError):
        return None
    if found.shape != (len(lines), columns):
        return None
    marks = found[:, 1] if columns == 2 else np.zeros(len(lines), np.uint64)
    return None if marks.max() > 1 else Numbers(found[:, 0], marks.astype(bool))


def _slow(path: Path, lines: list[bytes], number: int, columns: int) -> Numbers:
    """Lines one by one: each is as long as the first one, numbers and marks as the module says."""
    at = np.zeros(len(lines), np.uint64)
    marks: Bools = np.zeros(len(lines), bool)
    for k, line in enumerate(lines):
        words = [x.strip() for x in line.decode("ascii", "replace").strip("\r\n").split(",")]
        address, *mark = words
        if (
            len(words) != columns
            or columns > 2
            or not (address.isascii() and address.isdecimal())
            or len(address.lstrip("0")) > 20
            or int(address.lstrip("0") or "0") >= 2**64
            or (mark and mark[0].lower() not in _MARKS)
        ):
            said = line.decode("ascii", "replace").strip("\r\n")
            raise InputError(
                f"{path}: line {number + k + 1} says {_short(said)!r} and no access: an address "
                "from 0 on, and 0 or 1 (r or w) after a comma, in every line or in none"
            )
        at[k] = int(address.lstrip("0") or "0")
        marks[k] = bool(mark) and _MARKS[mark[0].lower()]
    return Numbers(at, marks)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


FORM = TraceForm("csv", (".csv",), write, read)
