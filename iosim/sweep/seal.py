"""A shard's checksum: SHA-256 of the whole file, kept in the file itself.

Parquet's own checksums cover pages, not the footer that says what they mean.  So each shard's
metadata holds the SHA-256 of all of the file's bytes, read with its own digits as zeros.  It is
written before the shard is renamed into place, and is part of the file: two
collectors that write the same shard each leave one that is whole.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from iosim.sweep.files import Damaged

KEY = "iosim-sha256"
BLANK = "0" * 64
_SLOT = re.compile(KEY.encode() + rb'": "([0-9a-f]{64})"')


def seal(path: Path) -> None:
    """Fill the blank that a file's footer holds with the checksum of the file."""
    with path.open("r+b") as file:
        data = file.read()
        at = _slot(data)
        file.seek(at)
        file.write(_digest(data, at))


def check_seal(data: bytes) -> None:
    """Raise Damaged unless a file's bytes are those that were sealed."""
    at = _slot(data)
    if data[at : at + len(BLANK)] != _digest(data, at):
        raise Damaged("its checksum is wrong")


def _slot(data: bytes) -> int:
    """Where the checksum's digits are: in the footer, once."""
    footer = 8 + int.from_bytes(data[-8:-4], "little")
    if len(data) < 12 or data[:4] != b"PAR1" or data[-4:] != b"PAR1" or footer > len(data) - 4:
        raise Damaged("it is cut off or no Parquet file")
    start = len(data) - footer
    found = [match.start(1) for match in _SLOT.finditer(data, start)]
    if len(found) != 1:
        raise Damaged("it has no checksum")
    return found[0]


def _digest(data: bytes, at: int) -> bytes:
    view = memoryview(data)
    state = hashlib.sha256(view[:at])
    state.update(BLANK.encode())
    state.update(view[at + len(BLANK) :])
    return state.hexdigest().encode()
