"""How tensors lie in the GPU's memory, and which 32-byte sectors a transfer touches.

The model counts words; the hardware counts sectors.  The two agree to the byte when every row of
a tile starts on a sector and fills whole ones, so rows are padded to `PAD` words.  A ragged edge
then leaves at most the last sector of a row partly used, and `sector_bytes` gives the bytes of
whole sectors: the same fold over the program as the count of words, with ⌈bytes / 32⌉ in place of
the last axis's extent.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, assert_never

from iosim.core.counts import Key
from iosim.core.problem import Tensor, word_bytes
from iosim.core.program.index import At, Index, Number, Plain, Span, Tile, Within, dims, unstacked
from iosim.core.program.ir import Alloc, Free, Load, Loop, Node, Op, Store
from iosim.core.program.space import Env, Range, inside, named_tiles, resolved, running, step
from iosim.core.program.walk import Instance

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
    read and write.  A vector that does not start on a sector moves in requests of 32 words, two of
    which ask for the sector that the border between them cuts; so does a row of a tile, in programs
    with spans that follow a tile (`iosim.gpu.emitter.offset`).
    """
    total: dict[Key, int] = {}
    alike: dict[Any, int] = {}  # the sectors of transfers of equal parts in equal loops
    for node, outer in _transfers(instance.program.body[nests], ()):
        word = word_bytes(dtype, instance.program.tensor(node.tensor).wide)
        same = word, node.index, tuple((x.tile, x.span, x.step, x.marks) for x in outer)
        if same not in alike:
            alike[same] = _transfer(instance, word, node.index, outer)
        total[_key(node)] = total.get(_key(node), 0) + alike[same] * SECTOR
    return total


def _transfers(
    body: tuple[Node, ...], outer: tuple[Loop, ...]
) -> Iterator[tuple[Load | Store, tuple[Loop, ...]]]:
    for node in body:
        match node:
            case Loop():
                yield from _transfers(node.body, (*outer, node))
            case Load() | Store():
                yield node, outer
            case Alloc() | Free() | Op():
                pass
            case _:
                assert_never(node)


def _key(node: Load | Store) -> Key:
    return ("load" if isinstance(node, Load) else "store", node.tensor)


def _transfer(
    instance: Instance, word: int, full: tuple[Index, ...], outer: tuple[Loop, ...]
) -> int:
    index = unstacked(full)
    spans = [*(loop.span for loop in outer), *(x for x in index if isinstance(x, Span))]
    named = {edge.tile for span in spans for edge in span.edges}
    by_word = len(dims(full)) == 1 or bool(named_tiles(instance.program))
    access = _Access(word, by_word)
    named |= {x for loop in outer if loop.marks for x in (loop.tile, loop.marks.rows)}
    runs = functools.partial(running, program=instance.program, marked=dict(instance.masks))
    return _over(outer, named, runs, index, access, instance.env)


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
        for outer, loop in _marked((body,), ())
    )


def _marked(
    body: tuple[Node, ...], outer: tuple[Loop, ...]
) -> Iterator[tuple[tuple[Loop, ...], Loop]]:
    for node in body:
        if isinstance(node, Loop):
            if node.marks is not None:
                yield outer, node
            yield from _marked(node.body, (*outer, node))


def iterations(instance: Instance, loops: tuple[Loop, ...]) -> int:
    """How often the innermost of loops inside each other runs in all."""
    named = {edge.tile for loop in loops for edge in loop.span.edges}
    runs = functools.partial(running, program=instance.program, marked=dict(instance.masks))
    access = _Access(1, False)
    return _over(loops, named, runs, (Number(loops[-1].tile, ""),), access, instance.env)


def _over(
    loops: tuple[Loop, ...],
    named: set[Tile],
    runs: Callable[[Loop, Env], Iterator[Range]],
    index: tuple[Plain, ...],
    access: _Access,
    env: Env,
) -> int:
    """Sectors of a transfer inside loops; only those whose tiles are named go tile by tile.

    Args:
        named: tiles that a span names or that number the rows and columns of a block mask.
        runs: the tiles of a loop that run.
    """
    if not loops:
        n = 1
        for x in index:
            match x:
                case Span():
                    span = resolved(x, env)
                    n *= _run(span, access) if x is index[-1] else span[1] - span[0]
                case Tile() | Number() | Within() | At():
                    pass  # its loop was taken, and a position is one
                case _:
                    assert_never(x)
        return n
    loop, *rest = loops
    inner, last = tuple(rest), index[-1]
    if loop.tile in named:
        return sum(
            _of_tile(loop.tile, at, index, access)
            * _over(inner, named, runs, index, access, inside(env, loop.tile, at))
            for at in runs(loop, env)
        )
    (start, stop), by = resolved(loop.span, env), step(loop, env)
    if stop <= start:
        return 0
    if loop.tile == last:
        n = _runs(start, stop, by, access)
    elif isinstance(last, Within) and loop.tile == last.tile:
        full, short = divmod(stop - start, by)
        n = full * _run((0, by), access) + _run((0, short), access)
    elif loop.tile in dims(index[:-1]):
        n = stop - start
    else:
        n = -(-(stop - start) // by)
    return n * _over(inner, named, runs, index, access, env)


def _of_tile(tile: Tile, at: Range, index: tuple[Plain, ...], access: _Access) -> int:
    """What one tile contributes to the sectors of a transfer."""
    *rows, last = index
    if tile == last:
        return _run(at, access)
    if isinstance(last, Within) and tile == last.tile:
        return _run((0, at[1] - at[0]), access)
    return at[1] - at[0] if tile in dims(tuple(rows)) else 1


def _run(run: Range, access: _Access) -> int:
    start, stop = (x * access.word for x in run)
    if stop <= start:
        return 0
    requests = -(-(run[1] - run[0]) // REQUEST) if access.by_word and start % SECTOR else 1
    return -(-stop // SECTOR) - start // SECTOR + requests - 1


def _runs(start: int, stop: int, step: int, access: _Access) -> int:
    """Sectors of all the tiles of a loop, each a run of its own."""
    whole = (stop - start) // step
    # After so many tiles, they start at the same place within a sector again.
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
