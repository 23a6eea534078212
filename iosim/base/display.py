"""How values show themselves in notebooks, and how they give their table and figure.

A class that derives from `Displayed` or `Tabled` names functions of `iosim.report.views` as text.
They are imported when a notebook asks for them.  So the core stays light, and what is shown may
call counting functions, which know nothing of it.
"""

from __future__ import annotations

from typing import Any, ClassVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iosim.base.rows import Table


class Displayed:
    """A value that a notebook shows as HTML; `html_by` is the place of the function that writes it.

    >>> from iosim import Counts
    >>> Counts((("load", "Q"), 3))._repr_html_()[:26]
    '<section class="iosim"><h4'
    """

    __slots__ = ()
    html_by: ClassVar[str]

    def _repr_html_(self) -> str:
        found: str = call_by_path(self.html_by, self)
        return found


class Tabled(Displayed):
    """A value that is a table, too; `table_by` is the place of the function that makes its rows.

    >>> from iosim import Counts
    >>> Counts((("load", "Q"), 3)).table().rows
    ({'tensor': 'Q', 'load_words': 3, 'store_words': 0},)
    """

    __slots__ = ()
    table_by: ClassVar[str]

    def table(self) -> Table:
        """The value as rows of plain numbers and text, with units in the names of columns."""
        found: Table = call_by_path(self.table_by, self)
        return found

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame; raises as `iosim.base.rows.Table.to_pandas`."""
        return self.table().to_pandas()

    def to_arrow(self) -> Any:
        """The table as an Arrow table; raises as `iosim.base.rows.Table.to_arrow`."""
        return self.table().to_arrow()

    def plot(self) -> Any:
        """The figure of the table: a matplotlib Figure."""
        return self.table().plot()


def call_by_path(place: str, *values: Any) -> Any:
    """What the function at a place (``module:name``) gives; its module is imported here."""
    import importlib

    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)(*values)
