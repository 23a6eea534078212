"""The backward pass for M < d²: five products with tight tiles, P and dS in HBM.

Li et al. 2024 (arXiv 2410.09397) prove O((N²d + Nd²)/√M) for M < d²; their algorithm is five
blocked matrix products.  With square tiles 10N²d/√M + 3N² words per head: P is stored and read
once more with dO Vᵀ, dS is stored.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm, Regime
from iosim.core.algorithms._gradients import clear_unseen, gradients, row_sums, spilled, weights
from iosim.core.algorithms._passes import key_products, row_products
from iosim.core.problem import AttentionBackward
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Row sums and five products, each a nest of its own."""
    spilled(b, "dS")
    row_sums(b)
    clear_unseen(b)
    spilled(b, "P")
    weights(b, "1")
    key_products(b, "dV", "P", "dO", "2")
    gradients(b, "3")
    row_products(b, "dQ", "dS", "K", "4")
    key_products(b, "dK", "dS", "Q", "5")


ALGORITHM = Algorithm(
    name="small_backward",
    title="small cache, backward: P and dS spilled between five products",
    problem=AttentionBackward,
    schedule=schedule,
    cost="10N²d/√M + 3N²",
    source="Li et al. 2024, arXiv 2410.09397",
    exponent=-0.5,
    regime=Regime("M < d²", lambda problem, M: problem.d**2 > M),
)
