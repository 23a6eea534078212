"""Standard backward pass: P, dP and dS in HBM, each pass blocked.

Dao et al. 2022 (arXiv 2205.14135), Algorithm 3 and Theorem 5: Θ(Nd + N²) words in addition to
those of five matrix products.  P is made from Q, K and L; a forward pass that keeps it saves that
product.
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
from iosim.core.algorithms._passes import key_products, row_products, stored_scores, tile_products
from iosim.core.algorithms._shape import columns, heads, tile_sizes
from iosim.core.problem import AttentionBackward
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Five products and an element-wise pass, each a nest of its own."""
    spilled(b, "dP", "dS")
    row_sums(b)
    clear_unseen(b)
    spilled(b, "P")
    weights(b, "1")
    key_products(b, "dV", "P", "dO", "2")
    tile_products(b, "dP", "dO", "V", "3")
    of_scores(b)
    row_products(b, "dQ", "dS", "K", "5")
    key_products(b, "dK", "dS", "Q", "6")


def of_scores(b: Builder) -> None:
    """dS = P ∘ (dP − D), element by element."""
    B_r, B_c = tile_sizes(b, "B_r4", "B_c4")
    for h in heads(b):
        for i in b.grid("N", B_r):
            for j in columns(b, i, B_c, parallel=True):
                p, sums = stored_scores(b, "P", h, i, j), stored_sums(b, h, i)
                s = stored_scores(b, "dP", h, i, j, name="s")
                b.op("softmax_gradient", s, p, sums)
                b.store(s, "dS", *h.q, i, j.tile)
                b.free(p, sums, s)


ALGORITHM = Algorithm(
    name="naive_backward",
    title="standard backward pass: P, dP and dS in HBM",
    problem=AttentionBackward,
    schedule=schedule,
    cost="7N² + the loads of five matrix products",
    source="Dao et al. 2022, arXiv 2205.14135, Algorithm 3, Theorem 5",
)
