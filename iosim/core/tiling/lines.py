"""Occupancies as lines in one tile, and from above without the tiles of loops."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from iosim.core.counting.closed import Level
from iosim.core.counting.poly import Atom, Clip, Part, Poly, Sum, names_of
from iosim.core.program.index import Affine, Span, Tile


def depends(atom: Atom | Affine, names: Collection[str]) -> bool:
    """Whether an atom changes with any of these names."""
    found = Poly.of(atom).names() if isinstance(atom, Affine) else names_of(atom)
    return not found.isdisjoint(names)


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


def largest_words(level: Level, axis_of: Mapping[str, str]) -> Poly | None:
    """An occupancy that none of a level's iterations passes; None if none is known.

    A tile is no longer than its step and its axis, and a span that follows it no longer than its
    axis, or than what it is within.  With nothing subtracted, words rise with both.

    Args:
        axis_of: hold → its axis.
    """
    words, steps = level.words, {x.tile: x.step for x in level.over}
    for atom in words.atoms():
        inner: Any = atom
        clips: list[str] = []
        while isinstance(inner, Clip):
            inner, clips = inner.length, [*clips, inner.step]
        if not isinstance(inner, (Tile, Part, Sum)):
            continue
        most = _most(inner, steps, axis_of)
        if most is None or any(c < 0 and atom in m for m, c in words.terms.items()):
            return None
        for step in reversed(clips):
            most = Clip(Affine.of(most) if isinstance(most, str) else most, step)
        words = words.replace(atom, Poly.of(most))
    return words


def _most(
    atom: Tile | Part | Sum, steps: Mapping[Tile, str | None], axis_of: Mapping[str, str]
) -> str | Clip | None:
    """What a length is at most."""
    match atom:
        case Tile() if (step := steps.get(atom)) is not None:
            return Clip(Affine.of(atom.axis), step)
        case Part(Span(axis, within=within), None):
            holds = (W for W in axis_of if axis_of[W] == axis)
            ends = {Affine(), *map(Affine.of, (axis, *holds))}
            if within is not None and within[0] in ends and within[1] in ends:
                low, high = within
                if low == Affine() or high == Affine.of(axis):  # so low ≤ high
                    return Clip(high - low, axis)
            return axis
        case _:
            return None
