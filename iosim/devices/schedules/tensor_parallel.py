"""A tensor-parallel feed-forward layer: W1 sharded by columns, W2 by rows, one all-reduce.

X and Y are on every device.  Words: 2(P − 1) times those of Y.
"""

from __future__ import annotations

from iosim.devices.builder import DeviceBuilder
from iosim.devices.collectives import all_reduce
from iosim.devices.problems import FeedForward
from iosim.devices.program import Sharded
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    x, w1, w2 = b.holds("X"), b.holds("W1", "inner"), b.holds("W2", "inner")
    h, y = b.make("H", "rows", Sharded("inner")), b.make("Y", "rows", "width")
    b.op("matmul", h, x, w1)
    b.op("relu", h)
    b.op("matmul", y, h, w2)
    all_reduce(b, y, "rows")
    b.output(y, "Y")


SCHEDULE = DeviceSchedule(
    name="tensor-parallel",
    title="tensor-parallel feed-forward: columns of W1, rows of W2, one all-reduce",
    problem=FeedForward,
    build=build,
    source="Megatron-LM: Shoeybi et al., arXiv 1909.08053",
)
