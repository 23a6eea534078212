"""The constants that attention_backward.md states; each step reads them here when it runs."""

from __future__ import annotations

# Theorem 2: 4d·w ≤ INNER·αβ for an inner pair, and w ≤ αβ/4d + EXCESS·d for another.
INNER = 1
EXCESS = 1
# Theorem 2 holds without lower-order terms from WHOLE·d² words on.
WHOLE = 12
# Theorem 3: a crossing kind of a pair does LOSS·r²L/4 more than its words account for; of two
# each BOTH·E·r²L/2 where that is more.
LOSS = 1
BOTH = 1
# Theorem 3: its T begins where ν²/2 + υ = FROM·μ.
FROM = 1
# Lemma 1: the weight of S is STEEP·s.
STEEP = 1
# Theorem 4: a segment's charged work is at most ROOT·T√T/3√3 where it is most without charges.
ROOT = 1

# Theorem 5: CHARGED times what a crossing pair and kind may do beyond their words.
CHARGED = 1
# Theorem 5: APART·m is the charge of an inner δ with a crossing σ, where sums are made again.
APART = 1
# Theorem 8: the charge of Theorem 4 in it is TOGETHER·m.
TOGETHER = 1

# Theorem 6, in 14ths of a pair: what a visit brings for each of its incidents, and the visits
# without incidents for each of their pair's.
VISIT = 8
FREE = 3
# Theorem 6: the norm of its weights.
NORM = 4.82
# Theorem 7: what a pair that is all there but for words of K and V is worth, its meetings aside.
EXTRA = 2
# Theorem 7: a word adds GAIN·γT to Φ at most.
GAIN = 1
# Theorem 7: its segments and memory, in units of 14d²/u, have CORNER·(M + S) ≤ MS.
CORNER = 1

# How many random executions the sampled steps draw.
EXECUTIONS = 300
