"""A kernel's constants compared before a run: words, tiles that are live, what a GPU gives it.

``iosim kernel tiles`` calls it.  ``tests/kernel/test_front.py`` runs the command and checks its
figure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from iosim.base.errors import InputError
from iosim.base.progress import track
from iosim.kernel.compiler import CompiledResources
from iosim.kernel.count import KernelCount, count_kernel, lower_call
from iosim.kernel.dram import DramForecast, forecast_dram
from iosim.kernel.launch import KernelCall
from iosim.kernel.source import KernelSource
from iosim.models.hardware.record import Hardware

# Of an SM with 2,048 threads; those of GA10x and AD10x have 1,536.
_WARPS, _FEWER_WARPS, _FEWER = 64, 48, (86, 89)
_REGISTERS = 65_536  # of 32 bits
_BLOCKS = 32
_OVERHEAD = 1024  # bytes of shared memory that CUDA keeps for each program


@dataclass(frozen=True)
class KernelConfig:
    """One choice of constants, counted.

    Attributes:
        constants: the constants that vary.
        count: what the kernel moves and computes with them; None where it can't be compiled.
        reason: why it can't run, or "".
        resident: programs that an SM can have at once; None without a GPU.
        best: whether no other choice moves fewer bytes and has a smaller footprint.
        dram: a forecast of the bytes at L2↔DRAM, or None.
        untold: why there is no forecast, or "".
    """

    constants: dict[str, Any]
    count: KernelCount | None
    reason: str = ""
    resident: int | None = None
    best: bool = False
    dram: DramForecast | None = None
    untold: str = ""

    @property
    def size(self) -> int:
        """Bytes of a program: shared memory for a GPU, or tiles that are live."""
        assert self.count is not None
        found = self.count.resources
        return self.count.footprint.bytes if found is None else found.shared

    def to_dict(self) -> dict[str, Any]:
        """For scripts: the constants, why they can't run, and the count."""
        out: dict[str, Any] = {"constants": self.constants, "runs": not self.reason}
        if self.reason:
            out["reason"] = self.reason
        if self.count is not None:
            out |= {"front": self.best, "resident": self.resident, **self.count.to_dict()}
        if self.dram is not None:
            out["dram"] = vars(self.dram)
        if self.untold:
            out["dram"] = {"reason": self.untold}
        return out


def vary_constants(
    source: KernelSource, lattice: Mapping[str, Sequence[Any]]
) -> list[dict[str, Any]]:
    """The choices of constants to compare: a lattice, or the kernel's own autotune list.

    Raises:
        InputError: neither is there.
    """
    if lattice:
        return [dict(zip(lattice, x, strict=True)) for x in itertools.product(*lattice.values())]
    if not source.configs:
        raise InputError(
            f"{source.name} has no autotune list: vary constants, like --vary BLOCK_M=64,128"
        )
    return [{k: v for k, v in c.items() if v is not None} for c in source.configs]


def rank_configs(
    choices: Iterable[Mapping[str, Any]],
    describe: Callable[[Mapping[str, Any]], KernelCall],
    machine: Hardware | None = None,
    capability: int | None = None,
    forecast: bool = False,
    drift: int | None = None,
    seed: int = 0,
) -> list[KernelConfig]:
    """Count a kernel with each choice of constants; the fewest bytes first.

    Args:
        choices: constants that vary.
        describe: a launch with them.
        machine: whose shared memory limits a program.
        capability: of the GPU to compile for; None compiles nothing.
        forecast: whether to forecast the bytes at L2↔DRAM, on the machine.
        drift, seed: of its range, as in `iosim.kernel.dram.forecast_dram`.

    Raises:
        InputError: no choice compiles; a forecast on a machine whose L2 has no size.
    """
    l2_bytes = _find_l2(machine) if forecast else None
    predict = partial(forecast_dram, l2_bytes=l2_bytes or 0, drift=drift, seed=seed)
    found = [
        _forecast(
            _count(dict(c), describe, machine, capability),
            describe,
            machine,
            predict if forecast else None,
        )
        for c in track(list(choices), "configs")
    ]
    runs = [c for c in found if c.count is not None]
    if not runs:
        raise InputError(f"no choice of constants works: {found[0].reason}")
    front = set(map(id, _find_front([c for c in runs if not c.reason])))
    return sorted((replace(c, best=id(c) in front) for c in found), key=_order)


def _order(config: KernelConfig) -> tuple[bool, int, int, int]:
    if config.count is None:
        return True, 0, 0, 0
    behind = config.dram.bytes if config.dram else 0
    return bool(config.reason), config.count.total_bytes, config.size, behind


def _find_l2(machine: Hardware | None) -> int:
    assert machine is not None, "a forecast needs a machine"
    if machine.cache_bytes is None:
        raise InputError(machine.lacks("cache_bytes"))
    return int(machine.cache_bytes)


def _forecast(
    config: KernelConfig,
    describe: Callable[[Mapping[str, Any]], KernelCall],
    machine: Hardware | None,
    predict: Callable[..., DramForecast] | None,
) -> KernelConfig:
    """The choice with a forecast, or why it has none."""
    if machine is None or predict is None or not config.resident:
        return config
    call = describe(config.constants)
    functions, resident = lower_call(call), machine.cores * config.resident
    try:
        found = predict(functions, call.to_evaluate(), resident)
    except InputError as error:
        return replace(config, untold=str(error))
    return replace(config, dram=found)


def _count(
    constants: dict[str, Any],
    describe: Callable[[Mapping[str, Any]], KernelCall],
    machine: Hardware | None,
    capability: int | None,
) -> KernelConfig:
    try:
        count = count_kernel(describe(constants), capability, reuse=False)
    except InputError as error:
        return KernelConfig(constants, None, str(error))
    if count.resources is None:
        return KernelConfig(constants, count)
    room = None if machine is None else machine.sram_bytes
    resident = count_resident(count.resources, room)
    reason = "" if resident else f"needs {count.resources.shared:,} bytes of shared memory"
    return KernelConfig(constants, count, reason, resident)


def count_resident(resources: CompiledResources, sram_bytes: int | None) -> int:
    """Programs that an SM can have at once.

    >>> count_resident(CompiledResources(90, 49_152, 128, 0, 8), 233_472)
    2
    """
    warps = _FEWER_WARPS if resources.capability in _FEWER else _WARPS
    limits = [_BLOCKS, warps // resources.warps]
    if sram_bytes is not None:
        limits.append(sram_bytes // (resources.shared + _OVERHEAD))
    if resources.registers:
        # Registers are given to warps in pieces of 256.
        a_warp = -(-resources.registers * 32 // 256) * 256
        limits.append(_REGISTERS // (a_warp * resources.warps))
    return min(limits)


def _find_front(configs: Sequence[KernelConfig]) -> Iterator[KernelConfig]:
    """Those of which no other one moves fewer bytes and is smaller."""
    smallest = None
    for config in sorted(configs, key=_order):
        if smallest is None or config.size < smallest:
            smallest = config.size
            yield config
