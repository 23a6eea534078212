"""Words of tiles that are live at once in one program of a kernel, from its IR.

A tile is a floating-point value with axes, or what a load gave, and in Gluon a place in shared or
tensor memory that is no barrier; warps that run at once have theirs at once.  An operation of each
element by itself writes over an operand that nothing reads afterwards.  Registers and shared memory
of a compiled kernel are another number, which `iosim.kernel.compiler` reads.

Of the kernels that iosim emits, with whole fp32 tiles, the words are the schedule's own peak, and
(`tests/kernel/test_emitted.py`):

- statistics of rows again, where an online softmax has an old maximum and a new one at once;
- where a vector is loaded, the block of 1,024 elements through which the emitter loads it, if
  this and what is live around it are more than what is live elsewhere.

In fp16 weights are there twice: in fp32 and rounded, as the next product takes them.  A tile of
zeros takes nothing: it is a constant until something is added to it, so that a loop of one
iteration may have less than the schedule's peak.

`iosim.kernel.count` calls it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from iosim.kernel.flop import PRODUCTS
from iosim.kernel.ir import (
    IrBlock,
    IrFunction,
    IrOperation,
    IrRegion,
    element_type,
    tile_shape,
    walk,
)
from iosim.kernel.semantics import is_float, type_width

# What shows a tile in another shape and stores none.
_VIEWS = {
    "tt.splat",
    "tt.broadcast",
    "tt.expand_dims",
    "tt.reshape",
    "tt.trans",
    "ttg.convert_layout",
    "ttg.memdesc_index",
    "ttg.memdesc_reinterpret",
    "ttg.memdesc_reshape",
    "ttg.memdesc_subslice",
    "ttg.memdesc_trans",
    "ttng.tmem_subslice",
    "ttng.warp_group_dot_wait",
}
# What reads all of its operands before, and writes none of its own over them.
_APART = PRODUCTS | {
    "tt.reduce",
    "tt.scan",
    "tt.load",
    "tt.descriptor_load",
    "ttg.local_alloc",
    "ttg.local_load",
    "ttng.tmem_alloc",
    "ttng.tmem_load",
}


@dataclass(frozen=True)
class Footprint:
    """Tiles that are live at once where they are the most bytes.

    Attributes:
        words: elements.
        bytes: of them.
        line: of the source.
    """

    words: int = 0
    bytes: int = 0
    line: str = ""


def find_footprint(function: IrFunction) -> Footprint:
    """The largest set of live tiles of a kernel."""
    live = _Liveness(function)
    for block in reversed(function.body.blocks):
        live.walk_block(block, set())
    return live.peak


@dataclass
class _Liveness:
    function: IrFunction
    peak: Footprint = field(default_factory=Footprint)
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op in walk(self.function.body):
            self._learn(op)

    def _learn(self, op: IrOperation) -> None:
        """What the results of an operation take."""
        if op.name in _VIEWS and op.operands:
            self.views |= zip(op.results, op.operands, strict=False)
            return
        if op.name == "ttg.warp_specialize":
            for region in op.regions[1:]:
                self.views |= zip(region.entry.arguments, op.operands, strict=True)
        if op.name == "arith.constant":
            return
        if op.name == "scf.for":
            block = op.regions[0].entry
            kinds = block.operations[-1].types
            for name, result, type_ in zip(block.arguments[1:], op.results, kinds, strict=False):
                self._size(name, type_)
                self._size(result, type_)
            return
        counts = "load" in op.name or op.name == "tt.descriptor_gather"
        counts |= op.name == "ttg.local_alloc" and element_type(op.result_type) != "i64"
        for result in op.results:
            self._size(result, op.result_type, counts)

    def _size(self, name: str, type_: str, counts: bool = False) -> None:
        shape = tile_shape(type_)
        if shape and "ptr<" not in type_ and (counts or is_float(type_)):
            words = math.prod(shape)
            self.sizes[name] = words, words * type_width(element_type(type_))

    def root(self, name: str) -> str:
        """The tile that a value shows."""
        while name in self.views:
            name = self.views[name]
        return name

    def tiles(self, names: tuple[str, ...]) -> set[str]:
        """The tiles among some values."""
        return {r for x in names if (r := self.root(x)) in self.sizes}

    def walk_block(self, block: IrBlock, after: set[str]) -> set[str]:
        """From the tiles that are live after a block to those before it."""
        live = set(after)
        for op in reversed(block.operations):
            live = self.step(op, live)
        return live - self.tiles(block.arguments)

    def step(self, op: IrOperation, after: set[str]) -> set[str]:
        """From the tiles that are live after an operation to those before it."""
        results, operands = self.tiles(op.results), self.tiles(op.operands)
        before = (after - results) | operands
        if op.name == "scf.for":
            block = op.regions[0].entry
            carried = self.tiles(block.arguments)
            around = (after - results) | self.read_around(op.regions[0])
            self.walk_block(block, around | self.tiles(block.operations[-1].operands))
            self.measure(op, around | carried)
            return before | around
        if op.name == "ttg.warp_specialize":
            self.add_up(op, before)
            return before
        for region in op.regions:
            if not op.name.startswith("tt."):
                for block in region.blocks:
                    before |= self.walk_block(block, after - results)
        if op.name in _APART:
            sums = op.name in ("tt.dot", "ttng.warp_group_dot")
            last = operands - self.tiles(op.operands[2:3]) if sums else operands
            self.measure(op, after | results | last)
        else:
            self.measure(op, after | results)
            self.measure(op, before)
        return before

    def add_up(self, op: IrOperation, around: set[str]) -> None:
        """Measure regions that run at once: what is live around them, and the most of each."""
        peak, self.peak = self.peak, Footprint()
        self.measure(op, around)
        shared = total = self.peak
        for region in op.regions:
            self.peak = shared
            self.walk_block(region.entry, around)
            own = self.peak.words - shared.words, self.peak.bytes - shared.bytes
            total = Footprint(total.words + own[0], total.bytes + own[1], total.line)
        self.peak = max(peak, total, key=lambda x: x.bytes)

    def read_around(self, region: IrRegion) -> set[str]:
        """The tiles that a loop reads in each iteration, and that come from outside of it."""
        inside = list(walk(region))
        blocks = [*region.blocks, *(b for op in inside for r in op.regions for b in r.blocks)]
        own = {x for op in inside for x in op.results}  # a view's tile may be from outside
        own.update(x for block in blocks for x in block.arguments)
        return {x for op in inside for x in self.tiles(op.operands)} - own

    def measure(self, op: IrOperation, live: set[str]) -> None:
        """Keep the most bytes."""
        total = sum(self.sizes[x][1] for x in live)
        if total > self.peak.bytes:
            words = sum(self.sizes[x][0] for x in live)
            self.peak = Footprint(words, total, op.location)
