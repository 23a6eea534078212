"""Numbers that people give: whole ones, within limits; one line for whatever is none.

Changing this file: `LARGEST_SIZE` is not free.  `iosim.core.counting.columns` is exact in 64 bits
only up to it, and messages, `iosim.models` and ``iosim/lab/front/src/engine/bind.ts`` have 2**40 in
their own text.  Tests of most wings match the messages, not only ``tests/base``.
"""

from __future__ import annotations

import numpy as np

from iosim.base.errors import InputError

# A count of 2**62 words would overflow the vectorized engine; no memory comes near it.
LARGEST_SIZE = 2**40


def whole_number(value: object) -> int | None:
    """An integer, NumPy's too, as a Python int, which never overflows; None for all else.

    >>> whole_number(np.int32(7)), whole_number(7.0), whole_number(True)
    (7, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return None
    return int(value)


def check_range(name: str, value: object, least: int, most: int) -> int:
    """Return `value` as an int, or raise InputError unless it is an integer in [least, most].

    >>> check_range("seed", 7, 0, 9)
    7
    >>> check_range("seed", 10, 0, 9)
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: seed = 10 is out of range: give 0 to 9
    """
    number = whole_number(value)
    if number is None:
        raise InputError(f"{name} must be a whole number, got {value!r}: give an integer")
    if not least <= number <= most:
        raise InputError(f"{name} = {value} is out of range: give {least} to {most}")
    return number


def check_size(name: str, value: object, least: int = 1) -> int:
    """Return `value` as an int, or raise InputError unless it is an integer in [least, 2**40].

    >>> check_size("N", 1024)
    1024
    >>> check_size("N", -1)
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: N = -1 is outside 1..1099511627776 (2**40): choose a size inside
    """
    number = whole_number(value)
    if number is None:
        raise InputError(f"{name} must be a whole number, got {value!r}: give an integer")
    if not least <= number <= LARGEST_SIZE:
        shown = value if abs(number) < 10**100 else "a number of over 100 digits"
        raise InputError(
            f"{name} = {shown} is outside {least}..{LARGEST_SIZE} (2**40): choose a size inside"
        )
    return number
