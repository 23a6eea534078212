"""Lines of a stream: which words share one, and where arrays keep what belongs to a line.

The replays (`belady`, `online`, `leaps`, `partitioned`) call it.
``tests/cache/test_cache_replay.py`` compares with lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from iosim.base.arrays import Ints
from iosim.base.compiled import Backend
from iosim.base.errors import InputError
from iosim.cache.record import Cache
from iosim.cache.stream import Stream

_Number = TypeVar("_Number", int, Ints)


@dataclass(frozen=True)
class Lines:
    """How a cache's lines lie in a stream's address space.

    Attributes:
        count: lines in the address space.
        units: addresses in a line.
        covers: whether a write fills its whole line, which then is not read before.
    """

    count: int
    units: int
    covers: bool

    @property
    def places(self) -> int:
        """Entries of an array in which each line has the one that `spread` says."""
        return spread(self.count)


class Divisor(NamedTuple):
    """What a compiled loop divides by: a power of two shifts and masks instead.

    Attributes:
        by: the number.
        shift: its logarithm to base 2, rounded down.
        mask: the number − 1.
        binary: whether it is a power of two.

    >>> from iosim.base.compiled import PLAIN
    >>> Divisor.of(8, PLAIN)
    Divisor(by=8, shift=3, mask=7, binary=True)
    """

    by: int
    shift: int
    mask: int
    binary: bool

    @classmethod
    def of(cls, by: int, backend: Backend) -> Divisor:
        """A number, of the backend's type."""
        number, shift, mask = backend.numbers(by, by.bit_length() - 1, by - 1)
        return cls(number, shift, mask, by & (by - 1) == 0)


class WriteRules(NamedTuple):
    """What a cache does with writes and misses, as a loop asks it.

    Attributes:
        covers: whether a write fills its whole line, which then is not read before.
        through: whether writes go to slow memory at once, and misses around the cache.
        bypass: whether a line may go by that is worth less than all that are resident.
    """

    covers: bool
    through: bool
    bypass: bool

    @classmethod
    def of(cls, cache: Cache, lines: Lines) -> WriteRules:
        """Those of a cache with such lines."""
        return cls(lines.covers, cache.write == "through", cache.bypass)


def of(stream: Stream, cache: Cache) -> Lines:
    """The lines of a cache over a stream; InputError where the stream's unit doesn't fit."""
    word = _unit_words(stream)
    if cache.line_words % word:
        raise InputError(
            f"the stream's {stream.unit} are of {word} words, the cache's lines of "
            f"{cache.line_words}: give lines of a multiple, or a stream of words"
        )
    units = cache.line_words // word
    return Lines(-(-stream.addresses // units), units, units == 1 and stream.unit != "lines")


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


def line_of(address: int, units: int, shift: int, binary: bool) -> int:
    """The line of an address, of the fields of a `Divisor`; compiled with what calls it."""
    return address >> shift if binary else address // units


def spread(line: _Number) -> _Number:
    """Where arrays keep a line: 4 entries are left out after 64.

    Lines at a distance of a power of two, as the rows of a matrix are, would otherwise share few
    sets of the cache of the computer that runs this.
    """
    return line + ((line >> 6) << 2)


def gathered(place: Ints) -> Ints:
    """The lines at some places: `spread` undone.

    >>> import numpy as np
    >>> gathered(np.array([spread(line) for line in (5, 64, 1000)])).tolist()
    [5, 64, 1000]
    """
    return place - (place // 68 << 2)
