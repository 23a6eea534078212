"""Our own format: a stream with its regions, as small as arrays go, each chunk with a checksum.

All numbers are little-endian.

| bytes | what |
|---|---|
| 8 | `iosimtrc` |
| 4 | uint32: the version of the format, 1 |
| 4 | uint32: n, the length of the header |
| n | the header, JSON in UTF-8 |
| 4 | uint32: CRC-32 of all bytes so far |
| … | chunks |

The header's keys: `unit` ("words", "rows" or "lines"), `line_words`, `addresses`, `length`
(accesses in all), `chunk` (accesses in each chunk; the last one has the rest), `address_bytes` (4
or 8), and `regions`, a list of objects with `name`, `start`, `words`, `scratch` and `unit_words`.

A chunk of k accesses is k addresses of `address_bytes` bytes, unsigned; ⌈k/8⌉ bytes of marks, the
first access in the highest bit of the first byte, 1 where it is written; and the CRC-32 of these as
uint32.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from iosim.base.errors import InputError
from iosim.base.reading import parse
from iosim.cache.files._form import TraceForm, cannot
from iosim.cache.stream import CHUNK, UNITS, Accesses, Region, Stream, recut

MAGIC = b"iosimtrc"
VERSION = 1
_HEAD = struct.Struct("<8sII")
_CHECK = struct.Struct("<I")


def write(stream: Stream, path: Path) -> None:
    """Write a stream.  Raises InputError for one that isn't as long as it says."""
    width = 4 if stream.addresses <= 2**32 else 8
    header = {
        "unit": stream.unit,
        "line_words": stream.line_words,
        "addresses": stream.addresses,
        "length": stream.length,
        "chunk": CHUNK,
        "address_bytes": width,
        "regions": [asdict(region) for region in stream.regions],
    }
    told = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    written = 0
    with path.open("wb") as file:
        head = _HEAD.pack(MAGIC, VERSION, len(told)) + told
        file.write(head + _CHECK.pack(zlib.crc32(head)))
        for part in recut(stream.chunks(), CHUNK):
            addresses = part.address.astype(f"<u{width}").tobytes()
            marks = np.packbits(part.write).tobytes()
            file.write(addresses)
            file.write(marks)
            file.write(_CHECK.pack(zlib.crc32(marks, zlib.crc32(addresses))))
            written += part.address.size
    if written != stream.length:
        raise InputError(f"a stream of {stream.length} accesses had {written}: make it again")


def read(path: Path, line_words: int, chunk: int) -> Stream:
    """The stream of a file.  Raises InputError for a damaged one."""
    if line_words != 1:
        raise InputError(
            f"{path} says itself what its addresses are: leave line_words = {line_words} out"
        )
    header, start = _header(path)
    regions = tuple(Region(**region) for region in header["regions"])
    width, by, length = header["address_bytes"], header["chunk"], header["length"]
    _check_size(path, start, width, by, length)

    def chunks() -> Iterator[Accesses]:
        try:
            with path.open("rb") as file:
                file.seek(start)
                for low in range(0, length, by):
                    yield _chunk(path, file, low, min(by, length - low), header)
        except OSError as error:
            raise cannot("read", path, error) from error

    return Stream(
        lambda: recut(chunks(), chunk),
        header["addresses"],
        length,
        regions,
        header["unit"],
        header["line_words"],
    )


def _chunk(path: Path, file: BinaryIO, low: int, size: int, header: dict[str, Any]) -> Accesses:
    width = header["address_bytes"]
    addresses = file.read(size * width)
    marks = file.read(-(-size // 8))
    check = file.read(4)
    where = f"{path}: records {low} to {low + size - 1}"
    if len(check) < 4:
        raise InputError(f"{where} are cut short: the file has changed; write it again")
    (told,) = _CHECK.unpack(check)
    found = zlib.crc32(marks, zlib.crc32(addresses))
    if told != found:
        raise InputError(
            f"{where} are damaged: their checksum is {found:08x}, and the file says {told:08x}; "
            "write it again"
        )
    address = np.frombuffer(addresses, f"<u{width}").astype(np.int64)
    if size and not 0 <= address.min() <= address.max() < header["addresses"]:
        at = int(np.flatnonzero((address < 0) | (address >= header["addresses"]))[0])
        raise InputError(
            f"{path}: record {low + at} has address {address[at]}, and the header says that there "
            f"are {header['addresses']}: write it again"
        )
    write = np.unpackbits(np.frombuffer(marks, np.uint8), count=size).astype(bool)
    return Accesses(address, write)


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The header, checked, and where the chunks begin."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD.size)
            magic, version, size = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
            if magic != MAGIC:
                raise InputError(
                    f"{path}: record 0 does not begin a trace of iosim's format: it has "
                    f"{head[:8]!r} and not {MAGIC!r}"
                )
            if version != VERSION:
                raise InputError(
                    f"{path} is of version {version} of the format, and this is {VERSION}: read it "
                    "with another release of iosim"
                )
            told = file.read(min(size, path.stat().st_size))
            check = file.read(4)
    except OSError as error:
        raise cannot("read", path, error) from error
    if len(told) < size or len(check) < 4:
        raise InputError(f"{path} is cut short before record 0, in its header: write it again")
    if _CHECK.unpack(check) != (zlib.crc32(head + told),):
        raise InputError(f"{path} is damaged before record 0: its header has another checksum")
    try:
        header = parse(told.decode("utf-8"), "JSON")
        _check(header)
    except (InputError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is damaged before record 0: its header says {error}") from error
    return header, _HEAD.size + size + 4


def _check(header: Any) -> None:
    """Raise ValueError, TypeError or KeyError for a header that isn't as the module says."""
    if not isinstance(header, dict):
        raise TypeError(f"a {type(header).__name__} and no keys")
    for name, least in (("addresses", 0), ("length", 0), ("chunk", 1), ("line_words", 1)):
        _check_number(name, header[name], least)
    if header["unit"] not in UNITS or type(header["address_bytes"]) is not int:
        raise ValueError(f"{header['unit']!r}, {header['address_bytes']!r}")
    if header["address_bytes"] not in (4, 8):
        raise ValueError(f"address_bytes = {header['address_bytes']}")
    if not isinstance(header["regions"], list):
        raise TypeError(f"regions = {header['regions']!r}")
    for told in header["regions"]:
        region = Region(**told)
        if type(region.name) is not str or type(region.scratch) is not bool:
            raise TypeError(f"a region {region.name!r}, {region.scratch!r}")
        for name, least in (("start", 0), ("words", 0), ("unit_words", 1)):
            _check_number(f"{name} of region {region.name}", getattr(region, name), least)


def _check_number(name: str, value: Any, least: int) -> None:
    if type(value) is not int or not least <= value < 2**63:
        raise ValueError(f"{name} = {value!r}")


def _check_size(path: Path, start: int, width: int, by: int, length: int) -> None:
    """Raise InputError for a file that is shorter or longer than its header says."""

    def end(records: int) -> int:
        full, rest = divmod(records, by)
        whole = by * width + -(-by // 8) + 4
        return start + full * whole + (rest * width + -(-rest // 8) + 4 if rest else 0)

    size = path.stat().st_size
    if size > end(length):
        raise InputError(
            f"{path} goes on after record {length - 1}, its last: {size - end(length)} bytes more "
            "than its header says; write it again"
        )
    if size < end(length):
        whole = (size - start) // (by * width + -(-by // 8) + 4) * by
        raise InputError(
            f"{path} is cut short at record {whole} of {length}: it has {size} bytes of "
            f"{end(length)}; write it again"
        )


FORM = TraceForm("iosim", (".iosim",), write, read, MAGIC)
