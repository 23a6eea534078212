"""Standard attention: S = QKᵀ to HBM, P = softmax(S) to HBM, O = PV, each pass blocked.

Dao et al. 2022 (arXiv 2205.14135), Algorithm 0 and Theorem 2: Θ(Nd + N²) words for the passes
over S and P, plus those of the two matrix products.

Pass 1 is `scores`.  Pass 2 reads a row of S once where it fits and otherwise twice, once for its
maximum and sum and once to normalize; the first W2 columns of a row stay resident between the
two, so that a row slightly longer than the fast memory is read slightly more than once.  Pass 3
is a matrix product with B_r3 × B_d3 tiles of O.

Moves 4N² words of S and P (5N² where rows don't fit) and the loads of Q, K and V.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._passes import row_products, scores, store_statistic
from iosim.core.algorithms._shape import (
    columns,
    heads,
    hide,
    hide_first,
    keys,
    of_heads,
    safe,
    tile_sizes,
    unseen,
    visible_columns,
)
from iosim.core.problem import Attention
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Three passes, each a nest of its own."""
    b.scratch("S", *of_heads(b), "N", keys(b))
    b.scratch("P", *of_heads(b), "N", keys(b))
    scores(b)
    softmax(b)
    row_products(b, "O", "P", "V", "3")


def softmax(b: Builder) -> None:
    """P = softmax(S), row by row; and L if it is requested."""
    B_r, B_c = tile_sizes(b, "B_r2", "B_c2")
    mask = b.form.mask
    # A window moves on from the first columns, so that holding them would not help.
    W = 0 if mask is not None and mask.left else b.stationary(keys(b), "W2")
    rest = (W, keys(b)) if W else None
    for h in heads(b):
        for i in b.grid("N", B_r):
            m, l = unseen(b, i), b.zeros("l", i)
            if W:
                first = b.span(keys(b), 0, W)
                if mask is not None:
                    first = b.span(keys(b), *visible_columns(b, i), within=(0, W))
                held = b.load("S", *h.q, i, first, name="held")
                hide_first(b, held, i)
                b.op("row_stats", m, l, held)
            for j in columns(b, i, B_c, rest):
                s = b.load("S", *h.q, i, j.tile)
                hide(b, s, i, j)
                b.op("row_stats", m, l, s)
                b.free(s)
            if W:
                b.op(safe(b, "normalise"), held, m, l)
                b.store(held, "P", *h.q, i, first)
                b.free(held)
            for j in columns(b, i, B_c, rest):
                s = b.load("S", *h.q, i, j.tile)
                hide(b, s, i, j)
                b.op(safe(b, "normalise"), s, m, l)
                b.store(s, "P", *h.q, i, j.tile)
                b.free(s)
            store_statistic(b, h, i, m, l)
            b.free(m, l)


ALGORITHM = Algorithm(
    name="naive",
    title="standard attention, S and P in HBM",
    problem=Attention,
    schedule=schedule,
    cost="4N² + the loads of two matrix products",
    source="Dao et al. 2022, arXiv 2205.14135, Algorithm 0, Theorem 2",
)
