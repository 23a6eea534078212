"""Filling a store: shards that are missing, on any executor, until all are there."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field

from iosim.errors import IosimError
from iosim.sweep.engines import MANY
from iosim.sweep.executors import Pool, serial
from iosim.sweep.grid import Sweep
from iosim.sweep.provenance import this_command
from iosim.sweep.store import Broken, Store
from iosim.sweep.work import Done, compute, fill

# Executors may break this often in a row without a shard done in between.
BREAKS = 8


@dataclass
class Report:
    """What a collector did.

    Attributes:
        points: of the whole grid.
        found: points whose shards were there before, or came from others meanwhile.
        done: points that this collector computed and wrote.
        rows: rows that it wrote; fewer than points where infeasible ones are left out.
        shards: shards that it wrote.
        broken: shards that it set aside.
        work_s: seconds that workers spent on their shards.
        wall_s: seconds that everything took, the workers' start included.
        breaks: how often the executor broke and was made again.
        pool: who computed, in words.
        workers: how many at once.
    """

    points: int
    found: int = 0
    done: int = 0
    rows: int = 0
    shards: int = 0
    broken: list[Broken] = field(default_factory=list)
    work_s: float = 0.0
    wall_s: float = 0.0
    breaks: int = 0
    pool: str = ""
    workers: int = 1

    @property
    def overhead(self) -> float:
        """Share of the workers' time, from first to last, that was not spent on shards."""
        return 1 - self.work_s / (self.workers * self.wall_s)


def collect(
    store: Store,
    pool: Pool | None = None,
    *,
    tick: Callable[[Report], object] = lambda report: None,
    command: str | None = None,
) -> Report:
    """Compute every shard of the store's sweep that is not there yet.

    Shards are taken in random order, and one that has appeared meanwhile is skipped, so that
    several collectors share the work of one directory without talking to each other.

    Args:
        pool: who computes; this process by default.
        tick: called after each shard that is safe on disk.
        command: for the provenance.

    Raises:
        InputError: the directory was made by another version, or a count cannot be made.
        IosimError: the disk refuses, or workers keep dying.  What was done stays done.
    """
    start = time.perf_counter()
    sweep = store.sweep
    if sweep.id != store.manifest["id"]:
        raise IosimError(
            f"{str(store.path)!r} was made with other schedules (iosim {sweep.version}): "
            "sweep into a new directory"
        )
    pool = (pool or serial()).upto(sweep.shards)
    report = Report(sweep.points, pool=pool.name, workers=pool.width)
    finished: set[int] = set()
    barren = 0
    with contextlib.ExitStack() as made:
        executor = made.enter_context(_made(pool))  # first: workers start while shards are checked
        sound, report.broken = store.sound()
        report.found = sum(sweep.shard(k).points for k in sound)
        tick(report)
        store.note_run(command or this_command())
        order = _order(sweep, sound, 4 * pool.width)
        before = report.shards
        while broke := _round(store, sweep, pool, executor, order, finished, report, tick):
            report.breaks += 1
            barren = 0 if report.shards > before else barren + 1
            before = report.shards
            if barren == BREAKS:
                raise IosimError(
                    f"{pool.name}: workers died {BREAKS} times in a row ({broke}): give them more "
                    "memory, or fewer --workers; rows reported done are safe"
                )
            made.close()
            executor = made.enter_context(_made(pool))
        # Nothing is flying, so workers end at once.  Waiting for it counts; without, their threads
        # here could still be at it when the interpreter ends, and keep the next pool from forking.
        executor.shutdown()
    report.wall_s = pool.start_s + time.perf_counter() - start
    return report


@contextlib.contextmanager
def _made(pool: Pool) -> Iterator[Executor]:
    executor = pool.make()
    try:
        yield executor
    finally:
        # Leave nothing behind: what was not started never will be.
        executor.shutdown(wait=False, cancel_futures=True)


def _order(sweep: Sweep, sound: set[int], few: int) -> list[int]:
    """Missing shards at random; of the last few, long ones first: no worker waits long for one."""

    def length(number: int) -> float:
        shard = sweep.shard(number)
        if sweep.engine in MANY:
            return shard.points
        # Where every point is run, larger sizes take longer, and so does a smaller M.
        middle = (shard.start + shard.stop) // 2
        point = {x: int(v[0]) for x, v in shard.block.columns(middle, middle + 1).items()}
        return shard.points * math.prod(point[x] for x in shard.block.sizes) / point["M"]

    order = [k for k in range(sweep.shards) if k not in sound]
    random.Random().shuffle(order)
    return order[:-few] + sorted(order[-few:], key=length, reverse=True)


def _round(
    store: Store,
    sweep: Sweep,
    pool: Pool,
    executor: Executor,
    order: list[int],
    finished: set[int],
    report: Report,
    tick: Callable[[Report], object],
) -> str | None:
    """Work until all of `order` is in `finished`, or the executor breaks; then says how."""
    flying: dict[Future[Done], int] = {}
    todo = (k for k in order if k not in finished)
    hand = store.slim()
    try:
        while True:
            # Two for each worker: the next one is there when it is done with this one.
            while len(flying) < (2 * pool.width if pool.width > 1 else 1):
                number = next(todo, None)
                if number is None:
                    break
                if store.shard_path(number).exists():  # by another collector
                    finished.add(number)
                    report.found += sweep.shard(number).points
                    continue
                if pool.shares_disk:
                    flying[executor.submit(fill, hand, sweep, number)] = number
                else:
                    flying[executor.submit(compute, sweep, number)] = number
            if not flying:
                return None
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                number = flying.pop(future)
                found = future.result()
                if found.table is not None:
                    store.write_shard(number, found.table)
                finished.add(number)
                report.shards += 1
                report.done += found.points
                report.rows += found.rows
                report.work_s += found.seconds
                tick(report)
    except pool.lost as error:
        return next(iter(str(error).splitlines()), "") or type(error).__name__
    finally:
        for future in flying:
            future.cancel()
