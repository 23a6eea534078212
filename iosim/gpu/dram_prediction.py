"""What DRAM will have to deliver, predicted before a run: in lockstep, or if programs drift.

Where all items of a launch *sweep* the same data, *in lockstep* is the wave model of
`iosim.gpu.l2`, or the footprint where what is swept at once fits in half of L2.  Programs that
*drift* apart read at least what they read where all of L2 is one cache, and at most what each loads
for itself, the bytes at SM↔L2.  Two things are known of the rest:

- What all items of a launch sweep, of all heads, fits in half of L2: then all find it there,
  however far they drift.
- Items differ in speed by up to δ per mille.  When a program has swept P times, no other has swept
  less than P (1 − δ/(1000 + δ)) times; all together sweep as often as there are items, so P is at
  most (1 + δ/1000) items / resident, and the distance at most δ/1000 · items / resident sweeps.
  Between two programs at one piece all others are within that distance on either side of it.  So
  least recently used pieces are kept long enough where half of L2 holds twice the distance, and
  DRAM delivers each piece once for each pass over it: at most one sweep more than in lockstep.

For what lies beyond, drifts from a seed are replayed: through a cache of all of L2, through one of
half of it, and through two halves that each keep what their side reads, items on the two sides in
turn.

In all other launches the items' loads and stores are followed box by box
(`iosim.gpu.launch_trace`). Where half of L2 holds all that a launch touches, each box comes from
DRAM once, and not at all if it was stored before.  Elsewhere the boxes, asked for in lockstep, are
replayed through a least recently used cache of half of L2.  Whatever the programs do, a launch
reads at least what is read before it is stored, once, and at most what each program loads for
itself.  L2 is taken to be empty of what an earlier launch left in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iosim.base.dtypes import word_bytes
from iosim.base.validate import check_range, check_size
from iosim.cache import Cache, replay_many, tiles
from iosim.cache.partitioned import replay_parts
from iosim.cache.shared import MOST_DRIFT, Order, drifting, interleaved, lockstep, sweeps
from iosim.core.counting.numbers import count, peak
from iosim.core.units import bytes_of
from iosim.gpu import l2, launch_trace
from iosim.gpu.run.job import Job
from iosim.models.hardware import Hardware

# A sweep is cut into fewer pieces where there would be more accesses.
MOST_ACCESSES = 2**24


@dataclass(frozen=True, kw_only=True)
class Reads:
    """What is known before a run.  Bytes at L2↔DRAM unless a name says otherwise.

    Attributes:
        items: program instances.
        programs: of these, this many are resident at once.
        rows: of the outer tile, in each program; 0 where no tile of the launch has rows.
        sweeps: whether all items of a launch sweep the same.
        swept: what the items of a launch sweep, all heads together; of other launches the most
            that one touches.
        together: of this what programs that are resident at once sweep in lockstep; 0 for others.
        l2: its capacity.
        sm_l2: loads at SM↔L2.
        footprint: reads if L2 caught all that is read again.
        lockstep: reads if programs stay in lockstep.
        least, most: the range if they drift.
        halves: reads of the drift from the seed, through two halves of L2; None without a drift,
            and where programs don't sweep the same.
        stores: what the kernels write at least.
        drift: per mille by which programs differ in speed; None: by anything.
    """

    items: int
    programs: int
    rows: int
    sweeps: bool
    swept: int
    together: int
    l2: int
    sm_l2: int
    footprint: int
    lockstep: int
    least: int
    most: int
    halves: int | None
    stores: int
    drift: int | None

    @property
    def waves(self) -> int:
        """How often a place for a program is taken."""
        return -(-self.items // self.programs)

    @property
    def half(self) -> int:
        """What L2 holds of what programs on both sides sweep."""
        return int(self.l2 * l2.L2_SHARE)

    @property
    def safe(self) -> bool:
        """Whether the drift that was requested reads at most one sweep more than in lockstep."""
        return self.most <= self.lockstep + self.together

    @property
    def safe_l2(self) -> int:
        """The least L2 with which no drift matters at all."""
        return round(self.swept / l2.L2_SHARE)

    @property
    def safe_drift(self) -> int | None:
        """Per mille by which programs may surely differ, as many being resident; None: any."""
        if self.swept <= self.half:
            return None
        if not self.sweeps:
            return 0
        return self.half * 1000 * self.programs // (2 * self.swept * self.items)

    @property
    def safe_programs(self) -> int | None:
        """The least programs resident at which the drift is harmless.

        None where a single wave isn't enough, and, if what is swept doesn't fit, where the drift
        isn't known or programs don't sweep the same.
        """
        if self.swept <= self.half:
            return 1
        if self.drift is None or not self.sweeps:
            return None
        need = -(-2 * self.swept * self.items * self.drift // (1000 * self.half))
        return max(1, need) if need <= self.items else None


def reads(
    job: Job,
    machine: Hardware,
    *,
    programs: int | None = None,
    drift: int | None = None,
    seed: int = 0,
) -> Reads:
    """What DRAM will have to deliver for a job.

    Args:
        programs: resident at once on the whole chip; none: `resident`.
        drift: per mille by which items differ in speed, 0 to 1000; none: it isn't known.
        seed: of the drift.

    Raises:
        EmitError: a schedule that reads where to read, one with too many boxes to follow, and a
            drift of several kernels that sweep.
        InputError: numbers out of range, and a machine whose caches have no size.

    >>> from iosim.models.hardware import machine
    >>> job = Job("flash2", {"N": 524288, "d": 64, "heads": 1}, {"B_r": 64, "B_c": 64})
    >>> found = reads(job, machine("h200"))
    >>> found.programs, found.waves, found.lockstep
    (528, 16, 2214592512)
    >>> job = Job("matmul", {"m": 8192, "n": 8192, "k": 4096}, {"B_m": 128, "B_n": 128, "B_k": 64})
    >>> found = reads(job, machine("a100"))
    >>> found.footprint, found.lockstep, found.most
    (134217728, 2653945856, 8589934592)
    """
    machine.chip_words(job.dtype)  # raises where its size has no source
    at_once = resident(job, machine) if programs is None else programs
    at_once = check_size("programs", at_once)
    drift = None if drift is None else check_range("drift", drift, 0, MOST_DRIFT)
    order = None if drift is None else drifting(at_once, drift, seed)
    size = int(machine.cache_bytes or 0)
    if l2.unlike_sweeps(job):
        return _of_boxes(job, size, at_once, drift, order)
    return _of_sweeps(job, size, at_once, drift, order)


def _of_sweeps(job: Job, size: int, programs: int, drift: int | None, order: Order | None) -> Reads:
    """Of launches whose items sweep the same data, or their own."""
    items, rows = l2.launched(job)
    at_once = min(programs, items)
    both = l2.footprint_bytes(job.instance, job.dtype)
    moved = bytes_of(count(job.instance), job.instance.program.tensors, job.dtype)
    sm_l2 = sum(n for (way, _), n in moved.items() if way == "load")
    lockstep = l2.predicted_bytes(job, at_once, size)
    # Programs that drift may be at any of the heads, not only at those of one wave.
    swept, together = (l2.live_bytes(job, n) for n in (items, at_once))
    least = l2.predicted_bytes(job, at_once, round(size / l2.L2_SHARE))
    most, halves = max(lockstep, sm_l2), None
    if swept <= size * l2.L2_SHARE:
        most = lockstep
    if order is not None and swept:
        whole, halves, half = _drifted(job, order, size)
        least, most = min(least, whole), max(lockstep, half)
    return Reads(
        items=items,
        programs=at_once,
        rows=rows,
        sweeps=True,
        swept=swept,
        together=together,
        l2=size,
        sm_l2=sm_l2,
        footprint=both["load"],
        lockstep=lockstep,
        least=least,
        most=most,
        halves=halves,
        stores=both["store"],
        drift=drift,
    )


def _of_boxes(job: Job, size: int, programs: int, drift: int | None, order: Order | None) -> Reads:
    """Of any launches, each from an empty L2."""
    every = launch_trace.launches(job)
    half = int(size * l2.L2_SHARE)
    stepped = lockstep(programs)
    step = least = most = 0
    for launch in every:
        if launch.touched <= half:
            found = low = high = launch.footprint
        else:
            found = tiles.lru(launch.passes(stepped)).loads_at(half)
            low, high = launch.footprint, launch.loads
            if order is not None:
                drifted = tiles.lru(launch.passes(order))
                low = min(found, drifted.loads_at(size))
                high = max(found, drifted.loads_at(half))
        step, least, most = step + found, least + low, most + high
    items = max((launch.items for launch in every), default=1)
    return Reads(
        items=items,
        programs=min(programs, items),
        rows=0,
        sweeps=False,
        swept=max((launch.touched for launch in every), default=0),
        together=0,
        l2=size,
        sm_l2=sum(launch.loads for launch in every),
        footprint=sum(launch.footprint for launch in every),
        lockstep=step,
        least=least,
        most=most,
        halves=None,
        stores=sum(launch.stored for launch in every),
        drift=drift,
    )


def resident(job: Job, machine: Hardware) -> int:
    """About how many programs the chip holds at once.

    Twice the model's peak has to fit in a core's memory, since tiles are loaded while others are
    used, and sums are fp32: to the next whole number that is what the compiler made of every run in
    the records.
    """
    machine.sm_words(job.dtype)  # raises where its size has no source
    need = 2 * peak(job.instance) * word_bytes(job.dtype)
    return machine.cores * max(1, round(int(machine.sram_bytes or 0) / need))


def _drifted(job: Job, order: Order, size: int) -> tuple[int, int, int]:
    """Reads with all of L2, with its two halves, and with one of them."""
    heads, swept = l2.swept_by(job)
    pieces = max(16, min(l2.PIECES, MOST_ACCESSES // len(heads)))
    weight = swept / pieces
    streams = sweeps(len(heads), pieces, np.asarray(heads))
    both = interleaved(streams, order)
    whole, half = (max(1, round(c / weight)) for c in (size, size * l2.L2_SHARE))
    caches = [Cache(capacity=whole), Cache(capacity=half)]
    moved = replay_many(both.stream, caches)
    parts = replay_parts(both, caches[1])
    own = l2.footprint_bytes(job.instance, job.dtype)["load"] - swept * len(set(heads))
    one, two, three = (t.misses * swept // pieces + own for t in (moved[0], parts, moved[1]))
    return one, two, three
