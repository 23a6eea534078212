"""Sweeps: tasks and hashes, the store, executors that agree, tables, and bad input."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples
from strategies import plain_algorithms
from test_cli import iosim_, ok

import iosim
from iosim.base import provenance
from iosim.base.errors import CapacityError, InputError, IosimError
from iosim.bounds import Bound, best_lower_bound, best_lower_bound_many
from iosim.core.engines import ENGINES, Engine
from iosim.core.problem import PROBLEMS, size_names
from iosim.core.program.canonical import canonical
from iosim.core.tiling.rules import choose_tiles
from iosim.sweep import (
    Folder,
    Pool,
    Sweep,
    collect,
    combine,
    dask,
    export_csv,
    processes,
    query,
    serial,
)
from iosim.sweep.grid import OPTIONS
from iosim.sweep.work import compute

SMALL: dict[str, Any] = {
    "schedule": "flash2,small_cache",
    "N": "64:256:x2",
    "d": "8,16",
    "M": "16:4Ki:x2",
    "shard_rows": 10,
}
GIVEN: dict[str, Any] = {
    "schedule": "flash2",
    "N": "100,128",
    "d": "8",
    "M": "100,5000",
    "tiles": "B_r=1:64:x3,B_c=5,9",
}


def table(store: Folder) -> list[dict[str, Any]]:
    """All rows, but for the one column that two runs don't share."""
    rows = pa.concat_tables(store.tables()).drop_columns(["time_s"]).to_pylist()
    assert rows
    return rows


def swept(path: Path, pool: Pool | None = None, **options: Any) -> Folder:
    store = Folder.declare(path, Sweep.of(**options))
    collect(store, pool or serial())
    return store


# ---------------------------------------------------------------- tasks and rows


def test_a_hash_changes_with_everything_that_determines_a_result() -> None:
    task = Sweep.of(**SMALL).task(0)
    seen = {task.hash}
    changes: dict[str, Any] = {
        "program": "0" * 64,
        "sizes": (("N", 65), *task.sizes[1:]),
        "M": 17,
        "tiles": "B_r=1,B_c=1",
        "engine": "simulate",
        "policy": "lru",
        "version": "0.0.1",
        "revision": 0,
    }
    for name, value in changes.items():
        seen.add(dataclasses.replace(task, **{name: value}).hash)
    assert len(seen) == 1 + len(changes)
    assert len(task.hash) == 32


PRODUCTS = SMALL | {"schedule": "copy,matmul", "n": "9", "m": "7", "k": "2,3", "N": None, "d": None}


@pytest.mark.parametrize("options", [SMALL, GIVEN, PRODUCTS])
def test_rows_carry_their_tasks(options: dict[str, Any], tmp_path: Path) -> None:
    """Each row's hash is that of the point's task, made one at a time."""
    sweep = Sweep.of(**options)
    rows = table(swept(tmp_path / "s", **options))
    assert len(rows) == sweep.points
    assert len({r["hash"] for r in rows}) == sweep.points
    for k, row in enumerate(rows):
        task = sweep.task(k)
        assert row["hash"] == task.hash
        assert (row["algorithm"], row["M_words"], row["tiles"]) == (
            task.algorithm,
            task.M,
            task.tiles,
        )
        assert all(row[name] == value for name, value in task.sizes)


@examples(1 / 4)
@given(
    name=st.sampled_from([a.name for a in plain_algorithms()]),
    N=st.integers(1, 300),
    d=st.integers(1, 40),
    heads=st.integers(1, 3),
    M=st.integers(3, 6000),
    how=st.sampled_from(["auto", "paper"]),
)
def test_a_row_is_what_counting_that_point_alone_gives(
    name: str, N: int, d: int, heads: int, M: int, how: str
) -> None:
    entry = iosim.algorithm(name)
    how = how if how in entry.rules else "auto"
    sizes = dict(zip(size_names(entry.problem), (N, d, heads), strict=False))
    sweep = Sweep.of(schedule=name, M=M, tiles=how, **sizes)
    (row,) = compute(sweep, 0).table.to_pylist()
    problem = entry.problem(**sizes)
    best = best_lower_bound(problem, M, entry.classes[0])
    assert row["lower_bound_words"] == pytest.approx(best.words, rel=1e-12)
    assert (row["lower_bound"], row["lower_bound_class"]) == (best.name, entry.classes[0])
    try:
        choice = choose_tiles(entry, problem, M, how)
    except CapacityError:
        assert not row["feasible"]
        assert row["total_words"] is None
        return
    counts = iosim.count(choice.instance)
    assert row["total_words"] == counts.total_words
    for (way, tensor), words in counts:
        assert row[f"{way}_{tensor}_words"] == words
    assert row["peak_words"] == iosim.peak(choice.instance)
    assert row["feasible"] == (row["peak_words"] <= M)
    assert {p.name: row[f"tile_{p.name}"] for p in entry.program.params} == choice.tiles
    if row["feasible"]:
        assert row["gap"] == pytest.approx(row["total_words"] / row["lower_bound_words"])
        assert row["gap"] >= 1
    else:
        assert row["gap"] is None


def test_engines_are_reached_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Running gives the formula's rows, and an engine registered later plugs in."""
    options = GIVEN | {"N": "20", "tiles": "auto", "M": "60,500"}
    formula = table(swept(tmp_path / "f", **options))
    runs = table(swept(tmp_path / "r", **options, engine="simulate"))
    same = [c for c in formula[0] if c not in ("hash", "engine")]
    assert [[r[c] for c in same] for r in formula] == [[r[c] for c in same] for r in runs]
    assert {r["engine"] for r in runs} == {"simulate"}
    monkeypatch.setitem(ENGINES, "later", Engine("later", ENGINES["formula"].one))
    later = table(swept(tmp_path / "l", **options, engine="later"))
    assert [[r[c] for c in same] for r in formula] == [[r[c] for c in same] for r in later]


def test_feasible_leaves_the_others_out(tmp_path: Path) -> None:
    every = table(swept(tmp_path / "a", **SMALL))
    some = table(swept(tmp_path / "b", **SMALL, feasible=True))
    assert some == [r for r in every if r["feasible"]]
    assert 0 < len(some) < len(every)


def test_columns_are_typed_and_say_their_units(tmp_path: Path) -> None:
    schema = next(iter(swept(tmp_path / "s", **SMALL).tables())).schema
    for field in schema:
        if field.name.endswith("_words") and field.name != "lower_bound_words":
            assert field.type == pa.int64()
        if pa.types.is_floating(field.type):
            assert field.name in ("lower_bound_words", "gap", "time_s")


# ---------------------------------------------------------------- the same table from everywhere


def test_serial_processes_threads_and_dask_give_the_same_table(tmp_path: Path) -> None:
    """Row for row; Dask's workers are processes of their own."""
    want = table(swept(tmp_path / "serial", **SMALL))
    assert table(swept(tmp_path / "processes", processes(2), **SMALL)) == want
    threads = Pool("threads", 2, lambda: ThreadPoolExecutor(2))
    assert table(swept(tmp_path / "threads", threads, **SMALL)) == want
    with dask("local", 2) as pool:
        assert table(swept(tmp_path / "dask", pool, **SMALL)) == want


@pytest.mark.slow
def test_dask_workers_started_by_hand(tmp_path: Path) -> None:
    """A scheduler and workers as separate processes, reached by address."""
    where = tmp_path / "scheduler.json"
    dask_ = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--scheduler-file",
        str(where),
        "--port",
        "0",
        "--no-dashboard",
        "--host",
        "127.0.0.1",
    ]
    worker = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        "--scheduler-file",
        str(where),
        "--nthreads",
        "1",
        "--no-dashboard",
    ]
    started = [
        subprocess.Popen(c, stderr=subprocess.DEVNULL, cwd=tmp_path)
        for c in (dask_, worker, worker)
    ]
    try:
        for _ in range(300):
            if where.exists() and where.read_text().strip():
                break
            subprocess.run(["sleep", "0.1"], check=True)
        address = json.loads(where.read_text())["address"]
        want = table(swept(tmp_path / "serial", **SMALL))
        with dask(address) as pool:
            assert table(swept(tmp_path / "dask", pool, **SMALL)) == want
    finally:
        for process in started:
            process.kill()
            process.wait()


# ---------------------------------------------------------------- the store, and what reads it


def test_read_as_it_is(tmp_path: Path) -> None:
    import duckdb

    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    store = swept(tmp_path / "s", **SMALL)
    rows = table(store)
    want = sum(r["total_words"] or 0 for r in rows)
    assert int(pandas.read_parquet(store.path / "rows")["total_words"].sum()) == want
    assert polars.read_parquet(store.path / "rows")["total_words"].sum() == want
    files = f"{store.path}/rows/*.parquet"
    assert duckdb.sql(f"SELECT sum(total_words) FROM '{files}'").fetchall() == [(want,)]
    found = query("SELECT sum(total_words) AS w, count(*) AS n FROM rows", [store.path])
    assert found.to_pylist() == [{"w": want, "n": len(rows)}]
    assert export_csv([store.path], tmp_path / "s.csv") == len(rows)
    frame = pandas.read_csv(tmp_path / "s.csv")
    assert int(frame["total_words"].sum()) == want
    assert list(frame["hash"]) == [r["hash"] for r in rows]


def test_provenance(tmp_path: Path) -> None:
    store = swept(tmp_path / "s", **SMALL)
    collect(store, command="again")
    runs = [json.loads(p.read_text()) for p in sorted((store.path / "runs").iterdir())]
    assert len(runs) == 2
    for run in runs:
        assert {"command", "commit", "date", "iosim", "python", "numpy", "pyarrow", "cpus"} <= set(
            run
        )
    told = json.loads((store.path / "sweep.json").read_text())
    assert told["id"] == store.sweep.id
    assert Sweep.from_dict(told["sweep"]) == Sweep.of(**SMALL)
    for name, program in told["programs"].items():
        assert "online_softmax" in program["text"]
        text = json.dumps(program["program"], sort_keys=True, separators=(",", ":"))
        assert program["hash"] == hashlib.sha256(text.encode()).hexdigest()
        assert program["program"] == json.loads(canonical(iosim.algorithm(name).program))


def test_a_copy_without_its_history_is_told_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOSIM_COMMIT", "0123456789ab")
    assert provenance.of("a command")["commit"] == "0123456789ab"
    monkeypatch.delenv("IOSIM_COMMIT")
    assert re.fullmatch(r"unknown|.*[0-9a-f]{12}(-dirty)?", provenance.commit())


def test_combine_is_append_only_and_drops_what_is_known(tmp_path: Path) -> None:
    a = swept(tmp_path / "a", **SMALL)
    b = swept(tmp_path / "b", **SMALL | {"d": "16,32"})
    first = combine([a.path, b.path], tmp_path / "c")
    every = {r["hash"]: r for r in table(a)} | {r["hash"]: r for r in table(b)}
    assert (first.new, first.known) == (len(every), 0)
    before = {p: p.read_bytes() for p in Folder.open(tmp_path / "c").shards()}
    assert combine([b.path, a.path], tmp_path / "c").new == 0
    e = swept(tmp_path / "e", **GIVEN)
    assert combine([e.path], tmp_path / "c").new == len(table(e))
    assert all(p.read_bytes() == content for p, content in before.items())
    found = query("SELECT count(*) AS n, count(DISTINCT hash) AS h FROM rows", [tmp_path / "c"])
    total = len(every) + len(table(e))
    assert found.to_pylist() == [{"n": total, "h": total}]
    assert export_csv([tmp_path / "c"], tmp_path / "c.csv") == total
    # Across directories each task counts once, too.
    found = query("SELECT count(*) AS n FROM rows", [a.path, b.path])
    assert found.to_pylist() == [{"n": len(every)}]


def test_rows_that_disagree_are_not_combined(tmp_path: Path) -> None:
    a, b = swept(tmp_path / "a", **GIVEN), swept(tmp_path / "b", **GIVEN)
    wrong = pq.read_table(b.shards()[0], partitioning=None)
    at = wrong.schema.get_field_index("load_Q_words")
    column = wrong["load_Q_words"].to_pylist()
    column[3] += 1
    b.write_shard(0, wrong.set_column(at, "load_Q_words", pa.array(column, pa.int64())))
    with pytest.raises(InputError, match="disagree"):
        combine([a.path, b.path], tmp_path / "c")
    assert not Folder.open(tmp_path / "c").shards()


# ---------------------------------------------------------------- the command line


def test_sweep_from_the_command_line_and_from_a_file(tmp_path: Path) -> None:
    words = (
        "--schedule",
        "flash2,small_cache",
        "--N",
        "64:256:x2",
        "--d",
        "8,16",
        "--M",
        "16:4Ki:x2",
        "--shard-rows",
        "10",
        "--workers",
        "1",
    )
    text = ok("sweep", *words, "--out", "a", cwd=tmp_path)
    assert "108 points, 108 rows in a" in text
    (tmp_path / "s.toml").write_text(
        'schedule = ["flash2", "small_cache"]\nN = "64:256:x2"\nd = [8, 16]\nM = "16:4Ki:x2"\n'
        "shard_rows = 10\n"
    )
    told = json.loads(
        ok("sweep", "--config", "s.toml", "--out", "a", "--workers", "1", "--json", cwd=tmp_path)
    )
    assert (told["found_points"], told["done_points"]) == (108, 0)
    assert "108 of them there before" in ok("collect", "a", "--csv", "a.csv", cwd=tmp_path)
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 109
    assert "108 rows new" in ok("combine", "a", "--out", "c", cwd=tmp_path)
    text = ok("query", "SELECT count(*) AS n, min(gap) AS g FROM rows", "a", "c", cwd=tmp_path)
    assert "108" in text


SWEEP = ("sweep", "--schedule", "flash2")
BAD = ("--N", "64", "--d", "8", "--M", "999", "--workers", "1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*SWEEP, *BAD[:4], "--M", "256:1Mi", "--out", "x"), "is not a range"),
        ((*SWEEP, *BAD[:4], "--M", "9:5:x2", "--out", "x"), "is empty"),
        ((*SWEEP, *BAD[:4], "--M", "1:5:x1", "--out", "x"), "does not advance"),
        ((*SWEEP, *BAD[:4], "--M", "", "--out", "x"), "is not a size"),
        (("sweep", *BAD, "--out", "x"), "the grid is empty"),
        ((*SWEEP, "--N", "64", "--d", "8", "--out", "x"), "M is missing"),
        ((*SWEEP, "--N", "64", "--M", "99", "--out", "x"), "needs --d"),
        ((*SWEEP, *BAD, "--m", "4", "--out", "x"), "no algorithm of the sweep"),
        (("sweep", "--schedule", "flash9", *BAD, "--out", "x"), "unknown algorithm 'flash9'"),
        ((*SWEEP, *BAD, "--engine", "forms", "--out", "x"), "unknown engine"),
        ((*SWEEP, *BAD, "--tiles", "paper", "--out", "x"), "no tile rule"),
        ((*SWEEP, *BAD, "--tiles", "B_x=3", "--out", "x"), "no tile size"),
        ((*SWEEP, *BAD, "--tiles", "B_r=3,B_r=4", "--out", "x"), "twice"),
        ((*SWEEP, *BAD, "--out", "/proc/no/where"), "cannot write to"),
        (
            (*SWEEP, *BAD[:6], "--dask", "tcp://127.0.0.1:9", "--out", "x"),
            "no Dask scheduler answers",
        ),
        (("sweep", "--config", "no.toml", "--out", "x"), "cannot read 'no.toml' as TOML"),
        (("collect", "nowhere"), "'nowhere' is not a directory, so it holds no sweep"),
        (("combine", "nowhere", "--out", "x"), "is not a directory, so it holds no sweep"),
        (("query", "SELECT 1", "nowhere"), "is not a directory, so it holds no sweep"),
        (("query", "SELECT 1", "."), "'.' holds no sweep: give one that iosim sweep wrote"),
        (("reproduce", "e99"), "unknown experiment 'e99'"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iosim.sweep.clusters.PATIENCE_S", 0.5)
    done = iosim_(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert done.stderr.startswith("iosim: ")
    assert done.stderr.count("\n") == 1
    assert not [p for p in tmp_path.rglob("*") if p.is_file()], "something was half-written"


def test_a_directory_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    words = (*SWEEP, *BAD)
    done = iosim_(*words, "--out", "full", cwd=tmp_path)
    assert done.returncode == 2
    assert "holds other things" in done.stderr
    ok(*words, "--out", "a", cwd=tmp_path)
    before = {p: p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file()}
    done = iosim_(*words, "--heads", "2", "--out", "a", cwd=tmp_path)
    assert done.returncode == 2
    assert "belongs to another sweep (--schedule flash2 --N 64 --d 8 --M 999" in done.stderr
    assert {p: p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file()} == before
    (tmp_path / "file").write_text("")
    assert iosim_(*words, "--out", "file", cwd=tmp_path).returncode == 2
    ok("combine", "a", "--out", "c", cwd=tmp_path)
    assert "combined rows" in iosim_(*words, "--out", "c", cwd=tmp_path).stderr
    assert "combined rows" in iosim_("collect", "c", cwd=tmp_path).stderr
    done = iosim_("query", "SELEKT 1", "a", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    done = iosim_("query", "SELECT nothing FROM rows", "a", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_nothing_feasible(tmp_path: Path) -> None:
    words = (*SWEEP, "--N", "64", "--d", "8", "--M", "2,3", "--workers", "1")
    done = iosim_(*words, "--feasible", "--out", "x", cwd=tmp_path)
    assert done.returncode == 2
    assert "no point of the grid is feasible" in done.stderr


def test_bad_files(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("schedule = [")
    (tmp_path / "b.toml").write_text('schedules = "flash2"')
    assert "as TOML" in iosim_("sweep", "--config", "a.toml", "--out", "x", cwd=tmp_path).stderr
    done = iosim_("sweep", "--config", "b.toml", "--out", "x", cwd=tmp_path)
    assert "no option 'schedules': did you mean 'schedule'?" in done.stderr


ODD = [
    "'x'",
    "nan",
    "inf",
    "1.5",
    "true",
    "[]",
    "-5",
    "0",
    "{}",
    "{a = 1}",
    "[[]]",
    "['', '']",
    "[true]",
    "1979-05-27",
    "''",
    "' '",
    "','",
    "'1:2:+0'",
    "9999999999999999999999",
    "'%s'",
]


@pytest.mark.parametrize("name", [*OPTIONS, "cls", "self", "version"])
def test_odd_values_in_a_file_are_one_line(name: str, tmp_path: Path) -> None:
    """Each is refused, or means what it says."""
    base = {"schedule": "'flash2'", "N": "64", "d": "8", "M": "999"}
    refused: list[str] = []
    for value in ODD:
        lines = [f"{k} = {v}" for k, v in (base | {name: value}).items()]
        (tmp_path / "s.toml").write_text("\n".join(lines))
        try:
            sweep = Sweep.from_toml(tmp_path / "s.toml")
            assert sweep.points == sweep.shard(0).points > 0
            assert name == "feasible"
            assert value == "true"
        except InputError as error:
            refused.append(str(error))
    assert len(refused) >= len(ODD) - 1
    assert all("\n" not in said and len(said) < 400 for said in refused)


@pytest.mark.parametrize("name", [o for o in OPTIONS if o != "engine"])
def test_integers_that_cannot_be_written(name: str) -> None:
    with pytest.raises(InputError):
        Sweep.of(**{"schedule": "flash2", "N": 64, "d": 8, "M": 99, name: 10**5000})


def test_files_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, said in (
        (tmp_path, "it is not a file"),
        (tmp_path / "no", "there is no such file"),
        (tmp_path / "pipe", "it is not a file"),
        ("a\0b", "there is no such file|null"),
    ):
        with pytest.raises(InputError, match=f"as TOML: .*({said})"):
            Sweep.from_toml(path)
    for text in ("[" * 10**5, "a = " + "[" * 10**5, "a = " + "9" * 5000, "\0", "N = 1\nN = 2"):
        (tmp_path / "s.toml").write_text(text)
        with pytest.raises(InputError, match=r"cannot read .* as TOML"):
            Sweep.from_toml(tmp_path / "s.toml")


def test_more_workers_than_there_can_be() -> None:
    for workers in (-1, 4097, 10**30):
        with pytest.raises(InputError, match=r"workers: give 0 \(one per core\) to 4096"):
            processes(workers)
        with pytest.raises(InputError, match="workers: give"), dask("local", workers):
            pass


def test_a_missing_library_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(IosimError, match=r"install it with \S+ -m pip install 'iosim\[sweep\]'"):
        swept(tmp_path / "s", **SMALL)


def test_importing_sweep_is_light() -> None:
    heavy = ("pyarrow", "duckdb", "distributed", "dask", "pandas", "sympy", "matplotlib")
    code = f"import sys, iosim.sweep; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_memory_does_not_grow_with_the_grid() -> None:
    """A grid of 10¹² points is declared, cut and entered anywhere at once."""
    sweep = Sweep.of(
        schedule="flash2",
        N="1:1000:+1",
        d="1:100:+1",
        M="1:1000:+1",
        tiles="B_r=1:100:+1,B_c=1:100:+1",
    )
    assert sweep.points == 10**12
    last = sweep.shard(sweep.shards - 1)
    assert last.stop == sweep.points
    assert sweep.task(10**12 - 1).sizes == (("N", 1000), ("d", 100), ("heads", 1))


@pytest.mark.parametrize("kind", ["matmul", "copy"])
def test_bounds_in_arrays_are_those_of_the_catalogue(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Curves where all bounds of a kind are closed forms, point by point where one isn't."""
    rng = np.random.default_rng(2)
    sizes = {x: rng.integers(1, 400, 200) for x in size_names(PROBLEMS[kind])}
    M = rng.integers(1, 3000, 200)
    words, names = best_lower_bound_many(kind, sizes, M)
    monkeypatch.setattr(Bound, "everywhere", False)
    slowly, same = best_lower_bound_many(kind, sizes, M)
    assert names == same
    assert np.allclose(words, slowly, rtol=1e-12)


# ---------------------------------------------------------------- caches

CACHED: dict[str, Any] = {
    "schedule": "flash2,small_cache",
    "N": "12,20",
    "d": "2",
    "M": "32,64",
    "policy": "explicit,lru,opt",
}


def test_a_cache_is_one_more_axis(tmp_path: Path) -> None:
    """Rows of a cache are a replay of the schedule with the row's own tiles; others are as ever."""
    from iosim.cache import Cache, replay, touches

    rows = table(swept(tmp_path / "s", **CACHED))
    assert len(rows) == Sweep.of(**CACHED).points == 24
    plain = {k: v for k, v in CACHED.items() if k != "policy"}
    explicit = [r for r in rows if r["policy"] == "explicit"]
    assert explicit == table(swept(tmp_path / "t", **plain))
    cached = [r for r in rows if r["policy"] != "explicit"]
    for row in cached:
        program = iosim.algorithm(row["algorithm"]).program
        sizes = {x: row[x] for x in ("N", "d", "heads")}
        tiles = {p.name: row[f"tile_{p.name}"] for p in program.params}
        stream = touches(iosim.bind(program, sizes, tiles))
        moved = replay(stream, Cache(capacity=row["M_words"], policy=row["policy"]))
        assert row["load_words"] == moved.loads
        assert row["store_words"] == moved.write_backs + moved.flush
        assert row["total_words"] == moved.words
        assert row["load_K_words"] is None
        assert row["engine"] == "replay"
        bound = best_lower_bound(iosim.Attention(row["N"], row["d"]), row["M_words"])
        assert row["lower_bound_words"] == bound.words <= moved.words
        assert row["gap"] == moved.words / bound.words
    assert {r["hash"] for r in rows} == {Sweep.of(**CACHED).task(k).hash for k in range(24)}
    assert len({r["hash"] for r in rows}) == 24


def test_the_default_policy_changes_no_folder() -> None:
    assert Sweep.of(**SMALL).id == Sweep.of(**SMALL, policy="explicit").id
    assert "policy" not in Sweep.of(**SMALL).as_dict()
    cached = Sweep.of(**CACHED)
    assert Sweep.from_dict(json.loads(json.dumps(cached.as_dict()))) == cached
    assert cached.id != Sweep.of(**CACHED | {"policy": "explicit,opt,lru"}).id


def test_cached_rows_are_combined_asked_and_exported(tmp_path: Path) -> None:
    few = {k: v for k, v in CACHED.items() if k != "policy"}
    folders = [swept(tmp_path / p, **few, policy=p).path for p in ("explicit", "lru")]
    assert combine(folders, tmp_path / "all").new == 16
    found = query(
        "SELECT policy, count(*) AS n FROM rows GROUP BY policy ORDER BY policy", [tmp_path / "all"]
    )
    assert found.to_pylist() == [{"policy": "explicit", "n": 8}, {"policy": "lru", "n": 8}]
    assert export_csv([tmp_path / "all"], tmp_path / "all.csv") == 16


def test_what_is_too_long_to_replay_has_lrus_closed_form(tmp_path: Path) -> None:
    long = {"schedule": "flash2", "N": "1Mi", "d": "64", "M": "32Ki"}
    (row,) = table(swept(tmp_path / "s", **long, policy="lru"))
    (explicit,) = table(swept(tmp_path / "t", **long))
    assert row["load_words"] == explicit["load_words"]
    assert (row["store_words"], row["total_words"], row["gap"]) == (None, None, None)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"policy": "lur"}, "unknown policy 'lur': did you mean 'lru'?"),
        ({"policy": "plru", "M": "100"}, "plru needs a power of two of ways, not 100"),
        ({"policy": "opt", "N": "1Mi", "d": "64", "M": "32Ki"}, "a closed form is of LRU only"),
        (
            {
                "policy": "lru",
                "schedule": "flash2_chunked",
                "N": "1Mi",
                "d": "64",
                "M": "32Ki",
                "causal": True,
            },
            "LRU has no closed form here",
        ),
    ],
)
def test_caches_that_cannot_be_are_refused_beforehand(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        Sweep.of(**CACHED | {"schedule": "flash2"} | options)
