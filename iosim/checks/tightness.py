"""How far from optimal: the best schedule over the largest proven lower bound, for every N, d, M.

The numerator is the exact count of the best registered schedule with its optimal tiles; the
denominator the largest lower bound with explicit constants that covers the chosen class of
algorithms:

once
    one accumulator per score and per output entry, every score computed once.
recompute
    the same, but scores may be computed again.
trees
    sums may be taken in any order and shape (split-K).

Every registered schedule is in all three classes, so a gap of 1 would close the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from iosim.algorithms import all_algorithms
from iosim.bounds import CLASSES, Row, exact_lower_bounds
from iosim.errors import CapacityError, InputError, closest
from iosim.problem import Attention
from iosim.tiling import optimal_tiles, smallest_capacity


@dataclass(frozen=True)
class Best:
    """The schedule that moves the fewest words, and how."""

    algorithm: str
    tiles: dict[str, int]
    words: int


@dataclass(frozen=True)
class Tightness:
    """The best schedule and the binding lower bound at one point."""

    problem: Attention
    M: int
    klass: str
    best: Best
    bounds: tuple[Row, ...]

    @property
    def binding(self) -> Row:
        """The largest of the bounds."""
        return max(self.bounds, key=lambda row: row.words or 0.0)

    @property
    def gap(self) -> float:
        """Words of the best schedule over words of the binding bound; at least 1."""
        return self.best.words / (self.binding.words or 1.0)

    def as_dict(self) -> dict[str, Any]:
        """The row that ``iosim tightness --json`` prints."""
        p = self.problem
        return {
            "N": p.N, "d": p.d, "heads": p.heads, "M": self.M, "class": self.klass,
            "best_algorithm": self.best.algorithm, "best_tiles": self.best.tiles,
            "best_words": self.best.words, "lower_bound": self.binding.name,
            "lower_bound_words": self.binding.words, "gap": self.gap,
            "bounds": [row.as_dict() for row in self.bounds],
        }  # fmt: skip


def best_schedule(problem: Attention, M: int) -> Best:
    """The registered schedule that moves the fewest words in M.

    Raises CapacityError where none runs, with the smallest M in which one does.
    """
    found: list[Best] = []
    for entry in all_algorithms("attention"):
        try:
            tiling = optimal_tiles(entry.program, problem, M)
        except CapacityError:
            continue
        found.append(Best(entry.name, tiling.tiles, tiling.total_words))
    if not found:
        least = min(smallest_capacity(a.program, problem) for a in all_algorithms("attention"))
        raise CapacityError(f"no schedule runs in M = {M} words: use M >= {least}")
    return min(found, key=lambda b: b.words)


def tightness(problem: Attention, M: int, klass: str = "once") -> Tightness:
    """Hold the best schedule against the largest lower bound of a class.

    Raises InputError for an unknown class, CapacityError where no schedule runs in M.
    """
    if klass not in CLASSES:
        raise InputError(f"unknown class {klass!r}: {closest(klass, CLASSES)}")
    rows = exact_lower_bounds(problem, M, klass)
    return Tightness(problem, M, klass, best_schedule(problem, M), rows)


def sweep(
    N: int, ds: Sequence[int], Ms: Iterable[int], klass: str = "once", heads: int = 1
) -> list[Tightness]:
    """`tightness` for several d and M; points where no schedule runs are left out."""
    found = []
    for d in ds:
        for M in Ms:
            try:
                found.append(tightness(Attention(N, d, heads), M, klass))
            except CapacityError:
                continue
    return found


def table(points: Iterable[Tightness]) -> list[dict[str, Any]]:
    """Points as rows for CSV and figure."""
    return [
        {
            "class": p.klass, "N": p.problem.N, "d": p.problem.d, "heads": p.problem.heads,
            "M_words": p.M, "best_algorithm": p.best.algorithm, "best_words": p.best.words,
            "lower_bound": p.binding.name, "lower_bound_words": p.binding.words,
            "gap": round(p.gap, 6),
            "tiles": " ".join(f"{k}={v}" for k, v in p.best.tiles.items()),
        }
        for p in points
    ]  # fmt: skip
