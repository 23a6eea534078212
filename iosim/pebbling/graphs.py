"""Graphs to play on: products, attention, chains, trees, grids, butterflies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from iosim.errors import InputError, closest
from iosim.pebbling.dag import Dag
from iosim.problem import check_size

SUMS = ("vertex", "chain")
LARGEST = 100_000  # vertices: the search takes 64
Preds = dict[str, tuple[str, ...]]


class _Maker:
    """Collects vertices; a sum is one vertex, or a chain of additions."""

    def __init__(self, style: str):
        if style not in SUMS:
            raise InputError(f"unknown style of sums {style!r}: {closest(style, SUMS)}")
        self.style = style
        self.preds: Preds = {}
        self.sums: set[str] = set()

    def input(self, name: str) -> str:
        return self.op(name)

    def op(self, name: str, *operands: str) -> str:
        if len(self.preds) == LARGEST:
            raise InputError(
                f"the graph exceeds {LARGEST:,} vertices, far beyond reach: choose smaller sizes"
            )
        self.preds[name] = operands
        return name

    def sum(self, name: str, terms: list[str]) -> str:
        """The sum of the terms; of one term, the term itself."""
        if len(terms) == 1:
            return terms[0]
        if self.style == "vertex":
            self.sums.add(name)
            return self.op(name, *terms)
        partial = terms[0]
        for k, term in enumerate(terms[1:], 2):
            partial = self.op(name if k == len(terms) else f"{name}:{k}", partial, term)
        return partial

    def dag(self, name: str, outputs: list[str]) -> Dag:
        return Dag(name, self.preds, tuple(outputs), frozenset(self.sums))


def matmul(m: int, n: int, k: int, sums: str = "chain") -> Dag:
    """C = AB, A (m, k), B (k, n): mnk products, and mn sums of k terms each."""
    for name, size in (("m", m), ("n", n), ("k", k)):
        check_size(name, size)
    b = _Maker(sums)
    A = {(i, t): b.input(f"A[{i},{t}]") for i in range(m) for t in range(k)}
    B = {(t, j): b.input(f"B[{t},{j}]") for t in range(k) for j in range(n)}
    out = []
    for i in range(m):
        for j in range(n):
            terms = [b.op(f"P[{i},{j},{t}]", A[i, t], B[t, j]) for t in range(k)]
            out.append(b.sum(f"C[{i},{j}]", terms))
    return b.dag(f"matmul m={m} n={n} k={k} sums={sums}", out)


SOFTMAX = ("fused", "exp", "free")


def attention(N: int, d: int, sums: str = "chain", softmax: str = "fused") -> Dag:
    """softmax(QKᵀ)V for one head: scores, row sums, weighted sums, and their quotients.

    softmax "fused"
        E[i,j] = exp(Σ q·k): the exponential is part of the vertex that completes the score.
    softmax "exp"
        The score and its exponential are two vertices.
    softmax "free"
        No row sums and no quotients: the outputs are the weighted sums.  That is what the lower
        bounds count, and with sums taken term by term it is their model exactly.
    """
    check_size("N", N)
    check_size("d", d)
    if softmax not in SOFTMAX:
        raise InputError(f"unknown softmax {softmax!r}: {closest(softmax, SOFTMAX)}")
    b = _Maker(sums)
    Q, K, V = ([[b.input(f"{x}[{i},{c}]") for c in range(d)] for i in range(N)] for x in "QKV")
    score = "S" if softmax == "exp" else "E"
    out = []
    for i in range(N):
        E = []
        for j in range(N):
            name = f"{score}[{i},{j}]"
            product = [b.op(name if d == 1 else f"{name}·{c}", Q[i][c], K[j][c]) for c in range(d)]
            s = b.sum(name, product)
            E.append(b.op(f"E[{i},{j}]", s) if softmax == "exp" else s)
        row = b.sum(f"l[{i}]", E) if softmax != "free" else ""
        for c in range(d):
            name = f"O[{i},{c}]" if softmax == "free" else f"o[{i},{c}]"
            o = b.sum(name, [b.op(f"W[{i},{j},{c}]", E[j], V[j][c]) for j in range(N)])
            out.append(o if softmax == "free" else b.op(f"O[{i},{c}]", o, row))
    return b.dag(f"attention N={N} d={d} sums={sums} softmax={softmax}", out)


def chain(n: int) -> Dag:
    """A path of n vertices; its first is the input.  Optimum 2, for every M ≥ 2."""
    check_size("n", n)
    return Dag(f"chain n={n}", {f"v{i}": (f"v{i - 1}",) if i else () for i in range(n)})


def tree(depth: int, arity: int = 2) -> Dag:
    """The complete tree that reduces arity^depth inputs to its root.

    Every M ≥ (arity − 1)·depth + 2 moves the inputs once and stores the root (M = depth + 2 for a
    binary tree: its pebbling number).
    """
    check_size("depth", depth, 0)
    check_size("arity", arity)
    preds: Preds = {f"t{depth},{i}": () for i in range(arity**depth)}
    for level in range(depth - 1, -1, -1):
        for i in range(arity**level):
            preds[f"t{level},{i}"] = tuple(f"t{level + 1},{arity * i + c}" for c in range(arity))
    return Dag(f"tree depth={depth} arity={arity}", preds)


def grid(rows: int, columns: int) -> Dag:
    """The diamond: vertex (i, j) needs (i−1, j) and (i, j−1); (0, 0) is the input.

    One input and one output: 2 I/Os once M > min(rows, columns).
    """
    check_size("rows", rows)
    check_size("columns", columns)
    preds: Preds = {}
    for i in range(rows):
        for j in range(columns):
            above = (f"g{i - 1},{j}",) if i else ()
            left = (f"g{i},{j - 1}",) if j else ()
            preds[f"g{i},{j}"] = above + left
    return Dag(f"grid {rows}×{columns}", preds)


def butterfly(k: int) -> Dag:
    """The graph of a fast Fourier transform on 2^k points: k ranks of 2^k vertices and 2^k inputs.

    Hong & Kung, STOC 1981: Θ(n log n / log M) I/Os; with M ≥ n + 2, n loads and n stores are
    enough.
    """
    check_size("k", k, 0)
    n = 2**k
    preds: Preds = {f"x0,{i}": () for i in range(n)}
    for rank in range(k):
        for i in range(n):
            preds[f"x{rank + 1},{i}"] = (f"x{rank},{i}", f"x{rank},{i ^ (1 << rank)}")
    return Dag(f"butterfly n={n}", preds)


@dataclass(frozen=True)
class GraphKind:
    """Graphs that are made from sizes.

    Attributes:
        sizes: what they need.
        make: ``(sizes, sums, softmax)`` → graph.
        softmax: whether there is one to choose.
    """

    sizes: tuple[str, ...]
    make: Callable[[Mapping[str, int], str, str], Dag]
    softmax: bool = False


KINDS: dict[str, GraphKind] = {
    "matmul": GraphKind(("m", "n", "k"), lambda x, sums, _: matmul(x["m"], x["n"], x["k"], sums)),
    "attention": GraphKind(
        ("N", "d"), lambda x, sums, softmax: attention(x["N"], x["d"], sums, softmax), softmax=True
    ),
}
