"""Arc lists: ``operand result`` per line, and the words of the operand's value as a third."""

from __future__ import annotations

from iosim.base.errors import InputError
from iosim.pebbling.graph_input import Arc, Drawn
from iosim.pebbling.readers._entry import Reader, parse_integer, shorten_line

SAYS = "give one 'operand result' or 'operand result words' per line"


def read(name: str, text: str) -> Drawn:
    """The edges; from # on a line is a comment."""
    edges = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        weight = parse_integer(words[2]) if len(words) == 3 else None
        if len(words) not in (2, 3) or (len(words) == 3 and weight is None):
            raise InputError(
                f"{name}:{number}: expected 'operand result' or 'operand result words', got "
                f"{shorten_line(line)}"
            )
        edges.append(Arc(words[0], words[1], weight, f"{name}:{number}"))
    if not edges:
        raise InputError(f"{name} has no edge: {SAYS}")
    return Drawn((), tuple(edges), closed=False)


READER = Reader("edges", SAYS, (".txt", ".edges", ".edgelist", ".el"), "", read)
