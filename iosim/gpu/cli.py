"""``iosim gpu``: emit, validate, bench, dram, paper, replay, figure."""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from iosim.errors import InputError, IosimError
from iosim.gpu.errors import GpuError
from iosim.gpu.reports.tables import TABLES, Table, replay
from iosim.output.table import out_dir, write_csv
from iosim.units import parse_int, parse_tiles, parse_words

app = typer.Typer(
    help="The same programs on a GPU: emitted as Triton, run, and counted by the hardware.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Out = Annotated[Path, typer.Option(help="where records and tables go")]
OUT = Path("iosim-out/gpu")
Capacity = Annotated[str, typer.Option("--M", metavar="WORDS|SIZE", help="fast memory")]
Dtype = Annotated[str, typer.Option(help="fp16, bf16 or fp32")]

# What a table shows on a terminal; the CSV has every column.
SHOWN = {
    "validate": ("algorithm", "sizes", "dtype", "M_words", "model_load", "kernel_load",
                 "sram_load", "difference_load", "explained_load", "model_store", "kernel_store",
                 "sram_store", "difference_store", "explained_store", "error", "time_s",
                 "model_gb_per_s", "peak_bytes", "shared_bytes", "register_bytes", "failed"),
    "dram": ("N", "d", "B_r", "stages", "in_step", "programs", "waves", "predicted", "measured",
             "off", "drift_least", "drift_most", "spread", "window", "time_s", "of_plain",
             "failed"),
}  # fmt: skip


def _command() -> str:
    # `python -m iosim gpu …` says the group itself, `python -m iosim.gpu …` doesn't.
    group = ["gpu"] if Path(sys.argv[0]).parts[-2:] == ("gpu", "__main__.py") else []
    return shlex.join(["iosim", *group, *sys.argv[1:]])


def _list(text: str, name: str) -> tuple[int, ...]:
    return tuple(parse_int(name, part.strip()) for part in text.split(","))


def _dtype(text: str) -> str:
    from iosim.gpu.run.memory import DTYPES

    if text not in DTYPES:
        raise InputError(f"dtype {text!r} has no GPU form: choose {', '.join(DTYPES)}")
    return text


@app.command()
def emit(
    algorithm: Annotated[str, typer.Argument(metavar="ALGO")],
    N: Annotated[
        str, typer.Option("--N", help="sequence length, or m and n of a product")
    ] = "4096",
    d: Annotated[str, typer.Option("--d", help="head size; k of a product")] = "64",
    heads: Annotated[str, typer.Option(help="batch × heads")] = "1",
    M: Capacity = "64Ki",
    tiles: Annotated[str, typer.Option(help="auto, or B_r=64,B_c=32")] = "auto",
    programs: Annotated[int, typer.Option(help="keep this many programs in step")] = 0,
) -> None:
    """Print the Triton source of a program."""
    from iosim.algorithms import algorithm as find
    from iosim.gpu.emitter.kernels import InStep
    from iosim.gpu.emitter.kernels import emit as compile_
    from iosim.gpu.run.job import problem_of
    from iosim.program.walk import bind
    from iosim.tiling.gpu import gpu_tiles

    entry = find(algorithm)
    problem = problem_of(
        entry.problem, parse_int("N", N), parse_int("d", d), parse_int("heads", heads)
    )
    if tiles == "auto":
        chosen = gpu_tiles(entry.program, problem, parse_words("M", M)).tiles
    else:
        chosen = parse_tiles(tiles)
    in_step = InStep(programs) if programs else None
    typer.echo(compile_(bind(entry.program, problem.sizes, chosen), in_step).source, nl=False)


@app.command()
def validate(
    out: Out = OUT,
    algorithms: Annotated[str, typer.Option(help="names, or all")] = "all",
    d: Annotated[str, typer.Option("--d", help="head dimensions")] = "64,128,256",
    M: Annotated[str, typer.Option("--M", help="capacities in words")] = "8192,16384,32768,65536",
    N: Annotated[str, typer.Option("--N", help="sequence lengths")] = "1024,1000,1001,4096",
    dtype: Annotated[str, typer.Option(help="fp16, bf16, fp32, or several")] = "fp16",
    counters: Annotated[bool, typer.Option(help="read hardware counters with ncu")] = True,
) -> None:
    """Model, kernel and hardware, byte for byte, over algorithms × d × M × N."""
    from iosim.algorithms import ALGORITHMS as KNOWN
    from iosim.algorithms import algorithm as find
    from iosim.gpu.reports import runs
    from iosim.gpu.run import job as jobs

    names = tuple(KNOWN) if algorithms == "all" else tuple(algorithms.split(","))
    for name in names:
        find(name)
    dtypes = tuple(_dtype(x) for x in dtype.split(","))
    todo = jobs.sweep(names, _list(d, "d"), _list(M, "M"), _list(N, "N"), dtypes)
    if not todo:
        least = jobs.smallest_capacity(names, _list(d, "d"))
        raise InputError(f"M = {M} words holds no 16 x 16 tile of {algorithms}: use M >= {least}")
    folder = out_dir(out) / "validate"
    _warn(runs.run_validate(folder, _command(), todo, counters=counters))
    _finish("validate", folder)


@app.command()
def bench(
    out: Out = OUT,
    M: Capacity = "64Ki",
    N: Annotated[str, typer.Option("--N")] = "1024,2048,4096,8192,16384,32768,65536",
    d: Annotated[str, typer.Option("--d")] = "64,128",
) -> None:
    """The emitted flash2 beside PyTorch's fused and standard attention."""
    from iosim.gpu.reports import runs

    folder = out_dir(out) / "bench"
    asked: dict[str, object] = {
        "M": parse_words("M", M, "fp16"),
        "lengths": _list(N, "N"),
        "head_sizes": _list(d, "d"),
    }
    runs.run_bench(folder, _command(), asked)
    _finish("bench", folder)


@app.command()
def dram(out: Out = OUT) -> None:
    """DRAM reads of flash2 beside the wave and drift models, plain and in step."""
    from iosim.gpu.reports import runs

    folder = out_dir(out) / "dram"
    _must_count(runs.run_dram(folder, _command()))
    _finish("dram", folder)


@app.command()
def paper(out: Out = OUT) -> None:
    """The FlashAttention paper's HBM traffic, repeated with DRAM counters."""
    from iosim.gpu.reports import runs

    folder = out_dir(out) / "paper"
    _must_count(runs.run_paper(folder, _command()))
    _finish("paper", folder)


@app.command("replay")
def replay_(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    check: Annotated[bool, typer.Option(help="exit 1 if a bar is missed")] = True,
    write: Annotated[bool, typer.Option(help="write each record's table.csv anew")] = False,
) -> None:
    """Tables from saved reports, with today's model and no GPU."""
    tables = replay(folder)
    for path, table in tables.items():
        typer.echo(f"{path.name}: {table.summary}")
        if write:
            write_csv(path / "table.csv", table.rows)
    if check and not all(table.good for table in tables.values()):
        raise typer.Exit(1)


@app.command()
def figure(
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    stem: Annotated[Path, typer.Argument(metavar="STEM", help="where to write, no suffix")],
) -> None:
    """Predicted against measured at both boundaries, from saved reports."""
    from iosim.gpu.reports.figure import draw

    for path in draw(replay(folder).values(), stem):
        typer.echo(str(path))


def _warn(text: str) -> None:
    if text:
        typer.echo(f"iosim: note: {text}", err=True)


def _must_count(warning: str) -> None:
    if warning:
        raise GpuError(warning)


def _finish(kind: str, folder: Path) -> None:
    table = TABLES[kind](folder)
    ran = [row for row in table.rows if not row.get("failed")]
    if len(ran) <= (kind == "validate"):  # the gate always runs
        raise GpuError(str(table.rows[-1]["failed"]))
    path = folder / "table.csv"
    write_csv(path, table.rows)
    _print(table)
    typer.echo(f"{table.summary}\n{path}")
    if not table.good:
        raise typer.Exit(1)


def _print(table: Table) -> None:
    from rich.console import Console
    from rich.table import Table as Grid

    columns = SHOWN.get(table.kind, tuple(table.rows[0]))
    grid = Grid(box=None, pad_edge=False)
    for name in columns:
        grid.add_column(name, justify="right", overflow="fold")
    for row in table.rows:
        grid.add_row(*(_cell(row[name]) for name in columns))
    Console(width=None if sys.stdout.isatty() else 300, highlight=False).print(grid)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return str(value)


# Typer carries click inside itself; its usage errors are found through what it exports.
_USAGE: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)


def main() -> None:
    """``python -m iosim.gpu`` on its own: one line on stderr, exit code 2."""
    try:
        code = app(standalone_mode=False)
    except IosimError as error:
        typer.echo(f"iosim: {error}", err=True)
        sys.exit(2)
    except _USAGE as error:
        said = error.format_message().rstrip(".")  # type: ignore[attr-defined]
        typer.echo(f"iosim: {said} (see iosim gpu --help)", err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)
