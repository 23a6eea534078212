"""How many pairs a mask leaves, of how many rows and columns: closed forms.

The same few lines are read with whole numbers, with arrays and with symbols.

`scores` and `blocks` call it, and through them bounds.  ``tests/core/test_attention_options.py``
compares with loops over pairs; if a count changes, bounds do, so raise
`iosim.base.revision.REVISION`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iosim.core.problem.base import WHOLE, Arithmetic
from iosim.core.problem.form import Mask


@dataclass(frozen=True, slots=True)
class Visible:
    """What is seen in the score matrix of one head.

    Attributes:
        pairs: of a row and a column that it sees.
        rows: that see a column.
        columns: that a row sees.
    """

    pairs: Any
    rows: Any
    columns: Any


def count_visible(
    mask: Mask | None,
    N: Any,
    keys: Any,
    left: Any = 0,
    right: Any = 0,
    sinks: Any = 0,
    by: Arithmetic = WHOLE,
) -> Visible:
    """What N rows see of `keys` columns.

    `left`, `right` and `sinks` are read where the mask says that they limit; `right` is 0 in a
    causal mask.

    >>> from iosim.core.problem import Attention
    >>> count_visible(Attention(4, 1, causal=True).mask, 4, 4)
    Visible(pairs=10, rows=4, columns=4)
    """
    least, most = by.least, by.most
    if mask is None:
        return Visible(by.real(N) * by.real(keys), N, keys)
    shift = keys - N if mask.shift else 0
    pairs, first, last, start, stop = N * keys, 0, N, 0, keys
    if mask.right is not None:
        ahead = shift + (right if mask.right == "limit" else 0)
        pairs = _ramp(N, ahead + 1, keys, by)
        first = most(0, -ahead)  # the first row that sees column 0
        stop = least(keys, most(0, N + ahead))
    if mask.left:
        kept = least(sinks, keys) if mask.sinks else 0
        hidden = shift - left
        pairs = pairs - _ramp(N, hidden, keys, by) + _ramp(N, hidden, kept, by)
        # Rows from keys − hidden on see nothing, or the sinks: then N or more.
        last = least(N, keys - hidden + kept * N)
        start = least(stop, most(0, hidden))
        start = start - least(kept, start)
    return Visible(pairs, most(0, last - first), stop - start)


def _ramp(n: Any, c: Any, top: Any, by: Arithmetic) -> Any:
    """Σ over i from 0 to n − 1 of i + c, cut to 0 … top."""
    least, most = by.least, by.most
    low = least(n, most(0, -c))  # up to here it is 0
    high = least(n, most(low, top - c))  # from here on it is top
    return by.half((high - low) * (low + high - 1 + 2 * c)) + (n - high) * top
