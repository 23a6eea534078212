"""Fills a sweep's folder: computes missing shards on any executor, until all are there."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace

from iosim.base.errors import InputError, IosimError
from iosim.base.provenance import this_command
from iosim.base.revision import REVISION, __version__
from iosim.core.engines import engine
from iosim.sweep.caches import EXPLICIT
from iosim.sweep.executors import Pool, serial
from iosim.sweep.folder import Broken, Folder
from iosim.sweep.grid import Sweep
from iosim.sweep.work import Done, compute

# Executors may break this often in a row without a shard done in between.
BREAKS = 8
# Seconds without a shard after which a pool is asked whether it is still there.
POLL_S = 10.0


@dataclass
class Collected:
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
        breaks: how often the executor broke and was replaced.
        pool: who computed, in words.
        workers: how many at once.

    >>> import tempfile
    >>> from iosim.sweep import Folder, Sweep
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = Folder.declare(folder, Sweep.of(schedule="flash2", N=512, d=64, M="4Ki:16Ki:x2"))
    ...     report = collect(made)
    >>> report.points, report.done, report.broken
    (3, 3, [])
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
    folder: Folder,
    pool: Pool | None = None,
    *,
    tick: Callable[[Collected], object] = lambda report: None,
    command: str | None = None,
) -> Collected:
    """Compute every shard of the folder's sweep that is not there yet.

    Shards are taken in random order, and one that has appeared meanwhile is skipped, so that
    several collectors share the work of one directory without talking to each other.

    Args:
        pool: who computes; this process by default.
        tick: called after each shard that is safe on disk, and now and then if none is.
        command: for the provenance.

    Raises:
        InputError: the directory was made by another version or revision, or a count cannot be
            made.
        IosimError: the disk refuses, or workers died several times in a row.  Finished shards stay.

    >>> import tempfile
    >>> from iosim.sweep import Folder, Sweep
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = Folder.declare(folder, Sweep.of(schedule="flash2", N=512, d=64, M="4Ki:16Ki:x2"))
    ...     collect(made).done, collect(made).done, made.count_rows()
    (3, 0, 3)
    """
    start = time.perf_counter()
    sweep = folder.sweep
    _check_made_by_this(folder)
    pool = (pool or serial()).upto(sweep.shards)
    report = Collected(sweep.points, pool=pool.name, workers=pool.width)
    failures = 0
    with contextlib.ExitStack() as made:
        executor = made.enter_context(
            _open_executor(pool)
        )  # first: workers start while shards are checked
        sound, report.broken = folder.sound()
        report.found = sum(sweep.shard(k).points for k in sound)
        tick(report)
        folder.note_run(command or this_command())
        todo = _Todo(sweep, [k for k in range(sweep.shards) if k not in sound], 4 * pool.width)
        before = report.shards
        while broke := _round(folder, pool, executor, todo, report, tick):
            report.breaks += 1
            if why := pool.gone():
                raise IosimError(why)
            failures = 0 if report.shards > before else failures + 1
            before = report.shards
            if failures == BREAKS:
                raise IosimError(
                    f"{pool.name}: workers died {BREAKS} times in a row ({broke}): give them more "
                    "memory, or fewer --workers; rows reported done are safe"
                )
            made.close()
            executor = made.enter_context(_open_executor(pool))
        # No call is under way, so workers end at once.  That is waited for, and timed: threads that
        # still run when the interpreter ends would keep the next pool from forking.
        executor.shutdown()
    report.wall_s = pool.start_s + time.perf_counter() - start
    return report


def _check_made_by_this(folder: Folder) -> None:
    """Raise InputError unless this very iosim would give the rows of a folder."""
    sweep = folder.sweep
    made, now = (
        f"iosim {version}, revision {revision}"
        for version, revision in ((sweep.version, sweep.revision), (__version__, REVISION))
    )
    if made != now:
        raise InputError(
            f"{str(folder.path)!r} was made by {made}, and this is {now}: sweep into a new "
            "directory, or carry on with that one"
        )
    if sweep.id != folder.manifest["id"]:
        raise InputError(
            f"{str(folder.path)!r} was made with other schedules: sweep into a new directory"
        )


@contextlib.contextmanager
def _open_executor(pool: Pool) -> Iterator[Executor]:
    executor = pool.make()
    try:
        yield executor
    finally:
        # Calls that have not started are cancelled.
        executor.shutdown(wait=False, cancel_futures=True)


@dataclass
class _Todo:
    """Missing shards, and which is next.

    Attributes:
        sweep: whose they are.
        missing: their numbers; shuffled here.
        few: when no more than this many are left, the longest goes first, so that workers end
            at about the same time.
        finished: those that are there now.
        pace: of each algorithm, as its last shard had it: seconds for one unit of `size`.
    """

    sweep: Sweep
    missing: list[int]
    few: int
    finished: set[int] = field(default_factory=set)
    pace: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        random.Random().shuffle(self.missing)

    def __iter__(self) -> Iterator[int]:
        left = [k for k in self.missing if k not in self.finished]
        while len(left) > self.few:
            yield left.pop()
        last = {k: self.size(k) for k in left}
        while last:
            # A shard whose algorithm has no known pace comes first.
            longest = max(last, key=lambda k: self.pace.get(last[k][0], math.inf) * last[k][1])
            del last[longest]
            yield longest

    def finish(self, number: int, seconds: float) -> None:
        """A shard is there, after this many seconds."""
        self.finished.add(number)
        name, size = self.size(number)
        self.pace[name] = seconds / size

    def size(self, number: int) -> tuple[str, float]:
        """A shard's algorithm and cache, and its points.

        Where each point is run or replayed, they are weighed by sizes and 1/M.
        """
        shard = self.sweep.shard(number)
        block = shard.block
        if block.policy == EXPLICIT and engine(self.sweep.engine).many is not None:
            return block.name, shard.points
        middle = (shard.start + shard.stop) // 2
        point = {x: int(v[0]) for x, v in block.columns(middle, middle + 1).items()}
        extents = block.family.extents(point)
        words = math.prod(extents[axis.name] for axis in block.family.form.axes)
        name = block.name if block.policy == EXPLICIT else f"{block.name} {block.policy}"
        return name, shard.points * words / point["M"]


def _fill(folder: Folder, sweep: Sweep, number: int) -> Done:
    """Count a shard and write it; raises as `compute` and `Folder.write` do."""
    start = time.perf_counter()
    done = compute(sweep, number)
    folder.write_shard(number, done.table)
    return replace(done, table=None, seconds=time.perf_counter() - start)


def _round(
    folder: Folder,
    pool: Pool,
    executor: Executor,
    todo: _Todo,
    report: Collected,
    tick: Callable[[Collected], object],
) -> str | None:
    """Work until all is finished, or the executor breaks; then says how."""
    running: dict[Future[Done], int] = {}
    sweep, hand, numbers = todo.sweep, folder.slim(), iter(todo)
    try:
        while True:
            # Two for each worker: the next one is there when it is done with this one.
            while len(running) < (2 * pool.width if pool.width > 1 else 1):
                number = next(numbers, None)
                if number is None:
                    break
                if folder.shard_path(number).exists():  # by another collector
                    todo.finished.add(number)
                    report.found += sweep.shard(number).points
                    continue
                if pool.shares_disk:
                    running[executor.submit(_fill, hand, sweep, number)] = number
                else:
                    running[executor.submit(compute, sweep, number)] = number
            if not running:
                return None
            done = wait(running, timeout=POLL_S, return_when=FIRST_COMPLETED).done
            if not done and (why := pool.gone()):
                raise IosimError(why)
            if not done:
                tick(report)
            for future in done:
                number = running.pop(future)
                found = future.result()
                if found.table is not None:
                    folder.write_shard(number, found.table)
                todo.finish(number, found.seconds)
                report.shards += 1
                report.done += found.points
                report.rows += found.rows
                report.work_s += found.seconds
                tick(report)
    except pool.lost as error:
        return next(iter(str(error).splitlines()), "") or type(error).__name__
    finally:
        for future in running:
            future.cancel()
