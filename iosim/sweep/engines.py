"""How the engines of `iosim.engines` count a shard: point by point, or many points at once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from iosim.algorithms import Algorithm, algorithm
from iosim.counting.numbers import peak_many
from iosim.counts import Key
from iosim.engines import engine
from iosim.program.walk import bind
from iosim.tiling.rules import rule_of

Ints = NDArray[np.int64]
Counted = tuple[dict[Key, Ints], Ints, NDArray[np.float64]]


# Points in a shard: where arrays count, where they choose tiles as well, where tiles are chosen
# point by point, and where every point may take seconds.  Shards are large enough that what each
# costs besides is small: `benchmarks/test_sweep.py` measures it.
ROWS_MANY, ROWS_CHOSEN, ROWS_ASKED, ROWS_ONE = 2**16, 2**13, 2**8, 16


def rows_per_shard(engine_name: str, name: str, tiles: str) -> int:
    """How many points are worth a shard."""
    if engine(engine_name).many is None:
        return ROWS_ONE
    entry = algorithm(name)
    if "=" in tiles:
        given = all(f"{p.name}=" in tiles for p in entry.program.params)
        return ROWS_MANY if given else ROWS_CHOSEN
    rule = rule_of(entry, tiles)
    if rule.exceeds:
        return ROWS_MANY  # a published formula costs nothing
    return ROWS_CHOSEN if rule.many else ROWS_ASKED


def count_columns(
    name: str, engine_name: str, sizes: Sequence[str], columns: Mapping[str, Ints], M: Ints
) -> Counted:
    """Count every row.

    Args:
        sizes: names of the problem's sizes.
        columns: sizes and tiles, arrays of one length.
        M: words of fast memory; a row whose tiles don't fit is counted all the same.

    Returns:
        ``{(direction, tensor): words}``, peaks in words, and seconds, each an array of that length.
    """
    entry = algorithm(name)
    many = engine(engine_name).many
    start = time.perf_counter()
    if many is None:
        return _one_by_one(entry, engine_name, sizes, columns, M)
    counts, peaks = many(entry.program, columns)
    share = (time.perf_counter() - start) / max(1, len(M))
    return counts, peaks, np.full(len(M), share)


def _one_by_one(
    entry: Algorithm, engine_name: str, sizes: Sequence[str], columns: Mapping[str, Ints], M: Ints
) -> Counted:
    run = engine(engine_name).one
    program = entry.program
    keys = program.keys()
    counts = {key: np.zeros(len(M), np.int64) for key in keys}
    peaks, seconds = np.zeros(len(M), np.int64), np.zeros(len(M))
    tiles = [p.name for p in program.params]
    # What a row's own tiles hold: a simulation gets that much where it is more than M.
    need = peak_many(program, columns) if len(M) else peaks
    for k in range(len(M)):
        problem = entry.problem(**{x: int(columns[x][k]) for x in sizes})
        instance = bind(program, problem.sizes, {x: int(columns[x][k]) for x in tiles})
        start = time.perf_counter()
        found, peaks[k] = run(instance, problem, max(int(M[k]), int(need[k])))
        seconds[k] = time.perf_counter() - start
        for key, words in found:
            counts[key][k] = words
    return counts, peaks, seconds
