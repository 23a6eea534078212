"""The command ``iosim machines``: what is known of each machine, with sources."""

from __future__ import annotations

from dataclasses import asdict

import click

from iosim.base.cells import cell
from iosim.base.rows import Row
from iosim.cli import options as opt
from iosim.models.hardware import MACHINES, NO_SOURCE, Hardware
from iosim.models.hardware.record import format_number

# In the list of all machines: heading → field, and what one of the heading's unit is.
_COLUMNS = {
    "L2↔DRAM GB/s": ("dram_bytes_per_s", 10**9),
    "DRAM GB": ("capacity_bytes", 10**9),
    "one core's KiB": ("sram_bytes", 2**10),
    "last cache MiB": ("cache_bytes", 2**20),
    "SM↔L2 GB/s": ("l2_bytes_per_s", 10**9),
    "links GB/s": ("link_bytes_per_s", 10**9),
    "US$": ("price_usd", 1),
}
NOTE = """\
Peaks are dense. The ridge is the peak of 16 bits over the bandwidth of L2↔DRAM: FLOP per byte.
`iosim machines NAME` shows all peaks, and the source of every number."""


@click.command()
@click.argument("machine", required=False, type=opt.MACHINE, metavar="[NAME|FILE.toml]")
@opt.as_json
def machines(machine: Hardware | None, as_json: bool) -> None:
    """List the machines and their numbers, or one machine's with the source of each."""
    if as_json:
        found = [_to_dict(one) for one in ([machine] if machine else MACHINES.values())]
        opt.print_json(found[0] if machine else found)
    elif machine:
        name, title, core, cache = map(
            cell, (machine.name, machine.title, machine.core, machine.cache)
        )
        click.echo(f"{name}: {title}; a core is called {core}, the last cache before DRAM {cache}")
        rows = [
            (what, format_number(value, unit), source)
            for what, value, unit, source in machine.numbers()
        ]
        ridges = [
            (
                f"ridge {dtype}",
                f"{machine.ridge_for(dtype):.1f} FLOP/B",
                "peak over dram_bytes_per_s (L2↔DRAM)",
            )
            for dtype in machine.peaks
        ]
        opt.print_table(["number", "value", "source"], [*rows, *ridges])
    else:
        headings = ["machine", "year", "TFLOP/s 16 bits", "TFLOP/s fp32", "ridge", *_COLUMNS]
        opt.print_table(headings, [_row(one) for one in MACHINES.values()])
        click.echo(NOTE)


def _row(one: Hardware) -> list[str]:
    """Of the list: a number that has no source says so."""
    sixteen = next((x for x in ("fp16", "bf16") if x in one.peaks), "fp32")
    values = [
        one.year,
        one.peaks.get(sixteen, 0) / 1e12,
        one.peaks["fp32"] / 1e12 if "fp32" in one.peaks else None,
        round(one.ridge_for(sixteen), 1),
        *(
            None if (x := getattr(one, field)) is None else x / unit
            for field, unit in _COLUMNS.values()
        ),
    ]
    return [one.name, *(NO_SOURCE if x is None else f"{x:.6g}" for x in values)]


def _to_dict(one: Hardware) -> Row:
    """For scripts: all fields, in base units, with a source or ``no source`` for each number."""
    return asdict(one) | {
        "ridge_flop_per_byte": {dtype: one.ridge_for(dtype) for dtype in one.peaks},
        "sources": {what: source for what, _, _, source in one.numbers()},
    }
