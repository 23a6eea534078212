"""Tables of states: frozen columns of 64-bit words, and the set of those expanded so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iosim.base.arrays import Bools, Ints
from iosim.pebbling.bits import Words, mix


@dataclass(frozen=True)
class States:
    """Rows (A, R, D) and, of each, the place of its parent; what A and D mean is the variant's.

    R is the set of red values.  Without recomputation, A is the set of operations done and D that
    of the dirty values, red and not blue.  With recomputation, A is the set of blue values that
    are not inputs, and D is empty.
    """

    A: Words
    R: Words
    D: Words
    parent: Ints

    def __len__(self) -> int:
        return len(self.A)

    def take(self, rows: Ints | Bools | slice) -> States:
        """Some of the rows."""
        return States(self.A[rows], self.R[rows], self.D[rows], self.parent[rows])

    def under(self, numbers: Ints) -> States:
        """The same states; `parent`, the place in a table, becomes that row's number."""
        return States(self.A, self.R, self.D, numbers[self.parent])

    @property
    def hash(self) -> Words:
        """A hash of each row."""
        return mix((self.A, self.R, self.D))

    def find(self, state: tuple[int, int, int]) -> Ints:
        """The places of one state."""
        A, R, D = (np.uint64(x) for x in state)
        return np.nonzero((self.A == A) & (self.R == R) & (self.D == D))[0]

    def row(self, k: int) -> tuple[int, int, int]:
        """One state as three integers."""
        return int(self.A[k]), int(self.R[k]), int(self.D[k])


def one(A: int, R: int, D: int, parent: int = -1) -> States:
    """A table of one row."""
    a, r, d = (np.array([x], np.uint64) for x in (A, R, D))
    return States(a, r, d, np.array([parent], np.int64))


def concat(parts: list[States]) -> States:
    """All rows of one or more tables."""
    if len(parts) == 1:
        return parts[0]
    columns = ((p.A, p.R, p.D, p.parent) for p in parts)
    return States(*map(np.concatenate, zip(*columns, strict=True)))


def distinct(states: States) -> tuple[Ints, Words]:
    """The places of the distinct rows, sorted by hash, and their hashes; of equals, the first.

    Between two equal rows, a different one with their hash may keep both of them in: that costs
    time and is never wrong.
    """
    hashes = states.hash
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    A, R, D = states.A[order], states.R[order], states.D[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (
        (hashes[1:] != hashes[:-1]) | (A[1:] != A[:-1]) | (R[1:] != R[:-1]) | (D[1:] != D[:-1])
    )
    return order[fresh], hashes[fresh]


class Seen:
    """Every state expanded so far, by number: columns that grow, and an index sorted by hash.

    The index is a few sorted runs; a new one is merged into older ones that are not much longer.
    """

    MERGING = 40  # bytes per state that are taken while runs are merged

    def __init__(self) -> None:
        self.size = 0
        self.columns = [np.zeros(1024, np.uint64) for _ in range(3)]
        self.parent = np.zeros(1024, np.int64)
        self.runs: list[tuple[Words, Ints]] = []

    def new(self, states: States, hashes: Words) -> Bools:
        """Which rows have not been seen."""
        fresh = np.ones(len(states), bool)
        A, R, D = self.columns
        for known, number in self.runs:
            at = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            maybe = np.nonzero(known[at] == hashes)[0]
            n = number[at[maybe]]
            same = (A[n] == states.A[maybe]) & (R[n] == states.R[maybe]) & (D[n] == states.D[maybe])
            fresh[maybe[same]] = False
        return fresh

    def add(self, states: States, hashes: Words) -> Ints:
        """Remember rows that are sorted by hash; returns their numbers."""
        numbers = self.append(states)
        if not len(numbers):
            return numbers
        run = (hashes, numbers)
        while self.runs and len(self.runs[-1][0]) <= 2 * len(run[0]):
            older = self.runs.pop()
            merged = np.concatenate((older[0], run[0]))
            order = np.argsort(merged, kind="stable")
            run = (merged[order], np.concatenate((older[1], run[1]))[order])
        self.runs.append(run)
        return numbers

    def append(self, states: States) -> Ints:
        """Remember rows for `path` only; returns their numbers."""
        start, stop = self.size, self.size + len(states)
        if stop > len(self.parent):
            room = max(stop, 2 * len(self.parent))
            self.columns = [
                np.concatenate((c[:start], np.zeros(room - start, np.uint64))) for c in self.columns
            ]
            self.parent = np.concatenate((self.parent[:start], np.zeros(room - start, np.int64)))
        for column, values in zip(self.columns, (states.A, states.R, states.D), strict=True):
            column[start:stop] = values
        self.parent[start:stop] = states.parent
        self.size = stop
        return np.arange(start, stop)

    def path(self, number: int) -> list[tuple[int, int, int]]:
        """The states from the start to one of them."""
        out = []
        while number >= 0:
            A, R, D = (int(column[number]) for column in self.columns)
            out.append((A, R, D))
            number = int(self.parent[number])
        return out[::-1]
