"""Occupancies as lines in one tile."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from iosim.core.counting.closed import Level
from iosim.core.counting.poly import Atom, Clip, Poly
from iosim.core.program.index import Affine


def depends(atom: Atom | Affine, names: Collection[str]) -> bool:
    """Whether an atom changes with any of these names."""
    return not Poly.of(atom).names().isdisjoint(names)


@dataclass(frozen=True)
class OccupancyLine:
    """An occupancy that is linear in a tile: base + slope·min(length, tile).

    Attributes:
        atom: the tile, clipped or as it is; None where the occupancy doesn't depend on it.
        runs: lengths of the loops that must not be empty for it.
        level: where it is over iterations, which differ in all of this.
    """

    base: Poly
    slope: Poly
    atom: Atom | None
    runs: frozenset[Affine]
    level: Level | None = None


def lines(
    levels: tuple[Level, ...], tile: str, smaller: Collection[str] = ()
) -> tuple[OccupancyLine, ...] | None:
    """Occupancies as lines in a tile that they rise with; None where one isn't linear.

    Args:
        smaller: tiles that are never more than it, so that min(length, tile, smaller) is
            min(length, smaller).
    """
    found = []
    for level in levels:
        over = level if level.over else None
        words = level.words
        for old in words.atoms():
            if (new := _without(old, tile, smaller)) != old:
                words = words.replace(old, Poly.of(new))
        atoms = [a for a in words.atoms() if depends(a, {tile})]
        if len(atoms) > 1 or any(m.count(a) > 1 for a in atoms for m in words.terms):
            return None
        runs = frozenset(x for x in level.runs if isinstance(x, Affine))  # of no open loop
        atom = atoms[0] if atoms else None
        if atom is None:
            found.append(OccupancyLine(words, Poly(), None, runs, over))
            continue
        slope = words.slope(atom)
        base = words - Poly.of(atom) * slope
        if isinstance(atom, Clip):
            if isinstance(atom.length, Affine) and atom.length == Affine.of(tile):
                atom = Clip(Affine.of(atom.step), tile)  # a minimum has no order
            if atom.step != tile or depends(atom.length, {tile}):
                return None
        elif atom != tile:
            return None
        found.append(OccupancyLine(base, slope, atom, runs, over))
    return tuple(found)


def _without(atom: Atom, tile: str, smaller: Collection[str]) -> Atom:
    """A minimum of a tile and a smaller one, without the tile."""
    if not isinstance(atom, Clip):
        return atom
    if atom.step in smaller:
        if atom.length == Affine.of(tile):
            return atom.step
        if isinstance(atom.length, Clip) and atom.length.step == tile:
            return replace(atom, length=atom.length.length)
    if atom.step == tile:
        return next((x for x in smaller if atom.length == Affine.of(x)), atom)
    return atom


def tilted(line: OccupancyLine, hold: str | None) -> tuple[Poly, Poly]:
    """A line's base as flat + hold·tilt, where it is over iterations; else all of it is flat."""
    if hold is None or line.level is None:
        return line.base, Poly()
    tilt = line.base.slope(hold)
    return line.base - tilt * Poly.of(hold), tilt
