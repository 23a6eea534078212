"""Graphs of operators: data, checked once, run in NumPy.

Families, `files` and `torch_export` make graphs; fusion, the roofline, the lab and
`iosim.gpu.layers` read them.  A kind of operator belongs to `iosim.models.operators`.  Names are in
users' files and in records, so they stay.  ``tests/models/test_layers.py`` runs graphs beside
layers by hand.

>>> from iosim.models.operators import operand, operator
>>> s = {"j": 4, "i": 8}
>>> x, y, z = (operand(name, "j i", s) for name in "XYZ")
>>> graph = Graph("two", (operator("B", "relu", [y], [z]), operator("A", "gelu", [x], [y])))
>>> [op.name for op in graph.operators], [t.name for t in graph.inputs]
(['A', 'B'], ['X'])
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import Any

from iosim.base.errors import InputError
from iosim.base.rows import Row, Values
from iosim.models.operators import Operand, Operator


@dataclass(frozen=True)
class Graph:
    """Operators that read each other's tensors.

    Tensors are known by their names.  Operators may call the axes of one otherwise, as QKᵀ calls
    the rows of K its columns; the sizes are the same.

    Attributes:
        name: what it is.
        operators: in an order in which each comes after those that it reads from; made so here, and
            otherwise as given.
        keeps: names of tensors that must be written even if no operator reads them; by default
            those that none reads.
        dtype: of a word, where a tensor has none of its own.
        waits: pairs of an input and a tensor that is made here: outside, the input is made from
            that tensor, as dY is from Y.

    Raises InputError for two operators or two tensors of one name, a tensor that two write, a
    tensor to keep or to wait for that isn't there, and a cycle.
    """

    name: str
    operators: tuple[Operator, ...]
    keeps: frozenset[str] | None = None
    dtype: str = "fp16"
    waits: tuple[tuple[str, str], ...] = ()
    tensors: dict[str, Operand] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tensors: dict[str, Operand] = {}
        for op in self.operators:
            for t in op.tensors:
                if _signature(before := tensors.setdefault(t.name, t)) != _signature(t):
                    raise InputError(
                        f"{op.name}: tensor {t.name} is {_format_operand(t)} here and "
                        f"{_format_operand(before)} before: make them one"
                    )
        names = [op.name for op in self.operators]
        if twice := [name for name, n in Counter(names).items() if n > 1]:
            raise InputError(f"two operators are called {twice[0]!r}: name one otherwise")
        writer: dict[str, Operator] = {}
        for op in self.operators:
            for t in op.writes:
                other = writer.setdefault(t.name, op)
                if other is not op:
                    raise InputError(f"{other.name} and {op.name} both write {t.name}: rename one")
        for name in self.keeps or ():
            if name not in tensors:
                raise InputError(f"{self.name} has no tensor {name!r} to keep")
        for given, made in self.waits:
            if given not in tensors or given in writer:
                raise InputError(f"{self.name} has no input {given!r} that can wait for {made!r}")
            if made not in writer:
                raise InputError(f"{self.name} makes no {made!r} that {given!r} can wait for")
        ordered = _ordered(self.operators, self.needs)
        # The axes of a tensor are those that its writer has, or else its first reader.
        first: dict[str, Operand] = {}
        for op in ordered:
            for t in op.tensors:
                first.setdefault(t.name, t)
        object.__setattr__(self, "tensors", first)
        object.__setattr__(self, "operators", ordered)

    @cached_property
    def writer(self) -> Mapping[str, Operator]:
        """The operator that writes a tensor."""
        return {t.name: op for op in self.operators for t in op.writes}

    @cached_property
    def readers(self) -> Mapping[str, tuple[Operator, ...]]:
        """The operators that read a tensor."""
        found: dict[str, list[Operator]] = defaultdict(list)
        for op in self.operators:
            for name in {t.name: t for t in op.reads}:
                found[name].append(op)
        return {name: tuple(found[name]) for name in self.tensors}

    @cached_property
    def needs(self) -> Mapping[str, frozenset[str]]:
        """The operators that each comes after, by name: they write what it reads or waits for."""
        wait = dict(self.waits)
        return {
            op.name: frozenset(
                self.writer[x].name
                for t in op.reads
                if (x := wait.get(t.name, t.name)) in self.writer
            )
            for op in self.operators
        }

    @property
    def inputs(self) -> list[Operand]:
        """Tensors that no operator writes."""
        return [t for name, t in self.tensors.items() if name not in self.writer]

    @cached_property
    def outputs(self) -> list[Operand]:
        """Tensors that must be written: those of `keeps`, or those that no operator reads."""
        keeps = self.keeps
        if keeps is None:
            keeps = frozenset(name for name in self.writer if not self.readers[name])
        return [t for name, t in self.tensors.items() if name in keeps]

    @property
    def flop(self) -> int:
        """Of all operators."""
        return sum(op.flop for op in self.operators)

    @cached_property
    def views(self) -> Mapping[str, str]:
        """By the name of a view, the tensor that it shows: its operator moves no words."""
        found: dict[str, str] = {}
        for op in self.operators:
            if op.words_in == op.words_out == 0 and op.reads:
                shown = op.reads[0].name
                found |= {t.name: found.get(shown, shown) for t in op.writes}
        return found

    @cached_property
    def _users(self) -> Mapping[str, tuple[Operator, ...]]:
        """The operators that read words of a tensor, as it is or through a view."""
        found = {
            name: tuple(op for op in ops if op.words[name][0]) for name, ops in self.readers.items()
        }
        for name, shown in self.views.items():
            found[shown] += found[name]
        return found

    def uses(self, name: str, at: Mapping[str, int]) -> tuple[Any, ...]:
        """All that `part` asks of a tensor: whether it is kept, and who reads it.

        Args:
            name: the tensor's.
            at: a number for some operators, by name; the others are -1.
        """
        return (
            name in self.output_names,
            name in self._shown_tensors,
            *(
                tuple(sorted({at.get(op.name, -1) for op in ops}))
                for ops in (self.readers[name], self._users[name])
            ),
        )

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Where each operator is, by name."""
        return {op.name: k for k, op in enumerate(self.operators)}

    def named(self, names: Iterable[str]) -> tuple[Operator, ...]:
        """The operators of some names, in order; a name of no operator counts for nothing."""
        return tuple(
            self.operators[k] for k in sorted({self.place.get(x, -1) for x in names}) if k >= 0
        )

    @cached_property
    def output_names(self) -> frozenset[str]:
        """The names of `outputs`."""
        return frozenset(t.name for t in self.outputs)

    @cached_property
    def _shown_tensors(self) -> frozenset[str]:
        """Tensors that must be written, and those that they show."""
        shown = {shown for name, shown in self.views.items() if name in self.output_names}
        return self.output_names | shown

    def part(self, names: Collection[str]) -> tuple[dict[str, int], dict[str, int]]:
        """Words in and out, by tensor, of some operators as one kernel.

        It reads each tensor from outside once, and writes those that are read outside or kept.  Of
        a tensor of which only some words are written inside, as of a cache, it reads the others.  A
        view is the tensor that it shows, inside or outside.
        """
        inside = self.named(names)
        made = {t.name: op.words[t.name][1] for op in inside for t in op.writes}
        for name, shown in self.views.items():
            if shown in made:
                made[name] = self.tensors[name].words if made[shown] else 0
        reads: dict[str, int] = {}
        writes: dict[str, int] = {}
        for op in inside:
            for name, (n_in, n_out) in op.words.items():
                if (rest := n_in - made.get(name, 0)) > 0:
                    reads[name] = max(rest, reads.get(name, 0))
                outside = any(r.name not in names for r in self._users[name])
                if n_out and (outside or name in self._shown_tensors):
                    writes[name] = n_out
        return reads, writes

    def run(self, given: Values) -> Row:
        """All tensors, from arrays of the inputs, in NumPy.

        Raises InputError for an input that is missing or of another shape.
        """
        if missing := [t.name for t in self.inputs if t.name not in given]:
            raise InputError(f"{self.name}: no array for {', '.join(missing)}")
        found = dict(given)
        for op in self.operators:
            made = op(*(found[t.name] for t in op.reads))
            found.update(zip((t.name for t in op.writes), made, strict=True))
        return found

    def with_operators(
        self,
        more: Iterable[Operator],
        keeps: Iterable[str] = (),
        waits: Iterable[tuple[str, str]] = (),
    ) -> Graph:
        """The graph with more operators, tensors that must be written, and inputs that wait."""
        kept = frozenset(t.name for t in self.outputs) | frozenset(keeps)
        return Graph(self.name, (*self.operators, *more), kept, self.dtype, (*self.waits, *waits))


def _signature(t: Operand) -> tuple[Any, ...]:
    """What all operators must agree on."""
    return t.shape, t.role, t.dtype


def _format_operand(t: Operand) -> str:
    axes = " × ".join(f"{n} {a}" for a, n in t.axes)
    return f"{axes or 'one word'} ({t.role}{', ' + t.dtype if t.dtype else ''})"


def _ordered(
    operators: tuple[Operator, ...], needs: Mapping[str, frozenset[str]]
) -> tuple[Operator, ...]:
    """A stable order: of those that are ready, the first as given."""
    place = {op.name: k for k, op in enumerate(operators)}
    sorter = TopologicalSorter(needs)
    try:
        sorter.prepare()
    except CycleError as error:
        raise InputError(f"a cycle of operators: {' → '.join(error.args[1])}") from None
    if all(place[n] < place[name] for name, before in needs.items() for n in before):
        return operators
    found: list[Operator] = []
    ready: list[int] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(ready, place[name])
        found.append(operators[heapq.heappop(ready)])
        sorter.done(found[-1].name)
    return tuple(found)


def opaque(graph: Graph) -> str:
    """A line on operators that nothing is known of but their tensors; empty if there are none.

    >>> from iosim.models.layers.architectures import layer
    >>> opaque(layer("gpt2", "prefill", batch=1, N=8))
    ''
    """
    found = [op for op in graph.operators if op.kind.name == "opaque"]
    if not found:
        return ""
    names = ", ".join(
        f"{op.name} ({op.setting('of')})" if op.setting("of") else op.name for op in found
    )
    return f"{graph.name}: opaque, words counted once and FLOP as 0: {names}"
