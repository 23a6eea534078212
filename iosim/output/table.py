"""Tables as CSV: typed columns with their units in their names, written whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import math
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iosim.errors import InputError

Row = Mapping[str, Any]


# What a name may be instead of a file, in the order of `stat`'s tests.
_OTHER = {
    stat.S_ISDIR: "a directory",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
}


def target(path: str | os.PathLike[str]) -> Path:
    """Where a file of this name will be written: the name itself, or what a link leads to.

    Asks, before a long run, whether that will be possible.  Raises InputError where the name is
    empty or is that of something else than a file, and where its directory cannot be written.
    """
    text = os.fspath(path)
    if not text:
        raise InputError("the name of the file is empty: name a file")
    where = Path(os.path.realpath(text) if os.path.islink(text) else text)
    try:
        try:
            mode = Path(text).stat().st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and not stat.S_ISREG(mode):
            what = next((said for test, said in _OTHER.items() if test(mode)), "no file")
            raise InputError(f"{text!r} is {what}: move it away, or name a file")
        with tempfile.TemporaryFile(dir=where.parent):
            pass
    except OSError as error:
        raise InputError(f"cannot write {text!r} ({error.strerror}): name another file") from error
    return where


@contextlib.contextmanager
def replacing(*paths: str | os.PathLike[str]) -> Iterator[list[Path]]:
    """Write files whole or not at all.

    The block gets a new name beside each `target`, with its suffix.  If the block ends well, the
    new files take the places of the old ones; otherwise they are removed and nothing changes.
    Raises InputError where the file system refuses.
    """
    where = [target(path) for path in paths]
    parts = [x.with_name(f".part-{secrets.token_hex(8)}{x.suffix}") for x in where]
    try:
        yield parts
        for part, place in zip(parts, where, strict=True):
            if place.exists():
                shutil.copymode(place, part)
            part.replace(place)
    except OSError as error:
        said = ", ".join(repr(os.fspath(path)) for path in paths)
        raise InputError(f"cannot write {said} ({error.strerror})") from error
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


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
        for made in new if not keep else []:
            made.rmdir()
    except OSError as error:
        raise InputError(
            f"cannot write to {str(where)!r} ({error.strerror}): choose another --out"
        ) from error
    for name in files if where.exists() else []:
        target(where / name)
    return where


def publish(out: Path, make: Callable[[Path], Sequence[Path]]) -> list[Path]:
    """Make files in a hidden folder of `out`, then move all of them into `out`.

    `make` gets the folder and returns what it wrote.  If anything fails, nothing appears.
    Returns where the files are.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out, prefix=".part-") as folder:
            made = make(Path(folder))
            names = [out / path.name for path in made]
            with replacing(*names) as parts:
                for path, part in zip(made, parts, strict=True):
                    shutil.copyfile(path, part)
            return [target(name) for name in names]
    except OSError as error:
        raise InputError(f"cannot write to {str(out)!r} ({error.strerror})") from error


def write_csv(path: str | os.PathLike[str], rows: Sequence[Row]) -> Path:
    """Write rows under the union of their columns, whole or not at all; where they were written.

    Raises InputError if that is impossible.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with replacing(path) as (part,), part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return target(path)


def read_csv(
    path: str | os.PathLike[str], needs: Sequence[str] = (), numbers: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Read rows, numbers as numbers and empty cells as None.

    Args:
        needs: columns that must be there.
        numbers: columns whose every cell must be a positive finite number.

    Raises InputError where the file is missing, is no table, has no rows, lacks a column, or
    holds something else in a column of numbers; the line is named.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            columns = reader.fieldnames or []
            rows: list[dict[str, Any]] = []
            for row in reader:
                if None in row:
                    raise InputError(f"{str(path)!r}, line {reader.line_num}: too many cells")
                rows.append({str(k): _value(v) for k, v in row.items()})
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            f"cannot read {str(path)!r} as a table ({why}): give a CSV file that iosim wrote"
        ) from error
    if missing := [name for name in (*needs, *numbers) if name not in columns]:
        raise InputError(
            f"{str(path)!r} has no column {', '.join(missing)}: give a table that iosim wrote"
        )
    if not rows:
        raise InputError(f"{str(path)!r} has no rows: nothing to plot")
    for line, row in enumerate(rows, start=2):
        for name in numbers:
            value = row[name]
            if not isinstance(value, (int, float)) or not 0 < value < math.inf:
                raise InputError(f"{str(path)!r}, line {line}: {name} is {value!r}: mend the line")
    return rows


def _value(text: str | None) -> Any:
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, text)
