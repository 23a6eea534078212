"""What DRAM has to deliver, with L2 as the second cache: three predictions.

*Footprint*: L2 catches every re-read, so each kernel reads what it touches once.  It holds while
the data that is swept again and again fits in L2.

*Wave*: programs that are resident at once (a wave) sweep the same tiles in step, so a tile comes
from DRAM once per wave however many of them want it, and nothing survives until the next wave.
This is the N²d²/M law with M the rows that are resident on the whole chip.  It fails when programs
drift apart by more than L2 holds; a schedule does not determine by how much they will.

*Drift*: the sweeps as they ran.  Every item notes when it started and ended; between the
two it is taken to move evenly, and an L2 that evicts the least recently used piece is run over
the merged sequence.  The chip's L2 has two halves, and what SMs on both sides read is kept in
both; so its capacity for swept data is between a half (every piece wanted on both sides) and all
of it (each on one side), which brackets the reads.  It needs the clock readings of a run, so it
predicts nothing, but it tells whether drift alone explains what was read.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from iosim.counts import Counts, Direction
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.blocks import Blocks
from iosim.gpu.emitter.kernels import EmitError
from iosim.gpu.emitter.nests import Body, chain, nests, touched
from iosim.gpu.run.job import Job
from iosim.problem import word_bytes
from iosim.program.index import At, Number, Span, Tile, Within, dims, unstacked
from iosim.program.ir import Alloc, Free, Load, Loop, Op, Store, nodes
from iosim.program.space import named_tiles
from iosim.program.walk import Instance
from iosim.units import bytes_of

# Programs in step all want the same piece, so it is kept in both halves of L2 (measured:
# experiments/data/gpu, where 33.6 MB swept in step by all SMs do not fit in 60 MiB).
L2_SHARE = 0.5


def _fixed_loops(instance: Instance) -> None:
    """Raise EmitError unless all items of a nest sweep the same, which these models are about."""
    program = instance.program
    index = [x for n in nodes(program.body) if isinstance(n, (Load, Store)) for x in n.index]
    why = ""
    if named_tiles(program):
        why = "a loop or a buffer follows an outer tile"
    elif instance.masks:
        why = "a block mask skips tiles"
    elif any(isinstance(x, (Number, Within, At)) for x in index):
        why = "a tensor is indexed by a tile's number or by a position that is read"
    if why:
        raise EmitError(
            f"the models of DRAM reads don't know {program.name}, where {why}: use a schedule of "
            "dense attention"
        )


def footprint_bytes(instance: Instance, dtype: str) -> dict[Direction, int]:
    """Bytes that must be read and written if every kernel moves what it touches once.

    Raises EmitError, as all models here, where loops follow outer tiles or a table is read: what
    is touched differs from item to item there.
    """
    _fixed_loops(instance)
    program, words = instance.program, Counts()
    for body in nests(instance):
        ways: tuple[tuple[Direction, set[str]], ...] = (
            ("load", touched(body, Load)), ("store", touched(body, Store))
        )  # fmt: skip
        for way, names in ways:
            sizes = {x: math.prod(layout.shape(program.tensor(x), instance)) for x in names}
            words += Counts.of({(way, name): n for name, n in sizes.items()})
    found = bytes_of(words, program.tensors, dtype)
    both: tuple[Direction, Direction] = ("load", "store")
    return {way: sum(n for (w, _), n in found.items() if w == way) for way in both}


def wave_bytes(job: Job, resident: int) -> int:
    """DRAM reads if `resident` programs at a time sweep in step and waves share nothing.

    In every wave each load moves, once, what is distinct among the wave's items.
    """
    instance = job.instance
    _fixed_loops(instance)
    total = 0
    for body in nests(instance):
        grid, inside = chain(body)
        trips = [Blocks(instance).where.trips(loop) for loop in grid]
        items = math.prod(trips)
        for load, outer in _loads(inside, ()):
            tensor = instance.program.tensor(load.tensor)
            own = [k for k, loop in enumerate(grid) if loop.tile in unstacked(load.index)]
            extents = _extents(instance, grid, own, items)
            words = _inner_words(instance, load, outer)
            for first in range(0, items, resident):
                pieces = extents[first : first + resident]
                _, at = np.unique(pieces[:, 0], return_index=True)
                total += int(pieces[at, 1].sum()) * words * word_bytes(job.dtype, tensor.wide)
    return total


def _loads(body: Body, outer: tuple[Loop, ...]) -> Iterator[tuple[Load, tuple[Loop, ...]]]:
    for node in body:
        match node:
            case Load():
                yield node, outer
            case Loop():
                yield from _loads(node.body, (*outer, node))
            case Store() | Alloc() | Free() | Op():
                pass
            case _:
                assert_never(node)


def _extents(
    instance: Instance, grid: tuple[Loop, ...], own: list[int], items: int
) -> NDArray[np.int64]:
    """Per item: which piece it loads (a number), and the piece's extent along the launch tiles."""
    which, extent = np.zeros(items, np.int64), np.ones(items, np.int64)
    below, places = items, Blocks(instance).where
    for k, loop in enumerate(grid):
        trips, step = places.trips(loop), places.step(loop)
        below //= trips
        if k not in own:
            continue
        at = np.arange(items) // below % trips
        start, stop = instance.span(loop.span)
        which = which * trips + at
        extent *= np.minimum(step, stop - start - at * step)
    return np.stack([which, extent], axis=1)


def _inner_words(instance: Instance, load: Load, outer: tuple[Loop, ...]) -> int:
    """Words that one item loads per position of its launch tiles."""
    words, places = 1, Blocks(instance).where
    for loop in outer:
        start, stop = instance.span(loop.span)
        words *= stop - start if loop.tile in unstacked(dims(load.index)) else places.trips(loop)
    for x in unstacked(load.index):
        match x:
            case Span():
                start, stop = instance.span(x)
                words *= stop - start
            case Tile() | Number() | Within() | At():
                pass  # its loop was taken above, or is one of the launch
            case _:
                assert_never(x)
    return words


def swept_bytes(job: Job) -> int:
    """Bytes that every item of a head sweeps: the loads that no launch tile but points index."""
    instance = job.instance
    _fixed_loops(instance)
    (body,) = nests(instance)
    grid, inside = chain(body)
    total = 0
    for load, outer in _loads(inside, ()):
        if not any(loop.tile in unstacked(load.index) and not loop.tile.point for loop in grid):
            wide = instance.program.tensor(load.tensor).wide
            total += _inner_words(instance, load, outer) * word_bytes(job.dtype, wide)
    return total


def predicted_bytes(job: Job, resident: int, l2_bytes: int) -> int:
    """The wave model, or the footprint where what is swept fits in L2."""
    reads = footprint_bytes(job.instance, job.dtype)["load"]
    if swept_bytes(job) <= l2_bytes * L2_SHARE:
        return reads
    return max(reads, wave_bytes(job, resident))


def drift_bytes(
    ticks: NDArray[np.int64], job: Job, capacities: Sequence[float], pieces: int = 256
) -> list[int]:
    """DRAM reads that the recorded sweeps explain, for each capacity of L2 for the swept data.

    Args:
        ticks: (items, 2), when each item started and ended, in any unit.
        job: a program with one nest and one head, whose items all sweep the same data.
        capacities: in bytes.
        pieces: resolution; the swept data is cut into this many.

    Raises:
        EmitError: the program has more than one head, so items sweep different data.
    """
    middle = (np.arange(pieces) + 0.5) / pieces
    start, length = ticks[:, :1].astype(float), np.diff(ticks, axis=1).astype(float)
    return read_bytes(start + length * middle, job, capacities)


def read_bytes(
    when: NDArray[np.int64] | NDArray[np.float64], job: Job, capacities: Sequence[float]
) -> list[int]:
    """DRAM reads of sweeps whose every piece has its time, for each capacity of L2 for them.

    Args:
        when: (items, pieces), when each item reads each piece of what is swept, in any unit; of
            two at once, the one with the lower item is first.
        job: a program with one nest and one head, whose items all sweep the same data.
        capacities: in bytes.

    Raises:
        EmitError: the program has more than one head, so items sweep different data.
    """
    if job.sizes.get("heads", 1) != 1:
        raise EmitError("the drift model takes one head: bind the program with heads = 1")
    pieces = when.shape[1]
    swept = swept_bytes(job)
    own = footprint_bytes(job.instance, job.dtype)["load"] - swept
    sequence = np.argsort(when, axis=None, kind="stable") % pieces
    # A piece that follows itself is found whatever the capacity.
    changed = sequence[np.flatnonzero(np.diff(sequence, prepend=-1))].tolist()
    found = []
    for capacity in capacities:
        misses = _misses(changed, max(1, round(capacity / (swept / pieces))))
        found.append(misses * swept // pieces + own)
    return found


def _misses(sequence: list[int], room: int) -> int:
    """Misses of a cache of `room` pieces that evicts the least recently used one."""
    cache: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for piece in sequence:
        if piece in cache:
            cache.move_to_end(piece)
            continue
        misses += 1
        cache[piece] = None
        if len(cache) > room:
            cache.popitem(last=False)
    return misses


def spread(ticks: NDArray[np.int64], samples: int = 200) -> float:
    """How far apart items that run at once are, as a share of the sweep.

    The median over time of the distance between the 10th and the 90th percentile of positions.
    """
    found = []
    for t in np.linspace(ticks.min(), ticks.max(), samples + 2)[1:-1]:
        running = ticks[(ticks[:, 0] <= t) & (ticks[:, 1] > t)]
        if len(running) > 1:
            at = (t - running[:, 0]) / (running[:, 1] - running[:, 0])
            low, high = np.quantile(at, [0.1, 0.9])
            found.append(high - low)
    return float(np.median(found)) if found else 0.0
