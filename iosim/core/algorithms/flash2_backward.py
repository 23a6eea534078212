"""FlashAttention-2's backward pass: a block of columns stays, and adds to dQ in HBM.

Dao 2023 (arXiv 2307.08691), Algorithm 2: K, V, dK and dV of B_c columns stay, Q and dO stream past,
and dQ is loaded, added to and stored for each tile.  In leading order 16N²d²/M words per head.  The
published kernel adds by atomic operations, in any order of columns; here they come in order.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._gradients import clear, clear_unseen, column_blocks, row_sums
from iosim.core.problem import AttentionBackward
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """D, zeros to dQ, then blocks of columns outside and rows inside."""
    row_sums(b)
    clear(b, "dQ")
    clear_unseen(b)
    column_blocks(b)


ALGORITHM = Algorithm(
    name="flash2_backward",
    title="FlashAttention-2, backward: K, V, dK, dV stationary, dQ added to in HBM",
    problem=AttentionBackward,
    schedule=schedule,
    cost="16N²d²/M",
    source="Dao 2023, arXiv 2307.08691, Algorithm 2",
    exponent=-1.0,
)
