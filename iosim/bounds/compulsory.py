"""Compulsory traffic: every input is read once and every output written once.

The memory starts empty and the results must end in slow memory, so each input word that the
computation needs is loaded at least once and each output word is stored at least once.  That the
computation needs *every* word of Q and K is an assumption on the algorithm: with N = 1 the softmax
is 1 whatever Q and K hold, and an algorithm that knew it would read V only.

With a mask the rows of Q that see something are read, and the rows of K and V that are seen: once
for all heads that share them.  Rows of O whose rows of Q see nothing are written, too: as 0.
"""

import math
from typing import Any

from iosim.bounds.base import EVERY_OPTION, Bound
from iosim.core.problem import Problem


def _attention(t: Any) -> Any:
    used = t.heads * t.rows + t.kv_heads * t.columns
    return used * (t.d + t.d_v) + t.heads * (t.N - t.rows) * t.d_v


ATTENTION = Bound(
    name="compulsory",
    covers="every product q·k and p·v is computed explicitly, so every word of Q, K, V is read",
    formula=_attention,
    validity="all sizes and every M",
    source="elementary: Q, K, V are read once and O is written once",
    options=EVERY_OPTION,
)

MATMUL = Bound(
    name="matmul-compulsory",
    problem="matmul",
    covers="any algorithm, for inputs that it does not know beforehand",
    formula=lambda t: t.m * t.k + t.k * t.n + t.m * t.n,
    validity="all sizes and every M",
    source="elementary: A and B are read once and C is written once",
)


def compulsory_of(problem: type[Problem]) -> Bound:
    """The bound of a problem that somebody else wrote: each word of its tensors moves once.

    >>> from iosim import MatMul
    >>> compulsory_of(MatMul).words(MatMul(2, 3, 4), 100)
    26.0
    """

    def count_tensors(t: Any) -> Any:
        tensors = (*problem.inputs, *problem.outputs)
        return sum(math.prod(getattr(t, axis) for axis in x.axes) for x in tensors)

    return Bound(
        name=f"{problem.kind}-compulsory",
        problem=problem.kind,
        covers="any algorithm, if its results depend on each word of the inputs",
        formula=count_tensors,
        validity="all sizes and every M",
        source="elementary: inputs are read once and outputs are written once",
    )
