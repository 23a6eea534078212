"""A bound on real numbers: what a box moves at least, however trip counts are rounded.

Let s be the tile that is solved for, x the other tile that is branched on, and W the
stationary parts.  Where

    words = rest + a·⌈X/x⌉ + c·⌈S/s⌉   and   base + slope·s ≤ M

with base = r + t·x and slope = p + q·x, a tiling that fits moves at least

    rest + a·X/x + c·S·(p + q·x)/(M − r − t·x).

None of a, c, p, q, t is negative, so this is convex in x, with its least at
x = D/(t + √(c·S·(q·D + t·p)/(a·X))), D = M − r, or at an end of the box; and it is at most a given
number of words between the roots of a quadratic.  In a stationary part W it is a linear
function that doesn't fall, plus one linear function over another, whose second derivative has the
sign of the first as long as base doesn't fall: so it is least at an end of W.  Where neither r nor
t changes with W, what divides is the same for all W, and words at any x are linear in W, whatever
rest and a do: these are least at an end, too.

Corners of boxes pair the least a box can take with the most it can save; this pairs each x with
what then fits, and is far above them where boxes are large.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from iosim.core.counting.poly import Atom, Clip, Poly, Trips
from iosim.core.counting.signs import never_negative
from iosim.core.program.index import Affine
from iosim.core.tiling.lines import OccupancyLine, depends

_MOST_HOLDS = 2


@dataclass(frozen=True)
class Capacity:
    """A level as (p + q·x)·s ≤ M − r − t·x, where loops of these lengths run."""

    r: Poly
    t: Poly
    p: Poly
    q: Poly
    runs: frozenset[Affine]

    @property
    def size(self) -> int:
        """How many terms it has."""
        return sum(len(poly.terms) for poly in (self.r, self.t, self.p, self.q))


@dataclass(frozen=True)
class Relaxation:
    """The polynomials of the bound; `a` and `c` are a·X and c·S.

    Attributes:
        tile: x.
        holds: those that are branched on.
        capacities: the last that runs all over a box is taken.
    """

    tile: str
    holds: tuple[str, ...]
    rest: Poly
    a: Poly
    c: Poly
    capacities: tuple[Capacity, ...]


def relaxation(
    total: Poly,
    lines: Sequence[OccupancyLine],
    solved: str,
    searched: Sequence[str],
    axis_of: Mapping[str, str],
) -> Relaxation | None:
    """The bound, or None where its form isn't the one above or a sign can't be proved.

    Args:
        total: words moved.
        lines: the levels as lines in the tile that is solved for.
        searched: the parameters that are searched, that tile among them.
        axis_of: hold → its axis, of all stationary parts.
    """
    holds = tuple(k for k in searched if k in axis_of)
    # A stationary part of another nest says nothing here, and would hide that d − W ≥ 0.
    names = total.names().union(*(x.names() for line in lines for x in (line.base, line.slope)))
    axis_of = {k: axis for k, axis in axis_of.items() if k in names}
    tiles = [k for k in searched if k not in axis_of and k != solved]
    if len(tiles) != 1 or len(holds) > _MOST_HOLDS:
        return None
    (tile,) = tiles
    polys = [total, *(poly for line in lines for poly in (line.base, line.slope))]
    if not all(_is_plain(atom) for poly in polys for atom in poly.atoms()):
        return None
    outer = _split(total, solved, searched)
    inner = outer and _split(outer[1], tile, searched)
    if not outer or not inner or tile in outer[0].names():
        return None
    (c, _), (a, rest) = outer, inner
    proved = all(_plain(poly, axis_of) for poly in (a, c)) and all(
        _degree(poly, W) <= 1 for poly in (rest, a) for W in holds
    )
    leaning = [W for W in holds if not all(_line_that_rises(x, W, axis_of) for x in (rest, a))]
    found = [_capacity(x, tile, axis_of) for x in lines if x.atom == solved]
    capacities = [
        x
        for x in found
        if x
        and all(_fraction(c, x, W, axis_of) for W in holds)
        and not any(_degree(poly, W) for poly in (x.r, x.t) for W in leaning)
    ]
    if not proved or not capacities:
        return None
    # Those of the most terms are the tightest; one more is enough where that one may not run.
    capacities.sort(key=lambda capacity: capacity.size)
    always = [x for x in capacities[:-1] if not x.runs and capacities[-1].runs]
    return Relaxation(tile, holds, rest, a, c, (*always[-1:], capacities[-1]))


def _split(words: Poly, tile: str, searched: Collection[str]) -> tuple[Poly, Poly] | None:
    """Words as factor·length/tile and a rest, where ⌈length/tile⌉ is all that depends on a tile."""
    atoms = [atom for atom in words.atoms() if depends(atom, {tile})]
    if not atoms:
        return Poly(), words
    atom, *others = atoms
    if others or not isinstance(atom, Trips) or _degree(words, atom) > 1:
        return None
    if atom.step != tile or _changes(atom.length, searched):
        return None
    factor = words.slope(atom)
    return factor * Poly.of(atom.length), words - factor * Poly.of(atom)


def _capacity(line: OccupancyLine, tile: str, axis_of: Mapping[str, str]) -> Capacity | None:
    """A line as a capacity, where it is linear in x and no factor is negative."""
    atoms = [x for poly in (line.base, line.slope) for x in poly.atoms() if depends(x, {tile})]
    if any(atom != tile for atom in atoms) or any(_changes(x, {tile}) for x in line.runs):
        return None
    if max(_degree(line.base, tile), _degree(line.slope, tile)) > 1:
        return None
    t, q = line.base.slope(tile), line.slope.slope(tile)
    r, p = line.base - t * Poly.of(tile), line.slope - q * Poly.of(tile)
    return Capacity(r, t, p, q, line.runs) if all(_plain(x, axis_of) for x in (t, p, q)) else None


def _fraction(c: Poly, capacity: Capacity, hold: str, axis_of: Mapping[str, str]) -> bool:
    """Whether c·slope/(M − base) is one linear function over another in a stationary part."""
    top = _degree(c, hold) + max(_degree(capacity.p, hold), _degree(capacity.q, hold))
    return top <= 1 and all(_line_that_rises(x, hold, axis_of) for x in (capacity.r, capacity.t))


def _line_that_rises(poly: Poly, hold: str, axis_of: Mapping[str, str]) -> bool:
    return _degree(poly, hold) <= 1 and _plain(poly.slope(hold), axis_of)


def _plain(poly: Poly, axis_of: Mapping[str, str]) -> bool:
    """Whether it is never negative, also with trip counts and clipped extents at their least."""
    return never_negative(poly, axis_of) and all(
        c > 0 or all(isinstance(atom, str) for atom in m) for m, c in poly.terms.items()
    )


def _is_plain(atom: Atom) -> bool:
    """Whether an atom is not a sum over tiles, and follows no tile."""
    counted = isinstance(atom, (Trips, Clip)) and isinstance(atom.length, Affine)
    return isinstance(atom, str) or counted


def _changes(length: Affine, names: Collection[str]) -> bool:
    return not Poly.of(length).names().isdisjoint(names)


def _degree(poly: Poly, atom: Atom) -> int:
    return max((m.count(atom) for m in poly.terms), default=0)
