"""Whole rows of Q, then whole rows of O, scores spilled between: the best known for d²/4 < M < d².

Found by the schedule search (`experiments.schedule_search`).  Pass 1 is `scores`; pass 2 holds
whole rows of O and takes V in column chunks, which leaves d words more for O than whole rows of V
do.  Per head about 2N²d²/M + 2N² words.

`ALGORITHMS` has it.  Beside the oracle and golden files of all schedules, ``python -m
experiments.schedule_search`` prints whether it is still the best.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._passes import scores, softmax_rows
from iosim.core.algorithms._shape import keys, of_heads
from iosim.core.problem import Attention
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Two passes, each a nest of its own."""
    b.scratch("S", *of_heads(b), "N", keys(b))
    scores(b)
    softmax_rows(b)


ALGORITHM = Algorithm(
    name="spill_rows",
    title="scores spilled once; whole rows of Q, then of O",
    problem=Attention,
    schedule=schedule,
    cost="2N²d²/M + 2N²",
    source="iosim's schedule search, after Saha and Ye 2024, arXiv 2402.07443",
)
