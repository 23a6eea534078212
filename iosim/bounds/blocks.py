"""What block-sparse attention moves at least, whatever its mask marks: O, written once.

A mask is given with tiles, not with the sizes, so that this bound doesn't know it.  With the mask,
`iosim.report.sparsity` gives the constant-tight bound for the pairs that it has.
"""

from __future__ import annotations

from iosim.bounds.base import Bound

COMPULSORY = Bound(
    name="block-sparse-compulsory",
    kind="lower",
    strength="exact",
    problem="block-sparse",
    covers="every algorithm that leaves O in slow memory",
    formula=lambda t: t.heads * t.N * t.d_v,
    options=("causal", "d_v", "kv_heads"),
    validity="all sizes, every M and every mask",
    source="elementary: O is written once; what is read depends on the mask",
)
