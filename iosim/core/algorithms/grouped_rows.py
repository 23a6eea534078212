"""FlashAttention-2 with the rows of a group of heads stacked: K and V are read once for all.

Where `group` heads of Q share a head of K and V, B_r rows of each are one block of group·B_r rows
(PackGQA in FlashAttention-3's kernels).  Per head of K and V it moves group·N(d + d_v) words of Q
and O and ⌈N/B_r⌉·N_k(d + d_v) of K and V, in group·B_r(d + d_v + 2 + B_c) + B_c·max(d, d_v) words;
`flash2` with the same B_r moves group times as many of K and V.

But its block has group times the rows, so with B_c = 1 both have blocks of M/2d rows and move
4N²d²/M words per head of Q: grouping saves nothing from the leading term.  It saves where all rows
of a group fit (`decode`): K and V are then read once, and not once per head.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import STATIONARY, Algorithm
from iosim.core.algorithms._passes import fused_rows
from iosim.core.algorithms._shape import groups
from iosim.core.problem import Attention
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Rows of Q and O of all heads of a group stay; K and V stream past."""
    fused_rows(b, of=groups)


ALGORITHM = Algorithm(
    name="grouped_rows",
    title="FlashAttention-2 with the rows of a group of heads stacked",
    problem=Attention,
    schedule=schedule,
    cost="4N²d²/M",
    source="FlashAttention-3's code, hopper/pack_gqa.h; Shah et al. 2024, arXiv 2407.08608",
    needs=("kv_heads",),
    exponent=-1.0,
    classes=STATIONARY,
)
