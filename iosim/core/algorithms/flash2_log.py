"""FlashAttention-2 with L = log Σ exp in place of a row maximum and a row sum, a word a row less.

O is at any time the weighted mean of the rows of V that were seen: with a new score s,
L' = log(exp L + exp s), and O shrinks by exp(L − L') before exp(s − L') v is added.  Both factors
are at most 1, so nothing overflows.  K and V come in column chunks, as in `flash2_chunked`.  Per
head 2Nd + 2⌈N/B_r⌉·Nd words, with B_r·(2d + 2) + 1 ≤ M.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import STATIONARY, Algorithm
from iosim.core.algorithms._passes import mean, store_mean
from iosim.core.algorithms._shape import columns, heads, hide, tile_sizes, values
from iosim.core.problem import Attention
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Rows of Q and O stay; K and V come B_d columns at a time, V in B_v where d_v is not d."""
    (B_d,) = b.tile_sizes("d", "B_d")
    (B_v,) = b.tile_sizes(values(b), "B_v") if values(b) != "d" else (B_d,)
    B_r, B_c = tile_sizes(b, "B_r", "B_c")
    for h in heads(b):
        for i in b.grid("N", B_r):
            q = b.load("Q", *h.q, i, "d")
            o, L = mean(b, i, values(b))
            for j in columns(b, i, B_c):
                s = b.zeros("s", i, j.tile)
                for x in b.tiles("d", B_d):
                    k = b.load("K", *h.k, j.tile, x)
                    b.op("matmul_nt", s, q[x], k)
                    b.free(k)
                hide(b, s, i, j)
                b.op("log_weights", o, L, s)
                for x in b.tiles(values(b), B_v):
                    v = b.load("V", *h.k, j.tile, x)
                    b.op("matmul_nn", o[x], s, v)
                    b.free(v)
                b.free(s)
            store_mean(b, h, i, o, L)
            b.free(q, o, L)


ALGORITHM = Algorithm(
    name="flash2_log",
    title="FlashAttention-2 with one statistic a row, K and V in column chunks",
    problem=Attention,
    schedule=schedule,
    cost="4N²d²/M",
    source="iosim's schedule search; L for m and l: Alexandridis et al. 2025, arXiv 2505.14201",
    attains="attenio",
    exponent=-1.0,
    classes=STATIONARY,
)
