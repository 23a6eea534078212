"""Which method counts what caches move, and the methods.

A stream is replayed access by access, or passes over whole tiles are, or LRU's closed form says it.

``iosim cache`` calls it.  A new method is a name in `METHODS`, a function here and a case of
`choose_method`; it must give the same words as a replay.  ``tests/cache/test_cache_cli.py``
compares with lists that play the cache, and the messages.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from iosim.base.compiled import available
from iosim.base.errors import InputError, closest
from iosim.base.progress import count_done
from iosim.base.rows import Values
from iosim.cache import tiles
from iosim.cache.closed import loads, misses, reuse
from iosim.cache.curves import STACKS, curve
from iosim.cache.family import CacheFamily
from iosim.cache.leaps import replay_leaping
from iosim.cache.of_program import count, touches
from iosim.cache.policies import POLICIES
from iosim.cache.progress import Watch
from iosim.cache.record import Cache
from iosim.cache.replaying import replay_many
from iosim.cache.sampling import sampled
from iosim.cache.stream import Accesses, Stream
from iosim.core.program.walk import Instance

METHODS = ("auto", "stream", "tiles", "formula")
MOVED = ("loads", "write_backs", "flush", "misses")
# From this many accesses on a quicker method is taken where there is one.
LONG = 2 * 10**8
# This many passes over tiles at most tell write-backs next to the formula.
FEW = 2 * 10**6
# Accesses that a replay takes in a second, of the order of, and the seconds that it may take where
# nobody asks for it by name.
COMPILED, PLAIN = 10**8, 3 * 10**5
PATIENCE = 600

_rules = functools.lru_cache(maxsize=1)(reuse)
_MADE, _REPLAYED = "passes over tiles made", "passes over tiles replayed"


@dataclass(frozen=True, kw_only=True)
class CacheWords:
    """What caches of some capacities move: a number for each of `capacities`.

    Attributes:
        method: which counted: ``stream``, ``tiles``, ``formula``, or ``sample`` of a stream.
        accesses: reads and writes that come in.
        capacities: words.
        loads: words read from the memory behind it.
        write_backs, flush, misses: as of `iosim.cache.Traffic`; None where the method can't tell.
        loads_error: of a sample, the standard error of each of `loads`, in words.
        lines: of a sample, how many lines were followed.
        why: why no quicker method was taken; "" if none is quicker.

    >>> CacheWords(method="stream", accesses=3, capacities=[1], loads=[3]).write_backs is None
    True
    """

    method: str
    accesses: int
    capacities: list[int]
    loads: list[int]
    write_backs: list[int] | None = None
    flush: list[int] | None = None
    misses: list[int] | None = None
    loads_error: list[int] | None = None
    lines: int | None = None
    why: str = ""


def count_words(what: Instance | Stream, family: CacheFamily, method: str = "auto") -> CacheWords:
    """The words that cross between each cache of a family and the memory behind it.

    Args:
        what: a schedule with its sizes and tiles, whose references go through the caches, or a
            stream.
        family: the caches.
        method: ``stream`` replays word by word, ``tiles`` whole tiles (LRU, and OPT with bypass),
            ``formula`` is LRU's closed form; ``auto`` takes what `choose_method` does.  Of a long
            stream LRU may leap over iterations that repeat one another (`iosim.cache.leaps`).

    Raises InputError for a method that can't count this, and, of ``auto``, where that would take
    longer than 10 minutes.

    >>> import iosim
    >>> flash2 = iosim.algorithm("flash2").program
    >>> instance = iosim.bind(flash2, {"N": 64, "d": 8, "heads": 1}, {"B_r": 16, "B_c": 8})
    >>> caches = CacheFamily(capacities=[512, 2048])
    >>> [count_words(instance, caches, method).loads for method in METHODS]
    [[8192, 1536], [8192, 1536], [8192, 1536], [8192, 1536]]
    """
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}: {closest(method, METHODS)}")
    if isinstance(what, Stream):
        if method not in ("auto", "stream"):
            raise InputError(f"a stream has no tiles and no formula: leave {method} out")
        if method == "auto":
            foresees = POLICIES[family.policy].foresees
            check_time(what.length, family.times, whole=foresees, trace=True)
        return _by_stream(what, family)
    family.quick(method)
    why = ""
    if method == "auto":
        method, why = choose_method(what, family)
    if method == "formula":
        found = _by_formula(what, family.capacities)
    elif method == "tiles":
        found = _by_tiles(what, family)
    else:
        stream = touches(what, line_words=family.line_words, layouts=family.layouts)
        if stream.length > LONG and family.leaps and available():
            found = _by_leaps(what, stream.length, family.capacities or [])
        else:
            found = _by_stream(stream, family)
    return replace(found, why=why)


def choose_method(instance: Instance, family: CacheFamily) -> tuple[str, str]:
    """The method of `count_words` that answers soonest, and why no quicker one does.

    A short stream is replayed.  For a long one the closed form is taken, or else passes over
    whole tiles, where they can do it.

    Raises InputError where the stream is left, and takes longer than 10 minutes.

    >>> import iosim
    >>> flash2 = iosim.algorithm("flash2").program
    >>> def method(N, **options):
    ...     sizes = {"N": N, "d": 64, "heads": 1}
    ...     instance = iosim.bind(flash2, sizes, {"B_r": 128, "B_c": 64})
    ...     return choose_method(instance, CacheFamily(capacities=[2**15], **options))[0]
    >>> method(512), method(2**20), method(2**16, policy="opt", bypass=True)
    ('stream', 'formula', 'tiles')
    """
    length = touches(instance, line_words=family.line_words, layouts=family.layouts).length
    why = []
    if length > LONG:
        why = [family.slow] if family.slow else []
        for name in family.quick():
            try:
                if name == "formula":
                    _rules(instance)
                elif (many := count(instance)) > tiles.MOST_PASSES:
                    most = f"{tiles.MOST_PASSES:,}"
                    why.append(f"{many:,} passes over whole tiles are more than {most}")
                    continue
            except InputError as error:
                why.append(str(error).partition(";")[0])
                continue
            return name, "; ".join(why)
    check_time(length, family.times, "; ".join(why), whole=POLICIES[family.policy].foresees)
    return "stream", "; ".join(why)


def check_time(
    accesses: int, times: int, why: str = "", whole: bool = False, trace: bool = False
) -> None:
    """InputError where a replay would take longer than `PATIENCE`.

    Args:
        accesses: of the stream.
        times: how many caches they go through.
        why: why nothing quicker answers.
        whole: whether all of the stream has to be in memory, so that waiting is not a way out.
        trace: whether they are of a file, which has no sizes to choose.
    """
    speed = COMPILED if available() else PLAIN
    seconds = accesses * times / speed
    if seconds > PATIENCE:
        once = f"{accesses:,} accesses" + (f" in {times} caches" if times > 1 else "")
        raise InputError(
            f"{once} take about {_long(seconds)}, one by one at {speed:,} a second"
            + (f" ({why})" if why else "")
            + (": give fewer capacities, " if trace else ": choose smaller sizes or larger tiles, ")
            + "or "
            + ("LRU" if whole else "take --method stream to wait that long")
        )


def _long(seconds: float) -> str:
    """A time of many minutes, roughly.

    >>> _long(5400), _long(86_400 * 13)
    ('90 minutes', '13 days')
    """
    for name, unit in (("years", 365 * 86_400), ("days", 86_400), ("hours", 3600)):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds / 60:.0f} minutes"


def _by_formula(instance: Instance, asked: list[int] | None) -> CacheWords:
    """What LRU's closed form tells at some capacities, or at powers of two."""
    rules = _rules(instance)
    capacities = asked or [2**k for k in range(41)]
    written: dict[str, Any] = {}
    if count(instance) <= FEW:
        found = _passes(instance)
        with _watched(_REPLAYED) as watch:
            moved = tiles.lru_at(found, capacities, watch=watch)
        written = {x: [getattr(one, x) for one in moved] for x in ("write_backs", "flush")}
    return CacheWords(
        method="formula",
        accesses=sum(rule.accesses for rule in rules),
        capacities=capacities,
        loads=[loads(rules, c) for c in capacities],
        misses=[misses(rules, c) for c in capacities],
        **written,
    )


def _by_tiles(instance: Instance, family: CacheFamily) -> CacheWords:
    """What passes over whole tiles tell at some capacities, or of LRU wherever something changes.

    Raises InputError for OPT at no capacity.
    """
    some = family.capacities
    if some is None and family.policy != "lru":
        raise InputError("OPT by tiles is replayed at chosen capacities: give --capacity, like 4Ki")
    found = _passes(instance)
    with _watched(_REPLAYED) as watch:
        some = some or tiles.lru(found, watch=watch).capacities.tolist()
        if family.policy == "lru":
            moved = tiles.lru_at(found, some, watch=watch)
        else:
            moved = [
                tiles.opt(found, room, watch=_nth(before, len(some), watch))
                for before, room in enumerate(some)
            ]
    return CacheWords(method="tiles", accesses=found.accesses, capacities=some, **_by_name(moved))


def _by_stream(stream: Stream, family: CacheFamily) -> CacheWords:
    """What a stream gives, word by word or line by line."""
    rooms, line, seen = family.capacities, family.line_words, report_accesses(stream)
    if stream.unit != "words" and (rooms is None or family.sample is not None):
        raise InputError(
            f"a trace whose addresses are {stream.unit} is replayed at chosen capacities: give "
            "--capacity, like 4096,65536, and no --sample"
        )
    moved: Values
    if rooms is None:
        return _at_every_capacity(seen, family)
    if family.sample is not None:
        with _watched("lines chosen from") as watch:
            some = sampled(
                seen, rooms, rate=family.sample, line_words=line, seed=family.seed, watch=watch
            )
        return CacheWords(
            method="sample",
            accesses=stream.length,
            capacities=rooms,
            loads=[round(x) for x in some.loads],
            loads_error=[round(x) for x in some.error],
            lines=some.lines,
        )
    caches = [
        Cache(
            capacity=room,
            policy=family.policy,
            line_words=line,
            ways=family.ways,
            write=family.write,
            bypass=family.bypass,
            seed=family.seed,
        )
        for room in rooms
    ]
    if family.at_once and stream.unit == "words":
        found = curve(seen, family.policy, line_words=line)
        steps = [found.step(room) for room in rooms]
        moved = {name: getattr(found, name)[steps].tolist() for name in MOVED}
    else:
        moved = _by_name(replay_many(seen, caches))
    return CacheWords(method="stream", accesses=stream.length, capacities=rooms, **moved)


def _by_leaps(instance: Instance, length: int, rooms: list[int]) -> CacheWords:
    """What LRU moves for a long stream, by a replay that leaps."""
    moved: list[Any] = []
    with count_done(len(rooms) * length, "accesses") as report:
        for room in rooms:

            def watch(done: int, before: int = len(moved) * length) -> None:
                report(before + done)

            moved.append(replay_leaping(instance, Cache(capacity=room), watch))
    words = _by_name(moved)
    return CacheWords(method="stream", accesses=length, capacities=rooms, **words)


def _at_every_capacity(stream: Stream, family: CacheFamily) -> CacheWords:
    name = f"{family.policy}-bypass" if family.bypass else family.policy
    if name not in STACKS or family.ways is not None or family.write != "back":
        raise InputError(
            f"every capacity in one pass is for {', '.join(STACKS)}, fully associative, writing "
            "back: give --capacity, like 4096,65536"
        )
    found = curve(stream, name, line_words=family.line_words)
    moved: dict[str, Any] = {
        x: None if (y := getattr(found, x)) is None else y.tolist() for x in MOVED
    }
    return CacheWords(
        method="stream",
        accesses=stream.length,
        capacities=found.capacities.tolist(),
        **moved,
    )


def _by_name(moved: list[Any]) -> dict[str, Any]:
    return {name: [getattr(one, name) for one in moved] for name in MOVED}


def report_accesses(stream: Stream) -> Stream:
    """The stream, which reports how much of it has been made (`iosim.base.progress`)."""

    def chunks() -> Iterator[Accesses]:
        if stream.length > LONG:
            # Here what would not fit into memory has been refused.
            warnings.warn(
                f"{stream.length:,} accesses are taken one by one, which takes long: "
                "larger tiles or smaller sizes make fewer",
                stacklevel=2,
            )
        done = 0
        with count_done(stream.length, "accesses") as report:
            for chunk in stream.chunks():
                yield chunk
                done += chunk.address.size
                report(done)

    return replace(stream, chunks=chunks)


def _passes(instance: Instance) -> tiles.Passes:
    with _watched(_MADE) as watch:
        return tiles.passes(instance, watch=watch)


@contextmanager
def _watched(what: str) -> Iterator[Watch]:
    """A watch that reports a loop over things of that name."""
    with count_done(None, what) as report:

        def tell(done: int, of: int) -> None:
            report.of = of
            report(done)

        yield tell


def _nth(before: int, times: int, watch: Watch) -> Watch:
    """Of this many equal times, after this many."""
    return lambda done, of: watch(before * of + done, times * of)
