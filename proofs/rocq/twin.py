"""The model of model.v in Python: the same rules, so that schedules can be tried fast.

Words and products are tuples of a name and numbers: ("Q", i, c), ("E", i, j, c), ("A", i, l),
("Mul", i, j, l) and so on.  Operations are pairs: ("Load", word), ("Store", word), ("Drop", word),
("Do", product), ("Over", (product, word)).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Word: TypeAlias = tuple[str, int, int]
Product: TypeAlias = tuple[str, int, int, int]
Op: TypeAlias = tuple[str, Any]
Pairs: TypeAlias = Sequence[tuple[int, int]]


def heads(H: int, N: int) -> list[tuple[int, int]]:
    """All pairs of H heads of N rows; row i of head h is row h·N + i."""
    return [(h * N + i, h * N + j) for h in range(H) for i in range(N) for j in range(N)]


@dataclass(frozen=True)
class Task:
    """What `task` is in model.v: `operands` has the products, each with factors and accumulator."""

    coq: str
    inputs: frozenset[Word]
    outputs: frozenset[Word]
    operands: dict[Product, tuple[Word, Word, Word]]
    terms: dict[Word, frozenset[Product]] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[Word, set[Product]] = {}
        for p, (_, _, total) in self.operands.items():
            found.setdefault(total, set()).add(p)
        object.__setattr__(self, "terms", {w: frozenset(ps) for w, ps in found.items()})


def attention(pairs: Pairs, d: int, d_v: int | None = None) -> Task:
    """Attention over a set of pairs of a row and a key."""
    d_v = d if d_v is None else d_v
    made: dict[Product, tuple[Word, Word, Word]] = {}
    for i, j in pairs:
        made |= {("E", i, j, c): (("Q", i, c), ("K", j, c), ("S", i, j)) for c in range(d)}
        made |= {("F", i, j, x): (("S", i, j), ("V", j, x), ("O", i, x)) for x in range(d_v)}
    coq = f"attention_widths ({' :: '.join((*map(str, pairs), 'nil'))}) {d} {d_v}"
    return _task(coq, made, "QKV", "O")


def matrix_product(m: int, n: int, k: int) -> Task:
    """The product of an m × k and a k × n matrix."""
    made: dict[Product, tuple[Word, Word, Word]] = {
        ("Mul", i, j, x): (("A", i, x), ("B", x, j), ("C", i, j))
        for i in range(m)
        for j in range(n)
        for x in range(k)
    }
    return _task(f"matrix_product {m} {n} {k}", made, "AB", "C")


def _task(coq: str, made: dict[Product, tuple[Word, Word, Word]], given: str, asked: str) -> Task:
    words = {w for three in made.values() for w in three}
    named = [frozenset(w for w in words if w[0] in names) for names in (given, asked)]
    return Task(coq, *named, made)


@dataclass
class State:
    """What `state` is in model.v."""

    fast: set[Word] = field(default_factory=set)
    slow: set[Word] = field(default_factory=set)
    done: set[Product] = field(default_factory=set)


def start(t: Task) -> State:
    """Empty fast memory, the inputs in slow memory."""
    return State(slow=set(t.inputs))


def ready(s: State, p: Product, t: Task) -> bool:
    """Whether a product can be executed, wherever its result goes."""
    if p not in t.operands or p in s.done:
        return False
    factors = t.operands[p][:2]
    return all(w in s.fast and t.terms.get(w, frozenset()) <= s.done for w in factors)


def allowed(s: State, op: Op, M: int, t: Task) -> bool:
    """Whether the operation may be executed."""
    name, x = op
    if name == "Load":
        return x in s.slow and x not in s.fast and len(s.fast) < M
    if name in ("Store", "Drop"):
        return x in s.fast
    p, over = x if name == "Over" else (x, None)
    if not ready(s, p, t):
        return False
    left, right, total = t.operands[p]
    starts = total not in s.fast and not t.terms[total] & s.done
    if name == "Over":
        return starts and over in (left, right)
    return total in s.fast or (starts and len(s.fast) < M)


def execute(s: State, op: Op, t: Task) -> None:
    """Execute an operation that is allowed."""
    name, x = op
    if name == "Load":
        s.fast.add(x)
    elif name == "Store":
        s.slow.add(x)
    elif name == "Drop":
        s.fast.remove(x)
    else:
        p, over = x if name == "Over" else (x, None)
        total = t.operands[p][2]
        s.fast.discard(over)
        s.fast.add(total)
        s.slow.discard(total)
        s.done.add(p)


def runs(ops: Iterable[Op], M: int, t: Task) -> State | None:
    """The state after the schedule, or None if an operation is not allowed."""
    s = start(t)
    for op in ops:
        if not allowed(s, op, M, t):
            return None
        execute(s, op, t)
    return s


def computes(ops: Iterable[Op], M: int, t: Task) -> bool:
    """Whether the schedule is allowed in M words, and computes what the task asks for."""
    s = runs(ops, M, t)
    return s is not None and t.operands.keys() <= s.done and t.outputs <= s.slow


def cost(ops: Iterable[Op]) -> int:
    """Loads plus stores."""
    return sum(name in ("Load", "Store") for name, _ in ops)


def term(ops: Iterable[Op], letter: str) -> str:
    """The schedule as a term of Coq, where names of operations begin with a letter."""

    def one(name: str, x: Any) -> str:
        parts = x if name == "Over" else (x,)
        said = " ".join(f"({y[0]} {' '.join(map(str, y[1:]))})" for y in parts)
        return f"{letter}{name} {said}"

    return "(" + " :: ".join((*(one(name, x) for name, x in ops), "nil")) + ")"
