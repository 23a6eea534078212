"""Lower and upper bounds on the words that attention, matrix products and copies move.

`bounds_for` and `best_lower_bound` evaluate the entries of `BOUNDS`.  ``iosim bounds`` and
``iosim tightness`` print them; reports, sweeps, kernels' distances and the lab compare with them.
One file has one theorem, or what several theorems share (`shapes`, `sums`, `terms`, `charges`).  To
add a bound, write one file with a `Bound`, and add one line to `BOUNDS` (docs/extending.md).

Changing files here: a lower bound that is too large is **false**, so change a formula only with its
proof in ``proofs/``.  An import contract keeps programs and schedules out: a bound that never saw
them can't be fitted to them.  ``tests/bounds`` compares bounds with each other and with every
schedule.  A bound is written once for numbers, arrays, sympy and the lab's symbols
(``iosim/lab/data/traced.py``), so use the functions of `terms` or NumPy only.  Names of bounds are
in recorded tables and stay.  If a bound changes, raise `iosim.base.revision.REVISION`.

>>> from iosim.core.problem import Attention
>>> words, name = best_lower_bound(Attention(4096, 64), 16384)
>>> round(words), name
(16777216, 'constant-tight-once')

A bound says which options of a problem its theorem covers; where it doesn't, it is left out.

>>> words, name = best_lower_bound(Attention(4096, 64, causal=True), 16384)
>>> round(words), name
(8390656, 'constant-tight-once')

>>> sorted(BOUNDS)[:3]
['any-matmul', 'any-matmul-binary', 'attenio']
>>> list(CLASSES)
['once', 'recompute', 'trees', 'recompute-trees', 'stationary']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from iosim.base.arrays import Floats, Ints
from iosim.base.errors import InputError, closest
from iosim.base.validate import check_size
from iosim.bounds import (
    attenio,
    backward,
    blocks,
    compression,
    compulsory,
    constant_tight,
    copy,
    cosma,
    flash_attention,
    hong_kung,
    li,
    matmul_tight,
    paged,
    parts,
    saha_ye,
    saha_ye_large,
    saha_ye_small,
    stays,
    sweeps,
)
from iosim.bounds.base import Bound, axis_names
from iosim.bounds.classes import CLASSES, BoundClass, bound_class, covers
from iosim.bounds.terms import sym
from iosim.core.problem import PROBLEMS, Form, Problem

__all__ = [
    "BOUNDS",
    "CLASSES",
    "BestBound",
    "Bound",
    "BoundClass",
    "BoundRow",
    "axis_names",
    "best_lower_bound",
    "best_lower_bound_many",
    "bound",
    "bound_class",
    "bounds_for",
    "exact_lower_bounds",
    "largest_of",
    "sym",
]

BOUNDS: dict[str, Bound] = {
    b.name: b
    for b in (
        compulsory.ATTENTION,
        constant_tight.ONCE,
        constant_tight.RECOMPUTE,
        constant_tight.TREES,
        constant_tight.RECOMPUTE_TREES,
        parts.PARTS,
        parts.SUMS,
        stays.STAYS,
        stays.SUMS,
        sweeps.SWEEPS,
        sweeps.SUMS,
        saha_ye.LOWER,
        saha_ye.UPPER,
        saha_ye.SQUARE_TILES,
        saha_ye_large.PAPER,
        saha_ye_large.ROOTS,
        saha_ye_small.LOWER,
        compression.PAPER,
        compression.SHARP,
        compression.ASYMPTOTIC,
        compression.BINARY,
        flash_attention.STANDARD,
        flash_attention.FLASH,
        flash_attention.PROPOSITION,
        attenio.CLOSED,
        attenio.COUNTED,
        paged.COMPULSORY,
        blocks.COMPULSORY,
        backward.COMPULSORY,
        *backward.THEOREMS,
        li.ASYMPTOTIC,
        li.LARGE,
        li.SMALL,
        compulsory.MATMUL,
        matmul_tight.LOWER,
        matmul_tight.COLD,
        hong_kung.MATMUL,
        cosma.PRINTED,
        cosma.TILED,
        copy.LOWER,
        copy.UPPER,
    )
}


@dataclass(frozen=True)
class BoundRow:
    """One bound at one point.  `words` is None, and `reason` says why, where it does not apply.

    `words` are not rounded, here and in JSON; tables show the nearest whole number.

    >>> from iosim import Attention
    >>> row = bounds_for(Attention(4096, 64), 16384)[0]
    >>> row.name, row.words, row.as_dict()["class"]
    ('compulsory', 1048576.0, ['once', 'recompute', 'trees', 'recompute-trees'])

    ``theorems`` are the statements that it uses, each as file and anchor; ``checked`` names the
    statement in proofs/rocq that gives these words, where there is one; ``row_sums`` says that it
    holds only where each row's sum takes a word.
    """

    name: str
    kind: str
    strength: str
    words: float | None
    applies: bool
    reason: str | None
    covers: str
    classes: tuple[BoundClass, ...]
    validity: str
    source: str
    proof: str | None
    theorems: tuple[str, ...] = ()
    checked: str | None = None
    row_sums: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The row as a plain dict, for JSON; ``class`` lists the names of its classes."""
        row = asdict(self)
        del row["classes"]
        names = [klass.name for klass in self.classes]
        return row | {"theorems": list(self.theorems), "class": names}


class BestBound(NamedTuple):
    """The largest exact lower bound that applies, and its name.

    >>> from iosim import Attention
    >>> best = best_lower_bound(Attention(4096, 64), 16384)
    >>> best.name, best.words == bound(best.name).words(Attention(4096, 64), 16384)
    ('constant-tight-once', True)
    """

    words: float
    name: str


def bound(name: str) -> Bound:
    """Return the bound called `name`, or raise InputError with the nearest name.

    >>> bound("matmul-tight").validity
    'all sizes and every M; it says nothing (0) once M^{3/2} ≥ mnk'
    """
    if name not in BOUNDS:
        raise InputError(f"unknown bound {name!r}: {closest(name, BOUNDS)}")
    return BOUNDS[name]


def _kind(problem: Problem) -> str:
    """The kind of a problem, or InputError."""
    kind = getattr(problem, "kind", None)
    if not isinstance(kind, str) or not hasattr(problem, "sizes"):
        raise InputError(f"bounds are for a problem, got {type(problem).__name__}: give one")
    return kind


def bounds_for(problem: Problem, M: int) -> tuple[BoundRow, ...]:
    """Every bound for this kind of problem, evaluated at M words of fast memory.

    Rows come in the order of `BOUNDS`; words count loads plus stores.  Raises InputError for
    an M that is not a size.

    >>> from iosim import MatMul
    >>> [(row.name, row.applies) for row in bounds_for(MatMul(64, 64, 64), 100)][:3]
    [('matmul-compulsory', True), ('matmul-tight', True), ('matmul-cold', True)]
    """
    kind = _kind(problem)
    return tuple(_row(b, problem, M) for b in BOUNDS.values() if b.problem == kind)


def _row(b: Bound, problem: Problem, M: int) -> BoundRow:
    reason = b.why_not(problem, M)
    return BoundRow(
        name=b.name,
        kind=b.kind,
        strength=b.strength,
        words=None if reason else b.words(problem, M),
        applies=reason is None,
        reason=reason,
        covers=b.covers,
        classes=b.classes,
        validity=b.validity,
        source=b.source_for(problem.form),
        proof=b.proof_for(problem.form),
        theorems=b.theorems_for(problem.form),
        checked=None if reason else b.machine_checked(problem, M),
        row_sums=b.row_sums,
    )


def _exact_lower(kind: str, klass: BoundClass | str) -> list[Bound]:
    """The exact lower bounds for a kind of problem that cover a class."""
    chosen = bound_class(klass)
    known = [b for b in BOUNDS.values() if b.problem == kind] or [
        compulsory.compulsory_of(PROBLEMS[kind])
    ]
    return [
        b for b in known if (b.kind, b.strength) == ("lower", "exact") and b.covers_class(chosen)
    ]


def exact_lower_bounds(
    problem: Problem, M: int, klass: BoundClass | str = "once"
) -> tuple[BoundRow, ...]:
    """The rows that a count may be compared with: exact lower bounds that apply to a class.

    `klass` is a class or its name.  Raises InputError for an unknown class.

    >>> from iosim import MatMul
    >>> [(row.name, round(row.words or 0)) for row in exact_lower_bounds(MatMul(64, 64, 64), 100)]
    [('matmul-compulsory', 12288), ('matmul-tight', 52229), ('matmul-cold', 52329)]
    """
    rows = (_row(b, problem, M) for b in _exact_lower(_kind(problem), klass))
    return tuple(row for row in rows if row.applies)


def largest_of(rows: Iterable[BoundRow], classes: Iterable[str]) -> dict[str, list[str]]:
    """The largest exact lower bounds of one point: the name of each, and the classes where it is.

    Among equals, the first, as `best_lower_bound`.

    >>> from iosim import Attention
    >>> largest_of(bounds_for(Attention(4096, 64), 4096), ["once", "recompute"])
    {'constant-tight-once': ['once'], 'constant-tight-recompute': ['recompute']}
    """
    exact = [r for r in rows if (r.kind, r.strength, r.applies) == ("lower", "exact", True)]
    found: dict[str, list[str]] = {}
    for klass in classes:
        if mine := [row for row in exact if covers(row.classes, klass)]:
            best = max(mine, key=lambda row: row.words or 0.0)
            found.setdefault(best.name, []).append(klass)
    return found


def best_lower_bound(problem: Problem, M: int, klass: BoundClass | str = "once") -> BestBound:
    """The largest exact lower bound that applies at M words, and its name.

    Each covers certain algorithms (`bound(name).covers`); those of the default class cover every
    schedule with one accumulator per sum that computes its scores once.  A registered schedule
    names its classes (`iosim.core.algorithms.Algorithm.classes`).

    Raises InputError for an M that is not a size, or an unknown class.

    >>> from iosim import Attention
    >>> best = best_lower_bound(Attention(4096, 64), 1000)
    >>> best.name, round(best.words)
    ('constant-tight-once', 128442370)
    """
    M = check_size("M", M)
    rows = exact_lower_bounds(problem, M, klass)
    if not rows:
        raise InputError(f"no exact lower bound for {problem.kind} at M = {M}: add one")
    best = max(rows, key=lambda row: row.words or 0.0)
    return BestBound(best.words or 0.0, best.name)


def best_lower_bound_many(
    problem: str | Form, sizes: Mapping[str, Ints], M: Ints, klass: BoundClass | str = "once"
) -> tuple[Floats, list[str]]:
    """`best_lower_bound` at many points at once.

    Args:
        problem: the kind of problem, "attention"; or the form of one with options.
        sizes: all sizes of the form by name, integer arrays of one dimension and equal length.
        M: words of fast memory, as long as they are.
        klass: the class, or its name.

    Returns the words, float64, and the name of the bound at each point.  Raises InputError for an
    unknown problem or class, or where no bound applies.

    >>> best_lower_bound_many("copy", {"n": np.array([3, 5])}, np.array([1, 1]))
    (array([ 6., 10.]), ['copy-lower', 'copy-lower'])
    >>> from iosim.core.problem import Attention
    >>> form = Attention(8, 4, causal=True).form
    >>> eight, M = {x: np.array([8]) for x in form.sizes}, np.array([999])
    >>> best_lower_bound_many(form, eight, M)
    (array([2048.]), ['compulsory'])
    """
    form = problem if isinstance(problem, Form) else _plain_form(problem)
    known = [b for b in _exact_lower(form.kind, klass) if b.covers_form(form)]
    # Words are never negative: -1 where a bound doesn't apply.
    words = np.full((max(1, len(known)), len(M)), -1.0)
    for k, b in enumerate(known):
        here = slice(None) if b.everywhere else np.flatnonzero(b.where(form, sizes, M))
        words[k, here] = b.curve(form, **{x: sizes[x][here] for x in form.sizes}, M=M[here])
    best = np.argmax(words, axis=0)
    most = words.max(axis=0)
    if (most < 0).any():
        raise InputError(f"no exact lower bound for {form.kind} at M = {M[most < 0][0]}: add one")
    return most, [known[k].name for k in best]


def _plain_form(kind: str) -> Form:
    axis_names(kind)  # refuses an unknown kind
    form: Form = PROBLEMS[kind].plain_form()
    return form
