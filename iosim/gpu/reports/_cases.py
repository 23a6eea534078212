"""Variants of attention that reports run, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from iosim.errors import InputError, closest
from iosim.problem.scores import MaskedScores


@dataclass(frozen=True)
class Case:
    """A variant of attention that programs are validated for.

    Attributes:
        says: what it is.
        options: the length → options of `iosim.problem.Attention`.
        rows: N of Q, where it is not the length; keys are as many as the length then.
        grouped: heads of Q for each head of K and V.
    """

    says: str
    options: Callable[[int], Mapping[str, Any]]
    rows: int = 0
    grouped: int = 1

    def problem(self, of: type[Any], N: int, d: int, heads: int) -> Any:
        """The problem at a length; None where problems of this class have no such variant."""
        options = dict(self.options(N))
        if self.grouped > 1:
            options["kv_heads"] = heads
        if self.rows:
            options["N_k"] = N
        if not options:
            return of.beside_attention(N, d, heads)
        if not issubclass(of, MaskedScores):
            return None
        return of(self.rows or N, d, heads * self.grouped, **options)


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
        lambda N: {"causal": True}, 16, 8,
    ),
}  # fmt: skip


def cases(text: str) -> tuple[str, ...]:
    """Reads names of `CASES`, or all; raises InputError for an unknown one."""
    chosen = tuple(CASES) if text == "all" else tuple(text.split(","))
    for name in chosen:
        if name not in CASES:
            raise InputError(f"unknown case {name!r}: {closest(name, CASES)}")
    return chosen
