"""A schedule on P simulated devices: each has only what it made or was sent.

Every device has arrays of its own; the only way from one to another is a `Send`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.errors import ProgramError
from iosim.base.rows import Values
from iosim.core.problem import Array
from iosim.devices.ops import OPS
from iosim.devices.program import Compute, Dim, Drop, Make, Send, Slab
from iosim.devices.walk import DeviceStep, OnDevices


@dataclass(frozen=True)
class DeviceRun:
    """What a run on simulated devices gave.

    Attributes:
        outputs: the problem's outputs, put together from the devices.
        links: words that crossed each directed link, counted as arrays crossed.
        spread: the largest difference between two devices' copies of an output.

    >>> from iosim.devices import on_devices, run_devices
    >>> from iosim import Copy
    >>> from iosim.devices.problems import Gather
    >>> run = run_devices(on_devices("all-gather", Gather(5), P=2), {"X": [1, 2, 3, 4, 5]})
    >>> run.outputs["Y"], run.links
    (array([1., 2., 3., 4., 5.]), {(0, 1): 3, (1, 0): 2})
    """

    outputs: Mapping[str, Array]
    links: Mapping[tuple[int, int], int]
    spread: float


class _Devices:
    """The memories of all devices: for each tensor its array."""

    def __init__(self, instance: OnDevices) -> None:
        self.instance = instance
        self.memory: list[dict[str, Array]] = [{} for _ in range(instance.P)]
        self.split = {
            axis: instance.sharding_of(axis).positions(n, instance.P)
            for axis, n in instance.sizes.items()
        }
        # Of each tensor, which of its dimensions are whole.
        self.whole: dict[str, tuple[bool, ...]] = {}

    def where(self, dim: Dim, p: int, t: int) -> Any:
        """Positions along a dimension."""
        if isinstance(dim, str):
            return np.arange(self.instance.sizes[dim])
        return self.split[dim.axis][int(self.instance.turned(dim, t)[p])]

    def at(self, slab: Slab, p: int, t: int) -> Any:
        """Which part of its array a slab is."""
        return np.ix_(
            *(
                self.where(dim, p, t) if whole else np.arange(len(self.where(dim, p, t)))
                for dim, whole in zip(slab.dims, self.whole[slab.name], strict=True)
            )
        )

    def place_array(self, slab: Slab, p: int, array: Array) -> None:
        """A new array."""
        self.whole[slab.name] = tuple(isinstance(dim, str) for dim in slab.dims)
        self.memory[p][slab.name] = array

    def get(self, slab: Slab, p: int, t: int) -> Array:
        """A copy of a slab; ProgramError where its tensor is not in the device's memory."""
        if slab.name not in self.memory[p]:
            raise ProgramError(f"{slab} is not in the memory of device {p}: send it, or make it")
        found: Array = self.memory[p][slab.name][self.at(slab, p, t)]
        return found


def run_devices(instance: OnDevices, hbm: Values) -> DeviceRun:
    """Run a schedule on the problem's inputs, in float64.

    Raises InputError for arrays of other shapes.

    >>> import numpy as np
    >>> from iosim import Attention
    >>> from iosim.devices import on_devices
    >>> problem = Attention(6, 4)
    >>> inputs = problem.random()
    >>> run = run_devices(on_devices("ring-attention", problem, P=3), inputs)
    >>> bool(np.allclose(run.outputs["O"], problem.reference(inputs)["O"]))
    True
    """
    given = instance.problem.check_inputs(hbm)
    devices = _Devices(instance)
    for slab in instance.schedule.program.inputs:
        for p in range(instance.P):
            at = np.ix_(*(devices.where(dim, p, 0) for dim in slab.dims))
            devices.place_array(slab, p, given[slab.name][at].copy())
    links: dict[tuple[int, int], int] = {}
    for step in instance.steps():
        _step(devices, step, links)
    outputs, spread = {}, 0.0
    for name, slab in instance.schedule.program.outputs:
        outputs[name], apart = _collect(devices, slab)
        spread = max(spread, apart)
    return DeviceRun(outputs, dict(sorted(links.items())), spread)


def _step(devices: _Devices, step: DeviceStep, links: dict[tuple[int, int], int]) -> None:
    instance, t = devices.instance, step.t
    mail = []
    for node in step.nodes:
        if isinstance(node, Send):
            for p, to in enumerate(map(int, instance.targets(node.to, t))):
                if to != p:
                    array = devices.get(node.source, p, t)
                    mail.append((node, to, array))
                    if array.size:
                        links[p, to] = links.get((p, to), 0) + array.size
    for node in step.nodes:
        for p in range(instance.P):
            _local(devices, node, p, t)
    for sent, to, array in mail:
        if sent.passed:
            devices.memory[to][sent.into.name] = array
        else:
            whole = devices.memory[to][sent.into.name]
            at = devices.at(sent.into, to, t)
            whole[at] = whole[at] + array if sent.add else array


def _local(devices: _Devices, node: Any, p: int, t: int) -> None:
    match node:
        case Make():
            shape = [len(devices.where(dim, p, t)) for dim in node.slab.dims]
            devices.place_array(node.slab, p, np.full(shape, node.fill))
        case Drop():
            del devices.memory[p][node.slab.name]
        case Compute():
            op = OPS[node.name]
            arrays = [devices.get(slab, p, t) for slab in node.slabs]
            where = [
                {(d if isinstance(d, str) else d.axis): devices.where(d, p, t) for d in slab.dims}
                for slab in node.slabs
            ]
            made = op.run(arrays, where, devices.instance.causal)
            for k, array in zip(op.writes, made, strict=True):
                slab = node.slabs[k]
                devices.memory[p][slab.name][devices.at(slab, p, t)] = array


def _collect(devices: _Devices, slab: Slab) -> tuple[Array, float]:
    """An output from all devices, and how far copies of it are apart."""
    instance = devices.instance
    axes = [d if isinstance(d, str) else d.axis for d in slab.dims]
    out, spread = np.zeros([instance.sizes[a] for a in axes]), 0.0
    for p in range(instance.P):
        at = np.ix_(*(devices.where(dim, p, 0) for dim in slab.dims))
        found = devices.get(slab, p, 0)
        if p and all(isinstance(dim, str) for dim in slab.dims):
            spread = max(spread, float(np.abs(out[at] - found).max(initial=0.0)))
        out[at] = found
    return out, spread
