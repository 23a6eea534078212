"""Points of a sweep whose fast memory is a cache that manages itself.

`grid` reads policies with it, and `work` counts.  A policy itself is a file of
`iosim.cache.policies`; ``tests/sweep/test_sweep.py`` compares rows with single replays.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from iosim.base.arrays import Bools, Floats, Ints
from iosim.base.compiled import available
from iosim.base.errors import InputError, closest
from iosim.cache import POLICIES, Cache, closed, replay_many, touches
from iosim.core.algorithms import algorithm
from iosim.core.problem import Family
from iosim.core.program.ir import Program
from iosim.core.program.walk import Instance, bind
from iosim.core.tiling.rules import choose_many

# The schedule decides itself what stays.
EXPLICIT = "explicit"
# The engine of all other rows.
REPLAY = "replay"
# The most accesses of one point that are replayed, compiled and in plain Python.
LONGEST, LONGEST_PLAIN = 2 * 10**9, 2 * 10**7


def policies(text: str) -> tuple[str, ...]:
    """The policies of a list as typed, each once.

    Raises InputError for an unknown one, with the closest name.

    >>> policies("explicit,lru,lru")
    ('explicit', 'lru')
    """
    found = tuple(dict.fromkeys(x.strip() for x in text.split(",")))
    known = (EXPLICIT, *POLICIES)
    for name in found:
        if name not in known:
            raise InputError(f"unknown policy {name!r}: {closest(name, known)}")
    return found


def check_length(instance: Instance, policy: str) -> bool:
    """Whether an instance's references are few enough to be replayed.

    Where they are not, LRU's closed form gives the loads.  Raises InputError if there is none.
    """
    length = touches(instance).length
    most = LONGEST if available() else LONGEST_PLAIN
    if length <= most:
        return True
    why = "a closed form is of LRU only"
    if policy == "lru":
        try:
            closed.reuse(instance)
            return False
        except InputError as error:
            why = f"LRU has no closed form here ({error})"
    told = f"{instance.program.name} at {_sizes(instance)} makes {length:,} accesses"
    raise InputError(
        f"{told}, more than the {most:,} that a sweep replays, and {why}: choose smaller sizes"
    )


def check_grid(
    name: str, family: Family, axes: Sequence[tuple[str, tuple[int, ...]]], policy: str, tiles: str
) -> None:
    """Raise InputError where a block's caches or its largest problem can't be, before any is run.

    Args:
        axes: the block's: sizes, M and tiles, and their values, ascending.
        tiles: as requested.

    A stream is longest where tiles are smallest, so it is measured at the least M that has any of
    the first and the last.
    """
    values = dict(axes)
    for M in values["M"]:
        Cache(capacity=M, policy=policy)
    sizes = {x: values[x][-1] for x in family.names}
    given = {x: some[0] for x, some in axes if x != "M" and x not in sizes}
    columns = {x: np.array([v], np.int64) for x, v in (sizes | given).items()}
    program = algorithm(name).program_for(family.form)
    for M in (values["M"][0], values["M"][-1]):
        room = np.array([M], np.int64)
        used, found, _ = choose_many(algorithm(name), tiles, family, columns, room)
        if found[0]:
            chosen = {x: int(v[0]) for x, v in used.items()}
            check_length(bind(program, family.extents(sizes), chosen), policy)
            return


def _sizes(instance: Instance) -> str:
    return ", ".join(f"{x} = {v:,}" for x, v in instance.env.items() if isinstance(x, str))


@dataclass(frozen=True)
class Cached:
    """What caches moved at some points: arrays of one length.

    Attributes:
        load: words read from the memory behind the cache.
        store: words written to it, the flush included.
        known: where `store` is known: not where a closed form gave the loads.
        seconds: that each point took.
    """

    load: Ints
    store: Ints
    known: Bools
    seconds: Floats


def moved(
    program: Program, policy: str, family: Family, columns: Mapping[str, Ints], M: Ints
) -> Cached:
    """Put the references of every row through a cache of M words, fully associative.

    Args:
        columns: sizes of the family and tiles, arrays of one length; rows that differ in M only
            are replayed together.
    """
    n = len(M)
    names = [*family.names, *(p.name for p in program.params)]
    groups: dict[tuple[int, ...], list[int]] = {}
    for k in range(n):
        groups.setdefault(tuple(int(columns[x][k]) for x in names), []).append(k)
    found = Cached(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, bool), np.zeros(n))
    instances = []
    for values, rows in groups.items():
        given = dict(zip(names, values, strict=True))
        tiles = {p.name: given[p.name] for p in program.params}
        instance = bind(program, family.extents(given), tiles)
        instances.append((instance, rows, check_length(instance, policy)))
    for instance, rows, short in instances:
        start = time.perf_counter()
        rooms = [int(M[k]) for k in rows]
        if short:
            every = replay_many(
                touches(instance), [Cache(capacity=room, policy=policy) for room in rooms]
            )
            found.load[rows] = [one.loads for one in every]
            found.store[rows] = [one.write_backs + one.flush for one in every]
            found.known[rows] = True
        else:
            rules = closed.reuse(instance)
            found.load[rows] = [closed.loads(rules, room) for room in rooms]
        found.seconds[rows] = (time.perf_counter() - start) / len(rows)
    return found
