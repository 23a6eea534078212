"""Proofs by signs: whether a count falls, or an occupancy rises, as a parameter grows.

A polynomial whose terms all have one sign has that sign, since sizes, parameters, trip counts and
clipped extents are never negative.  `False` means that no proof was found, not that the opposite
holds.

`iosim.core.tiling` asks it.  A wrong proof makes a search miss the optimum:
``tests/core/test_masked_tiles.py`` and ``tests/core/test_tiling.py`` compare with every tile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from iosim.core.counting.poly import Clip, Part, Poly, Sum, Trips, names_of
from iosim.core.program.index import Affine, Edge, Span, Tile


def rises_with(words: Poly, tile: str, holds: Mapping[str, str]) -> bool:
    """Whether an occupancy never falls as a tile grows.

    Args:
        holds: hold → its axis; a hold is at most its axis.
    """
    for atom in words.atoms():
        if isinstance(atom, Clip) and (touches := _clipped(atom, tile)) is not None:
            touched = touches
        elif atom != tile and tile in names_of(atom):
            return False  # of a length that follows a tile nothing is proved
        else:
            touched = atom == tile
        if touched and not never_negative(words.slope(atom), holds):
            return False
    return True


def _clipped(atom: Clip, tile: str) -> bool | None:
    """Whether a clipped extent rises with a tile or doesn't depend on it; None: not proved."""
    match atom.length:
        case Affine() as length:
            signs = {c > 0 for name, c in length.sizes if name == tile}
            return None if False in signs else atom.step == tile or True in signs
        case Clip() as length:
            inner = _clipped(length, tile)
            return None if inner is None else inner or atom.step == tile
        case length:
            known = isinstance(length, Tile) or tile not in names_of(length)
            return atom.step == tile if known else None


def falls_with(
    words: Poly, name: str, holds: Mapping[str, str], limits: Collection[str] = ()
) -> bool:
    """Whether a count never rises as a tile or a hold grows; arguments as for `rises_with`.

    Args:
        limits: sizes that may be 0.
    """
    if name in holds:
        words = _with_last_tile(words, name, holds[name])
    for atom in words.atoms():
        slope = words.slope(atom)
        if atom == name:
            if not all(c < 0 for c in _at_least_once(slope, {*holds, *limits}).terms.values()):
                return False
        elif isinstance(atom, (Trips, Clip)) and isinstance(atom.length, Affine):
            signs = {c > 0 for n, c in atom.length.terms if n == name}
            if atom.step == name:
                signs.add(isinstance(atom, Clip))
            # The atom falls as the name grows, so what multiplies it must be positive.
            if True in signs or (signs and not never_negative(slope, holds)):
                return False
        elif name in names_of(atom) and not (
            isinstance(atom, Sum) and _sum_falls(atom, name) and never_negative(slope, holds)
        ):
            return False
    return True


def _sum_falls(atom: Sum, name: str) -> bool:
    """Whether a sum over tiles falls as a step grows: its own, or one of a rounding in it.

    With a larger step there are fewer tiles, and each starts and stops later.  So where every
    length falls as its tile moves on, every term falls.
    """
    if atom.span.edges or name in names_of(Part(atom.span)):
        return False
    for factor in atom.factors:
        if isinstance(factor, Tile) and atom.step != name:
            continue
        if not isinstance(factor, Part) or name in names_of(Part(_past(factor.span, name))):
            return False
        moves = [
            (end, c)
            for end, bound in ((1, factor.span.start), (-1, factor.span.stop))
            for edge, c in bound.terms
            if isinstance(edge, Edge)
        ]
        if atom.step == name and any(end * c < 0 for end, c in moves):
            return False
        if any(edge.tile != atom.tile for edge in factor.span.edges):
            return False
    return True


def _past(span: Span, name: str) -> Span:
    """A span without the end of what it is within, where a name sets that: less is left past it."""
    if span.within is not None and span.within[0] == Affine.of(name):
        return replace(span, within=(Affine(), span.within[1]))
    return span


def _with_last_tile(words: Poly, hold: str, axis: str) -> Poly:
    """Sums over what is within W:N as what never rises with W, less W.

    A last tile that sees up to the end of the axis has all from W on, so the sum falls by one or
    more where W grows by one.
    """
    for atom in words.atoms():
        if not isinstance(atom, Sum) or len(atom.factors) != 1 or not atom.span.is_entire_axis:
            continue
        (part,) = atom.factors
        if not isinstance(part, Part) or part.step is not None or part.span.axis != axis:
            continue
        if part.span.start != Affine() or part.span.within != (Affine.of(hold), Affine.of(axis)):
            continue
        past = Affine(part.span.stop.const) - axis
        for name, c in part.span.stop.terms:
            at_end = name == atom.tile.edges[1]
            past = past + c * Affine.of(atom.span.axis if at_end else name)
        if not past.edges and past.const >= 0 and all(c > 0 for _, c in past.terms):
            words = words.replace(atom, Poly.of(f"{hold} + {atom}") - Poly.of(hold))
    return words


def never_negative(poly: Poly, holds: Mapping[str, str]) -> bool:
    """Whether no term is negative once each axis is its hold plus a rest (so d − W ≥ 0).

    Args:
        holds: as for `rises_with`.
    """
    for hold, axis in holds.items():
        poly = poly.replace(axis, Poly.of(hold) + Poly.of(f"{axis} − {hold}"))
    return all(c > 0 for c in poly.terms.values())


def _at_least_once(poly: Poly, zero: Collection[str]) -> Poly:
    """Write the trips t of loops that run at least once as 1 + t'.

    They are over a whole axis, or over a part that a tile size gives.

    Args:
        zero: names that may be 0.
    """
    for atom in poly.atoms():
        if isinstance(atom, Trips) and atom.length.const == 0:
            names = [n for n, c in atom.length.terms if c == 1]
            if len(atom.length.terms) == len(names) == 1 and names[0] not in zero:
                poly = poly.replace(atom, Poly.of(1) + Poly.of(f"{atom} − 1"))
    return poly
