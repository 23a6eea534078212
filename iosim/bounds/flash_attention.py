"""FlashAttention's statements: Theorem 2 and Proposition 3 of Dao et al. 2022.

Theorem 2: standard attention takes Θ(Nd + N²) accesses and FlashAttention Θ(N²d²/M), for
d ≤ M ≤ Nd.  (That standard attention's two products are done in O(Nd + N²) takes M = Ω(d²); below,
they alone need N²d/√M.)  Proposition 3: no algorithm computes exact attention with o(N²d²/M)
accesses **for all** M in [d, Nd]: its proof looks at M = Θ(Nd) only, where that is Nd.

Proved in `proofs/upper_bounds.md#theorem-2`.
"""

from typing import Any

from iosim.bounds.base import Bound


def _outside(t: Any) -> str | None:
    if t.d > t.M:
        return f"M = {t.M} is below d = {t.d}"
    if t.N * t.d < t.M:
        return f"M = {t.M} exceeds Nd = {t.N * t.d}"
    return None


_SOURCE = "Dao, Fu, Ermon, Rudra & Ré, arXiv 2205.14135 (NeurIPS 2022)"

STANDARD = Bound(
    name="standard-attention",
    kind="upper",
    strength="asymptotic",
    covers="standard attention: QKᵀ and its softmax go through slow memory",
    formula=lambda t: t.heads * (t.N * t.d + t.N**2),
    validity="Θ(·), d ≤ M ≤ Nd as stated; the products need N²d/√M more where M < d²",
    source=f"{_SOURCE}, Theorem 2",
    outside=_outside,
    classes=(),
)

FLASH = Bound(
    name="flash-attention",
    kind="upper",
    strength="asymptotic",
    covers="FlashAttention (Algorithm 1 of the paper)",
    formula=lambda t: t.heads * t.N**2 * t.d**2 / t.M,
    validity="Θ(·), d ≤ M ≤ Nd",
    source=f"{_SOURCE}, Theorem 2",
    outside=_outside,
    proof="upper_bounds",
    theorem="theorem-2",
    classes=(),
)

PROPOSITION = Bound(
    name="flash-proposition-3",
    strength="asymptotic",
    covers="any exact algorithm, but only 'not o(·) for all M at once': it is proved at M = Θ(Nd)",
    formula=lambda t: t.heads * t.N**2 * t.d**2 / t.M,
    validity="d ≤ M ≤ Nd",
    source=f"{_SOURCE}, Proposition 3",
    outside=_outside,
)
