"""Random small graphs of operators, for the tests of fusion."""

from __future__ import annotations

import random

from iosim.models.layers.graph import Graph
from iosim.models.operators import Operand, Operator, operand, operator

SIZES = {"b": 2, "t": 4, "i": 6, "u": 3, "k": 4}


def random_graph(seed: int, most: int = 7) -> Graph:
    """Four to `most` operators: maps, rows, sums and products that read each other."""
    rng = random.Random(seed)
    tensors: list[Operand] = [
        operand(f"X{n}", axes, SIZES) for n, axes in enumerate(["t i", "t u", "i u", "t i"])
    ]
    ops: list[Operator] = []
    for n in range(rng.randint(4, most)):
        made = _operator(rng, n, tensors)
        ops.append(made)
        tensors += made.writes
    written = [t.name for op in ops for t in op.writes]
    unread = {x for x in written if not any(x == t.name for op in ops for t in op.reads)}
    return Graph(
        f"random {seed}",
        tuple(ops),
        frozenset(unread | set(rng.sample(written, rng.randint(0, 1)))),
    )


def _operator(
    rng: random.Random, n: int, tensors: list[Operand], x: Operand | None = None
) -> Operator:
    recent = tensors[-6:]
    x = x or rng.choice(recent)
    while len(x.names) != 2:
        x = rng.choice(tensors)
    out = Operand(f"Y{n}", x.axes)
    match rng.choice(["relu", "add", "bias", "multiply", "softmax", "sum", "product", "product"]):
        case "add" | "multiply" as kind:
            same = [t for t in tensors if t.shape == x.shape]
            y = rng.choice(same)
            return operator(f"{kind} {n}", kind, [x, Operand(y.name, x.axes)], [out])
        case "bias":
            b = Operand(f"B{n}", (rng.choice(x.axes),))
            return operator(f"bias {n}", "bias", [x, b], [out])
        case "softmax":
            return operator(f"softmax {n}", "softmax", [x], [out], over=rng.choice(x.names))
        case "sum":
            gone = rng.choice(x.names)
            left = tuple(a for a in x.axes if a[0] != gone)
            return operator(f"sum {n}", "sum", [x], [Operand(f"Y{n}", left)], over=gone)
        case "product":
            (_, m), (_, k) = x.axes
            others = [t for t in tensors if len(t.shape) == 2 and k in t.shape]
            y = rng.choice(others)
            at = y.shape.index(k)
            size = y.shape[1 - at]
            y = Operand(y.name, tuple(("s", k) if d == at else ("c", size) for d in range(2)))
            z = Operand(x.name, (("r", m), ("s", k)))
            return operator(
                f"product {n}", "contraction", [z, y], [Operand(f"Y{n}", (("r", m), ("c", size)))]
            )
    return operator(f"relu {n}", "relu", [x], [out])


def random_row(seed: int, most: int = 7) -> Graph:
    """Operators each of which reads what the one before it writes, and others' tensors."""
    rng = random.Random(seed)
    tensors = [operand(f"X{n}", axes, SIZES) for n, axes in enumerate(["t i", "t u", "i u", "t i"])]
    ops: list[Operator] = []
    for n in range(rng.randint(4, most)):
        last = ops[-1].writes[0] if ops else tensors[0]
        if len(last.axes) == 2:
            made = _operator(rng, n, tensors, last)
        else:  # a sum: of rows, which an operator on all of them reads
            both = rng.choice([t for t in tensors if last.shape[0] in t.shape and len(t.axes) == 2])
            axis = both.axes[both.shape.index(last.shape[0])]
            made = operator(
                f"bias {n}",
                "bias",
                [both, Operand(last.name, (axis,))],
                [Operand(f"Y{n}", both.axes)],
            )
        ops.append(made)
        tensors += made.writes
    written = [t.name for op in ops for t in op.writes]
    unread = {x for x in written if not any(x == t.name for op in ops for t in op.reads)}
    return Graph(
        f"row {seed}", tuple(ops), frozenset(unread | set(rng.sample(written, rng.randint(0, 1))))
    )
