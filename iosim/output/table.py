"""Tables as CSV: typed columns with their units in their names, written whole or not at all."""

from __future__ import annotations

import csv
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from iosim.errors import InputError

Row = Mapping[str, Any]


def out_dir(path: str | os.PathLike[str], *, keep: bool = True) -> Path:
    """Make a directory for results, or raise InputError if that is impossible.

    With ``keep=False`` a new one is removed again: this only asks, before a long run, whether it
    will be possible; `publish` makes it.
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
    return where


def publish(out: Path, make: Callable[[Path], Sequence[Path]]) -> list[Path]:
    """Make files in a hidden folder of `out`, then rename all of them into `out`.

    `make` gets the folder and returns what it wrote.  If anything fails, nothing appears.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out, prefix=".part-") as folder:
            made = make(Path(folder))
            for path in made:
                if (out / path.name).is_dir():
                    raise InputError(f"{str(out / path.name)!r} is a directory: move it away")
            return [path.replace(out / path.name) for path in made]
    except OSError as error:
        raise InputError(f"cannot write to {str(out)!r} ({error.strerror})") from error


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write rows under the union of their columns, then rename into place.

    Raises InputError if the directory cannot be written.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"cannot write {str(path)!r} ({error.strerror})") from error


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
        raise InputError(f"cannot read {str(path)!r} as a table: {error}") from error
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
