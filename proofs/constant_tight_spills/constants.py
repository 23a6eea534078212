"""The constants that constant_tight_spills.md states; each step reads them here when it runs."""

from __future__ import annotations

# What the start of a stay of an output entry counts, and what a full segment may lack of S.
STAY, SHORT = 2, 2
# Lemma 4: E ≤ g(A + p) − SHARP·d·pA.
SHARP = 1

# By how much each inequality of `accounting` is made stronger: 0, but in tests that break it.
STRONGER: dict[str, float] = dict.fromkeys(
    (
        "events",
        "full segments",
        "words",
        "words from before",
        "pairs that stay",
        "whole pairs",
        "inner pairs",
        "all products of pairs, first",
        "all products of pairs, second",
        "Loomis and Whitney, first",
        "Loomis and Whitney, second",
        "spilled starts",
        "unspilled starts",
        "next visits",
        "charged work",
    ),
    0.0,
)
# Of the conditions of Lemma 5 one that a test leaves out: its place, or None.
LEFT_OUT: int | None = None

# How many random cases the sampled steps draw.
EXECUTIONS = 500
TREE_EXECUTIONS = 600
SHAPES = 200
# Every RECORDS-th record is proved again.
RECORDS = 1
