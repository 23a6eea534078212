"""What a worker does: one shard of a sweep, from its number to a typed table.

Columns: what was requested (hash, algorithm, program, engine, policy, version, revision, sizes,
options, M_words, tiles), what was used (tile_*), what came out (feasible, *_words by direction and
tensor, peak_words), the largest proven lower bound, its class, the gap to it, and time_s.  Only
time_s differs between two runs.  Tiles that are given are counted whether they fit into M or not;
the gap is null where they don't, since no bound speaks of more memory than M.

Where the policy is a cache's, words are those that a fully associative cache of M words loads, and
writes back or flushes, for the references of the schedule with the same tiles; nothing tells them
by tensor.  Bounds hold as they do for the schedule, since an operation's operands fit where the
tiles do.  Words that were stored are null where LRU's closed form gave the loads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.arrays import Floats, Ints
from iosim.base.rows import Row, Values
from iosim.bounds import best_lower_bound_many
from iosim.core.algorithms import algorithm
from iosim.core.counting.numbers import peak_many
from iosim.core.counts import Key
from iosim.core.tiling.rules import choose_many
from iosim.sweep.caches import EXPLICIT, moved
from iosim.sweep.engines import count_columns
from iosim.sweep.grid import Block, Shard, Sweep, point_tiles
from iosim.sweep.need import pyarrow
from iosim.sweep.task import hashes, head_text

Columns = dict[str, Ints]
Lower = tuple[Floats, list[str]]


@dataclass(frozen=True)
class Done:
    """A shard that was counted.

    Attributes:
        points: of the grid.
        rows: of the table; fewer than points where infeasible ones are left out.
        seconds: that it took.
        table: the rows, an Arrow table; None where they are on disk already.
    """

    points: int
    rows: int
    seconds: float
    table: Any


def compute(sweep: Sweep, number: int) -> Done:
    """Count every point of a shard.

    Raises InputError where counts pass 2**62, and what the engine raises.
    """
    start = time.perf_counter()
    shard = sweep.shard(number)
    table = _table(sweep, shard)
    return Done(shard.points, table.num_rows, time.perf_counter() - start, table)


def schema(sweep: Sweep) -> Any:
    """The columns of all shards of a sweep, as an Arrow schema."""
    pa = pyarrow()
    word, text = pa.int64(), pa.dictionary(pa.int32(), pa.string())
    blocks = sweep.blocks()
    programs = [b.program for b in blocks]
    shared = [
        (x, pa.bool_() if isinstance(value, bool) else text)
        for x, value in {k: v for b in blocks for k, v in b.family.fixed.items()}.items()
    ]
    sizes = dict.fromkeys(x for b in blocks for x in b.sizes)
    tiles = dict.fromkeys(p.name for program in programs for p in program.params)
    moved = sorted(set().union(*(program.keys() for program in programs)))
    return pa.schema(
        [
            ("hash", pa.string()),
            ("algorithm", text),
            ("program", text),
            ("engine", text),
            ("policy", text),
            ("version", text),
            ("revision", word),
            *((x, word) for x in sizes),
            *shared,
            ("M_words", word),
            ("tiles", pa.string()),
            *((f"tile_{x}", word) for x in tiles),
            ("feasible", pa.bool_()),
            ("load_words", word),
            ("store_words", word),
            ("total_words", word),
            ("peak_words", word),
            *((f"{way}_{tensor}_words", word) for way, tensor in moved),
            ("lower_bound_class", text),
            ("lower_bound", text),
            ("lower_bound_words", pa.float64()),
            ("gap", pa.float64()),
            ("time_s", pa.float64()),
        ]
    )


def _table(sweep: Sweep, shard: Shard) -> Any:
    pa = pyarrow()
    block = shard.block
    columns = block.columns(shard.start, shard.stop)
    M = columns.pop("M")
    used, found, searching = choose_many(
        algorithm(block.name), sweep.tiles, block.family, columns, M
    )
    sizes = {x: columns[x] for x in block.sizes}
    # Rows without tiles are left out of the count and get nulls.
    rows = np.flatnonzero(found)
    some = {name: values[rows] for name, values in (sizes | used).items()}
    told = np.ones(len(rows), bool)
    counts: dict[Key, Ints] = {}
    if block.policy == EXPLICIT:
        counts, peaks, seconds = count_columns(
            block.name, sweep.engine, block.family, some, M[rows]
        )
        load: Any = sum((v for (way, _), v in counts.items() if way == "load"), np.int64(0))
        store: Any = sum((v for (way, _), v in counts.items() if way == "store"), np.int64(0))
    else:
        peaks = _peaks(block, some)
        cached = moved(block.program, block.policy, block.family, some, M[rows])
        load, store, told, seconds = cached.load, cached.store, cached.known, cached.seconds
    whole = found.copy()
    whole[rows] = told
    feasible = np.zeros(len(M), bool)
    feasible[rows] = peaks <= M[rows]
    keep = np.flatnonzero(feasible) if sweep.feasible else np.arange(len(M))

    def spread(values: Any, dtype: Any = np.int64, there: Any = found) -> Any:
        """A column of the rows that were counted, as one of all rows that are kept."""
        full = np.zeros(len(M), dtype)
        full[rows] = values
        return pa.array(full[keep], mask=~there[keep])

    bound_words, bound_names = _bounds(block, sizes, M)
    total = load + store
    gap = np.zeros(len(M))
    gap[rows] = total / bound_words[rows]
    tiles = list(point_tiles(sweep, block, columns, len(M)))
    head = head_text(block.hash, block.engine, block.policy, sweep.version, sweep.revision)
    points = zip(*(v.tolist() for v in sizes.values()), M.tolist(), tiles, strict=True)
    given: Row = {
        "hash": pa.array(hashes(head, sizes, points)).take(pa.array(keep)),
        "algorithm": block.name,
        "program": block.hash,
        "engine": block.engine,
        "policy": block.policy,
        "version": sweep.version,
        "revision": pa.array(np.full(len(keep), sweep.revision)),
        **{x: pa.array(v[keep]) for x, v in sizes.items()},
        **{
            x: v if isinstance(v, str) else pa.array(np.full(len(keep), v))
            for x, v in block.family.fixed.items()
        },
        "M_words": pa.array(M[keep]),
        "tiles": pa.array(tiles).take(pa.array(keep)),
        **{f"tile_{x}": spread(v[rows]) for x, v in used.items()},
        "feasible": pa.array(feasible[keep]),
        "load_words": spread(load),
        "store_words": spread(store, there=whole),
        "total_words": spread(total, there=whole),
        "peak_words": spread(peaks),
        **{f"{way}_{tensor}_words": spread(v) for (way, tensor), v in counts.items()},
        "lower_bound_class": algorithm(block.name).classes[0],
        "lower_bound": pa.array(bound_names).take(pa.array(keep)),
        "lower_bound_words": pa.array(bound_words[keep]),
        "gap": pa.array(gap[keep], mask=~(feasible & whole)[keep]),
        "time_s": spread(seconds + searching[rows], np.float64),
    }
    return _fill_schema(schema(sweep), given, len(keep))


def _fill_schema(fields: Any, given: Values, rows: int) -> Any:
    """A table of all fields: columns, texts that all rows share, and nulls for the others."""
    pa = pyarrow()
    arrays = []
    for field in fields:
        value = given.get(field.name)
        if value is None:
            value = pa.nulls(rows, field.type)
        elif isinstance(value, str):
            value = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [value])
        elif value.type != field.type:
            value = value.cast(field.type) if len(value) else pa.nulls(0, field.type)
        arrays.append(value)
    return pa.Table.from_arrays(arrays, schema=fields)


def _peaks(block: Block, columns: Columns) -> Ints:
    """What the tiles of each row hold."""
    tiles = {p.name: columns[p.name] for p in block.program.params}
    return peak_many(block.program, {**block.family.extents(columns), **tiles})


def _bounds(block: Block, sizes: Mapping[str, Ints], M: Ints) -> Lower:
    """The largest exact lower bound at each row, of the schedule's first class.

    Rows that differ in tiles only share it.
    """
    table = np.stack([*sizes.values(), M], axis=1)
    fresh = np.ones(len(M), bool)
    fresh[1:] = np.any(table[1:] != table[:-1], axis=1)
    at = np.cumsum(fresh) - 1
    few = block.family.extents({x: v[fresh] for x, v in sizes.items()})
    klass = algorithm(block.name).classes[0]
    words, names = best_lower_bound_many(block.family.form, few, M[fresh], klass)
    return words[at], [names[k] for k in at]
