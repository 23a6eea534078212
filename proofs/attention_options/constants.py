"""The constants that attention_options.md states; each step reads them here when it runs."""

from __future__ import annotations

from fractions import Fraction

# Theorem B: Q ≥ LEADING·Π·δ²/M, δ = (d + d_v)/2.
LEADING = 4
# Step `arcs`: U²·ℓ″ = U² + 3W² − BEND·(2 + Kν)W.
BEND = 2
# §2: the best whole number of chunks is at most 1 + CHUNKS above 4Πd·d_v/M.
CHUNKS = Fraction(31, 1000)
# Lemma B: E + F ≤ TWICE·φ(ĝ).
TWICE = 2

# How many random cases the sampled steps draw.
EXECUTIONS = 400
SEARCHES = 60
PATTERNS = 60
