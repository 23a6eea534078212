"""Tables as CSV: typed columns with their units in their names, written whole or not at all."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from iosim.base.errors import InputError
from iosim.base.reading import read_text
from iosim.base.writing import replacing, target

Row = Mapping[str, Any]
# Of a table that is read.
MOST_BYTES = 2**30


def write_csv(path: str | os.PathLike[str], rows: Sequence[Row]) -> Path:
    """Write rows under the union of their columns, whole or not at all; where they were written.

    Raises InputError if that is impossible.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    # The writer leaves a lone return unquoted, which a reader takes for the end of a line.
    returns = any("\r" in x for row in rows for x in row.values() if isinstance(x, str))
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    with replacing(path) as (part,), part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n", quoting=quoting)
        writer.writeheader()
        writer.writerows(rows)
    return target(path)


def read_csv(
    path: str | os.PathLike[str], needs: Sequence[str] = (), numbers: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Read rows, numbers as numbers and empty cells as None; also what gzip packed.

    Args:
        needs: columns that must be there.
        numbers: columns whose every cell must be a positive finite number.

    Raises InputError where the file is missing, is not a table, has no rows, lacks a column, or
    holds something else in a column of numbers; the line is named.
    """
    try:
        text = read_text(Path(path), MOST_BYTES, pipes=True)
        reader = csv.DictReader(io.StringIO(text, newline=""))
        columns = reader.fieldnames or []
        cells = [(reader.line_num, row) for row in reader]
    except (InputError, csv.Error) as error:
        raise InputError(
            f"cannot read {str(path)!r} as a table ({error}): give a CSV file that iosim wrote"
        ) from error
    if bad := next((line for line, row in cells if None in row), None):
        raise InputError(f"{str(path)!r}, line {bad}: too many cells")
    rows = [{str(k): _value(v) for k, v in row.items()} for _, row in cells]
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
                raise InputError(f"{str(path)!r}, line {line}: {name} is {value!r}: fix the line")
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
