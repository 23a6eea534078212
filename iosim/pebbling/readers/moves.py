"""Games in JSON: a list of moves, ``[kind, vertex]`` or ``[kind, vertex, term]``."""

from __future__ import annotations

from pathlib import Path

from iosim.base.errors import InputError
from iosim.base.reading import parse
from iosim.pebbling.game import Move
from iosim.pebbling.readers import text_of

SAYS = "give what `iosim optimal --json` prints, or its schedule alone"


def moves_from(path: Path) -> list[Move]:
    """The moves of a game, from what ``iosim optimal --json`` prints, or from its list of moves.

    Raises InputError for anything else.
    """
    text = text_of(path)
    try:
        data = parse(text, "JSON")
    except InputError as error:
        raise InputError(f"{path}: no JSON ({error}): {SAYS}") from None
    rows = data.get("schedule") if isinstance(data, dict) else data
    if not isinstance(rows, list):
        raise InputError(f"{path}: no list of moves: {SAYS}")
    for number, row in enumerate(rows):
        whole = isinstance(row, list) and len(row) in (2, 3)
        if not whole or not all(isinstance(word, str) for word in row):
            raise InputError(f"{path}: move {number} is not a [kind, vertex] of text: {SAYS}")
    return [Move(*row) for row in rows]
