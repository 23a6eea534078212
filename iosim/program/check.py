"""What every program must satisfy before it is run: one place per tile, and honest grid loops."""

from __future__ import annotations

import functools

from iosim.errors import ProgramError
from iosim.program.ir import Alloc, Free, Load, Loop, Op, Program, Store, Tile, nodes
from iosim.program.ops import OPS


@functools.lru_cache(maxsize=256)
def check(program: Program) -> None:
    """Raise ProgramError for an index, an operation or a grid loop that has no clear meaning.

    A tensor is indexed by one tile in one place only; an operation does not change a buffer that
    it also takes under another name; and the iterations of a grid loop are independent.  For the
    last, two rules suffice, since the iterations of one loop cover disjoint positions: within the
    loop, whatever is stored is indexed by the loop's tile, and so is every load of a tensor that
    the loop also stores; and nothing changes or frees a buffer that was made outside.
    """
    for node in nodes(program.body):
        if isinstance(node, (Load, Store, Alloc)):
            tiles = [x for x in node.index if isinstance(x, Tile)]
            if len(set(tiles)) < len(tiles):
                what = node.buffer if isinstance(node, Alloc) else node.tensor
                raise ProgramError(f"{what} is indexed by one tile twice: use two loops")
        elif isinstance(node, Op):
            _check_op(node)
        elif isinstance(node, Loop) and node.parallel:
            _check_grid(node)


def _check_op(op: Op) -> None:
    if op.name not in OPS:
        raise ProgramError(f"unknown operation {op.name!r}")
    names = [ref.buffer for ref in op.operands]
    for position in OPS[op.name].writes:
        if names.count(names[position]) > 1:
            raise ProgramError(
                f"{op.name} changes {names[position]} and takes it twice: use two buffers"
            )


def _check_grid(loop: Loop) -> None:
    inside = list(nodes(loop.body))
    places = {n.tensor: _place(n, loop.tile) for n in inside if isinstance(n, Store)}
    for node in inside:
        if isinstance(node, (Load, Store)) and node.tensor in places:
            place = _place(node, loop.tile)
            if place is None or place != places[node.tensor]:
                raise ProgramError(
                    f"grid loop {loop.tile} is not parallel: {node.tensor} is stored inside and "
                    f"must always be indexed by {loop.tile} in one place"
                )
    made = {n.buffer for n in inside if isinstance(n, (Load, Alloc))}
    for node in inside:
        if isinstance(node, Free) and node.buffer not in made:
            raise ProgramError(
                f"grid loop {loop.tile} is not parallel: it frees {node.buffer}, made outside"
            )
        if isinstance(node, Op):
            changed = [node.operands[position] for position in OPS[node.name].writes]
            for ref in changed:
                if ref.buffer not in made:
                    raise ProgramError(
                        f"grid loop {loop.tile} is not parallel: {node.name} changes {ref}, "
                        "which outlives an iteration"
                    )
            if any(ref.part == loop.tile for ref in node.operands):
                raise ProgramError(
                    f"grid loop {loop.tile} cuts a part of a buffer: a part is cut by a "
                    "sequential loop (tiles)"
                )


def _place(node: Load | Store, tile: Tile) -> int | None:
    return next((k for k, x in enumerate(node.index) if x == tile), None)
