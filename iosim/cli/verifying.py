"""The commands ``iosim verify`` and ``plot``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iosim.base.errors import InputError
from iosim.base.rows import Values
from iosim.cli import options as opt
from iosim.cli.kinds import known_kind, problem_kind
from iosim.cli.renames import option
from iosim.cli.watching import part_done, watching
from iosim.core.problem import PROBLEMS, Attentions
from iosim.core.units import parse_range

if TYPE_CHECKING:
    from iosim.report.verify import Report

# Entries of S, over all runs, from which on it is said beforehand that they take long.
LONG = 10**8


@click.command()
@problem_kind(*opt.ATTENTIONS, default="attention")
@opt.sizes("N", "d", "heads", "batch")
@opt.memory("like 1024,4096,96KiB; by default a sweep", metavar="WORDS,…")
@opt.problem_options("attention")
@opt.model
@opt.path("--input", ".npz with Q, K, V; of the backward pass also O, dO, L")
@opt.out("the CSV and the figure", default="iosim-out")
@opt.dtype
@opt.workers("processes, 0 for all cores")
@option(
    "--runs", old=("--rows",), is_flag=True, help="print every run, too; the CSV always has them"
)
@opt.as_json
def verify(
    kind: str,
    sizes: opt.Sizes,
    M: str | None,
    model: str | None,
    input: Path | None,
    out: Path,
    dtype: str | None,
    workers: int,
    runs: bool,
    as_json: bool,
) -> None:
    """Run every attention schedule over a sweep of M, and check every number against every other.

    With --problem attention-backward, every schedule of its gradients.  By default one head of
    GPT-2's size, N 1024 and d 64, without a mask.  Exit code 1 if a check fails.
    """
    from iosim.base import writing
    from iosim.report import plot
    from iosim.report import verify as main_job
    from iosim.report.inputs import read_inputs

    problem_of = PROBLEMS[known_kind(kind, opt.ATTENTIONS)]
    hbm: Values | None = None
    if input is not None:
        if model is not None:
            raise InputError(f"{input} has sizes of its own: leave --model out")
        problem, hbm = read_inputs(input, problem_of)
        shapes = {
            **problem.as_dict,
            "N_k": problem.keys,
            "d_v": problem.values,
            "kv_heads": problem.groups,
        }
        options = opt.parsed(problem.kind, sizes)
        for name in shapes.keys() & options.keys():
            if (value := options.pop(name)) != shapes[name]:
                flag = f"--{name.replace('_', '-')}"
                raise InputError(
                    f"{flag} is {value} and {input} has {shapes[name]}: leave {flag} out"
                )
        problem = opt.noted(problem_of(**problem.as_dict, **options))
    else:
        usual = {} if model else {"N": "1024", "d": "64"}
        problem = opt.problem_from(kind, {**usual, **sizes}, model)
    memories = None if M is None else parse_range("M", M, dtype)
    where = writing.out_dir(out, keep=False, files=main_job.FILES)
    with watching() as show:
        report = main_job.verify(
            problem, sizes=memories, hbm=hbm, workers=workers or None, tick=_telling(problem, show)
        )
        show(lambda seconds: "drawing")
        made = writing.publish(
            where, lambda part: plot.with_table(part / main_job.FILES[0], main_job.table(report))
        )
    if as_json:
        opt.print_json(main_job.as_dict(report) | {"wrote": [str(x) for x in made]})
        raise click.exceptions.Exit(not report.ok)
    if runs:
        _print_runs(report)
    _print_schedules(report)
    opt.print_written(made)
    for failure in report.failures:
        click.echo(f"FAILED: {failure}", err=True)
    checked = f"{len(report.points)} runs, {len(report.failures)} failures"
    click.echo(f"{'all checks passed' if report.ok else 'CHECKS FAILED'}: {checked}")
    if not report.ok:
        raise click.exceptions.Exit(1)


def _print_runs(report: Report) -> None:
    opt.print_table(
        [
            "algorithm",
            "M",
            "loads",
            "stores",
            "words",
            "formula",
            "peak",
            "max error",
            "class",
            "lower bound",
            "gap",
            "ok",
        ],
        [
            [
                p.algorithm,
                p.M,
                p.counts.load_words,
                p.counts.store_words,
                p.counts.total_words,
                p.formula_words,
                p.peak_words,
                f"{p.max_error:.0e}",
                p.klass,
                f"{p.lower_bound_words:,.0f}",
                f"{p.gap:.2f}",
                "no" if p.failures else "yes",
            ]
            for p in report.points
        ],
    )
    click.echo()


def _print_schedules(report: Report) -> None:
    """A row for each schedule, and what the columns hold where that is not a number."""
    from iosim.report.verify import SLOPE_TOLERANCE, by_schedule

    def holds(value: bool | None) -> str:
        return {True: "yes", False: "NO", None: ""}[value]

    rows = []
    for x in by_schedule(report):
        slope = x["slope"] or {}
        fit = "too few points" if slope else ""
        if slope.get("fitted") is not None:
            fit = f"{slope['fitted']:+.3f} ± {slope['error']:.3f} ({slope['expected']:+.1f})"
        rows.append(
            [
                x["algorithm"],
                f"{x['M'][0]:,} to {x['M'][1]:,}" if x["M"] else "",
                x["runs"],
                f"{x['skipped']}, M < {x['least_M']:,}" if x["skipped"] else "0",
                "" if x["max_error"] is None else f"{x['max_error']:.0e}",
                holds(x["counts"]),
                holds(x["peak"]),
                f"{x['gap'][0]:.2f} to {x['gap'][1]:.2f}, {x['class']}" if x["gap"] else "",
                fit,
            ]
        )
    opt.print_table(
        [
            "schedule",
            "M",
            "runs",
            "skipped",
            "worst error",
            "counts equal",
            "peak within M",
            "gap, class of the bound",
            "exponent of M (expected)",
        ],
        rows,
    )
    click.echo(
        f"allowed: errors up to {report.tolerance:.1e}, exponents within {SLOPE_TOLERANCE} of the "
        "expected; the gap is words moved over the largest lower bound of the class"
    )


def _telling(
    problem: Attentions, show: Callable[[Callable[[float], str]], None]
) -> Callable[[int, int], None]:
    """What tells how many runs are done; and once, before the first, that they take long."""
    entries = problem.heads * problem.N * problem.keys
    begun = False

    def tick(done: int, of: int) -> None:
        nonlocal begun
        if not begun and of * entries >= LONG:
            # Here inputs that can't be used have been refused.
            opt.remark(
                f"{of:,} runs, each with S of {entries:,} entries, take long: fewer values of M, "
                "or smaller sizes, take less"
            )
        begun = True
        show(part_done(done, of, "runs"))

    return tick


@click.command()
@click.argument("table", type=opt.PATH, help="a CSV that iosim wrote, or the directory of a sweep")
@opt.save("the figure, a name without a suffix", old=("--out",))
def plot(table: Path, save: Path | None) -> None:
    """Draw the figure of a table, or of a sweep."""
    from iosim.report.plot import figure_name, plot_table, save_styled

    if table.is_dir():
        from iosim.sweep import Folder

        # The name of a directory may have dots, and may be ".".
        stem = Path(os.path.abspath(table)) if table.name in ("", "..") else table
        folder = Folder.open(table)
        opt.remark(folder.missing)
        made = save_styled(folder.plot(), stem if save is None else figure_name(save))
    else:
        beside = Path(os.path.splitext(table)[0])
        if table.suffix == ".parquet" and (where := _sweep_of(table)) is not None:
            opt.remark(_describe_missing_shards(table, where))
            # Next to the sweep: its own directory has rows only.
            beside = Path(os.path.relpath(f"{where}-{table.stem}"))
        made = plot_table(table, beside if save is None else figure_name(save))
    for path in made:
        click.echo(f"wrote {path}")


def _sweep_of(shard: Path) -> Path | None:
    """The directory of the sweep of which a Parquet file is a shard; None of any other file."""
    from iosim.sweep.manifest import MANIFEST

    where = Path(os.path.abspath(shard)).parent.parent
    return where if (where / MANIFEST).is_file() else None


def _describe_missing_shards(shard: Path, where: Path) -> str:
    """What is left out where a shard is one of several; "" for a sweep's only one."""
    from iosim.sweep import Folder

    if len(shards := Folder.open(where).shards()) < 2:
        return ""
    return (
        f"{shard} is one of {len(shards):,} shards of a sweep, and the rows of the others are left "
        f"out: iosim plot {os.path.relpath(where)} draws all"
    )
