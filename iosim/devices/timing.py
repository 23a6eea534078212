"""How long a schedule takes by the α–β model: α seconds for a message, β for each byte.

Devices go step by step, and a step takes as long as its slowest device.  A link carries both
directions at once; a device sends, and receives, at most at its own bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError
from iosim.devices.program import Compute, Send
from iosim.devices.walk import OnDevices
from iosim.models.hardware import Hardware


@dataclass(frozen=True)
class DeviceTimes:
    """Seconds of a schedule.

    Attributes:
        compute_s: of products, by the machine's peak, the slowest device of each step.
        communication_s: of transfers, by α and β.
        written_s: with the overlap that the schedule writes: in a step, the longer of the two.

    >>> DeviceTimes(3.0, 2.0, 4.0).apart_s, DeviceTimes(3.0, 2.0, 4.0).overlapped_s
    (5.0, 3.0)
    """

    compute_s: float
    communication_s: float
    written_s: float

    @property
    def apart_s(self) -> float:
        """Without overlap: the sum."""
        return self.compute_s + self.communication_s

    @property
    def overlapped_s(self) -> float:
        """With all the overlap there can be: max(compute, communication)."""
        return max(self.compute_s, self.communication_s)


def device_times(
    instance: OnDevices, flop_per_s: float, bytes_per_s: float, latency_s: float, dtype: str
) -> DeviceTimes:
    """The times of a schedule.

    Args:
        flop_per_s: of a device's products.
        bytes_per_s: that a device sends, and that it receives at the same time.
        latency_s: α, of each step in which a device sends.

    >>> from iosim import Attention
    >>> from iosim.devices import on_devices
    >>> ring = on_devices("ring-attention", Attention(2**17, 128, heads=32), P=8)
    >>> times = device_times(ring, 989.4e12, 450e9, 2.6e-6, "fp16")
    >>> f"{times.compute_s:.4f} {times.communication_s:.4f} {times.written_s:.4f}"
    '0.0356 0.0042 0.0356'
    """
    size, compute, communication, written = word_bytes(dtype), 0.0, 0.0, 0.0
    me = np.arange(instance.P)
    for step in instance.steps():
        flop, sent, got = (np.full(instance.P, 0, object) for _ in range(3))
        for node in step.nodes:
            if isinstance(node, Compute):
                flop = flop + instance.flop(node, step.t)
            elif isinstance(node, Send):
                to, words = instance.targets(node.to, step.t), instance.words(node.source, step.t)
                words = np.where(to != me, words, 0)
                sent = sent + words
                np.add.at(got, to, words)
        most = max(sent.max(), got.max())
        work = float(flop.max()) / flop_per_s
        moving = latency_s + float(most) * size / bytes_per_s if most else 0.0
        compute, communication = compute + work, communication + moving
        written += max(work, moving)
    return DeviceTimes(compute, communication, written)


def link_speed(machine: Hardware) -> float:
    """Bytes per second that a device sends to others: half of its links' both directions.

    Raises InputError for a machine whose links have no source.

    >>> from iosim.models.hardware import machine
    >>> link_speed(machine("h200"))
    450000000000.0
    """
    if machine.link_bytes_per_s is None:
        raise InputError(machine.lacks("link_bytes_per_s"))
    return machine.link_bytes_per_s / 2
