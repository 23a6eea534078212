"""Causal attention by two loops: rows outside, and the columns that they see inside."""

from __future__ import annotations

import functools
from typing import Any

import iosim
from iosim.core.algorithms import Algorithm
from iosim.core.problem import Attention


def causal_scores(b: iosim.Builder, i: Any, j: Any, h: Any, o: Any, m: Any, l: Any, q: Any) -> None:
    k, v, s = b.load("K", h, j, "d"), b.load("V", h, j, "d"), b.zeros("s", i, j)
    b.op("matmul_nt", s, q, k)
    b.op("mask_after", s, a=i.start - j.start)
    b.op("online_softmax", o, m, l, s, v)
    b.free(k, v, s)


def masked(b: iosim.Builder, skip: bool) -> None:
    """FlashAttention-2 with a causal mask; with `skip`, tiles that no row sees are left out."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            q = b.load("Q", h, i, "d")
            o, m, l = b.zeros("o", i, "d"), b.lowest("m", i), b.zeros("l", i)
            for j in b.tiles("N", B_c, stop=i.stop if skip else None):
                causal_scores(b, i, j, h, o, m, l, q)
            b.op("finish", o, l)
            b.store(o, "O", h, i, "d")
            b.free(q, o, m, l)


ALGORITHM = Algorithm(
    name="causal",
    title="causal attention, for tests",
    problem=Attention,
    schedule=functools.partial(masked, skip=True),
    cost="2N²d²/M",
    source="tests",
)
