"""Counts floating-point operations of a block of Triton's IR: those of products, and the others.

`iosim.kernel.count` and `evaluate` call it.  ``tests/kernel/test_emitted.py`` compares with the
FLOP of schedules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iosim.kernel.ir import IrBlock, IrOperation, element_type, tile_shape

# Operations of one element each; an fma is two.
_ONE = {
    "arith.addf",
    "arith.subf",
    "arith.mulf",
    "arith.divf",
    "arith.negf",
    "arith.remf",
    "arith.maximumf",
    "arith.minimumf",
    "arith.maxnumf",
    "arith.minnumf",
    "arith.cmpf",
    "tt.precise_divf",
    "tt.precise_sqrt",
    "tt.extern_elementwise",
}

PRODUCTS = {"tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma"}


@dataclass(frozen=True)
class FloatOperations:
    """Floating-point operations.

    Attributes:
        products: of matrix products, 2 for each multiplication with its addition.
        rest: of everything else, 1 for each element.

    >>> FloatOperations(2, 3) * 10 + FloatOperations(1, 0)
    FloatOperations(products=21, rest=30)
    """

    products: int = 0
    rest: int = 0

    def __add__(self, other: FloatOperations) -> FloatOperations:
        return FloatOperations(self.products + other.products, self.rest + other.rest)

    def __mul__(self, times: int) -> FloatOperations:
        return FloatOperations(self.products * times, self.rest * times)

    def __bool__(self) -> bool:
        return bool(self.products or self.rest)


def block_work(block: IrBlock) -> FloatOperations:
    """The work of a block's own operations, once; inner loops and branches aside.

    Products that a condition may leave out are aside, too.
    """
    if block.work is None:
        always = (op for op in block.operations if op.name != "ttng.tc_gen5_mma")
        block.work = sum((operation_work(op) for op in always), FloatOperations())
    work: FloatOperations = block.work
    return work


def operation_work(op: IrOperation) -> FloatOperations:
    """The work of one operation.

    >>> from iosim.kernel.ir import parse_operation
    >>> operation_work(parse_operation("%e = math.exp2 %x : tensor<64x32xf32>"))
    FloatOperations(products=0, rest=2048)
    """
    if op.name in PRODUCTS:
        first, result = tile_shape(op.types[0]), tile_shape(op.types[-1])
        packed = 2 if op.name == "tt.dot_scaled" and "e2m1" in op.text.split("lhs =")[-1][:8] else 1
        return FloatOperations(2 * math.prod(result) * first[-1] * packed)
    if op.name in ("tt.reduce", "tt.scan"):
        if not element_type(op.types[0]).startswith(("f", "bf")):
            return FloatOperations()
        inner = sum((operation_work(x) for x in op.regions[0].entry.operations), FloatOperations())
        shape = tile_shape(op.types[0])
        axis = int(op.attributes["axis"].split(":")[0])
        return inner * (math.prod(shape) // shape[axis] * (shape[axis] - 1))
    elements = math.prod(tile_shape(op.types[-1])) if op.types else 1
    if op.name == "math.fma":
        return FloatOperations(0, 2 * elements)
    if op.name in _ONE or (op.name.startswith("math.") and op.name != "math.absi"):
        return FloatOperations(0, elements)
    return FloatOperations()
