"""Numbers with which Theorems 5, 6 and 8 of the backward pass are used.

Each record is valid by itself: the steps `charges`, `beside-crossing`, `mixed` and
`blended` of proofs/attention_backward.md decide the inequalities that it has to fulfil.  Sizes
are those for d = d_v = 1.

`iosim.bounds.backward` makes bounds of the records.  A new record is one more in its tuple, and
must pass the steps of the proof: ``tests/bounds/test_backward_bounds.py`` runs them, and plants
errors in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Charges:
    """Weights of products, the charge of a pair, and what they give: see Theorem 5.

    Attributes:
        again: whether sums of a pair may be computed again (class `recompute`).
        s, v, p, r: weights of the products S, V, P, and of Q and K.
        m: charge of a pair and kind that is inner, or has a free start and no paid visit.
        kappa: an inner pair's charged work, divided by words of its row times words of its column.
        e: what a crossing pair and kind do beyond that.
        h: the norm of the weights in Lemma 1.
        T: events and words of a segment, divided by d².
        c: the most charged work of a segment, divided by d³.

    >>> AGAIN[0].work > 0
    True
    """

    again: bool
    s: Fraction
    v: Fraction
    p: Fraction
    r: Fraction
    m: Fraction
    kappa: Fraction
    e: Fraction
    h: Fraction
    T: Fraction
    c: Fraction

    @property
    def work(self) -> Fraction:
        """The charged work of the whole problem, divided by its pairs and d."""
        return self.s + self.v + self.p + 2 * self.r - 2 * self.m


def _charges(again: bool, numbers: str) -> Charges:
    return Charges(again, *map(Fraction, numbers.split()))


# One accumulator a sum, or trees; those of `AGAIN` hold there, too.
ONCE = (
    _charges(False, "0.947 1.039 1.035 0.98 0.382 0.40101 0.6586 1.11933 6.86 4.7188"),
    _charges(False, "0.861 1.068 1.036 1.036 0.398 0.38276 0.7024 1.139 7.77 5.7773"),
    _charges(False, "0.861 1.073 1.033 1.033 0.567 0.34176 0.7815 1.13639 8.49 6.1588"),
    _charges(False, "0.732 1.135 1.066 1.066 0.536 0.33276 0.8538 1.13501 10.26 8.7602"),
)
# The last one's work is 12·kappa, and from its T on its c is kappa·T²/4.
AGAIN = (
    _charges(True, "1.015 1.015 1.045 0.925 0.716 0.35973 0.716 1.1064 5.62 2.8406"),
    _charges(True, "1.01 1.01 1.052 0.928 0.798 0.31959 0.8008 1.10613 7.11 4.0392"),
    _charges(True, "1.014 1.002 1.056 0.928 0.878 0.28985 0.878 1.10798 8.58 5.3346"),
    _charges(True, "0.929 1.054 1.035 0.981 0.929 0.26764 1.0105 1.11377 11.58 8.9727"),
    _charges(True, "1.002 0.97 1.03 1.02 0.993 191/750 1.1397 1.17099 14.5 160631/12000"),
)


@dataclass(frozen=True)
class Blend:
    """Theorem 4's work, and a share of Theorem 5's with one of its records: see Theorem 8.

    Attributes:
        of: the record of Theorem 5.
        share: what its work counts for.
        m: the charge in Theorem 4.
        T, c: as those of `Charges`, for both together.

    >>> BLEND.work > BLEND.of.work
    True
    """

    of: Charges
    share: Fraction
    m: Fraction
    T: Fraction
    c: Fraction

    @property
    def work(self) -> Fraction:
        """The charged work of the whole problem, divided by its pairs and d; 2.598 < 3√3/2."""
        return 2 + Fraction("2.598") - 2 * self.m + self.share * self.of.work


BLEND = Blend(AGAIN[0], *map(Fraction, ("0.42", "0.555", "3.45", "1.79271")))


@dataclass(frozen=True)
class Mixture:
    """Shares of two bounds on a segment's work, and how long the segment is: see Theorem 6.

    Attributes:
        T: words and cost of a segment, divided by d².
        share: what the bound by words that meet counts for; the one of Theorem 3 counts for the
            rest.

    >>> MIXTURES[-1].lines
    Fraction(14, 1)
    """

    T: Fraction
    share: Fraction

    @property
    def lines(self) -> Fraction:
        """L: a segment does T²/4L pairs at most; 12 to 14."""
        return 84 / (7 - self.share)


# The last one holds for every T from its own on.
MIXTURES = tuple(
    Mixture(Fraction(T), Fraction(share))
    for T, share in (
        ("11.75", "0.125"),
        ("12.75", "0.23"),
        ("14.75", "0.33"),
        ("17.25", "0.45"),
        ("20", "0.575"),
        ("23", "0.705"),
        ("26.5", "0.85"),
        ("30.5", "1"),
    )
)
