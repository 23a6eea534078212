"""What a program's closed form says about a search, before any number is known.

Nests that share no free parameter are searched apart.  Signs of the closed form prove three facts
(`iosim.counting.signs`), each of which makes the search faster, and none of which is assumed:

* a tile on which the count doesn't depend, and which takes more the larger it is, is *spare*: it
  sits at its least, and gets the words that are left over in the end;
* where no parameter moves more words as it grows, a box moves least at its upper corner;
* a tile that moves less and takes more as it grows can be *solved* for: of what fits beside the
  others the largest is best, and since occupancy is linear in it, a division finds that.

(A larger hold W may take *fewer* words, since less is streamed beside it: d − W < B.  So holds are
never solved for.)
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from iosim.counting.closed import Atom, Level, Nest, Poly, close
from iosim.counting.signs import falls_with, rises_with
from iosim.program.ir import Affine, Program


def depends(atom: Atom, names: Collection[str]) -> bool:
    """Whether an atom changes with any of these names."""
    return not Poly.of(atom).names().isdisjoint(names)


@dataclass(frozen=True)
class Line:
    """An occupancy that is linear in a tile: base + slope·min(length, tile).

    Attributes:
        atom: the tile, clipped or as it is; None where the occupancy doesn't depend on it.
        runs: lengths of the loops that must not be empty for it.
    """

    base: Poly
    slope: Poly
    atom: Atom | None
    runs: frozenset[Affine]


@dataclass(frozen=True)
class Plan:
    """The search in nests that share parameters.

    Attributes:
        total: words moved.
        levels: the peak is the largest of these.
        searched: parameters to search, holds first.
        spare: tiles that only take room.
        solvable: tiles of `searched` that can be solved for.
        lowest: parameters of `searched` that take least at their least.
        holds: those of `searched` that are holds.
        falls: no parameter moves more as it grows.
        lines: the levels as lines in a tile that is spare or solvable; None where they aren't.
    """

    total: Poly
    levels: tuple[Level, ...]
    searched: tuple[str, ...]
    spare: tuple[str, ...]
    solvable: tuple[str, ...]
    lowest: frozenset[str]
    holds: tuple[str, ...]
    falls: bool
    lines: Mapping[str, tuple[Line, ...] | None]


@functools.lru_cache(maxsize=256)
def plans(program: Program, given: frozenset[str]) -> tuple[Plan, ...]:
    """One for each group of nests that share a parameter which is not given."""
    free = [p for p in program.params if p.name not in given]
    axis_of = {p.name: p.axis for p in program.params if p.least == 0}
    return tuple(
        _plan(group, [p.name for p in free if p.name in _names(group)], axis_of)
        for group in _groups(close(program).nests, {p.name for p in free})
    )


def _plan(nests: list[Nest], free: list[str], axis_of: dict[str, str]) -> Plan:
    total = sum((nest.total for nest in nests), Poly())
    levels = tuple(level for nest in nests for level in nest.peak)
    steps = [k for k in free if k not in axis_of]
    # A tile that bounds a part of an axis also decides which loops run.
    bounds = {name for v in levels for length in v.runs for name, _ in length.terms}
    rises = {
        k: k not in bounds and all(rises_with(v.words, k, axis_of) for v in levels) for k in steps
    }
    falls = {k: falls_with(total, k, axis_of) for k in free}
    spare = tuple(k for k in steps if rises[k] and k not in total.names())
    holds = [k for k in free if k in axis_of]
    searched = [k for k in steps if k not in spare]
    solvable = tuple(k for k in searched if rises[k] and falls[k])
    return Plan(
        total=total, levels=levels, searched=(*holds, *searched), spare=spare, solvable=solvable,
        lowest=frozenset(k for k in steps if rises[k]), holds=tuple(holds),
        falls=all(falls.values()), lines={k: _lines(levels, k) for k in (*spare, *solvable)},
    )  # fmt: skip


def _names(nests: Iterable[Nest]) -> set[str]:
    polys = [
        p
        for nest in nests
        for p in (nest.total, *(p for v in nest.peak for p in (v.words, *map(Poly.of, v.runs))))
    ]
    return set().union(*(poly.names() for poly in polys))


def _groups(nests: Iterable[Nest], params: Collection[str]) -> list[list[Nest]]:
    groups: list[list[Nest]] = []
    for nest in nests:
        mine = _names([nest]) & set(params)
        kin = [g for g in groups if _names(g) & mine]
        groups = [g for g in groups if g not in kin] + [[n for g in kin for n in g] + [nest]]
    return groups


def _lines(levels: tuple[Level, ...], tile: str) -> tuple[Line, ...] | None:
    """Occupancies as lines in a tile that they rise with; None where one isn't linear."""
    found = []
    for level in levels:
        atoms = [a for a in level.words.atoms() if depends(a, {tile})]
        if len(atoms) > 1 or any(m.count(a) > 1 for a in atoms for m in level.words.terms):
            return None
        atom = atoms[0] if atoms else None
        if atom is None:
            found.append(Line(level.words, Poly(), None, level.runs))
            continue
        slope = level.words.slope(atom)
        found.append(Line(level.words - Poly.of(atom) * slope, slope, atom, level.runs))
    return tuple(found)
