"""Matrix products: 2mnk/√M − 2M, tight in its leading constant.

Write every product as a fused multiply–add c += a·b, for which a, b and c must be resident, and
count **loads** only, those of C included.  Of any run of S loads at most M + S words of A, B and C
are available, so by Loomis–Whitney at most ((M + S)/3)^{3/2} products happen in it.  With S = 2M
that is M^{3/2}, hence at least 2mnk/√M − 2M loads.  An accumulator that starts at zero saves one
load, mn in all, and costs a store at the end, at least mn in all: the sum is not affected.

Where fast memory is empty at first, as in iosim, the first segment may hold M loads more, and
2mnk/√M − M remains (`matmul-cold`).

The summation order does not matter: where operands and results are distinct words of fast memory
(only accumulation is in place), any summation trees can be replaced by one accumulator per entry
without a further transfer or word of memory (proofs/matmul_tight.md, Lemma 4), and of recomputed
values only those that lead to the stored result are counted.  Where results may take the place of
operands the bound holds as well (Remark 6); so Coq has checked it (proofs/rocq.md).

Proved in `proofs/matmul_tight.md#corollary`, `proofs/matmul_tight.md#theorem-1`.
"""

from typing import Any

from iosim.bounds.base import Bound

_COVERS = (
    "all mnk products computed explicitly, any summation trees, recomputation allowed; every "
    "operand and result is a word of fast memory"
)

_CHECKED = "matrix_product_every_class"


def _cold(t: Any) -> Any:
    return 2 * t.m * t.n * t.k / t.sqrt(t.M) - t.M


COLD = Bound(
    name="matmul-cold",
    problem="matmul",
    covers=f"{_COVERS}, which is empty at first",
    formula=_cold,
    validity="all sizes and every M; it says nothing (0) once 2mnk ≤ M^{3/2}",
    source="iosim, proofs/matmul_tight.md, Corollary: the proof of arXiv 1702.02017, first segment "
    "longer",
    proof="matmul_tight",
    theorem="corollary",
    checked=lambda form, t: _cold(t),
    checked_by=_CHECKED,
)

LOWER = Bound(
    name="matmul-tight",
    problem="matmul",
    covers=_COVERS,
    formula=lambda t: 2 * t.m * t.n * t.k / t.sqrt(t.M) - 2 * t.M,
    validity="all sizes and every M; it says nothing (0) once M^{3/2} ≥ mnk",
    source="Smith, Lowery, Langou & van de Geijn, arXiv 1702.02017",
    proof="matmul_tight",
    checked=lambda form, t: _cold(t),
    checked_by=f"{_CHECKED}, fast memory empty at first",
)
