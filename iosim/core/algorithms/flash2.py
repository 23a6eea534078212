"""FlashAttention-2: a block of rows of Q and O stays, K and V stream past.

Dao 2023 (arXiv 2307.08691), Algorithm 1.  Per head: 2Nd + 2⌈N/B_r⌉·Nd words; with B_c = 1 nearly
all of M goes to Q and O (B_r ≈ M/2d), which gives 4N²d²/M.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import STATIONARY, Algorithm
from iosim.core.algorithms._passes import fused_rows
from iosim.core.problem import Attention

ALGORITHM = Algorithm(
    name="flash2",
    title="FlashAttention-2: Q and O stationary, K and V streamed",
    problem=Attention,
    schedule=fused_rows,
    cost="4N²d²/M",
    source="Dao 2023, arXiv 2307.08691, Algorithm 1",
    attains="attenio",
    exponent=-1.0,
    classes=STATIONARY,
)
