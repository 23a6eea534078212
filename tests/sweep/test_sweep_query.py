"""Questions to sweeps: whatever folders are called, and with nothing but their rows in reach."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_cli import iosim_, ok
from test_sweep import GIVEN, swept, table

from iosim.base.errors import InputError, IosimError
from iosim.sweep import Folder, Sweep, answered, collect, combine, database, export_csv, query
from iosim.sweep import collecting as collecting_module

NAMES = [
    "N=7",
    "total_words=5/x",
    "hash=0",
    "a b",
    "it's",
    'say "so"',
    "x[1]",
    "[!a]",
    "*",
    "?",
    "{a,b}",
    "~",
    "file:x",
    "http:/x",
    "rows/part",
    "%41",
    "ü",
]


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which a name that is taken for a pattern finds other folders."""
    path = tmp_path_factory.mktemp("beside")
    for name in ("x1", "a", "b", "bb"):
        swept(path / name, **GIVEN | {"d": "16"})
    return path


@pytest.mark.numbers
@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_a_folder_changes_no_row(name: str, beside: Path, tmp_path: Path) -> None:
    path = beside / name
    want = table(swept(path, **GIVEN))
    assert {r["N"] for r in want} == {100, 128}
    found = query("SELECT * EXCLUDE time_s FROM rows ORDER BY hash", [path]).to_pylist()
    assert found == sorted(want, key=lambda r: r["hash"])
    assert export_csv([path], tmp_path / "s.csv") == len(want)
    with (tmp_path / "s.csv").open(newline="") as file:
        assert [int(r["N"]) for r in csv.DictReader(file)] == [r["N"] for r in want]
    out = tmp_path / "out" / name
    combine([path], out)
    assert table(Folder.open(out)) == want
    assert combine([path], out).new == 0
    found = query("SELECT * EXCLUDE time_s FROM rows ORDER BY hash", [path, out]).to_pylist()
    assert found == sorted(want, key=lambda r: r["hash"])


@pytest.mark.parametrize("name", ["s3:", "file:", "a:/b", "./N=7"])
def test_a_relative_name_is_no_address(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    want = table(swept(Path(name), **GIVEN))
    combine([name], "out:")
    for folders in ([name], ["out:"], [name, "out:"]):
        assert query("SELECT * FROM rows", folders).num_rows == len(want)
    assert export_csv([name], "s.csv") == len(want)


def test_rows_come_in_the_grids_order(tmp_path: Path) -> None:
    folder = swept(tmp_path / "s", **GIVEN | {"M": "16:4Ki:+8", "shard_rows": 500})
    found = query("SELECT hash FROM rows", [folder.path])["hash"].to_pylist()
    assert found == [r["hash"] for r in table(folder)]
    assert len(found) > 5_000


OUTSIDE = [
    "COPY rows TO '{0}/stolen.csv'",
    "COPY (SELECT 1) TO '{0}/s/rows/00000000.parquet'",
    "SELECT * FROM read_csv('{0}/secret.csv')",
    "SELECT * FROM '{0}/secret.csv'",
    "SELECT * FROM read_text('{0}/secret.csv')",
    "SELECT * FROM read_parquet('{0}/s/rows/00000000.parquet')",
    "SELECT * FROM glob('{0}/*')",
    "SELECT * FROM 'https://example.org/x.parquet'",
    "ATTACH '{0}/other.db'",
    "EXPORT DATABASE '{0}/stolen'",
    "IMPORT DATABASE '{0}'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CREATE SECRET (TYPE s3)",
    "SET enable_external_access = true",
    "SET temp_directory = '{0}'",
    "PRAGMA profiling_output = '{0}/stolen'",
    "SET lock_configuration = false",
    "SELECT * FROM sql",  # a variable of the caller
    "SELECT 1; COPY (SELECT 1) TO '{0}/stolen.csv'",
]


@pytest.mark.parametrize("sql", OUTSIDE)
def test_nothing_else_is_in_reach(sql: str, tmp_path: Path) -> None:
    folder = swept(tmp_path / "s", **GIVEN)
    (tmp_path / "secret.csv").write_text("a\n1\n")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(InputError, match="the query fails") as error:
        query(sql.format(tmp_path), [folder.path])
    assert "\n" not in str(error.value)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_the_place_of_what_does_not_fit_is_private(tmp_path: Path) -> None:
    """Even what the database may write to is made for one question, and gone after it."""
    folder = swept(tmp_path / "s", **GIVEN)
    (found,) = query("SELECT current_setting('temp_directory') AS x", [folder.path]).to_pylist()
    assert not Path(found["x"]).exists()
    assert Path.cwd() not in Path(found["x"]).parents


def test_a_question_that_does_not_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MEMORY", "60MB")
    folder = swept(tmp_path / "s", **GIVEN)
    sql = "SELECT hash(range) AS h FROM range(10000000) ORDER BY h"
    with answered(sql, [folder.path]) as answer:
        last, many = 0, 0
        for batch in answer.batches:
            assert last <= batch["h"][0].as_py()
            last, many = batch["h"][-1].as_py(), many + batch.num_rows
    assert many == 10**7


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    folder = swept(tmp_path / "s", **GIVEN)
    with pytest.raises(InputError, match="two columns are called 'x': name one with AS"):
        query("SELECT N AS x, d AS x FROM rows", [folder.path])


def test_json_of_any_answer(tmp_path: Path) -> None:
    swept(tmp_path / "s", **GIVEN)
    sql = (
        "SELECT sum(total_words) AS w, DATE '2024-01-02' AS d, 'nan'::DOUBLE AS n, 1.25 AS x, "
        "[1, 2] AS l, {'a': NULL} AS s, 'ab'::BLOB AS b, 2::HUGEINT ** 100 AS h FROM rows"
    )
    (row,) = json.loads(ok("query", sql, "s", "--json", cwd=tmp_path))
    want = sum(r["total_words"] or 0 for r in table(Folder.open(tmp_path / "s")))
    assert (row["w"], row["x"], row["n"], row["l"]) == (want, 1.25, None, [1, 2])
    assert json.loads(ok("query", "SELECT 1 AS x WHERE false", "s", "--json", cwd=tmp_path)) == []
    many = "SELECT range AS x FROM range(4000)"
    every = json.loads(ok("query", many, "s", "--json", cwd=tmp_path))
    assert [r["x"] for r in every] == list(range(4000))
    assert "3,000 rows more" in ok("query", many, "s", cwd=tmp_path)
    assert iosim_("query", "CREATE TABLE x (y INT)", "s", cwd=tmp_path).returncode == 0


# ---------------------------------------------------------------- what is mixed


def change_sweep(path: Path, **change: Any) -> Folder:
    """A sweep that another version, revision or schedule made, as far as its rows say."""
    sweep = dataclasses.replace(Sweep.of(**GIVEN), **change)
    folder = Folder.declare(path, sweep)
    for number in range(sweep.shards):
        folder.write_shard(number, collecting_module.compute(sweep, number).table)
    return folder


def test_another_version_or_revision_is_not_carried_on(tmp_path: Path) -> None:
    for change in ({"version": "0.0.9"}, {"revision": 0}):
        path = tmp_path / str(change)
        folder = change_sweep(path, **change)
        before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
        with pytest.raises(InputError, match=r"was made by iosim .*, and this is iosim"):
            collect(folder)
        with pytest.raises(InputError, match=r"belongs to another sweep .*revision \d"):
            Folder.declare(path, Sweep.of(**GIVEN))
        assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before
        assert query("SELECT count(*) AS n FROM rows", [path]).to_pylist() == [{"n": 32}]


def test_rows_of_two_revisions_are_named(tmp_path: Path) -> None:
    a, b = swept(tmp_path / "a", **GIVEN), change_sweep(tmp_path / "b", revision=0)
    said: list[str] = []
    count = "SELECT count(*) AS n FROM rows"
    query(count, [a.path], remark=said.append)
    assert not said
    assert query(count, [a.path, b.path], remark=said.append).to_pylist() == [{"n": 64}]
    combine([a.path, b.path], tmp_path / "c", remark=said.append)
    query(count, [tmp_path / "c"], remark=said.append)
    export_csv([tmp_path / "c"], tmp_path / "c.csv", remark=said.append)
    assert len(said) == 4
    assert len(set(said)) == 1
    assert "rows come from 2 revisions of iosim" in said[0]
    done = iosim_("query", count, "a", "b", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, f"iosim: note: {said[0]}\n")
    with pytest.warns(UserWarning, match="2 revisions"):
        query(count, [tmp_path / "c"])


def test_rows_of_two_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a = swept(tmp_path / "a", **GIVEN)
    monkeypatch.setattr("iosim.sweep.grid.program_hash", lambda name, form: "0" * 64)
    b = swept(tmp_path / "b", **GIVEN)
    said: list[str] = []
    assert query("SELECT 1 AS x", [a.path, b.path], remark=said.append)
    assert len(said) == 1
    assert "rows of flash2 come from 2 programs: 000000000000 and " in said[0]
    monkeypatch.undo()
    with pytest.raises(IosimError, match="was made with other schedules"):
        collect(b)


def test_no_gap_of_rows_that_fit_is_below_1(tmp_path: Path) -> None:
    """With given tiles most rows don't fit; a bound for M words says nothing of those."""
    folder = swept(
        tmp_path / "s",
        schedule="flash1,flash2",
        N="1,100,128,",
        d="8,16",
        M="3:8Ki:x1.7",
        tiles="B_r=1:128:x3,B_c=1:128:x3",
    )
    (found,) = query(
        "SELECT min(gap) AS least, count(*) FILTER (NOT feasible) AS over, "
        "count(*) FILTER ((gap IS NULL) = feasible) AS wrong, "
        "min(total_words / lower_bound_words) FILTER (NOT feasible) AS of_others FROM rows",
        [folder.path],
    ).to_pylist()
    assert found["least"] >= 1
    assert found["over"] > 100
    assert found["wrong"] == 0
    assert found["of_others"] < 1


def test_combining_takes_each_task_once_whatever_the_shards(tmp_path: Path) -> None:
    """Against a dictionary of rows; shards of all sizes, tasks that come again in other places."""
    made = [
        swept(tmp_path / str(k), **GIVEN | {"M": M, "N": N, "shard_rows": rows})
        for k, (M, N, rows) in enumerate(
            [
                ("100,200", "64,100,", 7),
                ("200,300", "100", 1000),
                ("100:400:+100", "64,100,128", 11),
            ]
        )
    ]
    want: dict[str, Any] = {}
    for folder in made:
        for row in table(folder):
            want.setdefault(row["hash"], row)
    for k in (2, 3):
        combine([f.path for f in made[:k]], tmp_path / "c")
    found = table(Folder.open(tmp_path / "c"))
    assert {r["hash"]: r for r in found} == want
    assert len(found) == len(want)
    assert export_csv([f.path for f in made], tmp_path / "c.csv") == len(want)
    with (tmp_path / "c.csv").open(newline="") as file:
        assert [r["hash"] for r in csv.DictReader(file)] == list(want)
    assert os.listdir(tmp_path / "c" / "part") == []


@pytest.mark.parametrize("sql", ["SELECT range(1000000000)", "SELECT repeat('x', 4000000000)"])
def test_a_single_value_keeps_to_the_memory(sql: str, tmp_path: Path) -> None:
    """DuckDB doesn't count it: it took 8 GB, and more than the machine has ended the process."""
    if not Path("/proc/self/status").exists():
        pytest.skip("only Linux says what a process has")
    Folder.declare(tmp_path / "rows", Sweep.of(schedule="copy", n=9, M=4))
    collect(Folder.open(tmp_path / "rows"))
    words = [sys.executable, "-m", "iosim", "query", sql, str(tmp_path / "rows")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, text=True, **pipes) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        said = run.stdout.read(), run.stderr.read()
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    assert run.returncode == 2
    assert not said[0]
    assert said[1].startswith("iosim: the query fails: Out of Memory")
    assert said[1].count("\n") == 1
    assert used.ru_maxrss * 1024 < 2**31
