"""The constants that constant_tight.md states; each step reads them here when it runs."""

from __future__ import annotations

from fractions import Fraction

# Lemma 3: E ≤ g(P + p) − SHARP·d·pP.
SHARP = 1
# Lemma 3: (√(q₁k₁) + √(q₂k₂))² is at most this times (q₁ + q₂)(k₁ + k₂).
TOGETHER = 1
# Theorem 2: Q ≥ CONSTANT·Πd²/M from FROM·d² on, with these multipliers.
CONSTANT = 4
FROM: dict[str, Fraction] = {"once": Fraction(5, 2), "recompute": Fraction(9, 2)}
ONCE: tuple[Fraction, Fraction] = (Fraction(11, 100), Fraction(36, 100))
RECOMPUTE: tuple[Fraction, Fraction] = (Fraction(8, 5), Fraction(1, 25))
# Theorem 4: what a segment's second products are compared with is this times the cap.
SECOND = Fraction(1)
# Section 9: by how much the bound for `recompute` is below that for `once`, at most.
RECOMPUTING = Fraction(9, 100)
# Section 7, remark: a sum made in J stays costs at least STAY·J − 1 transfers.
STAY = 2

# By how much each inequality of `accounting` is made stronger: 0, but in tests that break it.
STRONGER: dict[str, float] = dict.fromkeys(
    (
        "events",
        "words",
        "free starts",
        "inner, Q and K",
        "inner, O and V",
        "all products of pairs, first",
        "all products of pairs, second",
        "Loomis and Whitney, first",
        "Loomis and Whitney, second",
        "every first product",
        "every second product",
        "next visits",
        "pairs once",
        "segments",
    ),
    0.0,
)

# What share of a face a search must find.
REACHED = 0.99

# How many random cases the sampled steps draw.
EXECUTIONS = 600
TREE_EXECUTIONS = 800
SETS = 1500
SHAPES = 400
SEARCHES = 30
CERTIFICATES = 300
