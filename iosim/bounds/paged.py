"""Compulsory traffic of paged decoding: Q, the keys and values in use, and the table once; O once.

The keys and values of a sequence are N_k rows; what the last page holds beyond them is not read.
Heads of a group share theirs.  Where sequences share pages, as with a common prompt, an algorithm
may read those once for all, and this bound does not apply.
"""

from __future__ import annotations

from typing import Any

from iosim.bounds.base import Bound


def _words(t: Any) -> Any:
    rows = t.kv_heads * (t.group * t.N + t.N_k)
    return t.batch * (2 * rows * t.d + t.ceil(t.N_k / t.page))


COMPULSORY = Bound(
    name="paged-compulsory",
    problem="paged",
    covers="every product q·k and p·v is computed explicitly, and where pages lie is not known",
    formula=_words,
    options=("causal",),
    validity="all sizes and every M, for tables in which no page stands twice",
    source="elementary: Q, K and V in use and the table are read once, and O is written once",
)
