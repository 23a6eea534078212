"""How tensors lie in the GPU's memory, and which 32-byte sectors a transfer touches.

The model counts words; the hardware counts sectors.  The two agree to the byte when every row of
a tile starts on a sector and fills whole ones, so rows are padded to `PAD` words.  A ragged edge
then leaves at most the last sector of a row partly used, and `sector_bytes` gives the bytes of
whole sectors: the same fold over the program as the count of words, with ⌈bytes / 32⌉ in place of
the last axis's extent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from iosim.counts import Key
from iosim.problem import Tensor, word_bytes
from iosim.program.ir import (
    Alloc,
    At,
    Free,
    Load,
    Loop,
    Node,
    Number,
    Op,
    Span,
    Store,
    Tile,
    Within,
    dims,
    unstacked,
)
from iosim.program.space import Range, named_tiles
from iosim.program.walk import Instance, walk

SECTOR = 32  # bytes, the unit in which an NVIDIA GPU moves data between the SM and L2
PAD = 16  # words: a whole sector of the narrowest type that is emitted, fp16


def padded(extent: int) -> int:
    """`extent` rounded up to a multiple of `PAD`."""
    return -(-extent // PAD) * PAD


def shape(tensor: Tensor, instance: Instance) -> tuple[int, ...]:
    """Extents of a tensor, without padding."""
    return tuple(instance.env[axis] for axis in tensor.axes)


def strides(tensor: Tensor, instance: Instance) -> tuple[int, ...]:
    """Words between neighbours along every axis: row-major, rows padded."""
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


def sector_bytes(instance: Instance, dtype: str, nests: slice = slice(None)) -> dict[Key, int]:
    """Bytes of all the sectors that the transfers of top-level nodes `nests` touch.

    Each row of each tile is a run of its own, counted once per transfer: exact where a run starts
    on a sector and one warp asks for each of its sectors once, which is how the emitted kernels
    read and write.
    """
    total: dict[Key, int] = {}
    if named_tiles(instance.program):
        return _walked_sectors(instance, dtype, nests)
    for key, sectors in _sectors(instance, dtype, instance.program.body[nests], ()):
        total[key] = total.get(key, 0) + sectors * SECTOR
    return total


def _walked_sectors(instance: Instance, dtype: str, nests: slice) -> dict[Key, int]:
    """`sector_bytes` transfer by transfer, where loops follow outer tiles."""
    program = replace(instance.program, body=instance.program.body[nests])
    total: dict[Key, int] = {}
    for t in walk(Instance(program, instance.values)):
        word = word_bytes(dtype, program.tensor(t.tensor).wide)
        *rows, last = t.ranges
        sectors = math.prod(stop - start for start, stop in rows) * _run(last, word)
        key = (t.direction, t.tensor)
        total[key] = total.get(key, 0) + sectors * SECTOR
    return total


def _sectors(
    instance: Instance, dtype: str, body: tuple[Node, ...], outer: tuple[Loop, ...]
) -> Iterator[tuple[Key, int]]:
    for node in body:
        match node:
            case Loop():
                yield from _sectors(instance, dtype, node.body, (*outer, node))
            case Load() | Store():
                yield _key(node), _transfer(instance, dtype, node, outer)
            case Alloc() | Free() | Op():
                pass
            case _:
                assert_never(node)


def _key(node: Load | Store) -> Key:
    return ("load" if isinstance(node, Load) else "store", node.tensor)


def _transfer(instance: Instance, dtype: str, node: Load | Store, outer: tuple[Loop, ...]) -> int:
    tensor = instance.program.tensor(node.tensor)
    word = word_bytes(dtype, tensor.wide)
    *rows, last = index = unstacked(node.index)
    n = 1
    for loop in outer:
        start, stop = instance.span(loop.span)
        step = 1 if loop.step is None else instance.env[loop.step]
        if loop.tile == last:
            n *= _runs(start, stop, step, word)
        elif isinstance(last, Within) and loop.tile == last.tile:
            full, rest = divmod(stop - start, step)
            n *= full * _run((0, step), word) + _run((0, rest), word)
        elif loop.tile in dims(tuple(rows)):
            n *= stop - start
        else:
            n *= -(-(stop - start) // step)
    for x in index:
        match x:
            case Span():
                span = instance.span(x)
                n *= _run(span, word) if x is last else span[1] - span[0]
            case Tile() | Number() | Within() | At():
                pass  # its loop was taken above, and a position is one
            case _:
                assert_never(x)
    return n


def _run(run: Range, word: int) -> int:
    start, stop = run[0] * word, run[1] * word
    return -(-stop // SECTOR) - start // SECTOR if stop > start else 0


def _runs(start: int, stop: int, step: int, word: int) -> int:
    """Sectors of all the tiles of a loop, each a run of its own."""
    whole = (stop - start) // step
    # After so many tiles, they start at the same place within a sector again.
    period = SECTOR // math.gcd(step * word, SECTOR)
    places = range(start, start + min(whole, period) * step, step)
    once = [_run((at, at + step), word) for at in places]
    full, rest = divmod(whole, period)
    last = _run((start + whole * step, stop), word)
    return full * sum(once) + sum(once[:rest]) + last


def ranges(instance: Instance, loop: Loop) -> Iterator[Range]:
    """The concrete tile of every iteration of a loop."""
    start, stop = instance.span(loop.span)
    step = 1 if loop.step is None else instance.env[loop.step]
    for at in range(start, stop, step):
        yield at, min(at + step, stop)
