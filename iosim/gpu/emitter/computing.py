"""A warpgroup that computes: its share of the rows, and products that overlap.

`iosim.gpu.emitter.hopper` makes one `RowWarps` for each nest and lets it write the text of every
computing warpgroup.  The order of the products is `steps`' matter and may change where no value
does; what is loaded and stored may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from iosim.core.program.index import Dim, Tile, dims
from iosim.core.program.ir import Alloc, Free, Load, Loop, Op, Ref, Store
from iosim.core.program.ops import OPS
from iosim.gpu.emitter.blocks import Blocks, add
from iosim.gpu.emitter.edges import LOWEST, ZERO
from iosim.gpu.emitter.names import Names
from iosim.gpu.emitter.roles import Role
from iosim.gpu.emitter.steps import Factor, Rotation, TileProduct, ValueStep, product_of, rotation
from iosim.gpu.emitter.unmasked import Portion, portions
from iosim.gpu.emitter.warps import WarpNest
from iosim.gpu.errors import EmitError


@dataclass(frozen=True, slots=True)
class RegisterValue:
    """What a template may say about an operand: its name, and the shape and layout of its block."""

    name: str
    shape: str
    layout: str

    def __str__(self) -> str:
        return self.name


class RowWarps(Role):
    """A warpgroup that computes: its rows of the tile that is shared out start at ``first``."""

    def __init__(self, nest: WarpNest, names: Names, tiles: Blocks) -> None:
        super().__init__(nest, names, tiles)
        self.buffers: dict[str, tuple[Dim, ...]] = {}
        self.loads: dict[str, Load] = {}  # buffer → what it was loaded by
        self.idle: frozenset[Op] = frozenset()
        self.slot = "slot"
        self.zeros: set[str] = set()
        self.columns: set[int] = set()  # of values in registers
        for node in nest.inside:
            match node:
                case Load() | Alloc():
                    self._register_buffer(node)
                    if isinstance(node, Load):
                        self.say(f"mbarrier.wait({self.full(node)}, {self.visit})")
                case Op():
                    for step in self._steps(node):
                        self._now(step)
                case Loop():
                    self._loop(node)
                    if nest.style.persistent and node is nest.loops[-1]:
                        for tile in nest.held:  # products are in loops only
                            self.say(f"mbarrier.arrive({self.free(tile)})")
                case Store():
                    self._store(node)
                case Free():
                    pass
                case _:
                    assert_never(node)
        self._leave()

    def _register_buffer(self, node: Load | Alloc) -> None:
        self.buffers[node.buffer] = dims(node.index)
        if isinstance(node, Load):
            self.loads[node.buffer] = node

    # -- loops ----------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> None:
        first, last = self.where.bounds(loop, self.say)
        lines, found = portions(loop, first, last, self.buffers, self.tiles, apart=True)
        depth, stop = self.depth, last if loop.span.edges else None
        if not self.where.runs(loop):
            self.say(f"if {first} < {last}:")
            self.depth += 1
        for line in lines:
            self.say(line)
        step, var = self.where.step(loop), self.names.var(loop.tile)
        if not self.nest.style.persistent:
            self.say("turn = 0")
        self.places(loop)
        self.open(loop, first, stop)
        steps = self._body(loop)
        turned = rotation(steps)
        # Of the first iteration, which has every mask: the last portion may have fewer steps.
        late = steps[turned.late].product if turned else None
        self._iteration(steps, turned, begins=True)
        once = not loop.span.edges and self.where.trips(loop) == 1
        for portion in () if once else found:
            begin = self._portion_start(portion, first, step)
            self.say(f"for {var} in range({begin}, {portion.last}, {step}):")
            self.depth += 1
            self.open(loop, var, stop, portion.full)
            self.idle = portion.idle
            steps = self._body(loop)
            self.idle = frozenset()
            if turned:
                self.say("before, was = slot, phase")
            self.say(f"{self.turn(loop)} += 1")
            self.places(loop)
            self._iteration(steps, turned)
            self.depth -= 1
        if late is not None:
            self._arrived(late, "slot", "phase")
            self._issue(late, "slot", True)
            self._wait(late, 0)
            self._release(late.tiles, "slot")
        if self.nest.style.persistent:
            self.say(f"{self.turn(loop)} += 1")
        self.depth = depth

    def _portion_start(self, portion: Portion, first: str, step: int) -> str:
        """Where a portion begins that does not hold the loop's first iteration, which was taken."""
        after = str(int(first) + step) if first.isdigit() else f"{first} + {step}"
        if portion.first == first:
            return after
        return f"max({portion.first}, {after})"

    def _body(self, loop: Loop) -> list[ValueStep]:
        """The steps of an iteration, as they are in this portion."""
        found: list[ValueStep] = []
        for node in loop.body:
            if isinstance(node, (Load, Alloc)):
                self._register_buffer(node)
            elif isinstance(node, Op) and node not in self.idle:
                found.extend(self._steps(node))
        return found

    def _iteration(
        self, steps: Sequence[ValueStep], turned: Rotation | None, begins: bool = False
    ) -> None:
        """One iteration; with `turned`, its late product is left to the next one.

        Args:
            begins: it is the loop's first, so no product was left to it.
        """
        lead = turned.lead if turned else -1
        late = None
        # A fill beyond an edge moves steps: those of this portion have a rotation of their own.
        if turned:
            own = rotation(steps)
            assert own is not None
            turned, lead = own, own.lead
            late = steps[own.late].product
        for k, step in enumerate(steps):
            if turned and late and k == turned.wait and not begins:
                self._wait(late, 0)
                self._release(late.tiles, "before")
            if turned and k == turned.late:
                self._keep(step)
                continue
            if step.product is None:
                self._now(step)
                continue
            behind = k == lead and not begins and late is not None
            first = self.nest.style.waits_first
            self._arrived(step.product, "slot", "phase")
            if behind and late and first:
                self._arrived(late, "before", "was")
            self._issue(step.product, "slot", step.product.goal not in self.zeros)
            self.zeros.discard(step.product.goal)
            if behind and late:
                if not first:
                    self._arrived(late, "before", "was")
                self._issue(late, "before", True)
            self._wait(step.product, 1 if behind else 0)
            done = {x for one in steps[k + 1 :] if one.product for x in one.product.tiles}
            self._release([x for x in step.product.tiles if x not in done], "slot")

    def _keep(self, step: ValueStep) -> None:
        """What a late product takes from registers, in a layout of its own."""
        assert step.product is not None
        if not step.product.left.tile:
            name = self._factor(step.product.left.name)
            self.say(f"{name} = {self._converted(step.product)}")

    def _now(self, step: ValueStep) -> None:
        assert step.product is None
        self.say(step.text)
        (self.zeros.add if step.clears else self.zeros.discard)(step.writes)

    # -- products -------------------------------------------------------------------------

    def _arrived(self, product: TileProduct, slot: str, phase: str) -> None:
        for x in product.tiles:
            node = self.loads[x]
            if node in self.nest.streamed:
                self.say(f"mbarrier.wait({self.full(node)}.index({slot}), {phase})")

    def _issue(self, product: TileProduct, slot: str, adds: bool) -> None:
        left = self._tile(product.left, slot) if product.left.tile else None
        if left is None:
            left = self._factor(product.left.name)
            if slot == "slot" and not self._has_factor(product):
                self.say(f"{left} = {self._converted(product)}")
        right = self._tile(product.right, slot)
        more = "" if adds else ", use_acc=False"
        goal = product.goal
        self.say(f"{goal}_run = warpgroup_mma({left}, {right}, {goal}{more}, is_async=True)")

    def _has_factor(self, product: TileProduct) -> bool:
        return any(
            line.strip().startswith(f"{self._factor(product.left.name)} = ") for line in self.lines
        )

    def _factor(self, value: str) -> str:
        return self.names.of(("factor", value), f"{value}_factor")

    def _converted(self, product: TileProduct) -> str:
        name = product.left.name
        box = self.box(self.loads[product.right.name])
        to = f"gl.DotOperandLayout(0, {product.layout}, 2)"
        return f"gl.convert_layout({name}.to({box}.dtype), {to})"

    def _wait(self, product: TileProduct, running: int) -> None:
        goal = product.goal
        self.say(f"{goal} = warpgroup_mma_wait({running}, [{goal}_run])")

    def _release(self, tiles: Sequence[str], slot: str) -> None:
        for x in tiles:
            if (node := self.loads[x]) in self.nest.streamed:
                self.say(f"mbarrier.arrive({self.free(node)}.index({slot}))")

    def _tile(self, operand: Factor, slot: str) -> str:
        node = self.loads[operand.name]
        parts, own = self.nest.parts(node), dims(node.index)
        place = slot if node in self.nest.streamed else ""
        if parts > 1:
            place = add(f"{place} * {parts}" if place else "0", "group")
        at = self.at(node)
        turn = ".permute((1, 0))" if operand.transposed else ""
        return f"{at}.index({place or 0}).reshape({self._shape(own)}){turn}"

    def _shape(self, own: tuple[Dim, ...]) -> str:
        """The shape of a block, as text."""
        return f"[{', '.join(str(self.nest.side(x, self.tiles)) for x in own)}]"

    # -- operations -----------------------------------------------------------------------

    def _steps(self, node: Op) -> Iterator[ValueStep]:
        spec = OPS[node.name]
        if spec.gluon is None:
            raise EmitError(
                f"operation {node.name!r} has no Gluon text: emit it for the plain target, or add "
                "one to its record in iosim.core.program.ops.OPS"
            )
        letters = dict(zip(spec.names, node.operands, strict=True))
        scalars = zip(spec.scalars, node.scalars, strict=True)
        numbers_ = {x: f"({self.where.number(value)})" for x, value in scalars}
        held = {x: self._register_value(ref) for x, ref in letters.items()}
        for x in spec.lowest:
            yield from self._filled(letters[x], LOWEST)
        for line in spec.gluon.splitlines():
            if (found := product_of(line)) is not None:
                goal, left, right, turned = found
                if left not in spec.lowest:
                    yield from self._filled(letters[left], ZERO)
                yield self._product(letters[goal], letters[left], letters[right], turned)
                continue
            goal, value = line.split(" = ", 1)
            tiles = {
                x
                for x in re.findall(r"\{(\w+)", line)
                if letters.get(x, Ref("")).buffer in self.loads
            }
            if tiles:
                raise EmitError(
                    f"{node.name} takes {letters[min(tiles)]} into registers, and Hopper's target "
                    "has tiles in shared memory only: emit it for the plain target"
                )
            text = line.format(**held, **numbers_)
            reads = {self._value(letters[x]) for x in re.findall(r"\{(\w+)", value) if x in letters}
            reads |= set(re.findall(r"(?<![\w.{])_[a-z]\w*", value))
            writes = self._value(letters[goal.strip("{}")]) if goal.startswith("{") else goal
            yield ValueStep(text, frozenset(reads), writes)

    def _product(self, goal: Ref, left: Ref, right: Ref, turned: bool) -> ValueStep:
        a, b = self._operand(left), self._operand(right)
        if not b.tile:
            raise EmitError(
                f"a product takes {right} from registers on its right, which Hopper's has no form "
                "for: emit it for the plain target"
            )
        name = self._value(goal)
        b = Factor(b.name, True, turned)
        product = TileProduct(name, self._layout(goal), a, b)
        reads = {name} | ({a.name} if not a.tile else set())
        return ValueStep("", frozenset(reads), name, product)

    def _operand(self, ref: Ref) -> Factor:
        tile = ref.buffer in self.loads
        return Factor(ref.buffer if tile else self._value(ref), tile)

    def _filled(self, ref: Ref, value: str) -> Iterator[ValueStep]:
        """Beyond a ragged edge, nothing may be a row's maximum, nor add to a sum."""
        own = self.buffers[ref.buffer][-1]
        if (
            ref.buffer in self.loads
            or not self.tiles.mask((own,))
            or len(self.buffers[ref.buffer]) < 2
        ):
            return
        name = self._value(ref)
        assert isinstance(own, Tile)
        inside = f"columns({name}) < {self.where.last[own]} - {self.where.at[own]}"
        yield ValueStep(f"{name} = gl.where({inside}, {name}, {value})", frozenset({name}), name)

    def _value(self, ref: Ref) -> str:
        shape = tuple(self.nest.side(x, self.tiles) for x in self.buffers[ref.buffer])
        return self.names.of(("value", ref.buffer, shape), ref.buffer)

    def _layout(self, ref: Ref) -> str:
        own = self.buffers[ref.buffer]
        if len(own) == 1:
            return "ROWS"
        side = self.nest.side(own[-1], self.tiles)
        self.columns.add(side)
        return f"MMA_{side}"

    def _register_value(self, ref: Ref) -> RegisterValue:
        own = self.buffers[ref.buffer]
        name = ref.buffer if ref.buffer in self.loads else self._value(ref)
        return RegisterValue(name, self._shape(own), self._layout(ref))

    def staging(self, store: Store) -> tuple[str, bool]:
        """The shared memory that a store passes through, and whether a tile has left it."""
        if (over := self.nest.staged(store, self.tiles)) is not None:
            return self.at(over), True
        return self.names.of(("at", store), f"{store.buffer}_at"), False

    def _store(self, node: Store) -> None:
        box, (at, _) = self.box(node), self.staging(node)
        name = self._value(Ref(node.buffer))
        self.say(f"out = {at}.index({'group' if self.nest.groups > 1 else 0})")
        self.say(f"out.reshape({self._shape(dims(node.index))}).store({name}.to({box}.dtype))")
        self.say("fence_async_shared()")
        corner = self.corner(node.index, "first" if self.nest.groups > 1 else "0")
        self.say(f"store_box({box}, {corner}, out)")
        self.say("tma.store_wait(0)")
        words = self.words(node.index, "first")
        self.say(f"if COUNT: {self.names.counter(('store', node.tensor))} += {words}")
