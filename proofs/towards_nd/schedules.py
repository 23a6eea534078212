"""Row sums in the registered schedules: Lemma 1 on what they do, product by product."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from iosim.base.errors import CapacityError
from iosim.core.algorithms import all_algorithms
from iosim.core.counting.numbers import count, peak
from iosim.core.problem import Attention
from iosim.core.program.index import Index, Tile, cut, dims
from iosim.core.program.ir import Alloc, Free, Load, Loop, Node, Op, Ref, Store
from iosim.core.program.ops import OPS
from iosim.core.program.space import inside, running
from iosim.core.program.walk import Instance, bind, ranges
from iosim.core.tiling import optimal_tiles
from iosim.report.proof import require, step

from . import accounting

Product = tuple[str, int, int, int]  # kind, row, column of the pair; column of K or V

# Where scores, products with V and row sums are made: the operands that say rows, columns, width.
FIRST = {"matmul_nt": (0, 1)}
SECOND = {"matmul_nn": (1, 2), "online_softmax": (3, 4), "online_mean": (3, 4), "log_mean": (2, 3)}
THIRD = {
    "online_softmax": (2, 3),
    "online_mean": (2, 3),
    "online_weights": (2, 3),
    "row_stats": (1, 2),
    "log_mean": (1, 2),
    "log_weights": (1, 2),
}
OTHER = {"zero", "lowest", "low", "one", "finish", "normalise", "merge", "log_sums"}


@dataclass
class Trace:
    """What an instance of one dense head does: products in order, those of row sums once each."""

    instance: Instance
    made: dict[Product, None] = field(default_factory=dict)
    held: dict[str, tuple[Index, ...]] = field(default_factory=dict)

    def run(self, body: tuple[Node, ...], env: dict[str, int], loops: dict[Tile, Loop]) -> None:
        """All of a body, in order."""
        for node in body:
            match node:
                case Loop():
                    for at in running(node, env, self.instance.program, {}):
                        self.run(node.body, inside(env, node.tile, at), {**loops, node.tile: node})
                case Load() | Alloc():
                    self.held[node.buffer] = node.index
                case Free():
                    del self.held[node.buffer]
                case Op():
                    self.products(node, env, loops)
                case Store():
                    pass

    def box(self, ref: Ref, env: dict[str, int], loops: dict[Tile, Loop]) -> list[range]:
        """The positions that an operand has along each dimension of its buffer."""
        require(ref.buffer in self.held, f"{ref.buffer} is not resident")
        index = dims(self.held[ref.buffer])
        if ref.part is not None:
            index = dims(cut(index, ref.part))
        # One head: of what is stacked only the last is longer than 1.
        return [range(*ranges((x,), env, loops)[-1]) for x in index]

    def products(self, node: Op, env: dict[str, int], loops: dict[Tile, Loop]) -> None:
        """Those of one operation; its operands are resident, row sums with their rows."""
        require(
            node.name in OTHER or node.name in FIRST or node.name in SECOND or node.name in THIRD,
            f"{node.name} is not known",
        )
        operands = zip(node.operands, OPS[node.name].dims, strict=False)
        boxes = [self.box(ref, env, loops)[-len(letters) :] for ref, letters in operands]
        if node.name in FIRST:
            (rows, columns), (_, width) = boxes[0], boxes[1]
            self.add("E", rows, columns, width)
        if node.name in THIRD:
            sums, scores = (boxes[at] for at in THIRD[node.name])
            require(sums == [scores[0]], f"{node.name}: row sums of {sums} with rows {scores[0]}")
            self.add("G", *scores, range(1))
        if node.name in SECOND:
            (rows, columns), (_, width) = (boxes[at] for at in SECOND[node.name])
            self.add("F", rows, columns, width)

    def add(self, kind: str, rows: range, columns: range, width: range) -> None:
        """Products of a box, pair by pair; of a row's sums the first one counts."""
        for i, j in itertools.product(rows, columns):
            for c in width:
                require(
                    kind == "G" or (kind, i, j, c) not in self.made,
                    f"{(kind, i, j, c)} is made twice",
                )
                self.made.setdefault((kind, i, j, c))


def traced(name: str, instance: Instance, problem: Attention) -> accounting.Case:
    """An instance as a case of Lemma 1 with row sums, M its peak."""
    trace = Trace(instance)
    trace.run(instance.program.body, instance.env, {})
    d, d_v = problem.d, problem.sizes.get("d_v", problem.d)
    made = [(i, j) for _, i, j, _ in trace.made]
    require(len(made) == problem.N**2 * (d + d_v + 1), f"{name}: {len(made)} products")
    says = f"{name} {dict(instance.values)}"
    return accounting.Case(
        says, made, d + d_v + 1, d + d_v, peak(instance), count(instance).total_words, 1
    )


def instances() -> Iterator[tuple[str, Instance, Attention]]:
    """Every registered schedule of attention at sizes from small tiles to all in fast memory."""
    for N, d in ((4, 1), (7, 2), (12, 1)):
        problem = Attention(N, d)
        for entry in all_algorithms(problem.form):
            program, seen = entry.program_for(problem), set()
            for M in range(3, 3 * N * (d + 3), N * d):
                try:
                    tiles = optimal_tiles(program, problem, M).tiles
                except CapacityError:
                    continue
                key = tuple(sorted(tiles.items()))
                if key not in seen:
                    seen.add(key)
                    yield entry.name, bind(program, problem.sizes, tiles), problem


@step(
    "sums-schedules",
    how="sampled",
    says="each registered schedule adds each weight to its row's sum; Lemma 1 with row sums, cut",
)
def sums_schedules() -> str:
    """Cut anywhere, by rows and by columns; M is what the schedule holds at most."""
    rng, count, names = random.Random(26), 0, set()
    for name, instance, problem in instances():
        accounting.cut(traced(name, instance, problem), rng)
        names.add(name)
        count += 1
    require(len(names) > 8, f"only {sorted(names)}")
    return f"{count} instances of {', '.join(sorted(names))}, N ≤ 12, seed 26"
