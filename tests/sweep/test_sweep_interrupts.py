"""Ctrl-C and clusters that die: one line, an exit code, and nothing that hangs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_sweep import GIVEN, swept

from iosim.sweep import Folder, Sweep, collect
from iosim.sweep.database import interruptible

# Minutes of work, in shards of less than a second.
SLOW = [
    "--schedule",
    "small_cache",
    "--N",
    "512",
    "--d",
    "64",
    "--M",
    "1Ki:8Ki:x1.002",
    "--engine",
    "simulate",
    "--shard-rows",
    "4",
]
HALTED = (130, "iosim: interrupted\n")


def started(*words: str, cwd: Path) -> subprocess.Popen[str]:
    """The command in a process group of its own, as a terminal starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "iosim", *words],
        cwd=cwd,
        text=True,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def interrupted(process: subprocess.Popen[str], once: Callable[[], object]) -> tuple[int, str]:
    """Ctrl-C for the whole group once something is seen: the exit code, and what was said."""
    until(lambda: once() or process.poll() is not None)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    try:
        _, said = process.communicate(timeout=20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


def until(seen: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def loaded(process: subprocess.Popen[str], library: str) -> Callable[[], bool]:
    """Whether a process has a library in memory."""

    def look() -> bool:
        with contextlib.suppress(OSError):
            return library in Path(f"/proc/{process.pid}/maps").read_text()
        return False

    return look


LONG = [
    "SELECT count(*) AS n FROM range(1000000) a, range(1000000) b WHERE hash(a.range, b.range) = 1",
    "SELECT hash(range) AS h FROM range(400000000) ORDER BY h",
    "SELECT range AS n FROM range(1000000000000)",
]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks at a process's libraries")
@pytest.mark.parametrize(
    "sql", [LONG[0], *(pytest.param(sql, marks=pytest.mark.slow) for sql in LONG[1:])]
)
def test_a_long_question(sql: str, tmp_path: Path) -> None:
    swept(tmp_path / "s", **GIVEN)
    asking = started("query", sql, "s", "--json", cwd=tmp_path)
    assert interrupted(asking, loaded(asking, "_duckdb")) == HALTED


@pytest.mark.parametrize("deaf", [0, 3])
def test_a_question_is_waited_for(deaf: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt comes while its thread starts; nothing is raised before the thread's end."""
    asked, ended = threading.Event(), threading.Event()
    heard = iter(range(100))
    database = SimpleNamespace(interrupt=lambda: next(heard) >= deaf and asked.set())
    start = threading.Thread.start

    def starting(thread: threading.Thread) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)

    def call() -> None:
        asked.wait(20)
        time.sleep(0.2)
        ended.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(database, call)
        assert ended.is_set()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks at a process's libraries")
def test_combining(tmp_path: Path) -> None:
    """It carries on where it was, and leaves no part."""
    grid = {
        "schedule": "flash2",
        "N": "1024:65536:x2",
        "tiles": "B_r=1:1024:x2,B_c=1:1024:x2",
        "M": "256:1Mi:x1.06",
        "shard_rows": 40_000,
    }
    many = sum(collect(Folder.declare(tmp_path / d, Sweep.of(**grid, d=d))).rows for d in "48")
    merging = started("combine", "4", "8", "--out", "c", cwd=tmp_path)
    assert interrupted(merging, loaded(merging, "_duckdb")) in [HALTED, (0, "")]
    assert not list((tmp_path / "c").glob("part/*"))
    again = started("combine", "4", "8", "--out", "c", cwd=tmp_path)
    assert again.communicate() == (None, "")
    assert Folder.open(tmp_path / "c").count_rows() == many


@pytest.mark.parametrize("moment", ["starting", "counting"])
def test_a_cluster_of_ones_own(moment: str, tmp_path: Path) -> None:
    """Workers get it too, and print nothing."""
    driver = started(
        "sweep", *SLOW, "--out", "s", "--dask", "local", "--workers", "2", cwd=tmp_path
    )
    seen: dict[str, Callable[[], object]] = {
        "starting": lambda: len(below(driver.pid)) > 1,
        "counting": lambda: list(tmp_path.glob("s/runs/*")),
    }
    assert interrupted(driver, seen[moment]) == HALTED


def below(pid: int) -> list[str]:
    """The children of a process, whichever of its threads started them."""
    found: list[str] = []
    for children in Path("/proc").glob(f"{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            found += children.read_text().split()
    return found


@contextlib.contextmanager
def cluster(path: Path) -> Iterator[tuple[str, subprocess.Popen[Any]]]:
    """A scheduler with one worker: its address, and its process."""
    where = path / "scheduler.json"
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
    both = [subprocess.Popen(c, stderr=subprocess.DEVNULL, cwd=path) for c in (dask_, worker)]
    try:
        until(lambda: where.exists() and where.read_text().strip())
        yield json.loads(where.read_text())["address"], both[0]
    finally:
        for process in both:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    "how", ["killed", "interrupted", pytest.param("stopped", marks=pytest.mark.slow)]
)
def test_a_scheduler_that_is_gone_for_good(how: str, tmp_path: Path) -> None:
    with cluster(tmp_path) as (address, scheduler):
        driver = started("sweep", *SLOW, "--out", "s", "--dask", address, cwd=tmp_path)
        until(lambda: list(tmp_path.glob("s/rows/*")) or driver.poll() is not None)
        start = time.monotonic()
        scheduler.send_signal(signal.SIGSTOP if how == "stopped" else signal.SIGKILL)
        if how == "interrupted":
            assert interrupted(driver, lambda: True) == HALTED
        else:
            _, said = driver.communicate(timeout=60)
            assert driver.returncode == 2
            assert said.startswith(f"iosim: the Dask scheduler at '{address}' is gone: rows")
            assert said.count("\n") == 1
        assert time.monotonic() - start < 45


@pytest.mark.parametrize(
    "address", ["ucx://x:1", "tcp://x", "nonsense://", ":", "tcp://127.0.0.1:9"]
)
def test_addresses_that_are_none(address: str, tmp_path: Path) -> None:
    done = started("sweep", *SLOW, "--out", "s", "--dask", address, cwd=tmp_path)
    _, said = done.communicate(timeout=60)
    assert done.returncode == 2
    assert said.startswith("iosim: no Dask scheduler answers at")
    assert said.count("\n") == 1
    assert not (tmp_path / "s").exists()
