"""FlashAttention-2 that keeps the first W rows of K and V, for M that nearly holds everything.

Found while closing the gap for M near Nd (`docs/notes-schedules.md`): where ⌈N/B_r⌉ is small, words
that the next smaller number of sweeps cannot use keep rows of K and V instead.  Per head:
2Nd + 2Wd + 2⌈N/B_r⌉·(N − W)d words, so the words fall with M steadily instead of in steps.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import STATIONARY, Algorithm
from iosim.core.algorithms._passes import attend, finish, statistics
from iosim.core.algorithms._shape import columns, heads, hide, keys, tile_sizes, values
from iosim.core.problem import Attention
from iosim.core.program.build import Builder


def schedule(b: Builder) -> None:
    """Rows of Q outside; of K and V, W rows stay and the others stream."""
    W = b.stationary(keys(b), "W", "unseen" if "unseen" in b.form.limits else "")
    B_r, B_c = tile_sizes(b, "B_r", "B_c")
    for h in heads(b):
        kept_k = b.load("K", *h.k, b.span(keys(b), 0, W), "d", name="kept_k")
        kept_v = b.load("V", *h.k, b.span(keys(b), 0, W), values(b), name="kept_v")
        for i in b.grid("N", B_r):
            q = b.load("Q", *h.q, i, "d")
            o, m, l = statistics(b, i, values(b))
            for j in columns(b, i, B_c, (0, W)):
                s = b.zeros("s", i, j.tile)
                b.op("matmul_nt", s, q, kept_k[j.tile])
                hide(b, s, i, j)
                b.op("online_softmax", o, m, l, s, kept_v[j.tile])
                b.free(s)
            for j in columns(b, i, B_c, (W, keys(b))):
                attend(b, h, i, j, q, o, m, l)
            finish(b, h, i, o, m, l)
            b.free(q, o, m, l)
        b.free(kept_k, kept_v)


ALGORITHM = Algorithm(
    name="flash2_keep",
    title="FlashAttention-2, some rows of K and V stationary, too",
    problem=Attention,
    schedule=schedule,
    cost="4N²d²/M, without steps near M = Nd",
    source="iosim's schedule search, after Dao 2023, arXiv 2307.08691",
    attains="attenio",
    lacks=("sinks", "window"),  # a window moves on from the first rows
    exponent=-1.0,
    classes=STATIONARY,
)
