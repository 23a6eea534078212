"""Y = X, a tile at a time: the entry to copy when adding an algorithm.

Moves 2n words, whatever the tile; needs B words.

A copy is also the gate of each GPU record (`iosim.gpu.run.job.gate_job`), whose counters must show
its bytes (``tests/gpu/test_gpu_records.py``).  So its name and its words stay.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.problem import Copy
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Load a tile, store it, free it."""
    (B,) = b.tile_sizes("n", "B")
    for i in b.grid("n", B):
        x = b.load("X", i)
        b.store(x, "Y", i)
        b.free(x)


ALGORITHM = Algorithm(
    name="copy",
    title="copy a vector",
    problem=Copy,
    schedule=schedule,
    cost="2n",
    source="the definition",
)
