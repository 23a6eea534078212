"""Subsets of many sets at once: which values to evict, and which of them to store."""

from __future__ import annotations

from math import comb

import numpy as np

from iosim.base.arrays import Ints
from iosim.pebbling.bits import WIDTH, ZERO, Words, lowest, popcount

CHOOSE = np.array([[float(comb(n, k)) for k in range(WIDTH + 1)] for n in range(WIDTH + 1)])


class TooMany(Exception):
    """More successors than fit in memory at once."""


def count_subsets(cand: Words, size: Ints) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How many subsets of `size` members each set has; 1 for sizes of 0 or less."""
    return CHOOSE[popcount(cand), np.maximum(size, 0)]


def subsets(cand: Words, size: Ints) -> tuple[Ints, Words]:
    """Every subset of `size` members of each set: the places of the sets, and the subsets.

    Sizes of 0 or less give the empty set.
    """
    rows_out = [np.nonzero(size <= 0)[0]]
    sets_out = [np.zeros(len(rows_out[0]), np.uint64)]
    rows = np.nonzero(size > 0)[0]
    rest, chosen, left = cand[rows], np.zeros(len(rows), np.uint64), size[rows]
    while len(rows):
        parts = []
        while len(rows):
            # The lowest candidate is taken, or left out if enough are left without it.
            low = lowest(rest)
            rest = rest ^ low
            parts.append((rows, rest, chosen | low, left - 1))
            more = popcount(rest) >= left
            rows, rest, chosen, left = rows[more], rest[more], chosen[more], left[more]
        rows, rest, chosen, left = (np.concatenate(p) for p in zip(*parts, strict=True))
        done = left == 0
        rows_out.append(rows[done])
        sets_out.append(chosen[done])
        more = ~done
        rows, rest, chosen, left = rows[more], rest[more], chosen[more], left[more]
    return np.concatenate(rows_out), np.concatenate(sets_out)


def subsets_up_to(sets: Words, limit: Ints) -> tuple[Ints, Words]:
    """Every subset of each set with no more members than its limit: the places and the subsets."""
    at = np.nonzero(limit >= 0)[0]
    chosen, rest = np.zeros(len(at), np.uint64), sets[at]
    while rest.any():
        low = lowest(rest)
        some = (low != ZERO) & (popcount(chosen) < limit[at])
        at = np.concatenate((at, at[some]))
        chosen = np.concatenate((chosen, (chosen | low)[some]))
        rest = rest ^ low
        rest = np.concatenate((rest, rest[some]))
    return at, chosen
