"""Parts of an execution: the words of Q and O come on top of K and V, streamed whole times.

4N²d²/M sees neither.  Cut an execution each time that K rows of Q have had whole pairs.  A column
that meets n rows is then in n/K parts at least, rounded up; each part touches its rows and columns
whole; and only the M words that are in fast memory at a cut serve two parts.

The words are the largest that the two theorems give with rows cut, and with columns cut; 0 where
they say nothing: for M so large that one part holds all rows, or so small that what they leave out,
(d + d_v)²·N/M rows or so, is more than what they add.

Proved in `proofs/towards_nd.md#theorem-1`, `proofs/towards_nd.md#theorem-2`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iosim.bounds.base import CLASSES, EVERY_OPTION, Bound, Floats

# For rounding.
_SAFE = 1 - 1e-12


def any_pairs(D: Any, M: Any, K: Any, columns: Any, rows: Any) -> Any:
    """Theorem 1: `columns` is what its columns cost, `rows` the number of rows with 2D pairs.

    Args:
        D: words of a row of Q and O, and of a row of K and V.
        M: words of fast memory.
        K: rows of a part.
        columns: Σ h(n) over all columns, n the pairs of one.
        rows: how many rows have 2D pairs or more.

    Returns the words, 0 where K does not fulfil the theorem's conditions.

    >>> float(any_pairs(2, 100, 50, 1000, 30)), float(any_pairs(2, 100, 49, 1000, 30))
    (1000.0, 0.0)
    """
    fits = (K >= 2 * D) & (K * D >= M)
    return np.where(fits, columns + rows * (D - M / np.maximum(K, 1)), 0.0)


def one_rectangle(D: Any, M: Any, j: Any, K: Any, rows: Any, columns: Any) -> Any:
    """Theorem 2, with parts of K rows, of which j leave 3D rows or more.

    Returns the words, 0 where j and K do not fulfil the theorem's conditions.

    >>> float(one_rectangle(2, 1000, 1, 900, 1000, 1000))
    5600.0
    """
    left = rows - j * K
    fits = (j >= 1) & (K >= 2 * D) & (K * D >= M) & (columns >= K) & (left >= 3 * D)
    more, fewer = left - D, (j + 1) * D
    few = (j + 1) * columns * D + j * (K * D - M)
    other = 2 * rows * D + (j + 1) * ((columns - D) * D - M)
    both = (fewer * few + more * other) / np.where(fits, more + fewer, 1.0)
    most = (j + 1) * ((columns + K) * D - M)
    words = np.minimum(np.minimum(most, both), few + more * (columns - D - M / D))
    return np.where(fits, np.maximum(words, 0.0), 0.0)


# Numbers j of parts that are tried: for M from Nd/16 on all that can be best.  They and their K do
# not depend on M, so that the words don't grow with M.
_MOST = 33


def rectangles(count: Any, D: Any, M: Any, rows: Any, columns: Any) -> Any:
    """The best of some j and K where all pairs are `count` rectangles; rows are cut.

    >>> float(rectangles(1.0, 2.0, 1000.0, 1000.0, 1000.0)) > 4000
    True
    """
    alone = count == 1
    best: Any = 0.0
    if np.any(alone):
        for j in range(1, _MOST + 1):
            K = np.floor((rows - 3 * D) / j)
            best = np.maximum(best, one_rectangle(D, M, j, K, rows, columns))
        K = np.floor(rows - 3 * D - np.floor(np.sqrt(rows * D) / 2))
        best = np.maximum(best, one_rectangle(D, M, 1, K, rows, columns))
    if not np.all(alone):
        met = np.where(columns >= 2 * D, count * rows, 0.0)
        several: Any = 0.0
        for j in range(1, _MOST + 1):
            K = np.floor((rows - 2 * D) / j)
            several = np.maximum(several, any_pairs(D, M, K, (j + 1) * count * columns * D, met))
        best = np.where(alone, best, several)
    return best


def _triangle_columns(n: Any, K: Any, D: Any) -> Any:
    """Σ h over columns of 1 … n pairs, in parts of K ≥ 2D rows; see Theorem 1."""
    q = np.floor(n / K)
    left = n - q * K
    parts = K * q * (q - 1) / 2 + q * (left + 1)
    last = np.where(left < 2 * D, left * (left + 1) / 4, D * (left + 0.5 - D))
    return D * (parts + q * (K - D - 0.5)) + last


def triangles(count: Any, share: Any, D: Any, M: Any, N: Any) -> Any:
    """Theorem 1 under a causal mask, K ≈ M/D: `count` heads of K, each for `share` heads of Q.

    >>> float(triangles(1.0, 1.0, 2.0, 1000.0, 4000.0))
    35976.0
    """
    K = np.maximum(np.ceil(M / (share * D)), np.ceil(2 * D))
    return any_pairs(D, M, share * K, count * _triangle_columns(N, K, D), 0.0)


def _numeric(t: Any) -> Floats:
    def words(
        N: Any, N_k: Any, heads: Any, kv_heads: Any, scores: Any, D: Any, M: Any, left: Any = None
    ) -> Any:
        share = heads / kv_heads
        dense = scores == N * N_k
        if window:  # rounded, few pairs that it hides would not be seen
            dense = dense & (N * N_k < 2.0**50)
        best: Any = 0.0
        if np.any(dense):
            best = rectangles(kv_heads, D, M, share * N, N_k)
            if not np.array_equal(share * N, N_k):
                best = np.maximum(best, rectangles(kv_heads, D, M, N_k, share * N))
        if not np.all(dense):
            causal = (scores == N * (N + 1) / 2) & (N_k == N)
            if left is not None:  # as many pairs as below the diagonal may be others
                causal = causal & (left >= N - 1)
            below = np.where(causal, triangles(kv_heads, share, D, M, N), 0.0)
            best = np.where(dense, best, below)
        return _SAFE * best

    window = hasattr(t, "left") or hasattr(t, "right")
    limits = {"left": t.left} if hasattr(t, "left") else {}
    found: Floats = t.each(
        words, N=t.N, N_k=t.N_k, heads=t.heads, kv_heads=t.kv_heads, scores=t.scores,
        D=t.d + t.d_v, M=t.M, **limits,
    )  # fmt: skip
    return found


def _leading(t: Any) -> Any:
    """Theorem 2 for one head, without what is left out."""
    rows, D = t.heads * t.N, t.d + t.d_v
    j = t.max(t.ceil(rows * D / t.M) - 1, 1)
    return (j + 1) * ((t.N_k + rows / j) * D - t.M)


PARTS = Bound(
    name="parts",
    kind="lower",
    strength="exact",
    problem="attention",
    covers="; or ".join(CLASSES[x].says for x in ("once", "trees")),
    formula=_leading,
    validity="dense, or causal with N_k = N: else 0, and 0 where one part could hold all rows",
    source="iosim, proofs/towards_nd.md",
    proof="towards_nd",
    theorem="theorem-2",
    numeric=_numeric,
    classes=(CLASSES["once"], CLASSES["trees"]),
    options=EVERY_OPTION,
    options_proof="towards_nd",
    options_theorem="theorem-1",
)
