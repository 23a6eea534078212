"""Sets as the bits of 64-bit words, many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Ints

Words = NDArray[np.uint64]

WIDTH = 64
ONE = np.uint64(1)
ZERO = np.uint64(0)

_BYTE = np.array([bin(i).count("1") for i in range(1 << 16)], np.uint8)


def mask(bits: Iterable[int]) -> int:
    """The set with these bits."""
    out = 0
    for bit in bits:
        out |= 1 << bit
    return out


def members(word: int) -> Iterator[int]:
    """The bits of a set, ascending."""
    while word:
        low = word & -word
        yield low.bit_length() - 1
        word ^= low


def words(values: Sequence[int]) -> Words:
    """An array of sets."""
    return np.array(values, np.uint64)


def popcount(x: Words) -> Ints:
    """The size of each set."""
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(x), np.int64)
    halves = np.ascontiguousarray(x).view(np.uint16).reshape(len(x), 4)
    return np.asarray(_BYTE[halves].sum(axis=1, dtype=np.int64))


def lowest(x: Words) -> Words:
    """The lowest member of each set, as a set; empty for the empty set."""
    return x & (~x + ONE)


def mix(columns: Sequence[Words]) -> Words:
    """A 64-bit hash of rows of words."""
    out = np.zeros(len(columns[0]), np.uint64)
    for k, column in enumerate(columns):
        out ^= column + np.uint64(0x9E3779B97F4A7C15 * (k + 1) % 2**64)
        out ^= out >> np.uint64(30)
        out *= np.uint64(0xBF58476D1CE4E5B9)
        out ^= out >> np.uint64(27)
        out *= np.uint64(0x94D049BB133111EB)
        out ^= out >> np.uint64(31)
    return out


class Permutation:
    """A permutation of bits, applied to whole arrays through one table per byte."""

    def __init__(self, image: Sequence[int]):
        self.image = tuple(image)
        self.tables = []
        for low in range(0, len(image), 8):
            table = np.zeros(256, np.uint64)
            for bit, to in enumerate(image[low : low + 8]):
                table[(np.arange(256) >> bit) & 1 == 1] |= np.uint64(1 << to)
            self.tables.append(table)

    def __call__(self, x: Words) -> Words:
        """The image of each set."""
        out: Words = self.tables[0][x & np.uint64(255)]
        for k, table in enumerate(self.tables[1:], 1):
            out |= table[(x >> np.uint64(8 * k)) & np.uint64(255)]
        return out

    def of(self, word: int) -> int:
        """The image of one set."""
        return mask(self.image[bit] for bit in members(word))
