"""Rows that n sweeps leave over: every column is loaded once more, or rows leave it room.

Cut in parts of M row words, a column that meets all rows is in n + 1 parts, or costs as much.
What rows have in fast memory at one moment comes on top of that.  Where that is little, rows
never fill the fast memory, and either columns are loaded more often or entries of O stored twice.

It says more than `parts` and `stays` where M is just below A·R/n, the words with which n sweeps do
without any more loads.

Proved in `proofs/towards_nd.md#theorem-6`; `iosim.bounds.stays` takes the larger of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Pairs of a row that keep its words in fast memory, by the count, in units of A.
_BUSY = (8, 16, 32, 64, 256, 1024)


def at_a_moment(M: Any, A: Any, G: Any, O: Any, rows: Any, columns: Any, swept: Any, B: Any) -> Any:
    """Theorem 6's X with one B: the most words that rows at one moment add, 0 where there are none.

    Args:
        M: words of fast memory.
        A, G: words of a row and of a column.
        O: words of a row that are entries of its output.
        rows, columns: how many there are.
        swept: what columns pay, the words without X.
        B: pairs of a row in fast memory for which all its words count as there.

    >>> M, d = 2**24, 64
    >>> swept = 3 * 2 * d * 2**18
    >>> X = at_a_moment(M, 2 * d + 1, 2 * d, d, 2**18, 2**18, swept, 32 * (2 * d + 1))
    >>> round(float(X) / M, 3)
    0.458
    """
    held = M + 1
    more = 1 + A * held / B
    free = G * (columns - 2 * B - A) - held
    allowed = (B >= A) & (2 * held >= B * G) & (free > 0)
    free = np.where(allowed, free, 1.0)
    short = swept + more - 2 * A * rows - held
    # (X + more)·(2X + short) ≤ O·R·free
    half, rest = more + short / 2, more * short - O * rows * free
    root = (np.sqrt(np.maximum(half * half - 2 * rest, 0.0)) - half) / 2
    first = O * rows - more * np.maximum(short / free, 1.0)
    X = np.minimum(np.minimum(root, first), free - more)
    return np.where(allowed & (rest <= 0), np.maximum(X, 0.0), 0.0)


def left_over(M: Any, A: Any, G: Any, O: Any, rows: Any, columns: Any) -> Any:
    """Theorem 6 with the best of a few B: words, with row sums where A is G + 1.

    Args:
        M, A, G, O, rows, columns: as `at_a_moment` has them.

    >>> round(float(left_over(2**24, 129, 128, 64, 2**18, 2**18)) / 2**25, 3)
    3.221
    """
    n = np.floor(A * rows / M)
    over, sums = np.maximum(A * rows - n * M, 0.0), A - G
    one_more = np.minimum((n + 1) * G, n * G + 2 * np.sqrt(over) - sums)
    swept = np.minimum(one_more, 2 * np.sqrt(A * rows) - sums) * columns
    X: Any = 0.0
    for many in _BUSY:
        X = np.maximum(X, at_a_moment(M, A, G, O, rows, columns, swept, many * A))
    return np.maximum(swept + X - sums * rows, 0.0)
