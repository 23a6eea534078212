"""Answers queries in SQL: DuckDB over the shards of some folders, and nothing else.

``iosim query`` and `query` call it.  DuckDB sees one view, ``rows``, through Arrow; it can neither
read nor write files, load extensions or use the network.  Results come in batches, and what a query
needs beyond `MEMORY` goes to a temporary directory.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from iosim.base.errors import InputError
from iosim.sweep.folder import Folder
from iosim.sweep.need import duckdb, need, pyarrow

T = TypeVar("T")

VIEW = "rows"
MEMORY = "1GiB"
BATCH_ROWS = 2**16


def warn(text: str) -> None:
    """Say something about an answer: a Python warning."""
    warnings.warn(text, stacklevel=3)


@dataclass(frozen=True)
class Answer:
    """What a question gives.

    Attributes:
        schema: its columns, an Arrow schema.
        batches: its rows, Arrow record batches; to be read once, and at once.
    """

    schema: Any
    batches: Iterator[Any]


def query(
    sql: str,
    paths: Sequence[str | os.PathLike[str]],
    *,
    remark: Callable[[str], object] = warn,
) -> Any:
    """Run SQL over the shards of some folders, as the table ``rows``: each task once.

    Nothing but these rows can be read, and nothing written.  Returns an Arrow table.  Raises as
    `answered` does, and tells `remark` the same.

    >>> import tempfile
    >>> from iosim.sweep import Folder, Sweep, collect
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = Folder.declare(folder, Sweep.of(schedule="flash2", N=1024, d=64, M=4096))
    ...     _ = collect(made)
    ...     query("SELECT algorithm, N FROM rows", [folder]).to_pylist()
    [{'algorithm': 'flash2', 'N': 1024}]
    """
    with answered(sql, paths, remark=remark) as answer:
        return pyarrow().Table.from_batches(answer.batches, schema=answer.schema)


@contextlib.contextmanager
def answered(
    sql: str,
    paths: Sequence[str | os.PathLike[str]],
    *,
    remark: Callable[[str], object] = warn,
) -> Iterator[Answer]:
    """The answer of `query`, batch by batch, whatever its size.

    Args:
        remark: is called if the rows come from several programs or revisions.

    Raises InputError with DuckDB's first line where it refuses, or where two columns have one name,
    and IosimError for a broken shard.  Ctrl-C ends a question.

    >>> import tempfile
    >>> from iosim.sweep import Folder, Sweep, collect
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = Folder.declare(folder, Sweep.of(schedule="flash2", N=1024, d=64, M=4096))
    ...     _ = collect(made)
    ...     with answered("SELECT algorithm, N FROM rows", [folder]) as answer:
    ...         sum(batch.num_rows for batch in answer.batches)
    1
    """
    folders = [Folder.open(p) for p in paths]
    rows = dataset(folders)
    for text in mixture(folders):
        remark(text)
    with contextlib.ExitStack() as stack:
        db = stack.enter_context(connected())
        # A shard is there only once in a sweep's own folder.
        alone = len(folders) == 1 and folders[0].manifest["kind"] == "sweep"
        db.register(VIEW if alone else "_shards", rows)
        if not alone:
            db.execute(f"CREATE VIEW {VIEW} AS SELECT DISTINCT ON (hash) * FROM _shards")
        with refusing("the query fails"):
            reader = reading(db, sql)
            if reader is None:
                yield Answer(pyarrow().schema([]), iter(()))
                return
            names = list(reader.schema.names)
            if twice := [x for k, x in enumerate(names) if x in names[:k]]:
                raise InputError(f"two columns are called {twice[0]!r}: name one with AS")
            yield Answer(reader.schema, stream(db, reader))


@contextlib.contextmanager
def memory_limited(more: int = 2 * 2**30) -> Iterator[None]:
    """Let this process take only this many bytes more, where the system can say so.

    DuckDB keeps tables and sorts to `MEMORY`, but not a single value: ``range(10**9)`` is a list of
    8 GB.  Raises InputError where a question needs more.
    """
    held = _data_bytes()
    if held is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    known = [x for x in before if x != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([held + more, *known]), before[1]))
    try:
        yield
    except MemoryError:
        raise InputError(
            f"the query needs more than {more / 2**30:g} GiB: choose fewer rows or shorter lists"
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_bytes() -> int | None:
    """What this process has of private memory, by Linux; None elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("VmData:")), None)


@contextlib.contextmanager
def connected(where: Path | None = None) -> Iterator[Any]:
    """A database in memory that reaches no file, but a temporary directory of its own.

    Args:
        where: the place of that directory.
    """
    with tempfile.TemporaryDirectory(dir=where, prefix="iosim-") as spill:
        db = duckdb().connect(":memory:", config={"memory_limit": MEMORY, "temp_directory": spill})
        try:
            for option in (
                "python_enable_replacements = false",
                "enable_external_access = false",
                "lock_configuration = true",
            ):
                db.execute(f"SET {option}")
            yield db
        finally:
            db.close()


def dataset(folders: Sequence[Folder]) -> Any:
    """The rows of all shards as an Arrow dataset, in order; a column that a shard lacks is null.

    No name of a file or folder has a meaning in it.  Raises InputError if there is no shard,
    and IosimError for a broken one.
    """
    pa, ds, fs = pyarrow(), need("pyarrow.dataset"), need("pyarrow.fs")
    shards = [shard for folder in folders for shard in folder.verified()]
    if not shards:
        where = ", ".join(str(f.path) for f in folders)
        raise InputError(f"no rows in {where}: run iosim collect first")
    schemas = [s.schema for k, s in enumerate(shards) if not k or s.schema != shards[k - 1].schema]
    return ds.FileSystemDataset.from_paths(
        # Whole paths only: Arrow takes a relative name like a:/b for an address.
        [str(shard.path.absolute()) for shard in shards],
        schema=pa.unify_schemas(schemas),
        format=ds.ParquetFileFormat(),
        filesystem=fs.LocalFileSystem(),
    )


def mixture(folders: Sequence[Folder]) -> list[str]:
    """What a reader of all rows of some folders should know: lines that say what is mixed."""
    kinds = set().union(*(folder.kinds() for folder in folders))
    found = []
    for name in sorted({kind[0] for kind in kinds}):
        programs = {program for algorithm, program, _, _ in kinds if algorithm == name}
        if len(programs) > 1:
            few = " and ".join(sorted(p[:12] for p in programs))
            found.append(f"rows of {name} come from {len(programs)} programs: {few}")
    made = sorted({(version, revision) for _, _, version, revision in kinds})
    if len(made) > 1:
        few = " and ".join(f"{version} revision {revision}" for version, revision in made)
        found.append(f"rows come from {len(made)} revisions of iosim: {few}")
    return found


@contextlib.contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn what DuckDB and Arrow refuse into one line."""
    try:
        yield
    except (duckdb().Error, pyarrow().ArrowException, OSError, RuntimeError) as error:
        why = " ".join(str(error).split("\n\n")[0].split())[:300]
        raise InputError(f"{what}: {why}") from None


def reading(db: Any, sql: str) -> Any:
    """The result as a reader of record batches, or None if there is none."""
    found = interruptible(db, lambda: db.sql(sql))
    if found is None:
        return None
    # The method's name differs between DuckDB 1 and 2.
    read = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
    return interruptible(db, lambda: read(BATCH_ROWS))


def stream(db: Any, reader: Any) -> Iterator[Any]:
    """The batches of a reader that have rows."""
    while (batch := interruptible(db, lambda: next(reader, None))) is not None:
        if batch.num_rows:
            yield batch


def interruptible(db: Any, call: Callable[[], T]) -> T:
    """Call something that DuckDB does; Ctrl-C ends it.

    DuckDB looks for no signal while it works, so it works in a thread of its own.  This thread
    waits for it to the end: a process that ends while another thread is inside DuckDB aborts.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()  # signals only reach the main thread
    result: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            result.append(call())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    with _interrupts_noted() as noted:
        thread.start()
        while thread.is_alive():
            if noted:
                db.interrupt()  # without effect before the query runs, so again and again
            thread.join(0.05)
    if noted:
        raise KeyboardInterrupt
    if failed:
        raise failed[0]
    return result[0]


@contextlib.contextmanager
def _interrupts_noted() -> Iterator[list[int]]:
    """Interrupts that come meanwhile, instead of the exceptions that they raise."""
    noted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before in (signal.SIG_IGN, None):
        yield noted
        return
    signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
