"""The hierarchical roofline: the least time of a kernel, and what sets it.

Yang, Kurth and Williams, "Hierarchical Roofline analysis for GPUs", Concurrency and Computation 32,
2020, doi 10.1002/cpe.5547; the roofline itself is of Williams, Waterman and Patterson, CACM 52(4),
2009.  A kernel takes at least as long as each of its parts: the flop on the unit that does them,
the bytes at each boundary over the speed of that boundary, the bytes over a link, a launch.

>>> from iosim.models.hardware import machine
>>> from iosim.models.roofline.single import single
>>> from iosim.models.roofline.work import works
>>> a100 = machine("a100")
>>> (linear,) = works(single("matmul", {"m": 1024, "n": 1024, "k": 4096}), a100)
>>> timed = Roof.of(a100).timed(linear)
>>> timed.limit, timed.bound, f"{timed.time_s * 1e6:.1f} µs"
('matrix units', 'compute', '27.5 µs')
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

from iosim.base.errors import InputError
from iosim.models.hardware import Hardware
from iosim.models.roofline.work import BOUNDARIES, Work

Bound = Literal["compute", "memory", "link", "overhead"]

MATRIX, VECTOR, LINK, LAUNCH = "matrix units", "vector units", "link", "launch"
# What may set the least time → the verdict.  Among equals, the first is named.
LIMITS: dict[str, Bound] = {
    MATRIX: "compute",
    VECTOR: "compute",
    **dict.fromkeys(BOUNDARIES, "memory"),
    LINK: "link",
    LAUNCH: "overhead",
}
# The dtype of the vector units' peak.
VECTOR_DTYPE = "fp32"


@dataclass(frozen=True)
class Timed:
    """The least time of a kernel.

    Attributes:
        work: what it does.
        limits: the seconds, once, that each of `LIMITS` takes, where a speed is known.
    """

    work: Work
    limits: Mapping[str, float]

    @property
    def limit(self) -> str:
        """The one that takes longest."""
        return max(self.limits, key=self.limits.__getitem__)

    @property
    def bound(self) -> Bound:
        """The verdict."""
        return LIMITS[self.limit]

    @property
    def boundary(self) -> str | None:
        """The boundary that it is bound by, if it is one."""
        return self.limit if self.limit in BOUNDARIES else None

    @property
    def time_s(self) -> float:
        """Of all times that it runs."""
        return self.limits[self.limit] * self.work.times


@dataclass(frozen=True)
class Roof:
    """The speeds of a machine.

    Attributes:
        machine: the machine.
        launch_s: from one kernel to the next.
    """

    machine: Hardware
    launch_s: float

    @classmethod
    def of(cls, machine: Hardware, launch_s: float | None = None) -> Roof:
        """Of a machine, with its own launch overhead or another.

        Raises InputError for one that is not a number of seconds, 0 or more.
        """
        if launch_s is None:
            return cls(machine, machine.launch_s)
        given: Any = launch_s
        number = not isinstance(given, bool) and isinstance(given, Real)
        if not (number and 0 <= launch_s < math.inf):
            raise InputError(f"launch_s must be seconds ≥ 0, got {launch_s!r}: give a number")
        return cls(machine, float(launch_s))

    @property
    def vector_peak(self) -> float | None:
        """FLOP per second of the vector units; None where no source gives it."""
        return self.machine.peaks.get(VECTOR_DTYPE)

    @property
    def link_bytes_per_s(self) -> float | None:
        """In one direction: half of what vendors print."""
        both = self.machine.link_bytes_per_s
        return None if both is None else both / 2

    def timed(self, work: Work) -> Timed:
        """The least time of a kernel.

        Raises InputError where the machine has no peak for a dtype, or no link.
        """
        limits: dict[str, float] = {}
        if work.products:
            limits[MATRIX] = work.products / self.machine.peak(work.dtype)
        if work.others and self.vector_peak is not None:
            limits[VECTOR] = work.others / self.vector_peak
        for at, boundary in BOUNDARIES.items():
            if (speed := boundary.bytes_per_s(self.machine)) is not None:
                limits[at] = work.bytes[at] / speed
        if work.link_bytes:
            if self.link_bytes_per_s is None:
                why = self.machine.lacks("link_bytes_per_s")
                raise InputError(f"{work.name} moves words between devices, and {why}")
            limits[LINK] = work.link_bytes / self.link_bytes_per_s
        limits[LAUNCH] = self.launch_s
        return Timed(work, {x: limits[x] for x in LIMITS if x in limits})

    def timed_all(self, found: Iterable[Work]) -> list[Timed]:
        """Of each kernel."""
        return [self.timed(work) for work in found]

    def unknown(self) -> list[str]:
        """What of the model is left out, since no source gives a speed."""
        name = self.machine.name
        said = [
            f"{name} has no bandwidth with a source at {at}: the bytes there are counted, and take "
            "no time"
            for at, b in BOUNDARIES.items()
            if b.bytes_per_s(self.machine) is None
        ]
        if self.vector_peak is None:
            said.append(
                f"{name} has no {VECTOR_DTYPE} peak with a source: flop outside of products take "
                "no time"
            )
        return said
