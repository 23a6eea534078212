"""An all-reduce by a tree: up to device 0 and down again, 2(P − 1)·n words in 2⌈log₂ P⌉ steps."""

from __future__ import annotations

from iosim.devices.builder import DeviceBuilder
from iosim.devices.collectives import tree_all_reduce
from iosim.devices.problems import SumOver
from iosim.devices.schedules._entry import DeviceSchedule


def build(b: DeviceBuilder) -> None:
    """The schedule."""
    x, y = b.holds("X", "devices"), b.make("Y", "n")
    b.op("squeeze", y, x)
    tree_all_reduce(b, y)
    b.output(y, "Y")


SCHEDULE = DeviceSchedule(
    name="tree-all-reduce",
    title="all-reduce by a binomial tree",
    problem=SumOver,
    build=build,
    source="Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005",
)
