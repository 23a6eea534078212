"""Stores to tables: combining, CSV, SQL."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosim.errors import InputError, IosimError
from iosim.output.provenance import this_command
from iosim.output.table import replacing
from iosim.sweep.need import duckdb, need, pyarrow
from iosim.sweep.store import Store, writing

VIEW = "rows"
ORDER = "ORDER BY algorithm, M_words, hash"
BATCH_ROWS = 2**16


@dataclass(frozen=True)
class Combined:
    """What combining did: rows that were new, rows that were there, and shards written."""

    new: int
    known: int
    shards: int


def _connect(stores: Sequence[Store]) -> Any:
    """A database in memory with one view over the shards, each task once."""
    paths = [str(p) for store in stores for p in store.shards()]
    if not paths:
        where = ", ".join(str(s.path) for s in stores)
        raise InputError(f"no rows in {where}: run iosim collect first")
    db = duckdb().connect(":memory:")
    quoted = ", ".join("'" + p.replace("'", "''") + "'" for p in paths)
    files = f"read_parquet([{quoted}], union_by_name = true)"
    if len(stores) == 1 and stores[0].manifest["kind"] == "sweep":
        db.execute(f"CREATE VIEW {VIEW} AS SELECT * FROM {files}")  # a shard is there only once
    else:
        db.execute(f"CREATE VIEW {VIEW} AS SELECT DISTINCT ON (hash) * FROM {files}")
    return db


def query(sql: str, paths: Sequence[str | os.PathLike[str]]) -> Any:
    """Run SQL over the shards of some stores, as the table ``rows``: each task once.

    Returns an Arrow table.  Raises InputError with DuckDB's first line where it refuses.
    """
    pa = pyarrow()
    db = _connect([Store.open(p) for p in paths])
    try:
        found = db.sql(sql)
        return pa.table({}) if found is None else found.to_arrow_table()
    except duckdb().Error as error:
        raise InputError(f"the query fails: {_first(error)}") from None
    finally:
        db.close()


def _batches(db: Any, sql: str) -> Any:
    """The result as Arrow record batches; the method's name differs between DuckDB 1 and 2."""
    found = db.sql(sql)
    read = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
    return read(BATCH_ROWS)


def _first(error: BaseException) -> str:
    return " ".join(str(error).split("\n\n")[0].split())[:300]


def combine(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    command: str | None = None,
) -> Combined:
    """Add the rows of some stores to a combined one, each task once.

    Rows that are there already stay as they are.  Raises InputError where two rows of one task
    disagree in what they counted, which only a fault can cause, and writes nothing then.
    """
    sources = [Store.open(p) for p in paths]
    target = Store.combined(out)
    db = _connect([*sources, target])
    try:
        _agree(db, [*sources, target])
        there = sorted(str(p) for p in target.shards())
        db.execute("CREATE TEMP TABLE known (hash VARCHAR)")
        if there:
            db.execute("INSERT INTO known SELECT hash FROM read_parquet(?)", [there])
        ((known,),) = db.execute("SELECT count(*) FROM known").fetchall()
        reader = _batches(
            db, f"SELECT * FROM {VIEW} WHERE hash NOT IN (SELECT hash FROM known) {ORDER}"
        )
        new = shards = 0
        for batch in reader:
            if not batch.num_rows:
                continue
            table = pyarrow().Table.from_batches([batch])
            name = hashlib.sha256("".join(table["hash"].to_pylist()).encode()).hexdigest()[:24]
            target.write(f"{name}.parquet", table, {"combined": name})
            new, shards = new + batch.num_rows, shards + 1
    except duckdb().Error as error:
        raise IosimError(f"cannot combine: {_first(error)}") from None
    finally:
        db.close()
    target.note_run(command or this_command())
    return Combined(new, known, shards)


def _agree(db: Any, stores: Sequence[Store]) -> None:
    paths = [str(p) for store in stores for p in store.shards()]
    clash = db.execute(
        "SELECT hash FROM read_parquet(?, union_by_name = true) GROUP BY hash "
        "HAVING count(DISTINCT (total_words, peak_words, feasible)) > 1 LIMIT 1",
        [paths],
    ).fetchall()
    for (task,) in clash:
        raise InputError(
            f"two rows of task {task} disagree: one of these stores is faulty; look at it with "
            f"iosim query \"SELECT * FROM rows WHERE hash = '{task}'\" on each"
        )


def export_csv(paths: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> int:
    """Write the rows of some stores as CSV, each task once; returns how many.

    Shards are streamed in order.  Raises IosimError where a shard is broken or the file cannot be
    written; nothing is left half-written.
    """
    stores = [Store.open(p) for p in paths]
    csv = need("pyarrow.csv")
    rows = 0
    with replacing(out) as (part,), writing(Path(out)):
        writer: Any = None
        for table in _unified(stores):
            writer = writer or csv.CSVWriter(str(part), table.schema)
            writer.write_table(table)
            rows += table.num_rows
        if writer is None:
            raise InputError(f"no rows in {', '.join(map(str, paths))}: run iosim collect first")
        writer.close()
    return rows


def _unified(stores: Sequence[Store]) -> Iterator[Any]:
    if len(stores) == 1 and stores[0].manifest["kind"] == "sweep":
        for table in stores[0].tables():
            yield _plain(table)
        return
    db = _connect(stores)
    try:
        for batch in _batches(db, f"SELECT * FROM {VIEW} {ORDER}"):
            yield pyarrow().Table.from_batches([batch])
    finally:
        db.close()


def _plain(table: Any) -> Any:
    """Dictionary columns as plain text, which CSV needs."""
    pa = pyarrow()
    fields = [
        pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))
