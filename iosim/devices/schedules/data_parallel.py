"""Data-parallel gradients: every device has rows of the batch, gradients are summed everywhere.

Words: 2(P − 1) times those of the weights.
"""

from __future__ import annotations

from iosim.devices.builder import DeviceBuilder
from iosim.devices.collectives import all_reduce
from iosim.devices.problems import WeightGradient
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    x, dy = b.holds("X", "rows"), b.holds("dY", "rows")
    dw = b.make("dW", "width", "out")
    b.op("matmul_tn", dw, x, dy)
    all_reduce(b, dw, "width")
    b.output(dw, "dW")


SCHEDULE = DeviceSchedule(
    name="data-parallel",
    title="data-parallel gradients: rows of the batch sharded, one all-reduce of dW",
    problem=WeightGradient,
    build=build,
)
