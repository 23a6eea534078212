"""What the builder returns and accepts: handles on tiles, bounds and buffers, and names."""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar, cast

from iosim.base.errors import ProgramError
from iosim.core.program.index import (
    Affine,
    Dim,
    Edge,
    Number,
    Span,
    Stack,
    Tile,
    Within,
    cut,
    describe,
)
from iosim.core.program.ops import OPS, usage

Bound: TypeAlias = Affine | str | int


class SymbolicValue:
    """A base of handles: they have no value while a schedule is traced.

    What would need one raises ProgramError with what a schedule can do instead: `_REFUSED`.  Which
    tile or buffer a handle is of is known, so that two of these may be compared.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        mine, others = _identity(self), _identity(other)
        if mine is None or others is None:
            _refuse(self, "in a condition", _BRANCH)
        return mine == others

    def __hash__(self) -> int:
        return hash(_identity(self))


def _identity(value: object) -> tuple[object, ...] | None:
    """What identifies a tile or a buffer; None for another value."""
    match value:
        case Tile(var=var, axis=axis, point=point, of=of):
            return var, axis, point, of
        case Buffer(name=name, part=part, serial=serial):
            return name, part, serial
        case _:
            return None


# What a schedule can do instead.
_BRANCH = (
    "the body of a loop is traced once, for all its tiles, so Python cannot branch on them; use "
    "bounds that follow a tile (stop=i.stop), within= for a minimum or maximum, a mask operation "
    "(mask_after), or marked tiles (where=)"
)
_VALUE = (
    "it has no value until sizes are bound; loop over its positions with "
    "b.tiles(axis, step, i.start, i.stop), and give i.start and i.stop as bounds"
)
_SUMS = (
    "bounds are sums, differences and whole multiples of sizes and of the edges of tiles, i.start "
    "and i.stop"
)
_REFUSED = {
    "in a condition": (_BRANCH, "bool lt le gt ge"),
    "used as a number": (
        _VALUE,
        "int index float complex round trunc floor ceil abs array len iter contains",
    ),
    "used in arithmetic": (
        _SUMS,
        "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod divmod pow rpow "
        "matmul rmatmul neg pos invert and rand or ror xor lshift rshift array_ufunc "
        "array_function",
    ),
}


def _refuse(handle: SymbolicValue, how: str, instead: str) -> NoReturn:
    if isinstance(handle, Buffer) and how != "in a condition":
        instead = f"operations compute, b.op(name, *buffers), with one of {', '.join(OPS)}"
    raise ProgramError(f"{describe(handle)} is {how}: {instead}")


def _refusing(how: str, instead: str) -> Callable[..., NoReturn]:
    return lambda self, *_, **__: _refuse(self, how, instead)


for _how, (_instead, _methods) in _REFUSED.items():
    for _method in _methods.split():
        setattr(SymbolicValue, f"__{_method}__", _refusing(_how, _instead))


class BoundHandle(Affine, SymbolicValue):
    """A bound from the edge of an open tile: it has the arithmetic of bounds, and no value."""

    __slots__ = ()
    __eq__ = SymbolicValue.__eq__
    __hash__ = Affine.__hash__


class TileHandle(Tile, SymbolicValue):
    """What a loop yields: the tile of whichever iteration, for indices and for bounds."""

    __slots__ = ()
    __eq__ = SymbolicValue.__eq__
    __hash__ = Tile.__hash__

    @property
    def start(self) -> Affine:
        """Its first position, as a bound."""
        return BoundHandle(terms=((Edge(unhandled(self), "start"), 1),))

    @property
    def stop(self) -> Affine:
        """The position after its last, as a bound."""
        return BoundHandle(terms=((Edge(unhandled(self), "stop"), 1),))


_T = TypeVar("_T")


def unhandled(value: _T) -> _T:
    """A value as programs have it: a tile, a bound or an index in place of handles.

    >>> i = TileHandle("i", "N")
    >>> unhandled(i) == Tile("i", "N"), unhandled(i.stop - 1) == Tile("i", "N").stop - 1
    (True, True)
    """
    plain: Any = value
    match value:
        case TileHandle():
            plain = Tile(value.var, value.axis, value.point, value.of)
        case BoundHandle():
            plain = Affine(value.const, value.terms)
        case Span():
            within = value.within and (unhandled(value.within[0]), unhandled(value.within[1]))
            plain = Span(value.axis, unhandled(value.start), unhandled(value.stop), within)
        case Stack():
            plain = Stack(tuple(map(unhandled, value.parts)))
        case Number() | Within():
            plain = replace(value, tile=unhandled(value.tile))
    return cast("_T", plain)


class UnknownName(ProgramError, AttributeError):
    """An attribute that a handle or the builder lacks."""


@dataclass(frozen=True, slots=True, eq=False)
class Buffer(SymbolicValue):
    """A handle on a resident buffer; ``q[x]`` is the part of it that the tile x covers.

    `serial` tells it from another buffer that has its name once it is freed.
    """

    name: str
    index: tuple[Dim, ...]
    part: Tile | None = None
    serial: int = 0

    def __str__(self) -> str:
        part = "" if self.part is None else f"[{self.part}]"
        return f"{self.name}{part}"

    def __repr__(self) -> str:
        return f"buffer {self}"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            _refuse(self, f"asked for its {name}", "")

    def __getitem__(self, part: Tile) -> Buffer:
        if not isinstance(part, Tile):
            raise ProgramError(
                f"{self.name}[{describe(part)}]: a part is what a tile covers; give a tile"
            )
        part = unhandled(part)
        if part.point:
            raise ProgramError(
                f"{self.name}[{part}]: {part} is a single position; cut a part by a loop with steps"
            )
        own: list[Dim] = [x for x in self.index if x == part.of]
        found = own or [x for x in self.index if x.axis == part.axis]
        if len(found) != 1:
            raise ProgramError(
                f"{self.name}[{part}] is ambiguous or empty: {self.name} must have exactly one "
                f"dimension along {part.axis}"
            )
        if self.part is not None or not (own or isinstance(found[0], Span)):
            raise ProgramError(
                f"{self.name}[{part}]: {found[0] if self.part is None else self.part} is a tile "
                "already, and a part is cut from a fixed span, or by a loop over all of a tile"
            )
        return replace(self, index=cut(self.index, part), part=part)


def _extent(dim: Dim) -> str:
    return dim.axis if isinstance(dim, Span) and dim.is_entire_axis else str(dim)


def _agree(name: str, operands: tuple[Buffer, ...]) -> str:
    """The first dimensions that do not fit an operation, as text; "" where all do."""
    bound: dict[str, Dim] = {}
    for letters, buffer in zip(OPS[name].dims, operands, strict=True):
        if letters == "*":
            continue
        if len(letters) != len(buffer.index):
            return f"{buffer.name} has {len(buffer.index)} dimensions and not {len(letters)}"
        for letter, index in zip(letters, buffer.index, strict=True):
            if (there := bound.setdefault(letter, index)) != index:
                return (
                    f"its dimension {letter} is {_extent(there)} and, in {buffer.name}, "
                    f"{_extent(index)}"
                )
    return ""


def check_operands(name: str, operands: tuple[Buffer, ...]) -> None:
    """Raise ProgramError where an operation is unknown or doesn't fit the operands' shapes."""
    if name not in OPS:
        near = difflib.get_close_matches(str(name), OPS, n=4, cutoff=0.5)
        usages = f"did you mean {'; '.join(map(usage, near))}? " if near else ""
        raise ProgramError(
            f"unknown operation {describe(name)}: {usages}there are {', '.join(OPS)}"
        )
    shapes = ", ".join(f"{x.name}[{', '.join(map(_extent, x.index))}]" for x in operands)
    if len(operands) != len(OPS[name].dims):
        raise ProgramError(f"{usage(name)}, and it got {len(operands)} operands: {shapes}")
    if wrong := _agree(name, operands):
        fit = [
            x
            for x in OPS
            if "*" not in OPS[x].dims
            and len(OPS[x].dims) == len(operands)
            and not _agree(x, operands)
        ]
        instead = f"use {' or '.join(fit)}, or index alike" if fit else "index alike"
        raise ProgramError(f"{usage(name)}, and it got {shapes}; {wrong}: {instead}")


def named(name: str) -> str:
    """A name that listings, options and kernels can hold.  Raises ProgramError for others."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ProgramError(f"{name!r} is not a name: give letters, digits and _, like x0")
    return name
