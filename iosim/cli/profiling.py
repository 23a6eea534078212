"""The command ``iosim profile``: what bounds each kernel of a run or of a report."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iosim.base.errors import InputError
from iosim.base.renamed import format_renaming
from iosim.base.rows import Values
from iosim.cli import options as opt
from iosim.cli.launching import launch_options, read_optional_launch
from iosim.gpu.profiling.kernels import ProfiledKernel, kernels
from iosim.gpu.profiling.launch import KernelLaunch
from iosim.gpu.profiling.reading import versions as versions_of
from iosim.gpu.profiling.running import Profiling
from iosim.gpu.profiling.running import run as run_profiled
from iosim.gpu.profiling.running import versions as versions_here
from iosim.gpu.profiling.show import details, figure, overview, roofs, sentences, to_dict
from iosim.gpu.profiling.verdict import judge
from iosim.models.hardware import Hardware

if TYPE_CHECKING:
    from iosim.cli.comparing import CountedLaunch
    from iosim.cli.expecting import Expectation

_COMMAND = "the command to be profiled"


class _WithCommand(click.Command):
    """What comes after ``--`` is a command of its own, whatever it looks like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND …]"]


@click.command(cls=_WithCommand)
@click.argument("report", nargs=-1, type=opt.PATH, metavar="[REPORT]")
@opt.machine("what it ran on; without it, what the report names")
@click.option(
    "--top",
    type=opt.Integer(0),
    show_default="3; all with --json",
    help="kernels, slowest first; 0 for all",
)
@click.option(
    "--kernel",
    metavar="REGEX",
    help="only kernels whose name matches; of a COMMAND, whose function's name matches",
)
@click.option(
    "--launches",
    type=opt.Integer(0),
    default=0,
    help="launches to profile, of a COMMAND; 0 for all",
)
@click.option(
    "--skip",
    type=opt.Integer(0),
    default=0,
    help="launches to skip at the start, of a COMMAND",
)
@click.option(
    "--marked", is_flag=True, help="only what is between cudaProfilerStart and Stop, of a COMMAND"
)
@click.option(
    "--vector-flop/--no-vector-flop",
    default=True,
    help="count FLOP outside of matrix units, of a COMMAND, by patching kernels",
)
@click.option(
    "--details/--no-details",
    "in_full",
    default=True,
    help="print more: each quantity with its counter",
)
@opt.schedule("set what its kernels should move beside what they moved; needs its sizes")
@click.option(
    "--expect",
    "triton_kernel",
    metavar="FILE::FUNCTION",
    help="a Triton kernel: compare its launches with its own count; needs --grid and arguments",
)
@launch_options(required=False)
@opt.sizes()
@opt.tile_sizes(
    "of --schedule: infer (by a kernel's name or grid, if not given), search, or B_r=128,B_c=64"
)
@opt.memory("of one program, with --tiles search; 64Ki if not given")
@opt.dtype_option("of --schedule: fp16 (if not given), bf16, fp32")
@opt.out("a record of what was read, which names no host and no user")
@opt.as_json
@click.pass_context
def profile(
    ctx: click.Context,
    /,
    report: tuple[Path, ...],
    machine: Hardware | None,
    top: int | None,
    kernel: str | None,
    launches: int,
    skip: int,
    marked: bool,
    vector_flop: bool,
    in_full: bool,
    schedule: str | None,
    triton_kernel: str | None,
    sizes: opt.Sizes,
    tiles: str | None,
    M: str | None,
    dtype: str | None,
    out: Path | None,
    as_json: bool,
    **launch: Any,
) -> None:
    """Say what bounds each kernel of a program or of an ncu report, and by which counters.

    REPORT is what `ncu --csv` printed, a .ncu-rep, or the folder of a record.  A COMMAND is run
    under ncu with the counters that are needed.
    """
    pattern = _pattern(kernel)
    more = {"tiles": tiles, "M": M, "dtype": dtype}
    wanted = _read_comparison(schedule, triton_kernel, sizes, more, launch)
    _check_out(out)
    command: tuple[str, ...] | None = ctx.meta.get(_COMMAND)
    if command is not None:
        if report or not command:
            raise InputError("give a report, or a command after --: iosim profile -- python x.py")
        only = kernel or str(getattr(wanted, "kernel", ""))
        asked = Profiling(command, only, launches, skip, marked, vector_flop)
        read, source, made = run_profiled(asked), "the command", versions_here
    else:
        read, source = _read(report)
        made = functools.partial(versions_of, report[0])
    chosen = [x for x in read if pattern.search(x.name)]
    if not chosen:
        names = ", ".join(dict.fromkeys(x.short for x in read))
        raise InputError(f"no kernel of {source} has {kernel!r} in its name: there are {names}")
    if out is not None and command is not None:
        _save(chosen, out, made())  # at once: what was measured is kept, whatever follows
    compared = None
    if wanted is not None:
        compared = _compare(chosen, wanted, machine, kernel is not None, as_json)
    if out is not None and command is None:
        _save(chosen, out, made())
    if compared is not None:
        compared()
        return
    found = kernels(chosen, machine)
    most = (0 if as_json else 3) if top is None else top
    shown = found[:most] if most else found
    if as_json:
        opt.print_json([to_dict(k, judge(k)) for k in shown])
        return
    _print(found, shown, len(chosen), source)
    for number, k in enumerate(shown, 1):
        _print_kernel(number, k, in_full)


def _read_comparison(
    schedule: str | None,
    triton_kernel: str | None,
    sizes: opt.Sizes,
    more: Mapping[str, str | None],
    launch: Values,
) -> Expectation | CountedLaunch | None:
    """What is compared with; InputError for two, and for options of one that isn't asked for."""
    if triton_kernel is not None and "::" not in triton_kernel:  # as it was called before
        opt.remark(format_renaming("--expect", "--schedule"))
        schedule, triton_kernel = opt.SCHEDULE.convert(triton_kernel, None, None), None
    typed = [*sizes, *(name for name, value in more.items() if value is not None)]
    if schedule is None and typed:
        raise InputError(f"{opt.spelt(typed[0])[0]} is of --schedule: name one")
    if triton_kernel is not None and schedule is not None:
        raise InputError("--expect FILE::FUNCTION and --schedule are two comparisons: give one")
    call = read_optional_launch("--expect FILE::FUNCTION", triton_kernel, launch)
    if call is not None:
        from iosim.cli.comparing import expect_launch

        return expect_launch(call)
    if schedule is None:
        return None
    from iosim.cli.expecting import parse_expectation

    return parse_expectation(schedule, sizes, **more)


def _compare(
    chosen: Sequence[KernelLaunch],
    wanted: Expectation | CountedLaunch,
    machine: Hardware | None,
    named: bool,
    as_json: bool,
) -> Callable[[], None]:
    """What prints launches beside what is expected of them; InputError where none fits."""
    from iosim.cli import comparing, expecting

    if not isinstance(wanted, expecting.Expectation):
        same = comparing.find_launches(chosen, wanted, machine, named)
        return functools.partial(comparing.print_compared, wanted, same, as_json)
    found = kernels(chosen, machine, apart=1)
    beside = expecting.expected(found, wanted, machine=machine, chosen=named)
    if as_json:
        return functools.partial(opt.print_json, expecting.to_dicts(beside))
    others = len(found) - len(beside)
    return functools.partial(expecting.print_expected, wanted, beside, others)


def _read(report: Sequence[Path]) -> tuple[tuple[KernelLaunch, ...], str]:
    from iosim.gpu.profiling.reading import read

    if len(report) != 1:
        raise InputError(
            "give one report, or a command after --: iosim profile my.csv, or "
            "iosim profile -- python x.py"
        )
    return read(report[0]), str(report[0])


def _pattern(kernel: str | None) -> re.Pattern[str]:
    try:
        return re.compile(kernel or "")
    except re.error as error:
        raise InputError(f"--kernel {kernel!r} is not a regular expression: {error}") from None


def _check_out(out: Path | None) -> None:
    if out is not None:
        from iosim.base.writing import out_dir
        from iosim.gpu.profiling.saving import check_free

        out_dir(out, keep=False)
        check_free(out)


def _save(chosen: Sequence[KernelLaunch], out: Path, versions: dict[str, str]) -> None:
    from iosim.base import provenance
    from iosim.gpu.profiling.saving import save

    # What was typed may have a user's paths.
    save(chosen, out, versions | provenance.of("iosim profile"))
    saved = f"{len(chosen):,} launch{'es' * (len(chosen) != 1)} saved in {out}"
    opt.remark(f"{saved}: iosim profile {out} reads the record again")


def _print(
    found: Sequence[ProfiledKernel], shown: Sequence[ProfiledKernel], launches: int, source: str
) -> None:
    machines = dict.fromkeys(k.machine.title if k.machine else "" for k in found)
    named = " and ".join(x for x in machines if x)
    click.echo(
        f"{source}: {_many(len(found), 'kernel')}, {_many(launches, 'launch')}"
        f"{f', {named}' if named else ''}"
    )
    if not named:
        opt.remark("the report names no machine that is known: --machine NAME adds peaks and roofs")
    opt.print_rows(overview(found)[: len(shown)])
    if rest := found[len(shown) :]:
        time = sum(k.time_s or 0 for k in rest)
        whole = sum(k.time_s or 0 for k in found)
        share = f", {figure(100 * time / whole)}% of the time" if whole else ""
        click.echo(f"{_many(len(rest), 'more kernel')}{share}: --top 0 shows all")


def _print_kernel(number: int, k: ProfiledKernel, in_full: bool) -> None:
    sizes = "".join(
        f", {what} {size}" for what, size in (("grid", k.grid), ("block", k.block)) if size
    )
    click.echo(f"\n{number}. {k.name}{sizes}")
    for said in sentences(k, judge(k)):
        click.echo(f"   {said}")
    if rows := roofs(k):
        opt.print_rows(rows)
    if in_full:
        opt.print_table(["quantity", "value", "counter"], details(k))


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 'es' if what.endswith('h') else 's'}"
