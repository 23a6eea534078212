"""The graphs that the pebble game is played on: vertices, their operands, inputs and outputs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from iosim.base.display import Displayed
from iosim.base.errors import InputError, closest
from iosim.base.rows import Values

FEW, LONG = 40, 200  # names that a message lists, and characters of a name that it shows
MOST = 2**40  # words of one vertex


@dataclass(frozen=True)
class Dag(Displayed):
    """A directed acyclic graph: each vertex is a value, its predecessors are its operands.

    `preds` maps every vertex to its operands.  A vertex without operands is an input.  `outputs`
    defaults to the sinks.  `sums` are the vertices whose value is a sum of their operands, in any
    order: the game with partial computations may take their terms one at a time.  `words` are the
    words of each vertex, in the order of `preds`: what its value takes of fast memory, and what
    each transfer of it costs; one of each by default.  Vertices are put in topological order, ties
    in the given order.  Raises InputError for a cyclic graph, an unknown vertex, an empty graph, or
    words that are not whole numbers above 0, one for a vertex.

    >>> dag = Dag("sum", {"a": (), "b": (), "c": ("a", "b")}, outputs=("c",), words=(1, 4, 4))
    >>> dag.inputs, dag.preds["c"], dag.words_of["b"], dag.least_memory()
    (('a', 'b'), ('a', 'b'), 4, 9)
    """

    name: str
    preds: Mapping[str, tuple[str, ...]]
    outputs: tuple[str, ...] = ()
    sums: frozenset[str] = field(default=frozenset())
    words: tuple[int, ...] = ()
    html_by = "iosim.report.views:dag"

    def __repr__(self) -> str:
        return f"<Dag {self.name}: {len(self.preds):,} vertices>"

    def __post_init__(self) -> None:
        preds = {v: tuple(dict.fromkeys(ps)) for v, ps in self.preds.items()}
        if not preds:
            raise InputError("the graph is empty: give at least one vertex")
        operands = (p for ps in preds.values() for p in ps)
        for v in itertools.chain(operands, self.outputs, sorted(self.sums)):
            if v not in preds:
                raise unknown(v, preds)
        words = dict(zip(preds, checked_words(preds, self.words), strict=True))
        object.__setattr__(self, "preds", _ordered(preds))
        object.__setattr__(self, "words", tuple(words[v] for v in self.preds))
        if not self.outputs:
            used = {p for ps in preds.values() for p in ps}
            object.__setattr__(self, "outputs", tuple(v for v in self.preds if v not in used))

    @property
    def vertices(self) -> tuple[str, ...]:
        """The vertices in topological order."""
        return tuple(self.preds)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The vertices without operands: blue at the start."""
        return tuple(v for v, ps in self.preds.items() if not ps)

    @cached_property
    def words_of(self) -> dict[str, int]:
        """The words of each vertex."""
        return dict(zip(self.preds, self.words, strict=True))

    @cached_property
    def unit(self) -> bool:
        """Whether every vertex is one word."""
        return all(words == 1 for words in self.words)

    @cached_property
    def succs(self) -> dict[str, tuple[str, ...]]:
        """The vertices that each vertex is an operand of."""
        out: dict[str, list[str]] = {v: [] for v in self.preds}
        for v, ps in self.preds.items():
            for p in ps:
                out[p].append(v)
        return {v: tuple(ss) for v, ss in out.items()}

    @cached_property
    def output_ancestors(self) -> frozenset[str]:
        """The vertices that some output depends on, outputs included."""
        found = set(self.outputs)
        for v in reversed(self.vertices):
            if v in found:
                found.update(self.preds[v])
        return frozenset(found)

    @cached_property
    def fused(self) -> frozenset[str]:
        """Terms of one sum only, made from their operands: a multiply–add may consume them."""
        return frozenset(
            v
            for v, ss in self.succs.items()
            if self.preds[v]
            and len(ss) == 1
            and ss[0] in self.sums
            and v not in self.outputs
            and v not in self.sums
        )

    @cached_property
    def folded(self) -> frozenset[str]:
        """Fused terms that weigh at least as much as their sum: making one apart never helps.

        `iosim.pebbling.operations` has the proof.
        """
        words = self.words_of
        return frozenset(t for t in self.fused if words[t] >= words[self.succs[t][0]])

    def least_memory(self, partial: bool = False) -> int:
        """The smallest M with which any pebbling exists.

        That is the most words of a vertex with its operands; with unit weights, the largest
        in-degree plus one.  With partial computations a sum needs one term and itself.  A fused
        term needs its operands and the sum where it is added on the fly; made apart, first its
        operands and itself, then itself and the sum: whichever is less.

        >>> preds = {"a": (), "b": (), "t": ("a",), "s": ("t", "b")}
        >>> Dag("light", preds, sums=frozenset("s"), words=(2, 1, 1, 2)).least_memory(partial=True)
        3
        """
        words, least = self.words_of, 1

        def with_operands(v: str) -> int:
            return words[v] + sum(words[p] for p in self.preds[v])

        def with_term(s: str, t: str) -> int:
            apart = words[t] + words[s]
            if t not in self.fused:
                return apart
            return min(with_operands(t) - words[t] + words[s], max(with_operands(t), apart))

        for v in self.output_ancestors:
            if partial and v in self.sums:
                least = max([least, *(with_term(v, t) for t in self.preds[v])])
            elif self.preds[v] and not (partial and v in self.fused):
                least = max(least, with_operands(v))
        return least


def check_memory(dag: Dag, M: int, partial: bool = False) -> None:
    """Raise InputError where M allows no pebbling."""
    if (least := dag.least_memory(partial)) > M:
        raise InputError(
            f"M = {M} is too small for {dag.name}: a vertex with its operands needs M >= {least}"
        )


def unknown(vertex: object, known: Values) -> InputError:
    """The error that names a vertex that a graph lacks; it lists the others where they are few."""
    near = closest(str(vertex)[:LONG], known)
    if len(known) > FEW and near.startswith("known"):
        near = f"the graph has {len(known):,} others"
    return InputError(f"unknown vertex {short(vertex)}: {near}")


def short(name: object) -> str:
    """A vertex's name for a message, cut where it is very long."""
    text = str(name)
    return repr(text if len(text) <= LONG else f"{text[:LONG]}…")


def check_dag(value: object) -> None:
    """Raise InputError for what is not a graph.

    >>> check_dag("pyramid")
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: the game is played on a graph, got str: give a Dag, like \
iosim.pebbling.pyramid(3)
    """
    if not isinstance(value, Dag):
        raise InputError(
            f"the game is played on a graph, got {type(value).__name__}: give a Dag, like "
            "iosim.pebbling.pyramid(3)"
        )


def checked_words(preds: Values, words: Sequence[object]) -> tuple[int, ...]:
    """Words of vertices, all ones by default; raises InputError for what is no such number."""
    if not words:
        return (1,) * len(preds)
    if len(words) != len(preds):
        raise InputError(f"{len(words)} words are given for {len(preds)} vertices: give each its")
    found = []
    for v, each in zip(preds, words, strict=True):
        if type(each) is not int or not 1 <= each <= MOST:
            raise InputError(
                f"vertex {short(v)} has {short(each)} words: give a whole number, 1..{MOST:,}"
            )
        found.append(each)
    return tuple(found)


def _ordered(preds: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The same mapping in topological order; raises InputError with a cycle if there is one."""
    sorter = TopologicalSorter(dict.fromkeys(preds, ()))
    for v, operands in preds.items():
        sorter.add(v, *operands)
    try:
        return {v: preds[v] for v in sorter.static_order()}
    except CycleError as error:
        loop = error.args[1][::-1]
        shown = loop if len(loop) <= 8 else [*loop[:6], "…", loop[-1]]
        raise InputError(f"the graph has a cycle, {' ← '.join(shown)}: remove one edge") from None
