"""A family of attention schedules, and the search through it by the exact counter.

A member says which operands stay, which stream and which spill, in what order the loops run, and
whether d is chunked.  Each is a `Program` like any other: its optimal tiles are found, its words
counted to the word, and the best members are kept as named algorithms (`flash2_chunked`,
`spill_rows` and others).  `python -m experiments.schedule_search` prints which is best at each d
and M.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from iosim.base.errors import CapacityError, InputError
from iosim.core.algorithms import flash1, flash2_keep, flash2_log, flash2_parts, small_tiles
from iosim.core.algorithms._passes import fused_rows, scores, softmax_rows, softmax_tiles
from iosim.core.problem import Attention
from iosim.core.program.build import Builder, build
from iosim.core.program.ir import Program
from iosim.core.tiling import Tiling, optimal_tiles

from . import run_main


@dataclass(frozen=True)
class Member:
    """One schedule of the family, by its choices.

    Attributes:
        scores: ``fused`` (they never leave) or ``spilled`` (written once, read in a second pass).
        stays: what is resident while the rest streams; a spilled schedule names both passes.
        outer: the outermost sequential loop, ``rows`` of Q or ``columns`` (rows of K).
        chunked: whether operands come in column chunks instead of whole rows of d words.
    """

    scores: str
    stays: str
    outer: str
    chunked: bool
    schedule: Callable[[Builder], None]

    @property
    def label(self) -> str:
        """The choices in words."""
        chunks = ", d chunked" if self.chunked else ""
        return f"{self.scores}; {self.stays} stay; {self.outer} outside{chunks}"

    @functools.cached_property
    def program(self) -> Program:
        """The schedule, traced once."""
        return build(self.label, Attention, self.schedule)


def _spilled(
    first: Callable[[Builder], None], second: Callable[[Builder], None]
) -> Callable[[Builder], None]:
    def schedule(b: Builder) -> None:
        b.scratch("S", "heads", "N", "N")
        first(b)
        second(b)

    return schedule


def score_columns(b: Builder) -> None:
    """S = QKᵀ with whole rows of K staying and Q streamed: `scores` with the roles exchanged."""
    B_c, B_r = b.tile_sizes("N", "B_c1", "B_r1")
    (B_d,) = b.tile_sizes("d", "B_d1")
    for h in b.grid("heads"):
        for j in b.grid("N", B_c):
            held = b.load("K", h, j, "d")
            for i in b.grid("N", B_r):
                s = b.zeros("s", i, j)
                for x in b.tiles("d", B_d):
                    q = b.load("Q", h, i, x)
                    b.op("matmul_nt", s, q, held[x])
                    b.free(q)
                b.store(s, "S", h, i, j)
                b.free(s)
            b.free(held)


def fused_streams(b: Builder) -> None:
    """Only rows of O stay; Q and K are both streamed in column chunks for every tile of scores."""
    fused_rows(b, hold_q=False)


def fused_chunks(b: Builder) -> None:
    """Rows of Q and O stay, K and V come in column chunks."""
    fused_rows(b, chunked=True)


FAMILY: tuple[Member, ...] = (
    Member("fused", "Q and O", "rows", False, fused_rows),
    Member("fused", "Q and O", "rows", True, fused_chunks),
    Member("fused", "Q, O and some of K and V", "rows", False, flash2_keep.schedule),
    Member("fused", "O", "rows", True, fused_streams),
    Member("fused", "K and V", "columns", False, flash1.schedule),
    Member(
        "spilled", "any part of Q, then tiles of O", "rows", True, _spilled(scores, softmax_tiles)
    ),
    Member(
        "spilled", "any part of Q, then rows of O", "rows", True, _spilled(scores, softmax_rows)
    ),
    Member(
        "spilled", "K, then tiles of O", "columns", True, _spilled(score_columns, softmax_tiles)
    ),
    Member("spilled", "K, then rows of O", "columns", True, _spilled(score_columns, softmax_rows)),
    # With one statistic a row, and one column and one word beside a tile.
    Member("fused", "Q, O and log sums", "rows", True, flash2_log.schedule),
    Member(
        "fused",
        "Q, O, log sums and some of K and V, one score,",
        "rows",
        False,
        flash2_parts.schedule,
    ),
    Member(
        "spilled",
        "any part of Q, then tiles of O and log sums,",
        "rows",
        True,
        small_tiles.schedule,
    ),
)


def ranking(problem: Attention, M: int) -> list[tuple[Member, Tiling]]:
    """Members that run in M words, with their optimal tiles, best first.

    Raises InputError where none runs.
    """
    found = list(_feasible(problem, M))
    if not found:
        raise InputError(f"no schedule of the family runs in M = {M} words: use a larger M")
    return sorted(found, key=lambda pair: pair[1].total_words)


def _feasible(problem: Attention, M: int) -> Iterator[tuple[Member, Tiling]]:
    for member in FAMILY:
        try:
            yield member, optimal_tiles(member.program, problem, M)
        except CapacityError:
            continue


def main() -> None:
    """Print which schedule is best at each d and M, and by how much."""
    for d in (64, 128):
        for part in (0.02, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 4, 16):
            problem, M = Attention(2**18, d), round(part * d * d)
            (best, tiling), *others = ranking(problem, M)
            behind = others[0][1].total_words / tiling.total_words
            print(
                f"d {d:3} M/d² {part:5} {tiling.total_words:>18,} {best.label}"
                f"  (next: {behind:.3f}×, {others[0][0].label})"
            )


if __name__ == "__main__":
    run_main(main)
