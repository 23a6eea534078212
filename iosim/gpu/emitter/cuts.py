"""Buffers of which a loop uses one part after the other: a kernel keeps each part as a block.

Triton cannot cut a block value, so that a buffer o that is used as ``o[x]`` under ``for x in d by
B_d`` becomes the blocks o_0, o_1, … , one for each iteration of x, and that loop is unrolled.
`iosim.gpu.emitter.nest` asks `parts` which loop cuts which buffer, and then, of each operation's
template, `lines` which lines are repeated for the parts; `order` and `offset` ask `cuts` and
`cut_index`.  Which templates may be repeated is free to grow; every loop that cuts a buffer must
cut it alike and cover it, since a part's number is that of the iteration.

Of Q and O, 8 columns wide, 4 at a time, there are two blocks each:

>>> import iosim
>>> sizes, tiles = {"N": 8, "d": 8, "heads": 1}, {"B_r": 4, "B_c": 4, "B_d": 4}
>>> instance = iosim.bind(iosim.algorithm("flash2_chunked").program, sizes, tiles)
>>> cut = parts(instance, instance.program.body)
>>> {buffer: list(ranges(instance, loop)) for buffer, loop in sorted(cut.items())}
{'o': [(0, 4), (4, 8)], 'q': [(0, 4), (4, 8)]}

A line that changes o alone is repeated for each block of it:

>>> from iosim.core.program.ops import OPS
>>> list(lines(OPS["finish"], {"o"}, set()))
[('{o} = {o} / {l}[:, None]', {'o'})]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from iosim.core.program.index import Index, Span, Tile, cut_from
from iosim.core.program.ir import Alloc, Load, Loop, Node, Op, Ref, nodes
from iosim.core.program.ops import OpSpec
from iosim.core.program.space import cases
from iosim.core.program.walk import Instance
from iosim.gpu.emitter.blocks import Blocks
from iosim.gpu.emitter.layout import ranges
from iosim.gpu.emitter.nests import walk_with_loops
from iosim.gpu.errors import EmitError

Nodes = tuple[Node, ...]
MOST_PARTS = 2**12  # blocks of one buffer, each with lines of its own in the text


def parts(instance: Instance, body: Nodes) -> dict[str, Loop]:
    """Buffer → the loop that cuts it.

    Raises EmitError unless the loop covers the buffer, and every loop that cuts it cuts it alike.
    """
    spans = {
        n.buffer: n.index for top in body for n in nodes((top,)) if isinstance(n, (Load, Alloc))
    }
    found: dict[str, Loop] = {}
    for op, outer in walk_with_loops(body):
        for ref in op.operands if isinstance(op, Op) else ():
            if ref.part is None:
                continue
            base = spans[ref.buffer][cut_from(spans[ref.buffer], ref.part)]
            loop = _fixed(instance, ref, {loop.tile: loop for loop in outer}, base)
            if (trips := Blocks(instance).where.trips(loop)) > MOST_PARTS:
                raise EmitError(
                    f"{ref} makes {trips} blocks of {ref.buffer} and a kernel takes at most "
                    f"{MOST_PARTS}: choose a larger {loop.step}"
                )
            cut = list(ranges(instance, loop))
            whole = isinstance(base, Span) and (cut[0][0], cut[-1][1]) == instance.span(base)
            before = found.setdefault(ref.buffer, loop)
            if not whole or list(ranges(instance, before)) != cut:
                raise EmitError(
                    f"{ref}: on a GPU the loop {ref.part} must cut all of {ref.buffer}, and every "
                    f"such loop alike; change {loop.step}"
                )
    return found


def _fixed(instance: Instance, ref: Ref, loops: dict[Tile, Loop], base: Index) -> Loop:
    """The loop that a part comes from; one that follows an outer tile goes on to the buffer's end.

    Raises EmitError unless such a loop always starts where the buffer does.
    """
    assert ref.part is not None
    loop = loops[ref.part]
    if not loop.span.edges:
        return loop
    found = {at for at in cases(loop.span, loops, instance.env) if at[0] < at[1]}
    fixed = isinstance(base, Span) and not base.edges
    start, stop = instance.span(base) if isinstance(base, Span) and fixed else (0, 0)
    if not fixed or any(first != start or last > stop for first, last in found):
        raise EmitError(
            f"{ref}: loop {ref.part} follows an outer tile and does not always start where "
            f"{ref.buffer} does, so its parts are not known before the kernel runs: cut by a loop "
            "with fixed bounds"
        )
    assert isinstance(base, Span)
    return replace(loop, span=base)


def cuts(loop: Loop) -> bool:
    """Whether an operation in the loop takes the part of a buffer that its tile covers."""
    ops = (n for n in nodes(loop.body) if isinstance(n, Op))
    return any(ref.part == loop.tile for op in ops for ref in op.operands)


def cut_index(index: tuple[Index, ...], loop: Loop) -> tuple[Index, ...]:
    """The index of one part: the loop's tile in place of the span that it cuts."""
    return tuple(loop.tile if x.axis == loop.tile.axis else x for x in index)


def lines(spec: OpSpec, cut: set[str], empty: set[str]) -> Iterator[tuple[str, set[str]]]:
    """The lines of a template, each with the cut operands that it must be repeated for.

    A line may be repeated only if it changes the cut operand itself, element by element.  A line
    that computes an empty operand is left out, and so is one that computes an intermediate value
    from an empty operand.

    Args:
        cut, empty: names of operands that are held in parts, and that have no words.

    Raises EmitError for any other use of either.
    """
    assert spec.triton is not None
    lost = set(empty)  # and the intermediate values that are left out
    for line in spec.triton.splitlines():
        goal, value = line.split(" = ", 1) if " = " in line else ("", line)
        target = goal.strip("{}")
        if target in empty:
            continue
        if missing := set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", value)) & lost:
            if not goal.startswith("_"):
                raise EmitError(
                    f"{spec.says!r} computes {target} from {', '.join(sorted(missing))}, and "
                    f"{', '.join(sorted(empty))} is empty: choose a larger stationary part"
                )
            lost.add(target)
            continue
        split = set(re.findall(r"\{(\w+)", line)) & cut
        if split and (target not in split or "tl.dot" in line):
            raise EmitError(
                f"{spec.says!r} needs all of {', '.join(sorted(split))} at once, which is held in "
                "parts: take one part"
            )
        yield line, split
