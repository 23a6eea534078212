"""``iosim gpu``: emit, a command for every report, replay, figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from iosim.base import provenance
from iosim.base.writing import out_dir, write_text
from iosim.cli import options as opt
from iosim.cli.renames import option
from iosim.core.problem import size_names
from iosim.core.units import parse_int, parse_tiles, parse_words
from iosim.gpu.errors import GpuError
from iosim.gpu.records.checksums import has_checksums
from iosim.gpu.reports import REPORTS, gpu_report
from iosim.gpu.reports import replay as replay_all
from iosim.gpu.reports._entry import GpuReport, ReportTable, planned
from iosim.gpu.targets import PLAIN, TARGETS
from iosim.report.table import write_csv

capacity = opt.memory("of one program, what tiles are chosen for", default="64Ki")
directory = click.argument("folder", metavar="DIR", type=opt.PATH)


@click.command()
@opt.schedule_argument
@opt.sizes(
    N="sequence length, or m and n of a product (default: 4096)",
    d="head dimension, or k of a product (default: 64)",
    heads="batch × heads, or heads of each sequence (default: 1)",
)
@opt.model
@capacity
@opt.tile_sizes("auto, or B_r=64,B_c=32", default="auto")
@opt.mask
@option(
    "--lockstep",
    "resident",
    old=("--programs",),
    type=opt.Integer(),
    help="programs to keep in lockstep; without it, none waits",
)
@click.option(
    "--every",
    type=opt.Integer(),
    default=64,
    help="column blocks between two barriers, in lockstep",
)
@click.option("--target", default=PLAIN, help=f"target: {', '.join(TARGETS)}")
@click.option("--style", default="", help="style: of hopper, waits-first, persistent, or both")
def emit(
    schedule: str,
    sizes: opt.Sizes,
    model: str | None,
    M: str,
    tiles: str,
    mask: str | None,
    resident: int | None,
    every: int,
    target: str,
    style: str,
) -> None:
    """Print the Triton source of a program."""
    from iosim.core.algorithms import algorithm as find
    from iosim.core.program.walk import bind
    from iosim.core.tiling.gpu import gpu_tiles
    from iosim.gpu.emitter.kernels import Lockstep
    from iosim.gpu.emitter.kernels import emit as source_of

    entry = find(schedule)
    kind = entry.problem.kind
    problem = (
        opt.problem_from(kind, sizes, model) if model else _build_problem(entry.problem, sizes)
    )
    program = entry.program_for(problem)
    if tiles == "auto":
        chosen = gpu_tiles(program, problem, parse_words("M", M)).tiles
    else:
        chosen = parse_tiles(tiles, [p.name for p in program.params])
    lockstep = None
    if resident is not None:
        lockstep = Lockstep(resident, every)
    instance = bind(program, problem.sizes, chosen, opt.masks(mask))
    click.echo(source_of(instance, lockstep, target=target, style=style).source, nl=False)


def _build_problem(problem: type[Any], typed: opt.Sizes) -> Any:
    """What is typed; the rest is in addition to attention of N 4096, d 64 and one head."""
    own, typed = size_names(problem), opt.batched(problem.kind, typed)
    usual = {"N": "4096", "d": "64", "heads": "1"}
    said = {x: typed[x] for x in usual if x in typed and not (x == "N" and x in own)}
    N, d, heads = (parse_int(name, text) for name, text in (usual | said).items())
    mine = {name: text for name, text in typed.items() if name in own or name not in usual}
    told = problem.beside_attention(N, d, heads).as_dict | opt.parsed(problem.kind, mine)
    return opt.noted(problem(**told))


def _report_command(report: GpuReport) -> click.Command:
    """The command of a report: its options, its run, its table."""

    def run(out: Path, dry_run: bool, **typed: Any) -> None:
        from iosim.gpu.reports.runner import run_report, settled

        given = {o.name: o.parse(typed[f"given_{o.name}"]) for o in report.options}
        if dry_run:
            here, ran = settled(given)
            opt.remark(ran.get("instead", ""))
            opt.print_rows(planned(report.plan(here)))
            return
        folder = out_dir(out) / report.name
        origin = provenance.of(provenance.this_command())
        run_report(report, given, folder, origin, opt.remark)
        _finish(report, folder)

    command = click.command(report.name, help=REPORTS[report.name][1])(run)
    for o in report.options:
        name = opt.spelt(o.name)[0]
        flag = f"{name}/--no-{name[2:]}" if isinstance(o.default, bool) else name
        says: dict[str, Any] = {"metavar": o.metavar, "help": o.help, "old": o.old}
        option(flag, f"given_{o.name}", default=o.default, **says)(command)
    click.option("--dry-run", is_flag=True, help="print what would be run; needs no GPU")(command)
    opt.out("records and tables", default="iosim-out/gpu")(command)
    return command


@click.command()
@directory
@click.option("--check/--no-check", default=True, help="exit 1 if a threshold is missed")
@option(
    "--rewrite",
    old=("--write/--no-write",),
    is_flag=True,
    help="write each record's table.csv again",
)
@opt.as_json
def replay(folder: Path, check: bool, rewrite: bool, as_json: bool) -> None:
    """Recompute tables from saved reports with the current model; no GPU is needed."""
    saved = replay_all(folder)
    for one in saved:
        if not as_json:
            click.echo(f"{one.folder.name}: {one.table.summary}")
        if rewrite:
            _write(one.folder, one.table)
    if as_json:
        opt.print_json(
            [
                {
                    "dir": str(one.folder),
                    "report": one.report.name,
                    "summary": one.table.summary,
                    "ok": one.table.good,
                    "rows": one.table.rows,
                }
                for one in saved
            ]
        )
    if bare := ", ".join(one.folder.name for one in saved if not has_checksums(one.folder)):
        opt.remark(f"without checksums, so that changes after the run can't be found: {bare}")
    if missed := ", ".join(one.folder.name for one in saved if not one.table.good):
        opt.remark(f"below what is asked of them: {missed}")
        if check:
            raise click.exceptions.Exit(1)


@click.command()
@directory
@click.argument("stem", type=opt.PATH, help="where to write, no suffix")
def figure(folder: Path, stem: Path) -> None:
    """Plot predicted against measured words at both boundaries, from saved reports."""
    from iosim.gpu.reports.figure import draw
    from iosim.report.plot import figure_name

    for path in draw(replay_all(folder), figure_name(stem)):
        click.echo(str(path))


def _write(folder: Path, table: ReportTable) -> Path:
    """The table, and what else a report writes next to it."""
    for name, data in table.files.items():
        if name.endswith(".csv"):
            write_csv(folder / name, data)
        else:
            write_text(folder / name, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    return write_csv(folder / "table.csv", table.rows)


def _finish(report: GpuReport, folder: Path) -> None:
    table = report.table(folder)
    if table.failed:
        raise GpuError(table.failed)
    path = _write(folder, table)
    opt.print_rows(table.rows, [x for x in report.columns if x in table.rows[0]])
    click.echo(f"{table.summary}\n{path}")
    if not table.good:
        raise click.exceptions.Exit(1)


def __getattr__(name: str) -> click.Command:
    """The command of a report, by the report's name."""
    if name in REPORTS:
        return _report_command(gpu_report(name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
