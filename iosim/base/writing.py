"""Writes files whose names users give, whole or not at all.

All commands, sweeps' exports and records write through it.  A new file takes the place of the old
one when it is complete, so that a full disk, an error or an interrupt leaves the old one.  A
symbolic link stays, and its target is replaced; a file keeps its mode.  A pipe or a character
device has no old content: it gets the bytes when all of them are known.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from iosim.base.errors import InputError

# What can't be written to, in the order of `stat`'s tests.
_REFUSED = {
    stat.S_ISDIR: "a directory",
    stat.S_ISBLK: "a block device",
    stat.S_ISSOCK: "a socket",
}


def target(path: str | os.PathLike[str]) -> Path:
    """Where a file of this name will be written: the name itself, or what a link leads to.

    Asks, before a long run, whether that will be possible.  Raises InputError where the name is
    empty, or is that of a directory, a socket or a disk, and where it cannot be written.

    >>> target("/dev/null")
    PosixPath('/dev/null')
    """
    text = os.fspath(path)
    if not text:
        raise InputError("the name of the file is empty: name a file")
    try:
        try:
            mode = Path(text).stat().st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None:
            if what := next((what for test, what in _REFUSED.items() if test(mode)), None):
                raise InputError(f"{text!r} is {what}: move it away, or name a file")
            if not stat.S_ISREG(mode):
                if not os.access(text, os.W_OK):
                    raise PermissionError(None, "Permission denied")
                return Path(text)
        where = Path(os.path.realpath(text) if os.path.islink(text) else text)
        with tempfile.TemporaryFile(dir=where.parent):
            pass
    except OSError as error:
        raise InputError(f"cannot write {text!r} ({_reason(error)}): name another file") from error
    return where


@contextlib.contextmanager
def replacing(*paths: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Write files whole or not at all.

    The block gets a new name for each `target`, with its suffix.  If the block ends well, the new
    files take the places of the old ones, and pipes and devices get their bytes; otherwise nothing
    changes.  Raises InputError where the file system refuses.

    >>> with replacing("/dev/null") as (part,):
    ...     _ = part.write_text("gone")
    """
    where = [target(path) for path in paths]
    with contextlib.ExitStack() as stack:
        parts = []
        for place in where:
            folder = place.parent
            if _is_special(place):
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iosim-")))
            part = folder / f".part-{secrets.token_hex(8)}{place.suffix}"
            stack.callback(part.unlink, missing_ok=True)
            parts.append(part)
        try:
            yield parts
            for part in parts:
                with part.open("rb") as file:
                    os.fsync(file.fileno())
            for part, place in zip(parts, where, strict=True):
                _move(part, place)
        except OSError as error:
            names = ", ".join(repr(os.fspath(path)) for path in paths)
            raise InputError(f"cannot write {names} ({_reason(error)}): name another") from error


def _is_special(path: Path) -> bool:
    """Whether a path is a pipe or a device, which no file can replace."""
    return path.exists() and not path.is_file()


def _move(part: Path, place: Path) -> None:
    if _is_special(place):
        with part.open("rb") as source, place.open("wb") as out:
            shutil.copyfileobj(source, out)
        return
    if place.exists():
        shutil.copymode(place, part)
    part.replace(place)


def _reason(error: OSError) -> str:
    """Why the system refuses; Arrow and Pillow give errors without its text."""
    if error.strerror:
        return error.strerror
    return os.strerror(error.errno) if error.errno else " ".join(str(error).split())[:200]


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text as UTF-8, whole or not at all; returns where it was written.

    Raises InputError if that is impossible.
    """
    with replacing(path) as (part,):
        part.write_text(text, encoding="utf-8")
    return target(path)


def out_dir(path: str | os.PathLike[str], *, keep: bool = True, files: Sequence[str] = ()) -> Path:
    """Make a directory for results, or raise InputError if that is impossible.

    With ``keep=False`` a new one is removed again: this only asks, before a long run, whether it
    will be possible; `publish` makes it.

    Args:
        files: names that will be written in it; InputError where one cannot be.
    """
    where = Path(path)
    if not str(path):
        raise InputError("--out is empty: name a directory")
    new = [p for p in (where, *where.parents) if not p.exists()]
    try:
        where.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=where):
            pass
        for folder in new if not keep else []:
            folder.rmdir()
    except OSError as error:
        raise InputError(
            f"cannot write to {str(where)!r} ({_reason(error)}): choose another --out"
        ) from error
    for name in files if where.exists() else []:
        target(where / name)
    return where


def publish(out: Path, make: Callable[[Path], Sequence[Path]]) -> list[Path]:
    """Make files in a hidden folder of `out`, then move all of them into `out`.

    `make` gets the folder and returns what it wrote.  If anything fails, nothing appears, not even
    a new `out`.  Returns where the files are.
    """
    new = [p for p in (out, *out.parents) if not p.exists()]
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out, prefix=".part-") as folder:
            files = make(Path(folder))
            names = [out / path.name for path in files]
            with replacing(*names) as parts:
                for path, part in zip(files, parts, strict=True):
                    shutil.copyfile(path, part)
        return [target(name) for name in names]
    except BaseException as error:
        for empty in new:
            with contextlib.suppress(OSError):
                empty.rmdir()
        if isinstance(error, OSError):
            raise InputError(f"cannot write to {str(out)!r} ({_reason(error)})") from error
        raise
