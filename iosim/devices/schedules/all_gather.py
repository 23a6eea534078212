"""An all-gather in a ring: (P − 1)·n words, every device sends P − 1 parts."""

from __future__ import annotations

from iosim.devices.builder import DeviceBuilder
from iosim.devices.collectives import all_gather
from iosim.devices.problems import Gather
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    b.output(all_gather(b, b.holds("X", "n"), "n", "Y"), "Y")


SCHEDULE = DeviceSchedule(
    name="all-gather",
    title="all-gather in a ring",
    problem=Gather,
    build=build,
)
