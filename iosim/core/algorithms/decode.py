"""Decoding: all rows of a group of heads are one block, and the cache of keys is streamed once.

For N of a few rows and N_k keys.  It is `grouped_rows` with all N rows of each head in its block;
only B_c is to be chosen, and no word depends on it.  It moves heads·N(d + d_v) words of Q and O and
kv_heads·N_k(d + d_v) of K and V: what is compulsory, in any M of
group·N(d + d_v + 3) + max(d, d_v) words or more (group = 1 where kv_heads is not given).  Under a
mask N_k is the number of columns that some row sees.  In less than this M, `grouped_rows` with
smaller blocks or `flash2` runs, and reads K and V again for each block.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import STATIONARY, Algorithm, Regime
from iosim.core.algorithms._passes import fused_rows
from iosim.core.algorithms._shape import groups
from iosim.core.problem import Attention
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """All rows of Q and O of a group of heads stay; K and V stream past once."""
    fused_rows(b, of=groups, whole=True)


ALGORITHM = Algorithm(
    name="decode",
    title="decoding: all rows of a group of heads in one block, K and V once",
    problem=Attention,
    schedule=schedule,
    cost="compulsory: 2Nd + 2N_k·d/group",
    source="Dao 2023, FlashAttention-2's code, csrc/flash_attn/flash_api.cpp, without splits",
    needs=("N_k",),
    regime=Regime("N ≤ 16", lambda problem, M: problem.N <= 16),
    classes=STATIONARY,
)
