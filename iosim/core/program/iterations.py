"""What the iterations of a loop share: which may run at once, or together as one longer iteration.

The iterations of a loop cover disjoint positions of its axis.  Two things follow.

**Independent iterations** may run in any order, or at once, each in a fast memory of its own
(`find_dependence`).  Three rules suffice:

1. What is stored inside is indexed by the loop's tile, or its number, in one place, and so is every
   load of the same tensor.  Two iterations then touch disjoint words of it.
2. What an iteration frees it has made.  So what was resident before the loop still is, in each.
3. What an iteration changes it has made, or it is the part that the loop's tile cuts from a buffer
   made outside, of which the loop uses no other part.  Parts of two tiles are disjoint, and are cut
   along one dimension, since a buffer that outlives the loop has one index all the while.

By 1 and 3 no word that an iteration writes is read or written by another one, by 2 all have the
same buffers; what they compute depends on nothing else.  `iosim.core.program.check` asks it of
grids, which cut no parts.

**One longer iteration** over a tile as long as theirs does what several do (`may_merge`) where they
are independent, except for sums, and each operation either knows nothing of the tile or works
along it position by position.  By induction over the nodes a buffer with the tile as a dimension
is then that of all iterations, end to end; any other buffer made inside is the same in all of
them.  Sums are buffers made outside to which a loop only adds products, each summed over its own
tile: Σ over one tile and Σ over the next are Σ over both, up to rounding.  No iteration reads a
sum, so none sees what another one added.  Nothing else may ask where one of the tiles ends: no
span, no mask, no number, no loop over the tile.

The machine asks both (`iosim.core.machine.interpreter`).  ``tests/core/test_iterations.py``
compares what it runs together with the plain interpreter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from iosim.base.errors import ProgramError
from iosim.core.program.index import Dim, Number, Tile, cut, dims, tiles_of, unstacked
from iosim.core.program.ir import Alloc, Free, Load, Loop, Op, Store, nodes
from iosim.core.program.ops import OPS


def find_dependence(loop: Loop, sums: Collection[str] = ()) -> str | None:
    """Why the iterations of a loop are not independent, by the rules above; None if they are.

    Args:
        sums: buffers that may change nonetheless.

    >>> from iosim.core.program.index import Affine, Span
    >>> i = Tile("i", "n")
    >>> body = Load("x", "X", (i,)), Store("x", "Y", (i,)), Free("x")
    >>> whole = Span("n", Affine(), Affine.of("n"))
    >>> find_dependence(Loop(i, whole, "B", False, body))
    >>> print(find_dependence(Loop(i, whole, "B", False, (Free("x"),))))
    it frees x, made outside
    """
    inside = list(nodes(loop.body))
    stored = {n.tensor: _find_place(n, loop.tile) for n in inside if isinstance(n, Store)}
    made = {n.buffer for n in inside if isinstance(n, (Load, Alloc))}
    own = made | _find_own_parts(loop) | set(sums)
    for node in inside:
        match node:
            case Load() | Store() if node.tensor in stored:
                place = _find_place(node, loop.tile)
                if place is None or place != stored[node.tensor]:
                    return (
                        f"{node.tensor} is stored inside and must always be indexed by "
                        f"{loop.tile} in one place"
                    )
            case Free() if node.buffer not in made:
                return f"it frees {node.buffer}, made outside"
            case Op():
                for position in OPS[node.name].writes:
                    ref = node.operands[position]
                    if ref.buffer not in own:
                        return f"{node.name} changes {ref}, which outlives an iteration"
            case _:
                pass
    return None


def find_cut_buffers(loop: Loop) -> frozenset[str]:
    """The buffers from which a loop's tile cuts parts."""
    ops = (node for node in nodes(loop.body) if isinstance(node, Op))
    return frozenset(ref.buffer for op in ops for ref in op.operands if ref.part == loop.tile)


def _find_own_parts(loop: Loop) -> frozenset[str]:
    """The buffers made outside of which a loop uses only the parts that its tile cuts."""
    others: set[str] = set()
    for node in nodes(loop.body):
        if isinstance(node, Op):
            others.update(ref.buffer for ref in node.operands if ref.part != loop.tile)
        elif isinstance(node, (Load, Alloc, Store)):
            others.add(node.buffer)
    return find_cut_buffers(loop) - others


def _find_place(node: Load | Store, tile: Tile) -> int | None:
    """Where a transfer is indexed by a tile: positions that no two tiles share."""
    for k, x in enumerate(unstacked(node.index)):
        if tile == (x.tile if isinstance(x, Number) else x):
            return k
    return None


def may_merge(loop: Loop, resident: Mapping[str, tuple[Dim, ...]]) -> bool:
    """Whether several iterations of a loop may run as one longer iteration.

    Args:
        resident: the dimensions of each buffer that is resident before the loop.
    """
    tile, inside = loop.tile, list(nodes(loop.body))
    indices = dict(resident)
    for node in inside:
        if isinstance(node, (Load, Store, Alloc)):
            named = [x for index in node.index for x in tiles_of(index)].count(tile)
            if named != (tile in node.index):
                return False
            if not isinstance(node, Store):
                if node.buffer in indices:
                    return False
                indices[node.buffer] = dims(node.index)
        elif isinstance(node, Loop) and (node.marks or tile in tiles_of(node.span)):
            return False
    sums: set[str] = set()
    others = {node.buffer for node in inside if isinstance(node, Store)}
    for op in (node for node in inside if isinstance(node, Op)):
        along = _find_letter(op, tile, indices)
        if along is None:
            return False
        taken = [ref.buffer for ref in op.operands]
        if along and along == OPS[op.name].over:
            sums.add(taken.pop(0))
        others.update(taken)
    outside = loop.marks is None and loop.step is not None and sums <= resident.keys() - others
    return outside and find_cut_buffers(loop) <= resident.keys() and not find_dependence(loop, sums)


def _find_letter(op: Op, tile: Tile, indices: Mapping[str, tuple[Dim, ...]]) -> str | None:
    """The letter of an operation that stands for a tile; empty if none does.

    Along it the operation works position by position, or sums the products that it adds.  None
    where it does neither, or the tile is not all of that letter in each operand.
    """
    spec = OPS[op.name]
    if spec.placed or any(edge.tile == tile for value in op.scalars for edge in value.edges):
        return None
    found: list[tuple[str, list[str]]] = []
    for ref, letters in zip(op.operands, spec.dims, strict=True):
        if ref.buffer not in indices:
            return None  # it is refused where it runs
        try:
            index = cut(indices[ref.buffer], ref.part)
        except ProgramError:
            return None
        if letters != "*":
            if len(letters) != len(index):
                return None
            own = [x for x, dim in zip(letters, index, strict=True) if dim == tile]
            found.append((letters, own))
    along = {x for _, own in found for x in own}
    if len(along) > 1:
        return None
    for letters, own in found:
        if own != [x for x in letters if x in along]:
            return None
    letter = "".join(along)
    return None if letter and letter in spec.over and not spec.sums else letter
