"""The algorithm for M < d²: scores are spilled to HBM once, between two matrix products.

Saha and Ye 2024 (arXiv 2402.07443), Algorithm 1, Theorem: O(N²d/√M) words for M < d².

Pass 1 is `scores`.  Pass 2 computes B_r2 × B_d2 tiles of O, reading the row of scores once per
tile and keeping the row maxima and sums online (`softmax_tiles`), so that nothing but S is spilled.

With square tiles, 4N²d/√M + N² words.  From M ≈ d²/4 on, whole rows of Q in pass 1 (W1 = d) and
whole rows of O in pass 2 (B_d2 = d) are better: 2N²d²/M + 2N².
"""

from __future__ import annotations

import math

from iosim.core.algorithms._entry import Algorithm, Regime
from iosim.core.algorithms._passes import scores, softmax_tiles
from iosim.core.algorithms._shape import keys, of_heads
from iosim.core.problem import Attention
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Two passes, each a nest of its own."""
    b.scratch("S", *of_heads(b), "N", keys(b))
    scores(b)
    softmax_tiles(b)


def paper_tiles(problem: Attention, M: int) -> dict[str, int]:
    """Algorithm 1: square tiles of side ⌊√(M/4)⌋ in both passes."""
    B = max(1, math.isqrt(M // 4))
    names = ("B_r1", "B_c1", "B_d1", "B_r2", "B_c2", "B_d2")
    return dict.fromkeys(names, B) | {"W1": 0}


ALGORITHM = Algorithm(
    name="small_cache",
    title="small cache: scores spilled once between two products",
    problem=Attention,
    schedule=schedule,
    cost="4N²d/√M + N², or 2N²d²/M + 2N² with whole rows",
    source="Saha and Ye 2024, arXiv 2402.07443, Algorithm 1",
    rules={"paper": paper_tiles},
    attains="saha-ye-square-tiles",
    exponent=-0.5,
    regime=Regime("M < d²", lambda problem, M: problem.d**2 > M),
)
