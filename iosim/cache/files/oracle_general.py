"""libCacheSim's oracleGeneral: packed records of 24 bytes, little-endian, and nothing else.

| bytes | what |
|---|---|
| 4 | uint32: the time; here the record's number, as far as 32 bits go |
| 8 | uint64: the object; here the address |
| 4 | uint32: its size; here 1, so that capacities count addresses |
| 8 | int64: the record with the object's next access, counted from 1 on; −1 if there is none |

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

from iosim.base.arrays import Ints
from iosim.base.errors import InputError
from iosim.cache.files._form import Numbers, TraceForm, cannot, numbered
from iosim.cache.stream import Stream

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
            raise InputError(f"a stream of {stream.length} accesses has more: make it again")
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
        raise InputError(f"a stream of {stream.length} accesses had {done}: make it again")


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


def _next(address: Ints, done: int, last: Ints) -> tuple[Ints, tuple[Ints, Ints]]:
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
        done = 0
        # Which way a file counts shows where an object comes again; until then both may be.
        ways = [_Chains(length, base) for base in (1, 0)]
        try:
            with path.open("rb") as file:
                while done < length:
                    part = np.fromfile(file, RECORD, min(chunk, length - done))
                    if not part.size:
                        raise InputError(
                            f"{path}: record {done} of {length} is gone: read it again"
                        )
                    ways = _agreeing(path, ways, [way.add(part, done) for way in ways])
                    yield Numbers(part["object"].astype(np.uint64), np.zeros(part.size, bool))
                    done += part.size
                _agreeing(path, ways, [way.end() for way in ways])
        except OSError as error:
            raise cannot("read", path, error) from error

    return numbered(records, line_words)


def _agreeing(path: Path, ways: list[_Chains], wrong: list[str]) -> list[_Chains]:
    """The ways of counting that nothing contradicts; InputError if there is none."""
    found = [way for way, why in zip(ways, wrong, strict=True) if not why]
    if not found:
        raise InputError(f"{path}: {wrong[0]}: it is damaged, cut short, or no oracleGeneral trace")
    return found


class _Chains:
    """Next accesses compared with the objects: they chain all accesses of an object, in order.

    So it is where each record that one names has the same object, no record is named twice, and the
    records that none names have different objects.  What waits to be named is kept, and the first
    record of each object: 24 bytes for each.

    Args:
        length: how many records there are.
        base: the number of the first one, 0 or 1.
    """

    def __init__(self, length: int, base: int) -> None:
        self.length, self.base = length, base
        # Records that are named and not read yet, and their objects.
        self.at, self.object = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        self.first: list[NDArray[np.uint64]] = []

    def add(self, part: NDArray[np.void], done: int) -> str:
        """Take the next records; returns what is wrong with them, or nothing."""
        here, stop = np.arange(done, done + part.size), done + part.size
        never = np.isin(part["next"], _NEVER)
        later = np.where(never, 0, part["next"]) - self.base
        wrong = ~never & ((later <= here) | (later >= self.length))
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            return (
                f"record {done + at} of {self.length} says that its object's next access is record "
                f"{part['next'][at]} of them"
            )
        self.at = np.concatenate([self.at, later[~never]])
        self.object = np.concatenate([self.object, part["object"][~never].astype(np.uint64)])
        now = self.at < stop
        due, objects = self.at[now], self.object[now]
        self.at, self.object = self.at[~now], self.object[~now]
        other = part["object"][due - done] != objects
        if other.any():
            k = int(np.flatnonzero(other)[0])
            return (
                f"record {due[k]} of {self.length} has object {part['object'][due[k] - done]}, and "
                f"an earlier one says that it is the next access of object {objects[k]}"
            )
        times = np.bincount(due - done, minlength=part.size)
        if (times > 1).any():
            k = int(np.flatnonzero(times > 1)[0])
            return f"record {done + k} of {self.length} is the next access of two earlier ones"
        self.first.append(part["object"][times == 0].astype(np.uint64))
        return ""

    def end(self) -> str:
        """What is wrong with the whole, or nothing."""
        objects, times = np.unique(
            np.concatenate([np.zeros(0, np.uint64), *self.first]), return_counts=True
        )
        if (times > 1).any():
            return (
                f"object {objects[times > 1][0]} comes again in a record that no earlier one says "
                "to be its next access"
            )
        return ""


FORM = TraceForm("oracleGeneral", (".oracleGeneral", ".oracleGeneral.bin", ".bin"), write, read)
