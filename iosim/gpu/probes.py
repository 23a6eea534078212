"""Schedules that nobody would run: each shows one thing that the model and hardware tell apart.

`iosim gpu validate --schedule keys_twice` runs them by name; ``all`` leaves them out.

>>> probe("keys_twice").title
'FlashAttention-2 that loads each tile of K twice and uses the second copy only'
"""

from __future__ import annotations

from iosim.base.errors import InputError, closest
from iosim.core.algorithms import ALGORITHMS, algorithm, named
from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._passes import statistics
from iosim.core.algorithms._shape import heads
from iosim.core.algorithms.own_file import names_file
from iosim.core.problem import Attention
from iosim.core.program.build import Builder


def keys_twice(b: Builder) -> None:
    """`flash2`, with one more load of K that nothing reads: a third of the loop's loads."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    for h in heads(b):
        for i in b.grid("N", B_r):
            q = b.load("Q", *h.q, i, "d")
            o, m, l = statistics(b, i, "d")
            for j in b.tiles("N", B_c):
                unused = b.load("K", *h.k, j, "d", name="unused")
                k, v = b.load("K", *h.k, j, "d"), b.load("V", *h.k, j, "d")
                s = b.zeros("s", i, j)
                b.op("matmul_nt", s, q, k)
                b.op("online_softmax", o, m, l, s, v)
                b.free(unused, k, v, s)
            b.op("finish", o, l)
            b.store(o, "O", *h.q, i, "d")
            b.free(q, o, m, l)


PROBES: dict[str, Algorithm] = {
    "keys_twice": Algorithm(
        name="keys_twice",
        title="FlashAttention-2 that loads each tile of K twice and uses the second copy only",
        problem=Attention,
        schedule=keys_twice,
        cost="6N²d²/M",
        source="iosim",
        lacks=tuple(option.name for option in Attention.options()),
    ),
}


def probe(name: str) -> Algorithm:
    """A probe, or a registered algorithm; raises InputError with the closest name.

    >>> probe("flash2") is algorithm("flash2")
    True
    """
    if name in PROBES:
        return PROBES[name]
    name = named(name)
    if name not in ALGORITHMS and not names_file(name):
        known = {**ALGORITHMS, **PROBES}
        raise InputError(f"unknown algorithm {name!r}: {closest(name, known)}")
    return algorithm(name)
