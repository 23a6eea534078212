"""Schedules over several devices: words on each link, memory, bounds and times.

A schedule is a value (`program`), written with a `DeviceBuilder` (`builder`).  Functions read it:
`running` runs it on simulated devices, `counting` counts by link, `closed` counts for any P,
`timing` gives α–β times, and `iosim.gpu.links` runs it on GPUs.  All go through `walk`.
``iosim devices`` prints `report`'s summary.  A schedule is one file in `iosim.devices.schedules`, a
bound one in `iosim.devices.bounds`, a sharding one record in `sharding`.

Changing files here: run, count and closed form must agree exactly
(``tests/devices/test_devices.py``), and with sets of words that
``tests/devices/test_devices_by_hand.py`` passes on by itself.  Names of schedules are in recorded
GPU data and stay.  An import contract keeps schedules and `walk` out of `iosim.devices.bounds`.
Tables of ``iosim devices`` are printed in docs/devices.md.

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


def on_devices(name: str, problem: Any, P: int, sharding: str = "contiguous") -> OnDevices:
    """A schedule by name, bound to a problem, P devices, and a sharding of rows by name.

    Raises InputError for unknown names, and where they don't fit together.

    >>> from iosim import Attention
    >>> on_devices("ring-attention", Attention(8, 2), P=2, sharding="striped").sharding.name
    'striped'
    """
    return OnDevices(schedule(name), problem, P, find_sharding(sharding))
