"""Programs that sweep K and V at speeds of their own: a drift from a seed, for teaching and tests.

How far programs drift apart on a chip is not a property of the schedule, and `iosim.gpu.l2` needs
the clock readings of a run to say what it costs.  Here the drift is chosen instead: every item
takes longer than the fastest possible one by a share that is drawn at random, up to a given most.
Where programs are kept in lockstep they wait for each other at barriers, as in the kernels that
`iosim.gpu.emitter.kernels.Lockstep` makes.  The reads are then those of `l2.read_bytes`.

All times are whole numbers, so that any other program can draw the same ones.

>>> PACE, MOST_DRIFT
(1000, 1000)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.errors import InputError
from iosim.base.validate import check_range
from iosim.cache.shared import MOST_DRIFT, PACE, drifting, paces
from iosim.core.program.ir import Loop
from iosim.gpu import l2
from iosim.gpu.emitter.blocks import Blocks
from iosim.gpu.emitter.nests import chain, nests
from iosim.gpu.run.job import Job

__all__ = ["MOST_DRIFT", "PACE", "Sweeps"]


@dataclass(frozen=True)
class Sweeps:
    """Items that sweep the same blocks, this many at once.

    Attributes:
        items: sweeps in all.
        programs: how many run at once.
        blocks: column blocks of a sweep.
        drift: per mille that an item may take longer than the fastest, 0 to `MOST_DRIFT`.
        every: blocks between two barriers; 0 without barriers, when a new item starts where one
            ends.
        seed: of the draws, 0 to 2³² − 1.

    Raises InputError for a number out of range.

    >>> Sweeps(items=4, programs=2, blocks=4, drift=0).when(pieces=2).tolist()
    [[2000, 6000], [2000, 6000], [10000, 14000], [10000, 14000]]
    """

    items: int
    programs: int
    blocks: int
    drift: int
    every: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        ranges = {
            "items": (1, 2**20),
            "programs": (1, 2**20),
            "blocks": (1, 2**20),
            "drift": (0, MOST_DRIFT),
            "every": (0, 2**20),
            "seed": (0, 2**32 - 1),
        }
        for name, (least, most) in ranges.items():
            object.__setattr__(self, name, check_range(name, getattr(self, name), least, most))

    @classmethod
    def of(cls, job: Job, resident: int, drift: int, seed: int = 0) -> Sweeps:
        """Those of a schedule's launch: in lockstep if the job is, else with `resident` at once.

        Raises EmitError where items sweep different data.
        """
        l2.swept_bytes(job)  # raises where the models of DRAM don't hold
        (body,) = nests(job.instance)
        grid, inside = chain(body)
        where = Blocks(job.instance).where
        items = int(np.prod([where.trips(loop) for loop in grid]))
        loop = next(x for x in inside if isinstance(x, Loop))
        at_once = job.programs or resident
        every = job.every if job.programs else 0
        return cls(items, min(at_once, items), where.trips(loop), drift, every, seed)

    def paces(self) -> Ints:
        """(items,): ticks for half a block."""
        return paces(self.items, self.drift, self.seed)

    def when(self, pieces: int) -> Ints:
        """(items, pieces): when each item is in the middle of each piece of its sweep, in ticks.

        Raises InputError where a sweep has no whole number of blocks in a piece.
        """
        if self.blocks % pieces:
            raise InputError(
                f"{self.blocks} blocks are not a whole number of them in each of {pieces} pieces: "
                "give a divisor"
            )
        clock = drifting(self.programs, self.drift, self.seed, self.every)(
            np.full(self.items, self.blocks)
        )
        halves = (2 * np.arange(pieces) + 1) * (self.blocks // pieces)
        return np.asarray(clock(np.arange(self.items)[:, None], halves), np.int64)
