"""HyperDAGs, ``.hdag``: the format of OneStopParallel and its data sets.

After comments (%), a line with the numbers of hyperedges, vertices and pins; then a line for each
hyperedge, ``id communication-weight memory-weight``; each vertex, ``id work type``; and each pin,
``hyperedge vertex``.  A hyperedge is a value: its first pin made it, the others use it.  The two
weights of a hyperedge are what moving the value costs and what it takes of fast memory; both are
1 where they are left out.  Here a value has one number of words, so they must be equal.  The work
and the type of a vertex are not counted: computing costs nothing in this game.

Source: the readers of github.com/Algebraic-Programming/OneStopParallel
(include/osp/auxiliary/io/hdag_graph_file_reader.hpp, "HyperdagDB").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iosim.base.errors import InputError
from iosim.pebbling.graph_input import Arc, Drawn, Vertex
from iosim.pebbling.maker import check_reach
from iosim.pebbling.readers._entry import Reader, parse_integer, shorten_line

SAYS = "write what OneStopParallel's WriteComputationalDagHyperdagFormatDb writes"


@dataclass
class _Lines:
    """The numbers of each line without a comment, with the file's name and line for messages."""

    name: str
    rows: Iterator[tuple[int, str]]
    number: int = 0

    def next(self, what: str, least: int, most: int) -> list[int]:
        """The whole numbers of the next line: between `least` and `most` of them."""
        try:
            self.number, line = next(self.rows)
        except StopIteration:
            raise InputError(
                f"{self.name}:{self.number}: the file ends, cut off: expected {what}"
            ) from None
        found = [parse_integer(word) for word in line.split()]
        numbers = [x for x in found if x is not None]
        if len(numbers) != len(found) or not least <= len(numbers) <= most:
            raise self.error(f"expected {what}, whole numbers, got {shorten_line(line)}")
        return numbers

    def error(self, says: str) -> InputError:
        return InputError(f"{self.at}: {says}")

    @property
    def at(self) -> str:
        return f"{self.name}:{self.number}"

    def ids(self, what: str, count: int) -> Iterator[tuple[int, list[int]]]:
        """A line for each of `count` things: the id, each once, and the one or two others."""
        seen: dict[int, str] = {}
        for _ in range(count):
            id, *others = self.next(f"'{what} …', one of {count} lines", 1, 3)
            self.inside(what, id, count)
            if id in seen:
                raise self.error(f"{what} {id} is there twice, first at {seen[id]}")
            seen[id] = self.at
            yield id, others

    def inside(self, what: str, id: int, count: int) -> None:
        if not 0 <= id < count:
            raise self.error(f"{what} {id} is outside 0..{count - 1}")


def read(name: str, text: str) -> Drawn:
    """The vertices, and an edge from the first pin of each hyperedge to every other."""
    rows = ((k, line) for k, line in enumerate(text.splitlines(), 1) if line.strip())
    lines = _Lines(name, (row for row in rows if not row[1].lstrip().startswith("%")))
    hyperedges, vertices, pins = lines.next("'hyperedges vertices pins'", 3, 3)
    if min(hyperedges, pins) < 0 or vertices < 1:
        raise lines.error("a number of hyperedges, vertices or pins is too small")
    check_reach(hyperedges, vertices, pins)
    words: dict[int, tuple[object, str]] = {}
    for id, weights in lines.ids("hyperedge", hyperedges):
        words[id] = _words(*weights), lines.at
    made: dict[int, str] = {}
    for id, others in lines.ids("vertex", vertices):
        if others and others[0] < 0:
            raise lines.error(f"vertex {id} has work {others[0]}: it can't be below 0")
        made[id] = lines.at
    source: dict[int, int] = {}
    of: dict[int, int] = {}
    edges = []
    for _ in range(pins):
        h, v = lines.next(f"'hyperedge vertex', one of {pins} pins", 2, 2)
        lines.inside("hyperedge", h, hyperedges)
        lines.inside("vertex", v, vertices)
        if h not in source:
            if v in of:
                raise lines.error(f"vertex {v} is the source of two hyperedges, {of[v]} and {h}")
            source[h], of[v] = v, h
        else:
            edges.append(Arc(str(source[h]), str(v), at=lines.at))
    rest = next(lines.rows, None)
    if rest:
        raise InputError(
            f"{name}:{rest[0]}: a line beyond the {pins} pins: {shorten_line(rest[1])}"
        )
    for h, (_, at) in words.items():
        if h not in source:
            raise InputError(f"{at}: hyperedge {h} has no pin")
    return Drawn(
        tuple(
            Vertex(str(v), words[of[v]][0], at=words[of[v]][1])
            if v in of
            else Vertex(str(v), at=made[v])
            for v in sorted(made)
        ),
        tuple(edges),
    )


def _words(communication: int = 1, memory: int = 1) -> object:
    """The words of a value; where its two weights differ, what to say of them."""
    if communication == memory:
        return memory
    return f"{communication} to move it and {memory} in memory"


READER = Reader("hdag", SAYS, (".hdag",), "%", read)
