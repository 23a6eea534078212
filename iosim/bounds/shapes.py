"""Turns a theorem on one rectangle or triangle of pairs into a bound for a whole problem.

A pair is a row of Q and a row of K that it sees.  The heads of Q that share one head of K and V are
stacked: without a mask their pairs are a rectangle, and under a causal mask with as many rows of Q
as of K, a triangle.  For other masks the bound is 0: it says nothing.  `iosim.bounds.parts`,
`iosim.bounds.stays` and `iosim.bounds.sweeps` call it with their theorems' words for a shape.

Changing this file: a result that is too large is a **false** lower bound, for all three callers.
Return 0 where the pairs aren't known to have the shape, and keep `SAFE`.  Branches on values may
only skip work, as the lab takes all of them: it runs this code on symbols, with the functions that
``iosim/lab/data/traced.py`` lists.  If a bound changes, raise `iosim.base.revision.REVISION`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from iosim.base.arrays import Floats

# Factor that keeps a bound in floats below the exact one.
SAFE = 1 - 1e-12
# Words that must be moved for equal shapes, one for each head of K and V.
_Words = Callable[..., Any]


def of_rectangles(t: Any, rectangles: _Words) -> Floats:
    """`of_shapes` for a theorem on rectangles only: 0 under every mask."""
    return of_shapes(t, rectangles, lambda *sizes: 0.0)


def of_shapes(t: Any, rectangles: _Words, triangles: _Words) -> Floats:
    """A lower bound on the words of all heads, at every point of `t`; 0 for other masks.

    Args:
        t: sizes of attention and M, as `iosim.bounds.terms.Arrays`.
        rectangles: ``words(kv_heads, rows, columns, d, d_v, M)``, the words of `kv_heads` equal
            rectangles of rows × columns; used where no pair is masked.
        triangles: ``words(kv_heads, share, N, d, d_v, M)``, the words of `kv_heads` equal
            triangles; used under a causal mask.  `share` heads of Q share a head of K and V.

    Returns:
        Words, as a float64 array; never negative.

    >>> import numpy as np
    >>> from iosim.bounds.terms import Arrays
    >>> from iosim.core.problem import Attention
    >>> sizes = {"N": [8, 8], "d": [4, 4], "heads": [3, 3], "M": [50, 60]}
    >>> t = Arrays(Attention.plain_form(), {x: np.array(v) for x, v in sizes.items()})
    >>> of_rectangles(t, lambda heads, rows, columns, d, d_v, M: heads * rows * columns).round(6)
    array([192., 192.])
    """
    window = hasattr(t, "left") or hasattr(t, "right")

    def words(**sizes: Any) -> Any:
        s = _Sizes(**sizes)
        share, same = s.heads / s.kv_heads, (s.d, s.d_v, s.M)
        dense = s.scores == s.N * s.N_k
        if window:  # beyond 2**50 pairs a float can't show that a few are hidden
            dense = dense & (s.N * s.N_k < 2.0**50)
        best: Any = 0.0
        if np.any(dense):
            best = rectangles(s.kv_heads, share * s.N, s.N_k, *same)
        if not np.all(dense):
            causal = (s.scores == s.N * (s.N + 1) / 2) & (s.N_k == s.N)
            if s.left is not None:  # another mask may leave as many pairs as a triangle has
                causal = causal & (s.left >= s.N - 1)
            below = np.where(causal, triangles(s.kv_heads, share, s.N, *same), 0.0)
            best = np.where(dense, best, below)
        return SAFE * np.maximum(best, 0.0)

    names = (x.name for x in fields(_Sizes) if hasattr(t, x.name))
    found: Floats = t.each(words, **{x: getattr(t, x) for x in names})
    return found


@dataclass(frozen=True)
class _Sizes:
    """Arrays of sizes at the same points, by the names of `iosim.bounds.terms.Terms`.

    `scores` are the pairs of one head; `left` is the left limit of a window, None without one.
    """

    N: Any
    N_k: Any
    heads: Any
    kv_heads: Any
    scores: Any
    d: Any
    d_v: Any
    M: Any
    left: Any = None
