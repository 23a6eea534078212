"""libCacheSim's oracleGeneral: packed records of 24 bytes, little-endian, and nothing else.

| bytes | what |
|---|---|
| 4 | uint32: the time; here the record's number, as far as 32 bits go |
| 8 | uint64: the object; here the address |
| 4 | uint32: its size; here 1, so that capacities count addresses |
| 8 | int64: the record with the object's next access, counted from 1 on; −1 where there is none |

Yang et al., libCacheSim (https://github.com/1a1a11a/libCacheSim), oracleGeneralBin.h; next accesses
are counted as its traceConv does, and those counted from 0 are read, too.  There are no marks: all
that is read is a read, and sizes are not kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from iosim.cache.files._form import Numbers, TraceForm, cannot, numbered
from iosim.cache.stream import Stream
from iosim.errors import InputError

RECORD = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
# What says that there is no next access.
_NEVER = (-1, 2**63 - 1)


def write(stream: Stream, path: Path) -> None:
    """Write a stream; 8 bytes for each address are held meanwhile."""
    last = np.full(stream.addresses, -1, np.int64)  # the record of an address's last access
    done = 0
    with path.open("wb") as file:
        _reserve(file, stream.length * RECORD.itemsize)
    if not stream.length:
        return
    records = np.memmap(path, RECORD, "r+")
    for part in stream.chunks():
        size = part.address.size
        if done + size > stream.length:
            raise InputError(f"a stream of {stream.length} accesses has more: make it anew")
        here = records[done : done + size]
        here["time"] = np.minimum(np.arange(done, done + size), 2**32 - 1)
        here["object"] = part.address
        here["size"] = 1
        here["next"], first = _next(part.address, done, last)
        before, number = first
        records["next"][before] = number
        done += size
    records.flush()
    if done != stream.length:
        raise InputError(f"a stream of {stream.length} accesses had {done}: make it anew")


def _reserve(file: BinaryIO, size: int) -> None:
    """Take space for a file: where a mapped file finds none later, the process is killed."""
    if not size:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for low in range(0, size, _AT_ONCE):
        file.write(bytes(min(_AT_ONCE, size - low)))


_AT_ONCE = 2**20


def _next(
    address: NDArray[np.int64], done: int, last: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The next access of each in a chunk, counted from 1 on; −1 where it is not in it.

    And pairs of records before it and their next access in it.
    """
    order = np.argsort(address, kind="stable")
    found = np.full(address.size, -1, np.int64)
    same = address[order[1:]] == address[order[:-1]]
    found[order[:-1][same]] = order[1:][same] + done + 1
    firsts = order[np.concatenate([[True], ~same])]
    lasts = order[np.concatenate([~same, [True]])]
    before = last[address[firsts]]
    known = before >= 0
    last[address[lasts]] = lasts + done
    return found, (before[known], firsts[known] + done + 1)


def read(path: Path, line_words: int, chunk: int) -> Stream:
    """The stream of a file.  Raises InputError for one that is cut short or no such trace."""
    size = path.stat().st_size
    if size % RECORD.itemsize:
        raise InputError(
            f"{path}: record {size // RECORD.itemsize} is cut short: {size % RECORD.itemsize} of "
            f"{RECORD.itemsize} bytes; it is damaged, or no oracleGeneral trace"
        )
    length = size // RECORD.itemsize

    def records() -> Iterator[Numbers]:
        done, last = 0, length
        try:
            with path.open("rb") as file:
                while done < length:
                    part = np.fromfile(file, RECORD, min(chunk, length - done))
                    if not part.size:
                        raise InputError(
                            f"{path}: record {done} of {length} is gone: read it again"
                        )
                    if not done:
                        last = _last(path, part, length)
                    _check(path, part, done, length, last)
                    yield Numbers(part["object"].astype(np.uint64), np.zeros(part.size, bool))
                    done += part.size
        except OSError as error:
            raise cannot("read", path, error) from error

    return numbered(records, line_words)


def _last(path: Path, part: NDArray[np.void], length: int) -> int:
    """The largest number that a record may have: some writers count from 0 on.

    Where the first chunk doesn't tell, from its first next access in it, that is allowed.
    """
    near = np.flatnonzero((part["next"] > 0) & (part["next"] < part.size))
    if not near.size:
        return length
    at = int(near[0])
    later, whose = int(part["next"][at]), part["object"]
    if whose[later - 1] == whose[at] and later - 1 > at:
        return length
    if whose[later] == whose[at]:
        return length - 1
    raise InputError(
        f"{path}: record {at} of {length} says that object {whose[at]} is next in record {later}, "
        f"and those from {later - 1} on have {whose[later - 1]} and {whose[later]}: it is damaged, "
        "or no oracleGeneral trace"
    )


def _check(path: Path, part: NDArray[np.void], done: int, length: int, last: int) -> None:
    """Raise InputError for a next access that doesn't come later, or beyond the last record."""
    later = part["next"] > np.arange(done, done + part.size)
    wrong = ~((later & (part["next"] <= last)) | np.isin(part["next"], _NEVER))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"{path}: record {done + at} of {length} says that its object's next access is record "
            f"{part['next'][at]} of them: it is damaged, cut short, or no oracleGeneral trace"
        )


FORM = TraceForm("oracleGeneral", (".oracleGeneral", ".oracleGeneral.bin", ".bin"), write, read)
