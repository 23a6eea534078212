"""P spilled, then dV and dS in one pass that reads it, then dQ and dK from dS.

The second pass holds V and dV of a block of columns; dO is streamed once, B_d2 columns at a time,
for dO Vᵀ and for Pᵀ dO.  With whole rows in the other passes 5N²d²/M + 5N² words per head, from
M = d²/2 on; below that dQ and dK in halves of their columns, 4N²d²/M + 7N².
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._gradients import (
    clear_unseen,
    row_sums,
    spilled,
    stored_sums,
    weights,
)
from iosim.core.algorithms._passes import key_products, row_products, stored_scores
from iosim.core.algorithms._shape import (
    key_heads,
    key_tiles,
    rows,
    sharing,
    tile_sizes,
    values,
)
from iosim.core.problem import AttentionBackward
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Row sums, P, then dV and dS, then dQ and dK, each a nest of its own."""
    spilled(b, "dS")
    row_sums(b)
    clear_unseen(b)
    spilled(b, "P")
    weights(b, "1")
    of_weights(b)
    row_products(b, "dQ", "dS", "K", "3")
    key_products(b, "dK", "dS", "Q", "4")


def of_weights(b: Builder) -> None:
    """dV and dS from P: V and dV stay, columns outside."""
    B_r, B_c = tile_sizes(b, "B_r2", "B_c2")
    (B_d,) = b.tile_sizes(values(b), "B_d2")
    for g in key_heads(b):
        for j in key_tiles(b, B_c, parallel=True):
            v, dv = b.load("V", *g, j.tile, values(b)), b.zeros("dv", j.tile, values(b))
            for h in sharing(b, g):
                for i in rows(b, j, B_r, parallel=False):
                    p, ds = stored_scores(b, "P", h, i, j), b.zeros("ds", i, j.tile)
                    for x in b.tiles(values(b), B_d):
                        do = b.load("dO", *h.q, i, x)
                        b.op("matmul_nt", ds, do, v[x])
                        b.op("matmul_tn", dv[x], p, do)
                        b.free(do)
                    sums = stored_sums(b, h, i)
                    b.op("softmax_gradient", ds, p, sums)
                    b.free(p, sums)
                    b.store(ds, "dS", *h.q, i, j.tile)
                    b.free(ds)
            b.store(dv, "dV", *g, j.tile, values(b))
            b.free(v, dv)


ALGORITHM = Algorithm(
    name="spill_weights",
    title="P spilled, dV and dS from it, dQ and dK from dS",
    problem=AttentionBackward,
    schedule=schedule,
    cost="5N²d²/M + 5N², or 4N²d²/M + 7N² with halves of the columns of dQ and dK",
    source="iosim's search of decompositions into passes, after Li et al. 2024, arXiv 2410.09397",
)
