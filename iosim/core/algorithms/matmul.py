"""C = AB in tiles of C: the calibrator, whose optimum is known.

Each B_m × B_n tile of C stays resident while A and B stream past in slices of B_k.
Moves ⌈n/B_n⌉·mk + ⌈m/B_m⌉·nk + mn words; with B_m = B_n ≈ √M and B_k = 1 that is
2mnk/√M + mn, the count that Kwasniewski et al. attain (2019, arXiv 1908.09606); at least
2mnk/√M − M words are needed (`proofs/matmul_tight.md`).
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.problem import MatMul
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Output-stationary blocks."""
    (B_m,) = b.tile_sizes("m", "B_m")
    (B_n,) = b.tile_sizes("n", "B_n")
    (B_k,) = b.tile_sizes("k", "B_k")
    for i in b.grid("m", B_m):
        for j in b.grid("n", B_n):
            c = b.zeros("c", i, j)
            for x in b.tiles("k", B_k):
                p = b.load("A", i, x)
                q = b.load("B", x, j)
                b.op("matmul_nn", c, p, q)
                b.free(p, q)
            b.store(c, "C", i, j)
            b.free(c)


ALGORITHM = Algorithm(
    name="matmul",
    title="blocked matrix product, C stationary",
    problem=MatMul,
    schedule=schedule,
    cost="2mnk/√M + mn",
    source="Hong and Kung 1981; Kwasniewski et al. 2019, arXiv 1908.09606",
    attains="matmul-square-tiles",
)
