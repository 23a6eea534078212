"""Parts that schedules of the backward pass share."""

from __future__ import annotations

from iosim.algorithms._shape import (
    Head,
    Keys,
    heads,
    hide,
    key_heads,
    of_heads,
    unseen_keys,
    values,
)
from iosim.program.build import Builder
from iosim.program.handles import Bound, Buffer
from iosim.program.index import Tile


def row_sums(b: Builder) -> None:
    """D = rowsum(dO ∘ O) to HBM, B_dD columns at a time (Dao 2023, Algorithm 2, line 4)."""
    b.scratch("D", *of_heads(b), "N", wide=True)
    (B_r,) = b.tile_sizes("N", "B_rD")
    (B_d,) = b.tile_sizes(values(b), "B_dD")
    for h in heads(b):
        for i in b.grid("N", B_r):
            sums = b.zeros("sums", i)
            for x in b.tiles(values(b), B_d):
                o = b.load("O", *h.q, i, x)
                do = b.load("dO", *h.q, i, x)
                b.op("row_dots", sums, o, do)
                b.free(o, do)
            b.store(sums, "D", *h.q, i)
            b.free(sums)


def weigh(b: Builder, i: Tile, j: Keys, q: Buffer, k: Buffer, l: Buffer) -> Buffer:
    """A tile of P = exp(QKᵀ − L)."""
    p = b.zeros("p", i, j.tile)
    b.op("matmul_nt", p, q, k)
    hide(b, p, i, j)
    b.op("weights", p, l)
    return p


def differentiate(
    b: Builder, i: Tile, j: Keys, p: Buffer, do: Buffer, v: Buffer, sums: Buffer
) -> Buffer:
    """A tile of dS = P ∘ (dO Vᵀ − D)."""
    ds = b.zeros("ds", i, j.tile)
    b.op("matmul_nt", ds, do, v)
    b.op("softmax_gradient", ds, p, sums)
    return ds


def add_to_columns(
    b: Builder, h: Head, i: Tile, j: Keys, k: Buffer, v: Buffer, dk: Buffer, dv: Buffer
) -> tuple[Buffer, Buffer]:
    """Add what rows i give to dK and dV of the keys j; returns the rows' tile of dS, and Q."""
    q = b.load("Q", *h.q, i, "d")
    l = b.load("L", *h.q, i)
    p = weigh(b, i, j, q, k, l)
    b.free(l)
    do = b.load("dO", *h.q, i, values(b))
    b.op("matmul_tn", dv, p, do)
    sums = b.load("D", *h.q, i, name="sums")
    ds = differentiate(b, i, j, p, do, v, sums)
    b.free(p, do, sums)
    b.op("matmul_tn", dk, ds, q)
    return ds, q


def clear(b: Builder, tensor: str, part: tuple[Bound, Bound] | None = None) -> None:
    """Zeros to a gradient, or to a part of its rows."""
    axis, across = b.form.tensor(tensor).axes[-2:]
    (B_r,) = b.tile_sizes(axis, f"B_{tensor}")
    (B_d,) = b.tile_sizes(across, f"B_{tensor}d")
    for h in heads(b) if tensor == "dQ" else key_heads(b):
        of = h.q if isinstance(h, Head) else h
        for i in b.grid(axis, B_r, *(part or ())):
            for x in b.grid(across, B_d):
                zeros = b.zeros("zeros", i, x)
                b.store(zeros, tensor, *of, i, x)
                b.free(zeros)


def clear_unseen(b: Builder) -> None:
    """Zeros to dK and dV of keys that no row sees, where a mask can leave some."""
    part = unseen_keys(b)
    if part is not None:
        clear(b, "dK", part)
        clear(b, "dV", part)
