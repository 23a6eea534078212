"""Sweeps that are killed, out of disk space, damaged and shared: nothing lost, nothing twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_sweep import SMALL, swept, table

from iosim.base.errors import IosimError
from iosim.sweep import Folder, Sweep, collect, dask, processes
from iosim.sweep import executors as ex
from iosim.sweep.collecting import _Todo

# 40 shards, a few milliseconds each.
MANY: dict[str, Any] = {
    "schedule": "flash2",
    "N": "64:4096:x2",
    "d": "8,16",
    "M": "64:64Ki:x1.3",
    "shard_rows": 10,
}
WORDS = [
    "sweep",
    "--schedule",
    MANY["schedule"],
    "--N",
    MANY["N"],
    "--d",
    MANY["d"],
    "--M",
    MANY["M"],
    "--shard-rows",
    "10",
]


@pytest.fixture(scope="module")
def want(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return table(swept(tmp_path_factory.mktemp("want") / "s", **MANY))


def start(path: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "iosim", *WORDS, "--out", str(path), *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def read_shards(path: Path) -> dict[str, bytes]:
    """Shards that are in place: each must be readable at any moment."""
    found = {p.name: p.read_bytes() for p in sorted(path.glob("rows/*.parquet"))}
    for name, content in found.items():
        pq.read_table(pa.BufferReader(content)).validate(full=True)
        assert name
    return found


def children(pid: int) -> list[int]:
    """Processes below a process, itself left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found.append((int(entry.name), parent))
    mine, grown = {pid}, True
    while grown:
        more = {c for c, p in found if p in mine} - mine
        grown = bool(more)
        mine |= more
    return sorted(mine - {pid})


def kill_drivers(path: Path, times: int, rng: random.Random, *more: str) -> int:
    """Kill -9 a driver again and again; what was in place stays as it was.  How many died."""
    died = 0
    span = 1.0  # seconds that a run takes, near enough that half of them die
    for _ in range(times):
        before = read_shards(path) if path.exists() else {}
        driver = start(path, *more)
        time.sleep(span * rng.uniform(0.3, 1.0))
        with contextlib.suppress(ProcessLookupError):
            driver.kill()
        killed = driver.wait() == -signal.SIGKILL
        driver.communicate()
        died += killed
        span *= 1.1 if killed else 0.8
        after = read_shards(path) if path.exists() else {}
        assert before.items() <= after.items(), "a shard that was there changed or is gone"
    return died


@pytest.mark.parametrize("times", [8, pytest.param(60, marks=pytest.mark.slow)])
def test_killing_the_driver(times: int, want: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "s"
    died = kill_drivers(path, times, random.Random(times), "--workers", "1")
    assert died >= times // 4
    store = Folder.declare(path, Sweep.of(**MANY))
    collect(store)
    assert table(store) == want


@pytest.mark.slow
def test_killing_a_driver_with_processes_leaves_no_worker(
    want: list[dict[str, Any]], tmp_path: Path
) -> None:
    path = tmp_path / "s"
    rng = random.Random(5)
    for _ in range(15):
        driver = start(path, "--workers", "2")
        time.sleep(rng.uniform(0.5, 2.5))
        below = children(driver.pid)
        with contextlib.suppress(ProcessLookupError):
            driver.kill()
        driver.communicate()
        for _ in range(100):
            if not any(Path(f"/proc/{pid}").exists() for pid in below):
                break
            time.sleep(0.1)
        assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]
    store = Folder.declare(path, Sweep.of(**MANY))
    collect(store)
    assert table(store) == want


@pytest.mark.parametrize("kills", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_killing_workers(
    kills: int, want: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every so often a shard's worker is killed right after the shard is written."""
    store = Folder.declare(tmp_path / "s", Sweep.of(**MANY))
    pool = processes(2)
    monkeypatch.setattr(ex, "_alone", lambda: False)  # workers of the server; see below for others
    killed = 0
    rng = random.Random(kills)

    def assassin(report: Any) -> None:
        nonlocal killed
        below = children(os.getpid())
        workers = [p for p in below if _is_worker(p)]
        if workers and killed < kills and rng.random() < 0.9:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
                killed += 1

    report = collect(store, pool, tick=assassin)
    assert killed >= min(kills, 20)
    assert report.breaks >= 1
    # A worker may die between writing its shard and saying so: then the shard is found.
    assert report.done + report.found == report.points == len(want)
    assert table(store) == want


def _is_worker(pid: int) -> bool:
    """A process that the fork server made, not the server and no tracker."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return parent != os.getpid() and b"forkserver" in command
    return False


@pytest.mark.parametrize("rounds", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_killing_forked_workers(rounds: int, want: list[dict[str, Any]], tmp_path: Path) -> None:
    """At random moments, from outside; those that replace them come from the server."""
    rng = random.Random(rounds)
    died = 0
    for k in range(rounds):
        path = tmp_path / f"s{k}"
        driver = start(path, "--workers", "2", "--json")
        for _ in range(2):
            below: list[int] = []
            while driver.poll() is None and not below:
                time.sleep(rng.uniform(0.001, 0.05))
                below = [p for p in children(driver.pid) if _command(p) == _command(driver.pid)]
            for pid in below[: rng.randint(0, 2)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        said, errors = driver.communicate()
        assert driver.returncode == 0, errors
        died += json.loads(said)["restarts"]
        assert table(Folder.open(path)) == want
    assert died


def test_interrupting_ends_workers_at_once(want: list[dict[str, Any]], tmp_path: Path) -> None:
    """Ctrl-C reaches all of them: one line, no traceback, and the same command carries on."""
    path = tmp_path / "s"
    driver = start(path, "--workers", "2")
    while driver.poll() is None and not list(path.glob("runs/*")):
        time.sleep(0.005)
    below = children(driver.pid)
    os.killpg(driver.pid, signal.SIGINT)
    _, said = driver.communicate()
    assert (driver.returncode, said) in [(130, "iosim: interrupted\n"), (0, "")]
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]
    read_shards(path)
    again = start(path, "--workers", "2")
    again.communicate()
    assert again.returncode == 0
    assert table(Folder.open(path)) == want


@pytest.mark.slow
def test_killing_dask_workers(want: list[dict[str, Any]], tmp_path: Path) -> None:
    store = Folder.declare(tmp_path / "s", Sweep.of(**MANY))
    killed = 0
    with dask("local", 2) as pool:

        def assassin(report: Any) -> None:
            nonlocal killed
            workers = [
                p
                for p in children(os.getpid())
                if b"spawn_main" in _command(p) and p not in (os.getpid(),)
            ]
            if killed < 3 and workers and report.shards % 7 == 3:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(workers[-1], signal.SIGKILL)
                    killed += 1

        report = collect(store, pool, tick=assassin)
    assert killed
    assert report.done + report.found == len(want)
    assert table(store) == want


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_workers_that_always_die_end_in_one_line(tmp_path: Path) -> None:
    store = Folder.declare(tmp_path / "s", Sweep.of(**SMALL))

    class Dying(ex.SerialExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
            future: Any = super().submit(len, ())
            future._exception = ex.BrokenExecutor("a worker died")
            return future

    with pytest.raises(IosimError, match="workers died 8 times in a row"):
        collect(store, ex.Pool("a pool", 1, Dying))


# ---------------------------------------------------------------- how workers start


@pytest.mark.skipif(not Path(ex.THREADS).exists(), reason="threads are counted on Linux")
def test_only_a_process_without_threads_is_forked() -> None:
    """OpenBLAS ends its threads at a fork and Arrow starts none; all others are seen."""
    code = """if True:
        import _thread, threading, time
        from iosim.sweep.executors import _alone
        import numpy, pyarrow.parquet
        numpy.ones((500, 500)) @ numpy.ones((500, 500))
        said = [_alone()]
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        said.append(_alone())
        stop.set()
        thread.join()
        said.append(_alone())
        _thread.start_new_thread(time.sleep, (60,))
        said.append(_alone())
        print(said)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[True, False, True, False]\n", done.stderr


def test_workers_without_shards_are_not_started(tmp_path: Path) -> None:
    sweep = Sweep.of(**MANY | {"shard_rows": 1000})
    assert sweep.shards == 1
    report = collect(Folder.declare(tmp_path / "s", sweep), processes(2))
    assert (report.pool, report.workers) == ("this process", 1)
    assert processes(8).upto(3).width == 3
    assert processes(2).upto(3).width == 2


def test_overhead_counts_every_worker_from_its_start(tmp_path: Path) -> None:
    pool = ex.Pool("threads", 3, lambda: ThreadPoolExecutor(3), start_s=100.0)
    report = collect(Folder.declare(tmp_path / "s", Sweep.of(**MANY)), pool)
    assert report.wall_s > 100
    assert report.overhead == 1 - report.work_s / (3 * report.wall_s)


def test_the_last_few_shards_are_taken_longest_first() -> None:
    """The others come at random, and all of them once."""
    grid: dict[str, Any] = {"N": "8:8Ki:x2", "d": 4, "M": 999, "shard_rows": 1}
    sweep = Sweep.of(schedule="flash2", engine="simulate", **grid)
    orders = [list(_Todo(sweep, list(range(2, sweep.shards)), 4)) for _ in range(20)]
    for order in orders:
        assert sorted([0, 1, *order]) == list(range(sweep.shards))
    assert len({tuple(order) for order in orders}) > 1
    todo = _Todo(sweep, list(range(sweep.shards)), 4)
    todo.finish(0, 1.0)
    assert sorted(todo) == list(range(1, sweep.shards))
    last = list(todo)[-4:]
    assert last == sorted(last, reverse=True)
    # Points that are counted in arrays take equally long, in each algorithm.
    sweep = Sweep.of(schedule="flash2,naive", **grid)
    todo = _Todo(sweep, list(range(sweep.shards)), sweep.shards)
    todo.finish(0, 1.0)
    todo.finish(sweep.shards - 1, 2.0)
    half = sweep.shards // 2
    assert [k >= half for k in todo] == [True] * (half - 1) + [False] * (half - 1)


# ---------------------------------------------------------------- disks


def test_a_full_disk(
    want: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing fails for lack of space at the n-th byte: one line, and nothing half-written."""
    store = Folder.declare(tmp_path / "s", Sweep.of(**MANY))
    write = pq.write_table
    room = random.Random(1)
    for _ in range(12):
        left = room.randrange(3)

        def full(table: Any, where: Any, **options: Any) -> None:
            nonlocal left
            write(table, where, **options)
            left -= 1
            if left < 0:
                os.truncate(where, 100)
                raise OSError(28, "No space left on device")

        before = read_shards(store.path)
        monkeypatch.setattr(pq, "write_table", full)
        with pytest.raises(IosimError, match=r"No space left on device.*rows reported done are"):
            collect(store)
        monkeypatch.setattr(pq, "write_table", write)
        assert before.items() <= read_shards(store.path).items()
        assert not list((store.path / "part").iterdir())
    collect(store)
    assert table(store) == want


def test_files_may_not_grow(want: list[dict[str, Any]], tmp_path: Path) -> None:
    """The kernel itself refuses (RLIMIT_FSIZE): one line; then the same command ends well."""
    path = tmp_path / "s"
    limit = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "import sys; sys.dont_write_bytecode = True;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000));"
        "from iosim.cli import main; main()"
    )
    command = [sys.executable, "-c", limit, *WORDS, "--out", str(path), "--workers", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert "cannot write to" in done.stderr
    read_shards(path)
    again = start(path, "--workers", "1")
    again.communicate()
    assert again.returncode == 0
    assert table(Folder.open(path)) == want


@pytest.mark.slow
def test_a_disk_that_is_really_full(want: list[dict[str, Any]], tmp_path: Path) -> None:
    """A file system of 300 KiB.

    Mounting one takes privileges, and only this slow extra needs it: a full disk is tested without
    in `test_files_may_not_grow` and with a planted ENOSPC, which always run.
    """
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a file system is not permitted here")
    try:
        full = start(disk / "s", "--workers", "2")
        _, said = full.communicate()
        assert full.returncode == 2
        assert said.count("\n") == 1
        assert "No space left on device" in said
        before = read_shards(disk / "s")
        assert before
        subprocess.run(["mount", "-o", "remount,size=3m", str(disk)], check=True)
        again = start(disk / "s", "--workers", "2")
        again.communicate()
        assert again.returncode == 0
        assert before.items() <= read_shards(disk / "s").items()
        assert table(Folder.open(disk / "s")) == want
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "foreign", "text"])
def test_a_broken_shard_is_named_set_aside_and_redone(
    damage: str, want: list[dict[str, Any]], tmp_path: Path
) -> None:
    store = swept(tmp_path / "s", **MANY)
    shards = store.shards()
    path = shards[7]
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) * 2 // 3])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "flipped":
        at = 200  # inside the first column's page
        path.write_bytes(content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :])
    elif damage == "foreign":
        path.write_bytes(shards[8].read_bytes())
    else:
        path.write_text("PAR1 not really")
    report = collect(store)
    assert [b.path.name[:8] for b in report.broken] == [path.stem]
    assert report.broken[0].path.exists()
    assert report.broken[0].reason
    assert report.done == 10
    assert table(store) == want


def test_a_broken_shard_is_named_by_the_readers(tmp_path: Path) -> None:
    store = swept(tmp_path / "s", **SMALL)
    path = store.shards()[2]
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(IosimError, match=r"00000002\.parquet' is broken.*iosim collect"):
        list(store.tables())


# ---------------------------------------------------------------- together


@pytest.mark.parametrize("rounds", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_two_collectors_on_one_directory(
    rounds: int, want: list[dict[str, Any]], tmp_path: Path
) -> None:
    for k in range(rounds):
        path = tmp_path / f"s{k}"
        both = [start(path, "--workers", "1", "--json") for _ in range(2)]
        said = [p.communicate() for p in both]
        assert [p.returncode for p in both] == [0, 0], said
        done = [int(re.findall(r'"done_points": (\d+)', out)[0]) for out, _ in said]
        assert max(done) <= len(want) <= sum(done)
        store = Folder.open(path)
        assert table(store) == want
        assert len(list((path / "runs").iterdir())) == 2


def test_two_collectors_and_a_killer(want: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "s"
    rng = random.Random(3)
    for _ in range(3):
        both = [start(path, "--workers", "1") for _ in range(2)]
        time.sleep(rng.uniform(0.3, 1.2))
        both[0].kill()
        for p in both:
            p.communicate()
        assert both[1].returncode == 0
        read_shards(path)
    assert table(Folder.open(path)) == want
