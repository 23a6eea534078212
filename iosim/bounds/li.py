"""Li et al.: the backward pass costs Θ(min((N²d² + Nd³)/M, (N²d + Nd²)/√M)).

Their two regimes meet at M = Θ(d²), as Saha and Ye's do, and so do their arguments: a partition of
the pebble game above, a matrix product below.  They print no constants.  Here are those of the
arguments, for the product QKᵀ that every backward pass of this problem contains (P is not given):

- above, Saha and Ye's 2M-partition holds word for word: N²d²/(M + 4d²) − M;
- below, each score is stored when it is first completed, at N² further transfers, and what is left
  is an algorithm for QKᵀ, 2N²d/√M − 2M with the tight constant.  That counts loads of Q, K and
  scores; the 2Nd loads of V and dO and the 3Nd stores of dQ, dK and dV are added, and since fast
  memory is empty at first only M is lost.  Operands and results are distinct words of fast
  memory; only accumulation is in place.

`iosim.bounds.backward` proves more at every M.  What is here says how much more.

Proved in `proofs/attention_backward.md#12-li-et-al-with-constants`.
"""

from __future__ import annotations

import functools
from typing import Any

from iosim.bounds import saha_ye_large
from iosim.bounds.base import Bound

_SOURCE = "Li, Liang, Shi, Song & Zhou, arXiv 2410.09397"
_COVERS = "QKᵀ by its N²d products, any summation trees, recomputation allowed"


def _formula(t: Any) -> Any:
    N, d = t.N, t.d
    large, small = (N**2 * d**2 + N * d**3) / t.M, (N**2 * d + N * d**2) / t.sqrt(t.M)
    return t.heads * t.min(large, small)


# What its bounds have in common.
_bound = functools.partial(
    Bound,
    problem="attention-backward",
    proof="attention_backward",
    theorem="12-li-et-al-with-constants",
)

ASYMPTOTIC = _bound(
    name="li",
    strength="asymptotic",
    covers="the backward pass by its products",
    formula=_formula,
    validity="Ω(·); crossover at M = Θ(d²)",
    source=f"{_SOURCE}, abstract",
)

LARGE = _bound(
    name="li-large",
    covers=_COVERS,
    formula=saha_ye_large.PAPER.formula,
    validity="all sizes and every M; of the right order where d² ≤ M ≤ Nd",
    source=f"{_SOURCE}, with the constants of Saha & Ye, arXiv 2402.07443, Lemmas 2.8, 3.3 and 3.4",
)

SMALL = _bound(
    name="li-small",
    covers=(
        f"{_COVERS}; V and dO are read, dQ, dK and dV are written; every operand and result is a "
        "word of fast memory"
    ),
    formula=lambda t: t.heads * (2 * t.scores * t.d / t.sqrt(t.M) - t.scores + 5 * t.N * t.d) - t.M,
    validity="all sizes and every M; of the right order where M ≤ d², vacuous from M = 4d² on",
    source=f"{_SOURCE}, with the constant of arXiv 1702.02017",
)
