"""What each operation of Triton's IR does to formulas: an entry of `MEANINGS` each.

`iosim.kernel.semantics` says the same of numbers.  An operation that isn't here gives a value that
is `Unknown`, which matters only where a mask or a bound needs it.

`iosim.kernel.closing` calls it.  ``tests/kernel/test_kernel_formulas.py`` and
``tests/kernel/test_random_kernels.py`` compare formulas with evaluations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from iosim.kernel import linear
from iosim.kernel.grid import AXES, GridAxis
from iosim.kernel.ir import IrOperation, descriptor_tile, tile_shape
from iosim.kernel.linear import (
    Condition,
    Conditions,
    LinearSum,
    LinearTile,
    MixedId,
    NamedSizes,
    SizeProduct,
    Unknown,
)


@dataclass
class Launched:
    """What operations may ask of the launch.

    Attributes:
        sizes: those that follow from the kernel's arguments.
        axes: of the grid.
        ids: the number of a program along each axis.
        arguments: names of integers that the launch gives.
        scales: axis → the argument that its programs' numbers are multiplied by.
    """

    sizes: NamedSizes
    axes: tuple[GridAxis, ...]
    ids: list[Any]
    arguments: frozenset[str] = frozenset()
    scales: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorPointer:
    """A pointer to somewhere in a tensor."""

    argument: str


@dataclass(frozen=True)
class TensorBlock:
    """A descriptor: a tensor, its shape, and a tile's shape."""

    argument: str
    shape: tuple[Any, ...]
    tile: tuple[int, ...]


def describe_value(value: Any) -> str:
    """A value as messages name it."""
    if isinstance(value, Unknown):
        return value.why
    if isinstance(value, LinearTile):
        return (
            f"{value.pick}({', '.join(map(str, value.bases))})"
            if value.pick
            else str(value.bases[0])
        )
    names = {SizeProduct: "a product of sizes", MixedId: "a number that counts several loops"}
    return names.get(type(value), "a value that isn't given")


def _compare(launched: Launched, op: IrOperation, a: Any, b: Any) -> Conditions | Unknown:
    predicate = op.text.split(",")[0].strip()
    ordered = {"slt": (b, a, 1), "sle": (b, a, 0), "sgt": (a, b, 1), "sge": (a, b, 0)}
    ordered |= {f"u{name[1:]}": value for name, value in ordered.items()}
    if predicate in ordered:
        return linear.is_at_least(*ordered[predicate])
    if predicate == "eq":
        return _conjoin(launched, op, linear.is_at_least(a, b), linear.is_at_least(b, a))
    different = linear.add(a, linear.scale(b, -1))
    known = different.number if isinstance(different, LinearTile) else None
    return Unknown("a comparison") if known is None else Conditions(never=known == 0)


def _conjoin(_: Launched, __: IrOperation, a: Any, b: Any) -> Conditions | Unknown:
    for x in (a, b):
        if isinstance(x, Conditions) and x.never:
            return x
    for x in (a, b):
        if isinstance(x, Unknown):
            return x
    if isinstance(a, Conditions) and isinstance(b, Conditions):
        return a.join(b)
    return Unknown("and of integers")


def _multiply(launched: Launched, op: IrOperation, a: Any, b: Any) -> Any:
    """The product; of two masks, where both hold."""
    if isinstance(a, Conditions) and isinstance(b, Conditions):
        return _conjoin(launched, op, a, b)
    for x, y in ((a, b), (b, a)):
        if isinstance(y, LinearTile) and str(y.base) in launched.arguments:
            _note_scale(launched, x, str(y.base))
    return linear.multiply(a, b)


def _note_scale(launched: Launched, x: Any, size: str) -> None:
    """Note an axis whose programs' numbers, or those and a number, are multiplied by a size."""
    for axis, one in enumerate(launched.ids):
        if isinstance(one, LinearTile) and one.number is None:
            away = linear.add(x, linear.scale(one, -1))
            if isinstance(away, LinearTile) and away.number is not None:
                launched.scales.setdefault(axis, size)


def _divide(launched: Launched, op: IrOperation, a: Any, b: Any, which: int) -> Any:
    divisor = b.number if isinstance(b, LinearTile) else None
    if isinstance(a, MixedId) and isinstance(b, LinearTile) and b.base is not None:
        return linear.split_digits(a, b.base)[which]
    if divisor is None or divisor < 1:
        return Unknown(f"{op.name} by {describe_value(b)}")
    if which:
        return linear.remainder(a, divisor, launched.sizes)
    return linear.floor_divide(a, divisor, launched.sizes)


def _read_constant(_: Launched, op: IrOperation) -> Any:
    match = re.fullmatch(r"(?:dense<)?(-?\d+|true|false)>?", op.text.split(" {")[0].strip())
    if match is None:
        return Unknown("a constant that is no integer")
    if match[1] in ("true", "false"):
        return Conditions(never=match[1] == "false")
    return linear.number(int(match[1]))


def _select(_: Launched, __: IrOperation, condition: Any, yes: Any, no: Any) -> Any:
    if yes == no:
        return yes
    if isinstance(condition, Conditions) and (condition.never or not condition.every):
        return no if condition.never else yes
    return Unknown("a value that a condition chooses")


def _cast(_: Launched, __: IrOperation, x: Any) -> Any:
    return x if isinstance(x, (LinearTile, MixedId, SizeProduct, Unknown)) else Unknown("a cast")


def _range(_: Launched, op: IrOperation) -> Any:
    start = int(op.attributes["start"].split(":")[0])
    return LinearTile((LinearSum.of(start),), "", ((0, 1),))


def _relabel(where: Callable[[IrOperation, int], int]) -> Callable[..., Any]:
    """An operation that moves axes of a tile."""

    def apply(_: Launched, op: IrOperation, x: Any) -> Any:
        if isinstance(x, LinearTile):
            return x.move_lanes(lambda axis: where(op, axis))
        if isinstance(x, Conditions):
            every = tuple(
                Condition(c.value, tuple((where(op, axis), n) for axis, n in c.lanes))
                for c in x.every
            )
            return Conditions(every, x.never)
        return x

    return apply


def _expand(op: IrOperation, axis: int) -> int:
    return axis + (axis >= int(op.attributes["axis"].split(":")[0]))


def _transpose(op: IrOperation, axis: int) -> int:
    order = [int(n) for n in re.findall(r"\d+", op.attributes["order"].split(":")[-1])]
    return order.index(axis)


def _reshape(launched: Launched, op: IrOperation, x: Any) -> Any:
    before, after = tile_shape(op.types[0]), tile_shape(op.types[-1])
    long = [[i for i, n in enumerate(shape) if n > 1] for shape in (before, after)]
    if [before[i] for i in long[0]] != [after[i] for i in long[1]]:
        lanes = getattr(x, "lanes", ()) or getattr(x, "every", ())
        return Unknown("a tile that is laid out again") if lanes else x
    places = dict(zip(*long, strict=True))
    return _relabel(lambda _, axis: places.get(axis, axis))(launched, op, x)


def _describe_tensor(_: Launched, op: IrOperation, pointer: Any, *rest: Any) -> Any:
    tile = descriptor_tile(op.types[-1])
    known = isinstance(pointer, TensorPointer)
    return (
        TensorBlock(pointer.argument, rest[: len(tile)], tile) if known else Unknown("a descriptor")
    )


def _program_id(launched: Launched, op: IrOperation) -> Any:
    return launched.ids[AXES.index(op.text.split()[0])]


def _program_count(launched: Launched, op: IrOperation) -> Any:
    return launched.axes[AXES.index(op.text.split()[0])].length


def _pass_on(_: Launched, __: IrOperation, x: Any, *___: Any) -> Any:
    return x


# Operation → what it does to formulas.  A new one is one line.
MEANINGS: dict[str, Callable[..., Any]] = {
    "arith.constant": _read_constant,
    "arith.addi": lambda _, __, a, b: linear.add(a, b),
    "arith.subi": lambda _, __, a, b: linear.add(a, linear.scale(b, -1)),
    "arith.muli": _multiply,
    "arith.divsi": lambda c, op, a, b: _divide(c, op, a, b, 0),
    "arith.divui": lambda c, op, a, b: _divide(c, op, a, b, 0),
    "arith.remsi": lambda c, op, a, b: _divide(c, op, a, b, 1),
    "arith.remui": lambda c, op, a, b: _divide(c, op, a, b, 1),
    "arith.minsi": lambda _, __, a, b: linear.pick("min", a, b),
    "arith.maxsi": lambda _, __, a, b: linear.pick("max", a, b),
    "arith.cmpi": _compare,
    "arith.andi": _conjoin,
    "arith.select": _select,
    "arith.extsi": _cast,
    "arith.extui": _cast,
    "arith.trunci": _cast,
    "arith.index_cast": _cast,
    "tt.make_range": _range,
    "tt.splat": _pass_on,
    "tt.broadcast": _pass_on,
    "ttg.convert_layout": _pass_on,
    "gluon.set_auto_layout": _pass_on,
    "tt.addptr": _pass_on,
    "tt.expand_dims": _relabel(_expand),
    "tt.trans": _relabel(_transpose),
    "tt.reshape": _reshape,
    "tt.make_tensor_descriptor": _describe_tensor,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _program_count,
}
