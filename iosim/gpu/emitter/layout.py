"""How tensors lie in the GPU's memory, and which 32-byte sectors a transfer touches.

The model counts words; the hardware counts sectors.  The two agree to the byte when every row of
a tile starts on a sector and fills whole ones, so rows are padded to `PAD` words.  A ragged edge
then leaves at most the last sector of a row partly used, and `sector_bytes` gives the bytes of
whole sectors: the same fold over the program as the count of words, with ⌈bytes / 32⌉ in place of
the last axis's extent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, assert_never

from iosim.base.dtypes import word_bytes
from iosim.core.counts import Key
from iosim.core.problem import Tensor
from iosim.core.program.index import At, Index, Number, Plain, Span, Tile, Within, dims, unstacked
from iosim.core.program.ir import Load, Loop, Store
from iosim.core.program.space import Env, Range, inside, named_tiles, resolved, running, step
from iosim.core.program.walk import Instance
from iosim.gpu.emitter.nests import walk_with_loops

SECTOR = 32  # bytes, the unit in which an NVIDIA GPU moves data between the SM and L2
REQUEST = 32  # words that one request asks for: one by each thread of a warp
PAD = 16  # words: a whole sector of the narrowest type that is emitted, fp16


@dataclass(frozen=True, slots=True)
class _Access:
    """What a transfer moves.

    Attributes:
        word: bytes of a word.
        by_word: whether it moves word by word where it doesn't start on a sector.
    """

    word: int
    by_word: bool


def padded(extent: int) -> int:
    """`extent` rounded up to a multiple of `PAD`."""
    return -(-extent // PAD) * PAD


def shape(tensor: Tensor, instance: Instance) -> tuple[int, ...]:
    """Extents of a tensor, without padding."""
    return tuple(instance.env[axis] for axis in tensor.axes)


def strides(tensor: Tensor, instance: Instance) -> tuple[int, ...]:
    """Words between neighbors along every axis: row-major, rows padded."""
    found = [1]
    width = padded(instance.env[tensor.axes[-1]])
    for axis in reversed(tensor.axes[:-1]):
        found.append(width)
        width *= instance.env[axis]
    return tuple(reversed(found))


def allocation(tensor: Tensor, instance: Instance) -> int:
    """Words that the tensor takes in memory, padding included."""
    return strides(tensor, instance)[0] * max(
        instance.env[tensor.axes[0]], PAD if len(tensor.axes) == 1 else 1
    )


def sector_bytes(instance: Instance, dtype: str) -> dict[Key, int]:
    """Bytes of all the sectors that the transfers of a program touch.

    Each row of each tile is a run of its own, counted once per transfer: exact where a run starts
    on a sector and one warp asks for each of its sectors once, which is how the emitted kernels
    read and write.  A vector that does not start on a sector moves in requests of 32 words, two of
    which ask for the sector that the border between them cuts; so does a row of a tile, in programs
    with spans that follow a tile (`iosim.gpu.emitter.offset`).
    """
    total: dict[Key, int] = {}
    alike: dict[Any, int] = {}  # the sectors of transfers of equal parts in equal loops
    for node, outer in walk_with_loops(instance.program.body):
        if not isinstance(node, (Load, Store)):
            continue
        word = word_bytes(dtype, instance.program.tensor(node.tensor).wide)
        same = word, node.index, tuple((x.tile, x.span, x.step, x.marks) for x in outer)
        sectors = alike.get(same)
        if sectors is None:
            alike[same] = sectors = _transfer(instance, word, node.index, outer)
        key = key_of(node)
        total[key] = total.get(key, 0) + sectors * SECTOR
    return total


def key_of(node: Load | Store) -> Key:
    """The direction and the tensor of a transfer."""
    return ("load" if isinstance(node, Load) else "store", node.tensor)


def _transfer(
    instance: Instance, word: int, full: tuple[Index, ...], outer: tuple[Loop, ...]
) -> int:
    """Sectors of a transfer of words of this many bytes."""
    *rows, last = index = unstacked(full)
    by_row = dims(tuple(rows))
    access = _Access(word, len(dims(full)) == 1 or bool(named_tiles(instance.program)))

    def of_tile(tile: Tile, at: Range) -> int:
        if tile == last:
            return _run(at, access)
        if isinstance(last, Within) and tile == last.tile:
            return _run((0, at[1] - at[0]), access)
        return at[1] - at[0] if tile in by_row else 1

    def of_loop(tile: Tile, start: int, stop: int, by: int) -> int:
        if tile == last:
            return _runs(start, stop, by, access)
        if isinstance(last, Within) and tile == last.tile:
            full, short = divmod(stop - start, by)
            return full * _run((0, by), access) + _run((0, short), access)
        return stop - start if tile in by_row else -(-(stop - start) // by)

    def of_spans(env: Env) -> int:
        n = 1
        for x in index:
            match x:
                case Span():
                    span = resolved(x, env)
                    n *= _run(span, access) if x is last else span[1] - span[0]
                case Tile() | Number() | Within() | At():
                    pass  # its loop was taken, and a position is one
                case _:
                    assert_never(x)
        return n

    return fold_loops(instance, outer, index, of_tile, of_loop, of_spans)


def fold_loops(
    instance: Instance,
    loops: tuple[Loop, ...],
    index: tuple[Plain, ...],
    of_tile: Callable[[Tile, Range], int],
    of_loop: Callable[[Tile, int, int, int], int],
    of_spans: Callable[[Env], int] = lambda env: 1,
) -> int:
    """The sum, over iterations of loops inside each other, of products of what each tile gives.

    Only loops whose tiles a span names, or a block mask, go tile by tile.

    Args:
        index: what is moved inside, whose spans may name tiles.
        of_tile: what a tile at a place gives.
        of_loop: the sum over the tiles of a loop, from its start, stop and step.
        of_spans: what else the innermost place gives.
    """
    spans = [*(loop.span for loop in loops), *(x for x in index if isinstance(x, Span))]
    named = {edge.tile for span in spans for edge in span.edges}
    named |= {x for loop in loops if loop.marks for x in (loop.tile, loop.marks.rows)}
    marked = dict(instance.masks)

    def total(loops: tuple[Loop, ...], env: Env) -> int:
        if not loops:
            return of_spans(env)
        loop, inner = loops[0], loops[1:]
        if loop.tile in named:
            return sum(
                of_tile(loop.tile, at) * total(inner, inside(env, loop.tile, at))
                for at in running(loop, env, program=instance.program, marked=marked)
            )
        start, stop = resolved(loop.span, env)
        if stop <= start:
            return 0
        return of_loop(loop.tile, start, stop, step(loop, env)) * total(inner, env)

    return total(loops, instance.env)


def mask_bytes(instance: Instance, warps: Iterable[int]) -> int:
    """Bytes of sectors that kernels read of block masks: in each iteration that a mask may leave
    out, each warp reads one.

    Args:
        warps: of the kernel of each top-level node, in turn.
    """
    if not instance.masks:
        return 0
    bodies = (node for node in instance.program.body if isinstance(node, Loop))
    return SECTOR * sum(
        n * iterations(instance, (*outer, replace(loop, marks=None)))
        for body, n in zip(bodies, warps, strict=True)
        for loop, outer in walk_with_loops((body,))
        if isinstance(loop, Loop) and loop.marks is not None
    )


def iterations(instance: Instance, loops: tuple[Loop, ...]) -> int:
    """How often the innermost of loops inside each other runs in all, block masks left aside."""
    return fold_loops(
        instance,
        tuple(replace(loop, marks=None) for loop in loops),
        (),
        lambda tile, at: 1,
        lambda tile, start, stop, by: -(-(stop - start) // by),
    )


def _run(run: Range, access: _Access) -> int:
    start, stop = (x * access.word for x in run)
    if stop <= start:
        return 0
    requests = -(-(run[1] - run[0]) // REQUEST) if access.by_word and start % SECTOR else 1
    return -(-stop // SECTOR) - start // SECTOR + requests - 1


def _runs(start: int, stop: int, step: int, access: _Access) -> int:
    """Sectors of all the tiles of a loop, each a run of its own."""
    whole = (stop - start) // step
    # After this many tiles, they start at the same place within a sector again.
    period = SECTOR // math.gcd(step * access.word, SECTOR)
    places = range(start, start + min(whole, period) * step, step)
    once = [_run((at, at + step), access) for at in places]
    full, rest = divmod(whole, period)
    last = _run((start + whole * step, stop), access)
    return full * sum(once) + sum(once[:rest]) + last


def ranges(instance: Instance, loop: Loop) -> Iterator[Range]:
    """The concrete tile of every iteration of a loop."""
    start, stop = instance.span(loop.span)
    step = 1 if loop.step is None else instance.env[loop.step]
    for at in range(start, stop, step):
        yield at, min(at + step, stop)
