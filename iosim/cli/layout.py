"""Tables as text that fits a width and never cuts: no number and no name loses a character.

A table that fits is aligned.  One that doesn't wraps its cells of several words, at spaces; where
that is not enough, each row becomes a record of lines ``column  value``, and a value too long for
it has a line of its own, whole.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any

from iosim.base.cells import cell

GAP = "  "
# Cells of several words get no narrower than this: beyond it, records are easier to read.
NARROWEST = 24
_NUMBER = re.compile(r"[+-]?[0-9][0-9,]*(\.[0-9]+)?(e[+-]?[0-9]+)?%?|nan|-?inf|")


def layout(columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> str:
    """A table for a terminal `width` characters wide, as lines without trailing blanks.

    >>> table = ["name", "words"], [["flash1", 24576], ["flash2", 9]]
    >>> print(layout(*table, width=80))
    name     words
    flash1  24,576
    flash2       9
    >>> print(layout(*table, width=9))
    name
    flash1
    words
    24,576
    <BLANKLINE>
    name
    flash2
    words  9
    """
    cells = [[cell(value) for value in row] for row in rows]
    names = [cell(name) for name in columns]
    wide = _widths(names, cells, width)
    if wide is None:
        if not cells:
            return "\n".join(name.rstrip() for name in names)
        return "\n\n".join(_record(names, row, width) for row in cells)
    right = [all(_NUMBER.fullmatch(row[k]) for row in cells) for k in range(len(names))]
    lines: list[str] = []
    for row in (names, *cells):
        parts = [_wrap(text, w) for text, w in zip(row, wide, strict=True)]
        for k in range(max(map(len, parts), default=0)):
            texts = [part[k] if k < len(part) else "" for part in parts]
            aligned = (
                " " * (w - _long(x)) + x if r else x + " " * (w - _long(x))
                for x, w, r in zip(texts, wide, right, strict=True)
            )
            lines.append(GAP.join(aligned).rstrip())
    return "\n".join(lines)


def _long(text: str) -> int:
    """Columns of a terminal: some characters take two, and some none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _widths(names: list[str], cells: list[list[str]], width: int) -> list[int] | None:
    """A width for each column, the widest ones narrowed at spaces; None where that won't fit."""
    wide, least = [], []
    for k, name in enumerate(names):
        column = [row[k] for row in cells]
        widest = max(map(_long, column), default=0)
        word = max((_long(x) for text in (name, *column) for x in text.split()), default=0)
        wide.append(max(_long(name), widest))
        least.append(max(word, min(NARROWEST, widest)))
    spare = width - len(GAP) * (len(names) - 1)
    if sum(least) > spare:
        return None
    over = sum(wide) - spare
    while over > 0:
        level = max(w for w, n in zip(wide, least, strict=True) if w > n)
        k = wide.index(level)
        wide[k] -= 1
        over -= 1
    return wide


def _wrap(text: str, width: int) -> list[str]:
    """Lines broken at spaces only; a word longer than the width is alone, whole."""
    if _long(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _record(names: list[str], row: list[str], width: int) -> str:
    label = max(map(_long, names), default=0)
    room = width - label - len(GAP)
    lines: list[str] = []
    for name, text in zip(names, row, strict=True):
        start = name + " " * (label - _long(name)) + GAP
        word = max(map(_long, text.split()), default=0)
        if _long(text) <= room:
            lines.append((start + text).rstrip())
        elif word <= room >= NARROWEST:
            first, *rest = _wrap(text, room)
            lines += [start + first, *(" " * len(start) + x for x in rest)]
        else:
            lines += [name.rstrip(), *_wrap(text, width)]
    return "\n".join(lines)
