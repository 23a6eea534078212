"""Schedules over several devices: the third memory is another device's.

A schedule is written once, as a value (`iosim.devices.program`); everything else is a fold over it:
run on simulated devices, counted by link, in closed form, timed, and run on GPUs.

>>> from iosim import Attention
>>> counts = count_links(on_devices("ring-attention", Attention(1024, 64, heads=8), P=4))
>>> counts.total, counts.most
(3145728, 786432)

What there is, and for how many devices:

>>> "ring-attention" in SCHEDULES, sorted(DEALINGS), MOST_DEVICES
(True, ['contiguous', 'striped', 'zigzag'], 1024)
"""

from __future__ import annotations

from typing import Any

from iosim.devices.counting import LinkCounts, count_links
from iosim.devices.deals import DEALINGS, Dealing, dealing
from iosim.devices.running import DeviceRun, run_devices
from iosim.devices.schedules import SCHEDULES, DeviceSchedule, all_schedules, schedule
from iosim.devices.walk import MOST_DEVICES, OnDevices

__all__ = [
    "DEALINGS",
    "MOST_DEVICES",
    "SCHEDULES",
    "Dealing",
    "DeviceRun",
    "DeviceSchedule",
    "LinkCounts",
    "OnDevices",
    "all_schedules",
    "count_links",
    "dealing",
    "on_devices",
    "run_devices",
    "schedule",
]


def on_devices(name: str, problem: Any, P: int, deal: str = "contiguous") -> OnDevices:
    """A schedule by name, bound to a problem, P devices, and a dealing of rows by name.

    Raises InputError for unknown names, and where they don't fit together.

    >>> from iosim import Attention
    >>> on_devices("ring-attention", Attention(8, 2), P=2, deal="striped").dealing.name
    'striped'
    """
    return OnDevices(schedule(name), problem, P, dealing(deal))
