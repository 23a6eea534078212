"""Parts of an execution: the words of Q and O come on top of K and V, streamed whole times.

4N²d²/M sees neither.  Cut an execution each time that K rows of Q have had whole pairs.  A column
that meets n rows is then in n/K parts at least, rounded up; each part touches its rows and columns
whole; and only the M words that are in fast memory at a cut serve two parts.

A row has D = d + d_v words, as a column has; in `parts-sums` it has one more, its row sum, which
starts for nothing and is never stored.  So rows fill the fast memory sooner.

The words are the largest that the theorems give with rows cut, and with columns cut; 0 where
they say nothing: for M so large that one part holds all rows, or, without row sums, so small that
what they leave out, (d + d_v)²·N/M rows or so, is more than what they add.  Heads with K and V of
their own share no words, so each needs the words of a head that has all of M, and these add up.

Proved in `proofs/towards_nd.md#theorem-1`, `proofs/towards_nd.md#theorem-2` and
`proofs/towards_nd.md#theorem-3`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.base.arrays import Floats
from iosim.bounds.shapes import of_shapes
from iosim.bounds.sums import with_sums


def any_pairs(D: Any, M: Any, K: Any, A: Any, G: Any, columns: Any, rows: Any) -> Any:
    """Theorem 1: `columns` is what its columns cost, `rows` the number of rows with 2D pairs.

    Args:
        D: words of a row of Q and O, and of a row of K and V.
        M: words of fast memory.
        K: rows of a part.
        A: words of a row, D or D + 1; where columns are cut, of a column.
        G: words of a column; where columns are cut, of a row.
        columns: Σ h(n) over all columns, n the pairs of one, less what starts for nothing.
        rows: how many rows have 2D pairs or more.

    Returns the words, 0 where K does not fulfil the theorem's conditions.

    >>> float(any_pairs(2, 100, 50, 2, 2, 1000, 30)), float(any_pairs(2, 100, 49, 2, 2, 1000, 30))
    (1000.0, 0.0)
    >>> float(any_pairs(2, 100, 49, 3, 2, 1000, 49))
    998.0
    """
    fits = (K >= 2 * G) & (K * A >= M)
    return np.where(fits, columns + rows * (D - M / np.maximum(K, 1)), 0.0)


def one_rectangle(
    M: Any, j: Any, K: Any, A: Any, G: Any, rows: Any, columns: Any, lost: Any = 0
) -> Any:
    """Theorem 3, with parts of K rows, of which j leave 3G rows or more.

    Args:
        M: words of fast memory.
        j, K: parts, and rows of a part.
        A, G: words of a row and of a column.
        rows, columns: how many there are; where columns are cut, they change places.
        lost: words that start for nothing: the row sums.

    Returns the words, 0 where j and K do not fulfil the theorem's conditions.

    >>> float(one_rectangle(1000, 1, 900, 2, 2, 1000, 1000))
    5600.0
    """
    left = rows - j * K
    fits = (j >= 1) & (K >= 2 * G) & (K * A >= M) & (columns * G >= K * A) & (left >= 3 * G)
    more, fewer = left - G, (j + 1) * G
    few = (j + 1) * columns * G + j * (K * A - M)
    other = 2 * rows * A + (j + 1) * ((columns - A) * G - M)
    both = (fewer * few + more * other) / np.where(fits, more + fewer, 1.0)
    most = (j + 1) * (columns * G + K * A - M)
    words = np.minimum(np.minimum(most, both), few + more * (columns - A - M / G)) - lost
    return np.where(fits, np.maximum(words, 0.0), 0.0)


def each_column(n: Any, K: Any, G: Any) -> Any:
    """What a column of n pairs pays in Theorem 2, in parts of K ≥ G rows; G are its words.

    >>> [float(each_column(n, 10, 4)) for n in (3, 10, 12, 15, 20)]
    [3.0, 4.0, 6.0, 8.0, 8.0]
    """
    parts = np.floor(n / K)
    return G * parts + np.minimum(n - parts * K, G)


# Numbers j of parts that are tried: for M from Nd/16 on all that can be best.  They and their K do
# not depend on M, so that the words don't grow with M.
_MOST = 33


def rectangle(D: Any, M: Any, A: Any, G: Any, rows: Any, columns: Any, lost: Any = 0) -> Any:
    """The best that Theorems 1 and 3 say of one rectangle for some j and K; rows are cut.

    >>> float(rectangle(2.0, 1000.0, 2.0, 2.0, 1000.0, 1000.0)) > 4000
    True
    """
    met = np.where(columns >= 2 * D, rows, 0)
    K = np.floor(rows - 3 * G - np.floor(np.sqrt(rows * G) / 2))
    best = one_rectangle(M, 1, K, A, G, rows, columns, lost)
    for j in range(1, _MOST + 1):
        K = np.floor((rows - 3 * G) / j)
        best = np.maximum(best, one_rectangle(M, j, K, A, G, rows, columns, lost))
        K = np.floor((rows - 2 * G) / j)
        best = np.maximum(best, any_pairs(D, M, K, A, G, (j + 1) * columns * G - lost, met))
    return best


def streamed(M: Any, A: Any, G: Any, rows: Any, columns: Any, lost: Any) -> Any:
    """Theorem 2 for one rectangle, with parts of M/A rows, which fill the fast memory.

    >>> float(streamed(999.0, 3.0, 2.0, 1000.0, 1000.0, 1000.0))
    6000.0
    """
    K = np.maximum(np.ceil(M / A), G)
    return columns * each_column(rows, K, G) - lost


def _triangle_columns(n: Any, K: Any, D: Any, share: Any = 0.5) -> Any:
    """Σ h over columns of 1 … n pairs, in parts of K ≥ D/share rows; see Theorems 1 and 2."""
    q = np.floor(n / K)
    left, full = n - q * K, D / share
    parts = K * q * (q - 1) / 2 + q * (left + 1)
    last = np.where(left < full, share * left * (left + 1) / 2, D * (left + 0.5 - full / 2))
    return D * (parts + q * (K - full / 2 - 0.5)) + last


def triangles(count: Any, share: Any, D: Any, M: Any, N: Any) -> Any:
    """Theorem 1 under a causal mask, K ≈ M/D: `count` heads of K, each for `share` heads of Q.

    >>> float(triangles(1.0, 1.0, 2.0, 1000.0, 4000.0))
    35976.0
    """
    K = np.maximum(np.ceil(M / (share * D)), np.ceil(2 * D))
    return any_pairs(D, M, share * K, D, D, count * _triangle_columns(N, K, D), 0.0)


def streamed_triangles(count: Any, share: Any, D: Any, M: Any, N: Any) -> Any:
    """Theorem 2 under a causal mask, with row sums.

    >>> float(streamed_triangles(1.0, 1.0, 2.0, 999.0, 3996.0))
    47940.0
    """
    K = np.maximum(np.ceil(M / (share * (D + 1))), D)
    return count * (_triangle_columns(N, K, D, 1.0) - share * N)


def _dense(D: Any, M: Any, rows: Any, columns: Any, sums: int) -> Any:
    """The best for one rectangle, with rows cut and with columns cut."""
    lost = sums * rows
    best = rectangle(D, M, D + sums, D, rows, columns, lost)
    if sums or not np.array_equal(rows, columns):
        best = np.maximum(best, rectangle(D, M, D, D + sums, columns, rows, lost))
    if sums:
        best = np.maximum(best, streamed(M, D + 1, D, rows, columns, lost))
        best = np.maximum(best, streamed(M, D, D + 1, columns, rows, lost))
    return best


def _numeric(t: Any, sums: int) -> Floats:
    def dense(count: Any, rows: Any, columns: Any, d: Any, d_v: Any, M: Any) -> Any:
        return count * _dense(d + d_v, M, rows, columns, sums)

    def below(count: Any, share: Any, N: Any, d: Any, d_v: Any, M: Any) -> Any:
        words = triangles(count, share, d + d_v, M, N)
        return np.maximum(words, streamed_triangles(count, share, d + d_v, M, N)) if sums else words

    return of_shapes(t, dense, below)


def _leading(t: Any, sums: int) -> Any:
    """Theorem 3 for one head, without what is left out."""
    rows, D = t.heads * t.N, t.d + t.d_v
    j = t.max(t.ceil(rows * (D + sums) / t.M) - 1, 1)
    return (j + 1) * (t.N_k * D + rows / j * (D + sums) - t.M) - sums * rows


PARTS, SUMS = with_sums(
    "parts",
    classes=("once", "trees"),
    formula=_leading,
    numeric=_numeric,
    validity="dense, or causal with N_k = N: else 0",
    # With M/(D + 1) rows in a part Theorem 2 says something at every M.
    without=", and 0 where one part could hold all rows",
    theorem=3,
    options_theorem=1,
)
