"""One nest of a program as the text of one kernel: the launch, then the nodes in their order.

The plain target (`iosim.gpu.targets.plain`) makes a `KernelText` for each nest and takes its lines.
It walks the nodes as the machine does, so that a load in the program is a load in the text; how a
line is written may change, and not how many words it moves.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from iosim.core.counts import Key
from iosim.core.program.index import Dim, Span, Tile, dims, unstacked
from iosim.core.program.ir import Alloc, Free, Load, Loop, Op, Ref, Store, nodes
from iosim.core.program.ops import OPS
from iosim.core.program.walk import Instance
from iosim.gpu.emitter import offset
from iosim.gpu.emitter.blocks import LARGEST_BLOCK, Blocks, add
from iosim.gpu.emitter.cuts import cut_index, cuts, lines, parts
from iosim.gpu.emitter.edges import Edges, Held, products, summed
from iosim.gpu.emitter.kernel import Kernel, Lockstep
from iosim.gpu.emitter.layout import ranges
from iosim.gpu.emitter.lockstep import stretches
from iosim.gpu.emitter.names import Names
from iosim.gpu.emitter.nests import (
    NOTHING,
    Body,
    chain,
    find_masks,
    grows,
    moved_keys,
    touched,
    wide_tiles,
)
from iosim.gpu.emitter.order import Order, ahead
from iosim.gpu.emitter.prelude import function
from iosim.gpu.emitter.unmasked import Portion, portions
from iosim.gpu.errors import EmitError


class KernelText:
    """Emits one kernel.  State: the lines so far, the open tiles, and the buffers."""

    def __init__(
        self, instance: Instance, name: str, body: Body, lockstep: Lockstep | None, clock: bool
    ) -> None:
        self.instance, self.lockstep, self.clock = instance, lockstep, clock
        self.names = Names(instance.program, body)
        self.tiles = Blocks(instance, self.names, wide_tiles(instance, body))
        self.where = self.tiles.where
        self.idle: frozenset[Op] = frozenset()  # masks that change nothing here
        self.lines, self.depth, self.summed = list[str](), 1, summed(body)
        self.buffers = dict[str, tuple[Dim, ...]]()
        self.cuts = parts(instance, body)
        self.tiles.by_word, self.tiles.vectors = offset.shapes(body, self.cuts, self.tiles)
        self.part: dict[Tile, int] = {}  # which part an unrolled loop is at
        self.edges, self.loaded = Edges(), {n.buffer for n in nodes(body) if isinstance(n, Load)}
        self.block, self.least = 1, LARGEST_BLOCK
        self.keys = moved_keys(body)
        moved = {tensor for _, tensor in self.keys}
        self.tensors = tuple(t.name for t in instance.program.tensors if t.name in moved)
        self.masks = tuple(name for name, _ in instance.masks if name in find_masks(body))
        grid, inside = chain(body)
        self.items = 1
        for loop in grid:
            self.items *= self.where.trips(loop)
        self.programs = min(lockstep.programs, self.items) if lockstep else self.items
        self._launch(grid, inside)
        self.kernel = Kernel(
            name=name,
            grid=self.programs,
            items=self.items,
            tensors=self.tensors,
            masks=self.masks,
            keys=self.keys,
            lockstep=lockstep is not None,
            clock=clock,
            block=self.block,
            least=self.least,
            operand=self._operand_size(products(body)),
        )
        self.text = self._function(name)

    # -- the frame ------------------------------------------------------------------------

    def _function(self, name: str) -> str:
        pointers = [self.names.ptr(t) for t in self.tensors]
        pointers += [self.names.marks(name) for name in self.masks]
        pointers += ["gate_ptr"] * (self.lockstep is not None) + ["clock_ptr"] * self.clock
        counters = [self.names.counter(key) for key in self.keys]
        return function(name, pointers, self.tiles.header.values(), counters, self.lines)

    def _launch(self, grid: tuple[Loop, ...], inside: Body) -> None:
        """Turn the launch index into tiles: the innermost grid loop runs fastest.

        Where items of a loop's last tiles take longest, these start first, of all heads: that loop
        runs slowest, and backwards.
        """
        if self.lockstep is None:
            self._say("item = tl.program_id(0)")
        else:
            self._say(f"for wave in range(0, {-(-self.items // self.programs)}):")
            self.depth += 1
            self._say(f"item = wave * {self.programs} + tl.program_id(0)")
            self._say(f"if item < {self.items}:")
            self.depth += 1
        below, numbers = self.items, dict[Loop, str]()
        for loop in sorted(grid, key=lambda loop: not grows(loop)):
            trips = self.where.trips(loop)
            above, below = below, below // trips
            numbers[loop] = "item" if below == 1 else f"item // {below}"
            numbers[loop] += f" % {trips}" if above < self.items else ""
        for loop in grid:
            trips, step = self.where.trips(loop), self.where.step(loop)
            start, _ = self.instance.span(loop.span)
            text = numbers[loop]
            if trips > 1 and grows(loop):
                text = f"({trips - 1} - {text})"
            text += f" * {step}" if step > 1 else ""
            self._enter(loop, add(str(start), text))
        gated = next((n for n in inside if isinstance(n, Loop) and not n.parallel), None)
        if self.lockstep and (gated is None or gated.step is None):
            raise EmitError(
                f"{self.instance.program.name} has a nest with no sequential loop right below its "
                "grid, so nothing to keep in lockstep: emit it without lockstep"
            )
        self._tick(0)
        self._body(inside, gated if self.lockstep else None)
        self._tick(1)

    def _enter(self, loop: Loop, at: str) -> None:
        """Give a launch loop's tile its start: a number where the loop runs once."""
        if self.where.trips(loop) == 1:
            at = str(self.instance.span(loop.span)[0])
        else:
            name = self.names.var(loop.tile)
            self._say(f"{name} = {at}")
            at = name
        self.tiles.open(loop, at, self._say)

    def _operand_size(self, pairs: set[tuple[str, ...]]) -> int:
        """Elements of the largest right operand, of products of 64 rows or more."""
        tall = [b for to, b in pairs if to and b and self.tiles.side(self.buffers[to][0]) >= 64]
        return max((self.tiles.size(b, self.buffers[b]) for b in tall), default=0)

    def _tick(self, end: int) -> None:
        if self.clock:
            self._say(f"tl.store(clock_ptr + item * 2 + {end}, globaltimer())")

    def _say(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    # -- nodes ----------------------------------------------------------------------------

    def _body(self, body: Body, gated: Loop | None = None, order: Order | None = None) -> None:
        order = order or Order(self.where)
        for node in body:
            if order.barrier(node):
                self._say("tl.debug_barrier()")
            match node:
                case Loop():
                    self._loop(node, node is gated)
                case Op():
                    if node not in self.idle:
                        self._op(node)
                case Load() | Store() | Alloc():
                    self._each_part(node)
                case Free():
                    pass  # a block lives in registers: the compiler sees where it ends
                case _:
                    assert_never(node)
            order.did(node)

    def _loop(self, loop: Loop, gated: bool) -> None:
        once = not loop.span.edges and self.where.trips(loop) == 1
        if (once or cuts(loop)) and not gated:
            self._unrolled(loop)
            return
        depth, last = self.depth, None
        if gated and self.lockstep:
            lines, found = stretches(loop, self.lockstep, self.items, self.programs, self.where)
        else:
            first, last = self.where.bounds(loop, self._say)
            lines, found = portions(loop, first, last, self.buffers, self.tiles)
        for line in lines:
            self._say(line)
        self.depth += gated
        always = len(found) == 1 and self.where.runs(loop)
        for portion in found:
            with contextlib.nullcontext() if always else self.edges.perhaps():
                self._iterate(loop, portion, last if loop.span.edges else None)
        self.depth = depth

    def _unrolled(self, loop: Loop) -> None:
        """The iterations one by one; of a loop that follows a tile, those that it has."""
        depth, fixed, last = self.depth, loop, None
        if loop.span.edges:
            ops = (n for n in nodes(loop.body) if isinstance(n, Op))
            cut = next(ref.buffer for op in ops for ref in op.operands if ref.part == loop.tile)
            fixed = self.cuts[cut]
            _, last = self.where.bounds(loop, self._say)
        order = Order(self.where)
        for k, (at, _) in enumerate(ranges(self.instance, fixed)):
            self.part[loop.tile] = k
            with contextlib.ExitStack() as inside:
                if last is not None and not self.where.certain(loop, at):
                    self._say(f"if {at} < {last}:")
                    self.depth += 1
                    for one in (self.names.scope(), self.edges.perhaps(), order.perhaps()):
                        inside.enter_context(one)
                if loop.marks is not None:
                    inside.enter_context(order.perhaps())
                inside.enter_context(self._marked(loop, str(at)))
                self.tiles.open(fixed, str(at), self._say, last, loose=last is not None)
                self._body(loop.body, order=order)
            self.depth = depth
        del self.part[loop.tile]

    def _iterate(self, loop: Loop, portion: Portion, stop: str | None) -> None:
        """One loop in the text, over a portion of the iterations."""
        depth, idle, var = self.depth, self.idle, self.names.var(loop.tile)
        self.edges.enter(loop, self.names.block)
        over = f"{portion.first}, {portion.last}, {self.where.step(loop)}"
        self._say(f"for {var} in {ahead(loop, over, self.buffers, self.tiles.side)}:")
        self.depth += 1
        self.idle |= portion.idle
        with self.names.scope(), self._marked(loop, var):
            self.tiles.open(loop, var, self._say, stop, portion.full)
            self._body(loop.body)
        if not loop.parallel and touched(loop.body, Load) & touched(loop.body, Store):
            self._say("tl.debug_barrier()  # the next iteration reads what this one stored")
        self.depth, self.idle = depth, idle

    @contextlib.contextmanager
    def _marked(self, loop: Loop, at: str) -> Iterator[None]:
        """What follows runs where the loop's block mask, if it has one, marks the iteration."""
        if loop.marks is None:
            yield
            return
        self._say(f"if tl.load({self.where.pair(loop, at)}) != 0:")
        self.depth += 1
        with self.names.scope(), self.edges.perhaps():
            yield
        self.depth -= 1

    def _each_part(self, node: Load | Store | Alloc) -> None:
        """Make or move a buffer, part by part where it is cut."""
        if (loop := self.cuts.get(node.buffer)) is None:
            self._one(node, 0)
            return
        if loop.tile in self.part:
            raise EmitError(
                f"{node.buffer} is made or moved whole inside the loop {loop.tile} that cuts it: "
                "move it outside"
            )
        for k, (at, _) in enumerate(ranges(self.instance, loop)):
            index = cut_index(node.index, loop)
            self.where.loops[loop.tile] = loop
            if not isinstance(node, Alloc):
                self.tiles.open(loop, str(at), self._say)
            self._one(replace(node, index=index), k)

    def _one(self, node: Load | Store | Alloc, k: int) -> None:
        """Make or move a buffer, or its part number `k`."""
        own = dims(node.index)
        match node:
            case Load():
                block = self._make_block(node, own, k)
                self.tiles.say_masks(own, self._say)
                self._load(node, own, block)
                if node.buffer in self.summed:
                    self._say(f"{block} = {block}.to(tl.float32)")
            case Alloc():
                self._make_block(node, own, k)
            case Store():
                self.tiles.say_masks(own, self._say)
                at, ok = self.tiles.pointer(node), self.tiles.mask(own)
                ptr = self.names.ptr(node.tensor)
                value = f"{self._block(node.buffer, k)}.to({ptr}.dtype.element_ty)"
                self._say(f"tl.store({at}, {value}{f', mask={ok}' if ok else ''})")
                self._count(("store", node.tensor), own)
            case _:
                assert_never(node)

    def _make_block(self, node: Load | Alloc, own: tuple[Dim, ...], k: int) -> str:
        kind = (type(node), self.tiles.shape(own))
        block = self.names.make_block(node.buffer, self._part(node.buffer, k), kind)
        self.tiles.place(own, self._say)
        self.block = max(self.block, self.tiles.size(node.buffer, own))
        self.buffers[node.buffer] = own
        self.edges.reset_block(block)
        return block

    def _load(self, node: Load, own: tuple[Dim, ...], name: str) -> None:
        at, ok = self.tiles.pointer(node), self.tiles.mask(own)
        if len(own) == 1:
            side = self.tiles.side(own[0])
            ok = ok or f"tl.full([{side}], True, tl.int1)"
            self._say(f"{name} = load_vector({at}, {ok}, {side})")
        elif not own:
            self._say(f"{name} = load_word({at})")
        else:
            self.least = min(self.least, self.tiles.size(node.buffer, own))
            if near := self.tiles.near(own, self.names.ptr(node.tensor)):
                self._say(f"{name} = tl.load({at}, mask={near}, other=0.0)")
                self._say(f"{name} = tl.where({ok}, {name}, 0.0)")
            else:
                self._say(f"{name} = tl.load({at}{f', mask={ok}, other=0.0' if ok else ''})")
        self._count(("load", node.tensor), own)

    def _count(self, key: Key, own: tuple[Dim, ...]) -> None:
        self._say(f"if COUNT: {self.names.counter(key)} += {self.tiles.words(own)}")

    def _op(self, node: Op) -> None:
        spec = OPS[node.name]
        if spec.triton is None:
            raise EmitError(
                f"operation {node.name!r} has no Triton template: add one to its record in "
                "iosim.core.program.ops.OPS"
            )
        named = spec.names
        letters = dict(zip(named, node.operands, strict=True))
        scalars = zip(spec.scalars, node.scalars, strict=True)
        numbers = {x: f"({self.where.number(value)})" for x, value in scalars}
        cut = {x for x, ref in letters.items() if ref.part is None and ref.buffer in self.cuts}
        empty = {x for x, ref in letters.items() if ref == NOTHING}
        whole = {
            x: self._operand(ref, 0, spec.placed) for x, ref in letters.items() if x not in empty
        }
        for x, ref in letters.items():
            if ref.part in self.where.loose:
                whole[x] = self._short_part(node, named.index(x), whole[x])
        blocks = {x: operand.name for x, operand in whole.items() if x not in cut}
        depth = self.depth
        self._unless_empty(node)
        with self.edges.perhaps() if self.depth > depth else contextlib.nullcontext():
            for x, value in self.edges.required_fills(node, blocks):
                self._fill(letters[x], blocks[x], value)
        rows = next(iter(whole.values())).rows
        for text, split in lines(spec, cut, empty):
            line = re.sub(r"(?<![\w.{])_[a-z]\w*", lambda m: self.names.between(m[0], rows), text)
            if not split:
                self._say(line.format(**whole, **numbers))
                continue
            loop = self.cuts[letters[min(split)].buffer]
            for k in range(self.where.trips(loop)):
                piece = {x: self._operand(letters[x], k, spec.placed) for x in split}
                self._say(line.format(**{**whole, **piece}, **numbers))
        self.depth = depth

    def _short_part(self, node: Op, at: int, operand: Held) -> Held:
        """A part of a buffer that goes on beyond its loop's end: nothing may be added there."""
        spec, ref = OPS[node.name], node.operands[at]
        if at in spec.writes:
            raise EmitError(
                f"{node.name} changes {ref}, and loop {ref.part} follows an outer tile: cut what "
                "changes by a loop with fixed bounds"
            )
        own = self.buffers[ref.buffer]
        letter = next(c for x, c in zip(own, spec.dims[at], strict=True) if x == ref.part)
        if letter not in spec.over or spec.lowest:
            return operand  # what it is multiplied by is 0 there
        name = self.names.of(("short", operand.name), f"{operand.name}_short")
        self._say(f"{name} = tl.where({self.tiles.mask(own)}, {operand}, 0.0)")
        return replace(operand, name=name)

    def _unless_empty(self, node: Op) -> None:
        """A maximum over no columns would leave no number: then nothing is done."""
        spec = OPS[node.name]
        taken = {
            x
            for ref, names in zip(node.operands, spec.dims, strict=True)
            if ref != NOTHING and spec.lowest
            for dim, c in zip(self.buffers[ref.buffer], names, strict=False)
            for x in unstacked((dim,))
            if c in spec.over and isinstance(x, Span) and self.where.may_be_empty(x)
        }
        for c, ref in zip(spec.names, node.operands, strict=True):
            if taken and ref.buffer in self.loaded and c in spec.lowest:
                name = self._block(ref.buffer, 0)
                self._say(f"{name} = {name}.to(tl.float32)")  # as it is in the branch
        for x in sorted(taken, key=str):
            start, stop = self.where.placed[x]
            self._say(f"if {start} < {stop}:")
            self.depth += 1

    def _operand(self, ref: Ref, part: int, placed: bool) -> Held:
        at = part if ref.part is None else self.part[ref.part]
        own = self.buffers[ref.buffer]
        ends = (self.tiles.position(x) for x in (own[0], own[-1])) if placed else ()
        return Held(self._block(ref.buffer, at), self.tiles.shape(own), *ends)

    def _fill(self, ref: Ref, name: str, value: str) -> None:
        """Beyond a ragged edge, nothing may be a row's maximum, nor add to a sum."""
        own = self.buffers[ref.buffer]
        if edge := self.tiles.mask(own[-1:]):
            edge = f"{edge}[None, :]" if len(own) == 2 else edge
            wide = f"{name}.to(tl.float32)" if ref.buffer in self.loaded else name
            self._say(f"{name} = tl.where({edge}, {wide}, {value})")

    def _block(self, buffer: str, k: int) -> str:
        """The block that holds a buffer, or its part number `k` where it is cut."""
        return self.names.block(buffer, self._part(buffer, k))

    def _part(self, buffer: str, k: int) -> int | None:
        loop = self.cuts.get(buffer)
        return None if loop is None or self.where.trips(loop) == 1 else k
