"""Distributed schedules: one file each, and one line each in `SCHEDULES`.

`on_devices` binds one by its name, which is what ``iosim devices NAME`` and the GPU report
``devices`` take.  A file has a function over a `DeviceBuilder` and ends with a record of it
(`_entry`).  Collectives that schedules use as parts are in `iosim.devices.collectives`.

Changing files here: names and the words by link are in recorded runs on GPUs, so a schedule that
sends other words needs a new record or another name.  ``tests/devices/test_devices.py`` runs each
on numbers, and compares counts with the closed form; ``tests/devices/test_devices_by_hand.py``
counts many by sets of words.  Entries are import strings: keep this ``__init__`` free of imports of
schedules.

>>> "ring-attention" in SCHEDULES, len(all_schedules()) == len(SCHEDULES)
(True, True)
"""

from __future__ import annotations

from iosim.base.registry import canonical, registered
from iosim.devices.schedules._entry import DeviceSchedule

__all__ = ["SCHEDULES", "DeviceSchedule", "all_schedules", "schedule"]

SCHEDULES: dict[str, str] = {
    "ring-attention": "iosim.devices.schedules.ring_attention",
    "all-gather-attention": "iosim.devices.schedules.all_gather_attention",
    "ulysses-attention": "iosim.devices.schedules.ulysses_attention",
    "ring-attention-backward": "iosim.devices.schedules.ring_attention_backward",
    "tensor-parallel": "iosim.devices.schedules.tensor_parallel",
    "tensor-sequence-parallel": "iosim.devices.schedules.tensor_sequence_parallel",
    "data-parallel": "iosim.devices.schedules.data_parallel",
    "data-parallel-sharded": "iosim.devices.schedules.data_parallel_sharded",
    "all-gather": "iosim.devices.schedules.all_gather",
    "reduce-scatter": "iosim.devices.schedules.reduce_scatter",
    "all-reduce": "iosim.devices.schedules.all_reduce",
    "tree-all-reduce": "iosim.devices.schedules.tree_all_reduce",
}

# Other names in use, in lower case without hyphens and underscores.
ALIASES: dict[str, str] = {
    "ring": "ring-attention",
    "ulysses": "ulysses-attention",
    "ddp": "data-parallel",
    "fsdp": "data-parallel-sharded",
    "zero3": "data-parallel-sharded",
    "megatron": "tensor-parallel",
}


def named(name: str) -> str:
    """The registered name of a schedule that has others; an unknown name is returned unchanged."""
    return canonical(name, SCHEDULES, ALIASES)


def schedule(name: str) -> DeviceSchedule:
    """A registered schedule, also by another name (`ALIASES`), or InputError with the closest name.

    >>> schedule("ring-attention").title
    'ring attention: K and V go round, Q and O stationary'
    """
    return registered("schedule", named(name), SCHEDULES, "SCHEDULE", DeviceSchedule)


def all_schedules() -> tuple[DeviceSchedule, ...]:
    """All of them.

    >>> [one.name for one in all_schedules()][-1]
    'tree-all-reduce'
    """
    return tuple(schedule(name) for name in SCHEDULES)
