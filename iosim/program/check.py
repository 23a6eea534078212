"""What every program must satisfy before it is run, whoever built it.

Loops advance, tiles are used inside their loops, a tensor is indexed by a tile in one place only,
and the iterations of grid loops are independent.
"""

from __future__ import annotations

import functools
from typing import assert_never

from iosim.errors import ProgramError
from iosim.program.ir import (
    Alloc,
    Free,
    Index,
    Load,
    Loop,
    Node,
    Op,
    Program,
    Span,
    Stack,
    Store,
    Tile,
    nodes,
    unstacked,
)
from iosim.program.ops import OPS


@functools.lru_cache(maxsize=256)
def check(program: Program) -> None:
    """Raise ProgramError for an index, an operation or a loop that has no clear meaning.

    A loop's step is a tile size, which is never 0; a tile is used only inside its loop.

    A tensor is indexed by one tile in one place only; an operation does not change a buffer that
    it also takes under another name; and the iterations of a grid loop are independent.  For the
    last, two rules suffice, since the iterations of one loop cover disjoint positions: within the
    loop, whatever is stored is indexed by the loop's tile, and so is every load of a tensor that
    the loop also stores; and nothing changes or frees a buffer that was made outside.
    """
    _check_scopes(program, program.body, ())
    for node in nodes(program.body):
        match node:
            case Load() | Store():
                _check_index(node.tensor, node.index)
            case Alloc():
                _check_index(node.buffer, node.index)
            case Op():
                _check_op(node)
            case Loop():
                if node.parallel:
                    _check_grid(node)
            case Free():
                pass
            case _:
                assert_never(node)


def _check_index(what: str, index: tuple[Index, ...]) -> None:
    tiles = [x for x in unstacked(index) if isinstance(x, Tile)]
    if len(set(tiles)) < len(tiles):
        raise ProgramError(f"{what} is indexed by one tile twice: use two loops")


def _check_scopes(program: Program, body: tuple[Node, ...], open_: tuple[Tile, ...]) -> None:
    """Every loop advances, and every tile belongs to a loop around its use."""
    for node in body:
        used: list[Tile] = []
        match node:
            case Loop():
                _check_step(program, node, open_)
                if gone := [edge for edge in node.span.edges if edge.tile not in open_]:
                    raise ProgramError(
                        f"{gone[0]} is used outside loop {gone[0].tile}: move it inside"
                    )
                _check_scopes(program, node.body, (*open_, node.tile))
            case Load() | Store() | Alloc():
                used = [tile for x in node.index for tile in _tiles(x)]
            case Op():
                used = [ref.part for ref in node.operands if ref.part is not None]
                used += [edge.tile for value in node.scalars for edge in value.edges]
            case Free():
                pass
            case _:
                assert_never(node)
        for tile in used:
            if tile not in open_:
                raise ProgramError(f"tile {tile} is used outside its loop: move the use inside")


def _tiles(x: Index) -> list[Tile]:
    """The tiles that an index needs to be open."""
    match x:
        case Tile():
            return [x]
        case Span():
            return [edge.tile for edge in x.edges]
        case Stack():
            return [tile for part in x.parts for tile in _tiles(part)]
        case _:
            assert_never(x)


def _check_step(program: Program, loop: Loop, open_: tuple[Tile, ...]) -> None:
    if loop.tile in open_:
        raise ProgramError(f"loop {loop.tile} is inside a loop of the same tile: name another")
    if loop.tile.point != (loop.step is None) or loop.tile.axis != loop.span.axis:
        raise ProgramError(f"loop {loop.tile} does not run over its tile: build it anew")
    if loop.step is None:
        return
    param = next((p for p in program.params if p.name == loop.step), None)
    if param is None or param.axis != loop.tile.axis:
        raise ProgramError(f"{loop.step!r} is not a tile size along {loop.tile.axis}: declare it")
    if param.least < 1:
        raise ProgramError(
            f"{loop.step} is a hold, which may be 0, and loop {loop.tile} advances by it: give "
            "it a tile size"
        )


def _check_op(op: Op) -> None:
    if op.name not in OPS:
        raise ProgramError(f"unknown operation {op.name!r}")
    if len(op.scalars) != len(OPS[op.name].scalars):
        raise ProgramError(f"{op.name} takes {len(OPS[op.name].scalars)} scalars: give them")
    names = [ref.buffer for ref in op.operands]
    for position in OPS[op.name].writes:
        if names.count(names[position]) > 1:
            raise ProgramError(
                f"{op.name} changes {names[position]} and takes it twice: use two buffers"
            )


def _check_grid(loop: Loop) -> None:
    inside = list(nodes(loop.body))
    places = {n.tensor: _place(n, loop.tile) for n in inside if isinstance(n, Store)}
    made = {n.buffer for n in inside if isinstance(n, (Load, Alloc))}
    for node in inside:
        match node:
            case Load() | Store():
                place = _place(node, loop.tile)
                if node.tensor in places and (place is None or place != places[node.tensor]):
                    raise ProgramError(
                        f"grid loop {loop.tile} is not parallel: {node.tensor} is stored inside "
                        f"and must always be indexed by {loop.tile} in one place"
                    )
            case Free():
                if node.buffer not in made:
                    raise ProgramError(
                        f"grid loop {loop.tile} is not parallel: it frees {node.buffer}, made "
                        "outside"
                    )
            case Op():
                _check_grid_op(loop, node, made)
            case Alloc() | Loop():
                pass
            case _:
                assert_never(node)


def _check_grid_op(loop: Loop, op: Op, made: set[str]) -> None:
    for position in OPS[op.name].writes:
        if op.operands[position].buffer not in made:
            raise ProgramError(
                f"grid loop {loop.tile} is not parallel: {op.name} changes "
                f"{op.operands[position]}, which outlives an iteration"
            )
    if any(ref.part == loop.tile for ref in op.operands):
        raise ProgramError(
            f"grid loop {loop.tile} cuts a part of a buffer: a part is cut by a sequential loop "
            "(tiles)"
        )


def _place(node: Load | Store, tile: Tile) -> int | None:
    return next((k for k, x in enumerate(unstacked(node.index)) if x == tile), None)
