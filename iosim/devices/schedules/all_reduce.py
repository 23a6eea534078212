"""An all-reduce in a ring: a reduce-scatter and an all-gather, 2(P − 1)·n words."""

from __future__ import annotations

from iosim.devices.builder import DeviceBuilder
from iosim.devices.collectives import all_reduce
from iosim.devices.problems import SumOver
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    x, y = b.holds("X", "devices"), b.make("Y", "n")
    b.op("squeeze", y, x)
    all_reduce(b, y, "n")
    b.output(y, "Y")


SCHEDULE = DeviceSchedule(
    name="all-reduce",
    title="all-reduce in a ring: reduce-scatter, then all-gather",
    problem=SumOver,
    build=build,
    source="Patarasuk and Yuan, JPDC 69, 2009",
)
