"""What the warps of a Hopper kernel do: one warp loads tiles, and warpgroups compute with them."""

from __future__ import annotations

import math

from iosim.gpu.emitter.blocks import Blocks, add
from iosim.gpu.emitter.launch_order import numbers
from iosim.gpu.emitter.names import Names
from iosim.gpu.emitter.warps import ROWS, WarpNest
from iosim.program.index import Index, Tile, dim_of
from iosim.program.ir import Load, Loop, Store


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
        """The barriers that a tile of a ring is needed no more."""
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
            self._fetch(node, self.full(node), "0")
        for loop in (n for n in nest.inside if isinstance(n, Loop)):
            self._stream(loop)

    def _stream(self, loop: Loop) -> None:
        first, last = self.where.bounds(loop, self.say)
        var, step = self.names.var(loop.tile), self.where.step(loop)
        self.say("turn = 0")
        self.say(f"for {var} in range({first}, {last}, {step}):")
        self.depth += 1
        self.open(loop, var, last if loop.span.edges else None)
        self.say(f"slot = turn % {self.nest.stages}")
        self.say(f"phase = turn // {self.nest.stages} % 2")
        for node in loop.body:
            if isinstance(node, Load):
                self.say(f"mbarrier.wait({self.free(node)}.index(slot), phase ^ 1)")
                self._fetch(node, f"{self.full(node)}.index(slot)", "slot")
        self.say("turn += 1")
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
