"""The constants that towards_nd.md states; each step reads them here when it runs."""

from __future__ import annotations

# Lemma 1: a cut saves CARRIED·M words, and a crossing pair costs CROSSING.
CARRIED = 1
CROSSING = 1
# Lemma 1: words of a row that is whole in a part, in units of D = d + d_v.
WHOLE = 1
# Lemma 1: a row with its row sum has SUM words more, STARTS of which begin for nothing.
SUM = 1
STARTS = 1
# Theorem 1: columns pay SHARE of what their crossing pairs cost, and rows the rest.
SHARE = 0.5
# Theorem 1: K ≥ LEAST·D.
LEAST = 2
# Theorem 2: K ≥ LEAST_ALONE·D, and columns pay for ALONE times each crossing pair.
LEAST_ALONE = 1
ALONE = 1
# Theorem 3: all columns have WIDE times the words of a part's rows at least.
WIDE = 1
# Theorem 3: j parts of K rows leave LEFT·D rows at least.
LEFT = 3
# Theorem 3: rows are in TWICE parts at least when columns are cut.
TWICE = 2
# Game of whole rows: a cut saves SAVED·m loads.
SAVED = 1

# How many random executions and sizes the sampled steps draw.
EXECUTIONS = 300
SIZES = 250
