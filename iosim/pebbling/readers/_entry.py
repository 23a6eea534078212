"""`Reader`, the record of a format of graphs, and what readers share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from iosim.pebbling.graph_input import Drawn

_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Reader:
    """A format of graphs.

    Attributes:
        name: its key in the registry.
        says: what to write, for messages.
        suffixes: of its files, in small letters.
        begins: characters, one of which only its files begin with.
        read: (file's name, text) → what is drawn; raises InputError.

    >>> from iosim.pebbling.readers import reader
    >>> reader("edges").read("file", "a b").edges[0].result
    'b'
    """

    name: str
    says: str
    suffixes: tuple[str, ...]
    begins: str
    read: Callable[[str, str], Drawn]


def parse_integer(text: str) -> int | None:
    """A whole number in ASCII digits, or None."""
    return int(text) if _WHOLE.fullmatch(text) else None


def shorten_line(line: str) -> str:
    """A line for a message, cut where it is long."""
    text = line.strip()
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
