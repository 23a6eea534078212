"""The commands ``iosim sweep``, ``collect``, ``combine``, ``query`` and ``reproduce``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iosim.base.errors import InputError
from iosim.base.progress import track
from iosim.base.rows import Rows
from iosim.cli import options as opt
from iosim.cli.watching import part_done, watching
from iosim.core.algorithms import algorithm
from iosim.core.units import LONGEST_AXIS

if TYPE_CHECKING:
    from iosim.sweep import Folder, Pool

# Rows of a query that are printed; --json prints all.
SHOWN_ROWS = 1000

workers = opt.workers("processes, 0 for all cores, 1 for this one")
dask = click.option("--dask", help="a Dask scheduler (tcp://…), or local for one of your own")
csv = opt.path("--csv", "also write the rows as CSV", type=opt.FILE)
directory = click.argument("path", metavar="DIR", type=opt.PATH)
directories = click.argument("paths", metavar="DIR...", type=opt.PATH, nargs=-1, required=True)


@click.command()
@opt.out("shards; run again to carry on", required=True)
@opt.schedule("flash2,small_cache", metavar="SCHEDULE,…", old=("--algo",))
@opt.sizes(metavar="INT,…", N="sequence length: 1024:65536:x2", d="head dimension: 64,128")
@opt.model
@opt.memory("256:1Mi:x1.2", metavar="WORDS,…")
@opt.dtype
@opt.tile_sizes("auto, gpu, paper, or like B_r=16:256:x2,B_c=64")
@click.option("--engine", help="engine: formula, simulate, …")
@click.option("--policy", metavar="NAME,…", help="what decides which lines stay: explicit,lru,opt")
@click.option("--feasible", is_flag=True, help="only points that fit M")
@opt.path("--config", "a TOML file of these options")
@click.option("--shard-rows", type=opt.Integer(1, LONGEST_AXIS), help="points in a shard")
@workers
@dask
@csv
@opt.as_json
def sweep(
    out: Path,
    schedule: str | None,
    sizes: opt.Sizes,
    model: str | None,
    M: str | None,
    dtype: str | None,
    tiles: str | None,
    engine: str | None,
    policy: str | None,
    feasible: bool,
    config: Path | None,
    shard_rows: int | None,
    workers: int,
    dask: str | None,
    csv: Path | None,
    as_json: bool,
) -> None:
    """Count a grid of points into a directory of Parquet shards.

    If it is killed, only shards that are not finished are lost; the same command carries on.
    """
    from iosim.sweep import Folder, Sweep

    sizes = opt.of_model(model, "attention", sizes)
    kinds = {algorithm(name).problem.kind for name in schedule.split(",")} if schedule else set()
    if kinds <= set(opt.ATTENTIONS):
        sizes = opt.batched("attention", sizes)
    given: dict[str, Any] = {
        "schedule": schedule,
        **sizes,
        "M": M,
        "dtype": dtype,
        "tiles": tiles,
        "engine": engine,
        "policy": policy,
        "feasible": feasible,
        "shard_rows": shard_rows,
    }
    declared = Sweep.of(**given) if config is None else Sweep.from_toml(config, **given)
    for text in declared.idle:
        opt.remark(text)
    with _pool(workers, dask) as pool:
        _collect(Folder.declare(out, declared), pool, csv, as_json)


@click.command()
@directory
@workers
@dask
@csv
@opt.as_json
def collect(path: Path, workers: int, dask: str | None, csv: Path | None, as_json: bool) -> None:
    """Resume the sweep in a directory: check its shards, redo broken ones, add missing ones.

    Any number of these may work on one directory.
    """
    from iosim.sweep import Folder

    folder = Folder.open(path)
    folder.sweep  # noqa: B018  # combined rows have none: say so before a cluster is started
    with _pool(workers, dask) as pool:
        _collect(folder, pool, csv, as_json)


@click.command()
@directories
@opt.out("existing rows stay", required=True)
@csv
@opt.as_json
def combine(paths: Sequence[Path], out: Path, csv: Path | None, as_json: bool) -> None:
    """Merge the rows of several sweeps into one directory, each task once.

    Rows that are there stay as they are; a broken shard is named, and nothing is written.
    """
    from iosim.sweep import combine as merge
    from iosim.sweep import export_csv

    done = merge(paths, out, remark=opt.remark)
    rows = None if csv is None else export_csv([out], csv, remark=lambda text: None)
    if as_json:
        opt.print_json({"dir": str(out), "new_rows": done.new, "known_rows": done.known})
        return
    click.echo(f"{done.new:,} rows new, {done.known:,} there before, in {out}")
    if csv is not None:
        click.echo(f"wrote {csv}, {rows:,} rows")


@click.command()
@click.argument("sql", help="SELECT … FROM rows")
@directories
@opt.as_json
def query(sql: str, paths: Sequence[Path], as_json: bool) -> None:
    """Query the rows of one or more directories in SQL (DuckDB); the table is called rows.

    Nothing but these rows can be read, and nothing written: no other file, no network.
    """
    from iosim.sweep import answered
    from iosim.sweep.database import memory_limited

    with memory_limited(), answered(sql, paths, remark=opt.remark) as answer:
        if as_json:
            _print_stream(answer.batches)
            return
        shown: list[tuple[Any, ...]] = []
        many = 0
        for batch in answer.batches:
            few = batch.slice(0, max(0, SHOWN_ROWS - many))
            shown += (tuple(row.values()) for row in _values(few))
            many += batch.num_rows
    opt.print_table(answer.schema.names, shown)
    if many > len(shown):
        click.echo(f"{many - len(shown):,} rows more: add LIMIT, or --json")


def _values(batch: Any) -> Rows:
    """The rows of a batch; InputError for a value that Python has no kind for."""
    try:
        rows: Rows = batch.to_pylist()
    except (OverflowError, ValueError) as error:
        raise InputError(
            f"the answer has a date or a time that can't be shown ({error}): cast it, like "
            "x::VARCHAR"
        ) from None
    return rows


def _print_stream(batches: Iterator[Any]) -> None:
    """Print rows as a JSON array, a line each, as they come."""
    some = (
        _values(batch.slice(k, SHOWN_ROWS))
        for batch in batches
        for k in range(0, batch.num_rows, SHOWN_ROWS)
    )
    before = "["
    for rows in some:
        text = ",\n".join(opt.json_text(row, indent=None) for row in rows)
        click.echo(f"{before}\n{text}", nl=False)
        before = ","
    click.echo("[]" if before == "[" else "\n]")


@click.command()
@click.argument("names", metavar="[e01 …]", nargs=-1)
@opt.as_json
def reproduce(names: Sequence[str], as_json: bool) -> None:
    """Run experiments from scratch and compare their numbers with the committed ones.

    Exit code 1 if one does not.
    """
    from iosim.report.reproduce import find
    from iosim.report.reproduce import reproduce as run_again

    found = []
    for path in track(find(names), "experiments"):
        found.append(result := run_again(path))
        if not as_json:
            click.echo(f"{result.name}: {result.verdict} ({result.seconds:.1f} s)")
    if as_json:
        opt.print_json(
            [
                {"experiment": r.name, "ok": r.same, "verdict": r.verdict, "seconds": r.seconds}
                for r in found
            ]
        )
    if not all(r.same for r in found):
        raise click.exceptions.Exit(1)


@contextlib.contextmanager
def _pool(workers: int, address: str | None) -> Iterator[Pool]:
    from iosim.sweep import dask, processes, serial

    if address is not None:
        with dask(address, workers) as pool:
            yield pool
    else:
        yield serial() if workers == 1 else processes(workers)


def _collect(folder: Folder, pool: Pool, csv: Path | None, as_json: bool) -> None:
    from iosim.sweep import collect as carry_on
    from iosim.sweep import export_csv

    with watching() as show:
        report = carry_on(
            folder,
            pool,
            tick=lambda so_far: show(
                part_done(so_far.found + so_far.done, so_far.points, "points", before=so_far.found)
            ),
        )
    for shard in report.broken:
        opt.remark(f"a broken shard was set aside as {shard.path} and redone: {shard.reason}")
    rows = folder.count_rows()
    if not rows:
        raise InputError(
            f"no point of the grid is feasible ({report.points:,} points): take a larger M, or "
            "leave --feasible out"
        )
    if csv is not None:
        export_csv([folder.path], csv)
    if as_json:
        opt.print_json(
            {
                "dir": str(folder.path),
                "points": report.points,
                "rows": rows,
                "found_points": report.found,
                "done_points": report.done,
                "shards": report.shards,
                "broken": [str(x.path) for x in report.broken],
                "restarts": report.breaks,
                "work_s": report.work_s,
                "wall_s": report.wall_s,
                "workers": report.workers,
                "overhead": report.overhead,
            }
        )
        return
    before = f", {report.found:,} of them there before" if report.found else ""
    click.echo(
        f"{report.points:,} points{before}, {rows:,} rows in {folder.path} "
        f"({report.wall_s:.1f} s, {report.pool})"
    )
    if csv is not None:
        click.echo(f"wrote {csv}")
