"""The loops of a grid: each factor of ``cdiv(N, BLOCK), Z*H`` is one, over tiles or positions.

`iosim.kernel.closing` and `meanings` use it.  ``tests/kernel/test_kernel_formulas.py`` compares
formulas with evaluations.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iosim.core.program.index import Affine, Span, Tile
from iosim.core.program.ir import Loop
from iosim.kernel.expression import parse_expressions
from iosim.kernel.linear import (
    Integer,
    LinearSum,
    LinearTile,
    MixedId,
    NamedSizes,
    ScaledId,
    SizeProduct,
    is_name,
    number,
)

AXES = "xyz"


@dataclass(frozen=True)
class GridAxis:
    """One axis of a grid.

    Attributes:
        loops: outermost first.
        digits: of each loop, its number and its length.
        by: what its number has to be divided by; a size, or None.
    """

    loops: tuple[Loop, ...]
    digits: tuple[tuple[LinearSum, LinearSum], ...]
    by: LinearSum | None = None

    @property
    def program_id(self) -> Integer:
        """The number of a program along the axis."""
        if not self.digits:
            return number(0)
        if self.by is not None:
            return ScaledId("a program's number beside its tile", self.digits[0][0], self.by)
        return LinearTile((self.digits[0][0],)) if len(self.digits) == 1 else MixedId(self.digits)

    @property
    def length(self) -> Integer:
        """Programs along the axis."""
        lengths = tuple(length for _, length in self.digits)
        if not lengths:
            return number(1)
        return LinearTile(lengths) if len(lengths) == 1 else SizeProduct(lengths)


def open_scaled(letter: str, length: LinearSum, size: str, sizes: NamedSizes) -> GridAxis:
    """An axis whose programs have a tile of `size` positions each: by where these begin."""
    by = LinearSum.of(size)
    axis = str(sizes.multiply([length, by]))
    loop = Loop(Tile(letter, axis), Span(axis, Affine(), Affine.of(axis)), size, True, ())
    return GridAxis((loop,), ((LinearSum.of(loop.tile.start), length),), by)


def open_axis(letter: str, factors: list[LinearSum], sizes: NamedSizes, points: bool) -> GridAxis:
    """The loops over factors of an axis.

    Args:
        letter: what tiles are called.
        factors: a size, a number, or ⌈size/step⌉ each.
        points: count tiles, and don't follow where they lie.

    Raises:
        ValueError: a factor is a sum.
    """
    loops, digits = [], []
    kept = [x for x in factors if x.number != 1]
    for i, length in enumerate(kept):
        var = letter if len(kept) == 1 else f"{letter}{i}"
        loop, scale = run_over(var, length, NamedSizes() if points else sizes, parallel=True)
        loops.append(loop)
        digits.append((LinearSum.of(loop.tile.start).divide(scale), length))
    return GridAxis(tuple(loops), tuple(digits))


def run_over(
    var: str, length: LinearSum, sizes: NamedSizes, parallel: bool = False
) -> tuple[Loop, int]:
    """A loop of so many iterations from 0 on, and how far one of them goes along its axis.

    Raises:
        ValueError: the length is a sum.
    """
    tiled = sizes.tiled(length)
    if tiled is not None:
        axis, step = tiled
        whole = Span(axis, Affine(), Affine.of(axis))
        return Loop(Tile(var, axis), whole, str(step), parallel, ()), step
    if length.number is None and not is_name(length):
        raise ValueError(str(length))
    name = str(length)
    return Loop(Tile(var, name, True), Span(name, Affine(), Affine.of(name)), None, parallel, ()), 1


def read_factors(
    text: str, constants: Mapping[str, Any], sizes: NamedSizes
) -> list[list[LinearSum]]:
    """The factors of each axis of a grid as typed.

    Args:
        constants: names that have a value.

    Raises:
        ValueError: an expression that is no product of sizes and ceilings.
    """
    return [_factors(x, constants, sizes) for x in parse_expressions(text)]


def _factors(node: ast.expr, constants: Mapping[str, Any], sizes: NamedSizes) -> list[LinearSum]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [LinearSum.of(node.value)]
    if isinstance(node, ast.Name):
        known = constants.get(node.id)
        return [LinearSum.of(int(known) if isinstance(known, int) else node.id)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        both = [_factors(x, constants, sizes) for x in (node.left, node.right)]
        return both[0] + both[1]
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "cdiv":
        size, divisor = (_factors(x, constants, sizes) for x in node.args)
        by = math.prod(x.number or 0 for x in divisor)
        if len(size) == 1 and by > 0:
            if (known := size[0].number) is not None:
                return [LinearSum.of(-(-known // by))]
            return [sizes.divide("ceil", size[0], by) if by > 1 else size[0]]
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "min":
        return [sizes.least([_factors(x, constants, sizes) for x in node.args])]
    raise ValueError(ast.unparse(node))
