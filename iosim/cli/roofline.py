"""roofline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from iosim.cli import options as opt
from iosim.errors import InputError
from iosim.hardware import Hardware
from iosim.roofline.report import Roofline
from iosim.roofline.roof import LIMITS, Roof
from iosim.roofline.single import SINGLE
from iosim.units import parse_int

_SHOWN = {
    "operator": "name", "class": "class", "times": "times", "flop": "flop",
    "L2↔DRAM bytes": "dram_bytes", "SM↔L2 bytes": "sm_l2_bytes",
}  # fmt: skip


@click.command()
@click.argument("operator", required=False)
@opt.sizes("m", "n", "k", "N", "d", "heads")
@opt.problem_options("attention")
@opt.machine()
@click.option("--batch", metavar="INT", help="sequences; of one operator, as many of it")
@click.option("--schedule", help="of a product or an attention; by default, the fewest words")
@click.option("--dtype", help="of a word: fp16, bf16, fp32, …", default="fp16")
@opt.as_json
def roofline(
    operator: str | None, sizes: opt.Sizes, gpu: Hardware | None, batch: str | None,
    schedule: str | None, dtype: str, as_json: bool,
) -> None:  # fmt: skip
    """The least time of operators on a machine, and what sets it, by both boundaries."""
    if gpu is None:
        raise InputError("roofline needs a machine: give --gpu, like --gpu h200")
    if operator is None:
        raise InputError(f"name an operator: attention, {', '.join(SINGLE)}")
    report = _of_single(operator, sizes, batch, dtype, schedule, gpu)
    if as_json:
        opt.print_json(_told(report))
        return
    _print(report)


def _of_single(
    name: str, sizes: opt.Sizes, batch: str | None, dtype: str, schedule: str | None,
    gpu: Hardware,
) -> Roofline:  # fmt: skip
    from iosim.problem import word_bytes
    from iosim.roofline import single
    from iosim.roofline.work import works

    word_bytes(dtype)
    if name == "attention":
        told = dict(sizes)
        if batch is not None:
            for x in ("heads", "kv_heads"):
                if x == "heads" or x in told:
                    told[x] = str(parse_int(x, told.get(x, "1")) * parse_int("batch", batch))
        graph = single.attention(opt.problem_from("attention", told), dtype)
    else:
        numbers = {x: parse_int(x, text) for x, text in sizes.items()}
        if batch is not None:
            numbers["b"] = parse_int("batch", batch)
        graph = single.single(name, numbers, dtype)
    roof = Roof.of(gpu)
    return Roofline(roof, dtype, roof.timed_all(works(graph, gpu, schedule=schedule)))


def _told(report: Roofline) -> dict[str, Any]:
    """For scripts."""
    return {
        "machine": report.roof.machine.name, "dtype": report.dtype,
        "launch_s": report.roof.launch_s, "boundaries": report.boundaries(),
        "operators": report.rows(), "classes": report.classes(),
        "totals": report.totals() | {"time_s_by_limit": report.by_limit()},
        "notes": report.roof.unknown(),
    }  # fmt: skip


def _print(report: Roofline) -> None:
    machine = report.roof.machine
    peak = machine.peak(report.dtype) / 1e12
    click.echo(f"{machine.title}: {peak:,.4g} TFLOP/s {report.dtype}; launch of a kernel "
               f"{report.roof.launch_s * 1e6:.4g} µs")  # fmt: skip
    opt.print_table(
        ["boundary", "M (words)", "GB/s", "ridge (FLOP/B)"],
        [[b["boundary"], b["M_words"], _digits(b["bytes_per_s"], 1e9) or "no source",
          _digits(b["ridge_flop_per_byte"])] for b in report.boundaries()],
    )  # fmt: skip
    opt.print_table(
        [*_SHOWN, "FLOP/B (L2↔DRAM)", "bound by", "least µs"],
        [[*(r[x] for x in _SHOWN.values()), _digits(r["intensity"]), _verdict(r),
          _digits(r["time_s"], 1e-6)] for r in report.rows()],
    )  # fmt: skip
    if len(report.kernels) == 1:
        (only,) = report.kernels
        opt.print_table(
            ["limit", "least µs"],
            [[x, _digits(s * only.work.times, 1e-6)] for x, s in only.limits.items()],
        )
        for at, how in only.work.how.items():
            click.echo(f"{at}: {how}")
    for note in report.roof.unknown():
        opt.remark(note)


def _verdict(row: Mapping[str, Any]) -> str:
    bound: str = LIMITS[row["limit"]]
    return f"{bound}, {row['limit']}"


def _digits(value: float | None, unit: float = 1) -> str:
    """Four digits are enough for what is derived."""
    return "" if value is None else f"{value / unit:,.4g}"
