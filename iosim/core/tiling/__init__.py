"""Optimal tile sizes: the fewest words among all tiles whose exact peak is at most M words.

`iosim.optimal_tiles`, ``iosim tiles``, sweeps, reports and the GPU's jobs call it.  `candidates`
lists what a parameter may be, `plan` proves facts about the closed form before any number is known,
and `search` is branch and bound, at one point or at a million.  The other modules bound the words
of a box of candidates (`evaluate`, `lines`, `relax`, `regroup`, the two ``…_bounds``, `wide`).
`rules` has tile rules by name, `gpu` the tiles that fit a GPU; a published rule is in the file of
its schedule.

Changing files here: the result is the exact optimum, and among equally good tiles always the same
ones, since documents, kernels and sweeps record them; ``tests/core/test_tiling.py`` compares with
brute force.  A bound of a box must never exceed the words of a tile in it.  Faster is welcome if
the answer is the same; otherwise raise `iosim.base.revision.REVISION`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from iosim.base.arrays import Bools, Ints
from iosim.base.display import Displayed
from iosim.base.errors import CapacityError, InputError, closest
from iosim.base.rows import Values
from iosim.base.validate import LARGEST_SIZE, check_size
from iosim.core.counting import numbers
from iosim.core.counting.poly import Poly
from iosim.core.counts import Counts
from iosim.core.problem import Mask
from iosim.core.program.block_masks import refuse
from iosim.core.program.ir import Program
from iosim.core.program.space import fixed_spans
from iosim.core.program.walk import bind
from iosim.core.tiling.boxes import NEVER
from iosim.core.tiling.candidates import Candidates, candidates_of
from iosim.core.tiling.plan import Plan, always_valid, plans
from iosim.core.tiling.search import Search

Lattice = Literal["all", "pow2"]

# Points that are searched together: enough to hide Python's share, few enough for the caches.
AT_ONCE = 2048
# Words that are moved, or held, in 64 bits; and sums over tiles and words of a `Wide`.
INT64_SAFE, MOST_HELD, MOST_SUM, MOST_WIDE = 2.0**61, 2.0**62, 2.0**61, 2.0**90


class Sized(Protocol):
    """Anything with sizes: a problem."""

    @property
    def sizes(self) -> dict[str, int]:
        """Axis name → extent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling(Displayed):
    """Tile sizes, the words they move and their peak in words; ``eval(repr(t)) == t``.

    >>> from iosim import Attention, algorithm
    >>> optimal_tiles(algorithm("flash2").program, Attention(1024, 64), M=24_576)
    Tiling(tiles={'B_r': 171, 'B_c': 9}, total_words=917504, peak_words=24345)
    """

    tiles: dict[str, int]
    total_words: int
    peak_words: int
    html_by = "iosim.report.views:tiling"


def optimal_tiles(
    program: Program,
    problem: Sized,
    M: int,
    *,
    lattice: Lattice = "all",
    fixed: Mapping[str, int] | None = None,
) -> Tiling:
    """The tiles that move the fewest words in a fast memory of M words.

    Only valid tilings count, those that `bind` takes: every span lies inside its axis.  Of those
    that move equally many, the one with the smallest stationary parts and first tiles is taken.
    Words that it leaves over go to the tiles on which the count doesn't depend.

    Args:
        lattice: ``"pow2"`` admits only powers of two of at least 16 (tiles) and all or nothing
            (stationary parts), which is what a GPU's matrix units take.
        fixed: parameters that are given.

    Raises:
        CapacityError: no tiles fit; the message gives the smallest M that works.
        InputError: a fixed parameter is unknown or out of range, or no tiling is valid.

    >>> from iosim import Attention, algorithm
    >>> flash2, problem = algorithm("flash2").program, Attention(1024, 64)
    >>> best = optimal_tiles(flash2, problem, M=24_576)
    >>> best.tiles, best.total_words, best.peak_words
    ({'B_r': 171, 'B_c': 9}, 917504, 24345)
    >>> optimal_tiles(flash2, problem, M=24_576, lattice="pow2").tiles
    {'B_r': 128, 'B_c': 32}
    >>> optimal_tiles(flash2, problem, M=100)
    Traceback (most recent call last):
        ...
    iosim.base.errors.CapacityError: flash2 needs at least 195 words and M is 100: use M >= 195
    """
    M = check_size("M", M)
    _check_given(program, problem)
    columns = _one(program, problem, fixed)
    tiles, found = optimal_tiles_many(program, columns, np.array([M]), lattice=lattice)
    if not found[0]:
        least = smallest_capacity(program, problem, lattice=lattice, fixed=fixed)
        what = " with these tiles" if fixed else " on this lattice" if lattice != "all" else ""
        raise CapacityError(
            f"{program.name} needs at least {least} words{what} and M is {M}: use M >= {least}"
        )
    chosen = {name: int(values[0]) for name, values in tiles.items()}
    instance = bind(program, problem.sizes, chosen)
    held = numbers.peak(instance)
    assert held <= M, f"the search returned {chosen}, which hold {held} words of {M}"
    moved = numbers.count(instance).total_words
    return Tiling(tiles=chosen, total_words=moved, peak_words=held)


def optimal_tiles_many(
    program: Program, columns: Values, M: Any, *, lattice: Lattice = "all"
) -> tuple[dict[str, Ints], Bools]:
    """The tiles of `optimal_tiles` at many points.

    Args:
        columns: a scalar or an int64 array for every axis, and for each parameter that is given.
        M: words of fast memory; broadcast together with the columns to one axis.

    Returns:
        ``{parameter: values}``, int64 arrays of the common length, and where any valid tiles fit.

    Raises:
        InputError: a column is missing, unknown or out of range.

    >>> from iosim import algorithm
    >>> columns = {"N": 1024, "d": 64, "heads": 1}
    >>> tiles, fits = optimal_tiles_many(algorithm("flash2").program, columns, [100, 24_576])
    >>> tiles["B_r"].tolist()[1], fits.tolist()
    (171, [False, True])
    """
    full, M, choices = _prepare(program, columns, M, lattice)
    # What no count and no peak depends on stays at its least.
    points = np.arange(len(M))
    first = {x: np.asarray(c.value(np.zeros_like(points), points)) for x, c in choices.items()}
    tiles = {p.name: np.array((first | full)[p.name]) for p in program.params}
    found = np.ones(len(M), bool)
    known: dict[str, Plan] = {}
    for plan in plans(program, frozenset(tiles) - frozenset(choices)):
        if (same := known.setdefault(plan.form, plan)) is not plan:
            tiles |= {x: tiles[k].copy() for k, x in zip(same.params, plan.params, strict=True)}
            continue
        for rows, search in _searches(plan, choices, full, M):
            positions, fits = search.run()
            found[rows] &= fits
            for name, position in positions.items():
                tiles[name][rows] = search.candidates[name].value(position, search.points.every)
    return tiles, found


def best_counts(program: Program, problem: Sized, memory: Sequence[int]) -> dict[int, Counts]:
    """What the tiles of `optimal_tiles` move in fast memories of these many words.

    Args:
        memory: values of M; those in which no valid tiles fit are left out.

    Raises:
        InputError: an M is out of range.

    >>> from iosim import Attention, algorithm
    >>> found = best_counts(algorithm("flash2").program, Attention(1024, 64), [100, 24_576])
    >>> {M: counts.total_words for M, counts in found.items()}
    {24576: 917504}
    """
    tiles, fits = optimal_tiles_many(program, problem.sizes, np.array(memory))
    chosen = {name: values[fits] for name, values in tiles.items()}
    where = np.array(memory)[fits]
    moved = numbers.count_many(program, {**problem.sizes, **chosen})
    columns = [np.broadcast_to(words, where.shape).tolist() for words in moved.values()]
    return {
        M: Counts.of(dict(zip(moved, words, strict=True)))
        for M, *words in zip(where.tolist(), *columns, strict=True)
    }


def smallest_capacity(
    program: Program,
    problem: Sized,
    *,
    lattice: Lattice = "all",
    fixed: Mapping[str, int] | None = None,
) -> int:
    """The least M for which any valid tiles fit.

    Arguments as for `optimal_tiles`.

    Raises:
        InputError: a fixed parameter is unknown or out of range, or no tiling is valid.

    >>> from iosim import Attention, algorithm
    >>> smallest_capacity(algorithm("flash2").program, Attention(1024, 64))
    195
    """
    asked = _one(program, problem, fixed)
    columns, M, choices = _prepare(program, asked, np.array([1]), lattice)
    given = frozenset(columns).intersection(p.name for p in program.params)
    least = 0
    for plan in plans(program, given):
        for _, search in _searches(plan, choices, columns, M):
            held = int(search.least_peak()[0])
            if held == NEVER:
                raise InputError(_never_valid(program, asked, lattice))
            least = max(least, held)
    return least


def _never_valid(program: Program, asked: Values, lattice: Lattice) -> str:
    """That no tiling is valid, and why."""
    parts = ", ".join(
        f"{s.axis}[{s}]" for s in fixed_spans(program) if not always_valid(program, s)
    )
    at = ", ".join(f"{name} = {value:,}" for name, value in asked.items())
    where = " on this lattice" if lattice != "all" else ""
    return (
        f"{program.name} has no valid tiling{where} at {at}: no tile sizes put all of {parts} "
        "inside their axes; give others"
    )


def _check_given(program: Program, problem: Sized) -> None:
    if not isinstance(program, Program):
        raise InputError(
            f"tiles are chosen for a program, got {type(program).__name__}: pass its .program"
        )
    if not hasattr(problem, "sizes"):
        raise InputError(f"tiles are chosen for a problem, got {type(problem).__name__}: give one")
    kind = getattr(problem, "kind", program.problem)
    if kind != program.problem:
        raise InputError(f"{program.name} solves {program.problem}, not {kind}: choose another")
    form = getattr(problem, "form", None)
    if form is not None and form.mask != program.mask:
        raise InputError(
            f"this program of {program.name} is for {_masked(program.mask)}, and the problem has "
            f"{_masked(form.mask)}: take {program.name}'s program_for(problem)"
        )


def _masked(mask: Mask | None) -> str:
    return "no mask" if mask is None else "a mask" if mask.right != "causal" else "a causal mask"


def _one(program: Program, problem: Sized, fixed: Mapping[str, int] | None) -> dict[str, Any]:
    """The columns of one point."""
    _check_given(program, problem)
    params = {p.name: p for p in program.params}
    for name, value in (fixed or {}).items():
        if name not in params:
            raise InputError(f"{program.name} has no tile size {name!r}: {closest(name, params)}")
        check_size(name, value, least=params[name].least)
    return {**problem.sizes, **(fixed or {})}


def _prepare(
    program: Program, columns: Values, M: Any, lattice: Lattice
) -> tuple[dict[str, Ints], Ints, dict[str, Candidates]]:
    """Columns of one length, and what else may be chosen."""
    if lattice not in ("all", "pow2"):
        raise InputError(f"unknown lattice {lattice!r}: known: all, pow2")
    refuse(program, "its rows and columns are tiles, which no search can choose")
    numbers.check_named(program, columns)
    free = [p for p in program.params if p.name not in columns]
    clean = numbers.check_columns(program, columns, {p.name for p in free})
    M = np.atleast_1d(np.asarray(M))
    whole = np.issubdtype(M.dtype, np.integer)
    if M.size and not (whole and 1 <= M.min() <= M.max() <= LARGEST_SIZE):
        raise InputError(f"M must hold integers in 1..{LARGEST_SIZE} (2**40)")
    try:
        M, *values = np.broadcast_arrays(M.astype(np.int64), *clean.values())
    except ValueError as error:
        raise InputError(f"columns of lengths that do not fit together: {error}") from None
    full = dict(zip(clean, values, strict=True))
    return full, M, {p.name: candidates_of(program, p, p.most(full), lattice) for p in free}


def _searches(
    plan: Plan, choices: Mapping[str, Candidates], columns: Mapping[str, Ints], M: Ints
) -> Iterator[tuple[Ints, Search]]:
    """Runs of points that are searched in the same way, each with its search."""
    solved = _solved(plan, choices, len(M))
    large = _large(plan, choices, columns)
    for which in range(-1, len(plan.solvable)):
        for size, (dtype, wide) in enumerate(
            ((np.int64, False), (np.int64, True), (object, False))
        ):
            rows = np.flatnonzero((solved == which) & (large == size))
            for k in range(0, len(rows), AT_ONCE):
                here = rows[k : k + AT_ONCE]
                mine = {x: replace(c, extent=c.extent[here]) for x, c in choices.items()}
                base = {x: v[here] for x, v in columns.items()}
                name = None if which < 0 else plan.solvable[which]
                yield here, Search(plan, name, mine, base, M[here], dtype, wide)


def _solved(plan: Plan, choices: Mapping[str, Candidates], points: int) -> Ints:
    """Of the tiles that can be solved for, the one with the most candidates; −1 for none."""
    which, most = np.full(points, -1), np.zeros(points, np.int64)
    for k, name in enumerate(plan.solvable):
        more = choices[name].count >= most
        which, most = np.where(more, k, which), np.where(more, choices[name].count, most)
    return which


def _large(plan: Plan, choices: Mapping[str, Candidates], columns: Mapping[str, Ints]) -> Ints:
    """How large numbers may be: 0 in 64 bits, 1 where only words moved may be more, or 2.

    Where sums over tiles or words held may pass 64 bits, Python's integers do it.
    """
    most = {x: v.astype(np.float64) for x, v in columns.items()}
    most |= {x: c.extent.astype(np.float64) for x, c in choices.items()}
    least = most | {x: np.ones_like(most[x]) for x in choices if x not in plan.holds}
    words = numbers.magnitude(plan.total, least)
    large = np.where(words < INT64_SAFE, 0, 1)
    if np.any(large):
        large = np.where(words < MOST_WIDE, large, 2)
        for atom in plan.total.atoms():
            large = np.where(numbers.magnitude(Poly.of(atom), least) < MOST_SUM, large, 2)
    for level in plan.levels:
        large = np.where(numbers.magnitude(level.words, most) < MOST_HELD, large, 2)
    return np.broadcast_to(large, next(iter(most.values())).shape)
