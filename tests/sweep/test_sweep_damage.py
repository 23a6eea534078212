"""What sweeps read back: damaged shards and manifests, and things that are not files."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from test_cli import iosim_
from test_sweep import GIVEN, SMALL, swept, table

from iosim.base.errors import InputError, IosimError
from iosim.sweep import Folder, collect, combine, export_csv, query
from iosim.sweep.manifest import MANIFEST
from iosim.sweep.seal import BLANK, KEY, seal

COUNT = "SELECT count(*) AS n, sum(total_words)::BIGINT AS w, min(gap) AS g FROM rows"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return swept(tmp_path_factory.mktemp("whole") / "s", **GIVEN)


def copied(whole: Folder, path: Path) -> Folder:
    shutil.copytree(whole.path, path)
    return Folder.open(path)


def readers(folder: Folder, out: Path) -> list[Callable[[], Any]]:
    return [
        lambda: query(COUNT, [folder.path]).to_pylist(),
        lambda: combine([folder.path], out / "c"),
        lambda: export_csv([folder.path], out / "c.csv"),
        folder.count_rows,
    ]


def test_a_sealed_shard_that_is_not_the_sweeps_is_refused(whole: Folder, tmp_path: Path) -> None:
    """Its checksum is right, and yet it has other columns or rows than it should."""
    folder = copied(whole, tmp_path / "s")
    rows = next(folder.tables())
    tags = {"sweep": folder.manifest["id"], "shard": "0"}
    folder.write(0, rows.drop_columns(["gap"]), tags)
    with pytest.raises(IosimError, match="it has other columns than its sweep"):
        query(COUNT, [folder.path])
    path = folder.shard_path(0)
    told = {**tags, "rows": len(rows) + 1, KEY: BLANK}
    pq.write_table(rows.replace_schema_metadata({b"iosim": json.dumps(told).encode()}), path)
    seal(path)
    with pytest.raises(IosimError, match=f"it has {len(rows)} rows instead of {len(rows) + 1}"):
        query(COUNT, [folder.path])
    assert len(folder.sound()[1]) == 1


def test_a_shard_of_another_sweep_is_refused(whole: Folder, tmp_path: Path) -> None:
    """It has the right name, columns and checksum."""
    folder = copied(whole, tmp_path / "s")
    other = swept(tmp_path / "t", **GIVEN | {"d": "16"})
    shutil.copyfile(other.shard_path(0), folder.shard_path(0))
    for read in readers(folder, tmp_path):
        with pytest.raises(IosimError, match="it belongs to another sweep or place"):
            read()


@pytest.mark.parametrize("flips", [400, pytest.param(3500, marks=pytest.mark.slow)])
def test_no_flipped_bit_is_read(flips: int, whole: Folder, tmp_path: Path) -> None:
    """One bit at a time over a whole shard: every one is named, none answers."""
    folder = copied(whole, tmp_path / "s")
    (path,) = folder.shards()
    content = path.read_bytes()
    want = query(COUNT, [folder.path]).to_pylist()
    bits = sorted(random.Random(flips).sample(range(8 * len(content)), flips))
    # The places that say what the rest means: head, checksum, footer's length and tail.
    at = content.index(KEY.encode())
    bits += [8 * k + 3 for k in (0, 3, at, at + len(KEY) + 5, len(content) - 8, len(content) - 1)]
    for bit in bits:
        broken = bytearray(content)
        broken[bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        with pytest.raises(IosimError, match=r"00000000\.parquet' is broken .*iosim collect"):
            query(COUNT, [folder.path])
    path.write_bytes(content)
    assert query(COUNT, [folder.path]).to_pylist() == want


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _rewritten(path: Path) -> None:
    pq.write_table(pq.read_table(path, partitioning=None), path)


def _moved(path: Path) -> None:
    shutil.copy(path.with_name("00000003.parquet"), path)


def _renamed(path: Path) -> None:
    path.rename(path.with_name("2.parquet"))


def _extra(path: Path) -> None:
    shutil.copy(path, path.with_name("²²²²²²²²²²²².parquet"))


DAMAGES = [_cut, _fifo, _folder, _dangling, _loop, _rewritten, _moved, _renamed, _extra]


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_reader_names_a_broken_shard(damage: Callable[[Path], None], tmp_path: Path) -> None:
    folder = swept(tmp_path / "s", **SMALL)
    want = table(folder)
    damage(folder.shards()[2])
    for read in readers(folder, tmp_path):
        with pytest.raises(IosimError, match=r"parquet' is broken .*iosim collect") as error:
            read()
        assert "\n" not in str(error.value)
    assert not (tmp_path / "c.csv").exists()
    assert not list((tmp_path / "c").glob("rows/*"))
    report = collect(folder)
    assert len(report.broken) == 1
    assert os.path.lexists(report.broken[0].path)
    assert table(folder) == want


def test_a_shard_may_be_a_link(tmp_path: Path) -> None:
    folder = swept(tmp_path / "s", **SMALL)
    path = folder.shards()[2]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert not collect(folder).broken


def test_a_shard_of_combined_rows_is_checked(tmp_path: Path) -> None:
    folder = swept(tmp_path / "s", **SMALL)
    combine([folder.path], tmp_path / "c")
    made = Folder.open(tmp_path / "c")
    (path,) = made.shards()
    path.write_bytes(path.read_bytes()[:-1] + b"X")
    for read in readers(made, tmp_path):
        with pytest.raises(IosimError, match=r"is broken.*move it away, and combine its sources"):
            read()


def test_rows_that_are_gone_are_counted_again(tmp_path: Path) -> None:
    folder = swept(tmp_path / "s", **SMALL)
    want = table(folder)
    shutil.rmtree(folder.path / "rows")
    with pytest.raises(InputError, match="rows' is missing: iosim collect"):
        query(COUNT, [folder.path])
    collect(folder)
    assert table(folder) == want
    shutil.rmtree(folder.path / "rows")
    (folder.path / "rows").write_text("")
    with pytest.raises(InputError, match=r"cannot read .*rows"):
        query(COUNT, [folder.path])


# ---------------------------------------------------------------- manifests


def _without(name: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        told = json.loads(path.read_text())
        del told[name]
        path.write_text(json.dumps(told))

    return damage


def _older(path: Path) -> None:
    told = json.loads(path.read_text())
    del told["sha256"], told["format"], told["columns"]
    told["programs"] = {"0" * 64: "flash2(…)"}
    path.write_text(json.dumps(told))


def _flipped(path: Path) -> None:
    path.write_text(path.read_text().replace('"100,128"', '"100,129,"'))


MANIFESTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no id": (_without("id"), "is damaged .its checksum"),
    "no checksum": (_without("sha256"), "is of an older iosim"),
    "older": (_older, "is of an older iosim"),
    "flipped": (_flipped, "is damaged .its checksum"),
    "cut": (lambda p: p.write_text(p.read_text()[:99]), "is damaged"),
    "empty": (lambda p: p.write_text(""), "is damaged"),
    "a number": (lambda p: p.write_text("7"), "is damaged .it is not an object"),
    "deep": (lambda p: p.write_text("[" * 10**5), "is damaged"),
    "bytes": (lambda p: p.write_bytes(b"\xff\xfe"), "is damaged"),
    "a pipe": (_fifo, "is damaged .it is not a regular file"),
    "a folder": (_folder, "is damaged .it is not a regular file"),
    "gone": (lambda p: p.unlink(), "has lost its sweep.json"),
}


@pytest.mark.parametrize("what", MANIFESTS)
def test_a_damaged_manifest_says_so(what: str, whole: Folder, tmp_path: Path) -> None:
    folder = copied(whole, tmp_path / "s")
    damage, message = MANIFESTS[what]
    damage(folder.path / MANIFEST)
    for words in (("collect", "s"), ("query", COUNT, "s"), ("combine", "s", "--out", "c")):
        done = iosim_(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert re.search(message, done.stderr), done.stderr
        assert done.stderr.count("\n") == 1


def test_a_manifest_that_is_gone_is_written_again(whole: Folder, tmp_path: Path) -> None:
    folder = copied(whole, tmp_path / "s")
    (folder.path / MANIFEST).unlink()
    again = Folder.declare(folder.path, whole.sweep)
    assert collect(again).done == 0
    assert table(again) == table(whole)
