"""sweep, collect, combine, query, reproduce."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iosim.cli import options as opt
from iosim.errors import InputError

if TYPE_CHECKING:
    from iosim.sweep import Pool, Report, Store

app = typer.Typer()

Range = "RANGE"
Workers = Annotated[int, typer.Option(help="processes, 0 for all cores, 1 for this one", min=0)]
Dask = Annotated[
    str | None, typer.Option(help="a Dask scheduler (tcp://…), or local for one of your own")
]
Csv = Annotated[Path | None, typer.Option("--csv", help="also write the rows as CSV")]


@app.command("sweep")
def sweep_(
    out: Annotated[Path, typer.Option(help="the directory to fill; run again to carry on")],
    algo: Annotated[str | None, typer.Option(metavar="LIST", help="flash2,small_cache")] = None,
    N: Annotated[str | None, typer.Option("--N", metavar=Range, help="1024:65536:x2")] = None,
    d: Annotated[str | None, typer.Option("--d", metavar=Range, help="64,128")] = None,
    heads: Annotated[str | None, typer.Option(metavar=Range, help="batch × heads")] = None,
    m: Annotated[str | None, typer.Option("--m", metavar=Range, help="rows of C (matmul)")] = None,
    n: Annotated[str | None, typer.Option("--n", metavar=Range, help="columns of C")] = None,
    k: Annotated[str | None, typer.Option("--k", metavar=Range, help="inner size")] = None,
    M: Annotated[str | None, typer.Option("--M", metavar=Range, help="256:1Mi:x1.2")] = None,
    dtype: opt.Dtype = None,
    tiles: Annotated[
        str | None, typer.Option(help="auto, paper, or like B_r=16:256:x2,B_c=64")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="formula, simulate, …")] = None,
    feasible: Annotated[bool, typer.Option("--feasible", help="only points that fit M")] = False,
    config: Annotated[Path | None, typer.Option(help="a TOML file of these options")] = None,
    shard_rows: Annotated[int | None, typer.Option(help="points in a shard", min=1)] = None,
    workers: Workers = 0,
    dask: Dask = None,
    csv: Csv = None,
    as_json: opt.Json = False,
) -> None:
    """Count a grid of points into a directory of Parquet shards.

    Killed, it loses at most the shards in the making; the same command carries on.
    """
    from iosim.sweep import Store, Sweep

    given: dict[str, Any] = {
        "algo": algo, "N": N, "d": d, "heads": heads, "m": m, "n": n, "k": k, "M": M,
        "dtype": dtype, "tiles": tiles, "engine": engine, "feasible": feasible,
        "shard_rows": shard_rows,
    }  # fmt: skip
    declared = Sweep.of(**given) if config is None else Sweep.from_toml(config, **given)
    with _pool(workers, dask) as pool:
        _collect(Store.declare(out, declared), pool, csv, as_json)


@app.command("collect")
def collect_(
    path: Annotated[Path, typer.Argument(metavar="DIR")],
    workers: Workers = 0,
    dask: Dask = None,
    csv: Csv = None,
    as_json: opt.Json = False,
) -> None:
    """Carry on with the sweep of a directory: check its shards, redo broken ones, add missing ones.

    Any number of these may work on one directory.
    """
    from iosim.sweep import Store

    store = Store.open(path)
    store.sweep  # noqa: B018  # combined rows have none: say so before a cluster is started
    with _pool(workers, dask) as pool:
        _collect(store, pool, csv, as_json)


@app.command("combine")
def combine_(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR...")],
    out: Annotated[Path, typer.Option(help="the directory to add to")],
    csv: Csv = None,
) -> None:
    """Merge the rows of several sweeps into one directory, each task once."""
    from iosim.sweep import combine, export_csv

    done = combine(paths, out)
    typer.echo(f"{done.new:,} rows new, {done.known:,} there before, in {out}")
    if csv is not None:
        typer.echo(f"wrote {csv}, {export_csv([out], csv):,} rows")


@app.command("query")
def query_(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="SELECT … FROM rows")],
    paths: Annotated[list[Path], typer.Argument(metavar="DIR...")],
    as_json: opt.Json = False,
) -> None:
    """Ask the rows of one or more directories in SQL (DuckDB); the table is called rows."""
    from iosim.sweep import query

    found = query(sql, paths)
    if as_json:
        opt.print_json(found.to_pylist())
        return
    cells = [[_cell(v) for v in row.values()] for row in found.slice(0, 1000).to_pylist()]
    opt.print_table(list(found.column_names), cells)
    if found.num_rows > len(cells):
        typer.echo(f"… {found.num_rows - len(cells):,} rows more: add LIMIT, or --json")


@app.command("reproduce")
def reproduce_(
    names: Annotated[list[str] | None, typer.Argument(metavar="[e01 …]")] = None,
) -> None:
    """Run experiments from scratch and say whether the committed numbers come out again.

    Exit code 1 if one does not.
    """
    from iosim.checks.reproduce import find, reproduce

    bad = 0
    for path in find(names or []):
        result = reproduce(path)
        typer.echo(f"{result.name}: {result.verdict} ({result.seconds:.1f} s)")
        bad += not result.same
    if bad:
        raise typer.Exit(1)


@contextlib.contextmanager
def _pool(workers: int, address: str | None) -> Iterator[Pool]:
    from iosim.sweep import dask, processes, serial

    if address is not None:
        with dask(address, workers) as pool:
            yield pool
    else:
        yield serial() if workers == 1 else processes(workers)


def _collect(store: Store, pool: Pool, csv: Path | None, as_json: bool) -> None:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    from iosim.sweep import collect, export_csv

    screen = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=screen, transient=True, disable=not screen.is_terminal,
    )  # fmt: skip
    bar = progress.add_task("counting")

    def tick(report: Report) -> None:
        progress.start()  # not before: it starts a thread, and then workers cannot be forked
        safe = report.found + report.done
        progress.update(bar, completed=safe, total=report.points,
                        description=f"{safe:,} of {report.points:,} points")  # fmt: skip

    try:
        report = collect(store, pool, tick=tick)
    finally:
        progress.stop()
    for shard in report.broken:
        opt.remark(f"a broken shard was set aside as {shard.path} and redone: {shard.reason}")
    rows = store.count_rows()
    if not rows:
        raise InputError(
            f"no point of the grid is feasible ({report.points:,} points): take a larger M, or "
            "leave --feasible out"
        )
    if csv is not None:
        export_csv([store.path], csv)
    if as_json:
        opt.print_json({
            "dir": str(store.path), "points": report.points, "rows": rows,
            "found_points": report.found, "done_points": report.done, "shards": report.shards,
            "broken": [str(x.path) for x in report.broken], "restarts": report.breaks,
            "work_s": report.work_s, "wall_s": report.wall_s, "workers": report.workers,
            "overhead": report.overhead,
        })  # fmt: skip
        return
    before = f", {report.found:,} of them there before" if report.found else ""
    typer.echo(
        f"{report.points:,} points{before}, {rows:,} rows in {store.path} "
        f"({report.wall_s:.1f} s, {report.pool})"
    )
    if csv is not None:
        typer.echo(f"wrote {csv}")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
