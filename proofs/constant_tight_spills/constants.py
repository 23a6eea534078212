"""The constants that constant_tight_spills.md states; each step reads them here when it runs."""

from __future__ import annotations

# What the start of a stay of an output entry counts, and what a full segment may lack of S.
STAY, SHORT = 2, 2
# Lemma 3: E ≤ g(A + p) − SHARP·d·pA.
SHARP = 1

# How many random cases the sampled steps draw.
EXECUTIONS = 500
TREE_EXECUTIONS = 600
SHAPES = 200
# Every RECORDS-th record is proved again.
RECORDS = 1
