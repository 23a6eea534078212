"""Collects the vertices of a graph, with sums as one vertex or as chains of additions."""

from __future__ import annotations

from iosim.base.errors import InputError, closest
from iosim.pebbling.dag import Dag

SUMS = ("vertex", "chain")
LARGEST = 100_000  # vertices: the search takes far fewer
# Vertices, with their operands.
Preds = dict[str, tuple[str, ...]]


def check_reach(*numbers: int) -> None:
    """Raise InputError if a number of vertices is far beyond what the search takes."""
    if max(numbers) > LARGEST:
        raise InputError(
            f"the graph exceeds {LARGEST:,} vertices, far beyond reach: choose smaller sizes"
        )


class Maker:
    """Collects vertices; a sum is one vertex, or a chain of additions.

    Args:
        style: of sums: ``vertex`` or ``chain``.

    Raises InputError for another style, and for graphs far beyond reach.

    >>> b = Maker("chain")
    >>> b.sum("s", [b.input(x) for x in "xyz"])
    's'
    >>> b.dag("sum", ["s"]).vertices
    ('x', 'y', 'z', 's:2', 's')
    """

    def __init__(self, style: str):
        if style not in SUMS:
            raise InputError(f"unknown style of sums {style!r}: {closest(style, SUMS)}")
        self.style = style
        self.preds: Preds = {}
        self.sums: set[str] = set()

    def input(self, name: str) -> str:
        """A vertex without operands."""
        return self.op(name)

    def op(self, name: str, *operands: str) -> str:
        """A vertex that is made from others; its name."""
        check_reach(len(self.preds) + 1)
        self.preds[name] = operands
        return name

    def sum(self, name: str, terms: list[str]) -> str:
        """The sum of the terms; of one term, the term itself."""
        if len(terms) == 1:
            return terms[0]
        if self.style == "vertex":
            self.sums.add(name)
            return self.op(name, *terms)
        partial = terms[0]
        for k, term in enumerate(terms[1:], 2):
            partial = self.op(name if k == len(terms) else f"{name}:{k}", partial, term)
        return partial

    def dag(self, name: str, outputs: list[str]) -> Dag:
        """The graph of what was collected."""
        return Dag(name, self.preds, tuple(outputs), frozenset(self.sums))
