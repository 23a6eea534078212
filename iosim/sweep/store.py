"""A directory of Parquet shards: written whole, synced, renamed into place; never changed again.

    DIR/sweep.json      what the directory holds: the declaration, its id, the programs' text
    DIR/rows/*.parquet  the shards: pandas, polars and DuckDB read them as they are
    DIR/runs/*.json     provenance, one file for each run: versions, machine, command, commit
    DIR/aside/*         shards that were found broken
    DIR/part/*          what is being written

A shard is named by its number, so any number of collectors may fill one directory without locks: a
shard that two of them computed holds the same rows (up to time_s) and takes one place.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosim.errors import InputError, IosimError
from iosim.output import provenance
from iosim.sweep.grid import Sweep
from iosim.sweep.need import parquet, pyarrow
from iosim.sweep.task import program_hash, program_text

MANIFEST = "sweep.json"
STALE_S = 3600.0


@dataclass(frozen=True)
class Broken:
    """A shard that was set aside, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Store:
    """A directory of shards.

    Attributes:
        path: the directory.
        manifest: what `sweep.json` says.
    """

    path: Path
    manifest: Mapping[str, Any]

    @classmethod
    def declare(cls, path: str | os.PathLike[str], sweep: Sweep) -> Store:
        """The store of a sweep, made if need be.

        Raises InputError where the directory holds something else or cannot be written.
        """
        programs = {program_hash(x): program_text(x) for x in sweep.algorithms}
        told = {
            "kind": "sweep", "id": sweep.id, "points": sweep.points, "shards": sweep.shards,
            "sweep": sweep.as_dict(), "programs": programs,
        }  # fmt: skip
        found = cls._make(Path(path), told)
        if found.manifest.get("id") != sweep.id:
            raise InputError(
                f"{str(path)!r} belongs to {found.what}: give another --out, or carry that one on "
                f"with iosim collect {path}"
            )
        return found

    @classmethod
    def combined(cls, path: str | os.PathLike[str]) -> Store:
        """A store for rows of many sweeps.  Raises InputError as `declare` does."""
        found = cls._make(Path(path), {"kind": "combined"})
        if found.manifest.get("kind") != "combined":
            raise InputError(f"{str(path)!r} belongs to {found.what}: give another --out")
        return found

    @classmethod
    def _make(cls, path: Path, told: dict[str, Any]) -> Store:
        parquet()  # say that it is missing before anything is made
        with writing(path):
            if not (path / MANIFEST).exists():
                if path.is_dir() and any(
                    x.name not in ("rows", "runs", "aside", "part") for x in path.iterdir()
                ):
                    raise InputError(
                        f"{str(path)!r} holds other things and no {MANIFEST}: give a new directory"
                    )
                for name in ("rows", "runs", "part"):
                    (path / name).mkdir(parents=True, exist_ok=True)
                text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
                _put(path, MANIFEST, lambda part: part.write_text(text, "utf-8"), keep=True)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Store:
        """A store that exists.  Raises InputError for a directory that is none."""
        try:
            manifest = json.loads((Path(path) / MANIFEST).read_text(encoding="utf-8"))
            assert manifest["kind"] in ("sweep", "combined")
        except (OSError, ValueError, KeyError, TypeError, AssertionError):
            raise InputError(
                f"{str(path)!r} holds no sweep: give a directory that iosim sweep wrote"
            ) from None
        return cls(Path(path), manifest)

    @property
    def what(self) -> str:
        """What the directory belongs to, in words."""
        if self.manifest["kind"] == "combined":
            return "combined rows"
        told = self.sweep
        sizes = " ".join(f"--{k} {v}" for k, v in told.sizes)
        return (
            f"another sweep (--algo {','.join(told.algorithms)} {sizes} --M {told.M} --tiles "
            f"{told.tiles} --engine {told.engine}, iosim {told.version})"
        )

    @property
    def sweep(self) -> Sweep:
        """The declaration.  Raises InputError for combined rows, which have none."""
        if self.manifest["kind"] != "sweep":
            raise InputError(f"{str(self.path)!r} holds combined rows: collect its sources instead")
        try:
            return Sweep.from_dict(self.manifest["sweep"])
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{str(self.path / MANIFEST)!r} is of another version: {error}"
            ) from None

    def slim(self) -> Store:
        """What a worker needs to write shards; small to send."""
        return Store(self.path, {"kind": self.manifest["kind"], "id": self.manifest.get("id")})

    def shard_path(self, name: int | str) -> Path:
        """Where a shard is, or will be."""
        return self.path / "rows" / (f"{name:08d}.parquet" if isinstance(name, int) else name)

    def shards(self) -> list[Path]:
        """All shards, in order."""
        return sorted((self.path / "rows").glob("*.parquet"))

    def write(self, name: int | str, table: Any, tags: Mapping[str, str]) -> None:
        """Write a shard; when this returns, it survives a crash.

        Raises IosimError where the disk refuses; nothing is left half-written.
        """
        pq = parquet()
        meta = {**(table.schema.metadata or {}), b"iosim": json.dumps(dict(tags)).encode()}

        def put(part: Path) -> None:
            pq.write_table(
                table.replace_schema_metadata(meta), part, compression="zstd",
                write_page_checksum=True,
            )  # fmt: skip

        with writing(self.path):
            _put(self.path, str(self.shard_path(name).relative_to(self.path)), put)

    def write_shard(self, number: int, table: Any) -> None:
        """Write a shard of a sweep, marked as such; raises as `write` does."""
        self.write(number, table, {"sweep": self.manifest["id"], "shard": str(number)})

    def check(self, path: Path) -> str | None:
        """Read a shard whole, checksums and all: what is wrong with it, or None."""
        pa, pq = pyarrow(), parquet()
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                tags = json.loads((file.schema_arrow.metadata or {}).get(b"iosim", b"{}"))
                rows = sum(batch.num_rows for batch in file.iter_batches())
                if rows != file.metadata.num_rows:
                    return f"holds {rows} of {file.metadata.num_rows} rows"
        except FileNotFoundError:
            return None  # set aside by another collector
        except (pa.ArrowException, OSError, ValueError) as error:
            return str(error).splitlines()[0].strip()[:120]
        if self.manifest["kind"] == "sweep":
            want = {"sweep": self.manifest["id"], "shard": str(_number(path))}
            if tags != want:
                return "belongs to another sweep or place"
        return None

    def sound(self, tick: Callable[[], object] = lambda: None) -> tuple[set[int], list[Broken]]:
        """Check all shards and set the broken ones aside: the numbers of the sound ones.

        Also sweeps away parts that a crash left more than an hour ago.
        """
        for part in (self.path / "part").glob("*"):
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > STALE_S:
                    part.unlink()
        good: set[int] = set()
        broken: list[Broken] = []
        for path in self.shards():
            reason = self.check(path)
            if reason is None:
                good.add(_number(path))
            else:
                broken.append(Broken(self._set_aside(path), reason))
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
            (self.path / "runs").mkdir(exist_ok=True)
            _put(self.path, name, lambda part: part.write_text(text, "utf-8"))

    def count_rows(self) -> int:
        """Rows of all shards."""
        return sum(parquet().read_metadata(p).num_rows for p in self.shards())

    def tables(self) -> Iterator[Any]:
        """The rows, a shard at a time, as Arrow tables."""
        for path in self.shards():
            try:
                yield parquet().read_table(path, partitioning=None)
            except (pyarrow().ArrowException, OSError) as error:
                why = str(error).splitlines()[0]
                raise IosimError(
                    f"{path} is broken ({why}): iosim collect {self.path} sets it aside and "
                    "redoes it"
                ) from None


def _number(path: Path) -> int:
    return int(path.stem) if path.stem.isdigit() else -1


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the file system refuses into one line that says what is safe."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error).splitlines()[0]
        raise IosimError(
            f"cannot write to {str(path)!r} ({why}): rows reported done are safe; mend it and run "
            "the same command again"
        ) from error


def _put(root: Path, name: str, write: Callable[[Path], object], keep: bool = False) -> None:
    """Write a file beside its place, sync it, and move it there in one step.

    With `keep`, a file that is there already stays.
    """
    part = root / "part" / f"{os.getpid()}-{uuid.uuid4().hex}"
    part.parent.mkdir(exist_ok=True)
    try:
        write(part)
        _sync(part)
        if keep:
            _claim(part, root / name)
        else:
            part.replace(root / name)
        _sync((root / name).parent)
    finally:
        part.unlink(missing_ok=True)


def _claim(part: Path, path: Path) -> None:
    """Give a file its name, unless the name is taken: then the one that is there stays."""
    try:
        os.link(part, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not path.exists():
            part.replace(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
