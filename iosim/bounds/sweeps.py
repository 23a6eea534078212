"""Sweeps of K and V past rows that stay: Q loaded once, O stored once, no score stored.

Take the row word that leaves fast memory first, then of those that come later the one that leaves
first, and so on.  At most M + 1 words of rows are there when one of them leaves, so that there are
k = ⌈AR/(M + 1)⌉ of them, R rows of A words.  While each is there, nearly all of K and V is, too:
loaded again, except for what stays in fast memory with the rows.

FlashAttention-2 is a schedule whose rows stay.  A schedule that moves less than the bound loads
words of Q again, stores entries of O twice, moves row sums, stores scores, or computes them again.
Where a mask hides pairs, rows have columns of their own, and the sweeps are not counted whole.

Proved in `proofs/towards_nd.md#theorem-7`, and for masks in `proofs/towards_nd.md#theorem-8`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.base.arrays import Floats
from iosim.bounds.shapes import SAFE, of_rectangles
from iosim.bounds.sums import with_sums


def sweeps(M: Any, A: Any, G: Any, rows: Any, columns: Any) -> Any:
    """Theorem 7's words for one rectangle of pairs, where each row word stays once.

    Args:
        M: words of fast memory.
        A, G: words of a row and of a column; with row sums A is G + 1.
        rows, columns: how many there are.

    Returns the words, 0 where K and V nearly fit.

    >>> M, d = 2**20, 8  # the rows fill 4M: 4 sweeps, and beside them a row of Q and O, less M
    >>> words = float(sweeps(M, 2 * d, 2 * d, 2**18, 2**18)) / (2 * d * 2**18)
    >>> round(words, 2)
    5.0
    """
    held = M + 1
    met = columns - 2 * (A - 1)
    times = np.ceil(SAFE * A * rows / held)
    words = (A + G) * rows + times * (G * met - held)
    return np.where(G * met >= held, words, 0.0)


def any_pairs(M: Any, A: Any, G: Any, rows: Any, pairs: Any) -> Any:
    """Theorem 8's words for any set of pairs.

    Args:
        M: words of fast memory.
        A, G: words of a row and of a column; with row sums A is G + 1.
        rows: how many rows have a pair.
        pairs: how many pairs there are.

    >>> M, d, N = 2**16, 8, 2**18
    >>> words = float(any_pairs(M, 2 * d, 2 * d, N, N * (N + 1) / 2)) / (2 * d * N)
    >>> round(words, 2)  # half of 64 sweeps of K and V, with a causal mask
    32.01
    """
    held = M + 1
    over = G * pairs - (2 * (A - 1) * G + held) * rows
    return G * rows + np.where(over > 0, held + A * over / held, 0.0)


def _numeric(t: Any, sums: int) -> Floats:
    def dense(count: Any, rows: Any, columns: Any, d: Any, d_v: Any, M: Any) -> Any:
        return count * sweeps(M, d + d_v + sums, d + d_v, rows, columns)

    def masked(count: Any, rows: Any, pairs: Any, d: Any, d_v: Any, M: Any) -> Any:
        return SAFE * count * any_pairs(M, d + d_v + sums, d + d_v, rows / count, pairs / count)

    each = t.each(
        masked, count=t.kv_heads, rows=t.heads * t.rows, pairs=t.pairs, d=t.d, d_v=t.d_v, M=t.M
    )
    found: Floats = np.maximum(of_rectangles(t, dense), each)
    return found


def _leading(t: Any, sums: int) -> Any:
    """One head of K and V, without what is left out."""
    rows, D = t.heads * t.N, t.d + t.d_v
    return 2 * D * rows + t.ceil((D + sums) * rows / t.M) * (D * t.N_k - t.M)


SWEEPS, SUMS = with_sums(
    "sweeps",
    classes=("stationary",),
    formula=_leading,
    numeric=_numeric,
    validity="every N, d, heads and M; whole sweeps where no pair is hidden",
    theorem=7,
    options_theorem=8,
)
