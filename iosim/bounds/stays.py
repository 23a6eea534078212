"""Stays of words in fast memory: a word that is loaded seldom outlasts words of the other side.

A word of K or V that meets all rows in q stays or fewer has a stay in which it meets more rows than
fit, so that row words leave meanwhile.  Each such stay can be given leavings of its own: what K
and V save in loads, rows have in stays.  The same holds with rows and columns exchanged, and what
is in fast memory at one moment serves one of the two only.

From about Nd/6 to Nd and from 4Nd/3 to 2Nd it says more than `parts`, except for a share of about
9nd/N below M = 2Nd/n, where `iosim.bounds.left_over` does.
For heads without a mask, each of which moves as many words as if it were alone; else 0.

Proved in `proofs/towards_nd.md#theorem-5`, and what is left over in `#theorem-6` there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.base.arrays import Floats
from iosim.bounds.left_over import left_over
from iosim.bounds.shapes import of_rectangles
from iosim.bounds.sums import with_sums

# The largest t: what leaves no fewer rows and columns than the theorem asks for.
_SHARE = 0.6
# Stays of a column word, and of a row word, that are tried.  They do not depend on M, so that
# Theorem 5's words don't grow with M.
_MOST = 12


def either_side(
    M: Any, q: Any, p: Any, A: Any, G: Any, rows: Any, columns: Any, lost: Any = 0
) -> Any:
    """Theorem 5, with t as large as it allows up to 3/5.

    Args:
        M: words of fast memory.
        q, p: stays in which a column word, and a row word, meets all with none to spare.
        A, G: words of a row and of a column.
        rows, columns: how many there are.
        lost: words that start for nothing: the row sums.

    Returns the words, 0 where q and p do not fulfil the theorem's conditions.

    >>> round(float(either_side(65000, 2, 2, 2, 2, 2**16, 2**16)) / 2**17, 3)
    3.259
    >>> float(either_side(65600, 2, 2, 2, 2, 2**16, 2**16))
    0.0
    """
    held = M + 1
    met_rows, met_columns = rows - (4 + _SHARE) * q * G, columns - (4 + _SHARE) * p * A
    some = (met_rows >= 1) & (met_columns >= 1)
    met_rows, met_columns = np.where(some, met_rows, 1.0), np.where(some, met_columns, 1.0)
    of_rows, of_columns = q * held / (A * met_rows), p * held / (G * met_columns)
    wide = np.maximum(of_rows, of_columns)
    t = np.minimum(_SHARE, 1 / (1 + wide))
    of_K = q * (G * columns - held * rows / met_rows)
    of_Q = p * (A * rows - held * columns / met_columns)
    once = np.minimum(of_rows, of_columns) * held
    words = A * rows + G * columns + t * (of_K + of_Q + once)
    return np.where(some & (wide <= 1), np.maximum(words - lost, 0.0), 0.0)


def stays(M: Any, A: Any, G: Any, rows: Any, columns: Any, lost: Any = 0) -> Any:
    """The best of Theorem 5 over a few q and p.

    >>> round(float(stays(5e4, 2.0, 2.0, 2.0**16, 2.0**16)) / 2**17, 3)
    3.568
    """
    best: Any = 0.0
    for q in range(1, _MOST + 1):
        p = np.floor(q * G * columns / (A * rows))
        for more in (0, 1):
            some = np.maximum(p + more, 1)
            best = np.maximum(best, either_side(M, q, some, A, G, rows, columns, lost))
    return best


def _numeric(t: Any, sums: int) -> Floats:
    def dense(count: Any, rows: Any, columns: Any, d: Any, d_v: Any, M: Any) -> Any:
        D = d + d_v
        best = stays(M, D + sums, D, rows, columns, sums * rows)
        best = np.maximum(best, left_over(M, D + sums, D, d_v, rows, columns))
        if sums or not np.array_equal(rows, columns):
            best = np.maximum(best, stays(M, D, D + sums, columns, rows, sums * rows))
        return count * best

    return of_rectangles(t, dense)


def _leading(t: Any, sums: int) -> Any:
    """One head of K and V, q = p, without what is left out."""
    rows, D = t.heads * t.N, t.d + t.d_v
    A = D + sums
    q = t.max(t.ceil(rows * A / t.M) - 1, 1)
    of_rows, of_columns = q * t.M / (A * rows), q * t.M / (D * t.N_k)
    saved = q * (D * t.N_k + A * rows - 2 * t.M) + t.min(of_rows, of_columns) * t.M
    return D * (rows + t.N_k) + saved / (1 + t.max(of_rows, of_columns))


STAYS, SUMS = with_sums(
    "stays",
    classes=("once", "trees"),
    formula=_leading,
    numeric=_numeric,
    validity="dense: else 0",
    theorem=5,
    options_theorem=5,
)
