"""The engines of `iosim cache`: which one answers, and those that need no stream."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from iosim.base.compiled import available
from iosim.base.errors import InputError
from iosim.cache import tiles
from iosim.cache.closed import loads, misses, reuse
from iosim.cache.of_program import count
from iosim.cache.progress import Watch
from iosim.cli.watching import part_done, watching
from iosim.core.program.walk import Instance

MOVED = ("loads", "write_backs", "flush", "misses")
# So many passes over tiles at most tell write-backs beside the formula.
FEW = 2 * 10**6
# Accesses that a replay takes in a second, of the order of, and the seconds that it may take where
# nobody asks for it by name.
COMPILED, PLAIN = 10**8, 3 * 10**5
PATIENCE = 600

# What tells the numbers that an engine leaves out.
ELSEWHERE = {
    "formula": "the closed form counts loads; smaller sizes with --method tiles tell the rest",
    "sample": "a sample estimates loads; without --sample the rest is told",
    "stream": "OPT at every capacity counts loads; chosen ones, --capacity 4Ki,64Ki, tell the rest",
}

_rules = functools.lru_cache(maxsize=1)(reuse)


def quickest(instance: Instance, quick: list[str]) -> tuple[str, str]:
    """The first engine that can answer for an instance, or else the stream; and why no other one.

    Args:
        quick: the engines that need no stream for what is asked for.
    """
    why = []
    for name in quick:
        try:
            if name == "formula":
                _rules(instance)
            elif (many := count(instance)) > tiles.MOST_PASSES:
                why.append(f"{many:,} passes over whole tiles are more than {tiles.MOST_PASSES:,}")
                continue
        except InputError as error:
            why.append(str(error).partition(";")[0])
            continue
        return name, "; ".join(why)
    return "stream", "; ".join(why)


def check_time(
    accesses: int, times: int, why: str = "", whole: bool = False, trace: bool = False
) -> None:
    """InputError where a replay would take longer than `PATIENCE`.

    Args:
        accesses: of the stream.
        times: how many caches they go through.
        why: why nothing quicker answers.
        whole: whether all of the stream has to be in memory, so that waiting is no way out.
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


def by_formula(instance: Instance, asked: list[int] | None) -> dict[str, Any]:
    """What LRU's closed form tells at some capacities, or at powers of two."""
    rules = _rules(instance)
    capacities = asked or [2**k for k in range(41)]
    written: dict[str, Any] = {"write_backs": None, "flush": None}
    if count(instance) <= FEW:
        moved = _lru(tiles.lru_at, _passes(instance), capacities)
        written = {name: [getattr(one, name) for one in moved] for name in written}
    return {
        "engine": "formula",
        "accesses": sum(rule.accesses for rule in rules),
        "capacities": capacities,
        "loads": [loads(rules, c) for c in capacities],
        **written,
        "misses": [misses(rules, c) for c in capacities],
    }


def by_tiles(instance: Instance, policy: str, asked: list[int] | None) -> dict[str, Any]:
    """What passes over whole tiles tell at some capacities, or of LRU wherever something changes.

    Raises InputError for OPT at no capacity.
    """
    if asked is None and policy != "lru":
        raise InputError("OPT by tiles is replayed at chosen capacities: give --capacity, like 4Ki")
    found = _passes(instance)
    if policy == "lru":
        some = asked or _lru(tiles.lru, found).capacities.tolist()
        moved = _lru(tiles.lru_at, found, some)
    else:
        assert asked is not None
        some = asked
        with watching() as show:
            moved = [
                tiles.opt(found, room, watch=_watch(show, _REPLAYED, before, len(some)))
                for before, room in enumerate(some)
            ]
    return {"engine": "tiles", "accesses": found.accesses, "capacities": some} | {
        name: [getattr(one, name) for one in moved] for name in MOVED
    }


_MADE, _REPLAYED = "passes over tiles made", "passes over tiles replayed"


def _passes(instance: Instance) -> tiles.Passes:
    with watching() as show:
        return tiles.passes(instance, watch=_watch(show, _MADE))


def _lru(replay: Callable[..., Any], *given: Any) -> Any:
    with watching() as show:
        return replay(*given, watch=_watch(show, _REPLAYED))


def _watch(show: Callable[..., None], what: str, before: int = 0, times: int = 1) -> Watch:
    """Shows how much is done, of so many times alike after so many."""
    return lambda done, of: show(part_done(before * of + done, times * of, what))
