"""Who computes shards: this process, processes of this machine, or a Dask cluster.

A `Pool` makes an executor with the interface of `concurrent.futures`; any other one works too.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from iosim.errors import InputError, IosimError
from iosim.sweep.need import distributed

PATIENCE_S = 5.0


@dataclass(frozen=True)
class Pool:
    """How to get an executor.

    Attributes:
        name: for messages.
        width: shards that it computes at once.
        make: a fresh executor; called again after `lost`.
        lost: what a future raises when its worker died: the shard is worth another try.
        shares_disk: its workers reach the store's directory, and write their shards themselves.
    """

    name: str
    width: int
    make: Callable[[], Executor]
    lost: tuple[type[BaseException], ...] = (BrokenExecutor,)
    shares_disk: bool = True


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
    """Everything in this process."""
    return Pool("this process", 1, SerialExecutor)


def processes(workers: int = 0) -> Pool:
    """Processes of this machine; 0 for one per core."""
    width = workers or os.cpu_count() or 1
    # A clean server forks the workers: fast, and no thread of this process is copied.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(["iosim.sweep.work", "pyarrow"])

    def make() -> Executor:
        return ProcessPoolExecutor(width, mp_context=context, initializer=_follow_parent)

    return Pool(f"{width} processes", width, make)


def _follow_parent() -> None:
    """End this worker when the process that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def dask(address: str, workers: int = 0) -> Iterator[Pool]:
    """A Dask cluster: a scheduler's address, or ``local`` for one that is started here.

    Raises InputError where no scheduler answers.
    """
    dd = distributed()
    _quiet()
    with contextlib.ExitStack() as stack:
        if address == "local":
            try:
                cluster = dd.LocalCluster(
                    n_workers=workers or os.cpu_count() or 1, threads_per_worker=1,
                    processes=True, dashboard_address=None,
                )  # fmt: skip
            except (RuntimeError, OSError, TimeoutError) as error:
                raise IosimError(f"Dask cannot start its workers ({error})") from error
            where: Any = stack.enter_context(cluster)
        else:
            where = address
        try:
            client = stack.enter_context(dd.Client(where, timeout=PATIENCE_S))
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(
                f"no Dask scheduler answers at {address!r} within {PATIENCE_S:.0f} s: start one "
                "with dask scheduler, or use --dask local"
            ) from error
        if address != "local":
            try:
                client.wait_for_workers(1, timeout=4 * PATIENCE_S)
            except TimeoutError as error:
                raise InputError(
                    f"the Dask scheduler at {address!r} has no workers: start some with "
                    f"dask worker {address}"
                ) from error
        threads = sum(client.nthreads().values())
        yield Pool(
            f"Dask, {threads} workers", threads, lambda: _Dask(client), _lost(dd), shares_disk=False
        )


class _Dask(Executor):
    """Dask's own executor, whose calls are never answered from memory."""

    def __init__(self, client: Any) -> None:
        self._inner = client.get_executor(pure=False)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand a call to the cluster."""
        future: Future[Any] = self._inner.submit(fn, *args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let go of the executor, not of the cluster."""
        self._inner.shutdown(wait=wait)


def _lost(dd: Any) -> tuple[type[BaseException], ...]:
    import concurrent.futures

    return (dd.KilledWorker, BrokenExecutor, concurrent.futures.CancelledError)


def _quiet() -> None:
    import logging

    for name in ("distributed", "distributed.nanny", "distributed.worker", "distributed.scheduler",
                 "distributed.core", "distributed.comm"):  # fmt: skip
        logging.getLogger(name).setLevel(logging.CRITICAL)
