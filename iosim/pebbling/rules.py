"""A graph and a variant of the game, compiled to bit sets.

*Values* are what a pebble can lie on, *operations* what places one without a transfer: one per
vertex that is no input, or one per term of a sum where sums are taken term by term.  A term that a
multiply–add consumes on the fly is no value: making it apart could never save a transfer, since a
word that holds the term could hold the sum with the term in it instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iosim.errors import InputError
from iosim.pebbling.bits import mask
from iosim.pebbling.dag import Dag

LARGEST = 512  # values or operations: more are far beyond an exact search


@dataclass(frozen=True)
class Operation:
    """Reads values, writes one.  `term` is the term that it adds to a sum, if it adds one."""

    target: int
    reads: tuple[int, ...]
    vertex: str
    term: str | None = None


@dataclass(frozen=True)
class Rules:
    """Values and operations of one game, by number; sets of them as integers."""

    dag: Dag
    M: int
    recompute: bool
    partial: bool
    values: tuple[str, ...]
    ops: tuple[Operation, ...]
    inputs: int
    outputs: int
    # By operation: those that must have come before it, and the values it reads.
    before: tuple[int, ...]
    reads: tuple[int, ...]
    # By value: the operations that write it, and that read it.
    into: tuple[int, ...]
    users: tuple[int, ...]

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The words of each value."""
        return tuple(self.dag.words_of[v] for v in self.values)

    @property
    def compulsory(self) -> int:
        """Loads of needed inputs and stores of outputs, in words: no schedule moves less."""
        return sum(self.weights[v] for s in (self.inputs, self.outputs) for v in _members(s))


def compile_rules(dag: Dag, M: int, recompute: bool, partial: bool) -> Rules:
    """Compile a graph for one variant of the game.

    Only what the outputs depend on is compiled.  Raises InputError where M allows no pebbling,
    where both variants are asked for, or where the graph has more than LARGEST values or
    operations.
    """
    if recompute and partial:
        raise InputError(
            "recomputation and partial computations can't be combined: choose one of them"
        )
    least = dag.least_memory(partial)
    if least > M:
        raise InputError(
            f"M = {M} is too small for {dag.name}: a vertex with its operands needs M >= {least}"
        )
    if (size := search_size(dag, partial)) > LARGEST:
        raise InputError(
            f"{dag.name} is far beyond reach: {size:,} vertices to decide on; the search takes "
            f"{LARGEST} at most"
        )
    needed = [v for v in dag.vertices if v in dag.needed]
    gone = dag.fused if partial else frozenset()
    names = tuple(v for v in needed if v not in gone)
    number = {v: k for k, v in enumerate(names)}
    ops: list[Operation] = []
    for v in names:
        if partial and v in dag.sums:
            for t in dag.preds[v]:
                reads = dag.preds[t] if t in gone else (t,)
                ops.append(Operation(number[v], tuple(number[p] for p in reads), v, t))
        elif dag.preds[v]:
            ops.append(Operation(number[v], tuple(number[p] for p in dag.preds[v]), v))
    into = tuple(mask(k for k, op in enumerate(ops) if op.target == v) for v in range(len(names)))
    reads_of = tuple(mask(op.reads) for op in ops)
    return Rules(
        dag, M, recompute, partial, names, tuple(ops),
        inputs=mask(number[v] for v in names if not dag.preds[v] and dag.succs[v]
                    and any(w in dag.needed for w in dag.succs[v])),
        outputs=mask(number[v] for v in dag.outputs if dag.preds[v]),
        before=tuple(mask(k for r in op.reads for k in _members(into[r])) for op in ops),
        reads=reads_of,
        into=into,
        users=tuple(mask(k for k, r in enumerate(reads_of) if r >> v & 1)
                    for v in range(len(names))),
    )  # fmt: skip


def search_size(dag: Dag, partial: bool) -> int:
    """Values or operations of the game, whichever are more: the search takes up to LARGEST."""
    if not partial:
        return len(dag.needed)
    ops = (
        len(dag.preds[v]) if v in dag.sums else 1 for v in dag.needed - dag.fused if dag.preds[v]
    )
    return max(len(dag.needed - dag.fused), sum(ops))


def _members(word: int) -> list[int]:
    return [k for k in range(word.bit_length()) if word >> k & 1]
