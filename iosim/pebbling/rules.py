"""A graph and a variant of the game, compiled to bit sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from iosim.base.errors import InputError
from iosim.pebbling.bits import mask, members
from iosim.pebbling.dag import Dag, check_memory
from iosim.pebbling.operations import Operation, operations

LARGEST = 512  # values or operations: more are far beyond an exact search


@dataclass(frozen=True)
class Rules:
    """Values and operations of one game, by number; sets of them as integers.

    The first `count` operations are those that a schedule does, each once.  The others are flying:
    one of them stands for two of the first (`operations.py`).
    """

    dag: Dag
    M: int
    recompute: bool
    partial: bool
    values: tuple[str, ...]
    ops: tuple[Operation, ...]
    count: int
    inputs: int
    outputs: int
    # By operation: those that must have come before it, the values it reads, and those that can't
    # be done after it: itself, what a flying one stands for, and, once its term is made apart, the
    # flying one.
    before: tuple[int, ...]
    reads: tuple[int, ...]
    does: tuple[int, ...]
    # By operation of the first: values that are red when it is done, whichever way.
    surely_held: tuple[int, ...]
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
        return sum(self.weights[v] for s in (self.inputs, self.outputs) for v in members(s))


def compile_rules(dag: Dag, M: int, recompute: bool, partial: bool) -> Rules:
    """Compile a graph for one variant of the game.

    Only what the outputs depend on is compiled.  Raises InputError where M allows no pebbling,
    where both variants are requested, or where the graph has more than LARGEST values or
    operations.
    """
    if recompute and partial:
        raise InputError(
            "recomputation and partial computations can't be combined: choose one of them"
        )
    check_memory(dag, M, partial)
    if (size := search_size(dag, partial)) > LARGEST:
        raise InputError(
            f"{dag.name} is far beyond reach: {size:,} vertices to decide on; the search takes "
            f"{LARGEST} at most"
        )
    listed = operations(dag, partial)
    names, count, into = listed.values, len(listed.ops), listed.into
    ops = (*listed.ops, *listed.flying)
    reads = tuple(mask(op.reads) for op in ops)
    does = [1 << u | mask(op.does) for u, op in enumerate(ops)]
    for both in range(count, len(ops)):
        makes, _ = ops[both].does
        does[makes] |= 1 << both
    used = {p for op in listed.ops for p in op.reads}
    return Rules(
        dag,
        M,
        recompute,
        partial,
        names,
        ops,
        count,
        inputs=mask(v for v in used if not into[v]),
        outputs=mask(v for v, name in enumerate(names) if into[v] and name in dag.outputs),
        before=tuple(mask(k for r in op.reads for k in members(into[r])) for op in ops),
        reads=reads,
        does=tuple(does),
        surely_held=listed.surely_held,
        into=into,
        users=tuple(
            mask(k for k, r in enumerate(reads[:count]) if r >> v & 1) for v in range(len(names))
        ),
    )


def search_size(dag: Dag, partial: bool) -> int:
    """Values or operations of the game, whichever are more: the search takes up to LARGEST."""
    if not partial:
        return len(dag.output_ancestors)
    values = dag.output_ancestors - dag.folded
    added = [len(dag.preds[v]) if v in dag.sums else 1 for v in values if dag.preds[v]]
    return max(len(values), sum(added) + len(dag.fused & values))
