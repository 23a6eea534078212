"""The project's own schedules as schedules of the model of model.v."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from iosim.core.program.index import unstacked
from iosim.core.program.ir import Alloc, Free, Load, Loop, Op, Store
from iosim.core.program.space import Range, covered, inside, running
from iosim.core.program.walk import Instance, ranges

from . import twin

# Tensor of a schedule → the letter of its words: weights are made from scores in place, and the
# part of O of the only split is O's accumulator.  The rest are row statistics, which the model
# leaves out.
LETTERS = {x: x for x in "QKVSOABC"} | {"P": "S", "O_part": "O"}
HEADS = ("heads", "kv_heads", "group")
# Operation → the product that it executes, and how many row statistics come before its factors.
PRODUCTS = {
    "matmul_nt": "E",
    "matmul_nn": "F",
    "online_softmax": "F",
    "online_mean": "F",
    "log_mean": "F",
}
TOTALS = {"E": "S", "F": "O", "Mul": "C"}


@dataclass(frozen=True)
class Held:
    """A buffer: the letter of its words ("" if not known yet), its heads, and two axes."""

    letter: str
    heads: dict[str, Range]
    axes: tuple[tuple[str, Range], ...]

    def cells(self, env: dict[str, int]) -> list[tuple[int, int]]:
        """Its words' rows and columns; rows, and keys as columns, are numbered over all heads."""
        (_, (a, b)), (_, (c, d)) = self.axes
        firsts = self.heads.get("kv_heads") or self.heads.get("heads") or (0, 1)
        inner = self.heads.get("group", (0, 1))
        keys, rows = env.get("N_k", env.get("N", 0)), env.get("N", 0)
        found: list[tuple[int, int]] = []
        for g, u in itertools.product(range(*firsts), range(*inner)):
            head = g * env.get("group", 1) + u
            down = g * keys if self.letter in "KV" else head * rows
            across = g * keys if self.letter == "S" else 0
            found += [(down + i, across + j) for i in range(a, b) for j in range(c, d)]
        return found

    def words(self, env: dict[str, int]) -> list[twin.Word]:
        """Its words, as those of the model."""
        return [(self.letter, i, j) for i, j in self.cells(env)]


def schedule(instance: Instance, task: twin.Task) -> Iterator[twin.Op]:
    """Loads, stores and drops of the task's words, and its products between them.

    Row statistics are left out, and so are the zeros that a schedule stores first, and what a
    tile that a mask cuts makes of other pairs.
    """
    env = dict(instance.env)
    held: dict[str, Held] = {}
    begun = set(task.inputs)

    def place(letter: str, index: Any, at: Any, loops: Any) -> Held:
        """A buffer that is indexed so, in the heads that are open."""
        heads = {tile.axis: covered(tile, at) for tile in loops if tile.axis in HEADS}
        named = [x.axis if hasattr(x, "axis") else x.tile.axis for x in unstacked(index)]
        axes = tuple(zip(named, ranges(index, at, loops), strict=True))
        heads |= {axis: span for axis, span in axes[:-2] if axis in HEADS}
        return Held(letter, heads, axes[-2:])

    def part(ref: Any, at: Any) -> Held:
        found = held[ref.buffer]
        if ref.part is None:
            return found
        k = [axis for axis, _ in found.axes].index(ref.part.axis)
        axes = list(found.axes)
        axes[k] = (ref.part.axis, covered(ref.part, at))
        return replace(found, axes=tuple(axes))

    def real(buffer: Held) -> list[twin.Word]:
        """Words that have a value: not the zeros to which no product was added yet."""
        return [w for w in buffer.words(env) if w in begun]

    def multiply(op: Op, at: Any) -> Iterator[twin.Op]:
        kind = PRODUCTS[op.name.removesuffix("_seen")]
        into, *_, left, right = op.operands  # between them a row's statistics
        a, b = part(left, at), part(right, at)
        kind = "Mul" if a.letter == "A" else kind
        if not held[into.buffer].letter:
            held[into.buffer] = replace(held[into.buffer], letter=TOTALS[kind])
        columns = range(*b.axes[1][1])
        if kind == "E":
            rows, keys = dict(a.cells(env)), dict(b.cells(env))
            made = [(kind, i, j, c) for i in rows for j in keys for c in columns]
        elif kind == "F":
            made = [(kind, i, j, c) for i, j in a.cells(env) for c in columns]
        else:
            made = [(kind, i, c, x) for i, x in a.cells(env) for c in columns]
        for p in made:
            if p in task.operands:
                begun.add(task.operands[p][2])
                yield "Do", p

    def merge(into: Any, more: Any) -> None:
        """One split: what was stored of it goes on as the accumulator."""
        if set(words := held[more.buffer].words(env)) & set(held[into.buffer].words(env)):
            raise ValueError(f"two accumulators for {words[0]}")
        held[into.buffer] = replace(held[into.buffer], letter="O")
        held[more.buffer] = replace(held[more.buffer], letter="")

    def walk(body: Any, at: Any, loops: Any) -> Iterator[twin.Op]:
        for node in body:
            if isinstance(node, Loop):
                for one in running(node, at, instance.program, dict(instance.masks)):
                    yield from walk(
                        node.body, inside(at, node.tile, one), {**loops, node.tile: node}
                    )
            elif isinstance(node, (Load, Store)) and node.tensor in LETTERS:
                held[node.buffer] = place(LETTERS[node.tensor], node.index, at, loops)
                name = "Load" if isinstance(node, Load) else "Store"
                yield from ((name, w) for w in real(held[node.buffer]))
            elif isinstance(node, (Load, Alloc)):
                held[node.buffer] = place("", node.index, at, loops)
            elif isinstance(node, Free):
                gone = held.pop(node.buffer)
                if gone.letter:
                    yield from (("Drop", w) for w in real(gone))
            elif isinstance(node, Op) and node.name.removesuffix("_seen") in PRODUCTS:
                yield from multiply(node, at)
            elif isinstance(node, Op) and node.name == "merge":
                merge(node.operands[0], node.operands[3])

    yield from walk(instance.program.body, env, {})
