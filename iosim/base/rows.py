"""`Table`: rows that a notebook shows as HTML, and that convert to pandas, Arrow or a figure.

Values that are tables, too, return one from `table()` (`iosim.base.display.Tabled`): counts,
machines' results, solved games, kernels' counts, and what `iosim.report` makes.

Changing this file: HTML and conversions may change as long as no value is lost or rounded.  The
repr and error messages are tested, in ``tests/base/test_notebooks.py``.  Compute no count, and
import nothing of `iosim.core` or `iosim.bounds`: an import contract refuses that.  Import pandas,
pyarrow and matplotlib only when they are used.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, overload

from iosim.base import html
from iosim.base.display import call_by_path
from iosim.base.errors import InputError, IosimError, pip

# A row of a table, or an object of JSON: values by name; and what reads such values only.
Row = dict[str, Any]
Rows = list[Row]
Values = Mapping[str, Any]

# Integers from _MOST on don't fit Arrow's int64, as counts of words may; they become decimals of
# _DIGITS digits.
_MOST = 2**63
_DIGITS = 76


@dataclass(frozen=True)
class Table(Sequence[Mapping[str, Any]]):
    """Rows with named columns; two tables are equal if their three attributes are.

    Attributes:
        rows: column → number, text, Boolean or None; a column may be missing in some rows.
        title: what the rows are about, as a heading; may be "".
        figure_by: the function that draws the rows, as ``module:name``; "" for none.

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
        """Names of all columns, in the order in which rows first use them."""
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
        """A pandas DataFrame.  Without pandas, raises IosimError with the command to install it."""
        return _need("pandas").DataFrame(list(self.rows), columns=list(self.columns))

    def to_arrow(self) -> Any:
        """An Arrow table; a column with an integer beyond 64 bits becomes decimals.

        Without pyarrow, raises IosimError with the command to install it.
        """
        pa = _need("pyarrow")
        return pa.table({x: _array(pa, [row.get(x) for row in self.rows]) for x in self.columns})

    def plot(self) -> Any:
        """Draw the rows with `figure_by`: a matplotlib Figure.  InputError if that is empty."""
        if not self.figure_by:
            raise InputError(f"no figure belongs to {self!r}: draw it from to_pandas()")
        return call_by_path(self.figure_by, self.rows)


def _need(name: str) -> Any:
    """Import an optional library, or raise IosimError with the command to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise IosimError(
            f"this table goes to {name}, and {error.name} is missing: install it with {pip(name)}"
        ) from None


def _array(pa: Any, values: list[Any]) -> Any:
    """One column: decimals if it has only integers and None, one of them beyond int64.

    Otherwise Arrow chooses the type.
    """
    whole = [x for x in values if type(x) is int]
    if whole and max(map(abs, whole)) >= _MOST and len(whole) + values.count(None) == len(values):
        exact = [None if x is None else Decimal(x) for x in values]
        return pa.array(exact, pa.decimal256(_DIGITS, 0))
    return pa.array(values)
