"""LRU over a schedule's stream, with leaps over iterations that repeat one another.

What LRU does depends on which accesses are to equal words, and not on what words these are.  Say
that all parts of each tensor and local array that a loop passes over lie, in the next iteration,
at one distance from where they lie in this one (0, where the loop doesn't index it).  If after an
iteration the cache holds what it held before it, in the same order, every word moved by the
distance of its tensor or array, and dirty where that was, then the next iteration is this one under
other names, and so on up to the last full one: each misses, loads and writes back as many words as
this one did, and moves what the cache holds by the same distances once more.  The same is true of
several iterations in place of one.  So the rest is counted by a product, and the cache is set to
what it holds then.

Words are renamed one to one, since no word leaves its tensor or array.

`iosim.cache.methods` calls it.  ``tests/cache/test_cache_leaps.py`` compares with a list of words
that knows no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.compiled import COMPILED
from iosim.cache import lines
from iosim.cache.address_map import Loops
from iosim.cache.of_program import walked
from iosim.cache.online import Online
from iosim.cache.record import Cache, Traffic
from iosim.cache.references import Body, Piece, Repeat, Straight
from iosim.cache.stream import CHUNK, Accesses
from iosim.cache.trace_chunks import chunks
from iosim.cache.trace_walk import Copies, Open, Walk
from iosim.core.program import space
from iosim.core.program.index import Tile, tiles_of
from iosim.core.program.walk import Instance

# A loop of more accesses is walked iteration by iteration, or of four times what a cache has.
LONG = 2**18


def replay_leaping(
    instance: Instance, cache: Cache, watch: Callable[[int], None] = lambda done: None
) -> Traffic:
    """What an LRU cache moves: what `replay` gives for `touches(instance)`, often much sooner.

    Args:
        instance: a program with its sizes, tiles and masks, without positions that are read.
        cache: LRU with lines of one word, fully associative.
        watch: called now and then with how many accesses are done.

    Raises InputError where numba is not installed.

    >>> import iosim
    >>> sizes, tiles = {"N": 64, "d": 8, "heads": 1}, {"B_r": 16, "B_c": 8}
    >>> flash2 = iosim.bind(iosim.algorithm("flash2").program, sizes, tiles)
    >>> replay_leaping(flash2, Cache(capacity=64)).loads
    22592
    """
    stream, walk, body = walked(instance)
    starts = np.array([region.start for region in stream.regions])
    online = Online(cache, lines.of(stream, cache), COMPILED)
    _Replay(walk, online, cache.capacity, starts, watch).body(body, walk.top)
    return online.traffic()


@dataclass
class _Replay:
    """A replay as far as it is.

    Attributes:
        starts: where each tensor and local array begins, in order.
        done: accesses so far, those that were leapt over too.
        sizes: of each loop, by tile, the accesses of an iteration.
    """

    walk: Walk
    online: Online
    capacity: int
    starts: Ints
    watch: Callable[[int], None]
    done: int = 0
    sizes: dict[Tile, int] = field(default_factory=dict)

    def body(self, body: Body, at: Open) -> None:
        """Go through some actions."""
        for action in body:
            if isinstance(action, Repeat):
                self._loop(action, at)
            else:
                self._feed(self.walk.body((action,), at))

    def _feed(self, many: Iterable[Copies]) -> None:
        for chunk in chunks(many, self.walk.ground, CHUNK):
            self.online.feed(COMPILED.arrays(Accesses(chunk.address.view(np.uint64), chunk.write)))
            self.done += chunk.address.size
            self.watch(self.done)

    def _run(self, repeat: Repeat, at: Open, low: int, high: int) -> None:
        """Iterations of a loop from number low on, before high."""
        size = self.sizes.get(repeat.loop.tile, 0)
        inner = any(isinstance(x, Repeat) for x in repeat.body)
        if inner and (not size or size > max(LONG, 4 * self.capacity)):
            for one in self.walk.iterations(repeat, at, low, high):
                self.body(repeat.body, one)
        else:
            self._feed(self.walk.repeat(repeat, at, low, high))

    def _loop(self, repeat: Repeat, at: Open) -> None:
        """A loop, with a leap where iterations repeat one another."""
        by = self._distances(repeat, at)
        if by is None:
            self._feed(self.walk.repeat(repeat, at))
            return
        start, stop = space.resolved(repeat.loop.span, at.env)
        full = (stop - start) // space.step(repeat.loop, at.env)
        done, number = self.done, min(1, full)
        self._run(repeat, at, 0, number)
        size = self.sizes[repeat.loop.tile] = self.done - done
        # So many iterations that they access what a cache has room for.
        every = -(-self.capacity // max(1, size))
        before = self._state() if full - number > 2 * every else None
        while before is not None and full - number > 2 * every:
            self._run(repeat, at, number, number + every)
            number += every
            now = self._state()
            times = (full - number) // every
            if self._leaps(before, now, times, every * by):
                number += times * every
                break
            before, every = now, 2 * every
        self._run(repeat, at, number, space.trips(repeat.loop, at.env))

    def _state(self) -> _State:
        return *self.online.list_lines(), self.online.counts, self.done

    def _leaps(self, before: _State, now: _State, times: int, by: Ints) -> bool:
        """Whether the cache holds what it did, moved; if so, that is done so many times more.

        Args:
            by: of each tensor and local array, how far its words move at a time.
        """
        (old, dirty, counted, done), (new, status, counts, _) = before, now
        if old.size != new.size:
            return False
        whose = np.searchsorted(self.starts, new, side="right") - 1
        same = whose == np.searchsorted(self.starts, old, side="right") - 1
        if not (same & (new == old + by[whose]) & (status == dirty)).all():
            return False
        more = times * (self.done - done)
        self.online.leap(new + times * by[whose], status, times * (counts - counted), more)
        self.done += more
        self.watch(self.done)
        return True

    def _distances(self, repeat: Repeat, at: Open) -> Ints | None:
        """How far each tensor and local array moves in an iteration; None where that varies."""
        loop, found = repeat.loop, dict[int, int]()
        if not repeat.alike or repeat.spans:
            return None  # and no loop inside of it is asked about
        ground = self.walk.ground
        for part, loops in _list_parts((repeat,), at.loops):
            by = 0
            if part.shape is None:
                by = ground.located(part, at.env, loops)[1].get(loop.tile, 0)
            elif part.name not in ground.arrays:
                continue  # nothing is ever in it
            elif part.index != part.shape and any(
                loop.tile in tiles_of(x) for x in (*part.index, *part.shape)
            ):
                return None
            if found.setdefault(ground.place(part).region.start, by) != by:
                return None
        return np.array([found.get(start, 0) for start in self.starts.tolist()])


_State: TypeAlias = tuple[Ints, Ints, Ints, int]


def _list_parts(body: Body, loops: Loops) -> Iterator[tuple[Piece, Loops]]:
    """The parts that some actions reference, each with the open loops."""
    for action in body:
        if isinstance(action, Repeat):
            yield from _list_parts(action.body, {**loops, action.loop.tile: action.loop})
        elif isinstance(action, Straight):
            yield from ((part, loops) for touch in action.body for part in touch.parts)
