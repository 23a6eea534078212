"""What a program references without explicit loads: its tree, with operands, not transfers.

A buffer that is loaded, and written by no operation while it is resident, *is* the tensor's words:
operands that name it reference those, and its `Load` is not an access.  (Where the tensor is
stored to meanwhile, the buffer holds what it was before, and is none of its words.)  Every other
buffer is a local array with addresses of its own, the same in every iteration; a `Load` into one
reads the tensor's words and then writes the array's, and a `Store` reads the buffer's words and
then writes the tensor's.  `Alloc` and `Free` are not accesses.

An operation is atomic: it reads the operands of `OPS[name].reads` in that order, each one row by
row, and then writes those of `writes`.  An index that is read from a resident word (`At`) reads
that word where its `Load` or `Store` is, even if that is not an access itself.

`regular`, `trace_walk`, `trace_length` and `templates` read it: all methods count these references.
``tests/cache/test_cache_touches.py`` compares with a walker that shares no code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from iosim.core.program.index import At, Dim, Plain, Single, Span, cut, dims, unstacked
from iosim.core.program.ir import Alloc, Free, Load, Loop, Node, Op, Program, Ref, Store, nodes
from iosim.core.program.ops import OPS


@dataclass(frozen=True, eq=False)
class Piece:
    """Words that are referenced one after the other: a box of a tensor or of a local array.

    Attributes:
        name: of the tensor, or of the buffer that is a local array.
        index: where the box lies on each axis, or on each dimension of the array.
        shape: the dimensions of a local array; None of a tensor.
        write: whether the words are written.
    """

    name: str
    index: tuple[Plain, ...]
    shape: tuple[Single, ...] | None
    write: bool


@dataclass(frozen=True, eq=False)
class Touch:
    """The parts that one node of a program references.

    Attributes:
        parts: one whole part after the other.
        over: dimensions of which none may be empty, or nothing is touched.
    """

    parts: tuple[Piece, ...]
    over: tuple[tuple[Single, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class Straight:
    """Neighboring nodes that are not loops, and the spans among theirs that follow open tiles."""

    body: tuple[Touch, ...]
    spans: tuple[Span, ...]


@dataclass(frozen=True, eq=False)
class Position:
    """A buffer of one word takes the position that `tensor[index]` holds."""

    buffer: str
    tensor: str
    index: tuple[Plain, ...]


@dataclass(frozen=True, eq=False)
class Repeat:
    """A loop.

    Attributes:
        loop: its span, step and marks.
        body: what each iteration does.
        spans: the spans in its body that follow open tiles, those of inner loops too.
        alike: whether iterations reference the same words up to where they start, if the spans
            and tiles that are open outside inner loops are equally long.
    """

    loop: Loop
    body: Body
    spans: tuple[Span, ...]
    alike: bool


Action: TypeAlias = Straight | Position | Repeat
Body: TypeAlias = tuple[Action, ...]


@functools.lru_cache(maxsize=64)
def touching(program: Program) -> Body:
    """The references of a program, as the module says."""
    return _body(program.body, {}, _Touches(_positions(program)))


@functools.lru_cache(maxsize=64)
def transferring(program: Program) -> Body:
    """The explicit transfers of a program: loads are reads of the tensor's words, stores writes."""
    return _body(program.body, {}, _Transfers(_positions(program)))


@dataclass(frozen=True)
class _Resident:
    """A buffer: its dimensions, and the tensor's words that it is, or None of a local array."""

    dims: tuple[Dim, ...]
    tensor: str | None = None
    index: tuple[Plain, ...] = ()


_Held: TypeAlias = dict[str, _Resident]


@dataclass(frozen=True)
class _Transfers:
    """What becomes of a node; positions are buffers that some index reads."""

    positions: frozenset[str]

    def node(self, node: Node, after: tuple[Node, ...], held: _Held) -> Iterator[Touch | Position]:
        match node:
            case Load():
                yield Touch((Piece(node.tensor, unstacked(node.index), None, False),))
                yield from _position(node, self.positions)
            case Store():
                yield Touch((Piece(node.tensor, unstacked(node.index), None, True),))
            case _:
                pass


@dataclass(frozen=True)
class _Touches:
    positions: frozenset[str]

    def node(self, node: Node, after: tuple[Node, ...], held: _Held) -> Iterator[Touch | Position]:
        match node:
            case Load():
                yield from self._touch_positions(node, held)
                yield from _position(node, self.positions)
                index = unstacked(node.index)
                if _is_tensor(node, after):
                    held[node.buffer] = _Resident(dims(node.index), node.tensor, index)
                else:
                    held[node.buffer] = _Resident(dims(node.index))
                    source = Piece(node.tensor, index, None, False)
                    yield Touch((source, _part(Ref(node.buffer), held, True)))
            case Store():
                yield from self._touch_positions(node, held)
                target = Piece(node.tensor, unstacked(node.index), None, True)
                yield Touch((_part(Ref(node.buffer), held, False), target))
            case Alloc():
                held[node.buffer] = _Resident(dims(node.index))
            case Free():
                held.pop(node.buffer, None)
            case Op():
                yield _op(node, held)
            case Loop():
                pass
            case _:
                assert_never(node)

    def _touch_positions(self, node: Load | Store, held: _Held) -> Iterator[Touch]:
        for x in unstacked(node.index):
            if isinstance(x, At):
                yield Touch((_part(Ref(x.buffer), held, False),))


def _body(body: tuple[Node, ...], held: _Held, fold: _Transfers | _Touches) -> Body:
    found: list[Action] = []
    touches: list[Touch] = []

    def close() -> None:
        if touches:
            spans = (x for touch in touches for x in _named(touch))
            found.append(Straight(tuple(touches), tuple(dict.fromkeys(spans))))
            touches.clear()

    for k, node in enumerate(body):
        if isinstance(node, Loop):
            close()
            inner = _body(node.body, dict(held), fold)
            found.append(Repeat(node, inner, tuple(dict.fromkeys(_spans(inner))), _alike(inner)))
            continue
        for action in fold.node(node, body[k + 1 :], held):
            if isinstance(action, Touch):
                touches.append(action)
            else:
                close()
                found.append(action)
    close()
    return tuple(found)


def _positions(program: Program) -> frozenset[str]:
    moved = [x for x in program.nodes if isinstance(x, (Load, Store))]
    return frozenset(x.buffer for node in moved for x in node.index if isinstance(x, At))


def _position(node: Load, positions: frozenset[str]) -> Iterator[Position]:
    if node.buffer in positions:
        yield Position(node.buffer, node.tensor, unstacked(node.index))


def _is_tensor(node: Load, after: tuple[Node, ...]) -> bool:
    """Whether a loaded buffer stays what the tensor holds, until it is freed."""
    for x in _until(after, lambda x: isinstance(x, Free) and x.buffer == node.buffer):
        for inner in nodes((x,)):
            if isinstance(inner, Store) and inner.tensor == node.tensor:
                return False
            if isinstance(inner, Op):
                written = (inner.operands[k].buffer for k in OPS[inner.name].writes)
                if node.buffer in written:
                    return False
    return True


def _until(body: tuple[Node, ...], last: Callable[[Node], bool]) -> Iterator[Node]:
    for node in body:
        if last(node):
            return
        yield node


def _part(ref: Ref, held: _Held, write: bool) -> Piece:
    here = held[ref.buffer]
    if here.tensor is not None:
        return Piece(here.tensor, cut(here.index, ref.part), None, write)
    shape = unstacked(here.dims)
    return Piece(ref.buffer, cut(shape, ref.part), shape, write)


def _op(node: Op, held: _Held) -> Touch:
    spec = OPS[node.name]
    reads = (_part(node.operands[k], held, False) for k in spec.reads)
    writes = (_part(node.operands[k], held, True) for k in spec.writes)
    over: dict[str, tuple[Single, ...]] = {}
    for letters, ref in zip(spec.dims, node.operands, strict=True):
        if set(letters) & set(spec.over):
            own = cut(held[ref.buffer].dims, ref.part)
            over |= {x: unstacked((y,)) for x, y in zip(letters, own, strict=True)}
    return Touch((*reads, *writes), over=tuple(over[x] for x in spec.over))


def _named(touch: Touch) -> Iterator[Span]:
    """The spans of a node that follow open tiles."""
    for part in touch.parts:
        both = (*part.index, *(part.shape or ()))
        yield from (x for x in both if isinstance(x, Span) and x.edges)
    yield from (x for dim in touch.over for x in dim if isinstance(x, Span) and x.edges)


def _spans(body: Body) -> Iterator[Span]:
    for action in body:
        if isinstance(action, Repeat) and action.loop.span.edges:
            yield action.loop.span
        if not isinstance(action, Position):
            yield from action.spans


def _alike(body: Body) -> bool:
    inner = list(_loops(body))
    tiles = {x.loop.tile for x in inner}
    for x in inner:
        if x.loop.marks is not None or any(isinstance(y, Position) for y in x.body):
            return False
        if any(edge.tile in tiles for span in (x.loop.span, *x.spans) for edge in span.edges):
            return False
    return True


def _loops(body: Body) -> Iterator[Repeat]:
    for action in body:
        if isinstance(action, Repeat):
            yield action
            yield from _loops(action.body)


def positions_in(body: Body) -> Iterator[Position]:
    """Every position that a program reads."""
    for action in body:
        if isinstance(action, Position):
            yield action
        elif isinstance(action, Repeat):
            yield from positions_in(action.body)
