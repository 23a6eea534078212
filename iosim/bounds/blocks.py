"""The lower bound for block-sparse attention whatever its mask marks: O is written once.

A mask is given with tiles, not with the sizes, so this bound doesn't know it.  For a known mask,
`iosim.report.sparsity` gives the constant-tight bound for the pairs that it marks.
"""

from __future__ import annotations

from iosim.bounds.base import Bound

COMPULSORY = Bound(
    name="block-sparse-compulsory",
    problem="block-sparse",
    covers="every algorithm that leaves O in slow memory",
    formula=lambda t: t.heads * t.N * t.d_v,
    options=("causal", "d_v", "kv_heads"),
    validity="all sizes, every M and every mask",
    source="elementary: O is written once; what is read depends on the mask",
)
