"""A schedule with sizes, devices and a sharding, and its steps: what the other folds read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Ints
from iosim.base.errors import InputError
from iosim.base.validate import check_size
from iosim.devices.ops import OPS
from iosim.devices.program import (
    Around,
    Compute,
    Dim,
    Drop,
    Levels,
    Make,
    Rounds,
    Send,
    Sharded,
    Slab,
    Together,
    Way,
)
from iosim.devices.schedules import DeviceSchedule
from iosim.devices.sharding import SHARDINGS, Sharding, pairs_seen

# Steps are walked one by one, for all devices: the square of it.
MOST_DEVICES = 1024


@dataclass(frozen=True)
class DeviceStep:
    """Nodes that don't wait for each other, in round or level t."""

    t: int
    nodes: tuple[Send | Compute | Make | Drop, ...]


@dataclass(frozen=True)
class OnDevices:
    """A schedule bound to a problem, P devices and a sharding.

    Raises InputError for a problem or a sharding that the schedule doesn't take, and for more than
    1,024 devices.

    >>> from iosim.devices import on_devices
    >>> from iosim import Attention
    >>> on_devices("ring-attention", Attention(10, 2), P=4).extents["N"]
    array([3, 3, 2, 2], dtype=object)
    """

    schedule: DeviceSchedule
    problem: Any
    P: int
    sharding: Sharding = SHARDINGS["contiguous"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "problem", self.schedule.takes(self.problem))
        object.__setattr__(self, "P", check_size("P", self.P))
        if self.P > MOST_DEVICES:
            raise InputError(
                f"P = {self.P} is more than {MOST_DEVICES} devices, which are walked one by one: "
                "take the closed form"
            )
        if self.sharding.name != "contiguous" and not self.schedule.sharded:
            raise InputError(
                f"{self.schedule.name} shards contiguous runs, got {self.sharding.name}: "
                "leave it out"
            )
        devices = self.sizes.get("devices", self.P)
        if devices != self.P:
            raise InputError(
                f"the problem has {devices} devices and P = {self.P}: give one of them"
            )

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Axis → extent."""
        return dict(self.problem.sizes)

    @property
    def causal(self) -> bool:
        """Whether rows see no key after their own."""
        return bool(getattr(self.problem, "causal", False))

    def sharding_of(self, axis: str) -> Sharding:
        """How an axis is sharded: only the schedule's own axis otherwise than contiguously."""
        return self.sharding if axis == self.schedule.sharded else SHARDINGS["contiguous"]

    @cached_property
    def extents(self) -> dict[str, NDArray[Any]]:
        """Axis → how many positions each part has, exact integers."""
        return {axis: self.sharding_of(axis).extents(n, self.P) for axis, n in self.sizes.items()}

    def turned(self, dim: Sharded, t: int) -> Ints:
        """Which part each device has of a sharded dimension in round t."""
        return (np.arange(self.P) + dim.shift + dim.turn * t) % self.P

    def extent(self, dim: Dim, t: int) -> Any:
        """Positions along a dimension: a number, or one for each device."""
        if isinstance(dim, str):
            return self.sizes[dim]
        return self.extents[dim.axis][self.turned(dim, t)]

    def words(self, slab: Slab, t: int) -> NDArray[Any]:
        """Words of a slab on each device."""
        words = np.full(self.P, 1, object)
        for dim in slab.dims:
            words = words * self.extent(dim, t)
        return words

    def flop(self, node: Compute, t: int) -> NDArray[Any]:
        """FLOP of an operation on each device."""
        op = OPS[node.name]
        shapes = [tuple(self.extent(dim, t) for dim in slab.dims) for slab in node.slabs]
        flop = np.full(self.P, 1, object) * op.flop(shapes)
        if op.pairs is not None:
            rows, keys = (dim_of(node.slabs[k], "N") for k in op.pairs)
            flop = flop * self._pairs(rows, keys, t)
        found: NDArray[Any] = flop
        return found

    @cached_property
    def _pair_cache(self) -> dict[tuple[int, int], int]:
        return {}

    def _pairs(self, rows: Dim, keys: Dim, t: int) -> NDArray[Any]:
        """Pairs of a row and a key that meet, on each device."""
        runs = self.sharding_of("N").runs(self.sizes["N"], self.P)
        whole = [(0, self.sizes["N"], 1)]

        def parts(dim: Dim) -> list[int]:
            found: list[int] = self.turned(dim, t).tolist() if isinstance(dim, Sharded) else []
            return found or [-1] * self.P

        found = np.full(self.P, 0, object)
        for p, (i, j) in enumerate(zip(parts(rows), parts(keys), strict=True)):
            if (i, j) not in self._pair_cache:
                mine, theirs = (whole if k < 0 else runs[k] for k in (i, j))
                self._pair_cache[i, j] = _pairs_between(mine, theirs, self.causal)
            found[p] = self._pair_cache[i, j]
        return found

    def targets(self, to: Way, t: int) -> Ints:
        """To whom each device sends in round or level t; itself where it sends nothing."""
        me = np.arange(self.P)
        if isinstance(to, Around):
            return (me + to.shift + to.turn * t) % self.P
        size = 2**t
        if to.up:
            return np.where(me % (2 * size) == size, me - size, me)
        down = (me % (2 * size) == 0) & (me + size < self.P)
        return np.where(down, me + size, me)

    def steps(self) -> Iterator[DeviceStep]:
        """The steps in order."""
        for node in self.schedule.program.body:
            match node:
                case Rounds():
                    for t in range(self.P - node.less):
                        yield from (DeviceStep(t, _nodes(x)) for x in node.body)
                case Levels():
                    levels = range((self.P - 1).bit_length())
                    for t in levels if node.up else reversed(levels):
                        yield from (DeviceStep(t, _nodes(x)) for x in node.body)
                case _:
                    yield DeviceStep(0, _nodes(node))


def _nodes(node: Any) -> tuple[Any, ...]:
    return node.body if isinstance(node, Together) else (node,)


def dim_of(slab: Slab, axis: str) -> Dim:
    """The dimension of a slab that is the axis, or a part of it."""
    return next(d for d in slab.dims if (d if isinstance(d, str) else d.axis) == axis)


def _pairs_between(
    rows: list[tuple[int, int, int]], keys: list[tuple[int, int, int]], causal: bool
) -> int:
    """`pairs_seen`, where one side may be a whole axis and the other every P-th row."""
    if causal and len({step for _, _, step in (*rows, *keys)}) > 1:
        (step,) = {step for _, _, step in (*rows, *keys)} - {1}
        keys = [
            (start + k, len(range(start + k, start + many, step)), step)
            for start, many, _ in keys
            for k in range(step)
        ]
    return pairs_seen(rows, keys, causal)
