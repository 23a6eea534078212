"""FlashAttention's backward pass: columns are stationary, O is streamed with Q, dO and dQ.

Dao et al. 2022 (arXiv 2205.14135), Algorithm 4.  It differs from `flash2_backward` in that D =
rowsum(dO ∘ O) is computed again for each tile, so that O is loaded as often as Q.  In leading
order, 20N²d²/M words per head.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._gradients import clear, clear_unseen, column_blocks
from iosim.core.problem import AttentionBackward
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Zeros to dQ, then blocks of columns outside and rows inside."""
    clear(b, "dQ")
    clear_unseen(b)
    column_blocks(b, sums="here")


ALGORITHM = Algorithm(
    name="flash1_backward",
    title="FlashAttention, backward: K, V, dK, dV stationary, O read, dQ added to in HBM",
    problem=AttentionBackward,
    schedule=schedule,
    cost="20N²d²/M",
    source="Dao et al. 2022, arXiv 2205.14135, Algorithm 4",
    exponent=-1.0,
)
