"""The model of classes.v in Python: the same rules, so that executions can be tried fast.

A value is a pair: a word and None, an input; or a word and a tuple of products, a partial sum.
Words and products are those of `twin`.  Moves are tuples: ("Read", value), ("Write", value),
("Free", value), ("Copy", value, over), ("Mul", product, terms, over), ("Add", word, terms, terms,
over), where `over` is a value of fast memory or None.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from . import twin

Value: TypeAlias = tuple[twin.Word, tuple[twin.Product, ...] | None]
Move: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Class:
    """What `class` is in classes.v."""

    name: str
    again: bool
    adds: bool


SINGLE = Class("single", False, False)
RECOMPUTE = Class("recompute", True, False)
TREES = Class("trees", False, True)
RECOMPUTE_TREES = Class("recompute_trees", True, True)
CLASSES = (SINGLE, RECOMPUTE, TREES, RECOMPUTE_TREES)


@dataclass
class Memory:
    """What `memory` is in classes.v, of M words, for a task and a class."""

    kind: Class
    M: int
    task: twin.Task
    near: list[Value] = field(default_factory=list)
    far: set[Value] = field(default_factory=set)
    past: set[twin.Product] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.far |= {(w, None) for w in self.task.inputs}

    def is_complete(self, word: twin.Word, values: Iterable[Value]) -> bool:
        """Whether the word is among the values, as an input or with all terms."""
        need = self.task.terms.get(word, frozenset())
        return any(w == word and (T is None or need <= set(T)) for w, T in values)

    def place(self, value: Value, over: Value | None) -> bool:
        """Put a value over another one or in a free word, if there is one."""
        if over is not None:
            if over not in self.near:
                return False
            self.near.remove(over)
        elif len(self.near) >= self.M:
            return False
        self.near.append(value)
        return True

    def go(self, move: Move) -> bool:
        """Make the move; False, and nothing is changed, if it is not allowed."""
        name, *rest = move
        if name == "Read":
            return rest[0] in self.far and self.place(rest[0], None)
        if name == "Copy":
            return rest[0] in self.near and self.place(*rest)
        if name == "Add":
            word, T, U, over = rest
            parts = self.kind.adds and (word, T) in self.near and (word, U) in self.near
            return parts and not set(T) & set(U) and self.place((word, T + U), over)
        if name == "Mul":
            p, T, over = rest
            if p not in self.task.operands or p in T or (p in self.past and not self.kind.again):
                return False
            left, right, total = self.task.operands[p]
            if not (self.is_complete(left, self.near) and self.is_complete(right, self.near)):
                return False
            if T and (total, T) not in self.near:
                return False
            if not self.place((total, (p, *T)), over):
                return False
            self.past.add(p)
            return True
        if rest[0] not in self.near:
            return False
        if name == "Write":
            self.far.add(rest[0])
        else:
            self.near.remove(rest[0])
        return True


def runs(kind: Class, moves: Iterable[Move], M: int, task: twin.Task) -> Memory | None:
    """The memory after all moves, None if one is not allowed."""
    m = Memory(kind, M, task)
    return m if all(m.go(move) for move in moves) else None


def attains(kind: Class, moves: Iterable[Move], M: int, task: twin.Task) -> bool:
    """Whether the schedule is allowed in M words, and leaves all outputs in slow memory."""
    m = runs(kind, moves, M, task)
    return m is not None and all(m.is_complete(w, m.far) for w in task.outputs)


def traffic(moves: Iterable[Move]) -> int:
    """Reads plus writes."""
    return sum(move[0] in ("Read", "Write") for move in moves)


def _list(items: Iterable[str]) -> str:
    return "(" + " :: ".join((*items, "nil")) + ")"


def _one(x: tuple) -> str:
    """A word or a product."""
    return f"({x[0]} {' '.join(map(str, x[1:]))})"


def _value(value: Value) -> str:
    word, T = value
    return f"(inp {_one(word)})" if T is None else f"(part {_one(word)} {_list(map(_one, T))})"


def term(moves: Iterable[Move]) -> str:
    """The schedule as a term of Coq."""
    said = []
    for name, *rest in moves:
        args = []
        for k, x in enumerate(rest):
            over = k == len(rest) - 1 and name in ("Copy", "Mul", "Add")
            if over:
                args.append("None" if x is None else f"(Some {_value(x)})")
            elif k == 0:
                args.append(_one(x) if name in ("Mul", "Add") else _value(x))
            else:
                args.append(_list(map(_one, x)))
        said.append(f"m{name} {' '.join(args)}")
    return _list(said)
