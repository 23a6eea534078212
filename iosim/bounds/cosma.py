"""Matrix products with a stationary tile of C: 2mnk/√M + mn, up to integrality.

An a × b tile of C is stationary; for every l load a words of A's column and, one at a time, b words
of B's row: ab + a + 1 words of memory, k(m⌈n/b⌉ + n⌈m/a⌉) loads, mn stores.  With a = b ≈ √M this
is 2mnk/√M + mn.

Kwasniewski et al. (COSMA, Theorem 1) state the same expression also as a **lower** bound for the
chained CDAG.  As such it can't be used at every shape: where k < 2√M, a stationary ⌊M/k⌋ × k block
of A with B streamed costs mk + mnk²/M + mn, which is less (for k = √M: half the leading term).
proofs/matmul_tight.py executes such a schedule, pebble by pebble.  So this catalogue has it as the
attained count only, and the tight *lower* bound is `matmul-tight`, which misses mn + 2M of it.

Proved in `proofs/matmul_tight.md#remarks`.
"""

from typing import Any

from iosim.bounds.base import Bound

PRINTED = Bound(
    name="cosma-attained",
    kind="upper",
    strength="asymptotic",
    problem="matmul",
    covers="C-stationary tiles of about √M × √M; exact up to the rounding of the tile",
    formula=lambda t: 2 * t.m * t.n * t.k / t.sqrt(t.M) + t.m * t.n,
    validity="M ≥ 3 and M ≤ mn, m, n ≥ √M (one tile fits, and fills)",
    source="Kwasniewski et al., SC 2019 (COSMA), arXiv 1908.09606, Theorem 1 and its schedule",
    outside=lambda t: (
        f"M = {t.M} is below 3, one word each of A, B and C"
        if t.M < 3
        else f"M = {t.M} exceeds the square of min(m, n) = {min(t.m, t.n)}: a tile does not fill"
        if min(t.m, t.n) ** 2 < t.M
        else None
    ),
    proof="matmul_tight",
    theorem="remarks",
    classes=(),
)


def _tiled(t: Any) -> Any:
    # a² + a + 1 ≤ M  ⇔  2a + 1 ≤ √(4M − 3): the floor of a half-integer away from rounding.
    a = t.floor((t.sqrt(4 * t.M - 3) - 1) / 2)
    return t.m * t.n + t.k * (t.m * t.ceil(t.n / a) + t.n * t.ceil(t.m / a))


TILED = Bound(
    name="matmul-square-tiles",
    kind="upper",
    problem="matmul",
    covers="C-stationary square tiles of side a, the largest with a² + a + 1 ≤ M",
    formula=_tiled,
    validity="M ≥ 3",
    source="the schedule of Smith et al., arXiv 1702.02017, and of COSMA, counted exactly",
    outside=lambda t: f"M = {t.M} is below 3, one word each of A, B and C" if t.M < 3 else None,
    proof="matmul_tight",
    theorem="remarks",
    classes=(),
)
