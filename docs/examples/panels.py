"""A schedule of your own: a product that keeps a panel of A, and streams columns of B and C."""


def panels(b):
    """A panel of A is stationary; B and C stream."""
    (B_m,) = b.tile_sizes("m", "B_m")
    (B_n,) = b.tile_sizes("n", "B_n")
    for i in b.grid("m", B_m):
        p = b.load("A", i, "k")
        for j in b.tiles("n", B_n):
            q = b.load("B", "k", j)
            c = b.zeros("c", i, j)
            b.op("matmul_nn", c, p, q)
            b.store(c, "C", i, j)
            b.free(q, c)
        b.free(p)
