"""The command ``iosim devices``: schedules over several devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from iosim.base.cells import cell
from iosim.base.errors import InputError
from iosim.base.rows import Row, Rows
from iosim.base.validate import check_size
from iosim.cli import options as opt
from iosim.cli.renames import option
from iosim.core.problem import PROBLEMS
from iosim.core.units import parse_int
from iosim.devices import MOST_DEVICES, SHARDINGS, DeviceSchedule, all_schedules, on_devices
from iosim.devices import schedule as find_schedule
from iosim.devices.program import show as show_program
from iosim.devices.report import DevicesReport, devices_report
from iosim.devices.schedules import named
from iosim.models.hardware import Hardware

# Sizes of problems of several devices, by name: those of all problems have the help of all.
_SIZES = {
    axis.name: opt.SIZES.get(axis.name, axis.says)
    for one in all_schedules()
    for axis in one.problem.axes()
    if axis.name != "devices"
}


@click.command()
@click.argument("name", required=False, metavar="[SCHEDULE]", type=opt.Named(named))
@click.option("--P", "P", metavar="INT", help=f"devices: at most {MOST_DEVICES}")
@opt.sizes(*_SIZES, "batch", **_SIZES)
@opt.problem_options("attention")
@opt.model
@option(
    "--sharding",
    old=("--deal",),
    default="contiguous",
    help=f"rows to devices: {', '.join(SHARDINGS)}",
)
@opt.machine("times on one of `iosim machines`, or of a TOML file")
@opt.dtype_option("and of products: fp16, bf16, fp32, …", default="fp16")
@click.option(
    "--latency-us", type=opt.MICROSECONDS, help="α of a message; by default a launch of the machine"
)
@click.option("--show", is_flag=True, help="print the schedule: as pseudo-code")
@opt.as_json
def devices(
    name: str | None,
    P: str | None,
    sizes: opt.Sizes,
    model: str | None,
    sharding: str,
    machine: Hardware | None,
    dtype: str,
    latency_us: float | None,
    show: bool,
    as_json: bool,
) -> None:
    """Count words between P devices, by link, with bounds and times; or list the schedules."""
    if name is None:
        if P is not None or sizes or model is not None:
            raise InputError("sizes are of a schedule: name one that iosim devices lists")
        _list(as_json)
        return
    entry = find_schedule(name)
    if show:
        text = show_program(entry.program)
        if as_json:
            told = {"schedule": entry.name, "title": entry.title, "program": text.splitlines()}
            opt.print_json(told)
        else:
            click.echo(text)
        return
    if P is None:
        raise InputError("P is missing: give --P, how many devices there are")
    count = parse_int("P", P)
    problem = _problem(entry, count, sizes, model)
    instance = on_devices(name, problem, count, sharding)
    latency = _latency(latency_us, machine)
    report = devices_report(instance, machine, dtype, latency)
    if as_json:
        opt.print_json(_plain(report, machine, dtype))
    else:
        _print(report, machine, dtype, latency)
    if idle := report.counts.idle:
        which = ", ".join(map(str, idle[:8])) + ", …" * (len(idle) > 8)
        opt.remark(
            f"{len(idle):,} of {count:,} devices have nothing to do ({which}): "
            f"--P {count - len(idle)} does the same with those that have"
        )
    if report.untimed:
        opt.remark(f"words only, no times: {report.untimed}")


def _list(as_json: bool) -> None:
    rows = [
        {
            "schedule": one.name,
            "problem": one.problem.kind,
            "title": one.title,
            "source": one.source,
            "sizes": [a.name for a in one.problem.axes() if a.name != "devices"],
            "options": [*one.options, *(["sharding"] if one.sharded else [])],
        }
        for one in all_schedules()
    ]
    if as_json:
        opt.print_json(rows)
        return
    opt.print_table(
        ["schedule", "what it does", "sizes", "options"],
        [
            [row["schedule"], row["title"], *(_flags(row[x]) for x in ("sizes", "options"))]
            for row in rows
        ],
    )


def _flags(names: Sequence[str]) -> str:
    return " ".join(opt.spelt(x)[0] for x in names)


def _latency(microseconds: float | None, gpu: Hardware | None) -> float | None:
    """α in seconds; InputError where nothing is timed."""
    if microseconds is None:
        return None
    if gpu is None:
        raise InputError("--latency-us says nothing without times: give --machine, too")
    return microseconds * 1e-6


def _problem(entry: DeviceSchedule, P: int, typed: opt.Sizes, model: str | None) -> Any:
    """The schedule's problem from what is typed."""
    cls = entry.problem
    if cls.kind in PROBLEMS:
        return opt.problem_from(cls.kind, typed, model)
    names = [axis.name for axis in cls.axes() if axis.name != "devices"]
    every = ", ".join(opt.spelt(x)[0] for x in names)
    if model is not None:
        raise InputError(opt.other_sizes(model, cls.kind, every))
    if unknown := [x for x in typed if x not in names]:
        raise InputError(f"{cls.kind} has no size {unknown[0]}: give {every}")
    if missing := [x for x in names if x not in typed]:
        raise InputError(
            f"{cls.kind} needs {', '.join(opt.spelt(x)[0] for x in missing)}: give {every}"
        )
    given = {x: parse_int(x, text) for x, text in typed.items()}
    if len(names) < len(cls.axes()):
        given["devices"] = check_size("P", P)
    return cls(**given)


def _links(report: DevicesReport) -> Rows:
    """Links by the distance from sender to receiver."""
    P = report.instance.P
    found: dict[int, list[int]] = {}
    for (p, q), words in report.counts.links.items():
        found.setdefault((q - p) % P, []).append(words)
    return [
        {
            "link": f"p → p + {by} mod P",
            "links": len(words),
            "least_words": min(words),
            "most_words": max(words),
            "words": sum(words),
        }
        for by, words in sorted(found.items())
    ]


def _print(
    report: DevicesReport, gpu: Hardware | None, dtype: str, latency_s: float | None
) -> None:
    instance, counts = report.instance, report.counts
    sharded = f", sharding of rows: {instance.sharding.name}" if instance.schedule.sharded else ""
    told = opt.format_problem(instance.problem)
    click.echo(f"{instance.schedule.title}: {told}, P = {instance.P:,}{sharded}")
    if counts.links:
        opt.print_table(
            ["link", "links", "words of each, least", "most", "of all"],
            [list(row.values()) for row in _links(report)],
        )
    formula = f" = {report.total}" if instance.P > 1 else ""
    opt.print_table(
        ["what", "least device", "busiest device", "all devices"],
        [
            ["words sent", min(counts.sent), max(counts.sent), counts.total],
            ["words received", min(counts.received), max(counts.received), counts.total],
            ["FLOP of products", min(counts.flop), max(counts.flop), sum(counts.flop)],
            ["peak, words of memory", min(counts.peak), max(counts.peak), sum(counts.peak)],
        ],
    )
    click.echo(f"words over all links: {counts.total:,}{formula}")
    if instance.P > 1 and report.sent:
        click.echo(f"device p sends {report.sent}; |X[k]| is the length of part k mod P of axis X")
    if report.bounds:
        opt.print_table(
            ["lower bound", "of", "words", "schedule", "gap", "source"],
            [
                [
                    x.name,
                    "all links" if x.of == "total" else "one device",
                    x.words,
                    x.moved,
                    x.outside or ("says nothing" if x.gap is None else f"{x.gap:.3f}"),
                    x.source,
                ]
                for x in report.bounds
            ],
        )
    if report.times is not None and gpu is not None:
        assert gpu.link_bytes_per_s is not None
        times = report.times
        alpha = gpu.launch_s if latency_s is None else latency_s
        click.echo(
            f"{gpu.title}: {gpu.peak(dtype) / 1e12:g} TFLOP/s {dtype} "
            f"({gpu.source(f'peak {dtype}')}); "
            f"{gpu.link_bytes_per_s / 2e9:g} GB/s each way ({gpu.source('link_bytes_per_s')}); "
            f"α = {alpha * 1e6:g} µs"
        )
        opt.print_table(
            ["time", "µs"],
            [
                ["compute", _us(times.compute_s)],
                ["communication", _us(times.communication_s)],
                ["without overlap: their sum", _us(times.apart_s)],
                ["with all overlap: their maximum", _us(times.overlapped_s)],
                ["with the overlap of the schedule's steps", _us(times.written_s)],
            ],
        )


def _us(seconds: float) -> str:
    value = float(f"{seconds * 1e6:.4g}")
    return cell(int(value) if value >= 1000 else value)


def _plain(report: DevicesReport, gpu: Hardware | None, dtype: str) -> Row:
    """For scripts: words, FLOP and seconds."""
    instance, counts, times = report.instance, report.counts, report.times
    return {
        "schedule": instance.schedule.name,
        "problem": instance.problem.as_dict,
        "P": instance.P,
        "deal": instance.sharding.name,
        "links": [{"from": p, "to": q, "words": n} for (p, q), n in counts.links.items()],
        "sent": counts.sent,
        "received": counts.received,
        "flop": counts.flop,
        "idle": counts.idle,
        "peak_words": counts.peak,
        "total_words": counts.total,
        "formula": report.total,
        "sent_formula": report.sent or None,
        "bounds": [asdict(one) for one in report.bounds],
        "machine": gpu and gpu.name,
        "dtype": dtype,
        "untimed": report.untimed or None,
        "times": times
        and {
            "compute_s": times.compute_s,
            "communication_s": times.communication_s,
            "sum_s": times.apart_s,
            "max_s": times.overlapped_s,
            "written_s": times.written_s,
        },
    }
