"""Passes that several algorithms share."""

from __future__ import annotations

from iosim.program.build import Builder


def scores(b: Builder) -> None:
    """S = QKᵀ to HBM, a matrix product with rectangular tiles.

    For each B_r1 × B_c1 tile of S the first W1 columns of the rows of Q stay resident over the
    whole row of tiles; the other d − W1 are streamed with K, B_d1 columns at a time.  W1 = 0 is
    the usual blocked product (2N²d/√M loads with square tiles); W1 = d holds whole rows of Q
    (N²d²/M loads), which is better for M > d²/4.
    """
    B_r, B_c = b.tile_sizes("N", "B_r1", "B_c1")
    (B_d,) = b.tile_sizes("d", "B_d1")
    W = b.hold("d", "W1")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            held = b.load("Q", h, i, b.span("d", 0, W), name="held")
            for j in b.grid("N", B_c):
                s = b.zeros("s", i, j)
                for x in b.tiles("d", B_d, 0, W):
                    k = b.load("K", h, j, x)
                    b.op("matmul_nt", s, held[x], k)
                    b.free(k)
                for x in b.tiles("d", B_d, W):
                    q = b.load("Q", h, i, x)
                    k = b.load("K", h, j, x)
                    b.op("matmul_nt", s, q, k)
                    b.free(q, k)
                b.store(s, "S", h, i, j)
                b.free(s)
            b.free(held)
