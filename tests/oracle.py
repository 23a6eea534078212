"""A brute-force oracle: each schedule written out by hand, word by word.

It shares no code with iosim.  A `Memory` holds single words by address; every touch of a word
that is not resident raises; loads and stores are counted one by one; and the numbers are plain
Python floats.  The schedules below were written from the papers, not from `iosim.core.algorithms`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any


class Memory:
    """Fast memory as a dict of words, in front of HBM as nested lists."""

    def __init__(self, **tensors: Any) -> None:
        self.hbm: dict[str, dict[tuple[int, ...], float]] = {
            name: dict(_cells(value)) for name, value in tensors.items()
        }
        self.fast: dict[tuple[Any, ...], float] = {}
        self.moved: Counter[tuple[str, str]] = Counter()
        self.peak = 0

    def load(self, tensor: str, *at: int) -> None:
        self.moved["load", tensor] += 1
        self.write(self.hbm[tensor][at], tensor, *at)

    def store(self, tensor: str, *at: int) -> None:
        self.moved["store", tensor] += 1
        self.hbm.setdefault(tensor, {})[at] = self.fast[tensor, *at]

    def write(self, value: float, *key: Any) -> None:
        self.fast[key] = value
        self.peak = max(self.peak, len(self.fast))

    def get(self, *key: Any) -> float:
        return self.fast[key]

    def drop(self, *key: Any) -> None:
        del self.fast[key]


def _cells(value: Any, at: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], float]]:
    if isinstance(value, list):
        for k, part in enumerate(value):
            yield from _cells(part, (*at, k))
    else:
        yield at, float(value)


def blocks(n: int, size: int, start: int = 0) -> Iterator[range]:
    for at in range(start, n, size):
        yield range(at, min(at + size, n))


def copy(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    for I in blocks(size["n"], t["B"]):
        for i in I:
            mem.load("X", i)
        for i in I:
            mem.fast["Y", i] = mem.fast.pop(("X", i))  # the word itself goes out: no second copy
            mem.store("Y", i)
        for i in I:
            mem.drop("Y", i)


def matmul(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    for I in blocks(size["m"], t["B_m"]):
        for J in blocks(size["n"], t["B_n"]):
            for i in I:
                for j in J:
                    mem.write(0.0, "C", i, j)
            for X in blocks(size["k"], t["B_k"]):
                _all(mem.load, "A", I, X)
                _all(mem.load, "B", X, J)
                for i in I:
                    for j in J:
                        for x in X:
                            term = mem.get("A", i, x) * mem.get("B", x, j)
                            mem.write(mem.get("C", i, j) + term, "C", i, j)
                _all(mem.drop, "A", I, X)
                _all(mem.drop, "B", X, J)
            _all(mem.store, "C", I, J)
            _all(mem.drop, "C", I, J)


def _all(act: Callable[..., None], name: str, rows: range, columns: range, head: int = -1) -> None:
    for i in rows:
        for j in columns:
            act(name, *((head,) if head >= 0 else ()), i, j)


def _scores(mem: Memory, h: int, size: dict[str, int], t: dict[str, int]) -> None:
    """S = QKᵀ; of the rows of Q the first W1 columns stay."""
    N, d, W = size["N"], size["d"], min(t["W1"], size["d"])
    for I in blocks(N, t["B_r1"]):
        _all(mem.load, "Q", I, range(W), h)
        for J in blocks(N, t["B_c1"]):
            for i in I:
                for j in J:
                    mem.write(0.0, "S", h, i, j)
            for held, X in [(True, X) for X in blocks(W, t["B_d1"])] + [
                (False, X) for X in blocks(d, t["B_d1"], W)
            ]:
                if not held:
                    _all(mem.load, "Q", I, X, h)
                _all(mem.load, "K", J, X, h)
                for i in I:
                    for j in J:
                        s = mem.get("S", h, i, j)
                        s += sum(mem.get("Q", h, i, x) * mem.get("K", h, j, x) for x in X)
                        mem.write(s, "S", h, i, j)
                if not held:
                    _all(mem.drop, "Q", I, X, h)
                _all(mem.drop, "K", J, X, h)
            _all(mem.store, "S", I, J, h)
            _all(mem.drop, "S", I, J, h)
        _all(mem.drop, "Q", I, range(W), h)


def _see(mem: Memory, i: int, scores: list[float]) -> float:
    """Take scores of row i into its maximum and sum; returns the factor for what came before."""
    top = max(mem.get("max", i), *scores)
    shrink = math.exp(mem.get("max", i) - top)
    total = mem.get("sum", i) * shrink + sum(math.exp(s - top) for s in scores)
    mem.write(top, "max", i)
    mem.write(total, "sum", i)
    return shrink


def naive(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    N, d, W = size["N"], size["d"], min(t["W2"], size["N"])
    for h in range(size["heads"]):
        _scores(mem, h, size, t)
    for h in range(size["heads"]):
        for I in blocks(N, t["B_r2"]):
            for i in I:
                mem.write(-math.inf, "max", i)
                mem.write(0.0, "sum", i)
            _all(mem.load, "S", I, range(W), h)
            for i in I:
                if W:
                    _see(mem, i, [mem.get("S", h, i, j) for j in range(W)])
            for J in blocks(N, t["B_c2"], W):
                _all(mem.load, "S", I, J, h)
                for i in I:
                    _see(mem, i, [mem.get("S", h, i, j) for j in J])
                _all(mem.drop, "S", I, J, h)
            for J in [range(W), *blocks(N, t["B_c2"], W)]:
                if J.start >= W and len(J):
                    _all(mem.load, "S", I, J, h)
                for i in I:
                    for j in J:
                        weight = math.exp(mem.get("S", h, i, j) - mem.get("max", i))
                        mem.drop("S", h, i, j)
                        mem.write(weight / mem.get("sum", i), "P", h, i, j)
                        mem.store("P", h, i, j)
                _all(mem.drop, "P", I, J, h)
            for i in I:
                mem.drop("max", i)
                mem.drop("sum", i)
    for h in range(size["heads"]):
        for I in blocks(N, t["B_r3"]):
            for X in blocks(d, t["B_d3"]):
                for i in I:
                    for x in X:
                        mem.write(0.0, "O", h, i, x)
                for J in blocks(N, t["B_c3"]):
                    _all(mem.load, "P", I, J, h)
                    _all(mem.load, "V", J, X, h)
                    _weigh(mem, h, I, J, X, "P")
                    _all(mem.drop, "P", I, J, h)
                    _all(mem.drop, "V", J, X, h)
                _all(mem.store, "O", I, X, h)
                _all(mem.drop, "O", I, X, h)


def _weigh(mem: Memory, h: int, I: range, J: range, X: range, weights: str) -> None:
    for i in I:
        for x in X:
            o = mem.get("O", h, i, x)
            o += sum(mem.get(weights, h, i, j) * mem.get("V", h, j, x) for j in J)
            mem.write(o, "O", h, i, x)


def _online(mem: Memory, h: int, I: range, J: range, X: range, chunk: int = 0) -> None:
    """Scores of a block become weights in place; O is shrunk and gains their sum.

    With a chunk, V is loaded here, so many columns at a time.
    """
    for i in I:
        shrink = _see(mem, i, [mem.get("S", h, i, j) for j in J])
        for j in J:
            mem.write(math.exp(mem.get("S", h, i, j) - mem.get("max", i)), "S", h, i, j)
        for x in X:
            mem.write(mem.get("O", h, i, x) * shrink, "O", h, i, x)
    for C in blocks(X.stop, chunk, X.start) if chunk else [X]:
        if chunk:
            _all(mem.load, "V", J, C, h)
        _weigh(mem, h, I, J, C, "S")
        if chunk:
            _all(mem.drop, "V", J, C, h)


def _fresh(mem: Memory, h: int, I: range, X: range) -> None:
    for i in I:
        mem.write(-math.inf, "max", i)
        mem.write(0.0, "sum", i)
        for x in X:
            mem.write(0.0, "O", h, i, x)


def _finish(mem: Memory, h: int, I: range, X: range) -> None:
    for i in I:
        for x in X:
            mem.write(mem.get("O", h, i, x) / mem.get("sum", i), "O", h, i, x)
    _all(mem.store, "O", I, X, h)
    _all(mem.drop, "O", I, X, h)
    for i in I:
        mem.drop("max", i)
        mem.drop("sum", i)


def _block_scores(mem: Memory, h: int, I: range, J: range, d: int) -> None:
    for i in I:
        for j in J:
            s = sum(mem.get("Q", h, i, x) * mem.get("K", h, j, x) for x in range(d))
            mem.write(s, "S", h, i, j)


def flash1(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    N, d = size["N"], size["d"]
    X = range(d)
    for h in range(size["heads"]):
        for i in range(N):  # the initial values, written block by block
            for x in X:
                mem.hbm.setdefault("O", {})[h, i, x] = 0.0
            mem.hbm.setdefault("m", {})[h, i] = -math.inf
            mem.hbm.setdefault("l", {})[h, i] = 0.0
        mem.moved["store", "O"] += N * d
        mem.moved["store", "m"] += N
        mem.moved["store", "l"] += N
        for J in blocks(N, t["B_c"]):
            _all(mem.load, "K", J, X, h)
            _all(mem.load, "V", J, X, h)
            for I in blocks(N, t["B_r"]):
                _all(mem.load, "Q", I, X, h)
                _block_scores(mem, h, I, J, d)
                _all(mem.drop, "Q", I, X, h)
                _all(mem.load, "O", I, X, h)
                for i in I:
                    mem.load("m", h, i)
                    mem.load("l", h, i)
                    # the oracle's own names for the running statistics
                    mem.fast["max", i] = mem.fast.pop(("m", h, i))
                    mem.fast["sum", i] = mem.fast.pop(("l", h, i))
                    before = mem.get("sum", i)
                    for x in X:
                        mem.write(mem.get("O", h, i, x) * before, "O", h, i, x)
                _online(mem, h, I, J, X)
                _all(mem.drop, "S", I, J, h)
                for i in I:
                    for x in X:
                        mem.write(mem.get("O", h, i, x) / mem.get("sum", i), "O", h, i, x)
                    mem.fast["m", h, i] = mem.fast.pop(("max", i))
                    mem.fast["l", h, i] = mem.fast.pop(("sum", i))
                    for name in "ml":
                        mem.store(name, h, i)
                        mem.drop(name, h, i)
                _all(mem.store, "O", I, X, h)
                _all(mem.drop, "O", I, X, h)
            _all(mem.drop, "K", J, X, h)
            _all(mem.drop, "V", J, X, h)


def flash2(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    N, d = size["N"], size["d"]
    X = range(d)
    for h in range(size["heads"]):
        for I in blocks(N, t["B_r"]):
            _all(mem.load, "Q", I, X, h)
            _fresh(mem, h, I, X)
            for J in blocks(N, t["B_c"]):
                _all(mem.load, "K", J, X, h)
                _block_scores(mem, h, I, J, d)
                _all(mem.drop, "K", J, X, h)
                _all(mem.load, "V", J, X, h)
                _online(mem, h, I, J, X)
                _all(mem.drop, "V", J, X, h)
                _all(mem.drop, "S", I, J, h)
            _finish(mem, h, I, X)
            _all(mem.drop, "Q", I, X, h)


def small_cache(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    N, d = size["N"], size["d"]
    for h in range(size["heads"]):
        _scores(mem, h, size, t)
    for h in range(size["heads"]):
        for I in blocks(N, t["B_r2"]):
            for X in blocks(d, t["B_d2"]):
                _fresh(mem, h, I, X)
                for J in blocks(N, t["B_c2"]):
                    _all(mem.load, "S", I, J, h)
                    _all(mem.load, "V", J, X, h)
                    _online(mem, h, I, J, X)
                    _all(mem.drop, "S", I, J, h)
                    _all(mem.drop, "V", J, X, h)
                _finish(mem, h, I, X)


def flash2_keep(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    N, d, W = size["N"], size["d"], min(t["W"], size["N"])
    X = range(d)
    for h in range(size["heads"]):
        _all(mem.load, "K", range(W), X, h)
        _all(mem.load, "V", range(W), X, h)
        for I in blocks(N, t["B_r"]):
            _all(mem.load, "Q", I, X, h)
            _fresh(mem, h, I, X)
            for J in [*blocks(W, t["B_c"]), *blocks(N, t["B_c"], W)]:
                own = J.start >= W
                if own:
                    _all(mem.load, "K", J, X, h)
                _block_scores(mem, h, I, J, d)
                if own:
                    _all(mem.drop, "K", J, X, h)
                    _all(mem.load, "V", J, X, h)
                _online(mem, h, I, J, X)
                if own:
                    _all(mem.drop, "V", J, X, h)
                _all(mem.drop, "S", I, J, h)
            _finish(mem, h, I, X)
            _all(mem.drop, "Q", I, X, h)
        _all(mem.drop, "K", range(W), X, h)
        _all(mem.drop, "V", range(W), X, h)


def flash2_chunked(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    N, d = size["N"], size["d"]
    X = range(d)
    for h in range(size["heads"]):
        for I in blocks(N, t["B_r"]):
            _all(mem.load, "Q", I, X, h)
            _fresh(mem, h, I, X)
            for J in blocks(N, t["B_c"]):
                for i in I:
                    for j in J:
                        mem.write(0.0, "S", h, i, j)
                for C in blocks(d, t["B_d"]):
                    _all(mem.load, "K", J, C, h)
                    for i in I:
                        for j in J:
                            more = sum(mem.get("Q", h, i, x) * mem.get("K", h, j, x) for x in C)
                            mem.write(mem.get("S", h, i, j) + more, "S", h, i, j)
                    _all(mem.drop, "K", J, C, h)
                _online(mem, h, I, J, X, t["B_d"])
                _all(mem.drop, "S", I, J, h)
            _finish(mem, h, I, X)
            _all(mem.drop, "Q", I, X, h)


def spill_rows(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    N, d = size["N"], size["d"]
    X = range(d)
    for h in range(size["heads"]):
        _scores(mem, h, size, t)
    for h in range(size["heads"]):
        for I in blocks(N, t["B_r2"]):
            _fresh(mem, h, I, X)
            for J in blocks(N, t["B_c2"]):
                _all(mem.load, "S", I, J, h)
                _online(mem, h, I, J, X, t["B_d2"])
                _all(mem.drop, "S", I, J, h)
            _finish(mem, h, I, X)


def _mean(mem: Memory, h: int, i: int, J: range, X: range) -> None:
    """Scores of a row become weights that sum to at most 1; O, a mean, shrinks; L takes them in."""
    scores = [mem.get("S", h, i, j) for j in J]
    top = max(mem.get("L", i), *scores)
    new = top + math.log(sum(math.exp(s - top) for s in [mem.get("L", i), *scores]))
    for j in J:
        mem.write(math.exp(mem.get("S", h, i, j) - new), "S", h, i, j)
    for x in X:
        mem.write(mem.get("O", h, i, x) * math.exp(mem.get("L", i) - new), "O", h, i, x)
    mem.write(new, "L", i)


def _no_mean(mem: Memory, h: int, I: range, X: range) -> None:
    for i in I:
        mem.write(-math.inf, "L", i)
        for x in X:
            mem.write(0.0, "O", h, i, x)


def _store_mean(mem: Memory, h: int, I: range, X: range) -> None:
    _all(mem.store, "O", I, X, h)
    _all(mem.drop, "O", I, X, h)
    for i in I:
        mem.drop("L", i)


def flash2_log(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    N, d = size["N"], size["d"]
    X = range(d)
    for h in range(size["heads"]):
        for I in blocks(N, t["B_r"]):
            _all(mem.load, "Q", I, X, h)
            _no_mean(mem, h, I, X)
            for J in blocks(N, t["B_c"]):
                for i in I:
                    for j in J:
                        mem.write(0.0, "S", h, i, j)
                for C in blocks(d, t["B_d"]):
                    _all(mem.load, "K", J, C, h)
                    for i in I:
                        for j in J:
                            more = sum(mem.get("Q", h, i, x) * mem.get("K", h, j, x) for x in C)
                            mem.write(mem.get("S", h, i, j) + more, "S", h, i, j)
                    _all(mem.drop, "K", J, C, h)
                for i in I:
                    _mean(mem, h, i, J, X)
                for C in blocks(d, t["B_d"]):
                    _all(mem.load, "V", J, C, h)
                    _weigh(mem, h, I, J, C, "S")
                    _all(mem.drop, "V", J, C, h)
                _all(mem.drop, "S", I, J, h)
            _store_mean(mem, h, I, X)
            _all(mem.drop, "Q", I, X, h)


def flash2_parts(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    N, d, W = size["N"], size["d"], min(t["W"], size["N"])
    X = range(d)
    for h in range(size["heads"]):
        _all(mem.load, "K", range(W), X, h)
        _all(mem.load, "V", range(W), X, h)
        for I in blocks(N, t["B_r"]):
            _all(mem.load, "Q", I, X, h)
            _no_mean(mem, h, I, X)
            for J in [*blocks(W, t["B_c"]), *blocks(N, t["B_c"], W)]:
                if J.start >= W:
                    _all(mem.load, "K", J, X, h)
                    _all(mem.load, "V", J, X, h)
                for part in blocks(I.stop, t["B_p"], I.start):
                    _block_scores(mem, h, part, J, d)
                    for i in part:
                        _mean(mem, h, i, J, X)
                    _weigh(mem, h, part, J, X, "S")
                    _all(mem.drop, "S", part, J, h)
                if J.start >= W:
                    _all(mem.drop, "K", J, X, h)
                    _all(mem.drop, "V", J, X, h)
            _store_mean(mem, h, I, X)
            _all(mem.drop, "Q", I, X, h)
        _all(mem.drop, "K", range(W), X, h)
        _all(mem.drop, "V", range(W), X, h)


def _outer_products(mem: Memory, h: int, size: dict[str, int], t: dict[str, int]) -> None:
    """S = QKᵀ; of K only a few words of a tile are there at a time."""
    N, d, W = size["N"], size["d"], min(t["W1"], size["d"])
    for I in blocks(N, t["B_r1"]):
        _all(mem.load, "Q", I, range(W), h)
        for J in blocks(N, t["B_c1"]):
            for i in I:
                for j in J:
                    mem.write(0.0, "S", h, i, j)
            for X in [*blocks(W, t["B_d1"]), *blocks(d, t["B_d1"], W)]:
                if X.start >= W:
                    _all(mem.load, "Q", I, X, h)
                for few in blocks(J.stop, t["B_k1"], J.start):
                    _all(mem.load, "K", few, X, h)
                    for i in I:
                        for j in few:
                            s = mem.get("S", h, i, j)
                            s += sum(mem.get("Q", h, i, x) * mem.get("K", h, j, x) for x in X)
                            mem.write(s, "S", h, i, j)
                    _all(mem.drop, "K", few, X, h)
                if X.start >= W:
                    _all(mem.drop, "Q", I, X, h)
            _all(mem.store, "S", I, J, h)
            _all(mem.drop, "S", I, J, h)
        _all(mem.drop, "Q", I, range(W), h)


def small_tiles(mem: Memory, size: dict[str, int], t: dict[str, int]) -> None:
    N, d = size["N"], size["d"]
    for h in range(size["heads"]):
        _outer_products(mem, h, size, t)
    for h in range(size["heads"]):
        for I in blocks(N, t["B_r2"]):
            for X in blocks(d, t["B_d2"]):
                _no_mean(mem, h, I, X)
                for J in blocks(N, t["B_c2"]):
                    _all(mem.load, "S", I, J, h)
                    for i in I:
                        _mean(mem, h, i, J, X)
                    for C in blocks(X.stop, t["B_v2"], X.start):
                        _all(mem.load, "V", J, C, h)
                        _weigh(mem, h, I, J, C, "S")
                        _all(mem.drop, "V", J, C, h)
                    _all(mem.drop, "S", I, J, h)
                _store_mean(mem, h, I, X)


SCHEDULES: dict[str, Callable[[Memory, dict[str, int], dict[str, int]], None]] = {
    "copy": copy,
    "matmul": matmul,
    "naive": naive,
    "flash1": flash1,
    "flash2": flash2,
    "small_cache": small_cache,
    "flash2_chunked": flash2_chunked,
    "flash2_keep": flash2_keep,
    "spill_rows": spill_rows,
    "flash2_log": flash2_log,
    "flash2_parts": flash2_parts,
    "small_tiles": small_tiles,
}


def attention(Q: Any, K: Any, V: Any) -> list[list[float]]:
    """softmax(QKᵀ)V on nested lists, with the row maximum taken out."""
    out = []
    for q in Q:
        s = [math.fsum(a * b for a, b in zip(q, k, strict=True)) for k in K]
        p = [math.exp(x - max(s)) for x in s]
        total = math.fsum(p)
        out.append(
            [
                math.fsum(w * v[x] for w, v in zip(p, V, strict=True)) / total
                for x in range(len(V[0]))
            ]
        )
    return out
