"""What indexes a buffer or a tensor: tiles, spans between affine bounds, stacks, single positions.

Sizes are names (axes such as ``N``) or tile parameters (such as ``B_r``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, assert_never, overload

from iosim.base.errors import ProgramError
from iosim.core.program.hashed import Hashed, hashed


@hashed
@dataclass(frozen=True, slots=True)
class Edge(Hashed):
    """An end of an open tile: its first position, or the one after its last."""

    tile: Tile
    end: Literal["start", "stop"]

    def __post_init__(self) -> None:
        if self.end not in ("start", "stop"):
            raise ProgramError(
                f"{self.end!r} is not an end of tile {self.tile}: give start or stop"
            )

    def __str__(self) -> str:
        return f"{self.tile}.{self.end}"


Name: TypeAlias = str | Edge


@hashed
@dataclass(frozen=True, slots=True)
class Affine(Hashed):
    """``const + Σ coefficient·name``, the only arithmetic that a bound may use.

    Names are axes, parameters, and the edges of open tiles (`Tile.start`, `Tile.stop`).  Sums,
    differences and whole multiples are affine again; names and numbers are lifted:

    >>> i = Tile("i", "N")
    >>> print(i.stop + "N_k" - 3)
    N_k + i.stop - 3

    Raises ProgramError for other numbers, other names, or one that is named twice.
    """

    const: int = 0
    terms: tuple[tuple[Name, int], ...] = ()

    def __post_init__(self) -> None:
        names = []
        if type(self.const) is not int:
            raise ProgramError(f"{self.const!r} in a bound: give a whole number")
        for name, value in self.terms:
            names.append(name)
            if type(value) is not int:
                raise ProgramError(f"{value!r} in a bound: give a whole number")
        for name in names:
            if not isinstance(name, (str, Edge)):
                raise ProgramError(
                    f"{describe(name)} in a bound: give a size, a whole number, or an edge of an "
                    "open tile (i.start, i.stop)"
                )
        if len(set(names)) < len(names):
            twice = next(x for k, x in enumerate(names) if x in names[:k])
            raise ProgramError(f"a bound names {twice} twice: add its coefficients up")

    @classmethod
    def of(cls, value: Affine | Edge | str | int) -> Affine:
        """Lift a name or a number."""
        if isinstance(value, Affine):
            return value
        if isinstance(value, (int, float)):
            return cls(const=value)
        return cls(terms=((value, 1),))

    def __add__(self, other: Affine | str | int) -> Affine:
        other = Affine.of(other)
        terms = dict(self.terms)
        for name, coefficient in other.terms:
            terms[name] = terms.get(name, 0) + coefficient
        kept = [(n, c) for n, c in terms.items() if c]
        if len(kept) > 1:
            kept.sort(key=lambda term: str(term[0]))
        return type(self)(self.const + other.const, tuple(kept))

    __radd__ = __add__

    def __mul__(self, factor: int) -> Affine:
        if type(factor) is not int:
            raise ProgramError(f"{self} times {describe(factor)} in a bound: give a whole number")
        terms = tuple((name, c * factor) for name, c in self.terms if factor)
        return type(self)(self.const * factor, terms)

    __rmul__ = __mul__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | str | int) -> Affine:
        return self + -Affine.of(other)

    def __rsub__(self, other: str | int) -> Affine:
        return Affine.of(other) - self

    @property
    def edges(self) -> frozenset[Edge]:
        """The edges of tiles that it names."""
        return frozenset([name for name, _ in self.terms if isinstance(name, Edge)])

    @property
    def sizes(self) -> tuple[tuple[str, int], ...]:
        """The terms of axes and parameters."""
        return tuple((name, c) for name, c in self.terms if isinstance(name, str))

    def at(self, env: Mapping[Any, Any]) -> Any:
        """The value where `env` gives every name, a number or an array."""
        total: Any = self.const
        for name, c in self.terms:
            total = total + (env[name] if c == 1 else c * env[name])
        return total

    def __str__(self) -> str:
        positive_first = sorted(self.terms, key=lambda term: (term[1] < 0, str(term[0])))
        parts = [
            f"{name}" if c == 1 else f"-{name}" if c == -1 else f"{c}*{name}"
            for name, c in positive_first
        ]
        if self.const or not parts:
            parts.append(str(self.const))
        return " + ".join(parts).replace("+ -", "- ")


@hashed
@dataclass(frozen=True, slots=True)
class Span(Hashed):
    """A part of an axis: positions ``start <= p < stop``.

    A fixed span lies inside its axis, which binding checks.  One that names edges of open tiles is
    cut at the ends of its axis, or to what `within` leaves of the axis, and empty where nothing is
    left.

    Attributes:
        within: two fixed bounds, of sizes and parameters, for a span that names edges.

    Raises ProgramError for a `within` that names edges, or of a span that names none.
    """

    axis: str
    start: Affine
    stop: Affine
    within: tuple[Affine, Affine] | None = None

    def __post_init__(self) -> None:
        if self.within is None:
            return
        low, high = self.within
        if moving := low.edges | high.edges:
            edge = min(moving, key=str)
            raise ProgramError(
                f"{self.axis}[{self}] is within {edge}, which moves: give sizes and parameters"
            )
        if not self.edges:
            raise ProgramError(
                f"{self.axis}[{self}] names no edge of an open tile: write where it lies as its "
                "start and stop, without within"
            )

    @property
    def is_entire_axis(self) -> bool:
        """Whether the span is the entire axis."""
        start, stop = self.start, self.stop
        return not (start.const or start.terms or stop.const) and stop.terms == ((self.axis, 1),)

    @property
    def bounds(self) -> tuple[Affine, ...]:
        """Every expression that it is bounded by."""
        return self.start, self.stop, *(self.within or ())

    @property
    def edges(self) -> frozenset[Edge]:
        """The edges of open tiles that it depends on; none where it is fixed."""
        return self.keep(lambda span: span.start.edges | span.stop.edges)

    @property
    def tile(self) -> Tile | None:
        """The open tile of which it is all; None for any other span."""
        for edge in self.start.edges if self.within is None else ():
            if (self.start, self.stop, self.axis) == (
                edge.tile.start,
                edge.tile.stop,
                edge.tile.axis,
            ):
                return edge.tile
        return None

    @property
    def length(self) -> Affine:
        """``stop - start``, of a fixed span."""
        return self.stop - self.start

    def __str__(self) -> str:
        if self.within is not None:
            return f"{self.start}:{self.stop} within {self.within[0]}:{self.within[1]}"
        return ":" if self.is_entire_axis else f"{self.start}:{self.stop}"


@hashed
@dataclass(frozen=True, slots=True)
class Tile(Hashed):
    """The part of an axis that one iteration of the loop `var` covers.

    A point (the loop had no step) is a single position and adds no dimension to a buffer.

    Attributes:
        of: the open tile that its loop runs over from end to end, where that is what it does: of a
            buffer with that tile as a dimension it is a part.
    """

    var: str
    axis: str
    point: bool = False
    of: Tile | None = None

    @property
    def start(self) -> Affine:
        """Its first position, as a bound."""
        return Affine.of(self.edges[0])

    @property
    def stop(self) -> Affine:
        """The position after its last, as a bound."""
        return Affine.of(self.edges[1])

    @property
    def edges(self) -> tuple[Edge, Edge]:
        """Its start and its stop."""
        return self.keep(lambda tile: (Edge(tile, "start"), Edge(tile, "stop")))

    def __str__(self) -> str:
        return self.var


Single: TypeAlias = Span | Tile


@hashed
@dataclass(frozen=True, slots=True)
class Stack(Hashed):
    """Indices of neighboring axes of a tensor that are one dimension of a buffer.

    Its extent is the product of theirs; positions run over the parts in order, the last one
    fastest.  Raises ProgramError for fewer than two parts, and for a part that has no extent of
    its own.
    """

    parts: tuple[Single, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise ProgramError(f"a stack of {len(self.parts)}: give two indices or more")
        for x in self.parts:
            if not isinstance(x, (Span, Tile)) or (isinstance(x, Tile) and x.point):
                raise ProgramError(f"{x} in a stack has no extent: give tiles with steps and spans")

    @property
    def axis(self) -> str:
        """The axes that it covers; never the name of an axis."""
        return "×".join(x.axis for x in self.parts)

    @property
    def edges(self) -> frozenset[Edge]:
        """The edges of open tiles that its spans depend on."""
        return frozenset().union(*(x.edges for x in self.parts if isinstance(x, Span)))

    def __str__(self) -> str:
        whole = (isinstance(x, Span) and x.is_entire_axis for x in self.parts)
        texts = (x.axis if all_ else str(x) for x, all_ in zip(self.parts, whole, strict=True))
        return "×".join(f"({text})" if ":" in text else text for text in texts)


@hashed
@dataclass(frozen=True, slots=True)
class Number(Hashed):
    """Which iteration of its loop a tile is, from 0 on: a point on a derived axis."""

    tile: Tile
    axis: str

    def __str__(self) -> str:
        return f"#{self.tile}"


@hashed
@dataclass(frozen=True, slots=True)
class Within(Hashed):
    """A tile, counted from its own start, on an axis that is as long as the tile's step.

    A buffer that it indexes has the tile itself as a dimension.
    """

    tile: Tile
    axis: str

    def __str__(self) -> str:
        return f"0:|{self.tile}|"


@dataclass(frozen=True, slots=True)
class At:
    """The position that a resident buffer of one word holds: a point."""

    buffer: str
    axis: str

    def __str__(self) -> str:
        return f"@{self.buffer}"


# What has an extent, or takes one axis of a tensor, or is a dimension of a buffer; and all of it.
Plain: TypeAlias = Single | Number | Within | At


Dim: TypeAlias = Single | Stack


Index: TypeAlias = Plain | Stack
Indices: TypeAlias = tuple[Index, ...]
_Index = TypeVar("_Index", bound=Index)


def dim_of(x: Index) -> Dim | None:
    """The dimension of a buffer that an index makes: none of a point."""
    match x:
        case Span() | Stack():
            return x
        case Tile():
            return None if x.point else x
        case Within(tile):
            return tile
        case Number() | At():
            return None
        case _:
            assert_never(x)


def dims(index: Indices) -> tuple[Dim, ...]:
    """The indices that become dimensions of a buffer: all but points."""
    return tuple(dim for x in index if (dim := dim_of(x)) is not None)


def tiles_of(x: Index) -> tuple[Tile, ...]:
    """The tiles that an index needs to be open."""
    match x:
        case Tile():
            return (x,)
        case Span():
            return tuple(edge.tile for edge in x.edges)
        case Stack(parts):
            return tuple(tile for part in parts for tile in tiles_of(part))
        case Number(tile) | Within(tile):
            return (tile,)
        case At():
            return ()
        case _:
            assert_never(x)


def cut_from(index: Indices, part: Tile) -> int:
    """Which index a part is cut from: the tile that its loop runs over, or else a span.

    Raises ProgramError where there is neither.
    """
    if part.of is not None and part.of in index:
        return index.index(part.of)
    for k, x in enumerate(index):
        if isinstance(x, Span) and x.axis == part.axis:
            return k
    raise ProgramError(
        f"part {part} of [{', '.join(map(str, index))}]: a part is cut from a fixed span, or by a "
        "loop over all of a tile"
    )


def cut(index: tuple[_Index, ...], part: Tile | None) -> tuple[_Index | Tile, ...]:
    """Indices, with a part in place of what it is cut from."""
    if part is None:
        return index
    at = cut_from(index, part)
    return (*index[:at], part, *index[at + 1 :])


@overload
def unstacked(index: tuple[Dim, ...]) -> tuple[Single, ...]: ...


@overload
def unstacked(index: Indices) -> tuple[Plain, ...]: ...


def unstacked(index: Indices) -> tuple[Plain, ...]:
    """One index for each axis of a tensor: stacks are taken apart."""
    return tuple(y for x in index for y in (x.parts if isinstance(x, Stack) else (x,)))


def describe(value: object) -> str:
    """A value as messages name it."""
    if isinstance(value, Tile):
        return f"tile {value}"
    return (
        str(value) if isinstance(value, (Affine, Span, Stack, Number, Within, At)) else repr(value)
    )
