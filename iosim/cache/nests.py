"""What lies between two passes of a dense schedule: stack distances, from ranges of loop numbers.

Passes run in the lexicographic order of their places in the tree and of the numbers of the open
loops (`iosim.cache.closed`).  So those between two of them are a few *segments*: neighboring
places in the tree, each with the numbers of its outermost loops, the last of these in a range.

`iosim.cache.closed` calls it.  ``tests/cache/test_cache_closed.py`` compares with distances of the
stream.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

from iosim.cache.regular import Place, Range, Ranges, places, shapes
from iosim.core.program.walk import Instance

Numbers = tuple[int, ...]


def _key(place: Place, numbers: Numbers) -> tuple[Range, ...]:
    """When a pass runs, as what is compared from left to right."""
    return tuple(itertools.zip_longest(place.path, numbers, fillvalue=0))


def _latest(place: Place, within: Ranges, before: Place, at: Numbers) -> Numbers | None:
    """The last pass at a place, of those whose numbers lie in ranges, before another pass."""
    found = None
    for q in range(min(len(place.path), len(before.path))):
        if place.path[q] != before.path[q]:
            if place.path[q] < before.path[q]:
                return (*at[:q], *[stop - 1 for _, stop in within[q:]])
            break
        if q == len(place.loops) or q == len(before.loops):
            break
        low, high = within[q]
        if at[q] > low:
            found = q
        if not low <= at[q] < high:
            break
    if found is None:
        return None
    down = min(at[found], within[found][1]) - 1
    return (*at[:found], down, *[stop - 1 for _, stop in within[found + 1 :]])


def _union(boxes: Sequence[Ranges]) -> int:
    """The words of a union of boxes."""
    distinct = list(dict.fromkeys(boxes))
    if len(distinct) == 1:
        return math.prod(high - low for low, high in distinct[0])
    if not distinct[0]:
        return 1
    cuts = sorted({x for box in distinct for x in box[0]})
    words = 0
    for low, high in itertools.pairwise(cuts):
        rest = [box[1:] for box in distinct if box[0][0] <= low and high <= box[0][1]]
        if rest:
            words += (high - low) * _union(rest)
    return words


class Nests:
    """The passes of an instance, and the stack distances of their words.

    What runs between two passes is the same for many of them: what *segments* of the tree cover,
    and unions of boxes, are kept.
    """

    def __init__(self, instance: Instance) -> None:
        self.places = places(instance)
        self.by_name: dict[str, list[Place]] = {}
        for place in self.places:
            self.by_name.setdefault(place.name, []).append(place)
        self.shapes = {place.path: shapes(place) for place in self.places if place.local}
        self.sizes = {
            name: sorted({size for place in some for _, size in self.shapes[place.path]})
            for name, some in self.by_name.items()
            if some[0].local
        }
        # Places are in the order of the tree: below each node there are neighbors.
        self.below: dict[Numbers, Range] = {}
        for k, place in enumerate(self.places):
            for q in range(len(place.path) + 1):
                low, _ = self.below.get(place.path[:q], (k, k))
                self.below[place.path[:q]] = low, k + 1
        self.before = functools.cache(self._find_previous)
        self.covers = functools.cache(self._covers)
        self.between = functools.cache(self._between)
        self.union = functools.cache(_union)

    def distance(self, place: Place, at: Numbers, piece: int = 0) -> int:
        """The stack distance of a pass's words, or of a piece's of a local array; 0: none."""
        for size, other, first in self.before(place.path, at):
            if size >= piece:
                return self.between(other, first, place.path, at)
        return 0

    def _find_previous(self, path: Numbers, at: Numbers) -> list[tuple[int, Numbers, Numbers]]:
        """The latest passes before one that cover the same box, or of a local array any part.

        Returns:
            At most one for each place and shape, the latest first: its words, of a local array,
            and the place's path and the numbers of its loops.
        """
        place = self.places[self.below[path][0]]
        now = tuple((x, x + 1) for x in at)
        found: list[tuple[tuple[Range, ...], int, Numbers, Numbers]] = []
        for other in self.by_name[place.name]:
            for within, size in self._match_place(place, now, other):
                if (numbers := _latest(other, within, place, at)) is not None:
                    found.append((_key(other, numbers), size, other.path, numbers))
        return [(size, where, first) for _, size, where, first in sorted(found, reverse=True)]

    def _between(self, one: Numbers, first: Numbers, other: Numbers, last: Numbers) -> int:
        """The words of the passes from one on, itself included, and before another one."""
        arrays: dict[str, int] = {}
        tensors: dict[str, tuple[Ranges, ...]] = {}
        for segment in self._segments(one, first, other, last):
            for name, found in self.covers(*segment):
                if isinstance(found, int):
                    arrays[name] = max(found, arrays.get(name, 0))
                else:
                    tensors[name] = tensors.get(name, ()) + found
        return sum(arrays.values()) + sum(map(self.union, tensors.values()))

    def _segments(
        self, one: Numbers, first: Numbers, other: Numbers, last: Numbers
    ) -> Iterator[tuple[int, int, Ranges]]:
        """The same passes as neighboring places, and ranges of their outermost loops."""
        yield *self.below[one], tuple((x, x + 1) for x in first)
        q = 0
        while one[q] == other[q] and first[q] == last[q]:
            q += 1
        equal = tuple((x, x + 1) for x in first[:q])
        if one[q] == other[q]:
            yield *self.below[one[: q + 1]], (*equal, (first[q] + 1, last[q]))
            q += 1
        else:
            yield self.below[one[: q + 1]][1], self.below[other[: q + 1]][0], equal
            yield from self._iterations(one, first, q, after=True)
            yield from self._iterations(other, last, q, after=False)
            q += 1
        for path, at, after in ((one, first, True), (other, last, False)):
            for p in range(q, len(path)):
                outer, own = self.below[path[:p]], self.below[path[: p + 1]]
                here = (own[1], outer[1]) if after else (outer[0], own[0])
                yield *here, tuple((x, x + 1) for x in at[:p])
                yield from self._iterations(path, at, p, after=after)

    def _iterations(
        self, path: Numbers, at: Numbers, q: int, *, after: bool
    ) -> Iterator[tuple[int, int, Ranges]]:
        """The other iterations, on one side, of the open loop at depth q; none of a leaf."""
        if q < len(at):
            low, high = self.below[path[: q + 1]]
            trips = self.places[low].loops[q].trips
            side = (at[q] + 1, trips) if after else (0, at[q])
            yield low, high, (*((x, x + 1) for x in at[:q]), side)

    def _covers(
        self, low: int, high: int, ranges: Ranges
    ) -> list[tuple[str, int | tuple[Ranges, ...]]]:
        """What some places cover: of a local array its largest size, of a tensor boxes."""
        if ranges and ranges[-1][0] >= ranges[-1][1]:
            return []
        found: list[tuple[str, int | tuple[Ranges, ...]]] = []
        for place in self.places[low:high]:
            whole = (*ranges, *((0, x.trips) for x in place.loops[len(ranges) :]))
            covered = place.size(whole) if place.local else (place.box(whole),)
            found.append((place.name, covered))
        return found

    def _match_place(self, place: Place, now: Ranges, other: Place) -> Iterator[tuple[Ranges, int]]:
        """The numbers with which another place touches the same box, or array; and how much."""
        full = [(0, x.trips) for x in other.loops]
        if place.local:
            yield from self.shapes[other.path]
            return
        for x, (low, high) in zip(other.along, place.box(now), strict=True):
            if x.depth is None:
                if x.fixed != (low, high):
                    return
                continue
            loop = other.loops[x.depth]
            start, step = (0, 1) if x.unit else (loop.start, loop.step)
            number, off = divmod(low - start, step)
            if off or not 0 <= number < loop.trips:
                return
            full[x.depth] = (number, number + 1)
        yield tuple(full), place.size(now)
