"""Schedules of the backward pass with all options, written out by hand, word by word.

See `oracle` for the memory and `masked_oracle` for what a row sees.  A word of P or dS that no pass
stored can only be loaded where its row doesn't see its column, and is 0 then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from masked_oracle import Case, case, cut, tiles_of
from oracle import Memory, blocks

Tiles = dict[str, int]
Finish = Callable[[int, range, range], None]


def every(act: Callable[..., None], name: str, h: int, *ranges: Iterable[int]) -> None:
    places: list[tuple[int, ...]] = [()]
    for one in map(list, ranges):
        places = [(*at, k) for at in places for k in one]
    for at in places:
        act(name, h, *at)


def zeros(mem: Memory, name: str, h: int, *ranges: Iterable[int]) -> None:
    every(lambda *key: mem.write(0.0, *key), name, h, *ranges)


def add(mem: Memory, value: float, *key: object) -> None:
    mem.write(mem.get(*key) + value, *key)


def out(mem: Memory, name: str, h: int, *ranges: Iterable[int]) -> None:
    every(mem.store, name, h, *ranges)
    every(mem.drop, name, h, *ranges)


def load_pairs(mem: Memory, c: Case, name: str, h: int, I: range, J: range) -> None:
    """A tile of P or dS; where a row doesn't see a column it may never have been stored."""
    for i in I:
        for j in J:
            if not c.sees(i, j):
                mem.hbm.setdefault(name, {})[h, i, j] = 0.0
            mem.load(name, h, i, j)


# -- what options change ------------------------------------------------------------------------


def heads_of(c: Case, g: int) -> range:
    """The heads of Q that share head g of K and V."""
    group = c.heads // c.kv_heads
    return range(g * group, (g + 1) * group)


def heads(c: Case) -> list[tuple[int, int]]:
    """Each head of Q with its head of K and V."""
    return [(h, g) for g in range(c.kv_heads) for h in heads_of(c, g)]


def columns(c: Case, I: range, size: int) -> list[range]:
    """The columns that one of these rows sees, in tiles."""
    return tiles_of(c, c.columns(I), size)


def all_columns(c: Case, size: int) -> list[range]:
    """The columns that some row sees, in tiles."""
    return columns(c, range(c.N), size)


def rows(c: Case, J: range, size: int) -> list[range]:
    """The rows that see one of these columns, in tiles."""
    return cut(c.rows(J), size)


# -- what passes have in common -----------------------------------------------------------------


def clear_dq(mem: Memory, c: Case, t: Tiles) -> None:
    for h in range(c.heads):
        for I in blocks(c.N, t["B_dQ"]):
            for X in blocks(c.d, t["B_dQd"]):
                zeros(mem, "dQ", h, I, X)
                out(mem, "dQ", h, I, X)


def clear_unseen(mem: Memory, c: Case, t: Tiles) -> None:
    """Zeros to dK and dV of the columns that no row sees."""
    unseen = [j for j in range(c.N_k) if not c.rows(range(j, j + 1))]
    if not unseen:
        return
    for name, width in (("dK", c.d), ("dV", c.d_v)):
        for g in range(c.kv_heads):
            for J in cut(unseen, t[f"B_{name}"]):
                for X in blocks(width, t[f"B_{name}d"]):
                    zeros(mem, name, g, J, X)
                    out(mem, name, g, J, X)


def row_sums(mem: Memory, c: Case, t: Tiles) -> None:
    for h in range(c.heads):
        for I in blocks(c.N, t["B_rD"]):
            zeros(mem, "D", h, I)
            for X in blocks(c.d_v, t["B_dD"]):
                for name in ("O", "dO"):
                    every(mem.load, name, h, I, X)
                for i in I:
                    for x in X:
                        add(mem, mem.get("O", h, i, x) * mem.get("dO", h, i, x), "D", h, i)
                for name in ("O", "dO"):
                    every(mem.drop, name, h, I, X)
            out(mem, "D", h, I)


def make_p(mem: Memory, c: Case, h: int, g: int, I: range, J: range) -> None:
    """A tile of P where Q, K and L are resident."""
    for i in I:
        for j in J:
            s = sum(mem.get("Q", h, i, x) * mem.get("K", g, j, x) for x in range(c.d))
            p = math.exp(s - mem.get("L", h, i)) if c.sees(i, j) else 0.0
            mem.write(p, "P", h, i, j)


def make_ds(mem: Memory, c: Case, h: int, g: int, I: range, J: range) -> None:
    """A tile of dS where P, dO, V and D are resident."""
    for i in I:
        for j in J:
            dp = sum(mem.get("dO", h, i, x) * mem.get("V", g, j, x) for x in range(c.d_v))
            mem.write(mem.get("P", h, i, j) * (dp - mem.get("D", h, i)), "dS", h, i, j)


def add_keys(
    mem: Memory, to: str, g: int, left: str, right: str, h: int, I: range, J: range, X: range
) -> None:
    """to[j, x] += Σ left[i, j] · right[i, x]."""
    for j in J:
        for x in X:
            for i in I:
                add(mem, mem.get(left, h, i, j) * mem.get(right, h, i, x), to, g, j, x)


def add_rows(mem: Memory, h: int, g: int, I: range, J: range, X: range) -> None:
    for i in I:
        for x in X:
            for j in J:
                add(mem, mem.get("dS", h, i, j) * mem.get("K", g, j, x), "dQ", h, i, x)


def by_columns(
    mem: Memory,
    c: Case,
    B_r: int,
    B_c: int,
    *,
    rows_too: bool,
    sums_here: bool,
    spill: bool = False,
) -> None:
    X, Y = range(c.d), range(c.d_v)
    for g in range(c.kv_heads):
        for J in all_columns(c, B_c):
            for name, width in (("K", X), ("V", Y)):
                every(mem.load, name, g, J, width)
                zeros(mem, f"d{name}", g, J, width)
            for h in heads_of(c, g):
                for I in rows(c, J, B_r):
                    every(mem.load, "Q", h, I, X)
                    every(mem.load, "L", h, I)
                    make_p(mem, c, h, g, I, J)
                    every(mem.drop, "L", h, I)
                    every(mem.load, "dO", h, I, Y)
                    add_keys(mem, "dV", g, "P", "dO", h, I, J, Y)
                    if sums_here:
                        zeros(mem, "D", h, I)
                        every(mem.load, "O", h, I, Y)
                        for i in I:
                            for y in Y:
                                add(mem, mem.get("O", h, i, y) * mem.get("dO", h, i, y), "D", h, i)
                        every(mem.drop, "O", h, I, Y)
                    else:
                        every(mem.load, "D", h, I)
                    make_ds(mem, c, h, g, I, J)
                    every(mem.drop, "P", h, I, J)
                    every(mem.drop, "dO", h, I, Y)
                    every(mem.drop, "D", h, I)
                    add_keys(mem, "dK", g, "dS", "Q", h, I, J, X)
                    every(mem.drop, "Q", h, I, X)
                    if rows_too:
                        every(mem.load, "dQ", h, I, X)
                        add_rows(mem, h, g, I, J, X)
                        out(mem, "dQ", h, I, X)
                    if spill:
                        every(mem.store, "dS", h, I, J)
                    every(mem.drop, "dS", h, I, J)
            for name, width in (("K", X), ("V", Y)):
                out(mem, f"d{name}", g, J, width)
                every(mem.drop, name, g, J, width)


def flash1_backward(mem: Memory, c: Case, t: Tiles) -> None:
    clear_dq(mem, c, t)
    clear_unseen(mem, c, t)
    by_columns(mem, c, t["B_r"], t["B_c"], rows_too=True, sums_here=True)


def flash2_backward(mem: Memory, c: Case, t: Tiles) -> None:
    row_sums(mem, c, t)
    clear_dq(mem, c, t)
    clear_unseen(mem, c, t)
    by_columns(mem, c, t["B_r"], t["B_c"], rows_too=True, sums_here=False)


def two_kernels(mem: Memory, c: Case, t: Tiles) -> None:
    X, Y = range(c.d), range(c.d_v)
    row_sums(mem, c, t)
    clear_unseen(mem, c, t)
    by_columns(mem, c, t["B_r1"], t["B_c1"], rows_too=False, sums_here=False)
    for h, g in heads(c):
        for I in blocks(c.N, t["B_r2"]):
            every(mem.load, "Q", h, I, X)
            every(mem.load, "dO", h, I, Y)
            for name in ("L", "D"):
                every(mem.load, name, h, I)
            zeros(mem, "dQ", h, I, X)
            for J in columns(c, I, t["B_c2"]):
                every(mem.load, "K", g, J, X)
                every(mem.load, "V", g, J, Y)
                make_p(mem, c, h, g, I, J)
                make_ds(mem, c, h, g, I, J)
                every(mem.drop, "P", h, I, J)
                every(mem.drop, "V", g, J, Y)
                add_rows(mem, h, g, I, J, X)
                every(mem.drop, "dS", h, I, J)
                every(mem.drop, "K", g, J, X)
            out(mem, "dQ", h, I, X)
            every(mem.drop, "Q", h, I, X)
            every(mem.drop, "dO", h, I, Y)
            for name in ("L", "D"):
                every(mem.drop, name, h, I)


# -- with P and dS in slow memory -------------------------------------------------------------


def by_pairs(
    mem: Memory,
    c: Case,
    t: Tiles,
    n: str,
    to: str,
    left: str,
    right: str,
    finish: Finish,
    beside: str = "",
) -> None:
    """to[i, j] = Σ left[i, x] · right[j, x]; of the rows of `left` the first W columns stay."""
    width = {"K": c.d, "V": c.d_v}[right]
    W = min(t[f"W{n}"], width)
    for h, g in heads(c):
        for I in blocks(c.N, t[f"B_r{n}"]):
            every(mem.load, left, h, I, range(W))
            if beside:
                every(mem.load, beside, h, I)
            for J in columns(c, I, t[f"B_c{n}"]):
                zeros(mem, to, h, I, J)
                for X in [*blocks(W, t[f"B_d{n}"]), *blocks(width, t[f"B_d{n}"], W)]:
                    if X.start >= W:
                        every(mem.load, left, h, I, X)
                    every(mem.load, right, g, J, X)
                    for i in I:
                        for j in J:
                            for x in X:
                                add(
                                    mem,
                                    mem.get(left, h, i, x) * mem.get(right, g, j, x),
                                    to,
                                    h,
                                    i,
                                    j,
                                )
                    if X.start >= W:
                        every(mem.drop, left, h, I, X)
                    every(mem.drop, right, g, J, X)
                finish(h, I, J)
                out(mem, to, h, I, J)
            every(mem.drop, left, h, I, range(W))
            if beside:
                every(mem.drop, beside, h, I)


def by_rows(mem: Memory, c: Case, t: Tiles, n: str) -> None:
    """dQ[i, x] = Σ dS[i, j] · K[j, x]."""
    for h, g in heads(c):
        for I in blocks(c.N, t[f"B_r{n}"]):
            for X in blocks(c.d, t[f"B_d{n}"]):
                zeros(mem, "dQ", h, I, X)
                for J in columns(c, I, t[f"B_c{n}"]):
                    load_pairs(mem, c, "dS", h, I, J)
                    every(mem.load, "K", g, J, X)
                    add_rows(mem, h, g, I, J, X)
                    every(mem.drop, "dS", h, I, J)
                    every(mem.drop, "K", g, J, X)
                out(mem, "dQ", h, I, X)


def by_keys(mem: Memory, c: Case, t: Tiles, n: str, to: str, left: str, right: str) -> None:
    """to[j, x] = Σ left[i, j] · right[i, x], over all heads that share keys."""
    for g in range(c.kv_heads):
        for J in all_columns(c, t[f"B_c{n}"]):
            for X in blocks({"dK": c.d, "dV": c.d_v}[to], t[f"B_d{n}"]):
                zeros(mem, to, g, J, X)
                for h in heads_of(c, g):
                    for I in rows(c, J, t[f"B_r{n}"]):
                        load_pairs(mem, c, left, h, I, J)
                        every(mem.load, right, h, I, X)
                        add_keys(mem, to, g, left, right, h, I, J, X)
                        every(mem.drop, left, h, I, J)
                        every(mem.drop, right, h, I, X)
                out(mem, to, g, J, X)


def make_weights(mem: Memory, c: Case, t: Tiles) -> None:
    def finish(h: int, I: range, J: range) -> None:
        for i in I:
            for j in J:
                p = math.exp(mem.get("P", h, i, j) - mem.get("L", h, i)) if c.sees(i, j) else 0.0
                mem.write(p, "P", h, i, j)

    by_pairs(mem, c, t, "1", "P", "Q", "K", finish, "L")


def scale(mem: Memory, c: Case, h: int, I: range, J: range) -> None:
    """dS = P ∘ (dS − D), P loaded for it."""
    load_pairs(mem, c, "P", h, I, J)
    for i in I:
        for j in J:
            dp = mem.get("dS", h, i, j) - mem.get("D", h, i)
            mem.write(mem.get("P", h, i, j) * dp, "dS", h, i, j)
    every(mem.drop, "P", h, I, J)


def naive_backward(mem: Memory, c: Case, t: Tiles) -> None:
    row_sums(mem, c, t)
    clear_unseen(mem, c, t)
    make_weights(mem, c, t)
    by_keys(mem, c, t, "2", "dV", "P", "dO")
    by_pairs(mem, c, t, "3", "dP", "dO", "V", lambda h, I, J: None)
    for h in range(c.heads):
        for I in blocks(c.N, t["B_r4"]):
            for J in columns(c, I, t["B_c4"]):
                load_pairs(mem, c, "dP", h, I, J)
                for i in I:
                    for j in J:
                        mem.write(mem.fast.pop(("dP", h, i, j)), "dS", h, i, j)
                every(mem.load, "D", h, I)
                scale(mem, c, h, I, J)
                every(mem.drop, "D", h, I)
                out(mem, "dS", h, I, J)
    by_rows(mem, c, t, "5")
    by_keys(mem, c, t, "6", "dK", "dS", "Q")


def small_backward(mem: Memory, c: Case, t: Tiles) -> None:
    row_sums(mem, c, t)
    clear_unseen(mem, c, t)
    make_weights(mem, c, t)
    by_keys(mem, c, t, "2", "dV", "P", "dO")

    def finish(h: int, I: range, J: range) -> None:
        for own in blocks(I.stop, t["B_p3"], I.start):
            scale(mem, c, h, own, J)

    by_pairs(mem, c, t, "3", "dS", "dO", "V", finish, "D")
    by_rows(mem, c, t, "4")
    by_keys(mem, c, t, "5", "dK", "dS", "Q")


# -- with P or dS in slow memory for some of the passes -----------------------------------------


def spill_gradient(mem: Memory, c: Case, t: Tiles) -> None:
    row_sums(mem, c, t)
    clear_unseen(mem, c, t)
    by_columns(mem, c, t["B_r1"], t["B_c1"], rows_too=False, sums_here=False, spill=True)
    by_rows(mem, c, t, "2")


def spill_weights(mem: Memory, c: Case, t: Tiles) -> None:
    Y = range(c.d_v)
    row_sums(mem, c, t)
    clear_unseen(mem, c, t)
    make_weights(mem, c, t)
    for g in range(c.kv_heads):
        for J in all_columns(c, t["B_c2"]):
            every(mem.load, "V", g, J, Y)
            zeros(mem, "dV", g, J, Y)
            for h in heads_of(c, g):
                for I in rows(c, J, t["B_r2"]):
                    load_pairs(mem, c, "P", h, I, J)
                    zeros(mem, "dP", h, I, J)
                    for X in blocks(c.d_v, t["B_d2"]):
                        every(mem.load, "dO", h, I, X)
                        for i in I:
                            for j in J:
                                for x in X:
                                    do, v = mem.get("dO", h, i, x), mem.get("V", g, j, x)
                                    add(mem, do * v, "dP", h, i, j)
                        add_keys(mem, "dV", g, "P", "dO", h, I, J, X)
                        every(mem.drop, "dO", h, I, X)
                    every(mem.load, "D", h, I)
                    for i in I:
                        for j in J:
                            dp = mem.fast.pop(("dP", h, i, j)) - mem.get("D", h, i)
                            mem.write(mem.get("P", h, i, j) * dp, "dS", h, i, j)
                    every(mem.drop, "P", h, I, J)
                    every(mem.drop, "D", h, I)
                    out(mem, "dS", h, I, J)
            out(mem, "dV", g, J, Y)
            every(mem.drop, "V", g, J, Y)
    by_rows(mem, c, t, "3")
    by_keys(mem, c, t, "4", "dK", "dS", "Q")


SCHEDULES = {
    one.__name__: one
    for one in (
        naive_backward,
        flash1_backward,
        flash2_backward,
        two_kernels,
        small_backward,
        spill_gradient,
        spill_weights,
    )
}


def _dense(name: str) -> Callable[[Memory, dict[str, int], Tiles], None]:
    return lambda mem, sizes, t: SCHEDULES[name](mem, case(**sizes), t)


DENSE = {name: _dense(name) for name in SCHEDULES}
"""The same without options, called as those of `oracle` are."""


def words(name: str, c: Case, tiles: Tiles, hbm: dict[str, list[object]]) -> Memory:
    """A schedule executed on inputs by head, row and column; each head of Q has its own list."""
    assert name in SCHEDULES, f"write {name} by hand in tests/backward_oracle.py"
    mem = Memory(**hbm)
    SCHEDULES[name](mem, c, tiles)
    assert not mem.fast, "the oracle leaks"
    return mem
