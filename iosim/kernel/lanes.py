"""What PTX instructions compute of integers, and of floating-point numbers that steer a kernel.

A meaning takes an instruction, its operands, each a list of values, and the bits of its results; it
gives the results, or None where it doesn't know.  Integers are signed, in as many bits as their
register has.  Sums stay sums where they can: `iosim.kernel.values`.

`iosim.kernel.threads` calls it.  An instruction is an entry of `MEANINGS`;
``tests/kernel/test_counters.py`` compares the sectors.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from iosim.kernel.ptx import PtxInstruction
from iosim.kernel.values import Array, SeparableTile, check_size, choose


@dataclass(frozen=True)
class UnknownValue:
    """A value that isn't known.

    Attributes:
        why: what it depends on.
    """

    why: str


Tiles = list[SeparableTile]
Meaning = Callable[[PtxInstruction, list[Tiles], list[int]], "Tiles | None"]


def bits_of(name: str) -> int:
    """Bits of the type that an instruction's name ends with.

    >>> bits_of("ld.global.v4.b32"), bits_of("setp.lt.s64"), bits_of("add.f16x2")
    (32, 64, 32)
    """
    last = name.split(".")[-1]
    if last == "pred":
        return 1
    match = re.fullmatch(r"[a-z]+(\d+)(x2)?", last)
    return int(match[1]) * (2 if match[2] else 1) if match else 32


def _type(one: PtxInstruction) -> str:
    return one.name.split(".")[-1]


def _dense(value: SeparableTile) -> Array:
    x = value.dense()
    return x.astype(np.int64) if x.dtype == bool else x


def _unsigned(x: Array, bits: int) -> Array:
    return x & ((1 << bits) - 1) if bits < 64 else x.astype(np.uint64)


def _number(x: Array, type_: str) -> Array:
    """The bits of a register as a number of a type."""
    bits = bits_of(type_)
    if type_[0] == "f" and "x2" not in type_:
        narrow = x.astype({16: np.int16, 32: np.int32, 64: np.int64}[bits])
        return narrow.view({16: np.float16, 32: np.float32, 64: np.float64}[bits])
    if type_[0] == "u":
        return _unsigned(x, bits)
    if x.size == 1 and bits < 64:  # a constant may be written without its sign
        half = 1 << (bits - 1)
        return ((x + half) & (2 * half - 1)) - half
    return x


def _bits(x: Array) -> Array:
    """A number as the bits of a register."""
    if x.dtype.kind == "f":
        return x.view({2: np.int16, 4: np.int32, 8: np.int64}[x.itemsize]).astype(np.int64)
    return x if x.dtype == bool else x.astype(np.int64)


def _elementwise(function: Callable[..., Array]) -> Meaning:
    """An operation of each lane by itself, of numbers of the type that the name ends with."""

    def apply(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
        type_ = _type(one)
        if "x2" in type_ or type_ == "bf16":
            return None
        if type_ == "pred":
            arrays = [x.dense().astype(bool) for (x,) in given]
        else:
            arrays = [_number(_dense(x), type_) for (x,) in given]
        check_size(*arrays)
        with np.errstate(all="ignore"):
            out = np.asarray(function(*arrays))
        return [SeparableTile((_bits(np.maximum(out, 0) if ".relu." in one.name else out),))]

    return apply


def occupied(value: SeparableTile) -> int | None:
    """Bits that a sum has in any lane, if its arrays share none; None if they do."""
    total = 0
    for x in value.arrays:
        if x.dtype == bool or (x < 0).any():
            return None
        mine = int(np.bitwise_or.reduce(x, axis=None))
        if mine & total:
            return None
        total |= mine
    return total


def _or(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    """``or`` and ``xor``: the sum, where the operands share no bits."""
    (a,), (b,) = given
    if _type(one) != "pred":
        first, second = occupied(a), occupied(b)
        if first is not None and second is not None and not first & second:
            return [a.join(b)]
    function = operator.or_ if one.name.startswith("or") else operator.xor
    return _elementwise(function)(one, given, widths)


def _and(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    """``and``: of masks as a product; with a number part by part, where parts share no bits."""
    (a,), (b,) = given
    if _type(one) == "pred":
        return [a.join(b)] if a.is_mask and b.is_mask else None
    if b.arrays[0].size == 1 and len(b.arrays) == 1 and occupied(a) is not None:
        return [a.map(lambda x: x & b.arrays[0].item())]
    return _elementwise(operator.and_)(one, given, widths)


def _shift_right(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    (a,), (b,) = given
    if b.arrays[0].size == 1 and len(b.arrays) == 1 and occupied(a) is not None:
        return [a.map(lambda x: x >> b.arrays[0].item())]
    unsigned = _type(one)[0] in "ub"
    x = _dense(a)
    x = _unsigned(x, bits_of(one.name)) if unsigned else x
    by = np.minimum(_dense(b), 63)
    check_size(x, by)
    return [SeparableTile(((x >> by.astype(x.dtype)).astype(np.int64),))]


def _shift_left(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    (a,), (b,) = given
    if b.arrays[0].size == 1 and len(b.arrays) == 1:
        return [a.map(lambda x: x << b.arrays[0].item())]
    x, by = _dense(a), _dense(b)
    check_size(x, by)
    return [SeparableTile((np.where(by < bits_of(one.name), x << np.clip(by, 0, 63), 0),))]


def _extract(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    """``bfe``."""
    (a,), (first,), (n,) = given
    if first.dense().size > 1 or n.dense().size > 1:
        return None
    at, length = (int(x.dense().item()) for x in (first, n))
    mask = (1 << length) - 1
    if occupied(a) is not None and _type(one)[0] == "u":
        return [a.map(lambda x: (x >> at) & mask)]
    x = (_dense(a) >> at) & mask
    if _type(one)[0] == "s" and length:
        half = 1 << (length - 1)
        x = ((x + half) & mask) - half
    return [SeparableTile((x,))]


def _integer(one: PtxInstruction, x: SeparableTile) -> SeparableTile:
    """An operand, unsigned where the type is."""
    type_ = _type(one)
    if type_[0] == "u" and bits_of(one.name) < 64 and any((a < 0).any() for a in x.arrays):
        return SeparableTile((_unsigned(_dense(x), bits_of(one.name)),))
    return x


def _add(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    if _type(one)[0] in "fb":
        return _elementwise(operator.add)(one, given, widths)
    (a,), (b,) = given
    return [a.join(b)]


def _subtract(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    if _type(one)[0] in "fb":
        return _elementwise(operator.sub)(one, given, widths)
    (a,), (b,) = given
    return [a.join(b.map(operator.neg))]


def _multiply(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    """``mul`` and ``mad``, ``lo``, ``hi`` and ``wide``."""
    parts = one.name.split(".")
    if parts[-1][0] in "fb":
        product = _elementwise(operator.mul)(one, given[:2], widths)
        if product is None or len(given) == 2:
            return product
        return _elementwise(operator.add)(one, [product, given[2]], widths)
    a, b = (_integer(one, x) for (x,) in given[:2])
    if "hi" in parts:
        if bits_of(one.name) > 32:
            return None
        x, y = _dense(a), _dense(b)
        check_size(x, y)
        if parts[-1][0] == "u":
            high = (x.astype(np.uint64) * y.astype(np.uint64)) >> np.uint64(32)
            out = SeparableTile((high.astype(np.int64),))
        else:
            out = SeparableTile(((x * y) >> 32,))
    else:
        out = a.times(b)
    return [out.join(given[2][0]) if len(given) > 2 else out]


def _divide(remainder: bool) -> Meaning:
    def calculate(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return np.asarray(a / b)
        safe = np.where(b == 0, 1, b)
        quotient = np.abs(a) // np.abs(safe)
        quotient = np.where((a < 0) != (safe < 0), -quotient, quotient)
        return np.asarray(a - quotient * safe if remainder else quotient)

    return _elementwise(calculate)


_COMPARE: dict[str, Callable[..., Array]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}
_JOIN = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def _compare(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    """``setp``."""
    parts = one.name.split(".")
    type_ = parts[-1]
    name = parts[1]
    if type_ == "bf16" or "x2" in type_:
        return None
    arrays = [_number(_dense(x), type_) for (x,) in given[:2]]
    check_size(*arrays)
    if name in ("nan", "num"):
        bad = np.isnan(arrays[0]) | np.isnan(arrays[1])
        out = bad if name == "nan" else ~bad
    else:
        base = name[:2] if name not in _COMPARE else name
        if base not in _COMPARE:
            return None
        out = _COMPARE[base](*arrays)
        if type_[0] == "f" and name.endswith("u") and len(name) == 3:
            out = out | np.isnan(arrays[0]) | np.isnan(arrays[1])
    if parts[2] in _JOIN:
        out = _JOIN[parts[2]](out, given[2][0].dense())
    return [SeparableTile((np.asarray(out),)), SeparableTile((~np.asarray(out),))]


def _select(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    (a,), (b,), (p,) = given
    return [choose(p, a, b)]


def _move(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    """``mov``: also of parts of a register, and of registers into one."""
    (values,) = given
    if len(values) == 1 and len(widths) == 1:
        return values
    if len(widths) > 1:
        (whole,) = values
        x = _dense(whole)
        return [SeparableTile((x >> (i * w),)) for i, w in enumerate(widths)]
    bits = widths[0] // len(values)
    total = SeparableTile((_unsigned(_dense(values[0]), bits),))
    for i, value in enumerate(values[1:], 1):
        total = total.join(SeparableTile((_unsigned(_dense(value), bits) << (i * bits),)))
    return [total]


def _convert(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    """``cvt``."""
    *how, to, before = one.name.split(".")[1:]
    ((value, *more),) = given if len(given) == 1 else (given[0],)
    if more or "x2" in to or "x2" in before or to[0] not in "usf" or before[0] not in "usf":
        return None
    if "bf16" in (to, before):
        return None
    if to[0] != "f" and before[0] != "f":
        bits, after = bits_of(before), bits_of(to)
        if before[0] == "u" and after > bits and any((x < 0).any() for x in value.arrays):
            return [SeparableTile((_unsigned(_dense(value), bits),))]
        if bits < 32 and before[0] == "s":
            half = 1 << (bits - 1)
            return [SeparableTile((((_dense(value) + half) & (2 * half - 1)) - half,))]
        if after < 32:
            x = _unsigned(_dense(value), after)
            return [SeparableTile((x,))]
        return [value]
    x = _number(_dense(value), before)
    with np.errstate(all="ignore"):
        if to[0] == "f":
            kinds = {16: np.float16, 32: np.float32, 64: np.float64}
            if any(h.startswith("r") and h.endswith("i") for h in how):
                x = _round(how)(x)
            return [SeparableTile((_bits(x.astype(kinds[bits_of(to)])),))]
        return [SeparableTile((np.nan_to_num(_round(how)(x)).astype(np.int64),))]


def _round(how: list[str]) -> Callable[[Array], Array]:
    names = {"rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil, "rni": np.rint}
    found: Callable[[Array], Array] = next((names[x] for x in how if x in names), np.trunc)
    return found


def _permute(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    """``prmt`` with a constant selector."""
    (a,), (b,), (selector,) = given
    if selector.dense().size > 1:
        return None
    chosen = int(selector.dense().item())
    x, y = (_unsigned(_dense(v), 32) for v in (a, b))
    check_size(x, y)
    whole = x.astype(np.uint64) | (y.astype(np.uint64) << np.uint64(32))
    total = np.zeros(whole.shape, np.int64)
    for i in range(4):
        which = chosen >> (4 * i) & 15
        byte = (whole >> np.uint64(8 * (which & 7))).astype(np.int64) & 255
        if which & 8:
            byte = np.where(byte & 128, 255, 0)
        total |= byte << (8 * i)
    return [SeparableTile((total,))]


def _shuffle(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    """``shfl.sync`` over a whole warp."""
    (a,), (b,) = given[:2]
    x, by = np.broadcast_arrays(_dense(a), _dense(b))
    x, by = (np.broadcast_to(v, (*v.shape[:-1], 32)) for v in (x, by))
    check_size(x)
    lane = np.arange(32)
    how = one.name.split(".")[2]
    sources = {"bfly": lane ^ by, "idx": by & 31, "up": lane - by, "down": lane + by}
    source = np.broadcast_to(sources[how], x.shape)
    inside = (source >= 0) & (source < 32)
    out = np.take_along_axis(x, np.where(inside, source, lane), -1)
    return [SeparableTile((out,)), SeparableTile((inside,))]


def _reduce_warp(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    """``redux.sync``."""
    folds: dict[str, Callable[..., Array]] = {
        "add": np.sum,
        "min": np.min,
        "max": np.max,
        "and": np.bitwise_and.reduce,
        "or": np.bitwise_or.reduce,
        "xor": np.bitwise_xor.reduce,
    }
    x = _number(_dense(given[0][0]), _type(one))
    x = np.broadcast_to(x, (*x.shape[:-1], 32))
    out = folds[one.name.split(".")[2]](x, axis=-1, keepdims=True)
    return [SeparableTile((out.astype(np.int64),))]


def _negate(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    if _type(one)[0] == "f":
        return _elementwise(operator.neg)(one, given, widths)
    return [given[0][0].map(operator.neg)]


def _pass(one: PtxInstruction, given: list[Tiles], widths: list[int]) -> Tiles | None:
    """``cvta``: pointers are the same everywhere."""
    return given[0]


def _exponential(x: Array) -> Array:
    return np.asarray(np.exp2(x))


MEANINGS: dict[str, Meaning] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "mad": _multiply,
    "fma": _multiply,
    "div": _divide(remainder=False),
    "rem": _divide(remainder=True),
    "min": _elementwise(np.minimum),
    "max": _elementwise(np.maximum),
    "abs": _elementwise(np.abs),
    "neg": _negate,
    "or": _or,
    "xor": _or,
    "and": _and,
    "not": _elementwise(np.invert),
    "shl": _shift_left,
    "shr": _shift_right,
    "bfe": _extract,
    "setp": _compare,
    "selp": _select,
    "mov": _move,
    "cvt": _convert,
    "cvta": _pass,
    "prmt": _permute,
    "shfl": _shuffle,
    "redux": _reduce_warp,
    "ex2": _elementwise(_exponential),
    "lg2": _elementwise(np.log2),
    "sqrt": _elementwise(np.sqrt),
    "rsqrt": _elementwise(lambda x: 1 / np.sqrt(x)),
    "rcp": _elementwise(lambda x: 1 / x),
}
