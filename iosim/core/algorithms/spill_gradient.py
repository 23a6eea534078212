"""dK and dV with columns outside, dS spilled on the way, then dQ from dS.

The first of `two_kernels`' passes stores the gradients dS of the scores, so that the second needs
neither scores nor dO: dQ = dS K with whole rows of dQ.  Per head 8N²d²/M + N² and N²d²/M + N²
words, less than two kernels' 14N²d²/M for M < 5d²/2.  Scores are computed once.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._gradients import clear_unseen, column_blocks, row_sums, spilled
from iosim.core.algorithms._passes import row_products
from iosim.core.problem import AttentionBackward
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """D, then dK, dV and dS, then dQ, each a nest of its own."""
    spilled(b, "dS")
    row_sums(b)
    clear_unseen(b)
    column_blocks(b, rows_too=False, spill=True, n="1")
    row_products(b, "dQ", "dS", "K", "2")


ALGORITHM = Algorithm(
    name="spill_gradient",
    title="dK and dV by columns, dS spilled on the way, dQ from dS",
    problem=AttentionBackward,
    schedule=schedule,
    cost="9N²d²/M + 2N²",
    source="iosim's search of decompositions into passes, after Dao 2023, arXiv 2307.08691",
)
