"""Below d²: attention contains a matrix product, heads·(2N²d/√M − N² + 2Nd) − M.

Saha and Ye store each score when it is first completed, at N² further transfers, and so turn an
attention algorithm into one for QKᵀ.  With Hong and Kung's bound that is Ω(N²d/√M); with the tight
one, 2N²d/√M − 2M − N².  Since the tight bound's proof counts only loads of Q, K and scores
(less one for each of the N² accumulators, which start empty), the Nd loads of V and the Nd stores
of O are added; and since fast memory is empty at first, only M is lost instead of 2M.  Operands
and results are distinct words of fast memory; only accumulation is in place.

Proved in `proofs/saha_ye_small.md#theorem-1`; with options
`proofs/attention_options.md#7-the-other-exact-bounds`.
"""

from iosim.bounds.base import EVERY_OPTION, Bound

LOWER = Bound(
    name="saha-ye-small",
    covers=(
        "QKᵀ by its N²d products, any summation trees, recomputation allowed; V is read and O is "
        "written; every operand and result is a word of fast memory"
    ),
    formula=lambda t: (
        t.heads
        * (
            2 * t.scores * t.d / t.sqrt(t.M)
            - t.scores
            + t.d_v * (t.N + t.columns * t.kv_heads / t.heads)
        )
        - t.M
    ),
    validity="all sizes and every M; of the right order where M ≤ d², vacuous from M = 4d² on",
    source="Saha & Ye, arXiv 2402.07443, Theorem 3.7, with the constant of arXiv 1702.02017",
    proof="saha_ye_small",
    options=EVERY_OPTION,
    options_proof="attention_options",
)
