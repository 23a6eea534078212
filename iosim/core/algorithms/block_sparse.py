"""Block-sparse FlashAttention: of the tiles of scores, those are computed that a mask marks.

Dao et al. 2022 (FlashAttention, arXiv 2205.14135), block-sparse FlashAttention, with Q and O as the
blocks that stay, as in FlashAttention-2.  The mask is `blocks`, given when the program is bound: a
row for each B_r rows of Q, a column for each B_c rows of K.  Per head it moves 2Nd words of Q and
O, and for each marked tile its rows of K and V.  Where tiles are full and T of them are marked,
that is 2Nd + 2T·B_c·d; with a share s of all tiles marked and B_r ≈ M/2d it is 2Nd + 4N²d²s/M, the
Θ(N²d²s/M) of their Proposition 4 with its constant.  The mask's own words don't count.

A causal mask hides scores of marked tiles and moves nothing less: tiles of which no row sees a key
are to be left out of the mask.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._passes import attend, statistics
from iosim.core.algorithms._shape import Keys, heads, tile_sizes, values
from iosim.core.problem import BlockSparse
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Rows of Q and O stay; of K and V those tiles stream past that the mask marks for them."""
    B_r, B_c = tile_sizes(b, "B_r", "B_c")
    for h in heads(b):
        for i in b.grid("N", B_r):
            q = b.load("Q", *h.q, i, "d")
            o, m, l = statistics(b, i, values(b))
            for j in b.tiles("N_k", B_c, where=("blocks", i)):
                attend(b, h, i, Keys(j), q, o, m, l)
            b.op("finish_seen", o, l)  # a row of blocks may have no mark
            b.store(o, "O", *h.q, i, values(b))
            b.free(q, o, m, l)


ALGORITHM = Algorithm(
    name="block_sparse",
    title="block-sparse FlashAttention: only the tiles that a mask marks",
    problem=BlockSparse,
    schedule=schedule,
    cost="4N²d²s/M",
    source="Dao et al. 2022, arXiv 2205.14135, Section 3.3 and Proposition 4",
    exponent=-1.0,
)
