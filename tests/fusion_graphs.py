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


def random_network(seed: int, most: int = 8) -> Graph:
    """Branches that meet again, residuals, a table that many read, and operators by themselves."""
    rng = random.Random(seed)
    s = {"t": 4, "i": 6, "o": 6}
    streams, made = [operand("X", "t i", s)], 0
    table, ops = operand("T", "t i", s), list[Operator]()
    kept = set[str]()
    n = rng.randint(5, most)
    while made < n:
        x = rng.choice(streams[-3:])
        y, made = operand(f"Y{made}", "t i", s), made + 1
        name = f"operator {made}"
        match rng.choice(["map", "residual", "table", "row", "product", "alone", "sum", "pair"]):
            case "residual" if len(streams) > 1:
                x, z = rng.sample(streams, 2)
                ops.append(operator(name, "add", [x, z], [y]))
            case "table":
                ops.append(operator(name, "multiply", [x, table], [y]))
            case "row":
                ops.append(operator(name, "softmax", [x], [y], over=rng.choice("ti")))
            case "product" | "pair" as what:
                weights = operand(f"W{made}" if what == "product" else "W", "i o", s)
                ops.append(operator(name, "contraction", [x, weights], [operand(y.name, "t o", s)]))
            case "alone":
                ops.append(operator(name, "opaque", [x], [y]))
            case "sum":
                rows = operand(f"S{made}", "t", s)
                ops.append(operator(name, "sum", [x], [rows], over="i"))
                kept.add(rows.name)
                continue
            case _:
                ops.append(operator(name, "relu", [x], [y]))
        streams.append(y)
    read = {t.name for op in ops for t in op.reads}
    return Graph(
        f"network {seed}",
        tuple(ops),
        frozenset(kept | {t.name for op in ops for t in op.writes if t.name not in read}),
    )


def transformer(layers: int, *, rows: int = 64, hidden: int = 32, heads: int = 2) -> Graph:
    """Layers of attention and a perceptron, with residuals and a table that all layers read."""
    s = {"t": rows, "s": rows, "i": hidden, "h": heads, "e": hidden // heads, "f": 4 * hidden}
    ops: list[Operator] = []

    def add(name: str, kind: str, reads: list[Operand], axes: str, **more: object) -> Operand:
        made = operand(f"{name}: out", axes, s)
        ops.append(operator(name, kind, reads, [made], **more))  # type: ignore[arg-type]
        return made

    def rename(t: Operand, axes: str) -> Operand:
        return operand(t.name, axes, s)

    x, table = operand("X", "t i", s), operand("positions", "t h e", s)
    for k in range(layers):
        n = add(f"norm {k}", "softmax", [x], "t i", over="i")
        q, key, v = (
            add(
                f"{c} bias {k}",
                "bias",
                [
                    add(f"{c} {k}", "contraction", [n, operand(f"W{c}{k}", "i h e", s)], "t h e"),
                    operand(f"B{c}{k}", "h e", s),
                ],
                "t h e",
            )
            for c in "QKV"
        )
        q, key = (
            add(f"{c} turned {k}", "multiply", [y, table], "t h e")
            for c, y in (("Q", q), ("K", key))
        )
        p = add(f"scores {k}", "contraction", [q, rename(key, "s h e")], "h t s")
        p = add(f"softmax {k}", "softmax", [p], "h t s", over="s")
        o = add(f"weighted sum {k}", "contraction", [p, rename(v, "s h e")], "t h e")
        o = add(f"output {k}", "contraction", [o, operand(f"WO{k}", "h e i", s)], "t i")
        o = add(f"output bias {k}", "bias", [o, operand(f"BO{k}", "i", s)], "t i")
        x = add(f"residual {k}", "add", [o, x], "t i")
        n = add(f"second norm {k}", "softmax", [x], "t i", over="i")
        f = add(f"linear 1 {k}", "contraction", [n, operand(f"W1{k}", "i f", s)], "t f")
        f = add(f"bias 1 {k}", "bias", [f, operand(f"B1{k}", "f", s)], "t f")
        f = add(f"activation {k}", "gelu", [f], "t f")
        y = add(f"linear 2 {k}", "contraction", [f, operand(f"W2{k}", "f i", s)], "t i")
        y = add(f"bias 2 {k}", "bias", [y, operand(f"B2{k}", "i", s)], "t i")
        x = add(f"second residual {k}", "add", [y, x], "t i")
    return Graph(f"transformer of {layers} layers", tuple(ops))


def random_crossing(seed: int, most: int = 5) -> Graph:
    """Operators that read one of few tables, each behind operators that are kernels by themselves.

    Two with one table save its words, if neither depends on the other; two such pairs may wait for
    each other.
    """
    rng = random.Random(seed)
    s = {"t": 4, "i": 6}
    tables = [operand(f"T{k}", "t i", s) for k in range(rng.choice([2, 2, 3]))]
    streams, ops = list[Operand](), list[Operator]()
    n = rng.randint(4, most)
    for k in range(n):
        x, y, z = (operand(f"{x}{k}", "t i", s) for x in "XYZ")
        if k >= n // 2:
            x = rng.choice(streams)
        ops.append(operator(f"operator {k}", "add", [rng.choice(tables), x], [y]))
        streams.append(y)
        if k < n // 2:
            ops.append(operator(f"alone {k}", "opaque", [y], [z]))
            streams[-1] = z
    return Graph(f"crossing {seed}", tuple(ops))
