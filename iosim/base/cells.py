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
    return printable(str(value))


def printable(text: str, keep: str = "") -> str:
    r"""Text whose control characters, marks of direction and the like are escaped.

    Such characters move the cursor, hide text or change its order on a terminal, and no browser
    opens an SVG with them.  Everything that people read passes here: `cell` of a table, lines on
    stderr and stdout (`iosim.cli`), and the text of figures.

    Args:
        keep: characters that stay, like a newline.

    >>> printable("a\x1b[31m\u202eb"), printable("a\nb", keep="\n") == "a\nb"
    ('a\\x1b[31m\\u202eb', True)
    """
    plain = text
    for c in keep:
        plain = plain.replace(c, "")
    if plain.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )
