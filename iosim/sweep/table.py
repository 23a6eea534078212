"""Combines folders of a sweep into one, and exports their rows as CSV."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.base.provenance import this_command
from iosim.base.writing import replacing
from iosim.sweep.database import (
    BATCH_ROWS,
    connected,
    dataset,
    interruptible,
    mixture,
    reading,
    refusing,
    stream,
    warn,
)
from iosim.sweep.files import writing
from iosim.sweep.folder import Folder, joined
from iosim.sweep.need import need, pyarrow


@dataclass(frozen=True)
class Combined:
    """What combining did: rows that were new, rows that were there, and shards written."""

    new: int
    known: int
    shards: int


def combine(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    command: str | None = None,
    *,
    remark: Callable[[str], object] = warn,
) -> Combined:
    """Add the rows of some folders to a combined one, each task once, in the order given.

    Rows that are there already stay as they are.  Memory doesn't grow with the rows.

    Args:
        command: for the provenance.
        remark: is called if the rows come from several programs or revisions.

    Raises InputError where two rows of one task disagree in a whole number, which only a fault can
    cause, and writes nothing then; and IosimError for a broken shard.

    >>> import tempfile
    >>> from iosim.sweep import Folder, Sweep, collect
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for M in (4096, 8192):
    ...         sweep = Sweep.of(schedule="flash2", N=1024, d=64, M=M)
    ...         _ = collect(Folder.declare(f"{folder}/{M}", sweep))
    ...     combine([f"{folder}/4096", f"{folder}/8192"], f"{folder}/both")
    Combined(new=2, known=0, shards=1)
    """
    sources = [Folder.open(p) for p in paths]
    target = Folder.combined(out)
    for text in mixture([*sources, target]):
        remark(text)
    known = target.count_rows()
    new = shards = 0
    waiting: list[Any] = []
    for table in _once([target, *sources], known, target.path / "part"):
        waiting.append(table)
        new += table.num_rows
        if sum(t.num_rows for t in waiting) >= BATCH_ROWS:
            target.write_combined(joined(waiting))
            shards, waiting = shards + 1, []
    if waiting:
        target.write_combined(joined(waiting))
        shards += 1
    target.note_run(command or this_command())
    return Combined(new, known, shards)


def _once(folders: Sequence[Folder], skip: int, spill: Path | None) -> Iterator[Any]:
    """The rows of some folders in order, each task where it comes first, in tables.

    Args:
        skip: how many rows at the beginning are left out.
        spill: where what doesn't fit into memory goes.

    The hashes are gathered in DuckDB, which keeps to its memory; the rows themselves are read a
    shard at a time.
    """
    pa = pyarrow()
    fields = dataset(folders).schema
    with connected(spill) as db, refusing("cannot combine"):
        hashes = pa.schema([("hash", pa.string()), ("place", pa.int64())])
        db.register("places", _reader(folders, hashes))
        interruptible(
            db,
            lambda: db.execute(
                "CREATE TABLE firsts AS SELECT hash::UUID AS task, min(place) AS place, "
                "count(*) > 1 AS again FROM places GROUP BY task"
            ),
        )
        _agree(db, folders, fields)
        new = f"SELECT place FROM firsts WHERE place >= {skip} ORDER BY place"
        yield from _at(folders, stream(db, reading(db, new)))


def _reader(folders: Sequence[Folder], fields: Any) -> Any:
    """Columns of the rows of some folders, a shard at a time, as DuckDB takes them.

    Args:
        fields: an Arrow schema; ``place`` is the row's number, counted over all folders, and a
            column that a shard lacks is null.
    """
    pa = pyarrow()

    def batches() -> Iterator[Any]:
        start = 0
        for table in (t for folder in folders for t in folder.tables(fields.names)):
            place = pa.array(np.arange(start, start + len(table)))
            start += len(table)
            found = {name: table[name].combine_chunks() for name in table.column_names}
            found = (
                {f.name: pa.nulls(len(table), f.type) for f in fields} | {"place": place} | found
            )
            yield pa.record_batch([found[f.name].cast(f.type) for f in fields], schema=fields)

    return pa.RecordBatchReader.from_batches(fields, batches())


def _at(folders: Sequence[Folder], found: Iterator[Any]) -> Iterator[Any]:
    """The rows at ascending places, which come in batches."""
    here = np.zeros(0, np.int64)
    start = 0
    for folder in folders:
        for table in folder.tables():
            stop = start + table.num_rows
            while not len(here) or here[-1] < stop:
                batch = next(found, None)
                if batch is None:
                    break
                here = np.concatenate([here, batch["place"].to_numpy()])
            few = np.searchsorted(here, stop)
            if few:
                yield table.take(here[:few] - start)
            here, start = here[few:], stop


def _agree(db: Any, folders: Sequence[Folder], fields: Any) -> None:
    """Raise InputError where two rows of one task have different whole numbers."""
    pa = pyarrow()
    if not interruptible(db, lambda: db.execute("SELECT max(again) FROM firsts").fetchall())[0][0]:
        return
    whole = [f for f in fields if pa.types.is_integer(f.type) or pa.types.is_boolean(f.type)]
    db.register("every", _reader(folders, pa.schema([("hash", pa.string()), *whole])))
    told = ", ".join('"' + f.name.replace('"', '""') + '"' for f in whole)
    clash = interruptible(
        db,
        lambda: db.execute(
            "SELECT replace(task::VARCHAR, '-', '') FROM "
            f"(SELECT hash::UUID AS task, hash({told}) AS told FROM every "
            "WHERE task IN (SELECT task FROM firsts WHERE again)) "
            "GROUP BY task HAVING min(told) <> max(told) LIMIT 1"
        ).fetchall(),
    )
    for (task,) in clash:
        raise InputError(
            f"two rows of task {task} disagree: one of these folders is faulty; look at it "
            f"with iosim query \"SELECT * FROM rows WHERE hash = '{task}'\" on each"
        )


def export_csv(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    remark: Callable[[str], object] = warn,
) -> int:
    """Write the rows of some folders as CSV, each task once; returns how many.

    Shards are streamed in order.  Tells `remark` the same as `combine`.  Raises IosimError where a
    shard is broken or the file cannot be written; nothing is left half-written.

    >>> import tempfile
    >>> from iosim.sweep import Folder, Sweep, collect
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     grid = Sweep.of(schedule="flash2", N=1024, d=64, M=4096)
    ...     made = Folder.declare(f"{folder}/rows", grid)
    ...     _ = collect(made)
    ...     export_csv([made.path], f"{folder}/rows.csv")
    1
    """
    folders = [Folder.open(p) for p in paths]
    for text in mixture(folders):
        remark(text)
    csv = need("pyarrow.csv")
    rows = 0
    alone = len(folders) == 1 and folders[0].manifest["kind"] == "sweep"
    fields = _plain(dataset(folders).schema)
    with replacing(out) as (part,), writing(Path(out)), csv.CSVWriter(str(part), fields) as writer:
        for table in folders[0].tables() if alone else _once(folders, 0, None):
            for field in fields:
                if field.name not in table.column_names:
                    table = table.append_column(field, pyarrow().nulls(len(table), field.type))
            writer.write_table(table.select(fields.names).cast(fields))
            rows += table.num_rows
    return rows


def _plain(fields: Any) -> Any:
    """A schema with dictionary columns as plain text, which CSV needs."""
    pa = pyarrow()
    return pa.schema(
        [
            pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
            for f in fields
        ]
    )
