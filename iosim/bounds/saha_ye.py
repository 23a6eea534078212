"""Saha and Ye: attention costs Θ(min(N²d²/M, N²d/√M)), and the two regimes meet at M = d².

Lower bounds by the pebble game (M ≥ d²) and by a reduction to matrix products (M < d²); upper
bounds by FlashAttention (M ≥ d²) and by square tiles with the scores spilled (M < d²).  These are
the asymptotic statements; the constants that the proofs contain are in `saha_ye_large`,
`saha_ye_small` and `compression`.

Proved in `proofs/saha_ye_large.md#theorem-1`, `proofs/upper_bounds.md#statements`,
`proofs/upper_bounds.md#counts-of-the-catalogue`.
"""

from typing import Any

from iosim.bounds.base import Bound


def _formula(t: Any) -> Any:
    return t.heads * t.min(t.N**2 * t.d**2 / t.M, t.N**2 * t.d / t.sqrt(t.M))


def _outside(t: Any) -> str | None:
    if t.N * t.d < t.M:
        return f"M = {t.M} exceeds Nd = {t.N * t.d}: the compulsory 4Nd rules there"
    return None


LOWER = Bound(
    name="saha-ye",
    strength="asymptotic",
    covers="QKᵀ by its N²d products (any summation trees, recomputation allowed)",
    formula=_formula,
    validity="Ω(·), M ≤ Nd; crossover at M = d²",
    source="Saha & Ye, arXiv 2402.07443 (ICML 2024), Theorem 3.1",
    outside=_outside,
    proof="saha_ye_large",
)

UPPER = Bound(
    name="saha-ye-attained",
    kind="upper",
    strength="asymptotic",
    covers="FlashAttention where M ≥ d², square tiles with spilled scores where M < d²",
    formula=_formula,
    validity="O(·), M ≤ Nd; crossover at M = d²",
    source="Saha & Ye, arXiv 2402.07443 (ICML 2024), Theorems 3.1, 3.2 and 3.5",
    outside=_outside,
    proof="upper_bounds",
    theorem="statements",
    classes=(),
)


def _square_tiles(t: Any) -> Any:
    B = t.floor(t.sqrt(t.floor(t.M / 4)))
    N, d = t.N, t.d
    first = 2 * N * d * t.ceil(N / B) + N**2 + N
    second = N**2 * t.ceil(d / B) + N * d * t.ceil(N / B) + N * d + N
    return t.heads * (first + second)


SQUARE_TILES = Bound(
    name="saha-ye-square-tiles",
    kind="upper",
    covers="two passes with square tiles of side ⌊√(M/4)⌋, exp(QKᵀ) spilled once, row sums kept",
    formula=_square_tiles,
    validity="M ≥ 4 (any M; good where M < d²)",
    source="Saha & Ye, arXiv 2402.07443, Algorithm 1, every load and store counted",
    outside=lambda t: f"M = {t.M} is below 4: the tile side ⌊√(M/4)⌋ is 0" if t.M < 4 else None,
    proof="upper_bounds",
    theorem="counts-of-the-catalogue",
    classes=(),
)
