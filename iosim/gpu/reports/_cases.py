"""Variants of attention that reports run, by name.

`bench`, `backward` and `validate` run them.  Their names are in records and stay; a new variant of
attention is one entry of `CASES` (``tests/core/test_grouped.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iosim.base.errors import InputError, closest
from iosim.base.rows import Values
from iosim.core.algorithms._entry import Algorithm
from iosim.core.problem import Attention, BlockSparse
from iosim.core.problem.scores import MaskedScores
from iosim.core.tiling import smallest_capacity
from iosim.core.tiling.gpu import gpu_tiles
from iosim.gpu.probes import probe


@dataclass(frozen=True)
class Case:
    """A variant of attention that programs are validated for.

    Attributes:
        says: what it is.
        options: the length → options of `iosim.core.problem.Attention`.
        rows: N of Q, where it is not the length; keys are as many as the length then.
        grouped: heads of Q for each head of K and V.
        pattern: of the tiles that are computed, of `iosim.gpu.run.patterns`; "": all.
    """

    says: str
    options: Callable[[int], Values]
    rows: int = 0
    grouped: int = 1
    pattern: str = ""

    def problem(self, of: type[Any], N: int, d: int, heads: int) -> Any:
        """The problem at a length; None where problems of this class have no such variant."""
        if bool(self.pattern) != issubclass(of, BlockSparse):
            return None
        options = dict(self.options(N))
        if self.grouped > 1:
            options["kv_heads"] = heads
        if self.rows:
            options["N_k"] = N
        if not options:
            return of.beside_attention(N, d, heads)
        if self.pattern:
            return of(N, N, d, heads * self.grouped, **options)
        if not issubclass(of, MaskedScores):
            return None
        return of(self.rows or N, d, heads * self.grouped, **options)

    def tiles(self, entry: Algorithm, problem: Any, M: int) -> dict[str, int]:
        """Tiles on powers of two within M words.

        Those of a pattern are flash2's without one, since no search can choose what a mask marks.
        Raises CapacityError where none fit.
        """
        if self.pattern:
            entry = probe("flash2")
            problem = Attention(problem.N, problem.d, problem.heads)
        return dict(gpu_tiles(entry.program_for(problem), problem, M).tiles)


CASES: dict[str, Case] = {
    "dense": Case("every row sees every column", lambda N: {}),
    "causal": Case("a row sees no column after its own", lambda N: {"causal": True}),
    "window": Case("304 columns to the left, 16 to the right", lambda N: {"window": (304, 16)}),
    "sinks": Case(
        "causal, 208 columns to the left and the first 16",
        lambda N: {"causal": True, "window": (208, None), "sinks": 16},
    ),
    "cross": Case(
        "keys and head dimension of V of their own, aligned at the lower right",
        lambda N: {"N_k": 3 * N // 2, "d_v": 32, "causal": True},
    ),
    "grouped": Case("4 heads of Q for one of K, causal", lambda N: {"causal": True}, grouped=4),
    "decode": Case("one row against a cache, 4 heads of Q for one of K", lambda N: {}, 1, 4),
    "chunk": Case(
        "16 rows at the end of a cache, causal, 8 heads of Q for one of K",
        lambda N: {"causal": True},
        16,
        8,
    ),
    "band": Case("a block mask: tiles near the diagonal", lambda N: {}, pattern="band"),
    "tiles": Case("a block mask: 3 tiles of 10, drawn", lambda N: {}, pattern="drawn"),
    "below": Case(
        "a block mask: tiles up to the diagonal; causal, 4 heads of Q for one of K",
        lambda N: {"causal": True},
        grouped=4,
        pattern="below",
    ),
}


def cases(text: str) -> tuple[str, ...]:
    """Reads names of `CASES`, or all; raises InputError for an unknown one."""
    chosen = tuple(CASES) if text == "all" else tuple(text.split(","))
    for name in chosen:
        if name not in CASES:
            raise InputError(f"unknown case {name!r}: {closest(name, CASES)}")
    return chosen


def least_capacity(
    names: tuple[str, ...], chosen: tuple[str, ...], head_sizes: tuple[int, ...]
) -> int:
    """The least M at which any of the algorithms has a tile in any of the cases.

    Raises InputError where none of them runs any of the cases.
    """
    found = []
    for entry, case in itertools.product(map(probe, names), (CASES[name] for name in chosen)):
        problem = case.problem(entry.problem, 1024, min(head_sizes), 1)
        if problem is not None and not case.pattern and entry.supports(problem.form):
            program = entry.program_for(problem)
            found.append(smallest_capacity(program, problem, lattice="pow2"))
    if not found:
        raise InputError(
            f"{', '.join(names)} run no case of {', '.join(chosen)}: choose other cases or "
            "schedules"
        )
    return min(found)
