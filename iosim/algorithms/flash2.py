"""FlashAttention-2: a block of rows of Q and O stays, K and V stream past.

Dao 2023 (arXiv 2307.08691), Algorithm 1.  Per head: 2Nd + 2⌈N/B_r⌉·Nd words; with B_c = 1 nearly
all of M goes to Q and O (B_r ≈ M/2d), which gives 4N²d²/M.
"""

from __future__ import annotations

from iosim.algorithms._entry import Algorithm
from iosim.problem import Attention
from iosim.program.build import Builder


def schedule(b: Builder) -> None:
    """Rows of Q outside, K/V blocks inside."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            q = b.load("Q", h, i, "d")
            o, m, l = b.zeros("o", i, "d"), b.lowest("m", i), b.zeros("l", i)
            for j in b.tiles("N", B_c):
                k = b.load("K", h, j, "d")
                s = b.zeros("s", i, j)
                b.op("matmul_nt", s, q, k)
                b.free(k)
                v = b.load("V", h, j, "d")
                b.op("online_softmax", o, m, l, s, v)
                b.free(v, s)
            b.op("finish", o, l)
            b.store(o, "O", h, i, "d")
            b.free(q, o, m, l)


ALGORITHM = Algorithm(
    name="flash2",
    title="FlashAttention-2: Q and O stay, K and V stream",
    problem=Attention,
    schedule=schedule,
    cost="4N²d²/M",
    source="Dao 2023, arXiv 2307.08691, Algorithm 1",
    attains="attenio",
)
