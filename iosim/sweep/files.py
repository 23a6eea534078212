"""Files that are there whole or not at all, and reading that never waits.

`folder`, `manifest`, `seal` and `table` use it for a sweep's own files; files that users name go
through `iosim.base.writing`.  A file is synced before it gets its name
(``tests/sweep/test_sweep_survival.py``).
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from iosim.base.errors import IosimError

# More bytes than any shard or manifest has.
LARGEST = 2**31


class Damaged(IosimError):
    """A file that isn't what it was written as; the message says why."""


def read_regular(path: Path) -> bytes:
    """A regular file's bytes; a link to one is followed.

    Raises Damaged for anything else, which is not opened, since a pipe would wait forever; and
    OSError where the system refuses.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise Damaged("it is not a regular file")
    with open(path, "rb", opener=_without_waiting) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Damaged("it is not a regular file")
        if found.st_size > LARGEST:
            raise Damaged(f"it has {found.st_size} bytes, more than any shard")
        return file.read()


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the file system refuses into one line that says what is safe."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error).splitlines()[0]
        raise IosimError(
            f"cannot write to {str(path)!r} ({why}): rows reported done are safe; fix it and run "
            "the same command again"
        ) from error


def write_in_place(
    root: Path, name: str, write: Callable[[Path], object], keep: bool = False
) -> None:
    """Write a file next to its place, sync it, and move it there in one step.

    With `keep`, a file that is there already stays.
    """
    part = root / "part" / f"{os.getpid()}-{uuid.uuid4().hex}"
    for place in (part.parent, (root / name).parent):
        place.mkdir(exist_ok=True)
    try:
        write(part)
        _sync(part)
        if keep:
            _claim(part, root / name)
        else:
            part.replace(root / name)
        _sync((root / name).parent)
    finally:
        part.unlink(missing_ok=True)


def _claim(part: Path, path: Path) -> None:
    """Give a file its name, unless the name is taken: then the one that is there stays."""
    try:
        os.link(part, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not path.exists():
            part.replace(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
