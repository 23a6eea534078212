"""Graphs to play on: products, attention and its gradients, chains, trees, grids, butterflies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iosim.base.validate import check_size
from iosim.pebbling.attention_dags import (
    attention_of,
    gradients_of,
    least_attention,
    least_gradients,
)
from iosim.pebbling.dag import Dag
from iosim.pebbling.maker import LARGEST, Maker, Preds, check_reach


def matmul(m: int, n: int, k: int, sums: str = "chain") -> Dag:
    """C = AB, A (m, k), B (k, n): mnk products, and mn sums of k terms each.

    >>> len(matmul(2, 2, 2).preds)
    20
    """
    m, n, k = (check_size(name, size) for name, size in (("m", m), ("n", n), ("k", k)))
    check_reach(m * k + k * n + m * n * k)
    b = Maker(sums)
    A = {(i, t): b.input(f"A[{i},{t}]") for i in range(m) for t in range(k)}
    B = {(t, j): b.input(f"B[{t},{j}]") for t in range(k) for j in range(n)}
    out = []
    for i in range(m):
        for j in range(n):
            terms = [b.op(f"P[{i},{j},{t}]", A[i, t], B[t, j]) for t in range(k)]
            out.append(b.sum(f"C[{i},{j}]", terms))
    return b.dag(f"matmul m={m} n={n} k={k} sums={sums}", out)


def chain(n: int) -> Dag:
    """A path of n vertices; its first is the input.  Optimum 2, for every M ≥ 2.

    >>> list(chain(3).preds.values())
    [(), ('v0',), ('v1',)]
    """
    n = check_size("n", n)
    check_reach(n)
    return Dag(f"chain n={n}", {f"v{i}": (f"v{i - 1}",) if i else () for i in range(n)})


def tree(depth: int, arity: int = 2) -> Dag:
    """The complete tree that reduces arity^depth inputs to its root.

    Every M ≥ (arity − 1)·depth + 2 moves the inputs once and stores the root (M = depth + 2 for a
    binary tree: its pebbling number).

    >>> len(tree(3).preds), len(tree(3).inputs)
    (15, 8)
    """
    depth, arity = check_size("depth", depth, 0), check_size("arity", arity)
    check_reach(depth, arity ** min(depth, LARGEST.bit_length()))
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
    rows, columns = check_size("rows", rows), check_size("columns", columns)
    check_reach(rows * columns)
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
    its one output without storing a value; with this many the inputs are loaded once.

    >>> len(pyramid(3).preds), len(pyramid(3).inputs)
    (10, 4)
    """
    height = check_size("height", height, 0)
    check_reach((height + 1) * (height + 2) // 2)
    return Dag(
        f"pyramid height={height}",
        {
            f"p{row},{i}": (f"p{row - 1},{i}", f"p{row - 1},{i + 1}") if row else ()
            for row in range(height + 1)
            for i in range(height + 1 - row)
        },
    )


def butterfly(k: int) -> Dag:
    """The graph of a fast Fourier transform on 2^k points: k ranks of 2^k vertices and 2^k inputs.

    Hong & Kung, STOC 1981: Θ(n log n / log M) I/Os; with M ≥ n + 2, n loads and n stores are
    enough.

    >>> len(butterfly(2).preds)
    12
    """
    k = check_size("k", k, 0)
    check_reach(k, (k + 1) * 2 ** min(k, LARGEST.bit_length()))
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
    "attention": GraphKind(attention_of, least_attention, softmax=True),
    "attention-backward": GraphKind(gradients_of, least_gradients, softmax=True),
}
