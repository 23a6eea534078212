"""Tables as CSV: typed columns with their units in their names, written whole or not at all."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from iosim.errors import InputError

Row = Mapping[str, Any]


def out_dir(path: str | os.PathLike[str]) -> Path:
    """Make a directory for results, or raise InputError if that is impossible."""
    where = Path(path)
    try:
        where.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=where):
            pass
    except OSError as error:
        raise InputError(
            f"cannot write to {str(where)!r} ({error.strerror}): choose another --out"
        ) from error
    return where


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


def read_csv(path: str | os.PathLike[str], needs: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Read rows, numbers as numbers and empty cells as None.

    Raises InputError where the file is missing, is no table, or lacks a needed column.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows: list[dict[str, Any]] = [
                {str(k): _value(v) for k, v in row.items()} for row in reader
            ]
            columns = reader.fieldnames or []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {str(path)!r} as a table: {error}") from error
    if missing := [name for name in needs if name not in columns]:
        raise InputError(
            f"{str(path)!r} has no column {', '.join(missing)}: give a table that iosim wrote"
        )
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
