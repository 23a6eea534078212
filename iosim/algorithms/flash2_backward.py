"""FlashAttention-2's backward pass: a block of columns stays, and adds to dQ in HBM.

Dao 2023 (arXiv 2307.08691), Algorithm 2: K, V, dK and dV of B_c columns stay, Q and dO stream past,
and dQ is loaded, added to and stored for each tile.  In leading order 16N²d²/M words per head.  The
published kernel adds by atomic operations, in any order of columns; here they come in order.
"""

from __future__ import annotations

from iosim.algorithms._entry import Algorithm
from iosim.algorithms._gradients import add_to_columns, clear, clear_unseen, row_sums
from iosim.algorithms._shape import (
    key_heads,
    key_tiles,
    rows,
    sharing,
    tile_sizes,
    values,
)
from iosim.problem import AttentionBackward
from iosim.program.build import Builder


def schedule(b: Builder) -> None:
    """D, zeros to dQ, then blocks of columns outside and rows inside."""
    row_sums(b)
    clear(b, "dQ")
    clear_unseen(b)
    B_r, B_c = tile_sizes(b, "B_r", "B_c")
    for g in key_heads(b):
        for j in key_tiles(b, B_c):
            k = b.load("K", *g, j.tile, "d")
            v = b.load("V", *g, j.tile, values(b))
            dk, dv = b.zeros("dk", j.tile, "d"), b.zeros("dv", j.tile, values(b))
            for h in sharing(b, g):
                for i in rows(b, j, B_r, parallel=False):
                    ds, q = add_to_columns(b, h, i, j, k, v, dk, dv)
                    b.free(q)
                    dq = b.load("dQ", *h.q, i, "d")
                    b.op("matmul_nn", dq, ds, k)
                    b.store(dq, "dQ", *h.q, i, "d")
                    b.free(ds, dq)
            b.store(dk, "dK", *g, j.tile, "d")
            b.store(dv, "dV", *g, j.tile, values(b))
            b.free(k, v, dk, dv)


ALGORITHM = Algorithm(
    name="flash2_backward",
    title="FlashAttention-2, backward: K, V, dK and dV stay, dQ is added to in HBM",
    problem=AttentionBackward,
    schedule=schedule,
    cost="16N²d²/M",
    source="Dao 2023, arXiv 2307.08691, Algorithm 2",
    exponent=-1.0,
)
