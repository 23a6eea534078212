"""Flash-Decoding: keys are split, every split has its own softmax, and a second nest merges them.

Dao, Haziza, Massa and Sizov 2023 (https://crfm.stanford.edu/2023/10/12/flashdecoding.html).  One
row of Q and a long cache give `flash2` one block of rows per head; splits of B_s keys are
independent, too, and fill a GPU.  A split stores its unnormalized O and its row statistics to
scratch, in fp32.  Rows of heads that share keys are stacked.

With S = ⌈N_k/B_s⌉ splits and no mask, per head of K with R = N·heads/kv_heads rows: S·Rd +
⌈N/B_r⌉·N_k(d + d_v) words to load Q, K and V, 2S·R(d_v + 2) to store and load the parts, and R·d_v
to store O.  That is (S − 1)·Rd + 2S·R(d_v + 2) more than `grouped_rows`.  Under a mask a block of
rows has as many splits as its own keys make.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._passes import attend, finish, statistics
from iosim.core.algorithms._shape import (
    Keys,
    columns,
    groups,
    keys,
    of_heads,
    tile_sizes,
    values,
)
from iosim.core.problem import Attention
from iosim.core.program.build import Builder

# Streaming multiprocessors of an H100 SXM.
_SMS = 132


def schedule(b: Builder) -> None:
    """Grids over heads, rows and splits of their keys; then a pass over the parts."""
    B_r, B_c = tile_sizes(b, "B_r", "B_c")
    (B_s,) = b.tile_sizes(keys(b), "B_s")
    splits = b.split_axis("splits", keys(b), B_s, letters="s")
    first, *group = of_heads(b)
    parts = {"O_part": (values(b),), "m_part": (), "l_part": ()}
    for name, columns_of in parts.items():
        b.scratch(name, first, splits, *group, "N", *columns_of, wide=True)
    for h in groups(b):
        for i in b.grid("N", B_r):
            for s in columns(b, i, B_s, parallel=True):
                q = b.load("Q", *h.q, h.rows(i), "d")
                found = statistics(b, h.rows(i), values(b))
                for j in b.tiles(keys(b), B_c, s.tile.start, s.tile.stop):
                    attend(b, h, i, Keys(j), q, *found)
                for x, (name, columns_of) in zip(found, parts.items(), strict=True):
                    b.store(x, name, *h.q, b.number(s.tile), h.rows(i), *columns_of)
                b.free(q, *found)
    for h in groups(b):
        for i in b.grid("N", B_r):
            found = statistics(b, h.rows(i), values(b))
            for s in columns(b, i, B_s):
                more = [
                    b.load(name, *h.q, b.number(s.tile), h.rows(i), *columns_of)
                    for name, columns_of in parts.items()
                ]
                b.op("merge", *found, *more)
                b.free(*more)
            o, m, l = found
            finish(b, h, i, o, m, l)
            b.free(o, m, l)


def filling_tiles(problem: Attention, M: int) -> dict[str, int]:
    """Blocks of 64 rows and 64 keys, and as many splits as give every SM of an H100 work."""
    B_r, B_c = min(problem.N, 64), min(problem.keys, 64)
    blocks = problem.groups * -(-problem.N // B_r)
    splits = max(1, -(-_SMS // blocks))
    B_s = -(-problem.keys // splits)
    return {"B_r": B_r, "B_c": B_c, "B_s": -(-B_s // B_c) * B_c}


ALGORITHM = Algorithm(
    name="split_kv",
    title="Flash-Decoding: splits of the keys, then a merge",
    problem=Attention,
    schedule=schedule,
    cost="4N·N_k·d²/M + 3⌈N_k/B_s⌉·Nd",
    source="Dao et al. 2023, Flash-Decoding for long-context inference",
    rules={"flash-decoding": filling_tiles},
    lacks=("sinks",),  # they would be splits of their own
    needs=("N_k",),
)
