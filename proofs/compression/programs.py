"""Programs that compute every entry of QKᵀ: loads, products and entries, one word at a time."""

from __future__ import annotations

import itertools

Instruction = tuple[str, tuple[object, ...]]


def by_tiles(N: int, d: int, a: int, b: int) -> list[Instruction]:
    """Entries in a × b tiles with whole rows of Q and K; entries are dropped once computed."""
    out: list[Instruction] = []
    for top in range(0, N, a):
        I = range(top, min(top + a, N))
        q_words = [("Q", i, p) for i in I for p in range(d)]
        out += [("load", w) for w in q_words]
        for left in range(0, N, b):
            J = range(left, min(left + b, N))
            k_words = [("K", j, p) for j in J for p in range(d)]
            out += [("load", w) for w in k_words]
            for i, j in itertools.product(I, J):
                out += [("fma", (i, j, p)) for p in range(d)]
                out += [("entry", (i, j)), ("free", ("S", i, j))]
            out += [("free", w) for w in k_words]
        out += [("free", w) for w in q_words]
    return out


def by_chunks(N: int, d: int, a: int) -> list[Instruction]:
    """Entries in a × a tiles, d in chunks of one: accumulators stay, columns stream, all stored."""
    out: list[Instruction] = []
    for top, left in itertools.product(range(0, N, a), repeat=2):
        I, J = range(top, min(top + a, N)), range(left, min(left + a, N))
        for p in range(d):
            words = [("Q", i, p) for i in I] + [("K", j, p) for j in J]
            out += [("load", w) for w in words]
            out += [("fma", (i, j, p)) for i in I for j in J]
            out += [("free", w) for w in words]
        for i, j in itertools.product(I, J):
            out += [("entry", (i, j)), ("store", ("S", i, j)), ("free", ("S", i, j))]
    return out


def by_spills(N: int, d: int, a: int) -> list[Instruction]:
    """As by_chunks, but each accumulator is spilled and reloaded between chunks of d."""
    out: list[Instruction] = []
    for top, left in itertools.product(range(0, N, a), repeat=2):
        I, J = range(top, min(top + a, N)), range(left, min(left + a, N))
        for p in range(d):
            words = [("Q", i, p) for i in I] + [("K", j, p) for j in J]
            out += [("load", w) for w in words]
            for i, j in itertools.product(I, J):
                if p:
                    out.append(("load", ("S", i, j)))
                out.append(("fma", (i, j, p)))
                if p == d - 1:
                    out.append(("entry", (i, j)))
                out += [("store", ("S", i, j)), ("free", ("S", i, j))]
            out += [("free", w) for w in words]
    return out
