"""``iosim profile --expect``: launches of a report compared with the kernel's own count."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from iosim.base.errors import InputError
from iosim.cli import options as opt
from iosim.gpu.profiling.kernels import COUNTED_APART, ProfiledKernel, kernels
from iosim.gpu.profiling.launch import KernelLaunch
from iosim.kernel.compiler import CAPABILITIES, DEFAULT_CAPABILITY
from iosim.kernel.counters import ExpectedBytes, compare_bytes, expect_bytes
from iosim.kernel.launch import KernelCall
from iosim.models.hardware import Hardware, of_driver

# Launches are compared together where they wrote the same bytes, and read nearly the same.
_TELLING = {"l2_write": 1.0, "l2_read": COUNTED_APART}
_COLUMNS = ("boundary", "what", "relation", "expected", "spilled", "measured", "unexplained")


@dataclass(frozen=True)
class CountedLaunch:
    """A launch as typed.

    Attributes:
        kernel: its name.
        grid: programs along each axis.
        expect: what it moves, by the compute capability; None where nobody says one.
        ir: which IR is read.
    """

    kernel: str
    grid: tuple[int, int, int]
    expect: Callable[[int | None], ExpectedBytes]
    ir: str


def expect_launch(call: KernelCall) -> CountedLaunch:
    """A launch, counted once: what is wrong is said before anything is read or run.

    Raises:
        InputError: it can't be counted.
    """
    expect = functools.cache(functools.partial(expect_bytes, call))
    expect(DEFAULT_CAPABILITY)
    for said in call.remarks:
        opt.remark(said)
    return CountedLaunch(call.source.name, call.grid, expect, call.source.ir)


def find_capability(launch: KernelLaunch, machine: Hardware | None) -> int:
    """The compute capability of the GPU of a launch, as its report says; a note if it doesn't."""
    found = launch.capability
    if found is None:
        on = machine or (of_driver(launch.device) if launch.device else None)
        found = CAPABILITIES.get(on.name) if on else None
    if found is None:
        opt.remark(f"the report names no GPU that is known: counted for sm_{DEFAULT_CAPABILITY}")
        return DEFAULT_CAPABILITY
    return found


def find_launches(
    chosen: Sequence[KernelLaunch], wanted: CountedLaunch, machine: Hardware | None, named: bool
) -> list[tuple[ProfiledKernel, ExpectedBytes]]:
    """The launches of a kernel with its grid, and what is expected of each on its GPU.

    A note says which have another grid.

    Args:
        named: whether --kernel chose them, whatever they are called.

    Raises:
        InputError: there are none.
    """
    name, grid = wanted.kernel, wanted.grid
    mine = [x for x in chosen if named or x.short == name]
    if not mine:
        names = ", ".join(dict.fromkeys(x.short for x in chosen))
        raise InputError(
            f"no launch is called {name}: choose one with --kernel REGEX; there are {names}"
        )
    others = list(dict.fromkeys(x.grid for x in mine if x.grid not in (grid, None)))
    same = [x for x in mine if x.grid in (grid, None)]
    said = " and ".join(map(str, others))
    if not same:
        raise InputError(f"the report has {name} with grid {said}, and --grid is {grid}")
    if others:
        opt.remark(f"launches with grid {said} are left out: --grid is {grid}")
    if any(x.grid is None for x in same):
        opt.remark(f"the report doesn't say the grid: {grid} is taken, as in --grid")
    by_capability: dict[int, list[KernelLaunch]] = {}
    for x in same:
        by_capability.setdefault(find_capability(x, machine), []).append(x)
    return [
        (k, wanted.expect(capability))
        for capability, launches in by_capability.items()
        for k in kernels(launches, machine, telling=_TELLING)
    ]


def print_compared(
    wanted: CountedLaunch, found: Sequence[tuple[ProfiledKernel, ExpectedBytes]], as_json: bool
) -> None:
    """A table for each group of launches, the best explained first; a sentence for each row."""
    every = [(k, compare_bytes(expected, k)) for k, expected in found]
    every.sort(key=lambda one: sum(abs(row.unexplained or 0) for row in one[1]))
    if as_json:
        opt.print_json(
            [
                {
                    "kernel": k.name,
                    "grid": k.grid,
                    "block": k.block,
                    "launches": k.launches,
                    "rows": [row.to_dict() for row in rows],
                }
                for k, rows in every
            ]
        )
        return
    x, y, z = wanted.grid
    click.echo(
        f"{wanted.kernel}: {x * y * z:,} programs, {x:,} x {y:,} x {z:,}; "
        f"bytes of a launch by its {wanted.ir} and by counters"
    )
    for number, (k, rows) in enumerate(every, 1):
        launches = f"{k.launches:,} launch{'es' * (k.launches > 1)}"
        click.echo(f"\n{number}. {k.short}, grid {k.grid}, block {k.block}, {launches}")
        opt.print_table(
            _COLUMNS,
            [[row.to_dict()[name] for name in _COLUMNS] for row in rows],
        )
        for row in rows:
            click.echo(f"{row.boundary}, {row.what}: {row.says}")
