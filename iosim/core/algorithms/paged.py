"""Paged decoding: K and V are read page by page, where a table of page numbers says.

Kwon et al. 2023 (PagedAttention, arXiv 2309.06180), with the rows of a group's heads stacked.  All
of a group's rows stay where B_r = N, and K and V are read once.  Without a mask, per sequence and
head of K, with R = group·N rows: 2R·d words of Q and O, and ⌈N/B_r⌉ times 2N_k·d words of K and V
and ⌈N_k/page⌉ of the table.  A page is resident as a whole, the last one up to N_k.
"""

from __future__ import annotations

from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._passes import statistics
from iosim.core.algorithms._shape import reach, safe, shift
from iosim.core.problem import PagedAttention
from iosim.core.program.build import Builder
from iosim.core.program.handles import Bound


def schedule(b: Builder) -> None:
    """Rows of Q and O stay; the table leads from page to page."""
    mask = b.form.mask
    (B_r,) = b.tile_sizes("N", "B_r")
    for s in b.grid("batch"):
        for g in b.grid("kv_heads"):
            for i in b.grid("N", B_r):
                rows = b.stack("group", i)
                q = b.load("Q", s, g, rows, "d")
                o, m, l = statistics(b, rows, "d")
                seen: Bound | None = None if mask is None else i.stop + shift(mask) + reach(mask)
                for j in b.tiles("N_k", "page", 0, seen):
                    t = b.load("table", s, b.number(j), name="t")
                    where = (b.at(t, "pages"), g, b.within(j, "page"))
                    k = b.load("K", *where, "d")
                    x = b.zeros("s", rows, j)
                    b.op("matmul_nt", x, q, k)
                    b.free(k)
                    if mask is not None:
                        b.op("mask_after", x, a=i.start + shift(mask) + reach(mask) - j.start)
                    v = b.load("V", *where, "d")
                    b.op("online_softmax", o, m, l, x, v)
                    b.free(t, v, x)
                b.op(safe(b, "finish"), o, l)
                b.store(o, "O", s, g, rows, "d")
                b.free(q, o, m, l)


ALGORITHM = Algorithm(
    name="paged",
    title="paged decoding: K and V in pages, through a table",
    problem=PagedAttention,
    schedule=schedule,
    cost="compulsory",
    source="Kwon et al. 2023, arXiv 2309.06180",
)
