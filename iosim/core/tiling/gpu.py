"""Tiles that a GPU can hold: powers of two, stationary parts whole or empty, sums in registers."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from iosim.base.errors import CapacityError
from iosim.core.program.index import Index, Span, Tile, unstacked
from iosim.core.program.ir import Alloc, Body, Free, Load, Loop, Node, Op, Param, Program, nodes
from iosim.core.program.ops import OPS
from iosim.core.program.space import Env, resolved
from iosim.core.program.walk import Instance, bind
from iosim.core.tiling import Tiling, optimal_tiles

# 32-bit registers of a streaming multiprocessor: CUDA C++ Programming Guide, Technical
# Specifications per Compute Capability, the same for all since 3.0.
REGISTERS = 65_536
LEAST_SIDE = 16  # of a block that matrix units take


def gpu_tiles(program: Program, problem: Any, M: int) -> Tiling:
    """The tiles of powers of two (16 or more) that move the fewest words within M words.

    A stationary part whose blocks are known only when the kernel runs stays empty.
    A tile that is an operand is never taken in blocks.
    A buffer that is used block by block becomes that many blocks, in an unrolled loop; of the
    tilings that move the fewest words, one whose stationary parts are single blocks is preferred.
    A buffer that a loop adds to is in registers through the loop, as a block whose sides are powers
    of two: it has fewer elements than an SM has registers.

    Raises CapacityError, with the smallest M that works, if nothing fits, and where no tiles keep
    such a buffer in registers.
    """
    found = _fewest_words(program, problem, M, {})
    for group, own in _independent_nests(program):
        instance = bind(program, problem.sizes, found.tiles)
        if next(_oversized_sums(instance, group), None) is None:
            continue
        others = {name: value for name, value in found.tiles.items() if name not in own}
        found = _within_registers(program, problem, M, group, others)
    return found


def _within_registers(
    program: Program, problem: Any, M: int, group: Body, others: Mapping[str, int]
) -> Tiling:
    """The best tiles of some nests whose sums stay in registers; those of other nests are given."""
    best, queue = None, [dict(others)]
    while queue:
        fixed = queue.pop()
        try:
            found = _fewest_words(program, problem, M, fixed)
        except CapacityError:
            continue
        if best is not None and found.total_words >= best.total_words:
            continue  # with more tiles given it moves no fewer words
        instance = bind(program, problem.sizes, found.tiles)
        over = next(_oversized_sums(instance, group), None)
        if over is None:
            best = found
        else:
            queue += _choices_in_registers(instance, *over, fixed)
    if best is None:
        raise CapacityError(
            f"{program.name} has no tiles of powers of two whose sums stay in the {REGISTERS:,} "
            "registers of an SM: choose smaller sizes"
        )
    return best


def _independent_nests(program: Program) -> list[tuple[Body, set[str]]]:
    """Top-level nodes with their parameters, those with a parameter in common together.

    Words of the groups add up, and the peak is the largest of theirs, so that each group's best
    tiles are best whatever the others' are.
    """
    if any(isinstance(node, (Load, Alloc)) for node in program.body):
        return [(program.body, {p.name for p in program.params})]  # buffers outlive the nests
    groups = list[tuple[Body, set[str]]]()
    for node in program.body:
        names = _params_of(program, node)
        joined = [one for one in groups if one[1] & names]
        groups = [one for one in groups if one not in joined]
        body = (*itertools.chain.from_iterable(body for body, _ in joined), node)
        groups.append((body, names.union(*(own for _, own in joined))))
    return groups


def _params_of(program: Program, node: Node) -> set[str]:
    """Parameters that a nest names: steps of loops, and stationary parts in their spans."""
    names = set[str | None]()
    for loop in (n for n in nodes((node,)) if isinstance(n, Loop)):
        ends = (loop.span.start, loop.span.stop, *(loop.span.within or ()))
        names |= {loop.step, *(name for end in ends for name, _ in end.terms)}
    return {p.name for p in program.params if p.name in names}


def _fewest_words(program: Program, problem: Any, M: int, given: Mapping[str, int]) -> Tiling:
    """The best tiles with some of them given; each stationary part is whole or empty."""
    empty = dict.fromkeys(_never_held(program), 0)
    empty |= {x: problem.sizes[axis] for x, axis in _over_tiles(program)}
    empty |= given
    try:
        best = optimal_tiles(program, problem, M, lattice="pow2", fixed=empty)
    except CapacityError as error:
        raise CapacityError(f"{error}; a GPU tile has sides of at least {LEAST_SIDE}") from None
    parts = [p for p in program.params if p.least == 0 and p.name not in empty]
    for whole in itertools.product((False, True), repeat=len(parts)) if parts else ():
        fixed = dict(empty)
        for part, full in zip(parts, whole, strict=True):
            fixed[part.name] = problem.sizes[part.axis] if full else 0
            if full:
                sizes = dict.fromkeys(_over(program, part), problem.sizes[part.axis])
                fixed |= sizes | {x: given[x] for x in sizes if x in given}
        with contextlib.suppress(CapacityError):
            found = optimal_tiles(program, problem, M, lattice="pow2", fixed=fixed)
            if found.total_words <= best.total_words:
                best = found
    return best


def _oversized_sums(instance: Instance, body: Body) -> Iterator[tuple[Alloc, _Loops]]:
    """Buffers that a loop of a body adds to, and whose blocks take all registers of an SM.

    Each comes with the loops around it.  A loop of one iteration adds once, and needs no register
    before it.
    """

    def visit(
        body: Body, outer: Mapping[str, Alloc], loops: _Loops
    ) -> Iterator[tuple[Alloc, _Loops]]:
        here = dict[str, Alloc]()
        for node in body:
            if isinstance(node, Alloc):
                here[node.buffer] = node
            elif isinstance(node, Free):
                here.pop(node.buffer, None)
            elif isinstance(node, Op):
                written = (node.operands[at].buffer for at in OPS[node.name].writes)
                yield from (
                    (outer[x], loops)
                    for x in written
                    if x in outer and _block_size(outer[x], loops, instance.env) >= REGISTERS
                )
            elif isinstance(node, Loop):
                inside = {**loops, node.tile: node}
                kept = {**outer, **here} if _repeats(node, instance.env) else outer
                yield from visit(node.body, kept, inside)

    yield from visit(body, {}, {})


_Loops = Mapping[Tile, Loop]


def _repeats(loop: Loop, env: Env) -> bool:
    """Whether a loop inside a kernel may have several iterations; ends that follow a tile may."""
    step = 1 if loop.step is None else env[loop.step]
    return not loop.parallel and (bool(loop.span.edges) or step < _length(loop.span, env))


def _block_size(buffer: Alloc, loops: _Loops, env: Env) -> int:
    """Elements of a buffer's block, whose sides are powers of two."""
    return math.prod(_block_side(x, loops, env) for x in buffer.index)


def _block_side(x: Index, loops: _Loops, env: Env) -> int:
    positions = 1
    for part in unstacked((x,)):
        if isinstance(part, Span):
            positions *= _length(part, env)
        elif isinstance(part, Tile) and not part.point:
            loop = loops[part]
            step = 1 if loop.step is None else env[loop.step]
            positions *= min(step, _length(loop.span, env))
    return max(LEAST_SIDE, 1 << max(0, positions - 1).bit_length()) if positions else 0


def _length(span: Span, env: Env) -> int:
    """Positions of a span; at most, where it follows a tile."""
    if span.edges:
        return env[span.axis]
    start, stop = resolved(span, env)
    return max(0, stop - start)


def _choices_in_registers(
    instance: Instance, buffer: Alloc, loops: _Loops, fixed: Mapping[str, int]
) -> list[dict[str, int]]:
    """All tiles of an oversized buffer with which it stays in registers."""
    steps = (loops[x].step for x in unstacked(buffer.index) if isinstance(x, Tile))
    names = [x for x in dict.fromkeys(steps) if x is not None and x not in fixed]
    axis = {p.name: p.axis for p in instance.program.params}
    found = []
    for values in itertools.product(*(_powers(instance.env[axis[x]]) for x in names)):
        chosen = dict(zip(names, values, strict=True))
        if _block_size(buffer, loops, {**instance.env, **chosen}) < REGISTERS:
            found.append({**fixed, **chosen})
    return found if names else []


def _powers(extent: int) -> Iterator[int]:
    """Powers of two from the least side to the first that covers an axis."""
    side = LEAST_SIDE
    yield side
    while side < extent:
        side *= 2
        yield side


def _never_held(program: Program) -> set[str]:
    """Holds whose parts are cut by a loop that follows another tile: no block is cut so."""
    cut = {ref.part for op in program.nodes if isinstance(op, Op) for ref in op.operands}
    found = {
        name
        for loop in program.nodes
        if isinstance(loop, Loop) and loop.span.edges and loop.span.within and loop.tile in cut
        for name, _ in loop.span.within[1].terms
    }
    return {p.name for p in program.params if p.least == 0 and p.name in found}


def _over_tiles(program: Program) -> set[tuple[str, str]]:
    """The steps of loops over an outer tile, and their axes: a block value cannot be cut."""
    loops = (n for n in program.nodes if isinstance(n, Loop))
    return {(x.step, x.tile.axis) for x in loops if x.tile.of is not None and x.step is not None}


def _over(program: Program, hold: Param) -> list[str]:
    """The steps of the loops that run over the held part of the axis."""
    return [
        loop.step
        for loop in program.nodes
        if isinstance(loop, Loop)
        and loop.step is not None
        and loop.span.axis == hold.axis
        and any(name == hold.name for name, _ in loop.span.stop.terms)
    ]
