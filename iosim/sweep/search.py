"""Optimal tiles of many points at once, where one tile decides the count.

Many schedules move words that depend on a single tile (FlashAttention's B_c, FlashAttention-2's
B_r), and the larger it is, the fewer.  Then the optimum of `iosim.optimal_tiles` needs no search:
bisect that tile for the last one that fits, all points in step, and then the others, on which the
count doesn't depend.  The tests hold the result against `optimal_tiles`, tile by tile.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from iosim.program.closed import close
from iosim.program.evaluate import peak_many
from iosim.program.ir import Loop, Program, nodes

Ints = NDArray[np.int64]


@functools.lru_cache(maxsize=64)
def decisive(program: Program, given: frozenset[str] = frozenset()) -> str | None:
    """The only tile that counts depend on, or None where there are several or a hold is open.

    Args:
        given: tiles whose values are fixed.
    """
    free = [p for p in program.params if p.name not in given]
    closed = close(program)
    used = set().union(*(poly.names() for poly in closed.counts.values()))
    mine = [p.name for p in free if p.name in used]
    return mine[0] if len(mine) == 1 and all(p.least == 1 for p in free) else None


def tiles_many(
    program: Program, columns: Mapping[str, Ints], M: Ints
) -> tuple[dict[str, Ints], NDArray[np.bool_]]:
    """The tiles of `optimal_tiles` at many points.

    Args:
        program: one with a `decisive` tile.
        columns: sizes, and the tiles that are given; arrays of one length.
        M: words of fast memory.

    Returns:
        All tiles, clipped to their axis, and where there are any.
    """
    params = {p.name: p for p in program.params}
    first = decisive(program, frozenset(k for k in columns if k in params))
    assert first is not None
    held = set().union(*(level.words.names() for level in close(program).peak))
    loops = [x for x in nodes(program.body) if isinstance(x, Loop)]
    # On a whole axis only the least tile for each number of trips is worth its words.
    snaps = {k: all(x.span.whole for x in loops if x.step == k) for k in params}
    env = {k: np.asarray(v) for k, v in columns.items()}
    env |= {k: np.ones_like(M) for k in params if k not in env}
    found = peak_many(program, env) <= M
    for name in [first, *(k for k in params if k not in columns and k != first)]:
        if name not in held:
            continue
        axis = env[params[name].axis]
        low, high = np.ones_like(M), axis.copy()
        while np.any(low < high):
            middle = (low + high + 1) // 2
            fits = peak_many(program, env | {name: middle}) <= M
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        env[name] = -(-axis // -(-axis // low)) if snaps[name] else low
    return {k: np.minimum(env[k], env[params[k].axis]) for k in params}, found
