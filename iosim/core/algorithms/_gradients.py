"""Parts that schedules of the backward pass share.

Files like `flash2_backward` call it, and so does `iosim.gpu.libraries`.  A part that a single
schedule has goes to its own file.
"""

from __future__ import annotations

from iosim.core.algorithms._passes import stored_scores, tile_products
from iosim.core.algorithms._shape import (
    Head,
    Keys,
    heads,
    hide,
    key_heads,
    key_tiles,
    keys,
    of_heads,
    rows,
    sharing,
    tile_sizes,
    unseen_keys,
    values,
)
from iosim.core.program.build import Builder
from iosim.core.program.handles import Bound, Buffer
from iosim.core.program.index import Tile


def spilled(b: Builder, *names: str) -> None:
    """Declare scratch with a word for each score."""
    for name in names:
        b.scratch(name, *of_heads(b), "N", keys(b))


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


def column_blocks(
    b: Builder,
    *,
    sums: str = "D",
    rows_too: bool = True,
    spill: bool = False,
    n: str = "",
    to: str = "dQ",
) -> None:
    """Blocks of columns outside: K, V, dK and dV stay, rows stream past.

    Args:
        sums: ``D``: the row sums of dO ∘ O come from HBM; ``here``: O is streamed, and they are
            made for each tile.
        rows_too: dQ is loaded, added to and stored for each tile; otherwise it is left out.
        spill: dS is stored.
        n: what the names of tile sizes end with.
        to: the tensor in which dQ is added up.
    """
    B_r, B_c = tile_sizes(b, f"B_r{n}", f"B_c{n}")
    for g in key_heads(b):
        for j in key_tiles(b, B_c, parallel=not rows_too):
            k = b.load("K", *g, j.tile, "d")
            v = b.load("V", *g, j.tile, values(b))
            dk, dv = b.zeros("dk", j.tile, "d"), b.zeros("dv", j.tile, values(b))
            for h in sharing(b, g):
                for i in rows(b, j, B_r, parallel=False):
                    q = b.load("Q", *h.q, i, "d")
                    l = b.load("L", *h.q, i)
                    p = weigh(b, i, j, q, k, l)
                    b.free(l)
                    do = b.load("dO", *h.q, i, values(b))
                    b.op("matmul_tn", dv, p, do)
                    d = row_sums_of(b, h, i, do) if sums == "here" else stored_sums(b, h, i)
                    ds = differentiate(b, i, j, p, do, v, d)
                    b.free(p, do, d)
                    b.op("matmul_tn", dk, ds, q)
                    b.free(q)
                    if rows_too:
                        dq = b.load(to, *h.q, i, "d", name="dq")
                        b.op("matmul_nn", dq, ds, k)
                        b.store(dq, to, *h.q, i, "d")
                        b.free(dq)
                    if spill:
                        b.store(ds, "dS", *h.q, i, j.tile)
                    b.free(ds)
            b.store(dk, "dK", *g, j.tile, "d")
            b.store(dv, "dV", *g, j.tile, values(b))
            b.free(k, v, dk, dv)


def stored_sums(b: Builder, h: Head, i: Tile) -> Buffer:
    """D of rows i, from HBM."""
    return b.load("D", *h.q, i, name="sums")


def row_sums_of(b: Builder, h: Head, i: Tile, do: Buffer) -> Buffer:
    """D of rows i, from their O and dO."""
    sums = b.zeros("sums", i)
    o = b.load("O", *h.q, i, values(b))
    b.op("row_dots", sums, o, do)
    b.free(o)
    return sums


def clear(b: Builder, tensor: str, part: tuple[Bound, Bound] | None = None, *, n: str = "") -> None:
    """Zeros to a gradient, or to a part of its rows; names of tile sizes end with `n`."""
    axis, across = b.form.tensor(tensor).axes[-2:]
    (B_r,) = b.tile_sizes(axis, f"B_{tensor}{n}")
    (B_d,) = b.tile_sizes(across, f"B_{tensor}d{n}")
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


def weights(b: Builder, n: str) -> None:
    """P = exp(QKᵀ − L) to HBM."""

    def finish(h: Head, i: Tile, j: Keys, s: Buffer, l: Buffer) -> None:
        hide(b, s, i, j)
        b.op("weights", s, l)

    tile_products(b, "P", "Q", "K", n, finish, {"l": "L"})


def gradients(b: Builder, n: str) -> None:
    """dS = P ∘ (dO Vᵀ − D) to HBM; of P, which is read, B_p rows are resident with a tile of it."""
    (B_p,) = b.tile_sizes("N", f"B_p{n}")

    def finish(h: Head, i: Tile, j: Keys, s: Buffer, sums: Buffer) -> None:
        for y in b.tiles("N", B_p, i.start, i.stop):
            p = stored_scores(b, "P", h, y, j)
            b.op("softmax_gradient", s[y], p, sums[y])
            b.free(p)

    tile_products(b, "dS", "dO", "V", n, finish, {"sums": "D"})
