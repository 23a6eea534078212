"""What Hopper's target needs of a nest: tiles that stay, tiles that stream, and rows to share out.

Raises EmitError, in one line, for a nest of another form; that one has the plain target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from iosim.core.program.index import At, Index, Span, Stack, Tile, dim_of, dims
from iosim.core.program.ir import Alloc, Load, Loop, Node, Op, Store, nodes
from iosim.core.program.walk import Instance
from iosim.gpu.emitter.blocks import Blocks
from iosim.gpu.emitter.kernel import BulkBox
from iosim.gpu.emitter.nests import NOTHING, Body, chain, substitute_tile
from iosim.gpu.errors import EmitError

ROWS = 64  # of a warpgroup: what one of its matrix instructions takes
MOST_GROUPS = 3  # warpgroups that compute; with more, registers are too few
MOST_COLUMNS = 256  # of one matrix instruction, and of a box
SHARED = 227 * 1024  # bytes that a kernel may have
WORD = 2  # bytes: fp16 or bf16


@dataclass(frozen=True)
class Style:
    """How a kernel is written; the words that it moves are the same.

    Attributes:
        waits_first: the tiles of both products are waited for before either is issued, so that
            nothing is between the two.
        persistent: about as many programs as the chip holds, each of which takes one item after
            another, so that loads of the next item overlap the end of one.
    """

    waits_first: bool = False
    persistent: bool = False


PLAIN = Style()


@dataclass(frozen=True)
class WarpNest:
    """A nest of the form that warps can share.

    Attributes:
        grid: the loops of the launch.
        inside: what is below them.
        split: the tile whose rows are shared out.
        groups: warpgroups that compute.
        held, streamed: the loads outside and inside loops, in order.
        stores: in order.
        stages: how many tiles of each streamed buffer are in flight.
        style: how it is written.
    """

    instance: Instance
    grid: tuple[Loop, ...]
    inside: Body
    split: Tile
    groups: int
    held: tuple[Load, ...]
    streamed: tuple[Load, ...]
    stores: tuple[Store, ...]
    stages: int
    style: Style = PLAIN

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops that stream tiles."""
        return tuple(n for n in self.inside if isinstance(n, Loop))

    @property
    def given_back(self) -> tuple[Load, ...]:
        """The loads whose tiles' memory is used again."""
        return (*(self.held if self.style.persistent else ()), *self.streamed)

    def parts(self, node: Load | Store) -> int:
        """Boxes that a transfer takes: one for each warpgroup where it has the rows."""
        return self.groups if self.split in node.index else 1

    def box(self, node: Load | Store, tiles: Blocks) -> BulkBox:
        """The box that a transfer moves; rows that are shared out are one warpgroup's."""
        return BulkBox(node.tensor, tuple(self.side(x, tiles) for x in node.index))

    def side(self, x: Index, tiles: Blocks) -> int:
        """The extent of a block along an index."""
        own = dim_of(x)
        return 1 if own is None else ROWS if own == self.split else tiles.side(own)

    def staged(self, store: Store, tiles: Blocks) -> Load | None:
        """The tile whose memory a store may pass through: it is needed no more by then."""
        if self.style.persistent:  # the next item's tile comes meanwhile
            return None
        sides = self.box(store, tiles).sides
        same = (n for n in self.held if self.split in n.index and self.box(n, tiles).sides == sides)
        return next(same, None) if len(self.stores) == 1 else None


def read(
    instance: Instance, body: Body, tiles: Blocks, stages: int, style: Style = PLAIN
) -> WarpNest:
    """A nest as warps share it.

    Args:
        tiles: opened as the kernel opens them, so that extents of tiles are known.

    Raises EmitError for another form.
    """
    grid, inside = chain(body)
    inside = _separate_tiles(inside)
    for loop in (*grid, *(n for n in nodes(inside) if isinstance(n, Loop))):
        tiles.where.loops[loop.tile] = loop
    loops = [n for n in inside if isinstance(n, Loop)]
    flat = all(not isinstance(n, (Loop, Store)) for loop in loops for n in loop.body)
    _need(instance, bool(grid and loops) and flat, "is not a grid of rows with loops over tiles")
    _need(instance, all(loop.marks is None for loop in loops), "asks a block mask")
    held = tuple(n for n in inside if isinstance(n, Load))
    stores = tuple(n for n in inside if isinstance(n, Store))
    streams = tuple(n for loop in loops for n in loop.body if isinstance(n, Load))
    _need(instance, bool(stores), "stores nothing below its grid")
    split = dims(stores[0].index)[0]
    _need(
        instance,
        split in {loop.tile for loop in grid} and isinstance(split, Tile),
        "stores rows that are not a tile of its grid",
    )
    assert isinstance(split, Tile)
    _need(instance, bool(streams), "streams nothing")
    moved: tuple[Load | Store, ...] = (*held, *streams, *stores)
    for transfer in moved:
        _movable(instance, transfer)
    for loop in (*grid, *loops):
        step = tiles.where.step(loop)
        even = loop.tile == split or loop.tile.point or tiles.where.trips(loop) == 1
        _need(
            instance,
            even or tiles.side(loop.tile) == step,
            f"has tiles {loop.tile} of {step}, no power of two from 16 on",
        )
    for node in nodes(inside):
        if isinstance(node, Op):
            whole = all(ref.part is None and ref != NOTHING for ref in node.operands)
            _need(instance, whole, f"uses a part of a buffer in {node.name}")
        if isinstance(node, Alloc):
            rows = bool(node.index) and node.index[0] == split and len(node.index) < 3
            _need(instance, rows, f"has a buffer {node.buffer} without those rows")
        if isinstance(node, (Load, Alloc)):
            wide = max((tiles.side(x) for x in dims(node.index)[-1:]), default=1)
            _need(instance, wide <= MOST_COLUMNS, f"has a tile {node.buffer} of {wide} columns")
    most = tiles.where.longest(split)
    groups = -(-most // ROWS)
    loop = tiles.where.loops[split]
    even = tiles.where.trips(loop) == 1 or tiles.where.step(loop) % ROWS == 0
    why = f"has {most} rows in a tile, and {ROWS}, {2 * ROWS} or {3 * ROWS} can be shared out"
    _need(instance, even and groups <= MOST_GROUPS, why)
    nest = WarpNest(instance, grid, inside, split, groups, held, streams, stores, stages, style)
    return _fitting(nest, tiles)


def _separate_tiles(inside: Body) -> Body:
    """Loops with a tile each: two may have the same, and then load the same in the text."""
    found: list[Node] = []
    seen = set[Tile]()
    for node in inside:
        if isinstance(node, Loop):
            while node.tile in seen:
                node = substitute_tile(node, node.tile, replace(node.tile, var=f"{node.tile.var}_"))
            seen.add(node.tile)
        found.append(node)
    return tuple(found)


def _fitting(nest: WarpNest, tiles: Blocks) -> WarpNest:
    """With as many stages as shared memory holds.  Raises EmitError where there is too little."""
    fixed = sum(_bytes(nest, n, tiles) for n in nest.held) + 1024
    fixed += sum(_bytes(nest, n, tiles) for n in nest.stores if nest.staged(n, tiles) is None)
    each = sum(_bytes(nest, n, tiles) for n in nest.streamed)
    stages = min(nest.stages, (SHARED - fixed) // each)
    _need(nest.instance, stages >= 1, f"needs {fixed + each} bytes of {SHARED} of shared memory")
    return replace(nest, stages=stages)


def _bytes(nest: WarpNest, node: Load | Store, tiles: Blocks) -> int:
    return nest.parts(node) * math.prod(nest.box(node, tiles).sides) * WORD


def _movable(instance: Instance, node: Load | Store) -> None:
    tensor = instance.program.tensor(node.tensor)
    plain = not any(isinstance(x, (At, Stack)) for x in node.index) and not tensor.positions
    matrix = len(dims(node.index)) == 2 and not tensor.wide
    _need(instance, plain and matrix, f"moves {node.tensor} in other pieces than matrices")
    whole = all(x.is_entire_axis for x in node.index if isinstance(x, Span))
    _need(instance, whole, f"moves a part of an axis of {node.tensor}")


def _need(instance: Instance, holds: bool, why: str) -> None:
    if not holds:
        raise EmitError(
            f"{instance.program.name} {why}, so Hopper's target has no form for it: choose other "
            "tiles, or emit it for the plain target"
        )
