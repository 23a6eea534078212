"""Which positions of an axis each of P devices has: a rule, as a value.

Parts differ by at most one position, whatever N and P are; a part may be empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Ints
from iosim.base.errors import InputError, closest


@dataclass(frozen=True)
class Sharding:
    """How rows are sharded to devices.

    Attributes:
        name: the registry's key.
        says: one line.
        runs: N and P → for each part its runs of positions (start, how many, step).

    >>> SHARDINGS["zigzag"].positions(10, 2)
    [array([0, 1, 2, 8, 9]), array([3, 4, 5, 6, 7])]
    """

    name: str
    says: str
    runs: Callable[[int, int], list[list[tuple[int, int, int]]]]

    def positions(self, n: int, P: int) -> list[Ints]:
        """The positions of each part, in order."""
        return [
            np.concatenate([start + step * np.arange(many) for start, many, step in runs])
            for runs in self.runs(n, P)
        ]

    def extents(self, n: int, P: int) -> NDArray[Any]:
        """How many positions each part has: P exact integers."""
        return np.array([sum(many for _, many, _ in runs) for runs in self.runs(n, P)], object)


def chunks(n: int, parts: int) -> list[tuple[int, int, int]]:
    """An axis in `parts` runs, the first n mod parts of them one longer.

    >>> chunks(7, 3)
    [(0, 3, 1), (3, 2, 1), (5, 2, 1)]
    """
    size, more = divmod(n, parts)
    return [(k * size + min(k, more), size + (k < more), 1) for k in range(parts)]


def _contiguous(n: int, P: int) -> list[list[tuple[int, int, int]]]:
    return [[run] for run in chunks(n, P)]


def _zigzag(n: int, P: int) -> list[list[tuple[int, int, int]]]:
    every = chunks(n, 2 * P)
    return [[every[k], every[2 * P - 1 - k]] for k in range(P)]


def _striped(n: int, P: int) -> list[list[tuple[int, int, int]]]:
    return [[(k, len(range(k, n, P)), P)] for k in range(P)]


SHARDINGS: dict[str, Sharding] = {
    sharding.name: sharding
    for sharding in (
        Sharding("contiguous", "part p is the p-th run of rows", _contiguous),
        Sharding("zigzag", "of 2P runs part p is the p-th from either end", _zigzag),
        Sharding("striped", "part p is every P-th row, from row p on", _striped),
    )
}


def find_sharding(name: str) -> Sharding:
    """A registered rule, or InputError with the closest name.

    >>> find_sharding("stripes")
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: unknown sharding 'stripes': did you mean 'striped'?
    """
    if name not in SHARDINGS:
        raise InputError(f"unknown sharding {name!r}: {closest(name, SHARDINGS)}")
    return SHARDINGS[name]


def pairs_seen(
    rows: list[tuple[int, int, int]], keys: list[tuple[int, int, int]], causal: bool
) -> int:
    """Pairs of a row and a key of which the row sees the key: all, or those not after the row.

    Runs of one step only, or of step 1.

    >>> pairs_seen([(2, 2, 1)], [(0, 3, 1)], causal=True)
    6
    """
    if not causal:
        return sum(m for _, m, _ in rows) * sum(n for _, n, _ in keys)
    return sum(_below(a, m, c, n, step) for a, m, step in rows for c, n, _ in keys)


def _below(a: int, m: int, c: int, n: int, step: int) -> int:
    """Σ over i < m of the number of j < n with c + j·step ≤ a + i·step."""
    first = (a - c) // step + 1  # of row 0; each later row sees one more, between 0 and n
    start = min(max(0, 1 - first), m)  # the first row that sees one
    full = min(max(n - first, start), m)  # the first row that sees all n
    return (full - start) * (2 * first + start + full - 1) // 2 + (m - full) * n
