"""FlashAttention-2 with K and V in column chunks: the d words of a row of K go to Q and O.

Found by the schedule search (`experiments.schedule_search`).  Per head: 2Nd + 2⌈N/B_r⌉·Nd words, as
`flash2`, but B_r·(2d + 3) + 1 ≤ M instead of B_r·(2d + 3) + d ≤ M.  A gain of d/M, which matters
around M = d².
"""

from __future__ import annotations

from iosim.core.algorithms._entry import STATIONARY, Algorithm
from iosim.core.algorithms._passes import fused_rows
from iosim.core.problem import Attention
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Rows of Q and O stay; K and V come B_d columns at a time."""
    fused_rows(b, chunked=True)


ALGORITHM = Algorithm(
    name="flash2_chunked",
    title="FlashAttention-2 with K and V in column chunks",
    problem=Attention,
    schedule=schedule,
    cost="4N²d²/M",
    source="iosim's schedule search, after Dao 2023, arXiv 2307.08691",
    attains="attenio",
    exponent=-1.0,
    classes=STATIONARY,
)
