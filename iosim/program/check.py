"""Is a loop that is marked parallel really parallel?"""

from __future__ import annotations

from iosim.errors import ProgramError
from iosim.program.ir import Load, Loop, Op, Program, Store, Tile, nodes
from iosim.program.ops import OPS


def check_parallel(program: Program) -> None:
    """Raise ProgramError unless the iterations of every parallel loop are independent.

    Two rules suffice, since iterations of one loop cover disjoint positions: within the loop,
    whatever is stored is indexed by the loop's tile, and so is every load of a tensor that the
    loop also stores; and no operation changes a buffer that was made outside.
    """
    for loop in nodes(program.body):
        if isinstance(loop, Loop) and loop.parallel:
            _check(loop)


def _check(loop: Loop) -> None:
    inside = list(nodes(loop.body))
    stored = [n for n in inside if isinstance(n, Store)]
    places = {n.tensor: _place(n, loop.tile) for n in stored}
    for node in inside:
        if isinstance(node, (Load, Store)) and node.tensor in places:
            place = _place(node, loop.tile)
            if place is None or place != places[node.tensor]:
                raise ProgramError(
                    f"grid loop {loop.tile} is not parallel: {node.tensor} is stored inside and "
                    f"must always be indexed by {loop.tile} in one place"
                )
    made = {n.buffer for n in inside if not isinstance(n, (Loop, Op))}
    for node in inside:
        if isinstance(node, Op):
            for position in OPS[node.name].writes:
                ref = node.operands[position]
                if ref.buffer not in made or ref.part == loop.tile:
                    raise ProgramError(
                        f"grid loop {loop.tile} is not parallel: {node.name} changes {ref}, "
                        "which outlives an iteration"
                    )


def _place(node: Load | Store, tile: Tile) -> int | None:
    found = [k for k, x in enumerate(node.index) if x == tile]
    return found[0] if found else None
