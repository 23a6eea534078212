"""HTML of values: sections, listings, lines, tables.

Plain elements, which are legible on light and dark pages; all text is escaped, and no number is
rounded or cut.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from iosim.base.cells import cell

_RIGHT = ' style="text-align:right;padding:0 0.6em;font-variant-numeric:tabular-nums"'
_LEFT = ' style="text-align:left;padding:0 0.6em"'


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(value: object) -> str:
    """A value's text as HTML; `Markup` stays as it is.

    >>> escaped("a < b & c"), escaped(1234567), escaped(Markup("<b>x</b>"))
    ('a &lt; b &amp; c', '1,234,567', '<b>x</b>')
    """
    return value if isinstance(value, Markup) else html.escape(cell(value))


def section(title: str, *parts: str) -> str:
    """Parts below a heading; without one where it is empty."""
    head = f"<h4>{html.escape(title)}</h4>\n" if title else ""
    body = "".join(part + "\n" for part in parts)
    return f'<section class="iosim">{head}{body}</section>'


def listing(text: str) -> str:
    """Text with its line breaks."""
    return f"<pre>{html.escape(text.rstrip())}</pre>"


def line(*parts: object) -> str:
    """A paragraph."""
    return f"<p>{''.join(map(escaped, parts))}</p>"


def folded(summary: str, part: str) -> str:
    """A part that is shown when its summary is clicked."""
    return f"<details><summary>{html.escape(summary)}</summary>\n{part}</details>"


def table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], total: Sequence[Any] | None = None
) -> str:
    """A table, numbers to the right.

    Args:
        columns: names, with units.
        rows: values, or `Markup`.
        total: a last row that is the sum of the others.

    >>> print(table(["cost"], [["4N²d²/M"]]))
    <table>
    <thead><tr><th style="text-align:left;padding:0 0.6em">cost</th></tr></thead>
    <tbody>
    <tr><td style="text-align:left;padding:0 0.6em">4N²d²/M</td></tr>
    </tbody>
    </table>
    """
    right = [
        all(isinstance(row[k], (int, float)) and not isinstance(row[k], bool) for row in rows)
        for k in range(len(columns))
    ]

    def cells(name: str, values: Sequence[Any]) -> str:
        styles = (_RIGHT if r else _LEFT for r in right)
        return "".join(
            f"<{name}{style}>{escaped(value)}</{name}>"
            for value, style in zip(values, styles, strict=True)
        )

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    foot = f"<tfoot><tr>{cells('th', total)}</tr></tfoot>\n" if total is not None else ""
    return (
        f"<table>\n<thead><tr>{cells('th', columns)}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>\n{foot}</table>"
    )
