"""Kernels: the launches of one function, grid and block together, and where each is on a roof.

`iosim.cli.profiling`, `verdict`, `expected` and `show` read them.  ``tests/gpu/test_profile.py``
computes shares again.

>>> from pathlib import Path
>>> from iosim.gpu.profiling.reading import read
>>> found = kernels(read(Path("experiments/data/gpu/h200/paper")))
>>> found[1].short, found[1].launches, found[1].values["dram_read"]
('naive_1', 1, 268480256.0)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from iosim.gpu.profiling.launch import Dim, KernelLaunch
from iosim.gpu.profiling.metrics import (
    QUANTITIES,
    RATIOS,
    READ_PATHS,
    TENSOR,
    VECTOR,
    WAVEFRONT,
    WRITE_PATHS,
    Quantity,
)
from iosim.models.hardware import Hardware, of_driver

SHARED, SM_L2, L2_DRAM = "shared memory", "SM↔L2", "L2↔DRAM"
# Launches are in separate groups where times, or bytes at SM↔L2, differ by more than these factors.
APART, COUNTED_APART = 1.5, 1.01
# What separates launches of one function and grid: bytes on each path at SM↔L2, then times.
# Answers of atomics are left out: how often a kernel asks may differ from run to run.
_TELLING = ("asked_read", "asked_write", "bulk_read", *WRITE_PATHS, "time")


@dataclass(frozen=True)
class ProfiledKernel:
    """What a report says of all launches of one function with one grid and one block.

    Attributes:
        name: the kernel, as the report writes it.
        grid, block: None where the report does not say.
        launches: how many there are.
        values: quantities and ratios by name, of all launches together; None where absent.
        counters: what each was read from.
        rounded: names of quantities that come from rounded values.
        machine: the machine that it ran on, as far as it is known.
    """

    name: str
    grid: Dim | None
    block: Dim | None
    launches: int
    values: Mapping[str, float | None]
    counters: Mapping[str, tuple[str, ...]]
    rounded: frozenset[str]
    machine: Hardware | None

    @property
    def short(self) -> str:
        """Its function."""
        return KernelLaunch(name=self.name).short

    def total(self, names: Iterable[str]) -> float | None:
        """The sum of those that are there; None if there is none."""
        found = [x for x in (self.values[name] for name in names) if x is not None]
        return sum(found) if found else None

    @property
    def time_s(self) -> float | None:
        """Of all launches."""
        time = self.values["time"]
        return None if time is None else time * 1e-9

    @property
    def each_s(self) -> float | None:
        """Of one launch, on average."""
        return None if self.time_s is None else self.time_s / self.launches

    @property
    def tensor_flop(self) -> float | None:
        """On matrix units, of the dtypes that were counted."""
        return self.total(TENSOR)

    @property
    def vector_flop(self) -> float | None:
        """On the ordinary units, of the dtypes that were counted."""
        return self.total(VECTOR)

    @property
    def flop(self) -> float | None:
        """On all units; None unless both kinds were counted."""
        both = self.tensor_flop, self.vector_flop
        return None if None in both else sum(x or 0 for x in both)

    @property
    def bytes(self) -> dict[str, float | None]:
        """At each boundary, in both directions; None where one of them was not read."""
        v = self.values
        both = {
            L2_DRAM: ("dram_read", "dram_write"),
            SM_L2: ("l2_read", "l2_write"),
            SHARED: ("shared",),
        }
        return {
            at: None if any(v[x] is None for x in names) else self.total(names)
            for at, names in both.items()
        }

    def ordinary(self, direction: str) -> float | None:
        """Bytes at SM↔L2 that take no path with a counter of its own: the load-store units'.

        Args:
            direction: "read" or "write".
        """
        paths = READ_PATHS if direction == "read" else WRITE_PATHS
        whole, parts = self.values[f"l2_{direction}"], [self.values[x] for x in paths]
        if whole is None or None in parts:
            return None
        return max(0.0, whole - sum(x or 0 for x in parts))

    @cached_property
    def dtype(self) -> str:
        """Of the peak that its flop are held against: what its products multiply, or fp32."""
        most = max(TENSOR, key=lambda x: self.values[x] or 0)
        products = self.tensor_flop or 0
        return most.removeprefix("tensor_") if products > (self.vector_flop or 0) else "fp32"


@dataclass(frozen=True)
class RooflinePosition:
    """Where a kernel lies under the roof of one boundary.

    Attributes:
        boundary: `L2_DRAM`, `SM_L2` or `SHARED`.
        bytes: that crossed it, of all launches.
        bytes_per_s: while the kernel ran.
        intensity: FLOP per byte; None without flop.
        peak_bytes_per_s: of the machine; None where no source gives it.
        roof: FLOP per second that the machine can do at this intensity, at most.
        attained: of the roof, in percent; of the bandwidth where there are no flop.
    """

    boundary: str
    bytes: float
    bytes_per_s: float
    intensity: float | None
    peak_bytes_per_s: float | None
    roof: float | None
    attained: float | None


def positions(kernel: ProfiledKernel) -> list[RooflinePosition]:
    """Under the roof of each boundary whose bytes are known; none without a time."""
    time = kernel.time_s
    found = []
    for at, crossed in kernel.bytes.items():
        if not time or crossed is None:
            continue
        flop, speed = kernel.flop, _SPEEDS[at](kernel)
        peak = None if kernel.machine is None else kernel.machine.peaks.get(kernel.dtype)
        roof = attained = None
        intensity = None if flop is None else flop / crossed if crossed else math.inf
        if intensity and speed and peak:
            roof = min(peak, intensity * speed)
            attained = 100 * (flop or 0) / time / roof
        elif flop == 0 and speed:  # bytes alone
            attained = 100 * crossed / time / speed
        found.append(
            RooflinePosition(at, crossed, crossed / time, intensity, speed, roof, attained)
        )
    return found


def _shared_speed(kernel: ProfiledKernel) -> float | None:
    """Of all SMs at the clock that they ran at."""
    cycles, sms = kernel.values["cycles"], kernel.values["sms"]
    if cycles is None or sms is None or not kernel.time_s:
        return None
    return WAVEFRONT * sms * cycles / kernel.time_s


_SPEEDS: dict[str, Callable[[ProfiledKernel], float | None]] = {
    L2_DRAM: lambda k: k.machine.dram_bytes_per_s if k.machine else None,
    SM_L2: lambda k: k.machine.l2_bytes_per_s if k.machine else None,
    SHARED: _shared_speed,
}


def kernels(
    launches: Iterable[KernelLaunch],
    machine: Hardware | None = None,
    apart: float = COUNTED_APART,
    telling: Mapping[str, float] | None = None,
) -> list[ProfiledKernel]:
    """Group launches by kernel, grid, block and what was counted of each; slowest group first.

    One function may get arguments of many kinds: a mask or a length changes what a launch moves,
    and neither its name nor its grid says so.  Sorted by each of some quantities, launches are in
    separate groups wherever one has more than a given multiple of the value before it.

    Args:
        launches: of a report.
        machine: that they ran on; by default the one whose driver the report names.
        apart: this multiple, for bytes at SM↔L2; 1 separates all launches that differ.  Times
            always take `APART`.
        telling: quantities, each with its multiple; by default those of `_TELLING`.
    """
    telling = telling or {**dict.fromkeys(_TELLING, apart), "time": APART}
    together: dict[tuple[Any, ...], list[KernelLaunch]] = {}
    for launch in launches:
        key = (launch.name, launch.grid, launch.block, launch.device)
        together.setdefault(key, []).append(launch)
    groups = list(together.values())
    for name, limit in telling.items():
        groups = [part for group in groups for part in _split_where_apart(group, name, limit)]
    return sorted((_kernel(x, machine) for x in groups), key=lambda k: -(k.values["time"] or 0))


def _split_where_apart(
    group: list[KernelLaunch], name: str, limit: float
) -> Iterator[list[KernelLaunch]]:
    """Split launches where a quantity rises by more than a factor; a missing one counts as 0."""
    quantity = QUANTITIES[name]
    values = [quantity.of(launch.metrics) or 0.0 for launch in group]
    order = sorted(range(len(group)), key=values.__getitem__)
    cuts = [n for n, (i, k) in enumerate(pairwise(order), 1) if values[k] > limit * values[i]]
    for start, stop in pairwise([0, *cuts, len(group)]):
        yield [group[k] for k in sorted(order[start:stop])]


def _kernel(group: list[KernelLaunch], machine: Hardware | None) -> ProfiledKernel:
    first = group[0]
    values: dict[str, float | None] = {}
    counters, rounded = {}, set()
    weights, scaled = _weights(group), frozenset().union(*(x.rounded for x in group))
    for name, one in QUANTITIES.items():
        values[name] = _folded(one, group, weights)
        form = one.form(first.metrics)
        counters[name] = tuple(form) if form and values[name] is not None else ()
        if any(x in scaled for x in counters[name]):
            rounded.add(name)
    for name, ratio in RATIOS.items():
        top, bottom = values[ratio.top], values[ratio.bottom]
        known = top is not None and bottom
        values[name] = (top or 0) / (bottom or 1) * ratio.factor if known else None
        counters[name] = counters[ratio.top] + counters[ratio.bottom] if known else ()
    found = machine or (of_driver(first.device) if first.device else None)
    return ProfiledKernel(
        first.name, first.grid, first.block, len(group), values, counters, frozenset(rounded), found
    )


def _weights(group: list[KernelLaunch]) -> list[float]:
    """The times of launches; equal weights where one of them has none."""
    times = [launch.metrics.get("gpu__time_duration.sum", 0.0) for launch in group]
    return times if all(times) else [1.0] * len(group)


def _folded(one: Quantity, group: list[KernelLaunch], weights: list[float]) -> float | None:
    """Over launches; None where one of them has no value."""
    known: list[float] = []
    for launch in group:
        value = one.of(launch.metrics)
        if value is None:
            return None
        known.append(value)
    if one.fold == "sum":
        return math.fsum(known)
    return math.fsum(map(operator.mul, known, weights)) / math.fsum(weights)
