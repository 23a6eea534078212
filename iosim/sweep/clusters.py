"""A Dask cluster as a `Pool`: a scheduler's address, or the user's own cluster."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from multiprocessing import resource_tracker
from typing import Any

from iosim.base.errors import InputError, IosimError
from iosim.sweep.executors import Pool, width_of
from iosim.sweep.need import distributed

# Seconds in which a scheduler answers.
PATIENCE_S = 5.0
LOCAL = "local"


@contextlib.contextmanager
def dask(address: str, workers: int = 0) -> Iterator[Pool]:
    """A Dask cluster: a scheduler's address, or ``local`` for one that is started here.

    Raises InputError where no scheduler answers.

    >>> from iosim.sweep import Folder, collect
    >>> with dask("tcp://scheduler:8786") as pool:  # doctest: +SKIP
    ...     collect(Folder.open("rows"), pool)
    """
    start = time.perf_counter()
    width = width_of(workers)
    dd = distributed()
    _quiet()
    with contextlib.ExitStack() as stack:
        where: Any = address
        if address == LOCAL:
            where = stack.enter_context(_local(dd, width))
        client = stack.enter_context(_client(dd, where))
        if address != LOCAL:
            try:
                client.wait_for_workers(1, timeout=4 * PATIENCE_S)
            except TimeoutError as error:
                raise InputError(
                    f"the Dask scheduler at {address!r} has no workers: start some with "
                    f"dask worker {address}"
                ) from error
        threads = sum(client.nthreads().values())
        lost = (dd.KilledWorker, BrokenExecutor, CancelledError, asyncio.CancelledError)
        yield Pool(
            f"Dask, {threads} workers",
            threads,
            lambda: _Dask(client),
            lost,
            shares_disk=address == LOCAL,
            gone=lambda: _why_lost(client, address),
            start_s=time.perf_counter() - start,
        )


def _local(dd: Any, width: int) -> Any:
    try:
        with _without_interrupts():
            return dd.LocalCluster(
                n_workers=width,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
    except (RuntimeError, OSError, TimeoutError) as error:
        raise IosimError(f"Dask cannot start its workers ({error})") from error


@contextlib.contextmanager
def _client(dd: Any, where: Any) -> Iterator[Any]:
    try:
        client = dd.Client(where, timeout=PATIENCE_S)
    except Exception as error:  # a protocol of any library may be in the address
        why = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise InputError(
            f"no Dask scheduler answers at {where!r} within {PATIENCE_S:.0f} s ({why[:120]}): "
            "start one with dask scheduler, or use --dask local"
        ) from None
    try:
        yield client
    finally:
        # A scheduler that is gone would be waited for.
        with contextlib.suppress(Exception):
            client.close(timeout=PATIENCE_S)


def _why_lost(client: Any, address: str) -> str | None:
    """Why the scheduler counts as gone: it has not answered in time."""
    deadline = time.monotonic() + PATIENCE_S
    while client.status != "closed":
        with contextlib.suppress(Exception):
            client.sync(_ping, client, callback_timeout=PATIENCE_S)
            return None
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return (
        f"the Dask scheduler at {address!r} is gone: rows reported done are safe; start it and run "
        "the same command again"
    )


async def _ping(client: Any) -> None:
    await client.scheduler.identity()


class _Dask(Executor):
    """Dask's own executor, which computes equal calls each time."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._inner = client.get_executor(pure=False)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Hand a call to the cluster."""
        try:
            future: Future[Any] = self._inner.submit(fn, *args, **kwargs)
        except Exception as error:  # Dask has no class for it
            raise BrokenExecutor(str(error)) from error
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Close the executor, not the cluster."""
        if self._client.status == "running":
            with contextlib.suppress(Exception):
                self._inner.shutdown(wait=wait)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes and threads that are started in here get no Ctrl-C, which is for this process.

    They inherit the mask of this thread.  An interrupt meanwhile comes at the end.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "pthread_sigmask"
    ):
        yield
        return
    resource_tracker.ensure_running()  # it changes the mask when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _quiet() -> None:
    for name in (
        "distributed",
        "distributed.nanny",
        "distributed.worker",
        "distributed.scheduler",
        "distributed.core",
        "distributed.comm",
        "distributed.client",
    ):
        logging.getLogger(name).setLevel(logging.CRITICAL)
