"""A reduce-scatter in a ring: (P − 1)·n words, every device sends P − 1 parts."""

from __future__ import annotations

from iosim.devices.builder import DeviceBuilder
from iosim.devices.collectives import reduce_scatter
from iosim.devices.problems import SumOver
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    x, y = b.holds("X", "devices"), b.make("Y", "n")
    b.op("squeeze", y, x)
    reduce_scatter(b, y, "n")
    b.output(y.part("n"), "Y")


SCHEDULE = DeviceSchedule(
    name="reduce-scatter",
    title="reduce-scatter in a ring",
    problem=SumOver,
    build=build,
)
