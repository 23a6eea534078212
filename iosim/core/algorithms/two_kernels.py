"""Two passes over the scores: dK and dV with columns outside, then dQ with rows outside.

No accumulator moves: K, V, dK, dV of a block of columns stay while Q and dO stream past, and then
Q, dO, dQ of a block of rows while K and V do.  Scores and their gradients are computed twice.  In
leading order 8N²d²/M and 6N²d²/M words per head.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._gradients import (
    clear_unseen,
    column_blocks,
    differentiate,
    row_sums,
    stored_sums,
    weigh,
)
from iosim.core.algorithms._shape import columns, heads, tile_sizes, values
from iosim.core.problem import AttentionBackward
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """D, then dK and dV, then dQ, each a nest of its own."""
    row_sums(b)
    clear_unseen(b)
    column_blocks(b, rows_too=False, n="1")
    of_rows(b)


def of_rows(b: Builder) -> None:
    """dQ: blocks of rows stay."""
    B_r, B_c = tile_sizes(b, "B_r2", "B_c2")
    for h in heads(b):
        for i in b.grid("N", B_r):
            q = b.load("Q", *h.q, i, "d")
            do = b.load("dO", *h.q, i, values(b))
            l = b.load("L", *h.q, i)
            sums = stored_sums(b, h, i)
            dq = b.zeros("dq", i, "d")
            for j in columns(b, i, B_c):
                k = b.load("K", *h.k, j.tile, "d")
                v = b.load("V", *h.k, j.tile, values(b))
                p = weigh(b, i, j, q, k, l)
                ds = differentiate(b, i, j, p, do, v, sums)
                b.free(p, v)
                b.op("matmul_nn", dq, ds, k)
                b.free(ds, k)
            b.store(dq, "dQ", *h.q, i, "d")
            b.free(q, do, l, sums, dq)


ALGORITHM = Algorithm(
    name="two_kernels",
    title="two kernels: dK and dV by columns, dQ by rows, scores computed twice",
    problem=AttentionBackward,
    schedule=schedule,
    cost="14N²d²/M",
    source="the passes of Triton's tutorial kernel",
    exponent=-1.0,
    classes=("recompute", "recompute-trees"),  # S and dP are computed in both kernels
)
