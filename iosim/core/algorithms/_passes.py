"""Passes: the parts that algorithms, and the family that is searched for better ones, share.

Files like `flash2` call it, and so does `experiments.schedule_search`.  A part that a single
schedule has goes to its own file.  A change here changes the counts of all that use it:
``tests/oracle.py`` and ``tests/golden`` tell which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from iosim.core.algorithms._shape import (
    Head,
    Keys,
    columns,
    heads,
    hide,
    key_heads,
    key_tiles,
    rows,
    safe,
    sharing,
    tile_sizes,
    unseen,
    values,
)
from iosim.core.program.build import Builder
from iosim.core.program.handles import Buffer
from iosim.core.program.index import Index, Tile


def statistics(b: Builder, i: Index, x: Index | str) -> tuple[Buffer, Buffer, Buffer]:
    """Empty accumulators for rows i: columns x of O, row maxima m, and row sums l."""
    return b.zeros("o", i, x), unseen(b, i), b.zeros("l", i)


def finish(
    b: Builder, h: Head, i: Tile, o: Buffer, m: Buffer, l: Buffer, x: Index | str | None = None
) -> None:
    """Columns x of O, or all, to HBM; and L if it is requested."""
    b.op(safe(b, "finish"), o, l)
    b.store(o, "O", *h.q, h.rows(i), values(b) if x is None else x)
    store_statistic(b, h, i, m, l)


def store_statistic(b: Builder, h: Head, i: Tile, m: Buffer, l: Buffer) -> None:
    """L = log Σ exp of the scores of rows i to HBM, in place of their sums, if it is requested.

    It is what the backward pass needs of the row statistics.
    """
    if "statistics" in b.form.options:
        b.op(safe(b, "log_sums"), l, m)
        b.store(l, "L", *h.q, h.rows(i))


def mean(b: Builder, i: Index, x: Index | str) -> tuple[Buffer, Buffer]:
    """Empty accumulators for rows i: columns x of O, a mean at any time, and L = log Σ exp.

    With L in place of a row maximum and a row sum a row takes a word less.
    """
    return b.zeros("o", i, x), (b.lowest if b.form.mask is None else b.low)("L", i)


def store_mean(
    b: Builder, h: Head, i: Tile, o: Buffer, L: Buffer, x: Index | str | None = None
) -> None:
    """Columns x of O, or all, to HBM; and L if it is requested, 0 of rows that saw nothing."""
    b.store(o, "O", *h.q, h.rows(i), values(b) if x is None else x)
    if "statistics" in b.form.options:
        if b.form.mask is not None:
            b.op("seen", L)
        b.store(L, "L", *h.q, h.rows(i))


def scores(b: Builder) -> None:
    """S = QKᵀ to HBM."""
    tile_products(b, "S", "Q", "K", "1")


def tile_products(
    b: Builder,
    to: str,
    left: str,
    right: str,
    n: str,
    finish: Callable[..., None] | None = None,
    beside: Mapping[str, str] | None = None,
) -> None:
    """A product of rows by keys to HBM, like S = QKᵀ, with rectangular tiles.

    For each B_r × B_c tile of S the first W columns of the rows of Q stay resident over the
    whole row of tiles; the other d − W are streamed with K, B_d columns at a time.  W = 0 is
    the usual blocked product (2N²d/√M loads with square tiles); W = d holds whole rows of Q
    (N²d²/M loads), which is better for M > d²/4.

    Under a mask, scores that no row of a block sees are neither computed nor stored.

    Args:
        to: scratch of rows by keys.
        left, right: a tensor of rows and one of keys, with the same columns.
        n: what the names of tile sizes end with.
        finish: what happens to a tile before it is stored: ``finish(h, i, j, s, *beside)``.
        beside: what it takes in addition to the tile, and what stays with the rows: name → tensor
            with a word a row.
    """
    B_r, B_c = tile_sizes(b, f"B_r{n}", f"B_c{n}")
    across = b.form.tensor(right).axes[-1]
    (B_d,) = b.tile_sizes(across, f"B_d{n}")
    W = b.stationary(across, f"W{n}")
    for h in heads(b):
        for i in b.grid("N", B_r):
            held = b.load(left, *h.q, i, b.span(across, 0, W), name="held")
            lines = [b.load(x, *h.q, i, name=name) for name, x in (beside or {}).items()]
            for j in columns(b, i, B_c, parallel=True):
                s = b.zeros("s", i, j.tile)
                for x in b.tiles(across, B_d, 0, W):
                    k = b.load(right, *h.k, j.tile, x)
                    b.op("matmul_nt", s, held[x], k)
                    b.free(k)
                for x in b.tiles(across, B_d, W):
                    q = b.load(left, *h.q, i, x)
                    k = b.load(right, *h.k, j.tile, x)
                    b.op("matmul_nt", s, q, k)
                    b.free(q, k)
                if finish is not None:
                    finish(h, i, j, s, *lines)
                b.store(s, to, *h.q, i, j.tile)
                b.free(s)
            b.free(held, *lines)


def stored_scores(
    b: Builder, tensor: str, h: Head, i: Tile, j: Keys, name: str | None = None
) -> Buffer:
    """A tile of rows by keys from HBM, 0 where rows see nothing."""
    s = b.load(tensor, *h.q, i, j.tile, name=name)
    hide(b, s, i, j, by="drop")
    return s


def row_products(b: Builder, to: str, left: str, right: str, n: str) -> None:
    """A product of rows × keys by keys × columns, like O = PV, in B_r × B_d tiles.

    A row of the left factor is read once for each of the tiles next to it.
    """
    B_r, B_c = tile_sizes(b, f"B_r{n}", f"B_c{n}")
    across = b.form.tensor(right).axes[-1]
    (B_d,) = b.tile_sizes(across, f"B_d{n}")
    for h in heads(b):
        for i in b.grid("N", B_r):
            for x in b.grid(across, B_d):
                o = b.zeros(to.lower(), i, x)
                for j in columns(b, i, B_c):
                    p = stored_scores(b, left, h, i, j)
                    v = b.load(right, *h.k, j.tile, x)
                    b.op("matmul_nn", o, p, v)
                    b.free(p, v)
                b.store(o, to, *h.q, i, x)
                b.free(o)


def key_products(b: Builder, to: str, left: str, right: str, n: str) -> None:
    """A product of (rows × keys)ᵀ by rows × columns, like dV = Pᵀ dO, in B_c × B_d tiles.

    Heads that share keys and values add to the same tiles.
    """
    B_r, B_c = tile_sizes(b, f"B_r{n}", f"B_c{n}")
    across = b.form.tensor(right).axes[-1]
    (B_d,) = b.tile_sizes(across, f"B_d{n}")
    for g in key_heads(b):
        for j in key_tiles(b, B_c, parallel=True):
            for x in b.grid(across, B_d):
                o = b.zeros(to.lower(), j.tile, x)
                for h in sharing(b, g):
                    for i in rows(b, j, B_r, parallel=False):
                        p = stored_scores(b, left, h, i, j)
                        v = b.load(right, *h.q, i, x)
                        b.op("matmul_tn", o, p, v)
                        b.free(p, v)
                b.store(o, to, *g, j.tile, x)
                b.free(o)


def attend(
    b: Builder, h: Head, i: Tile, j: Keys, q: Buffer, o: Buffer, m: Buffer, l: Buffer
) -> None:
    """Rows i attend to the whole rows j of K and V, which are loaded and freed."""
    k = b.load("K", *h.k, j.tile, "d")
    s = b.zeros("s", h.rows(i), j.tile)
    b.op("matmul_nt", s, q, k)
    b.free(k)
    hide(b, s, i, j)
    v = b.load("V", *h.k, j.tile, values(b))
    b.op("online_softmax", o, m, l, s, v)
    b.free(v, s)


def weigh_in_chunks(
    b: Builder, h: Head, j: Keys, B_d: str, o: Buffer, m: Buffer, l: Buffer, s: Buffer
) -> None:
    """Turn scores s into weights and add those of rows j of V to o, B_d columns at a time."""
    b.op("online_weights", o, m, l, s)
    for x in b.tiles(values(b), B_d):
        v = b.load("V", *h.k, j.tile, x)
        b.op("matmul_nn", o[x], s, v)
        b.free(v)
    b.free(s)


def fused_rows(
    b: Builder,
    *,
    of: Callable[[Builder], Iterator[Head]] = heads,
    whole: bool = False,
    hold_q: bool = True,
    chunked: bool = False,
) -> None:
    """Rows of O stay, K and V stream past, scores never leave (FlashAttention-2).

    Args:
        of: the heads to loop over: `heads`, or `groups` with stacked rows.
        whole: all rows of a head are one tile, and B_r is not declared.
        hold_q: rows of Q stay too; otherwise they are streamed with K.
        chunked: K and V come B_d columns at a time instead of in whole rows, which takes d words
            less and moves the same; V in steps of B_v where its rows are not as long as those
            of K.
    """
    chunks = chunked or not hold_q
    (B_d,) = b.tile_sizes("d", "B_d") if chunks else ("",)
    (B_v,) = b.tile_sizes(values(b), "B_v") if chunks and values(b) != "d" else (B_d,)
    B_r, B_c = tile_sizes(b, "N" if whole else "B_r", "B_c")
    for h in of(b):
        for i in b.grid("N", B_r):
            rows = h.rows(i)
            held = [b.load("Q", *h.q, rows, "d")] if hold_q else []
            o, m, l = statistics(b, rows, values(b))
            for j in columns(b, i, B_c):
                if not chunks:
                    attend(b, h, i, j, held[0], o, m, l)
                    continue
                s = b.zeros("s", rows, j.tile)
                for x in b.tiles("d", B_d):
                    own = [] if hold_q else [b.load("Q", *h.q, rows, x)]
                    k = b.load("K", *h.k, j.tile, x)
                    b.op("matmul_nt", s, *(q[x] for q in held), *own, k)
                    b.free(k, *own)
                hide(b, s, i, j)
                weigh_in_chunks(b, h, j, B_v, o, m, l, s)
            finish(b, h, i, o, m, l)
            b.free(*held, o, m, l)


def softmax_tiles(b: Builder) -> None:
    """O = softmax(S)V in B_r2 × B_d2 tiles of O, with online row statistics.

    A row of scores is read once for each of the ⌈d/B_d2⌉ tiles next to it.  Each tile finds the
    same row statistics: if they are requested they are stored as often, and tiles come in order.
    """
    along = b.tiles if "statistics" in b.form.options else b.grid
    B_r, B_c = tile_sizes(b, "B_r2", "B_c2")
    (B_d,) = b.tile_sizes(values(b), "B_d2")
    for h in heads(b):
        for i in b.grid("N", B_r):
            for x in along(values(b), B_d):
                o, m, l = statistics(b, i, x)
                for j in columns(b, i, B_c):
                    s = b.load("S", *h.q, i, j.tile)
                    hide(b, s, i, j)
                    v = b.load("V", *h.k, j.tile, x)
                    b.op("online_softmax", o, m, l, s, v)
                    b.free(s, v)
                finish(b, h, i, o, m, l, x)
                b.free(o, m, l)


def softmax_rows(b: Builder) -> None:
    """O = softmax(S)V in whole rows of O: scores are read once, V comes B_d2 columns at a time."""
    (B_d,) = b.tile_sizes(values(b), "B_d2")
    B_r, B_c = tile_sizes(b, "B_r2", "B_c2")
    for h in heads(b):
        for i in b.grid("N", B_r):
            o, m, l = statistics(b, i, values(b))
            for j in columns(b, i, B_c):
                s = b.load("S", *h.q, i, j.tile)
                hide(b, s, i, j)
                weigh_in_chunks(b, h, j, B_d, o, m, l, s)
            finish(b, h, i, o, m, l)
            b.free(o, m, l)
