"""Who computes shards: this process, or processes of this machine (`iosim.sweep.clusters`: Dask).

A `Pool` makes an executor with the interface of `concurrent.futures`; any other one works too.

`collect` runs shards on a `Pool`; ``iosim verify`` and ``iosim prove`` use `follow_parent`, too.
No worker outlives an interrupt or its parent (``tests/sweep/test_sweep_survival.py``).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from iosim.base.errors import InputError

MOST_WORKERS = 4096
THREADS = "/proc/self/task"

# One of Arrow's allocators would keep a thread, and a process that has several is not forked.
os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")


@dataclass(frozen=True)
class Pool:
    """How to get an executor.

    Attributes:
        name: for messages.
        width: shards that it computes at once.
        make: a fresh executor; called again after `lost`.
        lost: what a future raises when its worker died: the shard is worth another try.
        shares_disk: its workers reach the store's directory, and write their shards themselves.
        gone: why it will never compute again, in words, or None; asked while nothing comes back.
        start_s: seconds that its workers took to start before there was this pool.
        fewer: the same pool with that many workers, for a sweep of fewer shards.

    >>> serial().name, serial().width
    ('this process', 1)
    """

    name: str
    width: int
    make: Callable[[], Executor]
    lost: tuple[type[BaseException], ...] = (BrokenExecutor,)
    shares_disk: bool = True
    gone: Callable[[], str | None] = lambda: None
    start_s: float = 0.0
    fewer: Callable[[int], Pool] | None = None

    def upto(self, shards: int) -> Pool:
        """This pool, without workers that would find no shard."""
        return self.fewer(shards) if self.fewer and 0 < shards < self.width else self


class SerialExecutor(Executor):
    """Runs each call where it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run ``fn`` now; the future is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def serial() -> Pool:
    """Everything in this process.

    >>> serial().name
    'this process'
    """
    return Pool("this process", 1, SerialExecutor)


def width_of(workers: int) -> int:
    """How many workers are meant, 0 being one per core.  Raises InputError for too many."""
    if not 0 <= workers <= MOST_WORKERS:
        raise InputError(f"{workers} workers: give 0 (one per core) to {MOST_WORKERS}")
    return workers or os.cpu_count() or 1


def processes(workers: int = 0) -> Pool:
    """Processes of this machine; 0 for one per core.

    They are forked from this process while it has a single thread, which is quick.  Otherwise a
    clean server forks them, which first imports everything again.  Raises
    InputError for more than `MOST_WORKERS`.

    >>> processes(4).name, processes(4).width
    ('4 processes', 4)
    """
    width = width_of(workers)

    def make() -> Executor:
        alone = _alone()
        context = multiprocessing.get_context("fork" if alone else _clean_method())
        executor = _Processes(width, mp_context=context, initializer=follow_parent)
        if alone:
            executor.submit(int)  # forks them all, before anything here starts a thread
        return executor

    def fewer(shards: int) -> Pool:
        return processes(shards) if shards > 1 else serial()

    return Pool(f"{width} processes", width, make, fewer=fewer)


def _alone() -> bool:
    """Whether this process has but one thread, so that a fork copies all of it.

    OpenBLAS ends its threads at any fork: the child of the first one has nothing else to do.
    """
    if threading.active_count() > 1 or not os.path.isdir(THREADS):
        return False
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return len(os.listdir(THREADS)) == 1


def _clean_method() -> str:
    """How to start workers that share nothing with this process."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return "spawn"
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload(["iosim.sweep.work", "pyarrow.parquet"])
    forkserver.ensure_running()  # so that it imports while shards are checked
    return "forkserver"


class _Processes(ProcessPoolExecutor):
    """Workers that end at Ctrl-C, and when the process that started them is gone."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand a call to a worker."""
        return super().submit(_run, fn, *args, **kwargs)


def _run(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call in a worker: an interrupt ends it, once the file that it was writing is removed."""
    default = signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    if default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return fn(*args, **kwargs)
    except KeyboardInterrupt:
        os._exit(1)
    finally:
        if default:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def follow_parent() -> None:
    """End this worker when the process that started it is gone, for whatever reason."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)  # while idle: no handler of that process
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
