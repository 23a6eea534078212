"""What every program must satisfy before it is run, however it was built.

Loops advance, tiles are used inside their loops, a tensor is indexed by a tile in one place only,
and the iterations of grid loops are independent.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import assert_never

from iosim.base.errors import ProgramError
from iosim.core.program.block_masks import check_marks
from iosim.core.program.index import (
    Affine,
    At,
    Index,
    Indices,
    Number,
    Span,
    Stack,
    Tile,
    Within,
    dims,
    tiles_of,
    unstacked,
)
from iosim.core.program.ir import Alloc, Body, Free, Load, Loop, Op, Program, Store
from iosim.core.program.iterations import find_cut_buffers, find_dependence
from iosim.core.program.ops import OPS


@functools.lru_cache(maxsize=256)
def check(program: Program) -> None:
    """Raise ProgramError for an index, an operation or a loop that has no clear meaning.

    A loop's step is a tile size, which is never 0; a tile is used only inside its loop.

    A tensor is indexed by one tile in one place only; an operation does not change a buffer that
    it also takes under another name; and the iterations of a grid loop are independent
    (`iosim.core.program.iterations` says by which rules), and cut no parts of a buffer.

    Numbers, tiles within themselves and derived axes are used so that they never leave their axis;
    a position that is read from a tensor comes as it was loaded, and only loads use it.

    What a block mask marks are pairs of tiles of whole axes.
    """
    for derived in program.derived:
        if not _advances(program, derived.of, derived.step):
            raise ProgramError(f"axis {derived} has no step along {derived.of}: declare it")
    _check_scopes(program, program.body, {})
    check_marks(program)
    _check_derived(program)
    _check_gathers(program)
    for node in program.nodes:
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


def _check_index(what: str, index: Indices) -> None:
    tiles = [x for part in unstacked(index) if not isinstance(part, Span) for x in tiles_of(part)]
    if len(set(tiles)) < len(tiles):
        raise ProgramError(f"{what} is indexed by one tile twice: use two loops")


def _check_scopes(program: Program, body: Body, open_: Mapping[Tile, Loop]) -> None:
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
                _check_scopes(program, node.body, {**open_, node.tile: node})
            case Load() | Store() | Alloc():
                used = [tile for x in node.index for tile in tiles_of(x)]
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
        for x in node.index if isinstance(node, (Load, Store, Alloc)) else ():
            _check_inside(program, x, open_)


def _check_inside(program: Program, x: Index, open_: Mapping[Tile, Loop]) -> None:
    """A number, or a tile within itself, is always inside its axis."""
    match x:
        case Number(tile, axis):
            made = {(d.of, d.step) for d in program.derived if d.name == axis}
            if (tile.axis, open_[tile].step) not in made:
                raise ProgramError(
                    f"{x} is not a position on {axis}: derive the axis from the tiles of "
                    f"{tile.axis} by {open_[tile].step}"
                )
        case Within(tile, axis):
            if open_[tile].step != axis:
                raise ProgramError(
                    f"tile {tile} may be longer than {axis}: give loop {tile} the step {axis!r}"
                )
        case Span() | Tile() | At() | Stack():
            pass
        case _:
            assert_never(x)


def _check_derived(program: Program) -> None:
    """A derived axis is taken whole or by single positions, and bounds nothing."""
    names = {derived.name for derived in program.derived}
    if clash := [p.name for p in program.params if p.axis in names]:
        raise ProgramError(f"{clash[0]} is a tile size along a derived axis: use points()")
    for node in program.nodes:
        values: list[Affine] = list(node.scalars) if isinstance(node, Op) else []
        spans = [node.span] if isinstance(node, Loop) else []
        if isinstance(node, (Load, Store, Alloc)):
            spans = [x for x in node.index if isinstance(x, Span)]
        values += [end for x in spans if not x.is_entire_axis for end in (x.start, x.stop)]
        used = {name for value in values for name, _ in value.sizes}
        used |= {x.axis for x in spans if not x.is_entire_axis}
        if found := used & names:
            raise ProgramError(
                f"{min(found)} is a derived axis, and bounds nothing: take it whole, or by the "
                "number of a tile"
            )


def _check_gathers(program: Program) -> None:
    """Positions come from tensors that nothing stores, as they were loaded; loads use them."""
    every = program.nodes
    stored = {node.tensor for node in every if isinstance(node, Store)}
    for node in every:
        found = [x for x in node.index if isinstance(x, At)] if hasattr(node, "index") else []
        if not found:
            continue
        if len(found) > 1 or not isinstance(node, Load):
            raise ProgramError(
                f"{found[-1]}: only loads take a position that is read, and one each"
            )
        (at,) = found
        made = [n for n in every if isinstance(n, (Load, Alloc)) and n.buffer == at.buffer]
        changed = any(
            op.operands[k].buffer == at.buffer
            for op in every
            if isinstance(op, Op)
            for k in OPS[op.name].writes
        )
        tables = {n.tensor if isinstance(n, Load) and not dims(n.index) else "" for n in made}
        holds = {t.name for t in program.tensors if t.positions == at.axis} - stored
        if changed or not tables or tables - holds:
            raise ProgramError(
                f"{at} is not a position on {at.axis}: {at.buffer} must be one word as it was "
                f"loaded from a tensor of positions on {at.axis} that nothing stores"
            )


def _advances(program: Program, axis: str, step: str) -> bool:
    """Whether a loop over an axis may have this step: a tile size along it, or a size."""
    for param in program.params:
        if param.name == step:
            return param.axis == axis and param.least > 0
    others = {x for tensor in program.tensors for x in tensor.axes}
    return step in others - {derived.name for derived in program.derived}


def _check_step(program: Program, loop: Loop, open_: Collection[Tile]) -> None:
    if loop.tile in open_:
        raise ProgramError(f"loop {loop.tile} is inside a loop of the same tile: name another")
    if loop.tile.point != (loop.step is None) or loop.tile.axis != loop.span.axis:
        raise ProgramError(f"loop {loop.tile} does not run over its tile: build it again")
    if loop.tile.of is not None and loop.span.tile != loop.tile.of:
        raise ProgramError(
            f"loop {loop.tile} does not run over all of tile {loop.tile.of}: build it again"
        )
    if loop.step is None or _advances(program, loop.tile.axis, loop.step):
        return
    if any(p.name == loop.step and p.axis == loop.tile.axis for p in program.params):
        raise ProgramError(
            f"{loop.step} is a stationary part, which may be 0, and loop {loop.tile} advances by "
            "it: give it a tile size"
        )
    raise ProgramError(f"{loop.step!r} is not a tile size along {loop.tile.axis}: declare it")


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
    if found := find_dependence(loop):
        raise ProgramError(f"grid loop {loop.tile} is not parallel: {found}")
    if find_cut_buffers(loop):
        raise ProgramError(
            f"grid loop {loop.tile} cuts a part of a buffer: a part is cut by a sequential loop "
            "(tiles)"
        )
