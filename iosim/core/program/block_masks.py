"""Block masks: which pairs of a tile of rows and a tile of columns a loop runs for.

A mask is an array that is given when a program is bound, with a row for each tile of one loop and a
column for each tile of another.  Counts need four numbers of it (`NUMBERS`), because all tiles of
a loop but the last are equally long.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.errors import InputError, ProgramError, closest
from iosim.base.rows import Values
from iosim.core.problem import BlockMask, as_array
from iosim.core.program.index import Affine, Span, Tile, unstacked
from iosim.core.program.ir import Alloc, Body, Load, Loop, Program, Store

# Marked pairs: all, those in the last row, in the last column, and in both.
NUMBERS = ("marked", "last_row", "last_column", "corner")


@dataclass(frozen=True, slots=True)
class Side:
    """The loops whose tiles number the rows, or the columns, of a mask."""

    axis: str
    step: str | None

    def count(self, env: Mapping[Any, int]) -> int:
        """How many tiles there are."""
        return -(-env[self.axis] // self.by(env))

    def by(self, env: Mapping[Any, int]) -> int:
        """How far a tile advances."""
        return 1 if self.step is None else env[self.step]

    def __str__(self) -> str:
        return self.axis if self.step is None else f"⌈{self.axis}/{self.step}⌉"


def number(mask: str, which: str) -> str:
    """The name of one of the `NUMBERS` of a mask, a size of instances."""
    return f"{mask}_{which}"


@functools.lru_cache(maxsize=256)
def masks(program: Program) -> dict[str, tuple[Side, Side]]:
    """The block masks of a program, with the loops of their rows and columns.

    Raises ProgramError where two loops mean different shapes by one name.
    """
    found: dict[str, tuple[Side, Side]] = {}
    steps: dict[Any, Loop] = {}

    def see(body: Body) -> None:
        for node in body:
            if not isinstance(node, Loop):
                continue
            steps[node.tile] = node
            if node.marks is not None:
                rows = steps[node.marks.rows]
                sides = (Side(rows.span.axis, rows.step), Side(node.span.axis, node.step))
                if found.setdefault(node.marks.name, sides) != sides:
                    before, here = (f"{a} × {b}" for a, b in (found[node.marks.name], sides))
                    raise ProgramError(
                        f"block mask {node.marks.name} is {before}, and {here} in loop "
                        f"{node.tile}: give each shape a mask of its own"
                    )
            see(node.body)

    see(program.body)
    return found


def numbers(program: Program) -> tuple[str, ...]:
    """The names of all numbers of its masks, which formulas are in."""
    return tuple(number(name, which) for name in masks(program) for which in NUMBERS)


def numbered_tiles(program: Program) -> frozenset[Tile]:
    """The tiles whose numbers are rows or columns of a mask."""
    found = [x for x in program.nodes if isinstance(x, Loop)]
    return frozenset(y for x in found if x.marks for y in (x.tile, x.marks.rows))


def refuse(program: Program, what: str) -> None:
    """Raise InputError for a program with block masks, where `what` has no way with them."""
    if found := masks(program):
        raise InputError(
            f"{program.name} runs where the block mask {', '.join(found)} marks, and {what}: "
            "give all tiles with the mask (bind(), or --tiles and --mask)"
        )


def check_marks(program: Program) -> None:
    """Raise ProgramError where marks have no clear meaning, or counts no closed form.

    Both loops run over whole axes, so that numbers of tiles are rows and columns of the mask; no
    span follows their tiles; and no marked loop is in another.
    """
    sizes = {x for t in program.tensors for x in t.axes} | {p.name for p in program.params}
    sizes |= {*program.limits}
    if clash := [x for x in (*masks(program), *numbers(program)) if x in sizes]:
        raise ProgramError(f"{clash[0]}, of a block mask, is the name of a size: choose another")

    def see(body: Body, around: tuple[Loop, ...]) -> None:
        for node in body:
            if not isinstance(node, Loop):
                continue
            if node.marks is not None:
                _check_loop(node, around)
            see(node.body, (*around, node))

    see(program.body, ())
    tiles = numbered_tiles(program)
    for node in program.nodes:
        spans = [node.span] if isinstance(node, Loop) else []
        if isinstance(node, (Load, Store, Alloc)):
            spans = [x for x in unstacked(node.index) if isinstance(x, Span)]
        for edge in (edge for span in spans for edge in span.edges if edge.tile in tiles):
            raise ProgramError(
                f"a span names {edge}, and a block mask skips iterations by tile {edge.tile}: no "
                "closed form; use whole axes beside a mask"
            )


def _check_loop(loop: Loop, around: tuple[Loop, ...]) -> None:
    assert loop.marks is not None
    rows = [x for x in around if x.tile == loop.marks.rows]
    name = loop.marks.name
    if not rows:
        raise ProgramError(
            f"block mask {name} has a row for each tile {loop.marks.rows}, whose loop is not open: "
            f"put loop {loop.tile} inside"
        )
    for one in (*rows, loop):
        if not one.span.is_entire_axis:
            raise ProgramError(
                f"block mask {name} numbers the tiles of {one.span.axis}[{one.span}]: run over the "
                "whole axis"
            )
    if other := [x for x in around if x.marks is not None]:
        raise ProgramError(
            f"loop {loop.tile} is inside loop {other[0].tile}, and both have a block mask: no "
            "closed form; give one of them one"
        )


def bound_masks(program: Program, given: Values, env: Mapping[str, int]) -> dict[str, BlockMask]:
    """The masks of an instance.  Raises InputError for what doesn't fit its loops.

    Args:
        given: name → boolean array of two dimensions.
        env: name → number, of sizes and tiles.
    """
    known = masks(program)
    for name in given:
        if name not in known:
            meant = closest(name, known) if known else "give none"
            raise InputError(f"{program.name} has no block mask {name!r}: {meant}")
    found: dict[str, BlockMask] = {}
    for name, sides in known.items():
        shape = tuple(side.count(env) for side in sides)
        said = f"{shape[0]} × {shape[1]} (tiles {sides[0]} × {sides[1]})"
        if name not in given:
            raise InputError(
                f"{program.name} needs the block mask {name}, a boolean array of {said}: give it "
                f"to bind() as masks={{{name!r}: array}}, or to a command as --mask {name}=FILE"
            )
        if isinstance(given[name], BlockMask):
            array = given[name].array
        else:
            array = as_array(f"block mask {name}", given[name])
        if array.dtype != np.bool_:
            raise InputError(
                f"block mask {name} is of dtype {array.dtype}: give a boolean array of {said}"
            )
        if array.shape != shape:
            has = " × ".join(map(str, array.shape)) or "a single word"
            raise InputError(f"block mask {name} is {has}, and the tiles make {said}: reshape it")
        found[name] = BlockMask.of(array)
    return found


def mask_numbers(bound: Mapping[str, BlockMask]) -> dict[str, int]:
    """Name → value of every number of the masks of an instance."""
    return {
        number(name, which): value
        for name, mask in bound.items()
        for which, value in zip(NUMBERS, mask.numbers, strict=True)
    }


def pairs_of(name: str, last_row: bool, last_column: bool) -> Affine:
    """How many marked pairs are in the last row or above it, and in the last column or before."""
    marked, row, column, corner = (Affine.of(number(name, which)) for which in NUMBERS)
    if last_row:
        return corner if last_column else row - corner
    return column - corner if last_column else marked - row - column + corner
