"""Words that may pass 64 bits, in 64 bits: what they are modulo 2**64, and about how many.

Sums and products of whole numbers are exact modulo 2**64, however large what they are made of is.
So where float64 shows that the result fits, its 64 bits are all of it; elsewhere float64 says what
it is at least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.arrays import Ints
from iosim.core.counting.below import floor_to_integers
from iosim.core.counting.ramps import ROUNDING, real

# Below this a result is exact in 64 bits.
EXACT = 7 * 2**60
# Whatever may not be below EXACT is at least this, for sizes of at most 2**90.
NEVER_LESS = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Wide:
    """Whole numbers in arrays, built by sums and products from ones of at most 2**61.

    Attributes:
        bits: modulo 2**64, int64; None where a factor was no whole number.
        about: in float64.
        added: float64, what `about` would be if nothing had been subtracted; None where it is
            |about|, as in a product.

    A sum of a few dozen products of a few factors is rounded a few hundred times at most, each by
    2**-53 of something that is at most `size`: so the number is within ROUNDING·size of `about`.

    >>> number = Wide.of(np.array([3, 2**60]))
    >>> (number * number * 8 + number).exact().tolist() == [75, EXACT]
    True
    """

    bits: Any
    about: Any
    added: Any = None
    __array_ufunc__ = None  # arrays leave sums and products to it

    @property
    def ndim(self) -> int:
        """0 for what all points share."""
        return np.ndim(self.about)

    @classmethod
    def of(cls, values: Any) -> Wide:
        """Integers of at most 2**61 in magnitude, or float64."""
        array = np.asarray(values)
        return cls(None if array.dtype == np.float64 else array, array.astype(np.float64))

    def __getitem__(self, rows: Any) -> Wide:
        bits = None if self.bits is None else self.bits[rows]
        added = None if self.added is None else self.added[rows]
        return Wide(bits, self.about[rows], added)

    def __add__(self, other: Any) -> Wide:
        return self._with(other, np.add)

    def __mul__(self, other: Any) -> Wide:
        return self._with(other, np.multiply)

    __radd__, __rmul__ = __add__, __mul__

    def _with(self, other: Any, join: np.ufunc) -> Wide:
        other = other if isinstance(other, Wide) else Wide.of(other)
        bits = added = None
        if self.bits is not None and other.bits is not None:
            bits = join(self.bits, other.bits)
        if join is np.add or self.added is not None or other.added is not None:
            added = join(self.size, other.size)
        return Wide(bits, join(self.about, other.about), added)

    @property
    def size(self) -> Any:
        """What `about` would be if nothing had been subtracted."""
        return np.abs(self.about) if self.added is None else self.added

    def below(self) -> Any:
        """What they are at least, in float64."""
        return self.about - ROUNDING * self.size

    def least(self) -> Any:
        """What they are, or 0, at least: exact below EXACT, or in float64 without bits."""
        if self.bits is None:
            return self.below()
        least = floor_to_integers(np.maximum(self.below(), 0), np.int64)
        return np.where(self._fit, self.bits, least)

    def exact(self) -> Ints:
        """What they are, which is nothing below 0, or EXACT where they may be as many."""
        return np.where(self._fit, self.bits, EXACT)

    @property
    def _fit(self) -> Any:
        return np.abs(self.about) + ROUNDING * self.size < EXACT


def at_least(words: Any) -> Any:
    """Words at least: as they are, or those of a `Wide`."""
    return words.least() if isinstance(words, Wide) else words


def real_below(words: Any) -> Any:
    """Words at least, in float64."""
    return words.below() if isinstance(words, Wide) else real(words)
