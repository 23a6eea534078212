"""A problem of your own: a product to which a row of biases is added."""

from dataclasses import dataclass

from iosim.core.problem import MatMul, Tensor


@dataclass(frozen=True, repr=False)
class BiasedProduct(MatMul):
    """C = AB + bias, with the same bias for each row of C."""

    kind = "biased-product"
    inputs = (*MatMul.inputs, Tensor("bias", ("n",)))

    def reference(self, hbm):
        """NumPy's in float64."""
        return {"C": hbm["A"] @ hbm["B"] + hbm["bias"]}


PROBLEM = BiasedProduct


def panels(b):
    """A panel of A is stationary; B, C and biases stream."""
    (B_m,) = b.tile_sizes("m", "B_m")
    (B_n,) = b.tile_sizes("n", "B_n")
    for i in b.grid("m", B_m):
        p = b.load("A", i, "k")
        for j in b.tiles("n", B_n):
            q, r = b.load("B", "k", j), b.load("bias", j)
            c = b.zeros("c", i, j)
            b.op("matmul_nn", c, p, q)
            b.store(c, "C", i, j)
            b.free(q, r, c)
        b.free(p)
