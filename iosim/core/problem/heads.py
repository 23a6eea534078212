"""What attention problems share whose heads may have a d_v, and share K and V.

`scores` and `blocks` inherit it.
"""

from __future__ import annotations


class SharedHeads:
    """Sizes that follow from options that may be left out; the fields are the problem's own."""

    d: int
    d_v: int | None
    heads: int
    kv_heads: int | None

    @property
    def values(self) -> int:
        """Columns of V and O: d_v, or d where it is not given."""
        return self.d if self.d_v is None else self.d_v

    @property
    def groups(self) -> int:
        """Heads of K and V: kv_heads, or heads where it is not given."""
        return self.heads if self.kv_heads is None else self.kv_heads
