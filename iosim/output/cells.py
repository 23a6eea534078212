"""One value as a table shows it, on a terminal and in HTML."""

from __future__ import annotations

from decimal import Decimal
from numbers import Integral
from typing import Any


def cell(value: Any) -> str:
    """A value as a table shows it, without loss.

    Integers have separators, floats are the shortest text that reads back as the same float,
    None is empty.  What would move the cursor is escaped.

    >>> cell(15654831), cell(15654831.0), cell(0.1), cell(True), cell(None)
    ('15,654,831', '15654831.0', '0.1', 'yes', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return float.__repr__(value)
    if not isinstance(value, str) and str(value) in ("True", "False"):
        return "yes" if value else "no"
    if isinstance(value, (Integral, Decimal)):
        return f"{value:,}"
    text = str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
