"""Whole tiles in place of words: a pass over a tile is one access with a weight, exactly.

What a schedule references is a sequence of passes over *tiles*: boxes of tensors, and pieces of
local arrays, any two of which are equal or have no word in common (`iosim.cache.regular` says of
which programs that is true).  Each pass covers its tile from the first word to the last.  Then
some caches of words can be replayed by tiles.

**LRU.**  Between two passes over a tile lie whole passes over others.  A word of it was followed,
in the earlier pass, by the rest of the tile, and is preceded in the later one by what comes before
it: all of the tile's words, and all words of the tiles between.  So all its words have one stack
distance, the weight of the distinct tiles since, the tile itself included.

**OPT with bypass.**  The words of a tile are next used in one pass, in order, so that of two tiles
the words of one are all used before those of the other, and of one tile the first words first.
OPT therefore drops the last words of the tile that is used last, and what it holds of a tile is a
*prefix*.  A pass over a tile of n words finds r of them.  The others enter as long as there is
room, or words of tiles that are next used later than this one; when there are none for one word
there are none for those after it.  So it then holds min(n, r + free + held of those later) words.
A tile whose next pass writes it is dead until then, and its words are free.

OPT without bypass has no such form here: the last word to miss is always in, and prefixes break.

>>> import iosim
>>> flash2 = iosim.algorithm("flash2").program
>>> sizes = {"N": 64, "d": 8, "heads": 1}
>>> found = passes(iosim.bind(flash2, sizes, {"B_r": 16, "B_c": 8}))
>>> lru(found).loads_at(512), opt(found, 512)
(8192, 4256)
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iosim.cache.compiled import built
from iosim.cache.curves import Curve
from iosim.cache.regular import Cut, Place, cut, places, shapes
from iosim.errors import InputError
from iosim.problem import check_size
from iosim.program.walk import Instance

Ints = NDArray[np.int64]

# Passes that are held at once, at most: about 60 bytes each.
MOST_PASSES = 5 * 10**7


@dataclass(frozen=True)
class Passes:
    """The passes of an instance in order.

    Attributes:
        tile: of each pass, the number of its tile.
        write: whether it writes.
        words: of each tile.
    """

    tile: Ints
    write: NDArray[np.bool_]
    words: Ints

    @property
    def accesses(self) -> int:
        """How many words are accessed in all."""
        return int(self.words[self.tile].sum())


def passes(instance: Instance) -> Passes:
    """The passes of an instance over whole tiles.

    Raises InputError where passes don't cover whole tiles, with what stands against it, and where
    there are more than `MOST_PASSES`.

    >>> import iosim
    >>> found = passes(iosim.bind(iosim.algorithm("copy").program, {"n": 5}, {"B": 2}))
    >>> found.tile.tolist(), found.words.tolist()
    ([0, 3, 1, 4, 2, 5], [2, 2, 1, 2, 2, 1])
    """
    every = places(instance)
    count = sum(math.prod(x.trips for x in place.loops) for place in every)
    if count > MOST_PASSES:
        raise InputError(
            f"{instance.program.name} makes {count:,} passes over tiles, more than "
            f"{MOST_PASSES:,}: choose larger tiles, or replay its stream"
        )
    numbering = _Numbering(every)
    radix = _radix(every)
    parts = [numbering.of(place) for place in every]
    when = [np.repeat(_when(place, radix), tiles.shape[1])
            for place, (tiles, _) in zip(every, parts, strict=True)]  # fmt: skip
    order = np.argsort(np.concatenate(when), kind="stable")
    tile = np.concatenate([tiles.reshape(-1) for tiles, _ in parts])[order]
    there = np.concatenate([here.reshape(-1) for _, here in parts])[order]
    write = np.concatenate(
        [np.full(tiles.size, place.write) for place, (tiles, _) in zip(every, parts, strict=True)]
    )[order]
    return Passes(tile[there], write[there], np.asarray(numbering.words, np.int64))


class _Numbering:
    """A number for every tile."""

    def __init__(self, every: list[Place]) -> None:
        self.words: list[int] = []
        self.first: dict[str, int] = {}
        self.cuts: dict[str, list[list[Cut]]] = {}  # of tensors: for each axis, its cuts
        self.sizes: dict[str, list[int]] = {}  # of local arrays
        for name in dict.fromkeys(place.name for place in every):
            some = [place for place in every if place.name == name]
            self.first[name] = len(self.words)
            if some[0].local:
                sizes = sorted({size for place in some for _, size in shapes(place)})
                self.sizes[name] = sizes
                self.words += [b - a for a, b in itertools.pairwise([0, *sizes])]
                continue
            each = zip(*(place.along for place in some), strict=True)
            cuts = [sorted({cut(p, x) for p, x in zip(some, axis, strict=True)}) for axis in each]
            self.cuts[name] = cuts
            words = np.ones(1, np.int64)
            for axis_cuts in cuts:
                long = np.concatenate([
                    np.minimum(np.arange(start, stop, step) + step, stop)
                    - np.arange(start, stop, step)
                    for start, stop, step in axis_cuts
                ])  # fmt: skip
                words = (words[:, None] * long).reshape(-1)
            self.words += words.tolist()

    def of(self, place: Place) -> tuple[Ints, NDArray[np.bool_]]:
        """The tiles of each pass of a place, in order, and which of them it covers."""
        trips = [x.trips for x in place.loops]
        first = self.first[place.name]
        if place.local:
            size = np.zeros(trips, np.int64)
            for box, n in shapes(place):
                size[tuple(slice(*x) for x in box)] = n
            sizes = np.asarray(self.sizes[place.name])
            here = size.reshape(-1, 1) >= sizes
            return np.broadcast_to(first + np.arange(len(sizes)), here.shape), here
        found = np.zeros(trips, np.int64)
        for axis_cuts, x in zip(self.cuts[place.name], place.along, strict=True):
            own = cut(place, x)
            counts = [len(range(*c)) for c in axis_cuts]
            before = sum(counts[: axis_cuts.index(own)])
            at: Ints = np.asarray(before)
            if x.depth is not None:
                at = before + np.arange(place.loops[x.depth].trips)
                at = at.reshape([-1 if k == x.depth else 1 for k in range(len(trips))])
            found = found * sum(counts) + at
        found = first + found.reshape(-1, 1)
        return found, np.ones(found.shape, bool)


def _radix(every: list[Place]) -> list[int]:
    """How many values each part of a pass's time takes: places and numbers, in turns."""
    depth = max(len(place.path) for place in every)
    found = [1] * (2 * depth)
    for place in every:
        for q, at in enumerate(place.path):
            found[2 * q] = max(found[2 * q], at + 1)
        for q, loop in enumerate(place.loops):
            found[2 * q + 1] = max(found[2 * q + 1], loop.trips)
    if math.prod(found) >= 2**62:
        raise InputError("too many passes over tiles to number: choose larger tiles")
    return found


def _when(place: Place, radix: list[int]) -> Ints:
    """When each pass of a place runs, as a number."""
    when: Ints = np.zeros(1, np.int64)
    for q in range(len(radix) // 2):
        when = when * radix[2 * q] + (place.path[q] if q < len(place.path) else 0)
        trips = place.loops[q].trips if q < len(place.loops) else 1
        when = (when[:, None] * radix[2 * q + 1] + np.arange(trips)).reshape(-1)
    return when


def lru(found: Passes) -> Curve:
    """LRU at every capacity, from passes: what `curve` gives for the stream of words.

    It tells nothing of write-backs.

    >>> import iosim
    >>> sizes, tiles = {"N": 64, "d": 8, "heads": 1}, {"B_r": 16, "B_c": 8}
    >>> instance = iosim.bind(iosim.algorithm("flash2").program, sizes, tiles)
    >>> whole = lru(passes(instance))
    >>> whole.accesses, whole.loads_at(512), whole.loads_at(4096)
    (41664, 8192, 1536)
    """
    distance = _distances(found.tile, found.words)
    words = found.words[found.tile]
    capacities = np.unique(np.concatenate([[1], distance[distance > 0]]))
    missing = np.zeros((2, len(capacities)), np.int64)
    for which, mine in ((0, ~found.write), (1, found.write)):
        hits = np.zeros(len(capacities), np.int64)
        near = mine & (distance > 0)
        np.add.at(hits, np.searchsorted(capacities, distance[near]), words[near])
        missing[which] = words[mine].sum() - np.cumsum(hits)
    return Curve(
        policy="lru", line_words=1, accesses=found.accesses, capacities=capacities,
        misses=missing.sum(axis=0), loads=missing[0],
    )  # fmt: skip


def _distances(tile: Ints, words: Ints) -> Ints:
    """The stack distance of each pass's words; 0 of the first over a tile."""
    found = np.zeros(tile.size, np.int64)
    tree = np.zeros(tile.size + 1, np.int64)
    built(_measure)(tile, words, tree, np.full(words.size, -1, np.int64), found)
    return found


def _measure(tile: Ints, words: Ints, tree: Ints, last: Ints, found: Ints) -> None:
    """Find distances.

    Args:
        tree: sums of the weights at tiles' last passes (Fenwick 1994).
        last: of each tile, its last pass; −1: none.
    """
    n = tile.size
    total = 0
    for now in range(n):
        x = tile[now]
        if last[x] >= 0:
            before = 0
            k = last[x]  # passes before that one
            while k > 0:
                before += tree[k]
                k -= k & -k
            found[now] = total - before
            k = last[x] + 1
            while k <= n:
                tree[k] -= words[x]
                k += k & -k
            total -= words[x]
        k = now + 1
        while k <= n:
            tree[k] += words[x]
            k += k & -k
        total += words[x]
        last[x] = now


def opt(found: Passes, capacity: int) -> int:
    """Words that OPT with bypass loads at a capacity, from passes.

    >>> import iosim
    >>> sizes, tiles = {"N": 64, "d": 8, "heads": 1}, {"B_r": 16, "B_c": 8}
    >>> instance = iosim.bind(iosim.algorithm("flash2").program, sizes, tiles)
    >>> opt(passes(instance), 512), opt(passes(instance), 4096)
    (4256, 1536)
    """
    check_size("capacity", capacity)
    tile, write, words = found.tile.tolist(), found.write.tolist(), found.words.tolist()
    never = len(tile)
    after, ahead = [never] * len(words), [never] * len(tile)
    for now in range(len(tile) - 1, -1, -1):
        ahead[now] = after[tile[now]]
        after[tile[now]] = never if write[now] else now
    held, use = [0] * len(words), [never] * len(words)
    latest: list[tuple[int, int]] = []  # a heap: minus when it is next used, and the tile
    free, loads = capacity, 0
    for now, x in enumerate(tile):
        if not write[now]:
            loads += words[x] - held[x]
        use[x] = ahead[now]
        if ahead[now] == never:
            free += held[x]
            held[x] = 0
            continue
        need = words[x] - held[x]
        while need > free and latest:
            when, other = latest[0]
            if -when <= ahead[now]:
                break
            if use[other] != -when or not held[other]:
                heapq.heappop(latest)  # it was touched since, or has gone
                continue
            gone = min(held[other], need - free)
            held[other] -= gone
            free += gone
            if not held[other]:
                heapq.heappop(latest)
        taken = min(need, free)
        held[x] += taken
        free -= taken
        if held[x]:
            heapq.heappush(latest, (-ahead[now], x))
    return loads
