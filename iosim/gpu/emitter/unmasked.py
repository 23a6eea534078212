"""Which iterations of a loop a mask leaves as they are: they are emitted without it.

A mask takes a number that is affine in where the loop's tile starts, and changes nothing from some
value of it on (`OpSpec.whole`).  So the iterations that all masks of a loop leave whole are one
portion, whose ends the kernel finds by a division.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from iosim.core.program.index import Affine, Dim, Edge, Tile, dims
from iosim.core.program.ir import Alloc, Free, Load, Loop, Op, Store, nodes
from iosim.core.program.ops import OPS
from iosim.gpu.emitter.blocks import Blocks
from iosim.gpu.emitter.nests import shape_of

# 0, which the compiler does not know.  Where it knows how far a tile is from the row block, it
# leaves out loads of words that a mask hides from every row, and the hardware moves less.
UNKNOWN = "(tl.num_programs(1) - 1)"


@dataclass(frozen=True, slots=True)
class Limit:
    """Where tiles begin to be whole, or are no longer: ``factor * start`` against a value.

    Attributes:
        least: whether it is the least that they need, and not the most.
    """

    least: bool
    factor: int
    value: Affine


@dataclass(frozen=True, slots=True)
class Portion:
    """Consecutive iterations of a loop.

    Attributes:
        first, last: the position of the first, and the one after the last, as text.
        idle: operations that change nothing there.
        full: whether no tile is short there.
    """

    first: str
    last: str
    idle: frozenset[Op] = frozenset()
    full: bool = False


def portions(
    loop: Loop,
    first: str,
    last: str,
    shapes: Mapping[str, tuple[Dim, ...]],
    blocks: Blocks,
    apart: bool = False,
) -> tuple[list[str], list[Portion]]:
    """The lines that find where masks are needed, and the loop's portions in order.

    Args:
        first, last: the loop's ends, as text.
        shapes: the indices of the buffers that are resident outside the loop.
        blocks: the tiles that are open around it.
        apart: whether a short last tile is a portion of its own where there is no mask, too; so it
            is for Hopper, where tiles move whole and what a mask hides is loaded in any case.
    """
    found = _masks(loop, shapes, blocks)
    limits = sorted({x for own in found.values() for x in own}, key=str)
    if not limits and not apart:
        return [], [Portion(first, last)]
    name, step, short = blocks.names.var(loop.tile), blocks.where.step(loop), blocks.short(loop)
    if not limits and not short:
        return [], [Portion(first, last)]
    least = [_tiles(x, first, step, blocks) for x in limits if x.least]
    most = [_tiles(x, first, step, blocks) for x in limits if not x.least]
    if short:
        most.append(f"max({_minus(last, first)}, 0) // {step}")
    lines, begin, end = [], first, last
    if least:
        begin = f"{name}_from"
        lines.append(f"{begin} = min({_position_after(first, least, 'max', step)}, {last})")
    if most:
        end = f"{name}_to"
        text = f"min({_position_after(first, most, 'min', step)}, {last})"
        lines.append(f"{end} = {f'max({text}, {begin})' if least else text}")
    whole = Portion(begin, end, frozenset(found), full=short)
    before = [Portion(first, begin)] if least else []
    after = [Portion(end, last)] if most else []
    parts = [*before, whole, *after]
    if not apart and loop.span.edges and blocks.where.trips(loop) == 1:
        parts = [replace(x, first=f"{x.first} - {UNKNOWN}") for x in parts]
    return lines, parts


def _masks(
    loop: Loop, shapes: Mapping[str, tuple[Dim, ...]], blocks: Blocks
) -> dict[Op, list[Limit]]:
    """The masks in a loop whose number is known where the loop begins, except for its own tile."""
    at, loops = dict(shapes), {**blocks.where.loops, loop.tile: loop}
    own, inner = Edge(loop.tile, "start"), set[Tile]()
    found: dict[Op, list[Limit]] = {}  # equal operations are one: each adds its limits
    for node in nodes(loop.body):
        match node:
            case Loop():
                loops[node.tile] = node
                inner.add(node.tile)
            case Load() | Alloc():
                at[node.buffer] = dims(node.index)
            case Op(name, (ref, *_), (value,)) if (leaves := OPS[name].whole) is not None:
                if own in value.edges and not {edge.tile for edge in value.edges - {own}} & inner:
                    rows, columns = (blocks.where.reach(x, loops) for x in shape_of(ref, at))
                    limits = _limits(value, own, *leaves(rows, columns))
                    found.setdefault(node, []).extend(limits)
            case Op() | Store() | Free():
                pass
            case _:
                assert_never(node)
    return found


def _limits(value: Affine, own: Edge, least: int | None, most: int | None) -> Iterator[Limit]:
    """``least <= value <= most``, solved for where the tile starts."""
    factor = dict(value.terms)[own]
    rest = value - Affine.of(own) * factor
    for bound, below in ((least, True), (most, False)):
        if bound is not None:
            reach = bound - rest if factor > 0 else rest - bound
            yield Limit(below == (factor > 0), abs(factor), reach)


def _tiles(limit: Limit, first: str, step: int, blocks: Blocks) -> str:
    """Tiles before the first that is whole; or those up to the last that is."""
    by = limit.factor * step
    value = limit.value if limit.least else limit.value + by
    away = first if limit.factor == 1 or first == "0" else f"{limit.factor} * {first}"
    reach = _minus(blocks.where.number(value), away)
    return f"(max({reach}, 0) + {by - 1}) // {by}" if limit.least else f"max({reach}, 0) // {by}"


def _position_after(first: str, tiles: list[str], choose: str, step: int) -> str:
    """The position this many tiles after the first, of the most or the fewest of several."""
    count = tiles[0] if len(tiles) == 1 else f"{choose}({', '.join(tiles)})"
    return f"{count} * {step}" if first == "0" else f"{first} + {count} * {step}"


def _minus(left: str, right: str) -> str:
    return left if right == "0" else f"{left} - {right}"
