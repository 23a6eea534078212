"""verify, plot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from iosim.cli import options as opt
from iosim.errors import InputError
from iosim.problem import Attention, model
from iosim.units import parse_int, parse_range

app = typer.Typer()


@app.command("verify")
def verify_(
    N: opt.N = None, d: opt.D = None, heads: opt.Heads = None,
    M: Annotated[str | None, typer.Option("--M", metavar="LIST", help="values of M, like "
                                          "1024,4096,96KiB; by default a sweep")] = None,
    model_: Annotated[str, typer.Option("--model", help="sizes of a known model, one head")]
    = "gpt2-medium",
    input_: Annotated[Path | None, typer.Option("--input", help=".npz with Q, K, V")] = None,
    out: Annotated[Path, typer.Option(help="where the CSV and the figure go")] = Path("iosim-out"),
    dtype: opt.Dtype = None,
    workers: Annotated[int, typer.Option(help="processes, 0 for all cores", min=0)] = 0,
) -> None:  # fmt: skip
    """Run every attention schedule over a sweep of M, and check every number against every other.

    Exit code 1 if a check fails.
    """
    from iosim.checks import verify
    from iosim.output import plot, table

    hbm: Mapping[str, Any] | None = None
    base = model(model_)
    if input_ is not None:
        problem, hbm = verify.read_inputs(input_)
        for name, text in (("N", N), ("d", d), ("heads", heads)):
            if text is not None and parse_int(name, text) != problem.sizes[name]:
                raise InputError(
                    f"--{name} is {text} and {input_} has {problem.sizes[name]}: leave --{name} out"
                )
    else:
        problem = Attention(
            N=base.N if N is None else parse_int("N", N),
            d=base.d if d is None else parse_int("d", d),
            heads=1 if heads is None else parse_int("heads", heads),
        )
    sizes = None if M is None else parse_range("M", M, dtype)
    where = table.out_dir(out, keep=False)
    from rich.console import Console
    from rich.progress import Progress

    screen = Console(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("running schedules", total=None)
        report = verify.verify(
            problem, sizes=sizes, hbm=hbm, workers=workers or None,
            tick=lambda done, of: progress.update(task, completed=done, total=of),
        )  # fmt: skip
        progress.update(task, description="drawing", total=None)
        table.publish(where, lambda part: plot.with_table(
            part / "verify.csv", verify.table(report), plot.plot_words))  # fmt: skip
    opt.print_table(
        ["algorithm", "M", "loads", "stores", "words", "formula", "peak", "max error",
         "lower bound", "gap", "ok"],
        [
            [p.algorithm, f"{p.M:,}", f"{p.counts.load_words:,}", f"{p.counts.store_words:,}",
             f"{p.counts.total_words:,}", f"{p.formula_words:,}", f"{p.peak_words:,}",
             f"{p.max_error:.0e}", f"{p.lower_bound_words:,.0f}", f"{p.gap:.2f}",
             "no" if p.failures else "yes"]
            for p in report.points
        ],
    )  # fmt: skip
    for s in report.slopes:
        fit = "too few points" if s.fitted is None else f"{s.fitted:+.3f} over {s.points} points"
        typer.echo(f"exponent of M, {s.algorithm}, {s.side}: {fit} (expected {s.expected:+.1f})")
    typer.echo(f"wrote {where / 'verify.csv'}, {where / 'verify.png'}, {where / 'verify.svg'}")
    for failure in report.failures:
        typer.echo(f"FAILED: {failure}", err=True)
    checked = f"{len(report.points)} runs, {len(report.failures)} failures"
    typer.echo(f"{'all checks passed' if report.ok else 'CHECKS FAILED'}: {checked}")
    if not report.ok:
        raise typer.Exit(1)


@app.command("plot")
def plot_(
    table: Annotated[Path, typer.Argument(help="a CSV that iosim wrote")],
    out: Annotated[Path | None, typer.Option(help="stem of the figure")] = None,
) -> None:
    """Draw the figure of a table."""
    from iosim.output import plot

    for path in plot.plot_table(table, out or table.with_suffix("")):
        typer.echo(f"wrote {path}")
