"""Any matrix-product algorithm, fast ones too: bounds by matrix compression.

The words are elements of F_q with q > N.  In an epoch of M transfers an algorithm can compute only
entries of QKᵀ that are functions of at most 2M words.  Fix K as a Vandermonde matrix, so that any
d of its rows are independent, and let Q be free: the B entries computed take at least q^r values,
with r = Σ_i min(d, entries in row i), and likewise with Q fixed and K free for the columns.  The
larger of the two is at least min(d√(B/2), B/4) (Saha and Ye, Lemma 4.6), and even at least
min(d√B, B/2) (proofs/compression.md).  Since it is at most 2M, B is at most max(8M²/d², 8M), or
max(4M²/d², 4M).

The set of entries computed in an epoch must not depend on the inputs (an oblivious schedule).
Heads share the message: min(d√B, B/2) is concave, hence subadditive.

Proved in `proofs/compression.md#theorem-1`; with options
`proofs/attention_options.md#7-the-other-exact-bounds`.
"""

from typing import Any

from iosim.bounds.base import EVERY_OPTION, Bound, values_and_outputs

_COVERS = (
    "any algorithm, fast matrix products too, that computes each entry of QKᵀ at some moment, on "
    "an oblivious schedule; a word is an element of F_q, q > N"
)


def _paper(t: Any) -> Any:
    return t.heads * t.min(t.scores * t.d**2 / (8 * t.M), t.scores / 8) - t.M


def _sharp(t: Any) -> Any:
    return t.heads * t.min(t.scores * t.d**2 / (4 * t.M), t.scores / 4) + values_and_outputs(t)


PAPER = Bound(
    name="saha-ye-compression",
    covers=_COVERS,
    formula=_paper,
    validity="all sizes and every M; of the right order where d² ≤ M ≤ Nd",
    source="constants of Saha & Ye, arXiv 2402.07443, Lemma 4.1, Theorem 4.4 and Lemma 4.6",
    proof="compression",
    options=EVERY_OPTION,
    options_proof="attention_options",
)

SHARP = Bound(
    name="compression",
    covers=_COVERS,
    formula=_sharp,
    validity="all sizes and every M; of the right order where d² ≤ M ≤ Nd",
    source="iosim, proofs/compression.md, Theorem 1: Saha & Ye's argument with the lemma's best "
    "constants",
    proof="compression",
    options=EVERY_OPTION,
    options_proof="attention_options",
)

ASYMPTOTIC = Bound(
    name="any-matmul",
    strength="asymptotic",
    covers=_COVERS,
    formula=lambda t: t.heads * t.min(t.N**2 * t.d**2 / t.M, t.N**2),
    validity="Ω(·), of the right order where d² ≤ M ≤ Nd",
    source="Saha & Ye, arXiv 2402.07443, Theorem 4.8",
    proof="compression",
)

BINARY = Bound(
    name="any-matmul-binary",
    strength="asymptotic",
    covers="as any-matmul, but every word is a single bit (rows of K from a binary BCH code)",
    formula=lambda t: t.heads * t.min(t.N**2 * t.d**2 / (t.M * t.log2(t.N) ** 2), t.N**2),
    validity="Ω(·), N ≥ 2",
    source="Saha & Ye, arXiv 2402.07443, Theorem 4.14",
    outside=lambda t: "N = 1 has log N = 0" if t.N < 2 else None,
)
