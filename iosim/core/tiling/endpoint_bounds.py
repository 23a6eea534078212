"""Bounds at the ends of a stationary part: what words save and what room they leave, at once.

Let W be a stationary part of an axis of D positions.  Words with sums over tiles that are linear
in it,

    words = flat + W·by_hold + (D − W)·by_rest,

are least at an end of W, whatever the rest of a box is: corners would pair the least W with the
least D − W.  The tile s that is solved for takes what is left with W.  Where

    words ≥ rest + W·by_hold + (flow + (D − W)·by_rest)/s   and   base + W·tilt + slope·s ≤ M,

with |x|·⌈length/s⌉ taken for |x|·length/s, words at W are at least a linear function that doesn't
fall and one linear function over another, whose second derivative has the sign of the first as
long as no tilt is negative: so they are least at an end of W, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from iosim.core.counting.poly import Atom, Clip, Monomial, Part, Poly, Sum
from iosim.core.program.index import Affine
from iosim.core.tiling.lines import depends


@dataclass(frozen=True)
class Leaning:
    """Words as flat + W·by_hold + (D − W)·by_rest."""

    flat: Poly
    by_hold: Poly
    by_rest: Poly


@dataclass(frozen=True)
class Ends:
    """Words by a stationary part.

    Attributes:
        hold, axis: W and its axis.
        words: all of them.
        shared: solvable tile → the rest and what is divided by the tile, where they have the form
            above.
    """

    hold: str
    axis: str
    words: Leaning
    shared: Mapping[str, tuple[Leaning, Leaning]]


def find_bounds(
    total: Poly, holds: Collection[str], axis_of: Mapping[str, str], solvable: Collection[str]
) -> Ends | None:
    """The bounds for the first stationary part that has them.

    Args:
        holds: those that words may rise with.
        axis_of: hold → its axis.
    """
    if not any(isinstance(atom, Sum) for atom in total.atoms()):
        return None
    for hold in holds:
        words = _leaning(total, hold, axis_of[hold])
        if words is not None:
            found = {k: _shared(total, hold, axis_of[hold], k) for k in solvable}
            return Ends(hold, axis_of[hold], words, {k: x for k, x in found.items() if x})
    return None


def _leaning(words: Poly, hold: str, axis: str) -> Leaning | None:
    """Words by a stationary part; None where one of their terms is not linear in it."""
    rest = Clip(Affine.of(axis) - hold, axis)
    parts: dict[Atom | None, dict[Monomial, int]] = {None: {}, hold: {}, rest: {}}
    for monomial, c in words.terms.items():
        own = [atom for atom in monomial if depends(atom, {hold})]
        if len(own) > 1 or not all(atom in parts for atom in own):
            return None
        which = own[0] if own else None
        parts[which][tuple(atom for atom in monomial if atom != which)] = c
    return Leaning(*map(Poly, parts.values()))


def _shared(total: Poly, hold: str, axis: str, tile: str) -> tuple[Leaning, Leaning] | None:
    """Words without the terms with trips of a tile, and these terms times the tile."""
    rest, flow = dict(total.terms), Poly()
    for monomial, c in total.terms.items():
        own = [atom for atom in monomial if depends(atom, {tile})]
        if not own:
            continue
        whole = _unrounded(own[0], tile)
        if len(own) > 1 or whole is None or c < 0:
            return None
        del rest[monomial]
        flow = flow + Poly({tuple(a for a in monomial if a != own[0]): c}) * Poly.of(whole)
    parts = _leaning(Poly(rest), hold, axis), _leaning(flow, hold, axis)
    if parts[0] is None or parts[1] is None or parts[0].by_rest.terms or parts[1].by_hold.terms:
        return None
    rises = all(c > 0 for c in parts[0].by_hold.terms.values())
    return (parts[0], parts[1]) if rises and flow.terms else None


def _unrounded(atom: Atom, tile: str) -> Sum | None:
    """A sum with one rounding, by a tile, without it."""
    if not isinstance(atom, Sum):
        return None
    factors = tuple(
        replace(x, step=None) if isinstance(x, Part) and x.step == tile else x for x in atom.factors
    )
    whole = replace(atom, factors=factors)
    changed = sum(a != b for a, b in zip(atom.factors, factors, strict=True))
    return whole if changed == 1 and not depends(whole, {tile}) else None
