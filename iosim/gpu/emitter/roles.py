"""What the warps of a Hopper kernel do: one warp loads tiles, and warpgroups compute with them.

`iosim.gpu.emitter.hopper` writes one `LoadWarp`, `iosim.gpu.emitter.computing` the others, over
the same loops: both must meet each tile in the same order, since they wait for each other.
"""

from __future__ import annotations

import math

from iosim.core.program.index import Index, Tile, dim_of
from iosim.core.program.ir import Load, Loop, Store
from iosim.gpu.emitter.blocks import Blocks, add
from iosim.gpu.emitter.launch_order import numbers
from iosim.gpu.emitter.names import Names
from iosim.gpu.emitter.warps import ROWS, WarpNest


class Role:
    """Walks a nest and writes what one kind of warp does.  State: the lines and the open tiles."""

    def __init__(self, nest: WarpNest, names: Names, tiles: Blocks) -> None:
        self.nest, self.names, self.tiles, self.where = nest, names, tiles, tiles.where
        self.lines, self.depth = list[str](), 1
        self._place()

    def say(self, line: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + line)

    def open(self, loop: Loop, at: str, stop: str | None = None, full: bool = False) -> None:
        """Enter an iteration that starts at `at`; boxes need no masks."""
        self.tiles.open(loop, at, lambda line: None, stop, full)

    def _place(self) -> None:
        if self.nest.style.persistent:
            for loop in self.nest.loops:
                self.say(f"{self.turn(loop)} = 0")
            self.say("visit = 0")
            items = math.prod(self.where.trips(loop) for loop in self.nest.grid)
            self.say(f"for item in range(gl.program_id(0), {items}, gl.num_programs(0)):")
            self.depth += 1
        else:
            self.say("item = gl.program_id(0)")
        where, instance = self.where, self.nest.instance
        for loop, number in numbers(self.nest.grid, where, self._streamed()):
            start, _ = instance.span(loop.span)
            if where.trips(loop) == 1:
                self.open(loop, str(start))
                continue
            step = where.step(loop)
            name = self.names.var(loop.tile)
            self.say(f"{name} = {add(str(start), number + (f' * {step}' if step > 1 else ''))}")
            self.open(loop, name)

    def _leave(self) -> None:
        """The end of an item."""
        if self.nest.style.persistent:
            self.say("visit += 1")
            self.depth -= 1

    def turn(self, loop: Loop) -> str:
        """The counter of a loop's tiles, which says their places in the ring."""
        if not self.nest.style.persistent:
            return "turn"
        return self.names.of(("turn", loop.tile), f"turn_{self.names.var(loop.tile)}")

    def places(self, loop: Loop) -> None:
        """Say where the tiles of this turn are, and which phase of their barriers it is."""
        self.say(f"slot = {self.turn(loop)} % {self.nest.stages}")
        self.say(f"phase = {self.turn(loop)} // {self.nest.stages} % 2")

    @property
    def visit(self) -> str:
        """The phase of the barriers of tiles that stay: of each item another."""
        return "visit % 2" if self.nest.style.persistent else "0"

    def _streamed(self) -> int:
        """Words of the tensors that are streamed, of one tile of the loops that index them."""
        found = 0
        for node in self.nest.streamed:
            tensor = self.nest.instance.program.tensor(node.tensor)
            points = sum(dim_of(x) is None for x in node.index)
            found += math.prod(self.nest.instance.env[axis] for axis in tensor.axes[points:])
        return found

    def box(self, node: Load | Store) -> str:
        """The descriptor of what a transfer moves."""
        return self.names.of(("box", self.nest.box(node, self.tiles)), f"{node.tensor}_box")

    def at(self, node: Load) -> str:
        """The shared memory of a tile, or of the ring that it is in."""
        return self.names.of(("at", node), f"{node.buffer}_at")

    def full(self, node: Load) -> str:
        """The barrier that a tile has arrived, or those of a ring."""
        return self.names.of(("full", node), f"{node.buffer}_full")

    def free(self, node: Load) -> str:
        """The barriers that a tile of a ring, or one that stays, is needed no more."""
        return self.names.of(("free", node), f"{node.buffer}_free")

    def corner(self, index: tuple[Index, ...], rows: str) -> str:
        """Where a box starts, as text.

        Args:
            rows: the warpgroup's first row in the tile that is shared out.
        """
        found = []
        for x in index:
            at = self.where.start(x)  # type: ignore[arg-type]
            found.append(add(at, rows) if dim_of(x) == self.nest.split else at)
        return f"[{', '.join(found)}]"

    def words(self, index: tuple[Index, ...], rows: str = "") -> str:
        """Words of a transfer, without what its boxes hold beyond its tiles.

        Args:
            rows: as for `corner`, of one warpgroup; empty for all of the tile.
        """
        found, known = [], 1
        for x in index:
            own = dim_of(x)
            if own is None:
                continue
            if isinstance(own, Tile) and ((rows and own == self.nest.split) or self.cut(own)):
                found.append(self._extent(own, rows if own == self.nest.split else ""))
            else:
                known *= self.where.longest(own)  # type: ignore[arg-type]
        return " * ".join([*found, str(known)])

    def cut(self, tile: Tile) -> bool:
        """Whether a tile may be shorter than its loop's step here."""
        return bool(self.tiles.mask((tile,)))

    def _extent(self, tile: Tile, rows: str) -> str:
        at, step = self.where.at[tile], self.where.step(self.where.loops[tile])
        left = f"{self.where.last[tile]} - {at}"
        if not rows:
            return f"min({step}, {left})"
        return f"max(0, min({ROWS}, min({step}, {left}) - {rows}))"


class LoadWarp(Role):
    """The producer: fetches tiles that stay once, and keeps those that stream coming."""

    def __init__(self, nest: WarpNest, names: Names, tiles: Blocks) -> None:
        super().__init__(nest, names, tiles)
        held = [n for n in nest.inside if isinstance(n, Load)]
        for node in held:
            if nest.style.persistent:
                self.say(f"mbarrier.wait({self.free(node)}, {self.visit} ^ 1)")
            self._fetch(node, self.full(node), "0")
        for loop in nest.loops:
            self._stream(loop)
        self._leave()

    def _stream(self, loop: Loop) -> None:
        first, last = self.where.bounds(loop, self.say)
        var, step = self.names.var(loop.tile), self.where.step(loop)
        if not self.nest.style.persistent:
            self.say("turn = 0")
        self.say(f"for {var} in range({first}, {last}, {step}):")
        self.depth += 1
        self.open(loop, var, last if loop.span.edges else None)
        self.places(loop)
        for node in loop.body:
            if isinstance(node, Load):
                self.say(f"mbarrier.wait({self.free(node)}.index(slot), phase ^ 1)")
                self._fetch(node, f"{self.full(node)}.index(slot)", "slot")
        self.say(f"{self.turn(loop)} += 1")
        self.depth -= 1

    def _fetch(self, node: Load, full: str, slot: str) -> None:
        box, at = self.box(node), self.at(node)
        parts = self.nest.parts(node)
        size = f"{box}.block_type.nbytes"
        self.say(f"mbarrier.expect({full}, {f'{parts} * {size}' if parts > 1 else size})")
        for w in range(parts):
            place = add("0" if slot == "0" else slot + (f" * {parts}" if parts > 1 else ""), str(w))
            corner = self.corner(node.index, str(w * ROWS))
            self.say(f"load_box({box}, {corner}, {full}, {at}.index({place}))")
        counter = self.names.counter(("load", node.tensor))
        self.say(f"if COUNT: {counter} += {self.words(node.index)}")
