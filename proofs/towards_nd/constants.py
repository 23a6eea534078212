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
# Lemma 3: a column of BUSY·G pairs in fast memory counts as there; a row of BUSY·A likewise.
BUSY = 2
# Lemma 3: of stays that are there at one moment AT_ONCE are left to none; CLAIM for each claim.
AT_ONCE = 1
CLAIM = 1
# Theorem 5: a word of O with s stays moves STORED·s − 1 times.
STORED = 2
# Lemma 3: stays that meet all rows have q + SPARE − n pieces.
SPARE = 1
# Theorem 5: a spilled pair moves SPILLED words.
SPILLED = 2
# Theorem 5: at a step there are M + RESULT words, before it or after it.
RESULT = 1
# Theorem 5: what is in fast memory at one moment counts SAME_MOMENT times.
SAME_MOMENT = 1
# Theorem 5: a stay loses CROSSED·G pairs that it meets in part, CROSSED·A of a row's.
CROSSED = 4
# Lemma 3: WIDEST times the words of a side that are there at most at a step.
WIDEST = 1
# Lemma 4: words of rows at one moment count MOMENT times, what columns pay ONE_MORE times.
MOMENT = 1
ONE_MORE = 1
# Lemma 4: D products with pairs that cross cost ROOTS·√D words of columns and pairs.
ROOTS = 2
# Theorem 6: a row word with one stay loses ENDS·B pairs that it meets in part.
ENDS = 2
# Lemma 4: an entry of O with two stays moves MORE_MOVES words more than it has stays.
MORE_MOVES = 1
# Theorems 7 and 8: a point costs CHAIN times the columns that its row meets.
CHAIN = 1
# Theorem 7: a row word with two stays, or in a spoiled row, moves AGAIN words more.
AGAIN = 1
# Theorem 5's corollary: a word of Q that comes again saves AGAIN_SAVES·(1/v − 1) words.
AGAIN_SAVES = 1
# Lemma 6: words that are late, filling or steep are LEFT_OUT·κ for each time it can be so.
LEFT_OUT = 1
# Theorem 9: late and bad words take ALL_LEFT_OUT·nκ/W of all stays at most.
ALL_LEFT_OUT = 6
# Game of whole rows: a cut saves SAVED·m loads.
SAVED = 1

# How many random executions and sizes the sampled steps draw, and the step from one size of fast
# memory to the next, in hundredths of N·D, where sweeps are counted.
EXECUTIONS = 300
SIZES = 250
STEP = 1
