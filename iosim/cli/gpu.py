"""``iosim gpu``: emit, validate, bench, dram, paper, replay, figure."""

from __future__ import annotations

from pathlib import Path

import click

from iosim.cli import options as opt
from iosim.errors import InputError
from iosim.gpu.errors import GpuError
from iosim.gpu.reports.tables import TABLES
from iosim.gpu.reports.tables import replay as replay_all
from iosim.output.provenance import this_command
from iosim.output.table import out_dir, write_csv
from iosim.units import parse_int, parse_tiles, parse_words

out = opt.path("--out", "where records and tables go", default="iosim-out/gpu")
capacity = opt.memory("fast memory", default="64Ki")
directory = click.argument("folder", metavar="DIR", type=opt.PATH)

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


def _list(text: str, name: str) -> tuple[int, ...]:
    return tuple(parse_int(name, part.strip()) for part in text.split(","))


def _dtype(text: str) -> str:
    from iosim.gpu.run.memory import DTYPES

    if text not in DTYPES:
        raise InputError(f"dtype {text!r} has no GPU form: choose {', '.join(DTYPES)}")
    return text


@click.command()
@opt.algo
@click.option("--N", "N", default="4096", help="sequence length, or m and n of a product")
@click.option("--d", "d", default="64", help="head size; k of a product")
@click.option("--heads", default="1", help="batch × heads")
@capacity
@click.option("--tiles", default="auto", help="auto, or B_r=64,B_c=32")
@click.option(
    "--programs", type=click.IntRange(min=0), default=0, help="keep this many programs in step"
)
def emit(algo: str, N: str, d: str, heads: str, M: str, tiles: str, programs: int) -> None:
    """Print the Triton source of a program."""
    from iosim.algorithms import algorithm as find
    from iosim.gpu.emitter.kernels import InStep
    from iosim.gpu.emitter.kernels import emit as compile_
    from iosim.gpu.run.job import problem_of
    from iosim.program.walk import bind
    from iosim.tiling.gpu import gpu_tiles

    entry = find(algo)
    problem = problem_of(
        entry.problem, parse_int("N", N), parse_int("d", d), parse_int("heads", heads)
    )
    if tiles == "auto":
        chosen = gpu_tiles(entry.program, problem, parse_words("M", M)).tiles
    else:
        chosen = parse_tiles(tiles)
    in_step = InStep(programs) if programs else None
    click.echo(compile_(bind(entry.program, problem.sizes, chosen), in_step).source, nl=False)


@click.command()
@out
@click.option("--algorithms", default="all", help="names, or all")
@click.option("--d", "d", default="64,128,256", help="head dimensions")
@click.option("--M", "M", default="8192,16384,32768,65536", help="capacities in words")
@click.option("--N", "N", default="1024,1000,1001,4096", help="sequence lengths")
@click.option("--dtype", default="fp16", help="fp16, bf16, fp32, or several")
@click.option("--counters/--no-counters", default=True, help="read hardware counters with ncu")
def validate(
    out: Path, algorithms: str, d: str, M: str, N: str, dtype: str, counters: bool
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
    opt.remark(runs.run_validate(folder, this_command(), todo, counters=counters))
    _finish("validate", folder)


@click.command()
@out
@capacity
@click.option("--N", "N", default="1024,2048,4096,8192,16384,32768,65536")
@click.option("--d", "d", default="64,128")
def bench(out: Path, M: str, N: str, d: str) -> None:
    """The emitted flash2 beside PyTorch's fused and standard attention."""
    from iosim.gpu.reports import runs

    folder = out_dir(out) / "bench"
    asked: dict[str, object] = {
        "M": parse_words("M", M, "fp16"),
        "lengths": _list(N, "N"),
        "head_sizes": _list(d, "d"),
    }
    runs.run_bench(folder, this_command(), asked)
    _finish("bench", folder)


@click.command()
@out
def dram(out: Path) -> None:
    """DRAM reads of flash2 beside the wave and drift models, plain and in step."""
    from iosim.gpu.reports import runs

    folder = out_dir(out) / "dram"
    _must_count(runs.run_dram(folder, this_command()))
    _finish("dram", folder)


@click.command()
@out
def paper(out: Path) -> None:
    """The FlashAttention paper's HBM traffic, repeated with DRAM counters."""
    from iosim.gpu.reports import runs

    folder = out_dir(out) / "paper"
    _must_count(runs.run_paper(folder, this_command()))
    _finish("paper", folder)


@click.command()
@directory
@click.option("--check/--no-check", default=True, help="exit 1 if a bar is missed")
@click.option("--write/--no-write", help="write each record's table.csv anew")
@opt.as_json
def replay(folder: Path, check: bool, write: bool, as_json: bool) -> None:
    """Tables from saved reports, with today's model and no GPU."""
    tables = replay_all(folder)
    for path, table in tables.items():
        if not as_json:
            click.echo(f"{path.name}: {table.summary}")
        if write:
            write_csv(path / "table.csv", table.rows)
    if as_json:
        opt.print_json([
            {"dir": str(path), "report": table.kind, "summary": table.summary, "ok": table.good,
             "rows": table.rows}
            for path, table in tables.items()
        ])  # fmt: skip
    if check and not all(table.good for table in tables.values()):
        raise click.exceptions.Exit(1)


@click.command()
@directory
@click.argument("stem", type=opt.PATH, help="where to write, no suffix")
def figure(folder: Path, stem: Path) -> None:
    """Predicted against measured at both boundaries, from saved reports."""
    from iosim.gpu.reports.figure import draw
    from iosim.output.plot import figure_name

    for path in draw(replay_all(folder).values(), figure_name(stem)):
        click.echo(str(path))


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
    opt.print_rows(table.rows, SHOWN.get(kind, ()))
    click.echo(f"{table.summary}\n{path}")
    if not table.good:
        raise click.exceptions.Exit(1)
