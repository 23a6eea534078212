"""A lower bound for M just below A·R/n, a few words too small for n sweeps over K and V.

It evaluates Theorem 6 of `proofs/towards_nd.md#theorem-6`, for dense attention in the classes
`once` and `trees`.  A *row* is a row of Q and O, of A words, and there are R; a *column* is a row
of K and V, of G words.  A *sweep* loads K and V once.  `iosim.bounds.stays` calls `left_over`, and
returns the larger of this bound and Theorem 5's; it is no entry of `iosim.bounds.BOUNDS` itself.

Why it holds: let n = ⌊A·R/M⌋.  By Lemma 4 there each column pays the least of (n + 1)·G,
n·G + 2√(A·R − n·M) and 2√(A·R) words, and the X words of rows that are in fast memory at one moment
are added to that.  If X is small, rows never fill fast memory, and either columns are loaded more
often or entries of O are stored twice.

Changing this file: the words must never exceed Theorem 6's, or the lower bound is false.  Values
may be added to `_BUSY`: any B gives a valid bound.  Another formula needs another theorem.  Use
only functions of NumPy that ``iosim/lab/data/traced.py`` lists: the lab runs this code on symbols.
``tests/bounds/test_towards_nd.py`` replaces pieces of this text by wrong ones, so lines that are
rewritten must be rewritten there.  If a bound changes, raise `iosim.base.revision.REVISION`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Values of B that are tried, in units of A.
_BUSY = (8, 16, 32, 64, 256, 1024)


def at_a_moment(M: Any, A: Any, G: Any, O: Any, rows: Any, columns: Any, swept: Any, B: Any) -> Any:
    """The largest X that Theorem 6's three conditions allow, for one B; 0 if none is allowed.

    Args:
        M: words of fast memory.
        A, G: words of a row and of a column.
        O: words of a row that are entries of the output: d_v.
        rows, columns: how many there are.
        swept: words that all columns pay, as `left_over` computes them.
        B: with this many of its pairs in fast memory, a row counts as wholly in fast memory.

    Returns:
        Words that may be added to `swept`.

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
    """Words that must be moved for one rectangle of pairs: Theorem 6 with the best B of `_BUSY`.

    Args:
        M, A, G, O, rows, columns: as for `at_a_moment`.  A is G, or G + 1 where the sum of each
            row takes a word.

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
