"""What DRAM has to deliver, with L2 as the second cache: three predictions.

*Footprint*: L2 catches every re-read, so each kernel reads what it touches once.  It holds while
the data that is swept again and again fits in L2.

*Wave*: programs that are resident at once (a wave) sweep the same tiles in lockstep, so a tile
comes from DRAM once per wave however many of them want it, and nothing survives until the next
wave. This is the N²d²/M law with M the rows that are resident on the whole chip.  It fails when
programs drift apart by more than L2 holds; a schedule does not determine by how much they will.

*Drift*: the sweeps as they ran.  Every item notes when it started and ended; between the
two it is taken to move evenly, and an L2 that evicts the least recently used piece is run over
the merged sequence.  The chip's L2 has two halves, and what SMs on both sides read is kept in
both; so its capacity for swept data is between a half (every piece wanted on both sides) and all
of it (each on one side), which brackets the reads.  It needs the clock readings of a run, so it
predicts nothing, but it tells whether drift alone explains what was read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Ints
from iosim.base.dtypes import word_bytes
from iosim.cache import Cache, replay, replay_many
from iosim.cache.shared import Order, by_clock, by_times, interleaved, sweeps
from iosim.core.counts import Direction
from iosim.core.program.index import At, Number, Span, Tile, Within, dims, unstacked
from iosim.core.program.ir import Load, Loop, Store
from iosim.core.program.space import named_tiles
from iosim.core.program.walk import Instance
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.blocks import Blocks
from iosim.gpu.emitter.kernels import EmitError, grid_size
from iosim.gpu.emitter.nests import Body, chain, moved_keys, nests, touched, walk_with_loops
from iosim.gpu.run.job import Job

# Programs in lockstep all want the same piece, so it is kept in both halves of L2 (measured:
# experiments/data/gpu, where 33.6 MB swept in lockstep by all SMs do not fit in 60 MiB).
L2_SHARE = 0.5

WAYS: tuple[Direction, Direction] = ("load", "store")

# What is swept is cut into as many pieces.
PIECES = 256


def _varies(instance: Instance) -> str:
    """Why the items of a nest don't all sweep the same, which these models are about; or ""."""
    program = instance.program
    index = [x for n in program.nodes if isinstance(n, (Load, Store)) for x in n.index]
    if named_tiles(program):
        return "a loop or a buffer follows an outer tile"
    if instance.masks:
        return "a block mask skips tiles"
    if any(isinstance(x, (Number, Within, At)) for x in index):
        return "a tensor is indexed by a tile's number or by a position that is read"
    return ""


def _fixed_loops(instance: Instance) -> None:
    """Raise EmitError unless all items of a nest sweep the same."""
    if why := _varies(instance):
        raise EmitError(
            f"the models of DRAM reads don't know {instance.program.name}, where {why}: use a "
            "schedule of dense attention"
        )


def unlike_sweeps(job: Job) -> str:
    """Why a job's launches are not what the models here are about, or "".

    They are of launches in which every load is one that all items of a head do, or one that is an
    item's own; each of them once.
    """
    instance = job.instance
    if why := _varies(instance):
        return why
    for body in nests(instance):
        grid, inside = chain(body)
        tiles = {loop.tile for loop in grid if not loop.tile.point}
        stored = touched(body, Store)
        for load, outer in _loads(inside):
            index = set(unstacked(load.index))
            if 0 < len(tiles & index) < len(tiles):
                return f"a tile of {load.tensor} is read by some items of a launch"
            if any(loop.tile not in unstacked(dims(load.index)) for loop in outer):
                return f"an item reads tiles of {load.tensor} more than once"
            if load.tensor in stored:
                return f"an item reads of {load.tensor} what it stored"
    return ""


def footprint_bytes(instance: Instance, dtype: str) -> dict[Direction, int]:
    """Bytes that must be read and written if every kernel moves what it touches once.

    Raises EmitError, as all models here, where loops follow outer tiles or a table is read: what
    is touched differs from item to item there.
    """
    _fixed_loops(instance)
    found = [_touched_bytes(instance, body, dtype) for body in nests(instance)]
    return {way: sum(one[way] for one in found) for way in WAYS}


def _touched_bytes(instance: Instance, body: Body, dtype: str) -> dict[Direction, int]:
    """Bytes of the tensors that one kernel loads, and of those that it stores."""
    found: dict[Direction, int] = {"load": 0, "store": 0}
    for way, name in moved_keys(body):
        tensor = instance.program.tensor(name)
        words = math.prod(layout.shape(tensor, instance))
        found[way] += words * word_bytes(dtype, tensor.wide)
    return found


def wave_bytes(job: Job, resident: int) -> int:
    """DRAM reads if `resident` programs at a time sweep in lockstep and waves share nothing.

    In every wave each load moves, once, what is distinct among the wave's items.
    """
    _fixed_loops(job.instance)
    return sum(_wave_bytes(job, body, resident) for body in nests(job.instance))


def _wave_bytes(job: Job, body: Body, resident: int) -> int:
    moved = _moved(job, body)
    return sum(int(_distinct(one.pieces, resident).sum()) * one.bytes for one in moved)


@dataclass(frozen=True)
class _Moved:
    """A load of a kernel.

    Attributes:
        pieces: (items, 2), as `_extents` gives them.
        bytes: that an item loads per position of its launch tiles.
        once: of these, what is distinct.
        common: whether no tile of the launch but points index it.
    """

    pieces: Ints
    bytes: int
    once: int
    common: bool

    @property
    def swept(self) -> bool:
        """Whether several items read the same."""
        return self.common and len(np.unique(self.pieces[:, 0])) < len(self.pieces)


def _moved(job: Job, body: Body) -> Iterator[_Moved]:
    instance = job.instance
    (grid, inside), items = chain(body), grid_size(instance, body)
    for load, outer in _loads(inside):
        wide = word_bytes(job.dtype, instance.program.tensor(load.tensor).wide)
        index = unstacked(load.index)
        own = [k for k, loop in enumerate(grid) if loop.tile in index]
        once = tuple(loop for loop in outer if loop.tile in unstacked(dims(load.index)))
        pieces = _extents(instance, grid, own, items)
        yield _Moved(
            pieces,
            _inner_words(instance, load, outer) * wide,
            _inner_words(instance, load, once) * wide,
            not any(loop.tile in index and not loop.tile.point for loop in grid),
        )


def _distinct(pieces: Ints, resident: int) -> Ints:
    """(waves,): positions of launch tiles that are distinct among each wave's items."""
    found = []
    for first in range(0, len(pieces), resident):
        wave = pieces[first : first + resident]
        _, at = np.unique(wave[:, 0], return_index=True)
        found.append(wave[at, 1].sum())
    return np.array(found, np.int64)


def launched(job: Job) -> tuple[int, int]:
    """Items of the largest launch, and how many positions the longest tile of a launch has."""
    instance = job.instance
    items, rows, where = 1, 0, Blocks(instance).where
    for body in nests(instance):
        grid, _ = chain(body)
        items = max(items, grid_size(instance, body))
        rows = max([rows, *(where.step(loop) for loop in grid if not loop.tile.point)])
    return items, rows


def swept_by(job: Job) -> tuple[list[int], int]:
    """Which data each item sweeps, by number, and how many bytes that is.

    Raises EmitError for more than one launch.
    """
    bodies = nests(job.instance)
    swept = [one for body in bodies for one in _moved(job, body) if one.swept]
    if len(bodies) != 1 or not swept:
        raise EmitError(
            f"a drift is of one launch whose items sweep the same, and {job.algorithm} has "
            f"{len(bodies)}: leave it out"
        )
    return swept[0].pieces[:, 0].tolist(), sum(one.once for one in swept)


def live_bytes(job: Job, resident: int) -> int:
    """The most that programs sweep which are resident at once, all of their heads together."""
    _fixed_loops(job.instance)
    return max((_live_bytes(job, body, resident) for body in nests(job.instance)), default=0)


def _live_bytes(job: Job, body: Body, resident: int) -> int:
    swept = [one for one in _moved(job, body) if one.swept]
    waves = [_distinct(one.pieces, resident) * one.once for one in swept]
    return int(np.sum(waves, axis=0).max()) if waves else 0


def _loads(body: Body) -> Iterator[tuple[Load, tuple[Loop, ...]]]:
    """The loads of a body, with the loops around each."""
    return ((node, outer) for node, outer in walk_with_loops(body) if isinstance(node, Load))


def _extents(instance: Instance, grid: tuple[Loop, ...], own: list[int], items: int) -> Ints:
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
    _fixed_loops(job.instance)
    (body,) = nests(job.instance)
    return sum(one.bytes for one in _moved(job, body) if one.common)


def predicted_bytes(job: Job, resident: int, l2_bytes: int) -> int:
    """The wave model, or the footprint of kernels where what is swept at once fits in L2."""
    _fixed_loops(job.instance)
    return sum(_predicted(job, body, resident, l2_bytes) for body in nests(job.instance))


def _predicted(job: Job, body: Body, resident: int, l2_bytes: int) -> int:
    reads = _touched_bytes(job.instance, body, job.dtype)["load"]
    room = l2_bytes * L2_SHARE
    if _live_bytes(job, body, resident) <= room:
        return reads
    moved = list(_moved(job, body))
    swept = [one for one in moved if one.swept]
    each = sum(one.once * int(one.pieces[0, 1]) for one in swept)
    same = all((one.pieces == swept[0].pieces).all() and one.once == one.bytes for one in swept)
    if each > room or not same:
        return max(reads, _wave_bytes(job, body, resident))
    # Heads share some waves: what one leaves in L2 the next wave may find.
    heads = swept[0].pieces[:, 0]
    waves = np.arange(len(heads)) // resident
    wave, head = np.unique(np.stack([waves, heads]), axis=1)
    when = wave[:, None] * PIECES + np.arange(PIECES)
    both = interleaved(sweeps(len(head), PIECES, head), by_times(when))
    cache = Cache(capacity=max(1, int(room / (each / PIECES))))
    again = replay(both.stream, cache).misses - PIECES * len(set(heads.tolist()))
    return reads + again * each // PIECES


def drift_bytes(
    ticks: Ints, job: Job, capacities: Sequence[float], pieces: int = PIECES
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
    return _read(by_clock(ticks), (len(ticks), pieces), job, capacities)


def read_bytes(
    when: Ints | NDArray[np.float64], job: Job, capacities: Sequence[float]
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
    return _read(by_times(when), when.shape, job, capacities)


def _read(order: Order, shape: tuple[int, ...], job: Job, capacities: Sequence[float]) -> list[int]:
    """Items by pieces of what they sweep, through a cache of each capacity."""
    if job.sizes.get("heads", 1) != 1:
        raise EmitError("the drift model takes one head: bind the program with heads = 1")
    items, pieces = shape
    swept = swept_bytes(job)
    own = footprint_bytes(job.instance, job.dtype)["load"] - swept
    caches = [Cache(capacity=max(1, round(c / (swept / pieces)))) for c in capacities]
    moved = replay_many(interleaved(sweeps(items, pieces), order).stream, caches)
    return [one.misses * swept // pieces + own for one in moved]


def spread(ticks: Ints, samples: int = 200) -> float:
    """How far apart items that run at once are, as a share of the sweep.

    The median over time of the distance between the 10th and the 90th percentile of positions.
    """
    found = []
    start, stop = ticks.T.astype(float)
    for t in np.linspace(ticks.min(), ticks.max(), samples + 2)[1:-1]:
        running = np.flatnonzero((start <= t) & (stop > t))
        if running.size > 1:
            at = (t - start[running]) / (stop[running] - start[running])
            low, high = np.quantile(at, [0.1, 0.9])
            found.append(high - low)
    return float(np.median(found)) if found else 0.0
