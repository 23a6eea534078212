"""The constants in Saha and Ye's pebble-game bound: N²d²/(M + 4d²) − M, and a sharper form.

Their Lemma 3.3: a part of a 2M-partition meets at most 2·2M summation trees of scores at their
dominator or minimum vertices, and any other tree needs a whole row of Q and a whole row of K in
the dominator: with I rows and J rows, (I + J)d ≤ 2M, hence IJ ≤ M²/d² further trees.  So
M(h − 1) ≥ N²d²/(M + 4d²) − M.  (The paper bounds I + J ≥ √C where I + J ≥ 2√C holds too; taken
literally its numbers give N²d²/(4M + 4d²) − M.)

Sharper, with the same idea: count only in which segment a score is *completed* for the first time.
Then minimum vertices need no count.  With t words of unfinished scores and (I + J)d words of whole
rows among the at most 2M words that a segment can use, t + IJ ≤ t + ((2M − t)/2d)², which is
convex in t: at most max(M²/d², 2M) scores are completed while M words of Q, K and unfinished
scores are loaded.  Fast memory is empty at first, so the first segment may hold 2M loads: hence at
least min(N²d²/M, N²/2) such loads.  The Nd loads of V and the Nd stores of O come on top.  Heads
share the memory, so in the first form M is subtracted once.

Proved in `proofs/saha_ye_large.md#theorem-1`; with options
`proofs/attention_options.md#7-the-other-exact-bounds`.
"""

from typing import Any

from iosim.bounds.base import EVERY_OPTION, Bound, values_and_outputs

_COVERS = (
    "QKᵀ by its N²d products, any summation trees, recomputation allowed; V is read and O is "
    "written"
)


def _roots(t: Any) -> Any:
    return t.heads * t.min(t.scores * t.d**2 / t.M, t.scores / 2) + values_and_outputs(t)


PAPER = Bound(
    name="saha-ye-large",
    covers=_COVERS,
    formula=lambda t: t.heads * t.scores * t.d**2 / (t.M + 4 * t.d**2) - t.M,
    validity="all sizes and every M; of the right order where d² ≤ M ≤ Nd",
    source="constants of Saha & Ye, arXiv 2402.07443, Lemmas 2.8, 3.3 and 3.4 (2M-partition)",
    proof="saha_ye_large",
    options=EVERY_OPTION,
    options_proof="attention_options",
)

ROOTS = Bound(
    name="score-roots",
    covers=_COVERS,
    formula=_roots,
    validity="all sizes and every M; of the right order where d² ≤ M ≤ Nd",
    source="iosim, proofs/saha_ye_large.md, Theorem 1: Saha & Ye's argument, counting completed "
    "scores only",
    proof="saha_ye_large",
    options=EVERY_OPTION,
    options_proof="attention_options",
)
