"""How far from optimal: the best schedule of a class over its largest lower bound, at any N, d, M.

The numerator is the exact count of the best registered schedule of the chosen class of algorithms,
one of `iosim.bounds.CLASSES`, with its optimal tiles; the denominator the largest lower bound with
explicit constants that covers the class.

So at a gap of 1 both the schedule and the bound would be optimal.  All schedules of attention are
in the four wide classes, some of them in `stationary`, too; of its backward pass those that compute
scores twice are in classes with `recompute` only.
Of a problem with options (masks, keys of their own, grouped heads) the bounds are those that cover
them, and the schedules those that support them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.display import Tabled
from iosim.base.errors import CapacityError, InputError
from iosim.base.rows import Row, Table
from iosim.base.validate import check_size
from iosim.bounds import BoundClass, BoundRow, bound_class, exact_lower_bounds
from iosim.core.algorithms import Algorithm, all_algorithms
from iosim.core.counting.numbers import count
from iosim.core.problem import Attention, Attentions, Form
from iosim.core.program.walk import bind
from iosim.core.tiling import optimal_tiles_many, smallest_capacity
from iosim.core.units import problem_cells

# What ``iosim tightness --out`` writes.
FILES = ("tightness.csv", "tightness.png", "tightness.svg")
# Points whose tiles are searched together, between two reports of progress.
TOGETHER = 512


@dataclass(frozen=True)
class BestSchedule:
    """The schedule that moves the fewest words, and how."""

    algorithm: str
    tiles: dict[str, int]
    words: int


@dataclass(frozen=True, kw_only=True)
class Tightness(Tabled):
    """The best schedule and the largest lower bound of a class at one point."""

    problem: Attentions
    M: int
    klass: BoundClass
    best: BestSchedule
    bounds: tuple[BoundRow, ...]
    html_by = "iosim.report.views:tightness"
    table_by = "iosim.report.views:tightness_table"

    def __repr__(self) -> str:
        best = f"{self.best.algorithm} moves {self.best.words:,} words"
        bound = f"{self.binding.name} is {self.binding.words or 0.0:,}"
        return f"<Tightness {self.problem!r}, M = {self.M:,}: {best}, {bound}, gap {self.gap}>"

    @property
    def binding(self) -> BoundRow:
        """The largest lower bound of the class."""
        return max(self.bounds, key=lambda row: row.words or 0.0)

    @property
    def gap(self) -> float:
        """Words of the best schedule over words of the largest bound; at least 1."""
        return self.best.words / (self.binding.words or 1.0)

    def as_dict(self) -> Row:
        """The row that ``iosim tightness --json`` prints."""
        p = self.problem
        return {
            **p.as_dict,
            "M": self.M,
            "class": self.klass.name,
            "best_algorithm": self.best.algorithm,
            "best_tiles": self.best.tiles,
            "best_words": self.best.words,
            "lower_bound": self.binding.name,
            "lower_bound_words": self.binding.words,
            "gap": self.gap,
            "bounds": [row.as_dict() for row in self.bounds],
        }


def best_schedule(
    problem: Attentions,
    M: int,
    klass: BoundClass | str | None = None,
    schedule: Algorithm | None = None,
) -> BestSchedule:
    """The registered schedule that moves the fewest words in M, of those that take its options.

    With `klass`, of those in that class of algorithms; with `schedule`, that one alone.

    Raises InputError for a class that is unknown or has no schedule of this problem, CapacityError
    where no schedule runs in M, with the smallest M in which one does.
    """
    (best,) = _best_schedules([(problem, M)], klass, schedule)
    if best is None:
        least = min(
            smallest_capacity(entry.program_for(problem), problem)
            for entry in _schedules(problem.form, klass, schedule)
        )
        raise CapacityError(f"no schedule runs in M = {M} words: use M >= {least}")
    return best


def _schedules(
    form: Form, klass: BoundClass | str | None, schedule: Algorithm | None = None
) -> tuple[Algorithm, ...]:
    """The schedules that support a form's options, and are in the class if one is given."""
    if schedule is not None:
        schedule.program_for(form)  # or it says which option is not supported
        return (schedule,)
    every = all_algorithms(form)
    if klass is None:
        return every
    name = bound_class(klass).name
    found = tuple(a for a in every if name in a.classes)
    if not found:
        others = dict.fromkeys(x for a in every for x in a.classes)
        raise InputError(
            f"no schedule of {form.kind} is in class {name}: choose {' or '.join(others)}"
        )
    return found


def _best_schedules(
    points: Sequence[tuple[Attentions, int]],
    klass: BoundClass | str | None,
    schedule: Algorithm | None = None,
) -> list[BestSchedule | None]:
    """The best schedule at each point, all points of a form searched together; None: none runs."""
    M = np.array([check_size("M", M) for _, M in points], np.int64)
    best: list[BestSchedule | None] = [None] * len(points)
    forms: dict[Form, list[int]] = {}
    for k, (problem, _) in enumerate(points):
        forms.setdefault(problem.form, []).append(k)
    for form, here in forms.items():
        sizes = {x: np.array([points[k][0].sizes[x] for k in here], np.int64) for x in form.sizes}
        for entry in _schedules(form, klass, schedule):
            program = entry.program_for(form)
            tiles, found = optimal_tiles_many(program, sizes, M[here])
            for at in np.flatnonzero(found):
                k, chosen = here[at], {name: int(values[at]) for name, values in tiles.items()}
                words = count(bind(program, points[k][0].sizes, chosen)).total_words
                before = best[k]
                # Of equally good ones the first that is registered.
                if before is None or words < before.words:
                    best[k] = BestSchedule(entry.name, chosen, words)
    return best


def tightness(
    problem: Attentions,
    M: int,
    klass: BoundClass | str = "once",
    schedule: Algorithm | None = None,
) -> Tightness:
    """Compare the best schedule of a class, or one schedule, with the class's largest lower bound.

    A bound of a class that the schedule isn't in need not hold for it.

    Raises InputError for an unknown class, CapacityError where no schedule runs in M.
    """
    chosen = bound_class(klass)
    rows = exact_lower_bounds(problem, M, chosen)
    best = best_schedule(problem, M, chosen, schedule)
    return Tightness(problem=problem, M=M, klass=chosen, best=best, bounds=rows)


def sweep(
    N: int,
    ds: Sequence[int],
    Ms: Iterable[int],
    klass: BoundClass | str = "once",
    heads: int = 1,
    tick: Callable[[int, int], object] = lambda done, of: None,
    kind: type[Attentions] = Attention,
    schedule: Algorithm | None = None,
    **options: Any,
) -> list[Tightness]:
    """`tightness` for several d and M, M running fastest; points where none runs are left out.

    `tick` is called as ``tick(done, of)`` while points finish; `kind` is the class of problems,
    and `options` are theirs.
    """
    chosen = bound_class(klass)
    Ms = list(Ms)
    points = [(kind(N, d, heads, **options), M) for d in ds for M in Ms]
    found: list[Tightness] = []
    for first in range(0, len(points), TOGETHER):
        some = points[first : first + TOGETHER]
        for done, ((problem, M), best) in enumerate(
            zip(some, _best_schedules(some, chosen, schedule), strict=True), start=first + 1
        ):
            if best is not None:
                rows = exact_lower_bounds(problem, M, chosen)
                found.append(Tightness(problem=problem, M=M, klass=chosen, best=best, bounds=rows))
            tick(done, len(points))
    return found


def table(points: Iterable[Tightness]) -> Table:
    """Points as rows for CSV and figure; one column more for each option that is given."""
    rows = [
        {
            "class": p.klass.name,
            **problem_cells(p.problem),
            "M_words": p.M,
            "best_algorithm": p.best.algorithm,
            "best_words": p.best.words,
            "lower_bound": p.binding.name,
            "lower_bound_words": p.binding.words,
            "gap": round(p.gap, 6),
            "tiles": " ".join(f"{k}={v}" for k, v in p.best.tiles.items()),
        }
        for p in points
    ]
    return Table(tuple(rows), "how far from optimal", "iosim.report.figures:gap")
