"""Hong and Kung: the red–blue pebble game, and matrix products in Ω(mnk/√M).

Cut a pebbling into segments of M transfers; each segment computes a part of the graph that 2M
vertices dominate and that has at most 2M minimum vertices.  Hence Q ≥ M(P(2M) − 1), where P(S) is
the least number of parts of an S-partition; for matrix products P(2M) = Ω(mnk/M^{3/2}).

Proved in `proofs/hong_kung.md#theorem-1`.
"""

from iosim.bounds.base import Bound

MATMUL = Bound(
    name="hong-kung-matmul",
    strength="asymptotic",
    problem="matmul",
    covers="all mnk products computed explicitly, any summation trees, recomputation allowed",
    formula=lambda t: t.m * t.n * t.k / t.sqrt(t.M),
    validity="Ω(·), for sizes that grow beyond what fits in fast memory",
    source="Hong & Kung, STOC 1981, Theorem 3.1 and Corollary 6.2",
    proof="hong_kung",
)
