"""Registers the schedule ``flash2``, FlashAttention-2: Q and O stationary, K and V streamed.

`iosim.core.algorithms.ALGORITHMS` names this module; `iosim.algorithm("flash2")` imports it and
returns `ALGORITHM`.  The loops are in `iosim.core.algorithms._passes.fused_rows`, which other
schedules use too.

Dao 2023 (arXiv 2307.08691), Algorithm 1.  A tile has B_r rows of Q and O, or B_c rows of K and V.
A head without a mask moves 2Nd + 2⌈N/B_r⌉·Nd words.  With B_c = 1, nearly all M words of fast
memory hold Q and O (B_r ≈ M/2d), which gives 4N²d²/M.

Changing this file: this docstring is free.  `title` and `cost` are printed; tests compare documents
that show them.  `name` is in recorded data and stays.  `attains` (the upper bound that is this
count), `exponent` (of M in the words) and `classes` (which lower bounds hold) are claims that tests
check: change them only with the schedule.  Other loops mean other counts: ``tests/oracle.py``,
golden files and `iosim.base.revision.REVISION` change with them.
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
