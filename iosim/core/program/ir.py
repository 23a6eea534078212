"""The intermediate representation: a schedule as a frozen value.

Six node kinds, closed: `Loop`, `Load`, `Store`, `Alloc`, `Free`, `Op`.  Everything iosim does
with a schedule (run it, count it, print it, compile it) is a fold over this tree.

Sizes are names (axes such as ``N``) or tile parameters (such as ``B_r``); a program is bound to
numbers only when it is walked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from iosim.base.display import Displayed
from iosim.base.rows import Values
from iosim.core.counts import Key
from iosim.core.problem import Derived, Mask, Tensor
from iosim.core.problem.form import Tensors
from iosim.core.program.index import Affine, Indices, Span, Tile


@dataclass(frozen=True, slots=True)
class Ref:
    """An operand: a buffer, or the part of it that `part` covers along the tile's axis."""

    buffer: str
    part: Tile | None = None

    def __str__(self) -> str:
        return self.buffer if self.part is None else f"{self.buffer}[{self.part}]"


@dataclass(frozen=True, slots=True)
class Marks:
    """A block mask: of a loop's iterations those run whose pair it marks.

    The pair is the number of the open tile `rows`, and that of the loop's own tile.
    """

    name: str
    rows: Tile


@dataclass(frozen=True, slots=True)
class Loop:
    """Iterations over `span` in steps of the parameter `step`.

    Without a step they are single positions; where the axis is its own step, there is one.

    `parallel` promises that iterations are independent: they may run in any order or at once.
    With `marks`, only some of them run.
    """

    tile: Tile
    span: Span
    step: str | None
    parallel: bool
    body: Body
    marks: Marks | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """Copy ``tensor[index]`` from slow memory into a new buffer."""

    buffer: str
    tensor: str
    index: Indices


@dataclass(frozen=True, slots=True)
class Store:
    """Copy a buffer to ``tensor[index]`` in slow memory; the buffer stays resident."""

    buffer: str
    tensor: str
    index: Indices


@dataclass(frozen=True, slots=True)
class Alloc:
    """A new buffer with undefined contents."""

    buffer: str
    index: Indices


@dataclass(frozen=True, slots=True)
class Free:
    """Give a buffer's words back."""

    buffer: str


@dataclass(frozen=True, slots=True)
class Op:
    """Arithmetic on resident buffers: `name` is a key of `iosim.core.program.ops.OPS`.

    `scalars` are whole numbers that it takes besides: where its tiles are, for a mask.
    """

    name: str
    operands: tuple[Ref, ...]
    scalars: tuple[Affine, ...] = ()


Node: TypeAlias = Loop | Load | Store | Alloc | Free | Op
Body: TypeAlias = tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Param:
    """A tile size along `axis`, at least `least`, clipped to the axis when it is bound.

    ``least = 0`` marks a *stationary part*: how much of the axis stays resident.  A larger one,
    like a larger tile, never moves more words and never takes fewer (`iosim.core.tiling` relies on
    it). `less` is a limit by which it ends before the axis does: what lies beyond is never used.
    """

    name: str
    axis: str
    least: int = 1
    less: str = ""

    def most(self, env: Values) -> Any:
        """The largest value that is of use; numbers, arrays or symbols, as in `env`."""
        return env[self.axis] - env[self.less] if self.less else env[self.axis]


@dataclass(frozen=True)
class Program(Displayed):
    """A schedule: what it computes, its tile parameters, its tensors, and the tree.

    `limits` are sizes that are not axes and may be 0: how far a window reaches.  `derived` are axes
    whose lengths follow when the others are bound.  `mask` is of the form that it was traced for.

    Its hash is computed once: tables of programs are looked up at every `bind` and count.

    >>> from iosim import algorithm
    >>> flash2 = algorithm("flash2").program
    >>> [p.name for p in flash2.params], [t.name for t in flash2.tensors]
    (['B_r', 'B_c'], ['Q', 'K', 'V', 'O'])
    """

    name: str
    problem: str
    params: tuple[Param, ...]
    tensors: Tensors
    body: Body
    limits: tuple[str, ...] = ()
    derived: tuple[Derived, ...] = ()
    mask: Mask | None = None
    html_by = "iosim.report.views:program"

    @functools.cached_property
    def _fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._fields)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Program], tuple[Any, ...]]:
        """A copy in another process takes its own hash: those of strings differ there."""
        return Program, self._fields

    def __repr__(self) -> str:
        axes = dict.fromkeys(axis for t in self.tensors for axis in t.axes)
        params = ", ".join(p.name for p in self.params)
        return f"<Program {self.name}({', '.join(axes)}; {params}) of {self.problem}>"

    def tensor(self, name: str) -> Tensor:
        """The tensor called `name`."""
        return next(t for t in self.tensors if t.name == name)

    def keys(self) -> tuple[Key, ...]:
        """Every ``(direction, tensor)`` that the program ever moves, sorted."""
        return self._keys

    @functools.cached_property
    def nodes(self) -> Body:
        """Every node, parents first."""
        return tuple(nodes(self.body))

    @functools.cached_property
    def _keys(self) -> tuple[Key, ...]:
        found: set[Key] = set()
        for node in self.nodes:
            if isinstance(node, Load):
                found.add(("load", node.tensor))
            elif isinstance(node, Store):
                found.add(("store", node.tensor))
        return tuple(sorted(found))


def nodes(body: Body) -> Iterator[Node]:
    """Every node of a tree, parents first."""
    for node in body:
        yield node
        if isinstance(node, Loop):
            yield from nodes(node.body)
