"""How many experts of a mixture a step reads: the least, the expected number, or one of your own.

Each token goes to k different experts of n.  All tokens may go to the same k, so k is the least
that routing allows.  If each token's choice is uniform and independent of the others', an expert
gets none of T tokens with probability (1 − k/n)ᵀ, and n (1 − (1 − k/n)ᵀ) experts are expected to be
read.

`blocks` and `workload` ask it, and ``iosim fuse`` and ``roofline`` for ``--experts``.

>>> routing = Routing(8, 2, tokens=3)
>>> routing.read, f"{routing.expected:.3f}", Routing(8, 2, tokens=3, choice=5).read
(2, '4.625', 5)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iosim.base.errors import InputError, closest
from iosim.base.rows import Row
from iosim.base.validate import whole_number

CHOICES = ("least", "expected")


@dataclass(frozen=True)
class Routing:
    """Tokens and experts.

    Attributes:
        experts: how many there are in a layer.
        per_token: how many each token goes to.
        tokens: of a step, all sequences together.
        choice: ``least``, ``expected``, or a number of experts.  A number above what the tokens can
            reach counts as what they can.

    Raises InputError for another choice, and for a number that no routing of many tokens has.
    """

    experts: int
    per_token: int
    tokens: int
    choice: str | int = CHOICES[0]

    def __post_init__(self) -> None:
        number = whole_number(self.choice)
        if number is None and self.choice not in CHOICES:
            raise InputError(
                f"experts {self.choice!r}: {closest(str(self.choice), CHOICES)}, or a number"
            )
        if number is not None and not self.per_token <= number <= self.experts:
            raise InputError(
                f"{number:,} experts can't be all that is read: each token goes to "
                f"{self.per_token} of {self.experts}; give {self.per_token} to {self.experts}"
            )

    @property
    def read(self) -> float:
        """Experts that a layer reads; a fraction only where they are expected."""
        if self.choice == "expected":
            return self.expected
        number = whole_number(self.choice)
        return self.per_token if number is None else min(number, self.per_token * self.tokens)

    @property
    def expected(self) -> float:
        """Experts that uniform routing is expected to read."""
        missed = 1 - self.per_token / self.experts
        if missed == 0 or self.tokens == 1:
            return self.per_token
        return -self.experts * math.expm1(self.tokens * math.log(missed))

    @property
    def says(self) -> str:
        """In words, for people."""
        if self.choice == "expected":
            how = "as uniform routing expects"
        else:
            least = "the least that routing allows; " if self.read == self.per_token else ""
            how = f"{least}uniform routing expects {self.expected:.4g}"
        return f"reads {self.read:.4g} of {self.experts:,} experts a layer ({how})"

    def to_dict(self) -> Row:
        """For scripts."""
        return {
            "choice": self.choice,
            "read": self.read,
            "of": self.experts,
            "per_token": self.per_token,
            "tokens": self.tokens,
            "expected": self.expected,
        }
