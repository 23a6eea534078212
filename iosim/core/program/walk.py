"""Binding a program to numbers, and walking it one concrete transfer at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from iosim.base.display import Displayed
from iosim.base.errors import InputError, closest
from iosim.base.rows import Values
from iosim.base.validate import check_size
from iosim.core.counts import Direction
from iosim.core.problem import BlockMask, derive
from iosim.core.program.block_masks import bound_masks, mask_numbers
from iosim.core.program.index import (
    At,
    Indices,
    Number,
    Plain,
    Span,
    Tile,
    Within,
    unstacked,
)
from iosim.core.program.ir import Alloc, Body, Free, Load, Loop, Op, Program, Store
from iosim.core.program.space import (
    Env,
    Range,
    axes,
    clipped,
    covered,
    inside,
    misplaced,
    number,
    resolved,
    running,
)


@dataclass(frozen=True, slots=True)
class Instance(Displayed):
    """A program whose axes and tile parameters are numbers.

    `values` are sorted pairs, so that instances hash and compare; `masks` are pairs, too, of a
    name and a block mask, whose numbers are among the values.

    >>> from iosim import algorithm
    >>> instance = bind(algorithm("copy").program, {"n": 10}, {"B": 4})
    >>> instance.values
    (('B', 4), ('n', 10))
    """

    program: Program
    values: tuple[tuple[str, int], ...]
    masks: tuple[tuple[str, BlockMask], ...] = ()
    html_by = "iosim.report.views:instance"

    def __repr__(self) -> str:
        values = ", ".join(f"{name} = {value:,}" for name, value in self.values)
        return f"<Instance {self.program.name}: {values}>"

    @property
    def env(self) -> dict[str, int]:
        """Name → value, axes and parameters together."""
        return dict(self.values)

    def span(self, span: Span) -> Range:
        """The concrete ``(start, stop)`` of a fixed span."""
        return resolved(span, self.env)


def _checked(
    program: Program, tiles: Mapping[str, int], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Name → value as Python integers, tiles clipped to their axis; or InputError."""
    known = {p.name for p in program.params}
    for name in tiles:
        if name not in known:
            raise InputError(f"{program.name} has no tile size {name!r}: {closest(name, known)}")
    missing = sorted(known - set(tiles))
    if missing:
        raise InputError(f"{program.name} needs the tile sizes {', '.join(missing)}: give them")
    over = (*axes(program), *program.limits)
    if set(sizes) != set(over):
        raise InputError(
            f"{program.name} is over the sizes {', '.join(over)}, "
            f"got {', '.join(sorted(sizes)) or 'none'}: give exactly those"
        )
    env = {x: check_size(x, sizes[x], least=0 if x in program.limits else 1) for x in over}
    env |= {p.name: check_size(p.name, tiles[p.name], least=p.least) for p in program.params}
    return derive(program.derived, clipped(program, env, min))


def check_instance(what: str, value: object) -> None:
    """Raise InputError for what is not a bound program.

    >>> check_instance("count", 7)
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: count takes an instance, got int: bind() it first
    """
    if not isinstance(value, Instance):
        raise InputError(f"{what} takes an instance, got {type(value).__name__}: bind() it first")


def bind(
    program: Program,
    sizes: Mapping[str, int],
    tiles: Mapping[str, int],
    masks: Values | None = None,
) -> Instance:
    """Give every axis and tile parameter a number; tiles are clipped to their axis.

    Args:
        program: a schedule.
        sizes: name → extent of every axis.
        tiles: name → tile size.
        masks: name → boolean array, for each block mask of the program: a row for each tile of
            one loop, a column for each of another.

    Raises InputError for unknown or missing names, values out of range, and masks of another shape.

    >>> from iosim import algorithm, count
    >>> flash2 = algorithm("flash2").program
    >>> instance = bind(flash2, {"N": 100, "d": 8, "heads": 1}, {"B_r": 32, "B_c": 500})
    >>> instance.values
    (('B_c', 100), ('B_r', 32), ('N', 100), ('d', 8), ('heads', 1))
    >>> count(instance).total_words
    8000
    """
    if not isinstance(program, Program):
        raise InputError(f"bind takes a program, got {type(program).__name__}: pass its .program")
    masks = {} if masks is None else masks
    for what, given in (("sizes", sizes), ("tiles", tiles), ("masks", masks)):
        if not isinstance(given, Mapping):
            raise InputError(
                f"bind takes {what} by name, got {type(given).__name__}: give a dict, like "
                "problem.sizes"
            )
    env = _checked(program, tiles, sizes)
    if span := misplaced(program, env, bool):
        raise InputError(
            f"{program.name} uses {span.axis}[{span}], which is {span.start.at(env)}:"
            f"{span.stop.at(env)} of {env[span.axis]}: choose sizes and tiles for which it lies "
            "inside"
        )
    bound = bound_masks(program, masks, env)
    env |= mask_numbers(bound)
    return Instance(program, tuple(sorted(env.items())), tuple(bound.items()))


# The range of a position that only the data tells.
UNKNOWN = (-1, 0)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One explicit load or store: the tensor and the box ``ranges`` of it that moves.

    A position that is read from a tensor is `UNKNOWN`: a range of one position, (−1, 0).

    >>> from iosim import algorithm
    >>> next(walk(bind(algorithm("copy").program, {"n": 10}, {"B": 4})))
    Transfer(direction='load', tensor='X', ranges=((0, 4),))
    """

    direction: Direction
    tensor: str
    ranges: tuple[Range, ...]

    @property
    def words(self) -> int:
        """Words in the box."""
        n = 1
        for start, stop in self.ranges:
            n *= stop - start
        return n


def walk(instance: Instance) -> Iterator[Transfer]:
    """Every transfer in program order, one tile at a time; InputError for no instance."""
    check_instance("transfers", instance)
    return _walk(instance, instance.program.body, instance.env, {})


Loops: TypeAlias = Mapping[Tile, Loop]


def _walk(instance: Instance, body: Body, env: Env, loops: Loops) -> Iterator[Transfer]:
    marked = dict(instance.masks)
    for node in body:
        match node:
            case Loop():
                inner = {**loops, node.tile: node}
                for at in running(node, env, instance.program, marked):
                    yield from _walk(instance, node.body, inside(env, node.tile, at), inner)
            case Load():
                yield Transfer("load", node.tensor, ranges(node.index, env, loops))
            case Store():
                yield Transfer("store", node.tensor, ranges(node.index, env, loops))
            case Alloc() | Free() | Op():
                pass
            case _:
                assert_never(node)


def ranges(index: Indices, env: Env, loops: Loops) -> tuple[Range, ...]:
    """What an index covers, a range for each axis.

    Args:
        env: name → number, with the edges of open tiles.
        loops: the loops of these tiles.
    """
    return tuple(_range(x, env, loops) for x in unstacked(index))


def _range(x: Plain, env: Env, loops: Loops) -> Range:
    match x:
        case Span():
            return resolved(x, env)
        case Tile():
            return covered(x, env)
        case Number(tile):
            at = number(loops[tile], env)
            return at, at + 1
        case Within(tile):
            start, stop = covered(tile, env)
            return 0, stop - start
        case At():
            return UNKNOWN
        case _:
            assert_never(x)
