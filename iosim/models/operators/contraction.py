"""Matrix products with batch axes: einsum of two tensors, by the names of their axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.core.problem import MatMul
from iosim.models.operators.base import Grads, Kind, Operator


@dataclass(frozen=True)
class Product:
    """A contraction as `batch` products of an m × k by a k × n matrix.

    >>> Product(batch=1, m=2, n=3, k=4)
    Product(batch=1, m=2, n=3, k=4)
    """

    batch: int
    m: int
    n: int
    k: int


def product(op: Operator) -> Product:
    """The sizes of a contraction: axes of both inputs and the output are its batch.

    >>> from iosim.models.operators import operand, operator
    >>> sizes = {"b": 8, "h": 16, "j": 512, "k": 512, "p": 64}
    >>> scores = operator("QK", "contraction", [operand("Q", "b h j p", sizes),
    ...     operand("K", "b h k p", sizes)], [operand("S", "b h j k", sizes)])
    >>> product(scores)
    Product(batch=128, m=512, n=512, k=64)
    """
    (a, b), (c,) = (set(t.names) for t in op.reads), (set(t.names) for t in op.writes)

    def size(axes: set[str]) -> int:
        return math.prod(op.sizes[x] for x in axes)

    return Product(size(a & b & c), size((a - b) & c), size((b - a) & c), size((a & b) - c))


def _run(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    letter = dict(zip(op.sizes, ascii_letters, strict=False))
    reads = ",".join("".join(letter[a] for a in t.names) for t in op.reads)
    written = "".join(letter[a] for a in op.writes[0].names)
    return [np.einsum(f"{reads}->{written}", *arrays)]


def _check(op: Operator) -> None:
    a, b, c = (set(t.names) for t in (*op.reads, *op.writes))
    if alone := (a ^ b) - c:
        raise InputError(
            f"{op.name}: axis {min(alone)} is in one input only and not in {op.writes[0].name}: "
            "sum over it before"
        )
    if new := c - a - b:
        raise InputError(f"{op.name}: axis {min(new)} of {op.writes[0].name} is in no input")


def _gradient(op: Operator, grads: Grads) -> list[Operator]:
    (dy,) = map(grads.of, op.writes)
    if dy is None:
        return []
    return [
        Operator(f"{op.name} d{x.name}", CONTRACTION, (dy, other), (grads.to(x),))
        for x, other in (op.reads, op.reads[::-1])
        if grads.wanted(x)
    ]


def _problem(op: Operator) -> list[tuple[int, MatMul]]:
    p = product(op)
    return [(p.batch, MatMul(p.m, p.n, p.k))]


CONTRACTION = Kind(
    "contraction",
    "sum of products over the axes that only the inputs have",
    "contraction",
    run=_run,
    reads=2,
    check=_check,
    gradient=_gradient,
    problem=_problem,
)

KINDS = (CONTRACTION,)
