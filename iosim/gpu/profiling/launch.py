"""One launch of a kernel, as a profiler's report has it.

`reading` and `running` make launches, and `kernels` adds them up.
``tests/gpu/test_profile_reading.py`` compares them over all layouts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from iosim.gpu.records.names import function

Dim = tuple[int, int, int]
DEVICE = "device__attribute_display_name"
# The compute capability as ncu writes it in a column, "9.0", and as two of its counters.
CAPABILITY = "CC"
_CAPABILITY = tuple(f"device__attribute_compute_capability_{x}" for x in ("major", "minor"))


@dataclass(frozen=True, kw_only=True)
class KernelLaunch:
    """What a report says of one launch.

    Attributes:
        name: the kernel, as the report writes it.
        grid, block: blocks of the launch and threads of a block, by x, y and z; None where the
            report does not say.
        metrics: numbers by the name of their counter, in the units of ``ncu --print-units base``:
            bytes, nanoseconds, sectors, cycles, percent.
        units: the unit of each, where the report gives one.
        texts: what is not a number, such as the name of the device.
        rounded: counters of which the report has rounded values (1.2 Gbyte).
        where: the file and the line.

    >>> launch = KernelLaunch(name="void f<2>(int)", metrics={"launch__registers_per_thread": 32.0})
    >>> launch.short, launch.registers
    ('f', 32)
    """

    name: str
    grid: Dim | None = None
    block: Dim | None = None
    metrics: Mapping[str, float] = field(default_factory=dict, hash=False)
    units: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)
    rounded: frozenset[str] = frozenset()
    where: str = field(default="", compare=False)

    @property
    def short(self) -> str:
        """The kernel's function, without namespaces, arguments and those of templates."""
        return function(self.name)

    @property
    def registers(self) -> int | None:
        """Of a thread; None where the report does not say."""
        found = self.metrics.get("launch__registers_per_thread")
        return None if found is None else round(found)

    @property
    def device(self) -> str:
        """As its driver calls it; empty where the report does not say."""
        return self.texts.get(DEVICE, "")

    @property
    def capability(self) -> int | None:
        """The compute capability, such as 90; None where the report does not say.

        >>> KernelLaunch(name="f", texts={"CC": "8.0"}).capability
        80
        """
        major, minor = (self.metrics.get(x) for x in _CAPABILITY)
        if major is not None and minor is not None:
            return 10 * round(major) + round(minor)
        found = re.fullmatch(r"(\d+)\.(\d)", self.texts.get(CAPABILITY, ""))
        return 10 * int(found[1]) + int(found[2]) if found else None
