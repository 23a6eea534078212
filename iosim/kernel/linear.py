"""Values of a kernel as formulas: linear in its sizes and in where loops are, lane by lane.

An integer of a kernel is mostly ``a·N + b·start + … + lane``.  Where it isn't, it is `Unknown`,
with the reason; nothing breaks until a mask or a bound needs it.

`iosim.kernel.closing`, `meanings`, `grid` and `order` compute with it.
``tests/kernel/test_kernel_formulas.py`` compares expressions with arrays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from iosim.base.errors import InputError
from iosim.base.validate import LARGEST_SIZE
from iosim.core.program.index import Affine, Edge, Name

Pick = Literal["", "min", "max"]
# How names begin of what a loop carries, of which nothing is known.
CARRIED = "carried "


@dataclass(frozen=True)
class LinearSum:
    """``over / by``: a sum of names with whole coefficients, divided by a number.

    >>> half = LinearSum.of("N").divide(2)
    >>> print(half + half), half.affine() is None
    N
    (None, True)
    """

    over: Affine
    by: int = 1

    @staticmethod
    def of(value: int | Name | Affine) -> LinearSum:
        """A number, a name or a sum of them."""
        return LinearSum(Affine.of(value))

    def __add__(self, other: LinearSum) -> LinearSum:
        by = math.lcm(self.by, other.by)
        return _reduce(self.over * (by // self.by) + other.over * (by // other.by), by)

    def __neg__(self) -> LinearSum:
        return LinearSum(-self.over, self.by)

    def __sub__(self, other: LinearSum) -> LinearSum:
        return self + -other

    def times(self, factor: int) -> LinearSum:
        """A multiple."""
        return _reduce(self.over * factor, self.by)

    def divide(self, divisor: int) -> LinearSum:
        """A fraction, exactly."""
        return _reduce(self.over, self.by * divisor)

    def substitute(self, name: Name, value: LinearSum) -> LinearSum:
        """With a value in the place of a name."""
        terms = dict(self.over.terms)
        if name not in terms:
            return self
        factor = terms.pop(name)
        rest = LinearSum(Affine(self.over.const, tuple(terms.items())), self.by)
        return rest + value.times(factor).divide(self.by)

    @property
    def number(self) -> int | None:
        """Its value, where it names nothing."""
        return self.over.const if not self.over.terms and self.by == 1 else None

    @property
    def names(self) -> list[Name]:
        """What it depends on."""
        return [name for name, _ in self.over.terms]

    @property
    def never_negative(self) -> bool:
        """Whether it is at least 0 for all sizes and tiles, by its signs."""
        return self.over.const >= 0 and all(
            c >= 0 and not str(name).startswith(CARRIED) for name, c in self.over.terms
        )

    def affine(self) -> Affine | None:
        """The sum itself, where nothing is divided."""
        return self.over if self.by == 1 else None

    def __str__(self) -> str:
        return str(self.over) if self.by == 1 else f"({self.over})/{self.by}"


def _reduce(over: Affine, by: int) -> LinearSum:
    common = math.gcd(by, over.const, *(c for _, c in over.terms))
    return LinearSum(
        Affine(over.const // common, tuple((n, c // common) for n, c in over.terms)), by // common
    )


@dataclass(frozen=True)
class Unknown:
    """A value that is no such formula.

    Attributes:
        why: the operation that made it so.
    """

    why: str


@dataclass(frozen=True)
class Quotient(Unknown):
    """A sum that depends on a loop, divided and rounded down: the end of a loop over tiles.

    Attributes:
        of: sums, of which it takes the least; where that is negative, the loop is empty.
        by: the divisor.
    """

    of: tuple[LinearSum, ...]
    by: int

    @property
    def never_negative(self) -> bool:
        """Whether none of the sums is; Triton rounds a negative quotient up."""
        return all(x.never_negative for x in self.of)


@dataclass(frozen=True)
class ScaledId(Unknown):
    """The number of a program whose tiles are known by where they begin: that over their length.

    Attributes:
        start: where its tile begins.
        by: the length of each tile, a size.
    """

    start: LinearSum
    by: LinearSum


@dataclass(frozen=True)
class LinearTile:
    """A tile of integers: one of several sums, and each lane's coefficient.

    Attributes:
        bases: of which `pick` takes the least or the largest; most often there is one.
        lanes: (axis of the tile, coefficient) of those that it grows along.
    """

    bases: tuple[LinearSum, ...]
    pick: Pick = ""
    lanes: tuple[tuple[int, int], ...] = ()

    @property
    def base(self) -> LinearSum | None:
        """The sum, where there is one."""
        return self.bases[0] if len(self.bases) == 1 else None

    @property
    def number(self) -> int | None:
        """Its value, where it is the same number everywhere."""
        return None if self.lanes or self.base is None else self.base.number

    def move_lanes(self, where: Callable[[int], int]) -> LinearTile:
        """The same tile with other axes."""
        return replace(self, lanes=tuple((where(axis), c) for axis, c in self.lanes))


@dataclass(frozen=True)
class MixedId:
    """A number that counts through several loops, the last one fastest: ``z·H + h``.

    Attributes:
        digits: of each loop, its number and its length.
    """

    digits: tuple[tuple[LinearSum, LinearSum], ...]


@dataclass(frozen=True)
class SizeProduct:
    """A product of sums, such as the programs of a grid."""

    factors: tuple[LinearSum, ...]


@dataclass(frozen=True)
class Condition:
    """``value ≥ 0``, lane by lane."""

    value: LinearSum
    lanes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Conditions:
    """A mask: where all conditions hold; `never`: nowhere."""

    every: tuple[Condition, ...] = ()
    never: bool = False

    def join(self, other: Conditions) -> Conditions:
        """Where both hold."""
        return Conditions(
            tuple(dict.fromkeys((*self.every, *other.every))), self.never or other.never
        )


Integer: TypeAlias = LinearTile | MixedId | SizeProduct | Unknown


def _multiply_sizes(sizes: Sequence[Any]) -> Any:
    """A product that int64 has."""
    if np.any(math.prod(np.asarray(x, np.float64) for x in sizes) > LARGEST_SIZE):
        raise InputError("sizes whose product exceeds 2**40")
    return math.prod(sizes)


# What each kind of size is, of its operands and a divisor.
INTEGER_RULES: dict[str, Callable[..., Any]] = {
    "ceil": lambda x, by: -(-x[0] // by),
    "floor": lambda x, by: x[0] // by,
    "mod": lambda x, by: x[0] % by,
    "product": lambda x, by: _multiply_sizes(x),
    "min": lambda x, by: functools.reduce(np.minimum, x),
}


@dataclass
class NamedSizes:
    """Sizes that follow from others, each with a name of its own, such as ⌈N/128⌉.

    Attributes:
        made: name → what it is, of what, and the divisor.

    >>> sizes = NamedSizes()
    >>> print(sizes.divide("ceil", LinearSum.of("N"), 128))
    ⌈N/128⌉
    >>> sizes.values({"N": 300})
    {'N': 300, '⌈N/128⌉': 3}
    """

    made: dict[str, tuple[str, tuple[LinearSum, ...], int]] = field(default_factory=dict)

    def divide(self, kind: Literal["ceil", "floor", "mod"], size: LinearSum, by: int) -> LinearSum:
        """A quotient that is rounded, or a remainder."""
        text = str(size) if " " not in str(size) else f"({size})"
        name = {"ceil": f"⌈{text}/{by}⌉", "floor": f"⌊{text}/{by}⌋", "mod": f"({text} mod {by})"}
        self.made[name[kind]] = kind, (size,), by
        return LinearSum.of(name[kind])

    def multiply(self, factors: Sequence[LinearSum]) -> LinearSum | None:
        """A product of sizes; None where a factor depends on a loop, or may be negative."""
        if any(isinstance(n, Edge) for x in factors for n in x.names) or not all(
            x.never_negative for x in factors
        ):
            return None
        name = "·".join(str(x) if " " not in str(x) else f"({x})" for x in factors)
        self.made[name] = "product", tuple(factors), 1
        return LinearSum.of(name)

    def least(self, factors: Sequence[Sequence[LinearSum]]) -> LinearSum:
        """The least of several products of sizes."""
        parts = []
        for one in factors:
            product = one[0] if len(one) == 1 else self.multiply(one)
            assert product is not None, "sizes depend on no loop"
            parts.append(product)
        name = f"min({', '.join(map(str, parts))})"
        self.made[name] = "min", tuple(parts), 1
        return LinearSum.of(name)

    def tiled(self, length: LinearSum) -> tuple[str, int] | None:
        """Of ⌈size/step⌉, the size and the step; None of anything else."""
        kind, operands, by = self.made.get(str(length), ("", (), 1))
        return (str(operands[0]), by) if kind == "ceil" and is_name(operands[0]) else None

    def values(
        self,
        columns: Mapping[str, Any],
        rules: Mapping[str, Callable[..., Any]] | None = None,
    ) -> dict[str, Any]:
        """All sizes, from those that are given: numbers or arrays.

        Args:
            rules: what each kind of size is of operands and divisor; by default in integers.
        """
        rules = rules or INTEGER_RULES
        known = dict(columns)
        for name, (kind, operands, by) in self.made.items():
            if not {n for x in operands for n in x.names} <= known.keys():
                continue
            known[name] = rules[kind]([x.over.at(known) for x in operands], by)
        return known


def is_name(x: LinearSum) -> bool:
    """Whether a sum is one size and nothing else."""
    return len(x.names) == 1 and str(x) == str(x.names[0]) and not isinstance(x.names[0], Edge)


def number(value: int) -> LinearTile:
    """A number as a value."""
    return LinearTile((LinearSum.of(value),))


def add(a: Any, b: Any) -> Integer:
    """The sum of two tiles."""
    for x, y in ((a, b), (b, a)):
        known = y.number if isinstance(y, LinearTile) else None
        if isinstance(x, ScaledId) and known is not None:
            return ScaledId(x.why, x.start + x.by.times(known), x.by)
        if isinstance(x, Quotient) and known is not None and (known <= 0 or x.never_negative):
            return Quotient(x.why, tuple(one + LinearSum.of(x.by * known) for one in x.of), x.by)
    if not (isinstance(a, LinearTile) and isinstance(b, LinearTile)):
        return _first_unknown(a, b)
    if a.pick and b.pick:
        return Unknown("a sum of several least or largest values")
    lanes = dict(a.lanes)
    for axis, c in b.lanes:
        lanes[axis] = lanes.get(axis, 0) + c
    bases = tuple(dict.fromkeys(x + y for x in a.bases for y in b.bases))
    kept = tuple(sorted((axis, c) for axis, c in lanes.items() if c))
    return LinearTile(bases, (a.pick or b.pick) if len(bases) > 1 else "", kept)


def scale(a: Any, factor: int) -> Integer:
    """A multiple of a tile."""
    if isinstance(a, SizeProduct) and factor == 1:
        return a
    if not isinstance(a, LinearTile):
        return _first_unknown(a)
    turned: Mapping[Pick, Pick] = {"": "", "min": "max", "max": "min"}
    lanes = tuple((axis, c * factor) for axis, c in a.lanes if factor)
    bases = tuple(dict.fromkeys(x.times(factor) for x in a.bases))
    pick = turned[a.pick] if factor < 0 else a.pick
    return LinearTile(bases, pick if len(bases) > 1 else "", lanes)


def multiply(a: Any, b: Any) -> Integer:
    """The product: of a number with a tile, or of sizes."""
    for x, y in ((a, b), (b, a)):
        if isinstance(x, LinearTile) and x.number is not None:
            return scale(y, x.number)
        if isinstance(x, ScaledId) and isinstance(y, LinearTile) and y.bases == (x.by,):
            return LinearTile((x.start,)) if not y.lanes else Unknown(x.why)
    factors: list[LinearSum] = []
    for x in (a, b):
        if isinstance(x, SizeProduct):
            factors += x.factors
        elif isinstance(x, LinearTile) and x.base is not None and not x.lanes:
            factors.append(x.base)
        else:
            return _first_unknown(a, b, why="a product")
    return SizeProduct(tuple(factors))


def pick(kind: Literal["min", "max"], a: Any, b: Any) -> Integer:
    """The least or the largest of two scalars."""
    for x, y in ((a, b), (b, a)):
        plain = isinstance(y, LinearTile) and not y.lanes and y.pick != "max"
        if kind == "min" and isinstance(x, Quotient) and plain:
            return Quotient(x.why, (*x.of, *(one.times(x.by) for one in y.bases)), x.by)
    if not (isinstance(a, LinearTile) and isinstance(b, LinearTile)):
        return _first_unknown(a, b)
    if a.lanes or b.lanes or {a.pick, b.pick} - {"", kind}:
        return Unknown(f"the {kind}imum of tiles")
    kept: list[LinearSum] = []
    for x in dict.fromkeys((*a.bases, *b.bases)):
        worse = [(y - x if kind == "max" else x - y).never_negative for y in kept]
        if not any(worse):
            kept = [y for y in kept if not (x - y if kind == "max" else y - x).never_negative]
            kept.append(x)
    return LinearTile(tuple(kept), kind if len(kept) > 1 else "")


def floor_divide(a: Any, divisor: int, sizes: NamedSizes) -> Integer:
    """A tile's quotient, rounded down."""
    if not isinstance(a, LinearTile) or a.lanes or divisor < 1:
        return _first_unknown(a, why="a quotient of a tile")
    bases = [_floor(x, divisor, sizes) for x in a.bases]
    known = tuple(dict.fromkeys(x for x in bases if x is not None))
    if None in bases:
        why = f"⌊({a.bases[bases.index(None)]})/{divisor}⌋"
        whole = a.pick != "max" and all(x.by == 1 for x in a.bases)
        return Quotient(why, a.bases, divisor) if whole else Unknown(why)
    return LinearTile(known, a.pick if len(known) > 1 else "")


def _floor(x: LinearSum, divisor: int, sizes: NamedSizes) -> LinearSum | None:
    """⌊x/divisor⌋ of what is never negative; None where it is no sum."""
    if x.by > 1 or not x.never_negative:
        return None
    whole = {name: c for name, c in x.over.terms if c % divisor == 0}
    rest = tuple((name, c) for name, c in x.over.terms if name not in whole)
    out = LinearSum(Affine(0, tuple((n, c // divisor) for n, c in whole.items())))
    if not rest:
        return out + LinearSum.of(x.over.const // divisor)
    if any(isinstance(name, Edge) for name, _ in rest):
        return None
    # ⌊(N + B − 1)/B⌋ is ⌈N/B⌉.
    left = x.over.const - (divisor - 1)
    if left % divisor == 0:
        return (
            out
            + sizes.divide("ceil", LinearSum(Affine(0, rest)), divisor)
            + LinearSum.of(left // divisor)
        )
    return out + sizes.divide("floor", LinearSum(Affine(x.over.const, rest)), divisor)


def remainder(a: Any, divisor: int, sizes: NamedSizes) -> Integer:
    """A scalar's remainder: a number, or that of a size."""
    if isinstance(a, LinearTile) and a.base is not None and not a.lanes and a.base.by == 1:
        rest = tuple((n, c % divisor) for n, c in a.base.over.terms if c % divisor)
        if a.base.never_negative and not rest:
            return number(a.base.over.const % divisor)
        if a.base.never_negative and not any(isinstance(n, Edge) for n, _ in rest):
            left = LinearSum(Affine(a.base.over.const % divisor, rest))
            return LinearTile((sizes.divide("mod", left, divisor),))
    return _first_unknown(a, why="a remainder")


def split_digits(a: MixedId, divisor: LinearSum) -> tuple[Integer, Integer]:
    """Quotient and remainder by the length of the last loop."""
    *high, (digit, length) = a.digits
    if length != divisor:
        unknown = Unknown(f"a number of programs divided by {divisor}")
        return unknown, unknown
    first = LinearTile((high[0][0],)) if len(high) == 1 else MixedId(tuple(high))
    return first, LinearTile((digit,))


def is_at_least(a: Any, b: Any, more: int = 0) -> Conditions | Unknown:
    """``a ≥ b + more``, lane by lane."""
    value = add(a, scale(add(b, number(more)), -1))
    if isinstance(value, (Unknown, MixedId, SizeProduct)):
        return _first_unknown(value)
    if value.pick == "max":
        return Unknown("one condition or another")
    found = Conditions()
    for base in value.bases:
        if not value.lanes and base.never_negative:
            continue
        never = not value.lanes and base.number is not None
        found = found.join(Conditions((Condition(base, value.lanes),), never))
    return found


def negate(mask: Any) -> Conditions | Unknown:
    """Where a mask of one condition doesn't hold."""
    if not isinstance(mask, Conditions):
        return _first_unknown(mask)
    if mask.never:
        return Conditions()
    if not mask.every:
        return Conditions(never=True)
    if len(mask.every) > 1:
        return Unknown("the opposite of several conditions")
    one = mask.every[0]
    value = LinearTile((-one.value,), "", tuple((axis, -c) for axis, c in one.lanes))
    return is_at_least(value, number(1))


def _first_unknown(*values: Any, why: str = "") -> Unknown:
    """The first reason among values, or a reason of its own."""
    for x in values:
        if isinstance(x, Unknown):
            return Unknown(x.why)  # a Quotient is another one after any operation
    names = {
        MixedId: "a number that counts through several loops",
        SizeProduct: "a product of sizes",
    }
    mixed = [names[type(x)] for x in values if type(x) in names]
    return Unknown(why or (mixed[0] if mixed else "a value that is no integer"))
