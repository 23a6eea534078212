"""LRU's misses of a dense schedule as a function of capacity, without its stream.

**Passes.**  What a program references is a sequence of passes: one operand, from its first word to
its last (`iosim.cache.references`).  Suppose that any two passes over a tensor cover the same box
or boxes without a common word.  Then all words of a box have one stack distance in a pass over it:
between two touches of a word lie the words of its box that follow it in the earlier pass, those
that precede it in the later one, and every word of the passes between, which are whole.  That is
the size of the union of the box and the boxes of the passes between, whatever the word.  A local
array lies row by row in the shape that it has, so a pass over it covers a prefix of its words;
cut at the sizes that occur, the prefixes are made of *pieces* of which the same is true.

**Reuse.**  A pass is a place in the tree and a number for each open loop, and passes run in the
lexicographic order of these.  The earlier pass over the same box is the latest one before this
whose loops that index the tensor have the same numbers.  The passes between are, for every place
in the tree, a few products of ranges of loop numbers; their boxes are products of ranges of
positions.

**Piecewise affine.**  The ends of these ranges are the loops' ends, or the numbers of the two
passes.  So with all other loops fixed, the distance is affine in one loop's number, except for the
first iteration, which may have no earlier one, the last, which follows no other, and where that is
short the one before it: local arrays are only as large as the short one needs in what comes after
it.  Distances at the ends of the ranges between therefore give them all, and the accesses
beyond a capacity are counted by dividing.

This holds where every loop has fixed bounds, and neither masks nor positions that are read decide
what is touched; `reuse` says what prevents it elsewhere.

`iosim.cache.methods` and the cache rows of sweeps (`iosim.sweep.caches`) call it.
``tests/cache/test_cache_closed.py`` compares with stack distances of the stream.

>>> import iosim
>>> flash2 = iosim.algorithm("flash2").program
>>> sizes = {"N": 64, "d": 8, "heads": 1}
>>> rules = reuse(iosim.bind(flash2, sizes, {"B_r": 16, "B_c": 8}))
>>> loads(rules, capacity=512)
8192
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.errors import InputError, IosimError
from iosim.base.validate import check_size
from iosim.cache.nests import Nests
from iosim.cache.regular import Place, Range, Steps
from iosim.core.program.walk import Instance

# Terms that a distance which is affine in two loops or more is counted by, at most.
MOST_TERMS = 10**7


class ClosedFormError(IosimError):
    """Distances that are not what the closed form takes them to be: its argument is wrong."""


@dataclass(frozen=True)
class Reuse:
    """Accesses whose stack distances follow one rule.

    Attributes:
        write: whether they write.
        words: accesses for each choice of numbers.
        trips: how many numbers each of some loops takes.
        terms: for each subset of these loops, as a mask, the coefficient of the product of their
            numbers (from 0 on); the sum over all is the distance.  Empty: no earlier touch.
    """

    write: bool
    words: int
    trips: tuple[int, ...] = ()
    terms: tuple[int, ...] = ()

    @property
    def accesses(self) -> int:
        """How many there are."""
        return self.words * math.prod(self.trips)

    def _most(self, mask: int) -> int:
        """The largest product of the numbers of some loops."""
        return math.prod(n for k, n in enumerate(self.trips) if mask >> k & 1)

    def beyond(self, capacity: int) -> int:
        """How many have a distance of more than `capacity`."""
        if not self.terms:
            return self.accesses
        used = [
            k
            for k in range(len(self.trips))
            if any(c for mask, c in enumerate(self.terms) if mask >> k & 1)
        ]
        times = math.prod(n for k, n in enumerate(self.trips) if k not in used)
        if not used:
            return self.accesses if self.terms[0] > capacity else 0
        longest = max(used, key=lambda k: self.trips[k])
        others = [k for k in used if k != longest]
        if math.prod(self.trips[k] for k in others) > MOST_TERMS:
            raise InputError(
                f"a distance varies over {' × '.join(str(self.trips[k]) for k in used)} "
                "iterations: choose larger tiles"
            )
        grid = np.meshgrid(*(np.arange(self.trips[k]) for k in others), indexing="ij")
        # Python's integers where products leave 64 bits.
        most = capacity + sum(abs(c) * self._most(mask) for mask, c in enumerate(self.terms))
        kind: type = np.int64 if most < 2**62 else object
        constant: Ints = np.zeros((), kind)
        slope: Ints = np.zeros((), kind)
        for mask, c in enumerate(self.terms):
            product: Ints = np.asarray(c, kind)
            for k, numbers in zip(others, grid, strict=True):
                product = product * (numbers.astype(kind) if mask >> k & 1 else 1)
            if mask >> longest & 1:
                slope = slope + product
            else:
                constant = constant + product
        return self.words * times * int(_above(constant, slope, self.trips[longest], capacity))


def _above(constant: Ints, slope: Ints, trips: int, capacity: int) -> int:
    """For how many t from 0 up to `trips` constant + slope·t > capacity, summed over arrays."""
    constant, slope = np.broadcast_arrays(constant, slope)
    over = constant - capacity
    rise = np.where(slope == 0, 1, slope)
    # The first t that is beyond where it rises; how many are where it falls.
    up = trips - np.clip(-over // rise + 1, 0, trips)
    down = np.clip(-(-over // -rise), 0, trips)
    found = np.where(slope > 0, up, np.where(slope < 0, down, np.where(over > 0, trips, 0)))
    return int(found.sum())


def _classes(loop: Steps) -> list[Range]:
    """Numbers of iterations among which distances are affine."""
    trips, last = loop.trips, 1 if loop.even else 2
    if trips < 3 + last:
        return [(k, k + 1) for k in range(trips)]
    return [(0, 1), (1, trips - last), *((k, k + 1) for k in range(trips - last, trips))]


def _rules(nests: Nests, place: Place) -> Iterator[Reuse]:
    for box in itertools.product(*(_classes(x) for x in place.loops)):
        first = tuple(low for low, _ in box)
        wide = [k for k, (low, high) in enumerate(box) if high - low > 1]
        trips = tuple(box[k][1] - box[k][0] for k in wide)
        pass_words = place.size(tuple((x, x + 1) for x in first))
        below = 0
        for piece in nests.sizes[place.name] if place.local else [pass_words]:
            if piece > pass_words:
                break
            corners = [
                nests.distance(
                    place,
                    tuple(
                        high - 1 if k in wide and mask >> wide.index(k) & 1 else low
                        for k, (low, high) in enumerate(box)
                    ),
                    piece,
                )
                for mask in range(1 << len(wide))
            ]
            _holds(all(corners) or not any(corners), place)
            terms = _terms(corners, trips)
            _holds(
                all(
                    _value(terms, [(n - 1) * (mask >> k & 1) for k, n in enumerate(trips)]) == x
                    for mask, x in enumerate(corners)
                ),
                place,
            )
            for inside in ([1] * len(wide), [n // 2 for n in trips]) if wide else ():
                at = list(first)
                for k, t in zip(wide, inside, strict=True):
                    at[k] += t
                _holds(nests.distance(place, tuple(at), piece) == _value(terms, inside), place)
            yield Reuse(place.write, piece - below, trips, terms)
            below = piece


def _terms(corners: list[int], trips: tuple[int, ...]) -> tuple[int, ...]:
    """The coefficients of a function that is affine in each number, from its values at corners."""
    if not any(corners):
        return ()
    terms = list(corners)
    for k, n in enumerate(trips):
        for mask in range(len(terms)):
            if mask >> k & 1:
                terms[mask] = (terms[mask] - terms[mask ^ (1 << k)]) // (n - 1)
    return tuple(terms)


def _holds(so: bool, place: Place) -> None:
    """That distances are affine is argued above; a wrong argument is an error, and no number.

    Raises ClosedFormError.
    """
    if not so:
        raise ClosedFormError(
            f"distances in {place.name} follow no rule that the closed form knows, which is a bug "
            "of iosim: please report the command, and replay the stream"
        )


def _value(terms: tuple[int, ...], at: Sequence[int]) -> int:
    """The function at some numbers; 0 for no terms."""
    return sum(
        c * math.prod(t for k, t in enumerate(at) if mask >> k & 1) for mask, c in enumerate(terms)
    )


def reuse(instance: Instance) -> tuple[Reuse, ...]:
    """The stack distances of all accesses of an instance, by rule, in time independent of sizes.

    Raises InputError for an instance of which that can't be said, with what prevents it, and
    ClosedFormError where distances that are computed as a check are not the rule's.

    >>> import iosim
    >>> instance = iosim.bind(iosim.algorithm("copy").program, {"n": 10**6}, {"B": 64})
    >>> sum(rule.accesses for rule in reuse(instance))
    2000000
    """
    nests = Nests(instance)
    words: dict[Reuse, int] = {}
    for rule in (rule for place in nests.places for rule in _rules(nests, place)):
        alike = replace(rule, words=0)
        words[alike] = words.get(alike, 0) + rule.words
    return tuple(replace(alike, words=many) for alike, many in words.items())


def misses(rules: Sequence[Reuse], capacity: int) -> int:
    """Accesses that miss in an LRU cache of this many words, with lines of one word."""
    capacity = check_size("capacity", capacity)
    return sum(rule.beyond(capacity) for rule in rules)


def loads(rules: Sequence[Reuse], capacity: int) -> int:
    """Words that such a cache loads: reads that miss.

    >>> import iosim
    >>> sizes, tiles = {"N": 10**6, "d": 64, "heads": 1}, {"B_r": 128, "B_c": 64}
    >>> rules = reuse(iosim.bind(iosim.algorithm("flash2").program, sizes, tiles))
    >>> loads(rules, 2**14), loads(rules, 2**16)
    (4031314995840, 1000128000000)
    """
    capacity = check_size("capacity", capacity)
    return sum(rule.beyond(capacity) for rule in rules if not rule.write)
