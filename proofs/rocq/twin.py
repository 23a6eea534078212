"""The model of model.v in Python: the same rules, so that schedules can be tried fast.

Words and products are tuples: ("Q", i, c), ("K", j, c), ("V", j, l), ("S", i, j), ("O", i, l),
("E", i, j, c), ("F", i, j, l).  Operations are pairs: ("Load", word), ("Store", word),
("Drop", word), ("Do", product).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Word: TypeAlias = tuple[str, int, int]
Product: TypeAlias = tuple[str, int, int, int]
Op: TypeAlias = tuple[str, tuple]
Pairs: TypeAlias = Sequence[tuple[int, int]]


def heads(H: int, N: int) -> list[tuple[int, int]]:
    """All pairs of H heads of N rows; row i of head h is row h·N + i."""
    return [(h * N + i, h * N + j) for h in range(H) for i in range(N) for j in range(N)]


def products(pairs: Pairs, d: int) -> list[Product]:
    """All products of the pairs."""
    return [(kind, i, j, c) for kind in "EF" for i, j in pairs for c in range(d)]


def operands(p: Product) -> tuple[Word, Word, Word]:
    """The two factors and the accumulator."""
    kind, i, j, c = p
    if kind == "E":
        return ("Q", i, c), ("K", j, c), ("S", i, j)
    return ("S", i, j), ("V", j, c), ("O", i, c)


@dataclass
class State:
    """What `state` is in model.v."""

    fast: set[Word] = field(default_factory=set)
    slow: set[Word] = field(default_factory=set)
    done: set[Product] = field(default_factory=set)


def start(pairs: Pairs, d: int) -> State:
    """Empty fast memory, Q, K and V in slow memory."""
    s = State()
    for i, j in pairs:
        for c in range(d):
            s.slow |= {("Q", i, c), ("K", j, c), ("V", j, c)}
    return s


def allowed(s: State, op: Op, M: int, pairs: set[tuple[int, int]], d: int) -> bool:
    """Whether the operation may be executed."""
    name, x = op
    if name == "Load":
        return x in s.slow and x not in s.fast and len(s.fast) < M
    if name in ("Store", "Drop"):
        return x in s.fast
    kind, i, j, c = x
    if (i, j) not in pairs or not 0 <= c < d or x in s.done:
        return False
    left, right, total = operands(x)
    if left not in s.fast or right not in s.fast:
        return False
    if kind == "F" and any(("E", i, j, b) not in s.done for b in range(d)):
        return False
    begun = any(operands(p)[2] == total for p in s.done)
    return total in s.fast or (not begun and len(s.fast) < M)


def execute(s: State, op: Op) -> None:
    """Execute an operation that is allowed."""
    name, x = op
    if name == "Load":
        s.fast.add(x)
    elif name == "Store":
        s.slow.add(x)
    elif name == "Drop":
        s.fast.remove(x)
    else:
        total = operands(x)[2]
        s.fast.add(total)
        s.slow.discard(total)
        s.done.add(x)


def computes(ops: Iterable[Op], M: int, pairs: Pairs, d: int) -> bool:
    """Whether the schedule is allowed in M words, and computes attention."""
    s, seen = start(pairs, d), set(pairs)
    for op in ops:
        if not allowed(s, op, M, seen, d):
            return False
        execute(s, op)
    outputs = {("O", i, c) for i, _ in pairs for c in range(d)}
    return set(products(pairs, d)) <= s.done and outputs <= s.slow


def cost(ops: Iterable[Op]) -> int:
    """Loads plus stores."""
    return sum(name in ("Load", "Store") for name, _ in ops)


def term(ops: Iterable[Op]) -> str:
    """The schedule as a term of Coq."""
    said = (f"{name.lower()} ({x[0]} {' '.join(map(str, x[1:]))})" for name, x in ops)
    return "(" + " :: ".join((*said, "nil")) + ")"
