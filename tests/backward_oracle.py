"""Schedules of the backward pass written out by hand, word by word; see `oracle`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from oracle import Memory, blocks

Sizes = dict[str, int]
Finish = Callable[[int, range, range], None]


def every(act: Callable[..., None], name: str, h: int, *ranges: Iterable[int]) -> None:
    places: list[tuple[int, ...]] = [()]
    for one in map(list, ranges):
        places = [(*at, k) for at in places for k in one]
    for at in places:
        act(name, h, *at)


def zeros(mem: Memory, name: str, h: int, *ranges: Iterable[int]) -> None:
    every(lambda *key: mem.put(0.0, *key), name, h, *ranges)


def add(mem: Memory, value: float, *key: object) -> None:
    mem.put(mem.get(*key) + value, *key)


def out(mem: Memory, name: str, h: int, *ranges: Iterable[int]) -> None:
    every(mem.store, name, h, *ranges)
    every(mem.drop, name, h, *ranges)


def clear_dq(mem: Memory, size: Sizes, t: Sizes) -> None:
    for h in range(size["heads"]):
        for I in blocks(size["N"], t["B_dQ"]):
            for X in blocks(size["d"], t["B_dQd"]):
                zeros(mem, "dQ", h, I, X)
                out(mem, "dQ", h, I, X)


def row_sums(mem: Memory, size: Sizes, t: Sizes) -> None:
    for h in range(size["heads"]):
        for I in blocks(size["N"], t["B_rD"]):
            zeros(mem, "D", h, I)
            for X in blocks(size["d"], t["B_dD"]):
                for name in ("O", "dO"):
                    every(mem.load, name, h, I, X)
                for i in I:
                    for x in X:
                        add(mem, mem.get("O", h, i, x) * mem.get("dO", h, i, x), "D", h, i)
                for name in ("O", "dO"):
                    every(mem.drop, name, h, I, X)
            out(mem, "D", h, I)


def make_p(mem: Memory, h: int, I: range, J: range, d: int) -> None:
    """A tile of P where Q, K and L are resident."""
    for i in I:
        for j in J:
            s = sum(mem.get("Q", h, i, x) * mem.get("K", h, j, x) for x in range(d))
            mem.put(math.exp(s - mem.get("L", h, i)), "P", h, i, j)


def make_ds(mem: Memory, h: int, I: range, J: range, d: int) -> None:
    """A tile of dS where P, dO, V and D are resident."""
    for i in I:
        for j in J:
            dp = sum(mem.get("dO", h, i, x) * mem.get("V", h, j, x) for x in range(d))
            mem.put(mem.get("P", h, i, j) * (dp - mem.get("D", h, i)), "dS", h, i, j)


def by_columns(
    mem: Memory, size: Sizes, rows: int, columns: int, *, rows_too: bool, sums_here: bool,
    spill: bool = False,
) -> None:  # fmt: skip
    N, d = size["N"], size["d"]
    X = range(d)
    for h in range(size["heads"]):
        for J in blocks(N, columns):
            for name in ("K", "V"):
                every(mem.load, name, h, J, X)
                zeros(mem, f"d{name}", h, J, X)
            for I in blocks(N, rows):
                every(mem.load, "Q", h, I, X)
                every(mem.load, "L", h, I)
                make_p(mem, h, I, J, d)
                every(mem.drop, "L", h, I)
                every(mem.load, "dO", h, I, X)
                for j in J:
                    for x in X:
                        for i in I:
                            add(mem, mem.get("P", h, i, j) * mem.get("dO", h, i, x), "dV", h, j, x)
                if sums_here:
                    zeros(mem, "D", h, I)
                    every(mem.load, "O", h, I, X)
                    for i in I:
                        for x in X:
                            add(mem, mem.get("O", h, i, x) * mem.get("dO", h, i, x), "D", h, i)
                    every(mem.drop, "O", h, I, X)
                else:
                    every(mem.load, "D", h, I)
                make_ds(mem, h, I, J, d)
                every(mem.drop, "P", h, I, J)
                every(mem.drop, "dO", h, I, X)
                every(mem.drop, "D", h, I)
                for j in J:
                    for x in X:
                        for i in I:
                            add(mem, mem.get("dS", h, i, j) * mem.get("Q", h, i, x), "dK", h, j, x)
                every(mem.drop, "Q", h, I, X)
                if rows_too:
                    every(mem.load, "dQ", h, I, X)
                    add_rows(mem, h, I, J, X)
                    out(mem, "dQ", h, I, X)
                if spill:
                    every(mem.store, "dS", h, I, J)
                every(mem.drop, "dS", h, I, J)
            for name in ("dK", "dV"):
                out(mem, name, h, J, X)
            for name in ("K", "V"):
                every(mem.drop, name, h, J, X)


def add_rows(mem: Memory, h: int, I: range, J: range, X: range) -> None:
    for i in I:
        for x in X:
            for j in J:
                add(mem, mem.get("dS", h, i, j) * mem.get("K", h, j, x), "dQ", h, i, x)


def flash1_backward(mem: Memory, size: Sizes, t: Sizes) -> None:
    clear_dq(mem, size, t)
    by_columns(mem, size, t["B_r"], t["B_c"], rows_too=True, sums_here=True)


def flash2_backward(mem: Memory, size: Sizes, t: Sizes) -> None:
    row_sums(mem, size, t)
    clear_dq(mem, size, t)
    by_columns(mem, size, t["B_r"], t["B_c"], rows_too=True, sums_here=False)


def two_kernels(mem: Memory, size: Sizes, t: Sizes) -> None:
    N, d = size["N"], size["d"]
    X = range(d)
    row_sums(mem, size, t)
    by_columns(mem, size, t["B_r1"], t["B_c1"], rows_too=False, sums_here=False)
    for h in range(size["heads"]):
        for I in blocks(N, t["B_r2"]):
            for name in ("Q", "dO"):
                every(mem.load, name, h, I, X)
            for name in ("L", "D"):
                every(mem.load, name, h, I)
            zeros(mem, "dQ", h, I, X)
            for J in blocks(N, t["B_c2"]):
                for name in ("K", "V"):
                    every(mem.load, name, h, J, X)
                make_p(mem, h, I, J, d)
                make_ds(mem, h, I, J, d)
                every(mem.drop, "P", h, I, J)
                every(mem.drop, "V", h, J, X)
                add_rows(mem, h, I, J, X)
                every(mem.drop, "dS", h, I, J)
                every(mem.drop, "K", h, J, X)
            out(mem, "dQ", h, I, X)
            for name in ("Q", "dO"):
                every(mem.drop, name, h, I, X)
            for name in ("L", "D"):
                every(mem.drop, name, h, I)


# -- with P and dS in slow memory -------------------------------------------------------------


def by_pairs(
    mem: Memory, size: Sizes, t: Sizes, n: str, to: str, left: str, right: str, finish: Finish,
    beside: str = "",
) -> None:  # fmt: skip
    """to[i, j] = Σ left[i, x] · right[j, x]; of the rows of `left` the first W columns stay."""
    N, d, W = size["N"], size["d"], min(t[f"W{n}"], size["d"])
    for h in range(size["heads"]):
        for I in blocks(N, t[f"B_r{n}"]):
            every(mem.load, left, h, I, range(W))
            if beside:
                every(mem.load, beside, h, I)
            for J in blocks(N, t[f"B_c{n}"]):
                zeros(mem, to, h, I, J)
                for X in [*blocks(W, t[f"B_d{n}"]), *blocks(d, t[f"B_d{n}"], W)]:
                    if X.start >= W:
                        every(mem.load, left, h, I, X)
                    every(mem.load, right, h, J, X)
                    for i in I:
                        for j in J:
                            for x in X:
                                add(mem, mem.get(left, h, i, x) * mem.get(right, h, j, x),
                                    to, h, i, j)  # fmt: skip
                    if X.start >= W:
                        every(mem.drop, left, h, I, X)
                    every(mem.drop, right, h, J, X)
                finish(h, I, J)
                out(mem, to, h, I, J)
            every(mem.drop, left, h, I, range(W))
            if beside:
                every(mem.drop, beside, h, I)


def by_outputs(
    mem: Memory, size: Sizes, t: Sizes, n: str, to: str, left: str, right: str, *, keys: bool
) -> None:
    """to[i, x] = Σ left[i, j] · right[j, x]; of `keys` to[j, x] = Σ left[i, j] · right[i, x]."""
    N, mine, other = size["N"], t[f"B_r{n}"], t[f"B_c{n}"]
    if keys:
        mine, other = other, mine
    for h in range(size["heads"]):
        for A in blocks(N, mine):
            for X in blocks(size["d"], t[f"B_d{n}"]):
                zeros(mem, to, h, A, X)
                for B in blocks(N, other):
                    I, J = (B, A) if keys else (A, B)
                    every(mem.load, left, h, I, J)
                    every(mem.load, right, h, B, X)
                    for a in A:
                        for x in X:
                            for b in B:
                                pair = (b, a) if keys else (a, b)
                                add(mem, mem.get(left, h, *pair) * mem.get(right, h, b, x),
                                    to, h, a, x)  # fmt: skip
                    every(mem.drop, left, h, I, J)
                    every(mem.drop, right, h, B, X)
                out(mem, to, h, A, X)


def make_weights(mem: Memory, size: Sizes, t: Sizes) -> None:
    def finish(h: int, I: range, J: range) -> None:
        for i in I:
            for j in J:
                p = math.exp(mem.get("P", h, i, j) - mem.get("L", h, i))
                mem.put(p, "P", h, i, j)

    by_pairs(mem, size, t, "1", "P", "Q", "K", finish, "L")


def scale(mem: Memory, h: int, I: range, J: range) -> None:
    """dS = P ∘ (dS − D), P loaded for it."""
    every(mem.load, "P", h, I, J)
    for i in I:
        for j in J:
            dp = mem.get("dS", h, i, j) - mem.get("D", h, i)
            mem.put(mem.get("P", h, i, j) * dp, "dS", h, i, j)
    every(mem.drop, "P", h, I, J)


def naive_backward(mem: Memory, size: Sizes, t: Sizes) -> None:
    row_sums(mem, size, t)
    make_weights(mem, size, t)
    by_outputs(mem, size, t, "2", "dV", "P", "dO", keys=True)
    by_pairs(mem, size, t, "3", "dP", "dO", "V", lambda h, I, J: None)
    for h in range(size["heads"]):
        for I in blocks(size["N"], t["B_r4"]):
            for J in blocks(size["N"], t["B_c4"]):
                every(mem.load, "dP", h, I, J)
                for i in I:
                    for j in J:
                        mem.put(mem.fast.pop(("dP", h, i, j)), "dS", h, i, j)
                every(mem.load, "D", h, I)
                scale(mem, h, I, J)
                every(mem.drop, "D", h, I)
                out(mem, "dS", h, I, J)
    by_outputs(mem, size, t, "5", "dQ", "dS", "K", keys=False)
    by_outputs(mem, size, t, "6", "dK", "dS", "Q", keys=True)


def small_backward(mem: Memory, size: Sizes, t: Sizes) -> None:
    row_sums(mem, size, t)
    make_weights(mem, size, t)
    by_outputs(mem, size, t, "2", "dV", "P", "dO", keys=True)

    def finish(h: int, I: range, J: range) -> None:
        for own in blocks(I.stop, t["B_p3"], I.start):
            scale(mem, h, own, J)

    by_pairs(mem, size, t, "3", "dS", "dO", "V", finish, "D")
    by_outputs(mem, size, t, "4", "dQ", "dS", "K", keys=False)
    by_outputs(mem, size, t, "5", "dK", "dS", "Q", keys=True)


# -- with P or dS in slow memory for some of the passes -----------------------------------------


def spill_gradient(mem: Memory, size: Sizes, t: Sizes) -> None:
    row_sums(mem, size, t)
    by_columns(
        mem, size, t["B_r1"], t["B_c1"], rows_too=False, sums_here=False, spill=True
    )  # fmt: skip
    by_outputs(mem, size, t, "2", "dQ", "dS", "K", keys=False)


def spill_weights(mem: Memory, size: Sizes, t: Sizes) -> None:
    N, d = size["N"], size["d"]
    row_sums(mem, size, t)
    make_weights(mem, size, t)
    for h in range(size["heads"]):
        for J in blocks(N, t["B_c2"]):
            every(mem.load, "V", h, J, range(d))
            zeros(mem, "dV", h, J, range(d))
            for I in blocks(N, t["B_r2"]):
                every(mem.load, "P", h, I, J)
                zeros(mem, "dP", h, I, J)
                for X in blocks(d, t["B_d2"]):
                    every(mem.load, "dO", h, I, X)
                    for i in I:
                        for j in J:
                            for x in X:
                                do, v = mem.get("dO", h, i, x), mem.get("V", h, j, x)
                                add(mem, do * v, "dP", h, i, j)
                                add(mem, mem.get("P", h, i, j) * do, "dV", h, j, x)
                    every(mem.drop, "dO", h, I, X)
                every(mem.load, "D", h, I)
                for i in I:
                    for j in J:
                        dp = mem.fast.pop(("dP", h, i, j)) - mem.get("D", h, i)
                        mem.put(mem.get("P", h, i, j) * dp, "dS", h, i, j)
                every(mem.drop, "P", h, I, J)
                every(mem.drop, "D", h, I)
                out(mem, "dS", h, I, J)
            out(mem, "dV", h, J, range(d))
            every(mem.drop, "V", h, J, range(d))
    by_outputs(mem, size, t, "3", "dQ", "dS", "K", keys=False)
    by_outputs(mem, size, t, "4", "dK", "dS", "Q", keys=True)


SCHEDULES = {
    one.__name__: one
    for one in (naive_backward, flash1_backward, flash2_backward, two_kernels, small_backward,
                spill_gradient, spill_weights)
}  # fmt: skip
