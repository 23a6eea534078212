"""Data-parallel gradients whose sum is sharded: a reduce-scatter, as where optimizers are sharded.

Words: (P − 1) times those of the weights; the new weights are gathered later, which is as much.
"""

from __future__ import annotations

from iosim.devices.builder import DeviceBuilder
from iosim.devices.collectives import reduce_scatter
from iosim.devices.problems import WeightGradient
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    x, dy = b.holds("X", "rows"), b.holds("dY", "rows")
    dw = b.make("dW", "width", "out")
    b.op("matmul_tn", dw, x, dy)
    reduce_scatter(b, dw, "width")
    b.output(dw.part("width"), "dW")


SCHEDULE = DeviceSchedule(
    name="data-parallel-sharded",
    title="data-parallel gradients, sharded: rows of the batch sharded, one reduce-scatter of dW",
    problem=WeightGradient,
    build=build,
    source="ZeRO: Rajbhandari et al., arXiv 1910.02054",
)
