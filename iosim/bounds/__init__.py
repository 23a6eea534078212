"""Lower and upper bounds on the words that attention, matrix products and copies move.

One file per theorem; adding a bound is one file and one line in `BOUNDS`.  Nothing here sees an
algorithm of iosim: a bound that never saw the algorithms can't be fitted to them.

>>> from iosim.problem import Attention
>>> words, name = best_lower_bound(Attention(4096, 64), 16384)
>>> round(words), name
(16777216, 'constant-tight-once')
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from iosim.bounds import (
    attenio,
    compression,
    compulsory,
    constant_tight,
    copy,
    cosma,
    flash_attention,
    hong_kung,
    matmul_tight,
    saha_ye,
    saha_ye_large,
    saha_ye_small,
)
from iosim.bounds.base import CLASSES, Bound, sym
from iosim.errors import InputError, closest
from iosim.problem import Problem, check_size

__all__ = [
    "BOUNDS",
    "CLASSES",
    "Best",
    "Bound",
    "Row",
    "best_lower_bound",
    "bound",
    "bounds_for",
    "exact_lower_bounds",
    "sym",
]

BOUNDS: dict[str, Bound] = {
    b.name: b
    for b in (
        compulsory.ATTENTION,
        constant_tight.ONCE,
        constant_tight.RECOMPUTE,
        constant_tight.TREES,
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
class Row:
    """One bound at one point.  `words` is None, and `reason` says why, where it does not apply."""

    name: str
    kind: str
    strength: str
    words: float | None
    applies: bool
    reason: str | None
    klass: str
    classes: tuple[str, ...]
    validity: str
    source: str
    proof: str | None

    def as_dict(self) -> dict[str, Any]:
        """The row as a plain dict, for JSON."""
        return asdict(self) | {"classes": list(self.classes)}


class Best(NamedTuple):
    """The largest exact lower bound that applies, and its name."""

    words: float
    name: str


def bound(name: str) -> Bound:
    """Return the bound called `name`, or raise InputError with the nearest name."""
    if name not in BOUNDS:
        raise InputError(f"unknown bound {name!r}: {closest(name, BOUNDS)}")
    return BOUNDS[name]


def bounds_for(problem: Problem, M: int) -> tuple[Row, ...]:
    """Every bound for this kind of problem, evaluated at M words of fast memory.

    Rows come in catalogue order; words count loads plus stores.  Raises InputError for an M that
    is no size.
    """
    rows = []
    for b in BOUNDS.values():
        if b.problem == problem.kind:
            reason = b.why_not(problem, M)
            words = None if reason else b.words(problem, M)
            rows.append(
                Row(
                    name=b.name,
                    kind=b.kind,
                    strength=b.strength,
                    words=words,
                    applies=reason is None,
                    reason=reason,
                    klass=b.klass,
                    classes=b.classes,
                    validity=b.validity,
                    source=b.source,
                    proof=b.proof,
                )
            )
    return tuple(rows)


def exact_lower_bounds(problem: Problem, M: int, klass: str = "once") -> tuple[Row, ...]:
    """The rows that a count may be held against: exact lower bounds that apply to a class.

    Raises InputError for an unknown class.
    """
    if klass not in CLASSES:
        raise InputError(f"unknown class {klass!r}: {closest(klass, CLASSES)}")
    return tuple(
        row
        for row in bounds_for(problem, M)
        if (row.kind, row.strength, row.applies) == ("lower", "exact", True)
        and klass in row.classes
    )


def best_lower_bound(problem: Problem, M: int, klass: str = "once") -> Best:
    """The largest exact lower bound that applies at M words, and its name.

    Each covers a class of algorithms (`bound(name).klass`); those of the default class cover every
    schedule with one accumulator per sum that computes its scores once, as all registered ones
    do.  Raises InputError for an M that is no size, or an unknown class.
    """
    check_size("M", M)
    rows = exact_lower_bounds(problem, M, klass)
    if not rows:
        raise InputError(f"no exact lower bound for {problem.kind} at M = {M}: add one")
    best = max(rows, key=lambda row: row.words or 0.0)
    return Best(best.words or 0.0, best.name)
