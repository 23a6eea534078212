"""Streams through caches: what each cache loads and writes back."""

from __future__ import annotations

from collections.abc import Iterable

from iosim.cache.compiled import worth
from iosim.cache.online import Online
from iosim.cache.record import Cache, Traffic
from iosim.cache.stream import Stream
from iosim.errors import InputError


def replay(stream: Stream, cache: Cache, *, fast: bool | None = None) -> Traffic:
    """What a cache moves for a stream.

    Args:
        stream: accesses in order.
        cache: what they go through; empty at first.
        fast: compiled with numba, or in plain Python; none: whichever is sooner done.

    Raises InputError for a stream whose unit doesn't fit the cache's lines.

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
    many = list(caches)
    runs = [_run(stream, cache, worth(stream.length) if fast is None else fast) for cache in many]
    for chunk in stream.chunks():
        for run in runs:
            run.feed(chunk)
    return [run.traffic() for run in runs]


def _run(stream: Stream, cache: Cache, fast: bool) -> Online:
    word = _unit_words(stream)
    if cache.line_words % word:
        raise InputError(
            f"the stream's {stream.unit} are of {word} words, the cache's lines of "
            f"{cache.line_words}: give lines of a multiple, or a stream of words"
        )
    units = cache.line_words // word
    covers = units == 1 and stream.unit != "lines"
    return Online(cache, lines=-(-stream.addresses // units), units=units, covers=covers, fast=fast)


def _unit_words(stream: Stream) -> int:
    """How many words an address of a stream stands for."""
    if stream.unit == "lines":
        return stream.line_words
    sizes = {region.unit_words for region in stream.regions} or {1}
    if len(sizes) > 1:
        raise InputError(
            f"the stream's {stream.unit} are of {', '.join(map(str, sorted(sizes)))} words: "
            f"a cache has lines of one size; give a stream of words"
        )
    return sizes.pop()
