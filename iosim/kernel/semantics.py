"""What each operation of Triton's IR does to the values that addresses, masks and loops need.

A function for each family, a line in `OPERATIONS` for each name.  Integers are computed as sums,
floating-point numbers only where data that was given steers the kernel.  An operation that isn't
here stops the count only where its result is needed.

`iosim.kernel.evaluate` and `threads` call it; `meanings` does the same for formulas.
``tests/kernel/test_corpus.py`` compares counts with Triton's interpreter.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from iosim.kernel.ir import IrOperation, descriptor_tile, element_type, tile_shape
from iosim.kernel.values import (
    GRID,
    Array,
    Descriptor,
    Pointer,
    PointerTarget,
    SeparableTile,
    Value,
    along,
    check_size,
    choose,
    constant,
    lift,
    spread,
)

Meaning = Callable[..., Value]

_BITS = {"i1": 8, "bf16": 16}
FLOATS = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64}


def is_float(type_: str) -> bool:
    """Whether a type is of floating-point numbers.

    >>> is_float("tensor<64xf8E4M3FN>"), is_float("tensor<64x!tt.ptr<f16>>"), is_float("i64")
    (True, False, False)
    """
    return "ptr<" not in type_ and element_type(type_).startswith(("f", "bf"))


def type_width(type_: str) -> int:
    """Bytes of one element.

    >>> type_width("tensor<64x!tt.ptr<f16>>"), type_width("!tt.ptr<f8E5M2>"), type_width("i1")
    (2, 1, 1)
    """
    element = element_type(type_)
    bits = _BITS.get(element) or int((re.findall(r"\d+", element) or ["64"])[0])
    return max(1, bits // 8)


def read_constant(op: IrOperation) -> Value:
    """``arith.constant``: a number, or a tile of one number.

    >>> from iosim.kernel.ir import parse_operation
    >>> read_constant(parse_operation("%c = arith.constant dense<7> : tensor<4x4xi32>")).rank
    2
    """
    text = re.sub(r"\s*\{.*\}$", "", op.text)
    match = re.fullmatch(r"(?:dense<)?([^<>\[\]]*?)>?", text)
    if match is None:
        raise NotImplementedError("a constant tile of different numbers")
    type_ = op.types[-1] if op.types else "i1"
    rank = len(tile_shape(type_))
    number = match[1].strip()
    if number in ("true", "false"):
        return constant(number == "true", rank)
    if is_float(type_):
        return np.full((1,) * (GRID + rank), _read_float(number, element_type(type_)))
    return constant(int(number, 0), rank)


def _read_float(text: str, element: str) -> Any:
    dtype = FLOATS.get(element, np.float32)
    if text.startswith("0x"):
        bits = int(text, 16)
        if element == "bf16":
            return np.array(bits << 16, np.uint32).view(np.float32)[()]
        width = {np.float16: np.uint16, np.float32: np.uint32, np.float64: np.uint64}[dtype]
        return np.array(bits, width).view(dtype)[()]
    return dtype(float(text))


def array_of(value: Value) -> Array:
    """One array, of integers, Booleans or floating-point numbers."""
    if isinstance(value, (Pointer, Descriptor)):
        raise NotImplementedError("arithmetic with an address")
    return value.dense() if isinstance(value, SeparableTile) else value


def wrap(array: Array) -> Value:
    """An array as a value."""
    return array if array.dtype.kind == "f" else SeparableTile((array,))


def elementwise(function: Callable[..., Array]) -> Meaning:
    """An operation of each element by itself."""

    def apply(op: IrOperation, *values: Value) -> Value:
        arrays = [array_of(x) for x in values]
        check_size(*arrays)
        with np.errstate(all="ignore"):
            return wrap(np.asarray(function(*arrays)))

    return apply


def _integers(function: Callable[..., Array], unsigned: bool = False) -> Meaning:
    """An operation of integers: where a mask is unsigned it counts as 0 and 1."""

    def apply(op: IrOperation, *values: Value) -> Value:
        bits = _count_bits(op.types[0])

        def calculate(*arrays: Array) -> Array:
            out = function(*((_drop_sign(x, bits) if unsigned else _keep_sign(x)) for x in arrays))
            return np.asarray(out).astype(np.int64)

        return keep_bits(op.types[-1], elementwise(calculate)(op, *values))

    return apply


def _keep_sign(x: Array) -> Array:
    """Signed integers; in one bit, true is -1."""
    return -x.astype(np.int64) if x.dtype == bool else x


@functools.cache
def _count_bits(type_: str) -> int:
    """The bits of an integer type."""
    element = element_type(type_)
    return int(element[1:]) if element[0] == "i" and element[1:].isdigit() else 64


def _drop_sign(x: Array, bits: int) -> Array:
    """Integers as unsigned ones of so many bits."""
    return x.astype(np.uint64) & np.uint64(2**bits - 1)


def keep_bits(type_: str, value: Value) -> Value:
    """The lowest bits of a sum, as many as the type has: what overflows wraps around.

    >>> keep_bits("i32", constant(2**31)).dense().item()
    -2147483648
    """
    bits = _count_bits(type_)
    if bits == 64 or not isinstance(value, SeparableTile) or value.is_mask:
        return value
    if bits == 1:
        return SeparableTile(((value.dense() & 1).astype(bool),))
    half = 2 ** (bits - 1)
    low, high = (sum(int(f(x)) for x in value.arrays) for f in (np.min, np.max))
    if -half <= low and high < half:
        return value
    return SeparableTile((((value.dense() + half) & (2 * half - 1)) - half,))


def _widen(value: Value) -> SeparableTile:
    """A mask as a sum."""
    if isinstance(value, Pointer):
        raise NotImplementedError("arithmetic with an address")
    tile: SeparableTile = value
    return SeparableTile((tile.dense().astype(np.int64),)) if tile.is_mask else tile


def add(op: IrOperation, a: SeparableTile, b: SeparableTile) -> Value:
    """The sum."""
    return keep_bits(op.types[-1], _widen(a).join(_widen(b)))


def subtract(op: IrOperation, a: SeparableTile, b: SeparableTile) -> Value:
    """The difference."""
    return keep_bits(op.types[-1], _widen(a).join(_widen(b).map(operator.neg)))


def multiply(op: IrOperation, a: SeparableTile, b: SeparableTile) -> Value:
    """The product; of two masks their conjunction."""
    if a.is_mask and b.is_mask:
        return a.join(b)
    return keep_bits(op.types[-1], _widen(a).times(_widen(b)))


def conjoin(op: IrOperation, a: SeparableTile, b: SeparableTile) -> Value:
    """``and``: of masks without multiplying them out."""
    if a.is_mask and b.is_mask:
        return a.join(b)
    return _integers(operator.and_)(op, a, b)


def _logic(function: Callable[..., Array]) -> Meaning:
    """``or`` and ``xor``, of masks or of integers."""

    def apply(op: IrOperation, a: SeparableTile, b: SeparableTile) -> Value:
        if a.is_mask and b.is_mask:
            return elementwise(function)(op, a, b)
        return _integers(function)(op, a, b)

    return apply


def _divide(a: Array, b: Array) -> Array:
    """Integer division that rounds towards zero, as in C; by zero it is zero."""
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe)
    return np.asarray(np.where((a < 0) != (safe < 0), -quotient, quotient))


def _remainder(a: Array, b: Array) -> Array:
    return np.asarray(a - _divide(a, b) * b)


def multiply_high(op: IrOperation, a: SeparableTile, b: SeparableTile) -> Value:
    """``tt.mulhiui``: the upper half of an unsigned product."""
    bits = _count_bits(op.types[0])
    if bits > 32:
        raise NotImplementedError(f"the upper half of a product of {bits} bits")
    return _integers(lambda x, y: (x * y) >> np.uint64(bits), unsigned=True)(op, a, b)


_COMPARE: dict[str, Callable[..., Array]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
    "ult": operator.lt,
    "ule": operator.le,
    "ugt": operator.gt,
    "uge": operator.ge,
    "oeq": operator.eq,
    "one": operator.ne,
    "olt": operator.lt,
    "ole": operator.le,
    "ogt": operator.gt,
    "oge": operator.ge,
    "une": operator.ne,
    "ueq": operator.eq,
}


def compare(op: IrOperation, a: Value, b: Value) -> Value:
    """``arith.cmpi`` and ``arith.cmpf``."""
    predicate = op.text.split(",")[0].strip()
    function = _COMPARE[predicate]
    if op.name == "arith.cmpi" and predicate[0] == "u":
        bits = _count_bits(op.types[-1])
        return elementwise(lambda x, y: function(_drop_sign(x, bits), _drop_sign(y, bits)))(
            op, a, b
        )
    return elementwise(lambda x, y: function(_keep_sign(x), _keep_sign(y)))(op, a, b)


def select(op: IrOperation, condition: SeparableTile, yes: Value, no: Value) -> Value:
    """``arith.select``."""
    return choose(condition, yes, no)


def cast(op: IrOperation, value: Value) -> Value:
    """A cast that keeps the number, but for masks and floating-point numbers."""
    to = element_type(op.types[-1])
    if op.name in ("arith.extui", "arith.uitofp") and not value.is_mask:
        bits = _count_bits(op.types[0])
        if any((x < 0).any() for x in value.arrays) and bits < 64:
            value = SeparableTile((_drop_sign(value.dense(), bits).astype(np.int64),))
    if to == "i1" and isinstance(value, SeparableTile) and not value.is_mask:
        return SeparableTile(((value.dense() & 1).astype(bool),))
    if is_float(op.types[-1]):
        if op.name == "arith.sitofp":
            value = wrap(_keep_sign(array_of(value)))
        return array_of(value).astype(FLOATS.get(to, np.float32))
    if not isinstance(value, (SeparableTile, Pointer)):
        return SeparableTile((np.nan_to_num(value).astype(np.int64),))
    if isinstance(value, SeparableTile) and value.is_mask and to != "i1":
        sign = -1 if op.name == "arith.extsi" else 1
        return SeparableTile((value.dense() * np.int64(sign),))
    return keep_bits(op.types[-1], value)


def reinterpret(op: IrOperation, value: Value) -> Value:
    """``tt.bitcast``: the same bits as another type."""
    before, after = (is_float(t) for t in (op.types[0], op.types[-1]))
    if isinstance(value, Pointer) and type_width(op.types[0]) != type_width(op.types[-1]):
        raise NotImplementedError("a pointer to words of another size")
    if before == after or isinstance(value, Pointer):
        return value
    names = [element_type(t) for t in (op.types[0], op.types[-1])]
    if "bf16" in names or not {*names} & FLOATS.keys():
        raise NotImplementedError(f"the bits of {names[0]} as {names[1]}")
    bits = _count_bits(names[before])
    if before:
        return wrap(value.view(f"i{bits // 8}").astype(np.int64))
    return value.dense().astype(f"i{bits // 8}").view(FLOATS[names[1]])


def make_range(op: IrOperation) -> SeparableTile:
    """``tt.make_range``."""
    start, end = (int(op.attributes[x].split(":")[0]) for x in ("start", "end"))
    return SeparableTile((along(np.arange(start, end), 0, 1),))


def _move(function: Callable[[IrOperation, Array], Array]) -> Meaning:
    """An operation that moves elements and computes nothing."""

    def apply(op: IrOperation, value: Value) -> Value:
        if isinstance(value, SeparableTile):
            return value.map(lambda x: function(op, x))
        if isinstance(value, Pointer):
            return value.map(lambda t: t.map(lambda x: function(op, x)))
        return function(op, value)

    return apply


def _splat(op: IrOperation, x: Array) -> Array:
    return lift(x, len(tile_shape(op.types[-1])))


def _expand(op: IrOperation, x: Array) -> Array:
    return np.expand_dims(x, GRID + int(op.attributes["axis"].split(":")[0]))


def _transpose(op: IrOperation, x: Array) -> Array:
    order = [int(n) for n in re.findall(r"\d+", op.attributes["order"].split(":")[-1])]
    return x.transpose(*range(GRID), *(GRID + i for i in order))


def reshape(op: IrOperation, value: Value) -> Value:
    """``tt.reshape``: an axis of length 1 comes and goes for free; others are laid out whole."""
    before, after = tile_shape(op.types[0]), tile_shape(op.types[-1])
    keeps = [n for n in before if n > 1] == [n for n in after if n > 1]

    def move(x: Array) -> Array:
        if keeps:
            lengths = iter([n for n, m in zip(x.shape[GRID:], before, strict=True) if m > 1])
            return x.reshape(x.shape[:GRID] + tuple(1 if n == 1 else next(lengths) for n in after))
        return spread(x, before).reshape(x.shape[:GRID] + after)

    if isinstance(value, Pointer):
        return value.map(lambda t: t.map(move))
    return (
        value.map(move)
        if isinstance(value, SeparableTile) and keeps
        else wrap(move(array_of(value)))
    )


def join_last(op: IrOperation, a: Value, b: Value) -> Value:
    """``tt.join``: two tiles along a new last axis."""
    arrays = np.broadcast_arrays(array_of(a), array_of(b))
    check_size(arrays[0])
    return wrap(np.stack(arrays, -1))


def split_last(op: IrOperation, value: Value) -> tuple[Value, ...]:
    """``tt.split``: the two halves of the last axis."""
    x = array_of(value)
    x = np.broadcast_to(x, (*x.shape[:-1], 2))
    return wrap(x[..., 0]), wrap(x[..., 1])


def concatenate(op: IrOperation, a: Value, b: Value) -> Value:
    """``tt.cat`` of two one-dimensional tiles."""
    arrays = np.broadcast_arrays(*(spread(array_of(x), tile_shape(op.types[0])) for x in (a, b)))
    check_size(arrays[0])
    return wrap(np.concatenate(arrays, -1))


def gather(op: IrOperation, source: Value, index: Value) -> Value:
    """``tt.gather`` along an axis."""
    axis = GRID + int(op.attributes["axis"].split(":")[0])
    x = spread(array_of(source), tile_shape(op.types[0]))
    i = spread(array_of(index), tile_shape(op.types[1]))
    grid = np.broadcast_shapes(x.shape[:GRID], i.shape[:GRID])
    x, i = (np.broadcast_to(a, grid + a.shape[GRID:]) for a in (x, i))
    check_size(x)
    return wrap(np.take_along_axis(x, i, axis))


def add_pointer(op: IrOperation, pointer: Pointer, offset: SeparableTile) -> Pointer:
    """``tt.addptr``."""
    return pointer.map(lambda t: t.join(_widen(offset)))


def make_pointer(op: IrOperation, address: SeparableTile | Pointer) -> Pointer:
    """``tt.int_to_ptr``: a pointer that was loaded, or one that was an integer for a while."""
    if isinstance(address, Pointer):
        return address
    words = elementwise(lambda x: x // type_width(op.types[-1]))(op, address)
    return Pointer((PointerTarget("*", words),))


def make_descriptor(op: IrOperation, pointer: Pointer, *rest: SeparableTile) -> Descriptor:
    """``tt.make_tensor_descriptor`` and ``tt.make_tensor_ptr``."""
    tile = descriptor_tile(op.types[-1])
    n = len(tile)
    shape, strides, starts = rest[:n], rest[n : 2 * n], rest[2 * n :]
    return Descriptor(pointer, shape, strides, tile, starts)


def advance(op: IrOperation, block: Descriptor, *steps: SeparableTile) -> Descriptor:
    """``tt.advance``: a block pointer, further on."""
    starts = tuple(a.join(b) for a, b in zip(block.starts, steps, strict=True))
    return Descriptor(block.pointer, block.shape, block.strides, block.tile, starts)


_erf = np.vectorize(math.erf, otypes=[np.float64])

# IrOperation → what it does.  A new one is one line.
OPERATIONS: dict[str, Meaning] = {
    "arith.constant": read_constant,
    "arith.addi": add,
    "arith.subi": subtract,
    "arith.muli": multiply,
    "arith.andi": conjoin,
    "arith.ori": _logic(operator.or_),
    "arith.xori": _logic(operator.xor),
    "arith.divsi": _integers(_divide),
    "arith.floordivsi": _integers(lambda a, b: np.floor_divide(a, np.where(b == 0, 1, b))),
    "arith.ceildivsi": _integers(lambda a, b: -np.floor_divide(-a, np.where(b == 0, 1, b))),
    "arith.remsi": _integers(_remainder),
    "arith.divui": _integers(_divide, unsigned=True),
    "arith.remui": _integers(_remainder, unsigned=True),
    "arith.minsi": _integers(np.minimum),
    "arith.maxsi": _integers(np.maximum),
    "arith.minui": _integers(np.minimum, unsigned=True),
    "arith.maxui": _integers(np.maximum, unsigned=True),
    "arith.shli": _integers(np.left_shift),
    "arith.shrsi": _integers(np.right_shift),
    "arith.shrui": _integers(np.right_shift, unsigned=True),
    "math.absi": _integers(np.abs),
    "tt.mulhiui": multiply_high,
    "arith.cmpi": compare,
    "arith.cmpf": compare,
    "arith.select": select,
    "arith.extsi": cast,
    "arith.extui": cast,
    "arith.trunci": cast,
    "arith.index_cast": cast,
    "arith.sitofp": cast,
    "arith.uitofp": cast,
    "arith.fptosi": cast,
    "arith.fptoui": cast,
    "arith.extf": cast,
    "arith.truncf": cast,
    "tt.fp_to_fp": cast,
    "tt.bitcast": reinterpret,
    "arith.bitcast": reinterpret,
    "tt.ptr_to_int": lambda op, x: x,
    "tt.int_to_ptr": make_pointer,
    "arith.addf": elementwise(operator.add),
    "arith.subf": elementwise(operator.sub),
    "arith.mulf": elementwise(operator.mul),
    "arith.divf": elementwise(operator.truediv),
    "arith.negf": elementwise(operator.neg),
    "arith.maximumf": elementwise(np.maximum),
    "arith.minimumf": elementwise(np.minimum),
    "arith.maxnumf": elementwise(np.fmax),
    "arith.minnumf": elementwise(np.fmin),
    "math.exp": elementwise(np.exp),
    "math.exp2": elementwise(np.exp2),
    "math.log": elementwise(np.log),
    "math.log2": elementwise(np.log2),
    "math.sqrt": elementwise(np.sqrt),
    "math.rsqrt": elementwise(lambda x: 1 / np.sqrt(x)),
    "tt.precise_sqrt": elementwise(np.sqrt),
    "tt.precise_divf": elementwise(operator.truediv),
    "math.sin": elementwise(np.sin),
    "math.cos": elementwise(np.cos),
    "math.erf": elementwise(_erf),
    "math.absf": elementwise(np.abs),
    "math.floor": elementwise(np.floor),
    "math.ceil": elementwise(np.ceil),
    "math.fma": elementwise(lambda a, b, c: a * b + c),
    "tt.clampf": elementwise(lambda x, low, high: np.clip(x, low, high)),
    "tt.make_range": make_range,
    "tt.splat": _move(_splat),
    "tt.broadcast": lambda op, x: x,
    "ttg.convert_layout": lambda op, x: x,
    "gluon.set_auto_layout": lambda op, x: x,
    "tt.expand_dims": _move(_expand),
    "tt.trans": _move(_transpose),
    "tt.reshape": reshape,
    "tt.unsplat": lambda op, x: x.map(lambda a: a.reshape(a.shape[:GRID])),
    "tt.join": join_last,
    "tt.split": split_last,
    "tt.cat": concatenate,
    "tt.gather": gather,
    "tt.addptr": add_pointer,
    "tt.make_tensor_descriptor": make_descriptor,
    "tt.make_tensor_ptr": make_descriptor,
    "tt.advance": advance,
}
