"""What the builder hands out and takes: handles on buffers, bounds, and names."""

from __future__ import annotations

import keyword
from dataclasses import dataclass, replace
from typing import TypeAlias

from iosim.errors import ProgramError
from iosim.program.index import Affine, Dim, Span, Tile, cut
from iosim.program.ops import OPS

Bound: TypeAlias = Affine | str | int


@dataclass(frozen=True, slots=True)
class Buffer:
    """A handle on a resident buffer; ``q[x]`` is the part of it that the tile x covers.

    `serial` tells it from another buffer that has its name once it is freed.
    """

    name: str
    index: tuple[Dim, ...]
    part: Tile | None = None
    serial: int = 0

    def __getitem__(self, part: Tile) -> Buffer:
        if not isinstance(part, Tile):
            raise ProgramError(f"{self.name}[{part!r}]: a part is what a tile covers; give a tile")
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


def check_shapes(name: str, operands: tuple[Buffer, ...]) -> None:
    """Raise ProgramError where dimensions of one letter of an operation are not the same index."""
    bound: dict[str, Dim] = {}
    for letters, buffer in zip(OPS[name].dims, operands, strict=True):
        if letters == "*":
            continue
        if len(letters) != len(buffer.index):
            raise ProgramError(
                f"{name}: {buffer.name} has {len(buffer.index)} dimensions, needs {letters!r}"
            )
        for letter, index in zip(letters, buffer.index, strict=True):
            if bound.setdefault(letter, index) != index:
                raise ProgramError(
                    f"{name}: dimension {letter!r} is {bound[letter]} and {index} "
                    f"(in {buffer.name}): the extents must agree"
                )


def named(name: str) -> str:
    """A name that listings, options and kernels can hold.  Raises ProgramError for others."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ProgramError(f"{name!r} is no name: give letters, digits and _, like x0")
    return name


def said(value: object) -> str:
    """A value as messages say it."""
    return f"tile {value}" if isinstance(value, Tile) else repr(value)
