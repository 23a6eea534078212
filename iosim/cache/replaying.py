"""Streams through caches: what each cache loads and writes back.

`iosim.cache.methods` and users call `replay`.  ``tests/cache/test_cache_replay.py`` compares with
simulators of lists and dicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from iosim.base.compiled import COMPILED, PLAIN, worth
from iosim.base.errors import InputError
from iosim.cache import lines
from iosim.cache.belady import NextUses, opt
from iosim.cache.online import Online
from iosim.cache.policies import POLICIES
from iosim.cache.record import Cache, Traffic, check_cache
from iosim.cache.stream import Accesses, Stream, check_stream


def replay(stream: Stream, cache: Cache, *, fast: bool | None = None) -> Traffic:
    """What a cache moves for a stream.

    Args:
        stream: accesses in order.
        cache: what they go through; empty at first.
        fast: compiled with numba, or in plain Python; none: whichever is faster.

    Takes memory by the number of addresses, and not by the number of accesses; but policies that
    know the future keep a number for each access.

    Raises InputError for a stream whose unit doesn't fit the cache's lines, one that is too long
    for such a policy, and one that gives other accesses than it says.

    >>> from iosim.cache import of_arrays
    >>> replay(of_arrays([0, 1, 0, 2, 1]), Cache(capacity=2))
    Traffic(accesses=5, misses=4, loads=4, write_backs=0, flush=0)
    """
    return replay_many(stream, [cache], fast=fast)[0]


def replay_many(
    stream: Stream, caches: Iterable[Cache], *, fast: bool | None = None
) -> list[Traffic]:
    """What each of some caches moves for a stream, which is made once.

    >>> from iosim.cache import of_arrays
    >>> caches = [Cache(capacity=c) for c in (1, 2, 3)]
    >>> [t.loads for t in replay_many(of_arrays([0, 1, 0, 2, 1]), caches)]
    [5, 4, 3]
    """
    check_stream(stream)
    many = [caches] if isinstance(caches, Cache) else list(caches)
    for cache in many:
        check_cache(cache)
    if fast is None:
        fast = worth(stream.length * len(many))
    backend = COMPILED if fast else PLAIN
    uses: dict[tuple[int, bool], NextUses] = {}
    runs: list[Online | NextUses] = []
    for cache in many:
        of = lines.of(stream, cache)
        if not POLICIES[cache.policy].foresees:
            runs.append(Online(cache, of, backend))
            continue
        kind = cache.line_words, cache.write == "through"
        if kind not in uses:
            uses[kind] = NextUses(stream, of, kind[1], backend)
        runs.append(uses[kind])
    fed = list(dict.fromkeys(runs))
    for chunk in _checked(stream):
        given = backend.arrays(Accesses(chunk.address.view(np.uint64), chunk.write))
        for run in fed:
            run.feed(given)
    for use in uses.values():
        use.finish()
    return [
        run.traffic() if isinstance(run, Online) else opt(cache, lines.of(stream, cache), run)
        for cache, run in zip(many, runs, strict=True)
    ]


def _checked(stream: Stream) -> Iterator[Accesses]:
    """The chunks of a stream, held to what it says of itself: compiled loops check no place."""
    seen = 0
    for chunk in stream.chunks():
        seen += chunk.address.size
        if not chunk.address.size:
            continue
        # Seen as unsigned, those below 0 are the largest of all.
        most = int(chunk.address.view(np.uint64).max())
        if most >= stream.addresses or seen > stream.length:
            break
        yield chunk
    else:
        if seen == stream.length:
            return
        raise InputError(f"a stream of {stream.length} accesses ends after {seen}")
    if seen > stream.length:
        raise InputError(f"a stream of {stream.length} accesses goes on after them")
    place = np.int64(np.uint64(most))
    raise InputError(f"address {place} in a stream of {stream.addresses} addresses")
