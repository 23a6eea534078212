"""A tensor-parallel feed-forward layer between which rows are sharded: all-gather, reduce-scatter.

X and Y are sharded by rows, so that what is between the layers is kept once.  The same words as
with one all-reduce: (P − 1) times those of X, and as many of Y.
"""

from __future__ import annotations

from iosim.devices.builder import DeviceBuilder
from iosim.devices.collectives import all_gather, reduce_scatter
from iosim.devices.problems import FeedForward
from iosim.devices.program import Sharded
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    x, w1, w2 = b.holds("X", "rows"), b.holds("W1", "inner"), b.holds("W2", "inner")
    every = all_gather(b, x, "rows", "all X")
    h = b.make("H", "rows", Sharded("inner"))
    b.op("matmul", h, every, w1)
    b.drop(every)
    b.op("relu", h)
    y = b.make("Y", "rows", "width")
    b.op("matmul", y, h, w2)
    reduce_scatter(b, y, "rows")
    b.output(y.part("rows"), "Y")


SCHEDULE = DeviceSchedule(
    name="tensor-sequence-parallel",
    title="tensor-parallel feed-forward with sharded rows: all-gather before, reduce-scatter after",
    problem=FeedForward,
    build=build,
    source="Korthikanti et al., arXiv 2205.05198",
)
