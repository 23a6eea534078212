"""Checksums of a record: files that were changed after the run are found.

A record's `SHA256SUMS` has a line for each file that a run on a GPU left, in the format of
``sha256sum``: of its content, whether gzip packed it or not.  Tables are computed from these files
and have no line.  A checksum finds damage and edits by mistake; who edits a record on purpose can
write the checksums again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from iosim.base.errors import InputError
from iosim.base.reading import PACKED, read_bytes, stored
from iosim.base.writing import write_text
from iosim.gpu.errors import GpuError

CHECKSUMS = "SHA256SUMS"
# Of a file, also when it is unpacked.
MOST_BYTES = 2**28
# What runs leave; some runs of a report have names of their own, such as torch_spec.json.
_PATTERNS = (
    "*spec.json",
    "*measured.json",
    "*profiled.json",
    "*report.csv",
    "provenance.json",
    "*.npz",
)
_LINE = re.compile(r"([0-9a-f]{64})  ([\w.+-]+)")


def write_checksums(folder: Path) -> Path:
    """Write the checksums of what a run left in a folder, and return their file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = (Path(name) / "spec.json").write_text("{}")
    ...     _ = write_checksums(Path(name))
    ...     check_checksums(Path(name))
    ...     _ = (Path(name) / "spec.json").write_text("[]")
    ...     check_checksums(Path(name))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    iosim.gpu.errors.GpuError: ...spec.json was changed after it was measured ...
    """
    lines = (f"{_digest(path)}  {path.name}\n" for path in _measured_files(folder))
    return write_text(folder / CHECKSUMS, "".join(lines))


def has_checksums(folder: Path) -> bool:
    """Whether a record has checksums; records made before iosim 0.2 have none."""
    return (folder / CHECKSUMS).exists()


def check_checksums(folder: Path) -> None:
    """Compare the files of a record with its checksums, if it has any.

    Raises GpuError, naming the file, for one that was changed, is missing, or was added.
    """
    if not has_checksums(folder):
        return
    sums = _read_checksums(folder / CHECKSUMS)
    for path in _measured_files(folder):
        if path.name not in sums:
            raise GpuError(f"{path} has no line in {CHECKSUMS}: it is of another run")
    for name, digest in sums.items():
        path = folder / name
        if not stored(path).is_file():
            raise GpuError(f"{path} is missing, and {CHECKSUMS} has it: restore the record")
        if _digest(path) != digest:
            raise GpuError(
                f"{path} was changed after it was measured (its SHA-256 is not that of "
                f"{CHECKSUMS}): restore the record"
            )


def _measured_files(folder: Path) -> Iterator[Path]:
    names = {path.name.removesuffix(PACKED) for path in folder.iterdir()}
    yield from sorted(folder / x for x in names if any(fnmatch(x, y) for y in _PATTERNS))


def _read_checksums(path: Path) -> dict[str, str]:
    found = {}
    for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise GpuError(f"{path}, line {number}: no line of sha256sum: restore the record")
        found[match[2]] = match[1]
    return found


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_bytes(path, MOST_BYTES)).hexdigest()
    except InputError as error:
        raise GpuError(f"cannot read {path} ({error}): restore the record") from None
