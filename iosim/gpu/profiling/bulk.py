"""Bytes of transfers as boxes: what bulk copies (TMA) count, and kernels that load whole tiles.

The counters of bulk copies see whole boxes of a load, those parts included that lie beyond the
tensor and are filled with zeros, and one sector more for each row in range whose edge cuts a
sector.  Stores see the sectors that they write.

`expected` and `known_kernels` call it.  ``tests/gpu/test_profile_expected.py`` compares with a
walk, and with counters of an H200.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, assert_never

from iosim.base.dtypes import word_bytes
from iosim.core.counts import Key
from iosim.core.program.index import At, Number, Plain, Span, Tile, Within, unstacked
from iosim.core.program.ir import Load, Loop
from iosim.core.program.space import Env, Range, resolved, step
from iosim.core.program.walk import Instance
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.layout import SECTOR
from iosim.gpu.emitter.nests import walk_with_loops

_NO_TILES: Mapping[str, int] = MappingProxyType({})
BOX = 8  # words of the innermost side of a box are a multiple of 16 bytes


def box_bytes(
    instance: Instance, dtype: str, tiles: Mapping[str, int] = _NO_TILES
) -> dict[Key, int]:
    """Bytes of the boxes that the loads of a program ask for, by direction and tensor.

    Args:
        tiles: the kernel's own, where they are larger than the instance's, which end with an axis.

    >>> import iosim
    >>> flash2 = iosim.algorithm("flash2").program
    >>> sizes, tiles = {"N": 4000, "d": 64, "heads": 4}, {"B_r": 128, "B_c": 128}
    >>> found = box_bytes(iosim.bind(flash2, sizes, tiles), "fp16")
    >>> found["load", "Q"] == 4 * 32 * 128 * 64 * 2
    True
    """
    total: dict[Key, int] = {}
    env = {**instance.env, **tiles}
    for node, outer in walk_with_loops(instance.program.body):
        if not isinstance(node, Load):
            continue
        tensor = instance.program.tensor(node.tensor)
        word = word_bytes(dtype, tensor.wide)
        loops = {loop.tile: loop for loop in outer}
        *rows, last = (_side(x, loops, env) for x in unstacked(node.index))
        box = word * -(-last // BOX) * BOX
        for side in rows:
            box *= side
        times = layout.iterations(instance, outer)
        key: Key = ("load", node.tensor)
        total[key] = total.get(key, 0) + times * box
        if instance.env[tensor.axes[-1]] * word % SECTOR:
            cut = _rows(instance, node, outer) * SECTOR
            total[key] += cut
    return total


def whole_bytes(
    instance: Instance, dtype: str, axes: frozenset[str], tiles: Mapping[str, int] = _NO_TILES
) -> dict[Key, int]:
    """Bytes of the loads of a program whose tiles are whole along some axes, masked along others.

    Args:
        tiles: as of `box_bytes`.

    >>> import iosim
    >>> matmul = iosim.algorithm("matmul").program
    >>> sizes, tiles = {"m": 65, "n": 64, "k": 40}, {"B_m": 64, "B_n": 64, "B_k": 32}
    >>> found = whole_bytes(iosim.bind(matmul, sizes, tiles), "fp16", frozenset("mn"))
    >>> found["load", "A"] == 2 * 64 * 40 * 2, found["load", "B"] == 2 * 40 * 64 * 2
    (True, True)
    """
    total: dict[Key, int] = {}
    env = {**instance.env, **tiles}
    for node, outer in walk_with_loops(instance.program.body):
        if not isinstance(node, Load):
            continue
        loops = {loop.tile: loop for loop in outer}
        index = [x for x in unstacked(node.index) if isinstance(x, (Tile, Span))]
        word = word_bytes(dtype, instance.program.tensor(node.tensor).wide)

        def words(tile: Tile, at: Range, index: Any = index, loops: Any = loops) -> int:
            if tile not in index:
                return 1
            return step(loops[tile], env) if tile.axis in axes else at[1] - at[0]

        own = word * _sum(instance, node, outer, words)
        for x in index:
            own *= 1 if isinstance(x, Tile) else _side(x, loops, instance.env)
        key: Key = ("load", node.tensor)
        total[key] = total.get(key, 0) + own
    return total


def _side(x: Plain, loops: dict[Tile, Loop], env: Env) -> int:
    """Of a box along an index: a whole tile, also where the axis ends within it."""
    match x:
        case Span():
            start, stop = resolved(x, env)
            return stop - start
        case Tile():
            return step(loops[x], env)
        case Within(tile):
            return step(loops[tile], env)
        case Number() | At():
            return 1
        case _:
            assert_never(x)


def _rows(instance: Instance, node: Load, outer: tuple[Loop, ...]) -> int:
    """Rows in range of all its boxes."""
    *rows, _ = unstacked(node.index)
    spans = [x for x in rows if isinstance(x, Span)]
    whole = 1
    for x in spans:
        start, stop = resolved(x, instance.env)
        whole *= stop - start
    tiles = {x for x in rows if isinstance(x, Tile)}
    return whole * _sum(instance, node, outer, lambda x, at: at[1] - at[0] if x in tiles else 1)


def _sum(
    instance: Instance, node: Load, outer: tuple[Loop, ...], weight: Callable[[Tile, Range], int]
) -> int:
    """The sum of products of weights over the iterations of all loops around a load."""

    def of_loop(tile: Tile, start: int, stop: int, by: int) -> int:
        full, short = divmod(stop - start, by)
        found = full * weight(tile, (start, start + by)) if full else 0
        return found + (weight(tile, (start, start + short)) if short else 0)

    return layout.fold_loops(instance, outer, unstacked(node.index), weight, of_loop)
