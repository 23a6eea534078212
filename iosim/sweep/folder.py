"""A directory of Parquet shards: written whole, synced, renamed into place; never changed again.

    DIR/sweep.json      what the directory holds: the declaration, its id, the programs
    DIR/rows/*.parquet  the shards: pandas, polars and DuckDB read them as they are
    DIR/runs/*.json     provenance, one file for each run: versions, machine, command, commit
    DIR/aside/*         shards that were found broken
    DIR/part/*          what is being written

A shard is named by its number, so any number of collectors may fill one directory without locks: a
shard that two of them computed holds the same rows (up to time_s) and takes one place.  Whoever
reads a shard checks it first: its checksum, its place, its columns and its number of rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from iosim.base import provenance
from iosim.base.display import Displayed, call_by_path
from iosim.base.errors import InputError, IosimError
from iosim.base.reading import parse
from iosim.base.rows import Row, Values
from iosim.sweep.caches import EXPLICIT
from iosim.sweep.files import Damaged, read_regular, write_in_place, writing
from iosim.sweep.grid import Sweep
from iosim.sweep.manifest import MANIFEST, columns, combined, declared, read_manifest
from iosim.sweep.need import need, parquet, pyarrow
from iosim.sweep.seal import BLANK, KEY, check_seal, seal

T = TypeVar("T")

STALE_S = 3600.0
SHARD = re.compile(r"[0-9]{8,}\.parquet")
KEEPS = ("rows", "runs", "aside", "part")

# What made a row: (algorithm, program, version, revision).
Kind = tuple[str, str, str, int]
KIND_COLUMNS = ("algorithm", "program", "version", "revision")


@dataclass(frozen=True)
class Broken:
    """A shard that was set aside, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Checked:
    """A shard that is as it was written.

    Attributes:
        path: where it is.
        rows: how many it has.
        kinds: what made them, in combined rows.
        schema: its columns.
    """

    path: Path
    rows: int
    kinds: tuple[Kind, ...]
    schema: Any


@dataclass(frozen=True)
class Folder(Displayed):
    """A directory of shards.

    Attributes:
        path: the directory.
        manifest: what `sweep.json` says.

    >>> import tempfile
    >>> from iosim.sweep import Sweep
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = Folder.declare(folder, Sweep.of(schedule="flash2", N=512, d=64, M="4Ki:16Ki:x2"))
    ...     made.sweep.points, made.shards()
    (3, [])
    """

    path: Path
    manifest: Values
    html_by = "iosim.report.views:folder"

    def __repr__(self) -> str:
        return f"<Folder {str(self.path)!r}: {self.manifest['kind']}>"

    @classmethod
    def declare(cls, path: str | os.PathLike[str], sweep: Sweep) -> Folder:
        """The folder of a sweep, made if need be.

        Raises InputError where the directory holds something else or cannot be written.
        """
        found = cls._make(Path(path), declared(sweep))
        if found.manifest.get("id") != sweep.id:
            raise InputError(f"{str(path)!r} belongs to {found.what}: give another --out")
        return found

    @classmethod
    def combined(cls, path: str | os.PathLike[str]) -> Folder:
        """A folder for rows of many sweeps.  Raises InputError as `declare` does."""
        found = cls._make(Path(path), combined())
        if found.manifest["kind"] != "combined":
            raise InputError(f"{str(path)!r} belongs to {found.what}: give another --out")
        return found

    @classmethod
    def _make(cls, path: Path, told: Row) -> Folder:
        parquet()  # say that it is missing before anything is made
        with writing(path):
            if not os.path.lexists(path / MANIFEST):
                if path.is_dir() and any(x.name not in KEEPS for x in path.iterdir()):
                    raise InputError(
                        f"{str(path)!r} holds other things and no {MANIFEST}: give a new directory"
                    )
                for name in ("rows", "runs", "part"):
                    (path / name).mkdir(parents=True, exist_ok=True)
                text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
                write_in_place(
                    path, MANIFEST, lambda part: part.write_text(text, "utf-8"), keep=True
                )
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Folder:
        """A folder that exists; raises as `iosim.sweep.manifest.read_manifest` does."""
        return cls(Path(path), read_manifest(Path(path)))

    @property
    def what(self) -> str:
        """What the directory belongs to, in words."""
        if self.manifest["kind"] == "combined":
            return "combined rows"
        told = self.sweep
        cached = f" --policy {told.policy}" if told.policy != EXPLICIT else ""
        return (
            f"another sweep (--schedule {','.join(told.algorithms)} {told.typed} --M {told.M} "
            f"--tiles {told.tiles} --engine {told.engine}{cached}, iosim {told.version}, "
            f"revision {told.revision})"
        )

    @property
    def sweep(self) -> Sweep:
        """The declaration.  Raises InputError for combined rows, which have none."""
        if self.manifest["kind"] != "sweep":
            raise InputError(f"{str(self.path)!r} holds combined rows: collect its sources instead")
        try:
            return Sweep.from_dict(self.manifest["sweep"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{str(self.path / MANIFEST)!r} is of another version: {error}"
            ) from None

    def kinds(self) -> set[Kind]:
        """What made the rows: every algorithm with its program, version and revision.

        Raises IosimError where a shard of combined rows cannot be read.
        """
        if self.manifest["kind"] == "sweep":
            told = self.sweep
            programs = self.manifest["programs"]
            return {(x, programs[x]["hash"], told.version, told.revision) for x in told.algorithms}
        return {kind for shard in self.verified() for kind in shard.kinds}

    def slim(self) -> Folder:
        """What a worker needs to write shards; small to send."""
        return Folder(self.path, {"kind": self.manifest["kind"], "id": self.manifest.get("id")})

    def shard_path(self, name: int | str) -> Path:
        """Where a shard is, or will be."""
        return self.path / "rows" / (f"{name:08d}.parquet" if isinstance(name, int) else name)

    def shards(self) -> list[Path]:
        """All shards, in order.  Raises InputError if there is no place for them."""
        rows = self.path / "rows"
        try:
            return [rows / x for x in sorted(os.listdir(rows)) if x.endswith(".parquet")]
        except FileNotFoundError:
            raise InputError(f"{str(rows)!r} is missing: {self._how_to_repair}") from None
        except OSError as error:
            raise InputError(f"cannot read {str(rows)!r} ({error.strerror})") from None

    @property
    def missing(self) -> str:
        """How many shards of the sweep are not there, and what adds them; "" where all are."""
        if self.manifest["kind"] != "sweep":
            return ""
        lacks = self.sweep.shards - len(self.shards())
        if lacks <= 0:
            return ""
        return (
            f"{lacks:,} of {self.sweep.shards:,} shards are missing: iosim collect {self.path} "
            "adds them"
        )

    @property
    def _how_to_repair(self) -> str:
        """How to get shards again that are broken or gone."""
        if self.manifest["kind"] == "sweep":
            return f"iosim collect {self.path} sets broken shards aside and counts what is missing"
        return "move it away, and combine its sources again"

    def write(self, name: int | str, table: Any, tags: Values) -> None:
        """Write a shard; when this returns, it survives a crash.

        Raises IosimError where the disk refuses; nothing is left half-written.
        """
        pq = parquet()
        told = json.dumps({**tags, "rows": table.num_rows, KEY: BLANK})
        meta = {**(table.schema.metadata or {}), b"iosim": told.encode()}

        def fill(part: Path) -> None:
            # Whole paths only: Arrow takes a relative name like a:/b for an address.
            pq.write_table(
                table.replace_schema_metadata(meta),
                part.absolute(),
                compression="zstd",
                write_page_checksum=True,
            )
            seal(part)

        with writing(self.path):
            write_in_place(self.path, str(self.shard_path(name).relative_to(self.path)), fill)

    def write_shard(self, number: int, table: Any) -> None:
        """Write a shard of a sweep, marked as such; raises as `write` does."""
        self.write(number, table, {"sweep": self.manifest["id"], "shard": str(number)})

    def write_combined(self, table: Any) -> None:
        """Write a shard of combined rows, named by its tasks; raises as `write` does."""
        name = hashlib.sha256("".join(table["hash"].to_pylist()).encode()).hexdigest()[:24]
        kinds = sorted(set(zip(*(table[x].to_pylist() for x in KIND_COLUMNS), strict=True)))
        self.write(f"{name}.parquet", table, {"combined": name, "kinds": kinds})

    def _verify(self, path: Path, data: bytes) -> Any:
        """Raise Damaged unless these bytes are the shard that belongs there; returns its file."""
        check_seal(data)
        file = _parquet(data)
        tags = _tags(file)
        if self.manifest["kind"] == "sweep":
            right = (
                SHARD.fullmatch(path.name) is not None
                and tags.get("sweep") == self.manifest["id"]
                and path.name == self.shard_path(int(tags.get("shard", -1))).name
            )
            expected = self.manifest["columns"]
        else:
            right = path.name == f"{tags.get('combined')}.parquet"
            expected = None
        if not right:
            raise Damaged("it belongs to another sweep or place")
        if expected is not None and columns(file.schema_arrow) != expected:
            raise Damaged("it has other columns than its sweep")
        if file.metadata.num_rows != tags.get("rows"):
            raise Damaged(f"it has {file.metadata.num_rows} rows instead of {tags.get('rows')}")
        return file

    def check(self, path: Path) -> str | None:
        """What is wrong with a shard, or None.

        Every bit of it is covered.  Raises IosimError where it may not be read.
        """
        try:
            self._verify(path, read_regular(path))
        except PermissionError as error:
            raise IosimError(f"cannot read {str(path)!r} ({error.strerror}): permit it") from None
        except FileNotFoundError:
            # Set aside by another collector, unless it is a link that leads nowhere.
            return "it is a link to nothing" if path.is_symlink() else None
        except OSError as error:
            return f"{error.strerror}"
        except Damaged as error:
            return str(error)
        return None

    def _opened(self, path: Path, use: Callable[[Path, Any], T]) -> T:
        """What `use` makes of a shard, as a Parquet file; a broken one is a line that names it."""
        try:
            return use(path, self._verify(path, read_regular(path)))
        except (Damaged, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise IosimError(f"{str(path)!r} is broken ({why}): {self._how_to_repair}") from None

    def sound(self, tick: Callable[[], object] = lambda: None) -> tuple[set[int], list[Broken]]:
        """Check all shards and set the broken ones aside: the numbers of the sound ones.

        Also removes parts that a crash left more than an hour ago.
        """
        with writing(self.path):
            (self.path / "rows").mkdir(exist_ok=True)
        for part in (self.path / "part").glob("*"):
            with contextlib.suppress(OSError):
                if time.time() - part.lstat().st_mtime > STALE_S:
                    shutil.rmtree(part) if part.is_dir() else part.unlink()
        good: set[int] = set()
        broken: list[Broken] = []
        for path in self.shards():
            reason = self.check(path)
            if reason is not None:
                broken.append(Broken(self._set_aside(path), reason))
            elif path.exists():
                good.add(int(path.stem))
            tick()
        return good, broken

    def _set_aside(self, path: Path) -> Path:
        with writing(self.path):
            (self.path / "aside").mkdir(exist_ok=True)
            where = self.path / "aside" / f"{path.stem}-{uuid.uuid4().hex[:8]}.parquet"
            with contextlib.suppress(FileNotFoundError):  # by another collector
                path.rename(where)
        return where

    def note_run(self, command: str) -> None:
        """Leave the provenance of a run."""
        told = provenance.of(command)
        text = json.dumps(told, indent=1) + "\n"
        stamp = told["date"].translate(str.maketrans("", "", "-: ")).removesuffix("UTC")
        name = f"runs/{stamp}-{uuid.uuid4().hex[:8]}.json"
        with writing(self.path):
            write_in_place(self.path, name, lambda part: part.write_text(text, "utf-8"))

    def verified(self) -> list[Checked]:
        """All shards, each checked.  Raises IosimError for a broken one."""

        def checked(path: Path, file: Any) -> Checked:
            kinds = tuple((a, b, c, d) for a, b, c, d in _tags(file).get("kinds", ()))
            schema = file.schema_arrow.remove_metadata()
            return Checked(path, file.metadata.num_rows, kinds, schema)

        return [self._opened(path, checked) for path in self.shards()]

    def count_rows(self) -> int:
        """Rows of all shards.  Raises IosimError for a broken one."""
        return sum(shard.rows for shard in self.verified())

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """The rows, a shard at a time, as Arrow tables, each checked before it is read.

        Args:
            columns: those to read, as far as there are such; all by default.

        Raises IosimError for a broken one.
        """
        names = None if columns is None else list(columns)
        for path in self.shards():
            yield self._opened(path, lambda _, file: file.read(names))

    def to_arrow(self) -> Any:
        """All rows as one Arrow table.  Raises IosimError for a broken shard."""
        return joined(list(self.tables()))

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame; raises as `to_arrow`, and where pandas is missing."""
        need("pandas", "pandas")
        return self.to_arrow().to_pandas()

    def plot(self) -> Any:
        """Words against M, a line for each schedule and set of sizes: a matplotlib Figure."""
        return call_by_path("iosim.report.views:folder_figure", self)


def joined(tables: Sequence[Any]) -> Any:
    """Arrow tables below each other; of columns that some lack, the cells are null."""
    if not tables:
        return pyarrow().table({})
    return pyarrow().concat_tables(tables, promote_options="default").unify_dictionaries()


def _parquet(data: bytes) -> Any:
    pa = pyarrow()
    try:
        return parquet().ParquetFile(pa.BufferReader(data))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Damaged(str(error).splitlines()[0][:120]) from None


def _tags(file: Any) -> Row:
    try:
        told = parse((file.schema_arrow.metadata or {})[b"iosim"].decode(), "JSON")
    except (KeyError, UnicodeDecodeError, InputError):
        told = None
    if not isinstance(told, dict):
        raise Damaged("it doesn't say what it is")
    return told
