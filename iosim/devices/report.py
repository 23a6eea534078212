"""All that is known of a schedule on P devices, as one value: words, bounds, times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError, ProgramError
from iosim.devices.bounds import Setting, link_bounds
from iosim.devices.counting import LinkCounts, count_links
from iosim.devices.timing import DeviceTimes, device_times, link_speed
from iosim.devices.walk import OnDevices
from iosim.models.hardware import Hardware


@dataclass(frozen=True)
class HeldBound:
    """A lower bound compared with what the schedule moves.

    Attributes:
        name, of, source, says: of the bound.
        words: the bound, rounded up.
        moved: words of the schedule that it bounds.
        gap: moved over words; None where the bound is 0.
        outside: why it says nothing here, or "".
    """

    name: str
    of: str
    words: int
    moved: int
    gap: float | None
    outside: str
    says: str
    source: str


@dataclass(frozen=True)
class DevicesReport:
    """What is known of a schedule on P devices.

    Attributes:
        instance: what it is of.
        counts: words, FLOP, memory.
        total: words over all links in closed form, as text.
        sent: words that device p sends, in the same way; "" where there is no such form.
        bounds: the lower bounds of its problem.
        times: seconds on a machine, or None without one.
        untimed: what the machine lacks for times, or "".
    """

    instance: OnDevices
    counts: LinkCounts
    total: str
    sent: str
    bounds: tuple[HeldBound, ...]
    times: DeviceTimes | None = None
    untimed: str = ""


def devices_report(
    instance: OnDevices,
    machine: Hardware | None = None,
    dtype: str = "fp16",
    latency_s: float | None = None,
) -> DevicesReport:
    """Count, bound and time a schedule.

    Args:
        machine: whose peak and links the times are of.
        latency_s: α; that of a kernel's launch if none is given.

    >>> from iosim import Attention
    >>> from iosim.devices import on_devices
    >>> found = devices_report(on_devices("ring-attention", Attention(1024, 64, kv_heads=1), P=4))
    >>> found.total, found.bounds[0].words
    ('2*N*d*kv_heads*(P - 1)', 157287)
    """
    from iosim.devices import closed

    counts = count_links(instance)
    program = instance.schedule.program
    if closed.total_of(program, instance.sizes, instance.P) != counts.total:
        raise AssertionError("the closed form and the count differ")
    setting = Setting(instance.problem, instance.P, max(counts.peak), instance.schedule.placement)
    bounds = []
    for one in link_bounds(setting):
        moved = counts.total if one.bound.of == "total" else max(counts.owed)
        exact = isinstance(one.words, int | Fraction)
        words = math.ceil(one.words if exact else one.words * (1 - 1e-12))
        bounds.append(
            HeldBound(
                one.bound.name,
                one.bound.of,
                words,
                moved,
                moved / words if words else None,
                one.outside or "",
                one.bound.says,
                one.bound.source,
            )
        )
    times, untimed = None, ""
    word_bytes(dtype)
    if machine is not None:
        latency = machine.launch_s if latency_s is None else latency_s
        if not 0 <= latency < math.inf:
            raise InputError(f"the latency is {latency} s: give a finite number, 0 or more")
        try:
            peak, speed = machine.peak(dtype), link_speed(machine)
        except InputError as error:
            untimed = str(error)
        else:
            times = device_times(instance, peak, speed, latency, dtype)
    try:
        sent = str(closed.sent_words(program))
    except ProgramError:
        sent = ""
    total = str(closed.total_words(program))
    return DevicesReport(instance, counts, total, sent, tuple(bounds), times, untimed)
