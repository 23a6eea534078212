"""Schedules over several devices: the third memory is another device's.

A schedule is written once, as a value (`iosim.devices.program`); everything else is a fold over it:
run on simulated devices, counted by link, in closed form, timed, and run on GPUs.

>>> from iosim import Attention
>>> counts = count_links(on_devices("ring-attention", Attention(1024, 64, heads=8), P=4))
>>> counts.total, counts.most
(3145728, 786432)

What there is, and for how many devices:

>>> "ring-attention" in SCHEDULES, sorted(SHARDINGS), MOST_DEVICES
(True, ['contiguous', 'striped', 'zigzag'], 1024)
"""

from __future__ import annotations

from typing import Any

from iosim.base.renamed import renamed
from iosim.devices.counting import LinkCounts, count_links
from iosim.devices.running import DeviceRun, run_devices
from iosim.devices.schedules import SCHEDULES, DeviceSchedule, all_schedules, schedule
from iosim.devices.sharding import SHARDINGS, Sharding, find_sharding
from iosim.devices.walk import MOST_DEVICES, OnDevices

__all__ = [
    "MOST_DEVICES",
    "SCHEDULES",
    "SHARDINGS",
    "DeviceRun",
    "DeviceSchedule",
    "LinkCounts",
    "OnDevices",
    "Sharding",
    "all_schedules",
    "count_links",
    "find_sharding",
    "on_devices",
    "run_devices",
    "schedule",
]


_RENAMED = {"DEALINGS": "SHARDINGS", "Dealing": "Sharding", "dealing": "find_sharding"}


def __getattr__(name: str) -> Any:
    """Names of version 0.1.0."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    renamed(f"{__name__}.{name}", _RENAMED[name])
    return globals()[_RENAMED[name]]


def on_devices(
    name: str, problem: Any, P: int, sharding: str = "contiguous", deal: str = ""
) -> OnDevices:
    """A schedule by name, bound to a problem, P devices, and a sharding of rows by name.

    `deal` is the old name of `sharding`.

    Raises InputError for unknown names, and where they don't fit together.

    >>> from iosim import Attention
    >>> on_devices("ring-attention", Attention(8, 2), P=2, sharding="striped").sharding.name
    'striped'
    """
    if deal:
        renamed("on_devices(deal=…)", "sharding")
        sharding = deal
    return OnDevices(schedule(name), problem, P, find_sharding(sharding))
