"""Standard attention: S = QKᵀ to HBM, P = softmax(S) to HBM, O = PV, each pass blocked.

Dao et al. 2022 (arXiv 2205.14135), Algorithm 0 and Theorem 2: Θ(Nd + N²) words for the passes
over S and P, plus those of the two matrix products.

Pass 1 is `scores`.  Pass 2 reads a row of S once where it fits and otherwise twice, once for its
maximum and sum and once to normalise; the first W2 columns of a row stay resident between the
two, so that a row slightly longer than the fast memory is read slightly more than once.  Pass 3
is a matrix product with B_r3 × B_d3 tiles of O.

Moves 4N² words of S and P (5N² where rows don't fit) and the loads of Q, K and V.
"""

from __future__ import annotations

from iosim.algorithms._entry import Algorithm
from iosim.algorithms._passes import scores
from iosim.problem import Attention
from iosim.program.build import Builder


def schedule(b: Builder) -> None:
    """Three passes, each a nest of its own."""
    b.scratch("S", "heads", "N", "N")
    b.scratch("P", "heads", "N", "N")
    scores(b)
    softmax(b)
    weighted_sum(b)


def softmax(b: Builder) -> None:
    """P = softmax(S), row by row."""
    B_r, B_c = b.tile_sizes("N", "B_r2", "B_c2")
    W = b.hold("N", "W2")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            m, l = b.lowest("m", i), b.zeros("l", i)
            held = b.load("S", h, i, b.span("N", 0, W), name="held")
            b.op("row_stats", m, l, held)
            for j in b.tiles("N", B_c, W):
                s = b.load("S", h, i, j)
                b.op("row_stats", m, l, s)
                b.free(s)
            b.op("normalise", held, m, l)
            b.store(held, "P", h, i, b.span("N", 0, W))
            b.free(held)
            for j in b.tiles("N", B_c, W):
                s = b.load("S", h, i, j)
                b.op("normalise", s, m, l)
                b.store(s, "P", h, i, j)
                b.free(s)
            b.free(m, l)


def weighted_sum(b: Builder) -> None:
    """O = PV."""
    B_r, B_c = b.tile_sizes("N", "B_r3", "B_c3")
    (B_d,) = b.tile_sizes("d", "B_d3")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            for x in b.grid("d", B_d):
                o = b.zeros("o", i, x)
                for j in b.tiles("N", B_c):
                    p = b.load("P", h, i, j)
                    v = b.load("V", h, j, x)
                    b.op("matmul_nn", o, p, v)
                    b.free(p, v)
                b.store(o, "O", h, i, x)
                b.free(o)


ALGORITHM = Algorithm(
    name="naive",
    title="standard attention, S and P in HBM",
    problem=Attention,
    schedule=schedule,
    cost="4N² + the loads of two matrix products",
    source="Dao et al. 2022, arXiv 2205.14135, Algorithm 0, Theorem 2",
)
