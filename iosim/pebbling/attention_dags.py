"""The graphs of attention and of its gradients, with every option."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from iosim.base.errors import InputError, closest
from iosim.core.problem import Attention, AttentionBackward, Attentions
from iosim.core.units import problem_cells
from iosim.pebbling.dag import Dag
from iosim.pebbling.maker import LARGEST, Maker, check_reach

SOFTMAX = ("fused", "exp", "free")


def attention(
    N: int, d: int, sums: str = "chain", softmax: str = "fused", heads: int = 1, **options: Any
) -> Dag:
    """softmax(QKᵀ)V: scores, row sums, weighted sums, and their quotients.

    Options are those of `iosim.core.problem.Attention`.  Of the scores those are vertices whose row
    sees the column, of K and V the rows that are seen; heads of a group share theirs.  With
    `statistics` L, the log of each row sum, is an output.

    softmax "fused"
        E[i,j] = exp(Σ q·k): the exponential is part of the vertex that completes the score.
    softmax "exp"
        The score and its exponential are two vertices.
    softmax "free"
        No row sums and no quotients: the outputs are the weighted sums.  That is what the lower
        bounds count, and with sums taken term by term it is their model exactly.

    Raises InputError for sizes and options that are none, for a row that sees nothing (its output
    has no operands), for statistics without row sums, and for graphs far beyond reach.

    >>> attention(2, 1, softmax="free", causal=True).inputs
    ('Q[0,0]', 'Q[1,0]', 'K[0,0]', 'K[1,0]', 'V[0,0]', 'V[1,0]')
    >>> len(attention(2, 1).vertices), len(attention(2, 1, causal=True).vertices)
    (20, 16)
    """
    return attention_of(Attention(N, d, heads, **options), sums, softmax)


def attention_backward(
    N: int, d: int, sums: str = "chain", softmax: str = "fused", heads: int = 1, **options: Any
) -> Dag:
    """The gradients dQ, dK and dV of softmax(QKᵀ)V: five products of every pair of rows.

    Options are those of `iosim.core.problem.AttentionBackward`.  Inputs are Q, K, V and dO, and L
    and O, of which D, the row sums of dO ∘ O, are made.  dS[i,j] = P[i,j]·(dP[i,j] − D[i]) is a
    vertex of its own, with a word of its own.

    softmax "fused"
        P[i,j] = exp(Σ q·k − L[i]): L is one more term of the sum, and the exponential is part of
        the vertex that completes it.
    softmax "exp"
        The score and its exponential are two vertices.
    softmax "free"
        No L, O and D, as the lower bounds count.  With sums taken term by term it is their model,
        except for dS: there it takes the place of dP.

    Raises InputError as `attention` does.

    >>> attention_backward(2, 1, "vertex", "free").outputs
    ('dQ[0,0]', 'dQ[1,0]', 'dK[0,0]', 'dK[1,0]', 'dV[0,0]', 'dV[1,0]')
    >>> [len(attention_backward(2, 1, "vertex", x).vertices) for x in SOFTMAX]
    [48, 48, 38]
    """
    return gradients_of(AttentionBackward(N, d, heads, **options), sums, softmax)


class _Attended(Maker):
    """Collects the vertices of attention, or of its gradients.

    Attributes:
        softmax: one of `SOFTMAX`.
        seen: by row, the columns that it sees.
        used: columns that some row sees.
    """

    def __init__(self, problem: Attentions, style: str, softmax: str, least: tuple[int, ...]):
        if softmax not in SOFTMAX:
            raise InputError(f"unknown softmax {softmax!r}: {closest(softmax, SOFTMAX)}")
        super().__init__(style)
        check_reach(*least)
        if problem.keys > LARGEST:
            raise InputError(
                f"N_k = {problem.keys:,} columns are too many to ask which of them a row sees: "
                f"give {LARGEST:,} at most"
            )
        self.problem, self.softmax = problem, softmax
        columns = np.arange(problem.keys)
        self.seen = [
            np.flatnonzero(np.broadcast_to(problem.sees(i, columns), columns.shape)).tolist()
            for i in range(problem.N)
        ]
        for i, these in enumerate(self.seen):
            if not these:
                raise InputError(
                    f"row {i} sees no column, so that its {self.none} is 0 and no vertex has a "
                    "part in it: give more keys, fewer rows, or a wider window"
                )
        self.used = sorted({j for these in self.seen for j in these})

    @property
    def none(self) -> str:
        """What is 0 for a row that sees nothing."""
        return "output" if isinstance(self.problem, Attention) else "dQ"

    def rows(self, name: str, width: int) -> dict[Any, list[str]]:
        """Words of a matrix with a row for each row of scores, by head and row."""
        return self._matrix(name, self.problem.heads, range(self.problem.N), width)

    def columns(self, name: str, width: int) -> dict[Any, list[str]]:
        """Words of a matrix with a row for each column of scores that is used."""
        return self._matrix(name, self.problem.groups, self.used, width)

    def _matrix(
        self, name: str, heads: int, rows: Iterable[int], width: int
    ) -> dict[Any, list[str]]:
        return {
            (h, r): [self.input(f"{name}[{_head(h, heads)}{r},{c}]") for c in range(width)]
            for h in range(heads)
            for r in rows
        }

    def blocks(self) -> Iterator[tuple[int, int, int, str]]:
        """Every row of every head: head, head of K and V, row, and how the row is said."""
        p = self.problem
        for h, i in itertools.product(range(p.heads), range(p.N)):
            yield h, h * p.groups // p.heads, i, f"{_head(h, p.heads)}{i}"

    def products(self, name: str, left: Iterable[str], right: Iterable[str]) -> list[str]:
        """A vertex for each product of two words; its name alone where there is one."""
        pairs = list(zip(left, right, strict=True))
        return [
            self.op(name if len(pairs) == 1 else f"{name}·{c}", x, y)
            for c, (x, y) in enumerate(pairs)
        ]

    def graph(self, outputs: list[str]) -> Dag:
        """With the problem's sizes and options in its name."""
        p = self.problem
        told = {
            x: v for x, v in problem_cells(p).items() if x in p.as_dict and (x, v) != ("heads", 1)
        }
        said = " ".join(x if v is True else f"{x}={v}" for x, v in told.items())
        return self.dag(f"{p.kind} {said} sums={self.style} softmax={self.softmax}", outputs)


def attention_of(problem: Attention, sums: str, softmax: str) -> Dag:
    """`attention` of a problem."""
    b = _Attended(problem, sums, softmax, least_attention(problem))
    Q, K = b.rows("Q", problem.d), b.columns("K", problem.d)
    V = b.columns("V", problem.values)
    score = "S" if softmax == "exp" else "E"
    if problem.statistics and softmax == "free":
        raise InputError(
            "softmax = 'free' has no row sums to make statistics of: choose fused or exp"
        )
    out = []
    for h, g, i, at in b.blocks():
        E = []
        for j in b.seen[i]:
            name = f"{score}[{at},{j}]"
            s = b.sum(name, b.products(name, Q[h, i], K[g, j]))
            E.append(b.op(f"E[{at},{j}]", s) if softmax == "exp" else s)
        row = b.sum(f"l[{at}]", E) if softmax != "free" else ""
        for c in range(problem.values):
            name = f"O[{at},{c}]" if softmax == "free" else f"o[{at},{c}]"
            weighted = [
                b.op(f"W[{at},{j},{c}]", e, V[g, j][c]) for j, e in zip(b.seen[i], E, strict=True)
            ]
            o = b.sum(name, weighted)
            out.append(o if softmax == "free" else b.op(f"O[{at},{c}]", o, row))
        if problem.statistics:
            out.append(b.op(f"L[{at}]", row))
    return b.graph(out)


def gradients_of(problem: AttentionBackward, sums: str, softmax: str) -> Dag:
    """`attention_backward` of a problem."""
    b = _Attended(problem, sums, softmax, least_gradients(problem))
    d, e, free = problem.d, problem.values, softmax == "free"
    Q, K, V, dO = b.rows("Q", d), b.columns("K", d), b.columns("V", e), b.rows("dO", e)
    L, O = ({}, {}) if free else (b.rows("L", 1), b.rows("O", e))
    dQ: list[str] = []
    # The terms of each row of dK and dV, by head of K and V, column of scores, and column.
    terms: dict[str, dict[tuple[int, int, int], list[str]]] = {"dK": {}, "dV": {}}
    for h, g, i, at in b.blocks():
        D = [] if free else [b.sum(f"D[{at}]", b.products(f"dO·O[{at}]", dO[h, i], O[h, i]))]
        dS = {}
        for j in b.seen[i]:
            pair = f"[{at},{j}]"
            P = _weight(b, pair, b.products(f"S{pair}", Q[h, i], K[g, j]), L.get((h, i), []))
            dP = b.sum(f"dP{pair}", b.products(f"dO·V{pair}", dO[h, i], V[g, j]))
            dS[j] = b.op(f"dS{pair}", P, dP, *D)
            for name, one, by in (("dK", dS[j], Q[h, i]), ("dV", P, dO[h, i])):
                for c, word in enumerate(by):
                    term = b.op(f"{name}·[{at},{j},{c}]", one, word)
                    terms[name].setdefault((g, j, c), []).append(term)
        for c in range(d):
            parts = [b.op(f"dQ·[{at},{j},{c}]", dS[j], K[g, j][c]) for j in b.seen[i]]
            dQ.append(b.sum(f"dQ[{at},{c}]", parts))
    found = {
        name: [
            b.sum(f"{name}[{_head(g, problem.groups)}{j},{c}]", of[g, j, c])
            for g, j, c in sorted(of)
        ]
        for name, of in terms.items()
    }
    return b.graph([*dQ, *found["dK"], *found["dV"]])


def _weight(b: _Attended, pair: str, products: list[str], L: list[str]) -> str:
    """P of a pair, from the products of its score and the row's L, which is none where free."""
    if b.softmax == "exp":
        return b.op(f"P{pair}", b.sum(f"S{pair}", products), *L)
    return b.sum(f"P{pair}", [*products, *L])


def _head(h: int, heads: int) -> str:
    """How a head is said in a vertex's name: not at all where there is one."""
    return f"{h}," if heads > 1 else ""


def least_attention(problem: Attentions) -> tuple[int, ...]:
    """Numbers of scores and of words of Q, of K and of V: no graph has fewer vertices."""
    keys = problem.groups * problem.columns_used
    return (
        problem.pairs,
        problem.heads * problem.N * problem.d,
        keys * problem.d,
        keys * problem.values,
    )


def least_gradients(problem: AttentionBackward) -> tuple[int, ...]:
    """Numbers of P, dP and dS together, and as above."""
    return (3 * problem.pairs, *least_attention(problem))
