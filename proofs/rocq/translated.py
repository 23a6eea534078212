"""The project's own schedules, and the pebble solver's, as schedules of the model of model.v."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from iosim.program.ir import Alloc, Free, Load, Loop, Op, Store
from iosim.program.space import covered, inside, running
from iosim.program.walk import Instance, ranges

from . import twin

SCORES = ("S", "P")  # tensors of scores, and of weights made from them in place
COUNTED = ("Q", "K", "V", "O", *SCORES)  # the rest are row statistics, which the model leaves out


@dataclass(frozen=True)
class Held:
    """A buffer: the tensor that its words are of ("" if not known yet), head, two ranges."""

    tensor: str
    axes: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    def cells(self, N: int) -> list[tuple[int, int]]:
        """Its words' rows and columns; rows, and columns of scores, are numbered over all heads."""
        (h, _), (a, b), (c, d) = self.spans[-3:] if len(self.spans) > 2 else ((0, 1), *self.spans)
        across = h * N if self.tensor in SCORES else 0
        return [(h * N + i, across + j) for i in range(a, b) for j in range(c, d)]

    def words(self, N: int) -> list[twin.Word]:
        """Its words, as those of the model."""
        name = "S" if self.tensor in SCORES else self.tensor
        return [(name, i, j) for i, j in self.cells(N)]


def schedule(instance: Instance) -> Iterator[twin.Op]:
    """Loads, stores and drops of Q, K, V, O and the scores, and the products between them.

    Row statistics are left out, and so are the zeros that a schedule stores first.
    """
    env = dict(instance.env)
    N, held, begun = env["N"], {}, set()

    def axes(index: tuple) -> tuple[str, ...]:
        return tuple(x.axis if hasattr(x, "axis") else x.tile.axis for x in index)

    def part(ref: Any, at: Any) -> Held:
        found = held[ref.buffer]
        if ref.part is None:
            return found
        k = found.axes.index(ref.part.axis)
        spans = (*found.spans[:k], covered(ref.part, at), *found.spans[k + 1 :])
        return replace(found, spans=spans)

    def known(ref: Any, tensor: str) -> None:
        if not held[ref.buffer].tensor:
            held[ref.buffer] = replace(held[ref.buffer], tensor=tensor)

    def head(ref: Any, like: Held) -> None:
        """An accumulator belongs to the head of what is added to it."""
        mine = held[ref.buffer]
        if len(mine.spans) == 2 and len(like.spans) == 3:
            held[ref.buffer] = replace(
                mine, axes=(like.axes[0], *mine.axes), spans=(like.spans[0], *mine.spans)
            )

    def real(buffer: Held) -> list[twin.Word]:
        """Without the zeros of accumulators that no product was added to yet."""
        return [w for w in buffer.words(N) if w[0] in "QKV" or w in begun]

    def multiply(op: Op, at: Any) -> Iterator[twin.Op]:
        if op.name == "matmul_nt":
            into, left, right = op.operands
            kind, total = "E", "S"
        elif op.name == "matmul_nn":
            into, left, right = op.operands
            kind, total = "F", "O"
        elif op.name in ("online_softmax", "online_mean", "log_mean"):
            into, *_, left, right = op.operands  # between them a row's statistics
            kind, total = "F", "O"
        else:
            return
        known(into, total)
        a, b = part(left, at), part(right, at)
        head(into, a)
        if kind == "E":
            rows, keys = dict(a.cells(N)), dict(b.cells(N))
            made = [("E", i, j, c) for i in rows for j in keys for c in range(*a.spans[-1])]
        else:
            made = [("F", i, j, c) for i, j in a.cells(N) for c in range(*b.spans[-1])]
        for p in made:
            begun.add(twin.operands(p)[2])
            yield "Do", p

    def walk(body: Any, at: Any, loops: Any) -> Iterator[twin.Op]:
        for node in body:
            if isinstance(node, Loop):
                for one in running(node, at, instance.program, dict(instance.masks)):
                    yield from walk(
                        node.body, inside(at, node.tile, one), {**loops, node.tile: node}
                    )
            elif isinstance(node, Load):
                counted = node.tensor if node.tensor in COUNTED else "-"
                held[node.buffer] = Held(counted, axes(node.index), ranges(node.index, at, loops))
                if counted != "-":
                    yield from (("Load", w) for w in real(held[node.buffer]))
            elif isinstance(node, Store):
                if node.tensor in COUNTED:
                    held[node.buffer] = Held(
                        node.tensor, axes(node.index), ranges(node.index, at, loops)
                    )
                    yield from (("Store", w) for w in real(held[node.buffer]))
            elif isinstance(node, Alloc):
                held[node.buffer] = Held("", axes(node.index), ranges(node.index, at, loops))
            elif isinstance(node, Free):
                gone = held.pop(node.buffer)
                if gone.tensor in COUNTED:
                    yield from (("Drop", w) for w in real(gone))
            else:
                yield from multiply(node, at)

    yield from walk(instance.program.body, env, {})
