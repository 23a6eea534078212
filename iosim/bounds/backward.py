"""Lower bounds for the backward pass of attention.

A backward pass computes QKᵀ and PᵀdO, which is what a forward pass of K, Q and dO does, so that the
forward pass's bound holds for it (`proofs/attention_backward.md#theorem-1`).  In the class `once`
all five products of a pair of a row and a column share their operands, which gives more
(`proofs/attention_backward.md#theorem-2`).
"""

from __future__ import annotations

import functools
from typing import Any

from iosim.bounds.base import CLASSES, EVERY_OPTION, Bound, BoundClass, Floats
from iosim.bounds.unified import pattern_words


def _compulsory(t: Any) -> Any:
    rows, columns = t.heads * t.rows, t.kv_heads * t.columns
    read = (rows + columns) * (t.d + t.d_v)
    return read + t.heads * t.N * t.d + t.kv_heads * t.N_k * (t.d + t.d_v)


COMPULSORY = Bound(
    name="backward-compulsory",
    kind="lower",
    strength="exact",
    problem="attention-backward",
    covers="every product is computed explicitly, so every word of Q, K, V and dO is read",
    formula=_compulsory,
    validity="all sizes and every M",
    source="elementary: Q, K, V and dO are read once, dQ, dK and dV are written once",
    options=EVERY_OPTION,
)


def _forward(klass: BoundClass) -> Bound:
    def formula(t: Any) -> Any:
        gain = t.d_v - t.min(t.d, t.d_v) if klass.name == "recompute" else 0
        return t.pairs * ((t.d + t.d_v) ** 2 - gain**2) / t.M

    def numeric(t: Any) -> Floats:
        ends = t.heads * t.rows + t.kv_heads * t.columns
        found: Floats = t.each(
            functools.partial(pattern_words, klass),
            pairs=t.pairs, ends=ends, d=t.d, M=t.M, d_v=t.d_v,
        )  # fmt: skip
        return found

    return Bound(
        name=f"backward-as-forward-{klass.name}",
        kind="lower",
        strength="exact",
        problem="attention-backward",
        covers=klass.says,
        formula=formula,
        validity="every N, d, heads and M",
        source="iosim, proofs/attention_backward.md, Theorem 1",
        proof="attention_backward",
        theorem="theorem-1",
        numeric=numeric,
        classes=(klass,),
        options=EVERY_OPTION,
        options_proof="attention_backward",
        options_theorem="theorem-1",
    )


AS_FORWARD_ONCE, AS_FORWARD_RECOMPUTE, AS_FORWARD_TREES = map(_forward, CLASSES.values())


def _lines(t: Any) -> Any:
    """Words of a row of Q, dO and dQ times those of a column of K, V, dK and dV."""
    return (2 * t.d + t.d_v) * (2 * t.d + 2 * t.d_v)


def _segments(name: str, validity: str, formula: Any, outside: Any) -> Bound:
    return Bound(
        name=name,
        kind="lower",
        strength="exact",
        problem="attention-backward",
        covers=CLASSES["once"].says,
        formula=formula,
        validity=validity,
        source="iosim, proofs/attention_backward.md, Theorem 2",
        outside=outside,
        proof="attention_backward",
        theorem="theorem-2",
        classes=(CLASSES["once"],),
        options=EVERY_OPTION,
        options_proof="attention_backward",
        options_theorem="theorem-2",
    )


SEGMENTS = _segments(
    "backward-segments",
    "24d² ≤ M < √(12·heads)·N·d (with d_v: 12d² is (2d + d_v)(2d + 2d_v))",
    lambda t: t.pairs * _lines(t) / t.M,
    lambda t: (
        None
        if 2 * _lines(t) <= t.M and t.pairs * _lines(t) > t.M**2
        else "M is below 2(2d + d_v)(2d + 2d_v), or one segment could hold all pairs"
    ),
)
SHORT = _segments(
    "backward-segments-short",
    "M < 48d² < heads·N² (with d_v: 12d² is (2d + d_v)(2d + 2d_v))",
    lambda t: t.pairs * (1 - t.M / (4 * _lines(t))) - 4 * _lines(t) + 2 * t.M,
    lambda t: (
        None
        if t.M < 4 * _lines(t) < t.pairs
        else "M is at least 4(2d + d_v)(2d + 2d_v), or one segment could hold all pairs"
    ),
)
