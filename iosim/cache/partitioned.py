"""A cache in several parts, each of which keeps what its own side reads.

Such is the L2 of large GPUs: two halves, and an SM reads through the half of its side.  What that
half misses and the other holds comes from there, and is kept in both from then on; only what
neither holds is loaded from memory.  A look-up in another part is not a use of it: what a part
holds depends on its own side alone.  A write goes to its side's part, and copies in others get it;
the line is dirty in the part that was written last.

`iosim.gpu.dram_prediction` replays an L2 with it.  ``tests/cache/test_cache_replay.py`` and
``tests/cache/test_cache_shared.py`` compare with lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.compiled import COMPILED, PLAIN, worth
from iosim.base.errors import InputError
from iosim.base.validate import check_size
from iosim.cache import lines
from iosim.cache.lines import Lines
from iosim.cache.online import Online
from iosim.cache.policies import POLICIES
from iosim.cache.record import Cache, Traffic, check_cache
from iosim.cache.shared import Interleaved
from iosim.cache.stream import Accesses


def parity(items: Ints) -> Ints:
    """Items on two sides in turn."""
    return items % 2


def replay_parts(
    accesses: Interleaved,
    part: Cache,
    *,
    parts: int = 2,
    side: Callable[[Ints], Ints] = parity,
    fast: bool | None = None,
) -> Traffic:
    """What is moved between memory and a cache of several parts.

    Args:
        accesses: of items that share it.
        part: one of its parts: fully associative, writes back, and knows only the past.
        parts: how many there are.
        side: from the numbers of items to those of the parts that they read through.
        fast: compiled with numba, or in plain Python; none: whichever is faster.

    Returns:
        Misses and loads are of what no part held; write-backs and the flush of all parts.

    Raises InputError for a part of another kind, and items on a side that is not there.

    >>> from iosim.cache.shared import lockstep, interleaved, sweeps
    >>> both = interleaved(sweeps(4, 3), lockstep(2))
    >>> replay_parts(both, Cache(capacity=2)).loads, replay_parts(both, Cache(capacity=3)).loads
    (6, 3)
    """
    if not isinstance(accesses, Interleaved):
        raise InputError(
            f"{type(accesses).__name__} doesn't say whose accesses are whose: give what "
            "interleaved() makes"
        )
    check_cache(part)
    parts = check_size("parts", parts)
    if part.sets > 1 or part.write != "back" or POLICIES[part.policy].foresees:
        raise InputError(
            f"a part of a cache is fully associative, writes back, and knows only the past, not "
            f"{part}: leave out the rest"
        )
    stream = accesses.stream
    of = lines.of(stream, part)
    backend = COMPILED if (worth(stream.length) if fast is None else fast) else PLAIN
    whole = replace(part, capacity=parts * part.capacity, ways=part.lines)
    run = Online(whole, Lines(parts * of.count, 1, of.covers), backend, copies=True)
    for chunk, items in accesses.with_items():
        sides = np.ascontiguousarray(side(items), np.int64)
        if sides.size and not (sides.min() >= 0 and sides.max() < parts):
            raise InputError(
                f"an item on side {sides.max() if sides.max() >= parts else sides.min()} of a "
                f"cache of {parts} parts: give 0 to {parts - 1}"
            )
        line = chunk.address // of.units * parts + sides
        run.feed(backend.arrays(Accesses(line.view(np.uint64), chunk.write)))
    return run.traffic()
