"""Words with sums over tiles, written so that bounds of their atoms bound them closely.

A bound of a box takes every atom at its own worst.  So what two atoms share is better written
once, where the difference of two terms is never negative:

* of d·Σ − W·Σ, with a stationary part W of at most d, is made (d − W)·Σ;
* of a·Σ|… within 0:W| + b·Σ|… within W:N| with a ≤ b is made a·Σ|…| + (b − a)·Σ|… within W:N|.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iosim.core.counting.poly import Atom, Clip, Part, Poly, Sum
from iosim.core.program.index import Affine


def regrouped(words: Poly, axis_of: Mapping[str, str]) -> Poly:
    """Equal words; those without sums over tiles stay as they are.

    Args:
        axis_of: hold → its axis; a stationary part is at most its axis.
    """
    for atom in sorted((x for x in words.atoms() if isinstance(x, Sum)), key=str):
        words = _joined(words, atom, axis_of)
    for hold, axis in axis_of.items():
        words = _with_rest(words, hold, axis)
    return words


def _with_rest(words: Poly, hold: str, axis: str) -> Poly:
    """d − W as an atom, where a sum is subtracted W times and added d times."""
    rest = Clip(Affine.of(axis) - hold, axis)
    for monomial, c in words.terms.items():
        if c < 0 and hold in monomial and any(isinstance(x, Sum) for x in monomial):
            others = Poly({(): 1})
            left = list(monomial)
            left.remove(hold)
            for atom in left:
                others = others * Poly.of(atom)
            # −W = (d − W) − d
            here = others * Poly.of(-c)
            added = here * (Poly.of(rest) + Poly.of(hold) - Poly.of(axis))
            new = words + added
            if sum(x < 0 for x in new.terms.values()) < sum(x < 0 for x in words.terms.values()):
                words = new
    return words


def _joined(words: Poly, first: Sum, axis_of: Mapping[str, str]) -> Poly:
    """A sum up to a stationary part and the same from there on as one over both, and the second."""
    for k, part in enumerate(first.factors):
        if not isinstance(part, Part) or part.step is not None or part.span.within is None:
            continue
        low, high = part.span.within
        axis = part.span.axis
        if low != Affine() or not any(high == Affine.of(W) and axis_of[W] == axis for W in axis_of):
            continue

        def of(within: tuple[Affine, Affine] | None, part: Part = part, k: int = k) -> Sum:
            factors: list[Atom] = list(first.factors)
            factors[k] = replace(part, span=replace(part.span, within=within))
            return replace(first, factors=tuple(factors))

        second = of((high, Affine.of(axis)))
        if second in words.atoms():
            return words.replace(first, Poly.of(of(None)) - Poly.of(second))
    return words
