"""How the words of a tensor lie in memory.

Layouts are of matrices: the last two axes.  Axes before them are outermost, and a tensor of one
axis lies in order whatever is requested.

`family` and `of_program` take one; `address_map` computes addresses with it.
``tests/cache/test_cache_touches.py`` compares with a walker that goes word by word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from iosim.base.errors import InputError, closest
from iosim.base.validate import check_size


@dataclass(frozen=True, slots=True)
class Tiled:
    """Blocks of a × b words, each one row by row, block after block row by row.

    Blocks at the edges are as large as the others: what is beyond the matrix is never touched.

    Raises InputError for a block without words.

    >>> Tiled(2, 3).words((3, 4))
    24
    """

    a: int
    b: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", check_size("rows of a block", self.a))
        object.__setattr__(self, "b", check_size("columns of a block", self.b))

    def words(self, shape: tuple[int, ...]) -> int:
        """How many words a tensor takes, with those beyond its edges."""
        *outer, rows, columns = shape
        return math.prod(outer) * -(-rows // self.a) * -(-columns // self.b) * self.a * self.b

    def strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of *places*: the row, shifted to the left by `shift`, and the column.

        Rows of matrix after matrix are counted with those beyond their edges.
        """
        *outer, rows, _ = shape
        padded = (*outer, -(-rows // self.a) * self.a)
        return *(math.prod(padded[k + 1 :]) << self.shift(shape) for k in range(len(padded))), 1

    def shift(self, shape: tuple[int, ...]) -> int:
        """How many bits of a place are the column."""
        return shape[-1].bit_length()

    def wide(self, shape: tuple[int, ...]) -> int:
        """The words of a row of blocks."""
        return -(-shape[-1] // self.b) * self.a * self.b


Layout: TypeAlias = Literal["row-major", "column-major"] | Tiled
# By tensor: a layout, or one as it is typed.
Layouts: TypeAlias = Mapping[str, Layout | str]

NAMES = ("row-major", "column-major")


def layout(text: str) -> Layout:
    """A layout as people type it: row-major, column-major, or tiled:AxB.

    Raises InputError for another word.

    >>> layout("tiled:8x4")
    Tiled(a=8, b=4)
    """
    if text == "row-major":
        return "row-major"
    if text == "column-major":
        return "column-major"
    kind, _, block = text.partition(":")
    a, _, b = block.partition("x")
    if kind == "tiled" and a.isdecimal() and b.isdecimal():
        return Tiled(int(a), int(b))
    meant = closest(text, NAMES) if kind != "tiled" else "write it like tiled:8x4"
    raise InputError(f"unknown layout {text!r}: {meant} (or tiled:AxB)")


def checked(layouts: Layouts | None, tensors: Mapping[str, tuple[int, ...]]) -> dict[str, Layout]:
    """A layout for each tensor.

    Args:
        layouts: by tensor; those that are not named are row-major.
        tensors: the shape of each.

    Raises InputError for a tensor that isn't there, and what is not a layout.
    """
    found: dict[str, Layout] = dict.fromkeys(tensors, "row-major")
    for name, given in (layouts or {}).items():
        if name not in tensors:
            raise InputError(f"a layout for {name!r}: {closest(name, tensors)}")
        one = layout(given) if isinstance(given, str) else given
        if not isinstance(one, str | Tiled):
            raise InputError(f"layout {given!r} of {name}: give {', '.join(NAMES)} or Tiled(a, b)")
        # A vector lies in order in any layout.
        found[name] = one if len(tensors[name]) > 1 else "row-major"
    return found


def strides(shape: tuple[int, ...], how: Layout) -> tuple[int, ...]:
    """How far apart neighbors on each axis are, in words; of a tiled tensor, in its places.

    >>> strides((2, 3, 4), "row-major"), strides((2, 3, 4), "column-major")
    ((12, 4, 1), (12, 1, 3))
    """
    if isinstance(how, Tiled):
        return how.strides(shape)
    found = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    if how == "column-major":
        found[-2:] = [1, shape[-2]]
    return tuple(found)
