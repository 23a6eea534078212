"""What a program's closed form says about a search, before any number is known.

Nests that share no free parameter are searched separately.  A tiling is valid where every span lies
inside its axis: that is a constraint on the parameters that spans name, unless the ranges of the
parameters imply it.  Signs of the closed form prove three facts
(`iosim.core.counting.signs`), each of which makes the search faster, and none of which is assumed:

* a tile on which the count doesn't depend, and which takes more the larger it is, is *spare*: it
  sits at its least, and gets the words that are left over in the end;
* a parameter that never moves more words as it grows is bounded at its upper end, so where all
  are such, a box moves least at its upper corner;
* a tile that moves less and takes more as it grows can be *solved* for: of what fits with the
  others the largest is best, and since occupancy is linear in it, a division finds that.

Tiles in constraints are neither spare nor solved for: a larger one may not be valid.  Nor are
holds: a larger one may take *fewer* words, since less is streamed with it (d − W < B).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iosim.core.counting.closed import Level, Nest, close
from iosim.core.counting.poly import Poly, Sum
from iosim.core.counting.signs import falls_with, rises_with
from iosim.core.program.canonical import as_data
from iosim.core.program.index import Affine, Span
from iosim.core.program.ir import Param, Program
from iosim.core.program.space import axes, fixed_spans, leasts
from iosim.core.tiling.candidates import trips_decide
from iosim.core.tiling.endpoint_bounds import Ends, find_bounds
from iosim.core.tiling.lines import OccupancyLine, largest_words, lines
from iosim.core.tiling.regroup import regrouped
from iosim.core.tiling.relax import Relaxation, relaxation


@dataclass(frozen=True)
class Plan:
    """The search in nests that share parameters.

    Attributes:
        params: those of these nests that are not given.
        form: what the search depends on, with numbers for the names of `params`: plans of a
            program that have the same form have the same answers.
        total: words moved, without the sizes that all of its terms share (`without_common_sizes`).
        levels: the peak is the largest of these.
        above: words that each level never passes, or None (`largest_words`).
        constraints: what a valid tiling makes at least 0.
        searched: parameters to search, stationary parts first.
        spare: tiles that only take room.
        solvable: tiles of `searched` that can be solved for.
        lowest: parameters of `searched` that take least at their least.
        holds: those of `searched` that are holds.
        falls: those of `searched` that never move more as they grow.
        lines: the levels as lines in a tile that is spare, or solvable while spare tiles are at
            their least; None where they aren't.
        relaxed: solvable tile → a bound on real numbers, or None.
        ends: bounds at the ends of a stationary part, or None.
        steps: tiles that words have sums over, at most one of them in every term.
    """

    params: tuple[str, ...]
    form: str
    total: Poly
    levels: tuple[Level, ...]
    above: tuple[Poly | None, ...]
    constraints: tuple[Affine, ...]
    searched: tuple[str, ...]
    spare: tuple[str, ...]
    solvable: tuple[str, ...]
    lowest: frozenset[str]
    holds: tuple[str, ...]
    falls: frozenset[str]
    lines: Mapping[str, tuple[OccupancyLine, ...] | None]
    relaxed: Mapping[str, Relaxation | None]
    ends: Ends | None
    steps: tuple[str, ...]


@dataclass(frozen=True)
class _Part:
    """What can't be searched separately: a nest, or a constraint."""

    names: frozenset[str]
    nest: Nest | None = None
    constraint: Affine | None = None


@functools.lru_cache(maxsize=256)
def plans(program: Program, given: frozenset[str]) -> tuple[Plan, ...]:
    """One for each group of nests and constraints that share a parameter which is not given."""
    free = [p for p in program.params if p.name not in given]
    parts = [_Part(frozenset(_names(nest)), nest) for nest in close(program).nests]
    needed = dict.fromkeys(c for span in fixed_spans(program) for c in _constraints(program, span))
    parts += [_Part(frozenset(Poly.of(c).names()), constraint=c) for c in needed]
    return tuple(
        _plan(
            group,
            [p for p in free if any(p.name in part.names for part in group)],
            {p.name: p.axis for p in program.params if p.least == 0},
            program,
        )
        for group in _groups(parts, {p.name for p in free})
    )


def always_valid(program: Program, span: Span) -> bool:
    """Whether a span lies inside its axis whatever the parameters are."""
    return not _constraints(program, span)


def _constraints(program: Program, span: Span) -> list[Affine]:
    """What has to be at least 0 for a span to lie inside its axis, and may not be."""
    needed = (span.start, span.length, Affine.of(span.axis) - span.stop)
    return [value for value in needed if not _never_negative(value, program)]


def _never_negative(value: Affine, program: Program) -> bool:
    """Whether the ranges of names imply it: from their least, and parameters up to their axis."""
    least, params = leasts(program), {p.name: p for p in program.params}
    total, axes = value.const, dict[str, int]()
    for name, c in value.sizes:
        if name in params and c < 0:
            axes[params[name].axis] = axes.get(params[name].axis, 0) + c
        elif name in params or name in program.limits:
            if c < 0:
                return False
            total += c * least[name]
        else:
            axes[name] = axes.get(name, 0) + c
    return all(c >= 0 for c in axes.values()) and total + sum(axes.values()) >= 0


def _plan(
    parts: list[_Part], params: list[Param], axis_of: dict[str, str], program: Program
) -> Plan:
    free, limits = [p.name for p in params], program.limits
    nests = [part.nest for part in parts if part.nest is not None]
    needed = tuple(part.constraint for part in parts if part.constraint is not None)
    words = sum((nest.total for nest in nests), Poly())
    total = regrouped(without_common_sizes(words, axes(program)), axis_of)
    levels = tuple(level for nest in nests for level in nest.peak)
    steps = [k for k in free if k not in axis_of]
    # A tile that bounds a part of an axis also decides which loops run, and what is valid.
    lengths = {*needed, *(length for v in levels for length in v.runs)}
    bounds = {name for length in lengths for name in Poly.of(length).names()}
    rises = {
        k: k not in bounds
        and all(k not in v.loop_names and rises_with(v.words, k, axis_of) for v in levels)
        for k in steps
    }
    # A stationary part of another nest would hide that d − W ≥ 0 for the part in these words.
    own = {k: axis for k, axis in axis_of.items() if k in total.names()}
    falls = {k: falls_with(total, k, own, limits) for k in free}
    spare = tuple(k for k in steps if rises[k] and k not in total.names())
    holds = [k for k in free if k in axis_of]
    searched = [k for k in steps if k not in spare]
    # The tile that is solved for decides between equal tilings.  Where only the parts of this nest
    # prove that words fall, that serves as a bound, and answers stay what they were.
    solvable = tuple(k for k in searched if rises[k] and falls_with(total, k, axis_of, limits))
    searched = [*holds, *searched]
    linear = {k: lines(levels, k) for k in spare}
    linear |= {k: lines(levels, k, _smaller(k, spare, params)) for k in solvable}
    decided = [trips_decide(program, k) for k in free]
    return Plan(
        params=tuple(free),
        form=form_of(total, levels, needed, params, decided),
        total=total,
        levels=levels,
        above=tuple(largest_words(v, axis_of) if v.over else v.words for v in levels),
        constraints=needed,
        searched=tuple(searched),
        spare=spare,
        solvable=solvable,
        lowest=frozenset(k for k in steps if rises[k]),
        holds=tuple(holds),
        falls=frozenset(k for k in searched if falls[k]),
        lines=linear,
        relaxed={k: relaxation(total, linear[k] or (), k, searched, axis_of) for k in solvable},
        ends=find_bounds(total, [k for k in holds if not falls[k]], axis_of, solvable),
        steps=_steps(total, searched),
    )


def form_of(
    total: Poly,
    levels: Sequence[Level],
    needed: Collection[Affine],
    params: Sequence[Param],
    decided: Sequence[bool],
) -> str:
    """All that a search depends on, as text in which a parameter's name is its number.

    Words, occupancies, validity and candidates decide the answer, and ties go by the order of
    parameters.  Names are whole strings in the text, and no string there looks like a number, so
    two forms are equal only where renaming parameters makes one search the other.
    """
    numbers = {json.dumps(p.name): f'"{k}"' for k, p in enumerate(params)}

    def as_text(*values: Any) -> str:
        text = json.dumps([as_data(x) for x in values])
        for name, number in numbers.items():
            text = text.replace(name, number)
        return text

    def terms(words: Poly) -> list[str]:
        return sorted(as_text(m, c) for m, c in words.terms.items())

    held = [
        [
            terms(v.words),
            sorted(map(as_text, v.runs)),
            [as_text(x.tile, x.span, x.step) for x in v.over],
        ]
        for v in levels
    ]
    kinds = [[p.axis, p.least, p.less, which] for p, which in zip(params, decided, strict=True)]
    return json.dumps([terms(total), sorted(held), sorted(map(as_text, needed)), kinds])


def without_common_sizes(words: Poly, sizes: Collection[str]) -> Poly:
    """Words divided by every size that is a factor of all terms.

    A size is at least 1 and no parameter, so at each point all tilings are divided by the same
    positive number: which of two moves fewer words, and which as many, stays.  Smaller numbers
    more often fit 64 bits.
    """
    for name in sizes:
        while words.terms and all(name in m for m in words.terms):
            terms = [(m, m.index(name), c) for m, c in words.terms.items()]
            words = Poly({m[:k] + m[k + 1 :]: c for m, k, c in terms})
    return words


def _smaller(tile: str, spare: Collection[str], params: Collection[Param]) -> list[str]:
    """Spare tiles that are never more than a tile: at their least, with the same candidates."""
    range_of = {p.name: (p.axis, p.least, p.less) for p in params}
    return [x for x in spare if range_of[x] == range_of[tile]]


def _steps(words: Poly, searched: Collection[str]) -> tuple[str, ...]:
    """Tiles that sums are over, where every term has at most one sum."""
    sums = [[x.step for x in term if isinstance(x, Sum)] for term in words.terms]
    if max(map(len, sums), default=0) > 1:
        return ()
    return tuple(sorted({x for found in sums for x in found if x is not None and x in searched}))


def _names(nest: Nest) -> frozenset[str]:
    return nest.total.names().union(*(v.names for v in nest.peak))


def _groups(parts: Iterable[_Part], params: Collection[str]) -> list[list[_Part]]:
    groups: list[list[_Part]] = []
    for part in parts:
        mine = part.names & set(params)
        kin = [g for g in groups if any(other.names & mine for other in g)]
        groups = [g for g in groups if g not in kin] + [[n for g in kin for n in g] + [part]]
    return groups
