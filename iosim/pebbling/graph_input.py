"""Vertices and edges as somebody gave them, checked and put together into a graph.

Every way in from outside comes through here: files of all formats, networkx, and plain edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from iosim.base.errors import InputError
from iosim.base.rows import Values
from iosim.pebbling.dag import Dag, short, unknown
from iosim.pebbling.maker import check_reach

# Attributes that say the words of a vertex, and of the values that an edge carries.
WORDS = ("words", "weight")


@dataclass(frozen=True)
class Vertex:
    """A vertex as it was given; its name is its id as text.

    Attributes:
        id: any value.
        words: its weight, or None if none is given.
        output: whether it is marked as one.
        sum: whether it is marked as one.
        at: where it was read, ``file:line``.

    >>> Vertex(1).words is None
    True
    """

    id: object
    words: object = None
    output: bool = False
    sum: bool = False
    at: str = ""


@dataclass(frozen=True)
class Arc:
    """An edge as it was given: an operand, a result, the weight of what moves along it.

    >>> Arc("a", "b").words is None
    True
    """

    operand: object
    result: object
    words: object = None
    at: str = ""


@dataclass(frozen=True)
class Drawn:
    """What a reader found.  `closed`: every vertex that an edge names must be among `vertices`.

    >>> drawn = Drawn((), (Arc("a", 1),), closed=False)
    >>> drawn.dag("pair").preds
    {'a': (), '1': ('a',)}
    """

    vertices: tuple[Vertex, ...]
    edges: tuple[Arc, ...]
    closed: bool = True

    def dag(self, name: str, unit: bool = False) -> Dag:
        """The graph; `unit` ignores all weights, so that every vertex is one word.

        A vertex's words are its own weight, or else the weight of the edges that leave it.

        Raises InputError, with the place where it was read, for a vertex or an edge that is there
        twice, ids that are the same text, an edge from a vertex to itself, an unknown vertex,
        weights that contradict each other, and what `Dag` refuses.
        """
        found = self._vertices()
        for at, id in ((e.at, id) for e in self.edges for id in (e.operand, e.result)):
            if str(id) not in found and self.closed:
                raise InputError(f"{_prefix(at)}{unknown(id, found)}")
            other = found.setdefault(str(id), Vertex(id, at=at))
            if not self.closed and _clash(other.id, id):
                raise InputError(f"{_prefix(at)}{_collision(other.id, id)}")
        check_reach(len(found), len(self.edges))
        preds: dict[str, list[str]] = {v: [] for v in found}
        first: dict[tuple[str, str], Arc] = {}
        for e in self.edges:
            a, b = ends = str(e.operand), str(e.result)
            if a == b:
                raise InputError(
                    f"{_prefix(e.at)}an edge leads from {short(a)} to itself: remove it"
                )
            if ends in first:
                before = f", first at {first[ends].at}" if e.at else ""
                raise InputError(
                    f"{_prefix(e.at)}the edge {short(a)} → {short(b)} is there twice{before}: "
                    "remove one"
                )
            first[ends] = e
            preds[b].append(a)
        return Dag(
            name,
            {v: tuple(ps) for v, ps in preds.items()},
            tuple(v for v, vertex in found.items() if vertex.output),
            frozenset(v for v, vertex in found.items() if vertex.sum),
            () if unit else self._words(found),
        )

    def _vertices(self) -> dict[str, Vertex]:
        found: dict[str, Vertex] = {}
        for v in self.vertices:
            other = found.setdefault(str(v.id), v)
            if other is not v:
                twice = f"the vertex {short(v.id)} is there twice: remove one"
                if _clash(v.id, other.id):
                    twice = _collision(other.id, v.id)
                raise InputError(f"{_prefix(v.at)}{twice}")
        return found

    def _words(self, found: Mapping[str, Vertex]) -> tuple[int, ...]:
        """Words by vertex, of itself or of what leaves it; raises where these contradict."""
        given: dict[str, tuple[int, str]] = {
            v: (
                _check_weight(vertex.words, f"{_prefix(vertex.at)}the vertex {short(v)}"),
                "its own",
            )
            for v, vertex in found.items()
            if vertex.words is not None
        }
        for e in self.edges:
            if e.words is None:
                continue
            a, b = str(e.operand), str(e.result)
            edge = f"the edge {short(a)} → {short(b)}"
            words = _check_weight(e.words, f"{_prefix(e.at)}{edge}")
            before, whose = given.setdefault(a, (words, f"that of {edge}"))
            if before != words:
                raise InputError(
                    f"{_prefix(e.at)}{edge} has weight {words}, and {whose} is {before}, but a "
                    "value has one number of words: make them equal, or ignore weights "
                    "(--unit-weights)"
                )
        return tuple(given[v][0] if v in given else 1 for v in found)


def _prefix(at: str) -> str:
    return f"{at}: " if at else ""


def _clash(a: object, b: object) -> bool:
    """Whether two ids of the same text are not the same."""
    return type(a) is not type(b) or a != b


def _collision(a: object, b: object) -> str:
    a, b = (f"{short(x)} ({type(x).__name__})" for x in (a, b))
    return f"the vertices {a} and {b} are the same as text: rename one"


def _check_weight(value: object, what: str) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 1:
        raise InputError(
            f"{what} has weight {short(value)}: give a whole number of words, 1 or more, or ignore "
            "weights (--unit-weights)"
        )
    return value


def weight(attributes: Values, at: str) -> object:
    """The weight among a vertex's or an edge's attributes, None where there is none.

    Raises InputError where two attributes contradict each other.

    >>> weight({"words": 3, "color": "red"}, "")
    3
    """
    found = [attributes[name] for name in WORDS if attributes.get(name) is not None]
    if len(found) == 2 and found[0] != found[1]:
        raise InputError(
            f"{_prefix(at)}words {short(found[0])} and weight {short(found[1])} are given: leave "
            "one out"
        )
    return found[0] if found else None


def marked(attributes: Values, name: str, at: str) -> bool:
    """Whether a vertex is marked, as an output say; raises InputError where that is neither yes
    nor no.

    >>> marked({"output": True}, "output", ""), marked({}, "sum", "")
    (True, False)
    """
    value = attributes.get(name)
    if value not in (None, False, True):
        raise InputError(
            f"{_prefix(at)}{name} = {short(value)} marks no vertex: give true or false"
        )
    return bool(value)


def from_edges(
    name: str,
    edges: Iterable[tuple[Any, Any]],
    vertices: Iterable[Any] = (),
    outputs: Iterable[Any] = (),
    sums: Iterable[Any] = (),
    words: Mapping[Any, int] | None = None,
) -> Dag:
    """A graph from edges (operand, result); vertices become strings.

    `words` are the words of vertices, 1 where none are given.  Raises InputError for vertices that
    are the same as text, edges that are there twice, and what `Dag` refuses.

    >>> dag = from_edges("sum", [("a", "c"), ("b", "c")], words={"a": 4})
    >>> dag.preds, dag.words
    ({'a': (), 'b': (), 'c': ('a', 'b')}, (4, 1, 1))
    """
    drawn = Drawn(
        tuple(Vertex(v) for v in vertices), tuple(Arc(a, b) for a, b in edges), closed=False
    )
    dag = drawn.dag(name)
    given = {str(v): each for v, each in (words or {}).items()}
    for v in given:
        if v not in dag.preds:
            raise unknown(v, dag.preds)
    return Dag(
        name,
        dag.preds,
        tuple(map(str, outputs)),
        frozenset(map(str, sums)),
        tuple(given.get(v, 1) for v in dag.preds),
    )


def from_networkx(graph: Any, name: str = "", unit: bool = False) -> Dag:
    """A graph from any networkx DiGraph.

    Vertex attributes: ``output=True`` marks outputs (default: the sinks), ``sum=True`` marks sums,
    ``words`` or ``weight`` are the words of a vertex; where it has none, those of the edges that
    leave it.  `unit` ignores weights.  Raises InputError for an undirected graph, and as
    `from_edges` does.

    >>> import networkx as nx
    >>> from_networkx(nx.DiGraph([("a", "c"), ("b", "c")])).preds["c"]
    ('a', 'b')
    """
    return drawn_from_networkx(graph).dag(name or str(graph.name) or "graph", unit)


def drawn_from_networkx(graph: Any, at: str = "") -> Drawn:
    """Vertices and edges of a networkx graph, which was read from the file `at`."""
    if not graph.is_directed():
        raise InputError(f"{_prefix(at)}the graph is undirected: give edges from operand to result")
    return Drawn(
        tuple(vertex(v, data, at) for v, data in graph.nodes(data=True)),
        tuple(Arc(a, b, weight(data, at), at) for a, b, data in graph.edges(data=True)),
    )


def vertex(id: object, attributes: Values, at: str) -> Vertex:
    """A vertex with what its attributes say."""
    output, sum_ = (marked(attributes, name, at) for name in ("output", "sum"))
    return Vertex(id, weight(attributes, at), output, sum_, at)
