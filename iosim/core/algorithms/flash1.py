"""FlashAttention: a block of K and V stays, O and the row statistics are re-read and re-written.

Dao et al. 2022 (arXiv 2205.14135), Algorithm 1 and Theorem 2.  Per head:
3Nd + 2N + ⌈N/B_c⌉·(3Nd + 4N) words: K, V and the initial O, m, l once, and each of the ⌈N/B_c⌉
sweeps reads Q, O, m, l and writes O, m, l.  With all of M given to K and V (B_c ≈ M/2d) that is
6N²d²/M, and with the paper's B_c = ⌈M/4d⌉ it is 12N²d²/M.

If L is requested, a last pass makes it from m and l: 3N words.

Q is freed before O is loaded, which moves nothing more and takes B_r·d words less.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._passes import statistics, store_statistic
from iosim.core.algorithms._shape import (
    heads,
    hide,
    key_tiles,
    of_heads,
    rows,
    safe,
    tile_sizes,
    values,
)
from iosim.core.problem import Attention
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """K/V blocks outside, rows of Q inside."""
    b.scratch("m", *of_heads(b), "N", wide=True)
    b.scratch("l", *of_heads(b), "N", wide=True)
    B_r, B_c = tile_sizes(b, "B_r", "B_c")
    for h in heads(b):
        for i in b.grid("N", B_r):
            o, m, l = statistics(b, i, values(b))
            b.store(o, "O", *h.q, i, values(b))
            b.store(m, "m", *h.q, i)
            b.store(l, "l", *h.q, i)
            b.free(o, m, l)
        for j in key_tiles(b, B_c):
            k = b.load("K", *h.k, j.tile, "d")
            v = b.load("V", *h.k, j.tile, values(b))
            for i in rows(b, j, B_r):
                q = b.load("Q", *h.q, i, "d")
                s = b.zeros("s", i, j.tile)
                b.op("matmul_nt", s, q, k)
                b.free(q)
                hide(b, s, i, j)
                o = b.load("O", *h.q, i, values(b))
                m = b.load("m", *h.q, i)
                l = b.load("l", *h.q, i)
                # O stays normalized after every block (line 12): no last pass is needed.
                b.op(safe(b, "online_mean"), o, m, l, s, v)
                b.free(s)
                b.store(o, "O", *h.q, i, values(b))
                b.store(m, "m", *h.q, i)
                b.store(l, "l", *h.q, i)
                b.free(o, m, l)
            b.free(k, v)
        if "statistics" in b.form.options:
            for i in b.grid("N", B_r):
                m, l = b.load("m", *h.q, i), b.load("l", *h.q, i)
                store_statistic(b, h, i, m, l)
                b.free(m, l)


def paper_tiles(problem: Attention, M: int) -> dict[str, int]:
    """Algorithm 1, line 1: B_c = ⌈M/4d⌉, B_r = min(⌈M/4d⌉, d)."""
    B_c = -(-M // (4 * problem.d))
    return {"B_r": min(B_c, problem.d), "B_c": B_c}


ALGORITHM = Algorithm(
    name="flash1",
    title="FlashAttention: K and V stationary, O re-read",
    problem=Attention,
    schedule=schedule,
    cost="6N²d²/M (12 with the paper's tiles)",
    source="Dao et al. 2022, arXiv 2205.14135, Algorithm 1, Theorem 2",
    rules={"paper": paper_tiles},
    exponent=-1.0,
)
