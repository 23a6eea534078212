"""`small_cache` with what M leaves to its tiles: one column and one word in addition, no more.

A B_r1 × B_c1 tile of scores grows from outer products, a column of B_r1 words of Q by K word by
word (Kwasniewski et al. 2019, arXiv 1908.09606): B_r1·B_c1 + B_r1 + 1 words, for
B_r1·B_c1 + B_r1 + B_c1 in `small_cache`.  A tile of O takes a column of scores, V word by word, and
one statistic a row, L = log Σ exp: B_r2·(B_d2 + 2) + 1 words, for B_r2·(B_d2 + 3) + B_d2.  With the
same tiles it moves what `small_cache` and `spill_rows` do.

`ALGORITHMS` has it.  ``tests/core/test_small_tiles.py`` compares what it reaches as M grows, beside
the oracle and golden files of all schedules.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm, Regime
from iosim.core.algorithms._passes import mean, store_mean
from iosim.core.algorithms._shape import columns, heads, hide, keys, of_heads, tile_sizes, values
from iosim.core.problem import Attention
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Two passes, each a nest of its own."""
    b.scratch("S", *of_heads(b), "N", keys(b))
    scores_by_words(b)
    softmax_by_words(b)


def scores_by_words(b: Builder) -> None:
    """S = QKᵀ to HBM: W1 columns of rows of Q stay, K comes B_k1 rows of B_d1 words at a time."""
    B_r, B_c = tile_sizes(b, "B_r1", "B_c1")
    (B_d,), (B_k,) = b.tile_sizes("d", "B_d1"), b.tile_sizes(keys(b), "B_k1")
    W = b.stationary("d", "W1")
    for h in heads(b):
        for i in b.grid("N", B_r):
            held = b.load("Q", *h.q, i, b.span("d", 0, W), name="held")
            for j in columns(b, i, B_c, parallel=True):
                s = b.zeros("s", i, j.tile)
                for x in b.tiles("d", B_d, 0, W):
                    for y in b.tiles(keys(b), B_k, j.tile.start, j.tile.stop):
                        k = b.load("K", *h.k, y, x)
                        b.op("matmul_nt", s[y], held[x], k)
                        b.free(k)
                for x in b.tiles("d", B_d, W):
                    q = b.load("Q", *h.q, i, x)
                    for y in b.tiles(keys(b), B_k, j.tile.start, j.tile.stop):
                        k = b.load("K", *h.k, y, x)
                        b.op("matmul_nt", s[y], q, k)
                        b.free(k)
                    b.free(q)
                b.store(s, "S", *h.q, i, j.tile)
                b.free(s)
            b.free(held)


def softmax_by_words(b: Builder) -> None:
    """O = softmax(S)V in B_r2 × B_d2 tiles of O: scores by columns, V in B_v2 columns of a tile.

    Each tile of some rows finds the same L: if it is requested, tiles come in order.
    """
    along = b.tiles if "statistics" in b.form.options else b.grid
    B_r, B_c = tile_sizes(b, "B_r2", "B_c2")
    B_d, B_v = b.tile_sizes(values(b), "B_d2", "B_v2")
    for h in heads(b):
        for i in b.grid("N", B_r):
            for x in along(values(b), B_d):
                o, L = mean(b, i, x)
                for j in columns(b, i, B_c):
                    s = b.load("S", *h.q, i, j.tile)
                    hide(b, s, i, j)
                    b.op("log_weights", o, L, s)
                    for y in b.tiles(values(b), B_v, x.start, x.stop):
                        v = b.load("V", *h.k, j.tile, y)
                        b.op("matmul_nn", o[y], s, v)
                        b.free(v)
                    b.free(s)
                store_mean(b, h, i, o, L, x)
                b.free(o, L)


ALGORITHM = Algorithm(
    name="small_tiles",
    title="small cache, tiles with one column and one word beside them",
    problem=Attention,
    schedule=schedule,
    cost="4N²d/√M + N², or 2N²d²/M + 2N² with whole rows",
    source="iosim, after Saha and Ye 2024, arXiv 2402.07443, Algorithm 1",
    attains="saha-ye-square-tiles",
    exponent=-0.5,
    regime=Regime("M < d²", lambda problem, M: problem.d**2 > M),
)
