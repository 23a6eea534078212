"""Bounds of a rectangle of pairs, or of a triangle, carried over to heads.

Heads of Q that share one head of K and V are a rectangle, rows of Q below each other; under a
causal mask, where there are as many rows of Q as of K, a triangle.  Other masks have neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from iosim.bounds.base import Floats

# For rounding.
SAFE = 1 - 1e-12
# The words of some shapes that are alike.
_Words = Callable[..., Any]


def of_rectangles(t: Any, rectangles: _Words) -> Floats:
    """`of_shapes` where nothing is said of triangles."""
    return of_shapes(t, rectangles, lambda *sizes: 0.0)


def of_shapes(t: Any, rectangles: _Words, triangles: _Words) -> Floats:
    """The words of a problem's heads, from what is proved of a shape; 0 for other masks.

    Args:
        t: `iosim.bounds.terms.Arrays` of attention's sizes and M.
        rectangles: ``words(kv_heads, rows, columns, d, d_v, M)`` where every pair is seen.
        triangles: ``words(kv_heads, share, N, d, d_v, M)`` under a causal mask, each row of Q there
            `share` times.

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
        if window:  # rounded, few pairs that it hides would not be seen
            dense = dense & (s.N * s.N_k < 2.0**50)
        best: Any = 0.0
        if np.any(dense):
            best = rectangles(s.kv_heads, share * s.N, s.N_k, *same)
        if not np.all(dense):
            causal = (s.scores == s.N * (s.N + 1) / 2) & (s.N_k == s.N)
            if s.left is not None:  # as many pairs as below the diagonal may be others
                causal = causal & (s.left >= s.N - 1)
            below = np.where(causal, triangles(s.kv_heads, share, s.N, *same), 0.0)
            best = np.where(dense, best, below)
        return SAFE * np.maximum(best, 0.0)

    names = (x.name for x in fields(_Sizes) if hasattr(t, x.name))
    found: Floats = t.each(words, **{x: getattr(t, x) for x in names})
    return found


@dataclass(frozen=True)
class _Sizes:
    """Sizes of `iosim.bounds.terms.Arrays` at some points; `left` where the problem has one."""

    N: Any
    N_k: Any
    heads: Any
    kv_heads: Any
    scores: Any
    d: Any
    d_v: Any
    M: Any
    left: Any = None
