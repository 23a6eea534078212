"""FlashAttention-2 by parts of a block of rows: B_p rows of scores at a time, one is enough.

A row of K and one of V are resident while the block's rows attend to it, one after the other, so
that no column of scores needs room; L = log Σ exp stands for a row maximum and a row sum
(`flash2_log`).  The first W rows of K and V stay for all blocks, as in `flash2_keep`.  Per head
2Nd + 2Wd + 2⌈N/B_r⌉·(N − W)d words, with B_r·(2d + 1) + 2Wd + 2d + 1 ≤ M: 1 + 1/2d times 4N²d²/M
as M grows.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import STATIONARY, Algorithm
from iosim.core.algorithms._passes import mean, store_mean
from iosim.core.algorithms._shape import Keys, columns, heads, hide, keys, tile_sizes, values
from iosim.core.problem import Attention
from iosim.core.program.build import Builder
from iosim.core.program.handles import Buffer
from iosim.core.program.index import Tile


def schedule(b: Builder) -> None:
    """Rows of Q and O stay, and some of K and V; of the others one row or B_c are resident."""
    mask = b.form.mask
    # A window moves on from the first rows, so that keeping them would not help.
    kept = mask is None or not mask.left
    W = b.stationary(keys(b), "W", "unseen" if "unseen" in b.form.limits else "") if kept else 0
    B_r, B_c = tile_sizes(b, "B_r", "B_c")
    (B_p,) = b.tile_sizes("N", "B_p")
    for h in heads(b):
        if kept:
            kept_k = b.load("K", *h.k, b.span(keys(b), 0, W), "d", name="kept_k")
            kept_v = b.load("V", *h.k, b.span(keys(b), 0, W), values(b), name="kept_v")
        for i in b.grid("N", B_r):
            rows = b.load("Q", *h.q, i, "d"), *mean(b, i, values(b))
            for j in columns(b, i, B_c, (0, W)) if kept else ():
                by_parts(b, j, B_p, i, rows, (kept_k[j.tile], kept_v[j.tile]))
            for j in columns(b, i, B_c, (W, keys(b)) if kept else None):
                k = b.load("K", *h.k, j.tile, "d")
                v = b.load("V", *h.k, j.tile, values(b))
                by_parts(b, j, B_p, i, rows, (k, v))
                b.free(k, v)
            store_mean(b, h, i, *rows[1:])
            b.free(*rows)
        if kept:
            b.free(kept_k, kept_v)


def by_parts(
    b: Builder,
    j: Keys,
    B_p: str,
    i: Tile,
    rows: tuple[Buffer, Buffer, Buffer],
    resident: tuple[Buffer, Buffer],
) -> None:
    """Rows i attend to the resident rows j of K and V, B_p rows after the other.

    Args:
        rows: those of Q, O and L.
        resident: those of K and V.
    """
    (q, o, L), (k, v) = rows, resident
    for y in b.tiles("N", B_p, i.start, i.stop):
        s = b.zeros("s", y, j.tile)
        b.op("matmul_nt", s, q[y], k)
        hide(b, s, y, j)
        b.op("log_mean", o[y], L[y], s, v)
        b.free(s)


ALGORITHM = Algorithm(
    name="flash2_parts",
    title="FlashAttention-2, one score and one statistic a row at a time",
    problem=Attention,
    schedule=schedule,
    cost="4N²d²/M",
    source="iosim; L for m and l: Alexandridis et al. 2025, arXiv 2505.14201",
    exponent=-1.0,
    classes=STATIONARY,
)
