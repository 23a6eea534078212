"""A Triton kernel as a `Program`: what counts schedules then gives its words as formulas.

The integer part of a kernel's TTIR is followed once, with formulas in place of numbers
(`iosim.kernel.linear`).  Programs of the grid and iterations are loops; lanes that a mask leaves
are a span of the tile; a condition is a loop of at most one iteration.  Where a mask or a bound is
no such formula, `NoClosedForm` says which, and the kernel is evaluated instead.

`iosim.kernel.formula` and `iosim.kernel.sweep` call it.  What an operation does to formulas is in
`iosim.kernel.meanings`.  ``tests/kernel/test_kernel_formulas.py`` and
``tests/kernel/test_random_kernels.py`` compare formulas with evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, NoReturn

from iosim.base.errors import InputError
from iosim.core.program.index import Affine, Edge, Index, Span, Tile
from iosim.core.program.ir import Load, Loop, Program, Store
from iosim.kernel import linear
from iosim.kernel.grid import AXES, GridAxis, open_axis, open_scaled, read_factors, run_over
from iosim.kernel.ir import IrBlock, IrFunction, IrOperation, IrRegion, tile_shape
from iosim.kernel.launch import KernelCall
from iosim.kernel.linear import (
    CARRIED,
    Condition,
    Conditions,
    LinearSum,
    LinearTile,
    NamedSizes,
    Quotient,
    SizeProduct,
    Unknown,
    is_name,
)
from iosim.kernel.meanings import MEANINGS, Launched, TensorBlock, TensorPointer, describe_value
from iosim.kernel.nests import FAR, ONE, Nested, build_program
from iosim.kernel.order import find_order
from iosim.kernel.slicing import (
    BOXES,
    Needed,
    box_operands,
    find_all_needed,
    find_callee,
    may_refer,
    steering_operands,
)


class NoClosedForm(InputError):
    """A kernel whose words are no such formula: the line and the reason."""


@dataclass(frozen=True)
class OpenLoop:
    """A loop of the kernel.

    Attributes:
        loops: that it is in the program; none for one iteration or no iteration.
        variable: the value of its variable.
        count: the number of an iteration; None where that is no sum.
        trips: how many iterations there are; None where that is no sum.
        closes: loops over programs, in whose place it is.
    """

    loops: tuple[Loop, ...]
    variable: Any
    count: LinearSum | None
    trips: LinearSum | None
    closes: tuple[Loop, ...] = ()


@dataclass
class Closing(Launched):
    """What is found while a kernel is followed.

    Attributes:
        references: loops around a reference, outermost first, and the reference.
        points: whether programs only count tiles, and don't follow where they lie.
        path: the loops that are open.
    """

    functions: Mapping[str, IrFunction] = field(default_factory=dict)
    needed_of: Needed = field(default_factory=dict)
    points: bool = False
    path: list[Loop] = field(default_factory=list)
    references: list[Nested] = field(default_factory=list)
    silent: int = 0  # how many loops are followed to learn what they carry
    loops: int = 0
    needed: set[str] = field(default_factory=set)
    find: Callable[[Sequence[LinearSum]], Mapping[str, int | None]] = lambda _: {}
    counters: dict[str, LinearTile] = field(default_factory=dict)

    def refuse(self, op: IrOperation, why: str) -> NoReturn:
        """Stop: by the line of the source, and why."""
        raise NoClosedForm(f"{op.location or op.name}: {why}")

    # Regions.

    def call(self, function: IrFunction, values: Sequence[Any], returns: bool = False) -> list[Any]:
        """Follow a function; what it returns."""
        outer, self.needed = self.needed, self.needed_of[function.name, returns]
        try:
            return self.follow(function.body, dict(zip(function.arguments, values, strict=True)))
        finally:
            self.needed = outer

    def follow(self, region: IrRegion, env: dict[str, Any]) -> list[Any]:
        """Follow a region; the values that its last operation gives."""
        if len(region.blocks) == 1:
            end = self.follow_block(region.entry, env)
            return [env.get(x) for x in end.operands]
        blocks = {block.label: block for block in region.blocks}
        return self.follow_branches(region.entry, blocks, env, set())

    def follow_block(self, block: IrBlock, env: dict[str, Any]) -> IrOperation:
        """The operations of a block; its last one."""
        for op in block.operations[:-1]:
            if op.name in EFFECTS:
                EFFECTS[op.name](self, op, env)
            elif may_refer(op):
                self.refuse(op, f"what {op.name} moves isn't known")
            elif any(result in self.needed for result in op.results):
                env.update(dict.fromkeys(op.results, self.calculate(op, env)))
            for result in op.results if op.name in COUNTING else ():
                if result in self.counters and isinstance(env.get(result), Unknown):
                    env[result] = self.counters[result]
        return block.operations[-1]

    def follow_branches(
        self, block: IrBlock, blocks: Mapping[str, IrBlock], env: dict[str, Any], seen: set[str]
    ) -> list[Any]:
        """A block and those that it branches to, which must not meet again."""
        end = self.follow_block(block, env)
        if end.name == "tt.return":
            return [env.get(x) for x in end.operands]
        if end.name not in ("cf.br", "cf.cond_br"):
            self.refuse(end, f"{end.name} isn't known")
        masks: list[Any] = [Conditions()]
        if end.name == "cf.cond_br":
            condition = env.get(end.operands[0])
            masks = [condition, linear.negate(condition)]
        outcomes = []
        for mask, (label, names) in zip(masks, end.successors, strict=True):
            target = blocks[label]
            goes_on = len(target.operations) > 1 or bool(target.operations[-1].successors)
            if goes_on:
                if label in seen:
                    self.refuse(end, "branches that meet again")
                seen.add(label)
            inner = env | dict(zip(target.arguments, map(env.get, names), strict=True))
            with _Guard(self, end, mask, lenient=not goes_on) as runs:
                if runs:
                    outcomes.append(self.follow_branches(target, blocks, inner, seen))
        return _merge(outcomes)

    def run_for(self, op: IrOperation, env: dict[str, Any]) -> None:
        """``scf.for``: what it carries is learned first."""
        block = op.regions[0].entry
        found = self.open_persistent(op, env) or self.open_loop(op, env)
        outer, self.path = self.path, [x for x in self.path if x not in found.closes]
        carried = [env.get(x) for x in op.operands[3:]]
        moves = self.learn_moves(block, env, carried, found.variable)
        self.path += found.loops
        given = [_move_on(x, move, found.count) for x, move in zip(carried, moves, strict=True)]
        inner = env | {block.arguments[0]: found.variable}
        if found.trips is None or found.trips.number != 0:
            self.follow_block(block, inner | dict(zip(block.arguments[1:], given, strict=True)))
        self.path = outer
        after = [_move_on(x, move, found.trips) for x, move in zip(carried, moves, strict=True)]
        env.update(zip(op.results, after, strict=True))

    def learn_moves(
        self, block: IrBlock, env: dict[str, Any], carried: list[Any], variable: Any
    ) -> list[Any]:
        """How far each carried value moves in one iteration; Unknown where it does otherwise."""
        names = [LinearSum.of(f"{CARRIED}{self.loops} {i}") for i in range(len(carried))]
        while True:
            probes = [
                linear.add(x, LinearTile((name,))) if isinstance(x, LinearTile) else x
                for x, name in zip(carried, names, strict=True)
            ]
            self.silent += 1
            inner = env | {block.arguments[0]: variable}
            inner |= dict(zip(block.arguments[1:], probes, strict=True))
            end = self.follow_block(block, inner)
            self.silent -= 1
            moves = [_move(x, inner.get(y)) for x, y in zip(probes, end.operands, strict=True)]
            # What stays may do so only because something else does, which doesn't.
            found = [
                move if isinstance(move, Unknown) and not isinstance(x, Unknown) else x
                for move, x in zip(moves, carried, strict=True)
            ]
            if found == carried:
                return moves
            carried = found

    def open_loop(self, op: IrOperation, env: dict[str, Any]) -> OpenLoop:
        """The loop of ``scf.for``."""
        self.loops += 1
        var = f"i{self.loops}"
        if isinstance(end := env.get(op.operands[1]), Quotient):
            return self.open_quotient(op, env, end)
        low, high, by = (self.read_bound(op, env.get(x)) for x in op.operands[:3])
        step = by.bases[0]
        if len(by.bases) > 1 or by.lanes or high.lanes or low.lanes or high.pick == "max":
            self.refuse(op, "a loop whose bounds are no sums")
        if step.number is not None and len(high.bases) == len(low.bases) == 1:
            fixed = self.open_fixed(var, low.bases[0], high.bases[0], step.number)
            if fixed is not None:
                return fixed
        span, begin = self.find_span(op, low, high.bases)
        name = None if step.number == 1 else self.name_step(op, step)
        loop = Loop(Tile(var, span.axis, name is None), span, name, False, ())
        at = LinearSum.of(loop.tile.start)
        count = at.divide(step.number) if step.number else None
        first = (
            None if count is None else (at + begin - self.first_of(low)).divide(step.number or 1)
        )
        # From 0 or another value on, an iteration's number depends on which of them is larger.
        first = first if len(low.bases) == 1 else None
        return OpenLoop((loop,), LinearTile((begin + at,)), first, None)

    def open_persistent(self, op: IrOperation, env: dict[str, Any]) -> OpenLoop | None:
        """A loop in which programs take tiles in turn: all programs together take each once."""
        low, high, by = (env.get(x) for x in op.operands[:3])
        for axis in self.axes:
            # Programs in whose place another loop is already take its tiles, not these.
            if not axis.loops or low != axis.program_id or axis.loops[0] not in self.path:
                continue
            if isinstance(high, LinearTile) and high.base is not None:
                lengths: Sequence[LinearSum] = high.bases
            elif isinstance(high, SizeProduct):
                lengths = high.factors
            else:
                return None
            if not self.are_all(axis, by, lengths):
                continue
            self.loops += 1
            tiles = open_axis(f"i{self.loops}", list(lengths), self.sizes, self.points)
            return OpenLoop(tiles.loops, self.take_order(tiles), None, None, axis.loops)
        return None

    def are_all(self, axis: GridAxis, step: Any, tiles: Sequence[LinearSum]) -> bool:
        """Whether a step is the number of an axis's programs, or that unless tiles are fewer."""
        if step == axis.length:
            return True
        ((_, length), *more) = axis.digits
        kind, operands, _ = self.sizes.made.get(str(length), ("", (), 1))
        number = tiles[0] if len(tiles) == 1 else self.sizes.multiply(tiles)
        if more or kind != "min" or number not in operands or not isinstance(step, LinearTile):
            return False
        return set(operands) == {step.base, number} and step.base != number

    def take_order(self, axis: GridAxis) -> Any:
        """The number of a tile; integers that count rows and columns, if its order is learned."""
        lengths = tuple(length for _, length in axis.digits)
        found = self.find(lengths) if lengths and axis.by is None else {}
        self.counters |= {
            name: linear.number(0) if k is None else LinearTile((axis.digits[k][0],))
            for name, k in found.items()
        }
        return Unknown("a tile's number") if found else axis.program_id

    def open_quotient(self, op: IrOperation, env: dict[str, Any], end: Quotient) -> OpenLoop:
        """A loop over numbers of tiles, up to ⌊end/by⌋: by positions, up to end − by + 1."""
        low, step = (self.read_bound(op, env.get(op.operands[i])) for i in (0, 2))
        if step.number != 1 or low.base is None or not low.base.never_negative:
            self.refuse(op, f"a loop whose bound is {end.why}")
        first = low.base.times(end.by)
        ends = tuple(x + LinearSum.of(1 - end.by) for x in end.of)
        span = self.cut_span(op, first, ends)
        loop = Loop(Tile(f"i{self.loops}", FAR, end.by == 1), span, str(end.by), False, ())
        at = LinearSum.of(loop.tile.start)
        count = (at - first).divide(end.by)
        return OpenLoop((loop,), LinearTile((at.divide(end.by),)), count, None)

    def read_bound(self, op: IrOperation, value: Any) -> LinearTile:
        """A bound of a loop."""
        if isinstance(value, SizeProduct) and (named := self.sizes.multiply(value.factors)):
            return LinearTile((named,))
        if not isinstance(value, LinearTile):
            self.refuse(op, f"a loop whose bound is {describe_value(value)}")
        return value

    def name_step(self, op: IrOperation, step: LinearSum) -> str:
        """The name of a step: a number, or a size."""
        if step.number is not None or is_name(step):
            return str(step)
        named = self.sizes.multiply([step])
        if named is None:
            self.refuse(op, f"a loop in steps of {step}")
        return str(named)

    def first_of(self, low: LinearTile) -> LinearSum:
        """Where a loop begins, of 0 and another value that one."""
        return next((x for x in low.bases if x.number != 0), low.bases[0])

    def open_fixed(self, var: str, begin: LinearSum, end: LinearSum, step: int) -> OpenLoop | None:
        """A loop over all of an axis, or of a number of iterations; None for any other."""
        length = end - begin
        if length.number is not None:
            trips = max(0, -(-length.number // step))
            if trips < 2:
                return OpenLoop((), LinearTile((begin,)), LinearSum.of(0), LinearSum.of(trips))
            loop, _ = run_over(var, LinearSum.of(trips), NamedSizes())
            number = LinearSum.of(loop.tile.start)
            return OpenLoop(
                (loop,), LinearTile((begin + number.times(step),)), number, LinearSum.of(trips)
            )
        if not is_name(length):
            return None
        trips_ = length if step == 1 else self.sizes.divide("ceil", length, step)
        loop, by = run_over(var, trips_, self.sizes)
        number = LinearSum.of(loop.tile.start).divide(by)
        return OpenLoop((loop,), LinearTile((begin + number.times(step),)), number, trips_)

    def find_span(
        self, op: IrOperation, low: LinearTile, ends: tuple[LinearSum, ...]
    ) -> tuple[Span, LinearSum]:
        """Where a loop lies that depends on other loops, or begins or ends at a sum.

        With it comes what is added to a position to give the loop's variable.
        """
        cut = low.pick == "max" and len(low.bases) == 2 and LinearSum.of(0) in low.bases
        if len(low.bases) > 1 and not cut:
            self.refuse(op, "a loop that begins at the largest of several values")
        begin = self.first_of(low)
        if cut or begin.never_negative:
            return self.cut_span(op, begin, ends), LinearSum.of(0)
        return self.cut_span(op, LinearSum.of(0), tuple(x - begin for x in ends)), begin

    def cut_span(self, op: IrOperation, begin: LinearSum, ends: tuple[LinearSum, ...]) -> Span:
        """From 0 or a beginning on, up to the least of a size, a sum of sizes and another sum."""
        fixed = [x for x in ends if not any(isinstance(n, Edge) for n in x.names)]
        moving = [x for x in ends if x not in fixed]
        if len(moving) > 1 or len(fixed) > (1 if moving else 2):
            self.refuse(op, "a loop that ends at the least of several values")
        stop = moving[0] if moving else fixed.pop()
        span = Span(FAR, self.to_affine(op, begin), self.to_affine(op, stop))
        if fixed and is_name(fixed[0]):
            span = replace(span, axis=str(fixed[0]))
        span = _movable(span)
        if fixed and span.axis == FAR:
            span = replace(span, within=(Affine(), self.to_affine(op, fixed[0])))
        return span

    def to_affine(self, op: IrOperation, value: LinearSum) -> Affine:
        """A sum that nothing divides."""
        found = value.affine()
        if found is None:
            self.refuse(op, f"{value} is no whole multiple")
        return found

    def run_if(self, op: IrOperation, env: dict[str, Any]) -> None:
        """``scf.if``."""
        condition = env.get(op.operands[0])
        outcomes = []
        for i, region in enumerate(op.regions):
            if i and not region.blocks[0].operations[:-1] and not op.results:
                continue
            mask = linear.negate(condition) if i else condition
            with _Guard(self, op, mask, lenient=not _refers(region)) as runs:
                if runs:
                    outcomes.append(self.follow(region, dict(env)))
        env.update(zip(op.results, _merge(outcomes), strict=True))

    def run_specialize(self, op: IrOperation, env: dict[str, Any]) -> None:
        """``ttg.warp_specialize``: its regions, one after the other."""
        for i, region in enumerate(op.regions):
            given = zip(region.entry.arguments, map(env.get, op.operands), strict=True)
            values = self.follow(region, env | dict(given) if i else env)
            if i == 0:
                env.update(zip(op.results, values, strict=True))

    def run_while(self, op: IrOperation, env: dict[str, Any]) -> None:
        """``scf.while``."""
        self.refuse(op, "a loop that ends by a condition")

    def run_call(self, op: IrOperation, env: dict[str, Any]) -> None:
        """``tt.call``."""
        callee = self.functions[find_callee(op)]
        returns = any(result in self.needed for result in op.results)
        values = self.call(callee, [env.get(x) for x in op.operands], returns)
        env.update(zip(op.results, values, strict=True))

    # Values.

    def calculate(self, op: IrOperation, env: dict[str, Any]) -> Any:
        """An operation without effects."""
        values = [env.get(x) for x in op.operands]
        if op.name in MEANINGS:
            return MEANINGS[op.name](self, op, *values)
        return Unknown(f"{op.name}")

    # References.

    def refer_by_pointer(self, op: IrOperation, env: dict[str, Any]) -> None:
        """``tt.load``, ``tt.store``, atomic operations and copies into shared memory."""
        place, *masks = map(env.get, steering_operands(op))
        if not isinstance(place, TensorPointer):
            self.refuse(op, f"an address: {describe_value(place)}")
        mask = masks[0] if masks else Conditions()
        env.update(dict.fromkeys(op.results, Unknown(f"data of {place.argument}")))
        self.refer(op, place.argument, mask, tile_shape(op.types[0]))

    def refer_by_descriptor(self, op: IrOperation, env: dict[str, Any]) -> None:
        """An operation of `iosim.kernel.slicing.BOXES`."""
        name, places, conditions = box_operands(op)
        block, *starts = map(env.get, (name, *places))
        if not isinstance(block, TensorBlock):
            self.refuse(op, f"a descriptor: {describe_value(block)}")
        mask: Any = env.get(conditions[0]) if conditions else Conditions()
        for i, (start, length) in enumerate(zip(starts, block.shape, strict=True)):
            lane = linear.add(start, LinearTile((LinearSum.of(0),), "", ((i, 1),)))
            for one in (
                linear.is_at_least(lane, linear.number(0)),
                linear.is_at_least(length, lane, 1),
            ):
                mask = (
                    mask
                    if isinstance(mask, Unknown)
                    else one
                    if isinstance(one, Unknown)
                    else mask.join(one)
                )
        env.update(dict.fromkeys(op.results, Unknown(f"data of {block.argument}")))
        self.refer(op, block.argument, mask, block.tile)

    def refer_by_rows(self, op: IrOperation, env: dict[str, Any]) -> None:
        """``tt.descriptor_gather``, ``_scatter`` and the like."""
        self.refuse(op, "rows that data name")

    def refer(self, op: IrOperation, argument: str, mask: Any, tile: tuple[int, ...]) -> None:
        """Add a reference: the lanes that a mask leaves, after its conditions on whole tiles."""
        if isinstance(mask, (Unknown, type(None))):
            self.refuse(op, f"a mask: {describe_value(mask)}")
        if mask.never or self.silent:
            return
        whole = Conditions(tuple(x for x in mask.every if not x.lanes))
        lanes = [x for x in mask.every if x.lanes]
        with _Guard(self, op, whole) as runs:
            if not runs:
                return
            index = []
            for axis, length in enumerate(tile):
                index.append(
                    self.find_lanes(op, [x for x in lanes if x.lanes[0][0] == axis], length)
                )
            kind = BOXES.get(op.name, "load" if op.name in LOADS else "store")
            atomic = "atomic" in op.name or kind == "atomic"
            name, buffer = f"{argument} atomic" if atomic else argument, f"t{len(self.references)}"
            self.check_loops(op, index)
            node = Load if kind == "load" else Store
            self.references.append((tuple(self.path), node(buffer, name, tuple(index))))

    def check_loops(self, op: IrOperation, index: Sequence[Index]) -> None:
        """Refuse what depends on a loop that isn't open: programs that take tiles in turn."""
        known = {x.tile for x in (ONE, *self.path)}
        spans = [x for x in index if isinstance(x, Span)] + [x.span for x in self.path]
        if any(edge.tile not in known for span in spans for edge in span.edges):
            self.refuse(op, "depends on which program takes a tile")

    def find_lanes(self, op: IrOperation, conditions: list[Condition], length: int) -> Index:
        """The lanes along an axis of a tile that conditions leave."""
        lows: list[LinearSum] = []
        highs: list[LinearSum] = []
        for one in conditions:
            if len(one.lanes) > 1:
                self.refuse(op, "a mask that compares two axes of a tile")
            ((_, c),) = one.lanes
            edge = self.divide(op, one.value, abs(c))
            if c > 0 and not edge.never_negative:
                lows.append(-edge)
            if c < 0 and not (edge + LinearSum.of(1 - length)).never_negative:
                highs.append(edge + LinearSum.of(1))
        low = _outermost(lows, 1)
        high = _outermost(highs, -1)
        if low is None or high is None:
            self.refuse(op, "a mask with several ends along one axis")
        if not lows and not highs:
            return Span(str(length), Affine(), Affine.of(str(length)))
        if not lows and (tile := self.match_tile(high[0], length)) is not None:
            return tile
        start = self.to_affine(op, low[0]) if low else Affine()
        stop = self.to_affine(op, high[0]) if high else Affine(length)
        return _movable(Span(str(length), start, stop))

    def divide(self, op: IrOperation, value: LinearSum, c: int) -> LinearSum:
        """⌊value/c⌋, where that is a sum."""
        if c == 1:
            return value
        found = linear.floor_divide(LinearTile((value,)), c, self.sizes)
        if not isinstance(found, LinearTile) or found.base is None:
            self.refuse(op, f"a mask at every {c}th lane")
        return found.base

    def match_tile(self, high: LinearSum, length: int) -> Tile | None:
        """The tile of an open loop whose lanes end where its axis does."""
        for loop in self.path:
            tile = loop.tile
            left = LinearSum.of(tile.axis) - LinearSum.of(tile.start)
            if high == left and loop.step == str(length) and self.is_full(loop):
                return tile
        return None

    def is_full(self, loop: Loop) -> bool:
        """Whether tiles of a loop end early only at the end of their axis."""
        if loop.span.is_entire_axis:
            return True
        steps = {
            x.tile: math.gcd(int(x.step or 1), x.span.start.const)
            for x in self.path
            if (x.step or "1").isdigit() and not x.span.start.terms
        }
        length = loop.span.stop - loop.span.start
        parts = [
            length.const,
            *(
                c * steps.get(n.tile, 1)
                for n, c in length.terms
                if isinstance(n, Edge) and n.end == "start"
            ),
        ]
        others = [n for n, _ in length.terms if not isinstance(n, Edge) or n.end != "start"]
        return not others and math.gcd(*parts) % int(loop.step or 1) == 0


class _Guard:
    """Conditions on whole tiles, as loops of at most one iteration."""

    def __init__(self, closing: Closing, op: IrOperation, mask: Any, lenient: bool = False) -> None:
        self.closing, self.op, self.mask, self.lenient = closing, op, mask, lenient
        self.opened = 0

    def __enter__(self) -> bool:
        if not isinstance(self.mask, Conditions):
            if self.lenient:
                return True
            self.closing.refuse(self.op, f"a condition: {describe_value(self.mask)}")
        if self.mask.never:
            return False
        for i, one in enumerate(self.mask.every):
            stop = self.closing.to_affine(self.op, one.value) + 1
            var = f"if{len(self.closing.path)}{i}"
            span = _movable(Span("1", Affine(), stop))
            self.closing.path.append(Loop(Tile(var, "1", True), span, None, False, ()))
            self.opened += 1
        return True

    def __exit__(self, *_: object) -> None:
        del self.closing.path[len(self.closing.path) - self.opened :]


def _movable(span: Span) -> Span:
    """A span that is cut at its axis, which only those are that name a loop."""
    return span if span.edges else replace(span, stop=span.stop + ONE.tile.start)


def _outermost(ends: list[LinearSum], sign: int) -> tuple[LinearSum, ...] | None:
    """The end that is inside of all others; () for none, None where it isn't known."""
    kept: list[LinearSum] = []
    for x in dict.fromkeys(ends):
        if not any((y - x).times(sign).never_negative for y in kept):
            kept = [y for y in kept if not (x - y).times(sign).never_negative] + [x]
    return None if len(kept) > 1 else tuple(kept)


def _merge(outcomes: list[list[Any]]) -> list[Any]:
    """What each of several branches gives, where they agree."""
    return [
        found[0]
        if all(x == found[0] for x in found)
        else Unknown("a value that a condition chooses")
        for found in zip(*outcomes, strict=True)
    ]


def _move_on(value: Any, step: Any, count: LinearSum | None) -> Any:
    """A carried value, so many iterations later."""
    if step == 0:
        return value
    if isinstance(step, int) and count is not None:
        return linear.add(value, LinearTile((count.times(step),)))
    return step if isinstance(step, Unknown) else Unknown("a value that a loop carries")


def _move(before: Any, after: Any) -> Any:
    """How far one iteration moves a carried value: a number, or Unknown."""
    if before == after:
        return 0
    moved = linear.add(after, linear.scale(before, -1))
    if isinstance(moved, LinearTile) and moved.number is not None:
        return moved.number
    return Unknown("a value that a loop carries")


def _refers(region: IrRegion) -> bool:
    """Whether anything in a region refers to memory."""
    return any(
        op.name in EFFECTS and (not op.regions or any(map(_refers, op.regions)))
        for block in region.blocks
        for op in block.operations
    )


# What finds a tile by its number; a comparison may hold at the small sizes of an order only.
COUNTING = {f"arith.{x}i" for x in ("add", "sub", "mul", "divs", "divu", "rems", "remu", "mins")}

LOADS = {"tt.load", "ttg.async_copy_global_to_local"}
# Operations that refer to memory or run regions.
EFFECTS: dict[str, Callable[..., None]] = {
    "scf.for": Closing.run_for,
    "scf.if": Closing.run_if,
    "scf.while": Closing.run_while,
    "tt.call": Closing.run_call,
    "ttg.warp_specialize": Closing.run_specialize,
    "tt.load": Closing.refer_by_pointer,
    "ttg.async_copy_global_to_local": Closing.refer_by_pointer,
    "tt.store": Closing.refer_by_pointer,
    "tt.atomic_rmw": Closing.refer_by_pointer,
    "tt.atomic_cas": Closing.refer_by_pointer,
    **dict.fromkeys(BOXES, Closing.refer_by_descriptor),
    "tt.descriptor_gather": Closing.refer_by_rows,
    "tt.descriptor_scatter": Closing.refer_by_rows,
    "ttng.async_tma_gather": Closing.refer_by_rows,
    "ttng.async_tma_scatter": Closing.refer_by_rows,
}


@dataclass(frozen=True)
class ClosedKernel:
    """A kernel as a program, whose axes are its integer arguments, and numbers by their digits.

    Attributes:
        program: its words are those of the kernel.
        sizes: names of the program that follow from the arguments.
        learned: whether an order of its tiles is taken from small sizes.
    """

    program: Program
    sizes: NamedSizes
    learned: bool = False


def close_kernel(functions: Mapping[str, IrFunction], launch: KernelCall) -> ClosedKernel:
    """A kernel as a program.

    Args:
        functions: of the kernel's TTIR, by name.
        launch: whose sizes stay names; constants and arguments that are 1 are numbers.

    Raises:
        NoClosedForm: a mask, a bound or the grid is no such formula.
    """
    refusals = []
    for learn in (False, True):
        for points in (False, True):
            scales: dict[int, str] = {}
            for _ in range(2):
                found = dict(scales)
                try:
                    return _close(functions, launch, (points, learn), scales)
                except NoClosedForm as error:
                    refusals.append(error)
                if scales == found:
                    break
    raise refusals[0]


def _close(
    functions: Mapping[str, IrFunction],
    launch: KernelCall,
    how: tuple[bool, bool],
    scales: dict[int, str],
) -> ClosedKernel:
    """One try.

    Args:
        how: whether tiles are counted, and not followed to where they lie; whether their order is
            learned.
        scales: axis of the grid → length of its programs' tiles; what is found is added.
    """
    points, learn = how
    sizes = NamedSizes()
    text = launch.grid_text or ", ".join(map(str, launch.grid))
    try:
        axes = read_factors(text, launch.constants, sizes)
        axes += [[]] * (3 - len(axes))
        opened = [
            open_scaled(x, f[0], scales[i], sizes)
            if i in scales and len(f) == 1
            else open_axis(x, f, sizes, points)
            for i, (x, f) in enumerate(zip(AXES, axes, strict=True))
        ]
    except ValueError as error:
        raise NoClosedForm(f"the grid {text}: {error} is no product of sizes and cdiv") from None
    needed = find_all_needed(functions)
    kernel = next(f for f in functions.values() if f.public)
    arguments = _arguments(kernel, launch)
    names = frozenset(str(x.base) for x in arguments if isinstance(x, LinearTile))
    closing = Closing(sizes, tuple(opened), [], names, scales, functions, needed, points)
    if learn:
        closing.find = lambda lengths: find_order(functions, launch, lengths, sizes)
    closing.ids = [closing.take_order(axis) for axis in opened]
    closing.path = [loop for axis in reversed(opened) for loop in axis.loops]
    closing.call(kernel, arguments)
    return ClosedKernel(
        build_program(launch.source.name, closing.references, sizes.made), sizes, learn
    )


def _arguments(kernel: IrFunction, launch: KernelCall) -> list[Any]:
    """The values of a kernel's arguments, as the compiler passes them."""
    values: list[Any] = []
    for name in launch.to_evaluate().names:
        type_ = kernel.types[len(values)]
        if name in launch.descriptors:
            shape, strides = launch.descriptors[name]
            rest = [linear.number(int(x)) for x in (*shape, *strides)]
            if "ptr<" not in type_:
                values += [TensorBlock(name, tuple(rest[: len(shape)]), tile_shape(type_)), *rest]
            else:
                after = kernel.types[len(values) + 1 + len(rest) :]
                switches = [Conditions(never=True) for _ in takewhile("i1".__eq__, after)]
                values += [TensorPointer(name), *rest, *switches, *rest]
        elif "ptr<" in type_:
            values.append(TensorPointer(name))
        elif type_ == "i1":
            values.append(Conditions(never=not launch.values.get(name)))
        elif type_.startswith("i"):
            values.append(LinearTile((LinearSum.of(name),)))
        else:
            values.append(Unknown(f"the number {name}"))
    return values
