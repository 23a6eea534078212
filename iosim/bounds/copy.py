"""Copying n words takes n loads and n stores; 2n words are enough with one word of fast memory.

Start from this file to add a bound: one file, and one line in ``iosim/bounds/__init__.py``.
"""

from iosim.bounds.base import Bound

LOWER = Bound(
    name="copy-lower",
    problem="copy",
    covers="any algorithm",
    formula=lambda t: 2 * t.n,
    validity="all sizes and every M",
    source="elementary: each word is loaded once and stored once",
)

UPPER = Bound(
    name="copy-upper",
    kind="upper",
    problem="copy",
    covers="load a word, store it, next",
    formula=lambda t: 2 * t.n,
    validity="all sizes and every M",
    source="elementary: one word of fast memory suffices",
    classes=(),
)
