"""Graphs to play on: products, attention, chains, trees, grids, butterflies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.errors import InputError, closest
from iosim.pebbling.dag import Dag
from iosim.problem import Attention, check_size
from iosim.units import shown

SUMS = ("vertex", "chain")
LARGEST = 100_000  # vertices: the search takes 64
Preds = dict[str, tuple[str, ...]]


def _check_reach(*numbers: int) -> None:
    if max(numbers) > LARGEST:
        raise InputError(
            f"the graph exceeds {LARGEST:,} vertices, far beyond reach: choose smaller sizes"
        )


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
        _check_reach(len(self.preds) + 1)
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
    """C = AB, A (m, k), B (k, n): mnk products, and mn sums of k terms each.

    >>> len(matmul(2, 2, 2).preds)
    20
    """
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


def attention(
    N: int, d: int, sums: str = "chain", softmax: str = "fused", heads: int = 1, **options: Any
) -> Dag:
    """softmax(QKᵀ)V: scores, row sums, weighted sums, and their quotients.

    Options are those of `iosim.problem.Attention`.  Of the scores those are vertices whose row sees
    the column, of K and V the rows that are seen; heads of a group share theirs.

    softmax "fused"
        E[i,j] = exp(Σ q·k): the exponential is part of the vertex that completes the score.
    softmax "exp"
        The score and its exponential are two vertices.
    softmax "free"
        No row sums and no quotients: the outputs are the weighted sums.  That is what the lower
        bounds count, and with sums taken term by term it is their model exactly.

    Raises InputError for sizes and options that are none, for a row that sees nothing (its output
    has no operands), and for graphs far beyond reach.

    >>> attention(2, 1, softmax="free", causal=True).inputs
    ('Q[0,0]', 'Q[1,0]', 'K[0,0]', 'K[1,0]', 'V[0,0]', 'V[1,0]')
    >>> len(attention(2, 1).vertices), len(attention(2, 1, causal=True).vertices)
    (20, 16)
    """
    return _attention(Attention(N, d, heads, **options), sums, softmax)


def _attention(problem: Attention, sums: str, softmax: str) -> Dag:
    if softmax not in SOFTMAX:
        raise InputError(f"unknown softmax {softmax!r}: {closest(softmax, SOFTMAX)}")
    b = _Maker(sums)
    _check_reach(*_least(problem))
    if problem.keys > LARGEST:
        raise InputError(
            f"N_k = {problem.keys:,} columns are too many to ask which of them a row sees: give "
            f"{LARGEST:,} at most"
        )
    N, d = problem.N, problem.d
    columns = np.arange(problem.keys)
    seen = [np.flatnonzero(np.broadcast_to(problem.seen(i, columns), columns.shape)).tolist()
            for i in range(N)]  # fmt: skip
    for i, these in enumerate(seen):
        if not these:
            raise InputError(
                f"row {i} sees no column, so that its output is 0 and no vertex has a part in it: "
                "give more keys, fewer rows, or a wider window"
            )
    used = sorted({j for these in seen for j in these})

    def matrix(name: str, heads: int, rows: Iterable[int], width: int) -> dict[Any, list[str]]:
        return {
            (h, r): [b.input(f"{name}[{_head(h, heads)}{r},{c}]") for c in range(width)]
            for h in range(heads)
            for r in rows
        }

    Q = matrix("Q", problem.heads, range(N), d)
    K = matrix("K", problem.groups, used, d)
    V = matrix("V", problem.groups, used, problem.values)
    score = "S" if softmax == "exp" else "E"
    out = []
    for h, i in itertools.product(range(problem.heads), range(N)):
        g, at = h * problem.groups // problem.heads, f"{_head(h, problem.heads)}{i}"
        E = []
        for j in seen[i]:
            name = f"{score}[{at},{j}]"
            product = [b.op(name if d == 1 else f"{name}·{c}", q, k)
                       for c, (q, k) in enumerate(zip(Q[h, i], K[g, j], strict=True))]  # fmt: skip
            s = b.sum(name, product)
            E.append(b.op(f"E[{at},{j}]", s) if softmax == "exp" else s)
        row = b.sum(f"l[{at}]", E) if softmax != "free" else ""
        for c in range(problem.values):
            name = f"O[{at},{c}]" if softmax == "free" else f"o[{at},{c}]"
            weighted = [b.op(f"W[{at},{j},{c}]", e, V[g, j][c])
                        for j, e in zip(seen[i], E, strict=True)]  # fmt: skip
            o = b.sum(name, weighted)
            out.append(o if softmax == "free" else b.op(f"O[{at},{c}]", o, row))
    told = {x: v for x, v in shown(problem).items() if (x, v) != ("heads", 1)}
    said = " ".join(x if v is True else f"{x}={v}" for x, v in told.items())
    return b.dag(f"attention {said} sums={sums} softmax={softmax}", out)


def _head(h: int, heads: int) -> str:
    """How a head is said in a vertex's name: not at all where there is one."""
    return f"{h}," if heads > 1 else ""


def _least(problem: Attention) -> tuple[int, ...]:
    """Numbers of scores and of words of Q, of K and of V: no graph has fewer vertices."""
    keys = problem.groups * problem.columns_used
    return (
        problem.pairs, problem.heads * problem.N * problem.d, keys * problem.d,
        keys * problem.values,
    )  # fmt: skip


def chain(n: int) -> Dag:
    """A path of n vertices; its first is the input.  Optimum 2, for every M ≥ 2.

    >>> list(chain(3).preds.values())
    [(), ('v0',), ('v1',)]
    """
    check_size("n", n)
    return Dag(f"chain n={n}", {f"v{i}": (f"v{i - 1}",) if i else () for i in range(n)})


def tree(depth: int, arity: int = 2) -> Dag:
    """The complete tree that reduces arity^depth inputs to its root.

    Every M ≥ (arity − 1)·depth + 2 moves the inputs once and stores the root (M = depth + 2 for a
    binary tree: its pebbling number).

    >>> len(tree(3).preds), len(tree(3).inputs)
    (15, 8)
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

    >>> len(grid(2, 3).preds)
    6
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


def pyramid(height: int) -> Dag:
    """The pyramid: rows of height + 1, …, 2, 1 vertices, each using the two above it.

    Cook, *An observation on time–storage trade off*, 1974: height + 2 pebbles are needed to reach
    its one output without storing a value; with so many the inputs are loaded once.

    >>> len(pyramid(3).preds), len(pyramid(3).inputs)
    (10, 4)
    """
    check_size("height", height, 0)
    return Dag(
        f"pyramid height={height}",
        {f"p{row},{i}": (f"p{row - 1},{i}", f"p{row - 1},{i + 1}") if row else ()
         for row in range(height + 1) for i in range(height + 1 - row)},
    )  # fmt: skip


def butterfly(k: int) -> Dag:
    """The graph of a fast Fourier transform on 2^k points: k ranks of 2^k vertices and 2^k inputs.

    Hong & Kung, STOC 1981: Θ(n log n / log M) I/Os; with M ≥ n + 2, n loads and n stores are
    enough.

    >>> len(butterfly(2).preds)
    12
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
    """Graphs that are made from problems of a kind.

    Attributes:
        make: ``(problem, sums, softmax)`` → graph.
        least: of a problem: no graph has fewer vertices than the largest of these.
        softmax: whether there is one to choose.
    """

    make: Callable[[Any, str, str], Dag]
    least: Callable[[Any], tuple[int, ...]]
    softmax: bool = False


# By the kind of problem.
KINDS: dict[str, GraphKind] = {
    "matmul": GraphKind(
        lambda x, sums, _: matmul(x.m, x.n, x.k, sums), lambda x: (x.m * x.n * x.k,)
    ),
    "attention": GraphKind(_attention, _least, softmax=True),
}
