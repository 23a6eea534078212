"""How the engines of `iosim.core.engines` count a shard: point by point, or many points at once.

`grid` asks it for the size of a shard, and `work` counts with it.  An engine itself goes to
`iosim.core.engines`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from iosim.base.arrays import Floats, Ints
from iosim.core.algorithms import algorithm
from iosim.core.counting.numbers import peak_many
from iosim.core.counts import Key
from iosim.core.engines import CountOne, engine
from iosim.core.problem import Family
from iosim.core.program.ir import Program
from iosim.core.program.walk import bind
from iosim.core.tiling.rules import rule_of

Counted = tuple[dict[Key, Ints], Ints, Floats]


# Points in a shard: where arrays count, where they choose tiles as well, where tiles are chosen
# point by point, and where every point may take seconds.  Shards are large enough that what each
# costs besides is small: `benchmarks/test_sweep.py` measures it.
ROWS_MANY, ROWS_CHOSEN, ROWS_ASKED, ROWS_ONE = 2**16, 2**13, 2**8, 16


def rows_per_shard(engine_name: str, name: str, program: Program, tiles: str) -> int:
    """How many points are worth a shard."""
    if engine(engine_name).many is None:
        return ROWS_ONE
    if "=" in tiles:
        given = all(f"{p.name}=" in tiles for p in program.params)
        return ROWS_MANY if given else ROWS_CHOSEN
    rule = rule_of(algorithm(name), tiles)
    if rule.exceeds:
        return ROWS_MANY  # a published formula costs nothing
    return ROWS_CHOSEN if rule.many else ROWS_ASKED


def count_columns(
    name: str, engine_name: str, family: Family, columns: Mapping[str, Ints], M: Ints
) -> Counted:
    """Count every row.

    Args:
        family: the problems.
        columns: sizes of the family and tiles, arrays of one length.
        M: words of fast memory; a row whose tiles don't fit is counted all the same.

    Returns:
        ``{(direction, tensor): words}``, peaks in words, and seconds, each an array of that length.
    """
    program = algorithm(name).program_for(family.form)
    tiles = {p.name: columns[p.name] for p in program.params}
    run = engine(engine_name)
    start = time.perf_counter()
    if run.many is None:
        return _one_by_one(program, run.one, family, columns, tiles, M)
    counts, peaks = run.many(program, {**family.extents(columns), **tiles})
    share = (time.perf_counter() - start) / max(1, len(M))
    return counts, peaks, np.full(len(M), share)


def _one_by_one(
    program: Program,
    run: CountOne,
    family: Family,
    columns: Mapping[str, Ints],
    tiles: Mapping[str, Ints],
    M: Ints,
) -> Counted:
    keys = program.keys()
    counts = {key: np.zeros(len(M), np.int64) for key in keys}
    peaks, seconds = np.zeros(len(M), np.int64), np.zeros(len(M))
    # What a row's own tiles hold: a simulation gets that much where it is more than M.
    need = peak_many(program, {**family.extents(columns), **tiles}) if len(M) else peaks
    for k in range(len(M)):
        sizes = {x: int(columns[x][k]) for x in family.names}
        chosen = {x: int(values[k]) for x, values in tiles.items()}
        instance = bind(program, family.extents(sizes), chosen)
        start = time.perf_counter()
        found, peaks[k] = run(instance, family.at(sizes), max(int(M[k]), int(need[k])))
        seconds[k] = time.perf_counter() - start
        for key, words in found:
            counts[key][k] = words
    return counts, peaks, seconds
