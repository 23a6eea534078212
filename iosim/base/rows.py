"""Rows as a value: it shows itself, and goes to pandas, to Arrow, and into a figure."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, overload

from iosim.base import html
from iosim.base.display import call_by_path
from iosim.base.errors import InputError, IosimError, pip

# Beyond these Arrow's int64 ends; words of large sizes pass them.
_MOST = 2**63
_DIGITS = 76


@dataclass(frozen=True)
class Table(Sequence[Mapping[str, Any]]):
    """Rows under common columns; equal to another with the same rows.

    Attributes:
        rows: column → number, text, yes or no, or None; a column may be missing in some rows.
        title: what they are of.
        figure_by: the place of the function that draws them, ``module:name``; "" for none.

    >>> table = Table(({"M_words": 64, "total_words": 99}, {"M_words": 128}), "words against M")
    >>> table.columns
    ('M_words', 'total_words')
    >>> table[0]["total_words"], len(table)
    (99, 2)
    >>> table
    <Table words against M: 2 rows of M_words, total_words>
    """

    rows: tuple[Mapping[str, Any], ...]
    title: str = ""
    figure_by: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all rows, each where it comes first."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row))

    @overload
    def __getitem__(self, at: int) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, at: slice) -> Table: ...

    def __getitem__(self, at: int | slice) -> Mapping[str, Any] | Table:
        if isinstance(at, slice):
            return Table(self.rows[at], self.title, self.figure_by)
        return self.rows[at]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def __repr__(self) -> str:
        what = f"{self.title}: " if self.title else ""
        return f"<Table {what}{len(self)} rows of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        cells = [[row.get(x) for x in self.columns] for row in self.rows]
        return html.section(self.title, html.table(self.columns, cells))

    def to_pandas(self) -> Any:
        """A pandas DataFrame.  Raises IosimError with the command that installs pandas."""
        return _need("pandas").DataFrame(list(self.rows), columns=list(self.columns))

    def to_arrow(self) -> Any:
        """An Arrow table; whole numbers beyond 64 bits are decimals.

        Raises IosimError with the command that installs pyarrow.
        """
        pa = _need("pyarrow")
        return pa.table({x: _array(pa, [row.get(x) for row in self.rows]) for x in self.columns})

    def plot(self) -> Any:
        """Its figure, a matplotlib Figure.  Raises InputError where none belongs to it."""
        if not self.figure_by:
            raise InputError(f"no figure belongs to {self!r}: draw it from to_pandas()")
        return call_by_path(self.figure_by, self.rows)


def _need(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise IosimError(
            f"this table goes to {name}, and {error.name} is missing: install it with {pip(name)}"
        ) from None


def _array(pa: Any, values: list[Any]) -> Any:
    """A column; its type follows from all its values."""
    whole = [x for x in values if type(x) is int]
    if whole and max(map(abs, whole)) >= _MOST and len(whole) + values.count(None) == len(values):
        exact = [None if x is None else Decimal(x) for x in values]
        return pa.array(exact, pa.decimal256(_DIGITS, 0))
    return pa.array(values)
