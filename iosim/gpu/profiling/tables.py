"""The table in what `ncu` printed: its header, its rows, and the line of each.

`ncu` prints notes (``==PROF== …``) and the program's own output before the table.  A file that ends
within a line, or a row that lacks cells, is cut off.

`reading` and `saving` call it.  ``tests/gpu/test_profile_reading.py`` has tables that are cut off.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from iosim.gpu.errors import GpuError

KERNEL, BLOCK, GRID, VALUE = "Kernel Name", "Block Size", "Grid Size", "Metric Value"


@dataclass(frozen=True)
class TableLine:
    """A row of a table: its cells by column, and the line of the file where it starts."""

    cells: Mapping[str, str]
    number: int


@dataclass(frozen=True)
class TextTable:
    """A table of a report.

    Attributes:
        source: the file's name, for messages.
        columns: its header.
        header: the line of the header.
        lines: all rows below it.
    """

    source: str
    columns: tuple[str, ...]
    header: int
    lines: tuple[TableLine, ...]

    def at(self, line: TableLine) -> str:
        """The file and the line, for messages."""
        return f"{self.source}, line {line.number}"


def find_table(text: str, source: str) -> TextTable | None:
    """The table with a column `KERNEL`; None if there is none.

    Raises GpuError, naming the line, where it is cut off.
    """
    every = text.splitlines(keepends=True)
    start = next((k for k, line in enumerate(every) if _is_header(line)), None)
    if start is None:
        return None
    if not every[start].endswith(("\n", "\r")):
        raise GpuError(
            f"{source}, line {start + 1}: the report ends within its header: it is cut off"
        )
    (columns,) = csv.reader([every[start]])
    if doubled := next((x for x in columns if columns.count(x) > 1), None):
        raise GpuError(
            f"{source}, line {start + 1}: two columns are called {doubled!r}: the report is damaged"
        )
    lines = tuple(_rows(every[start + 1 :], columns, source, start + 1))
    last = every[-1]
    # A row that ends with a quoted cell is whole, also where an editor took its last newline.
    if lines and not last.endswith(("\n", "\r", '"')):
        raise GpuError(f"{source}, line {len(every)}: the report ends within a line: it is cut off")
    return TextTable(source, tuple(columns), start + 1, lines)


def _is_header(line: str) -> bool:
    if KERNEL not in line:
        return False
    try:
        cells = next(csv.reader([line]), [])
    except csv.Error:  # a line of the program's own, longer than a cell may be
        return False
    # The page of sources names its kernel in such a line, too.
    return KERNEL in cells and bool({BLOCK, VALUE} & {*cells})


def _rows(every: list[str], columns: list[str], source: str, before: int) -> Iterator[TableLine]:
    wanted = [
        (k, line)
        for k, line in enumerate(every, before + 1)
        if line.strip() and not line.startswith("==")
    ]
    reader = csv.reader((line for _, line in wanted), strict=True)
    least = columns.index(VALUE) + 1 if VALUE in columns else len(columns)
    done = 0
    while True:
        number = wanted[done][0] if done < len(wanted) else before + len(every)
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise GpuError(
                f"{source}, line {number}: the line can't be read as CSV ({error}): the "
                "report is cut off or damaged"
            ) from None
        done = reader.line_num
        if not least <= len(cells) <= len(columns):
            other = ", or has tables within: save it with --page raw" if VALUE in columns else ""
            raise GpuError(
                f"{source}, line {number}: {len(cells)} cells, and the header has "
                f"{len(columns)}: the report is cut off or damaged{other}"
            )
        # A row ends with its value where no rule speaks about it.
        yield TableLine(dict(zip_longest(columns, cells, fillvalue="")), number)
