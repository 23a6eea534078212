"""What a distributed schedule is: what each of P devices holds, computes, and sends to which.

All devices run the same program.  A `Dealt` dimension says which part of an axis a device has, by
its own number p, so that one text serves every device and every P.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Dealt:
    """Part (p + shift + turn·t) mod P of an axis, on device p in round t.

    >>> print(Dealt("N"), Dealt("N", -1, -1), Dealt("N", 0, 2))
    N[p] N[p - 1 - t] N[p + 2t]
    """

    axis: str
    shift: int = 0
    turn: int = 0

    def __str__(self) -> str:
        return f"{self.axis}[{_place(self.shift, self.turn)}]"


def _place(shift: int, turn: int) -> str:
    """``p + shift + turn·t``, as text."""
    text = "p"
    for n, sign in ((shift, ""), (turn, "t")):
        if n:
            size = f"{abs(n) if abs(n) > 1 or not sign else ''}{sign}"
            text += f" {'+' if n > 0 else '-'} {size}"
    return text


# A whole axis, or a part of one.
Dim: TypeAlias = str | Dealt


@dataclass(frozen=True)
class Slab:
    """A resident tensor, or the part of it that its dimensions say.

    >>> print(Slab("K", ("kv_heads", Dealt("N"), "d")))
    K[kv_heads, N[p], d]
    """

    name: str
    dims: tuple[Dim, ...]

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.dims))}]"

    def part(self, axis: str, shift: int = 0, turn: int = 0) -> Slab:
        """The same with only a part of one axis that is whole here.

        >>> print(Slab("X", ("n",)).part("n", 1))
        X[n[p + 1]]
        """
        dealt = Dealt(axis, shift, turn)
        return Slab(self.name, tuple(dealt if dim == axis else dim for dim in self.dims))


@dataclass(frozen=True)
class Around:
    """A ring's way: from device p to device (p + shift + turn·t) mod P.

    >>> print(Around(1), Around(1, 1))
    p + 1 p + 1 + t
    """

    shift: int
    turn: int = 0

    def __str__(self) -> str:
        return _place(self.shift, self.turn)


@dataclass(frozen=True)
class Branch:
    """A binomial tree's way, at level k: between device p and device p ± 2ᵏ.

    Attributes:
        up: towards device 0, from those whose lowest set bit is k; otherwise away from it.

    >>> print(Branch(up=True), Branch(up=False))
    p - 2^k p + 2^k
    """

    up: bool

    def __str__(self) -> str:
        return "p - 2^k" if self.up else "p + 2^k"


Way: TypeAlias = Around | Branch


@dataclass(frozen=True)
class Send:
    """Every device sends `source` along `to`; what arrives fills `into`, or is added to it.

    What is sent is what the source held before the step.

    Attributes:
        passed: the source is all that the device holds of its tensor, and what arrives takes its
            place.
    """

    source: Slab
    to: Way
    into: Slab
    add: bool = False
    passed: bool = False


@dataclass(frozen=True)
class Compute:
    """An operation on what the device holds: `name` is a key of `iosim.devices.ops.OPS`."""

    name: str
    slabs: tuple[Slab, ...]


@dataclass(frozen=True)
class Make:
    """A new tensor on every device, filled with a number."""

    slab: Slab
    fill: float


@dataclass(frozen=True)
class Drop:
    """A tensor leaves the devices' memories."""

    slab: Slab


@dataclass(frozen=True)
class Rounds:
    """The body for t = 0 … P − 1 − less."""

    less: int
    body: tuple[Node, ...]


@dataclass(frozen=True)
class Levels:
    """The body for each level k of a binomial tree over P devices: rising if `up`."""

    up: bool
    body: tuple[Node, ...]


@dataclass(frozen=True)
class Together:
    """Sends and computations that don't wait for each other: one step."""

    body: tuple[Node, ...]


Node: TypeAlias = Send | Compute | Make | Drop | Rounds | Levels | Together


@dataclass(frozen=True)
class DeviceProgram:
    """A distributed schedule as a value.

    Attributes:
        name: of the schedule.
        inputs: what each device holds at first, by the problem's tensors.
        body: what it does.
        outputs: what it holds at last: name of the problem's tensor → slab.
    """

    name: str
    inputs: tuple[Slab, ...]
    body: tuple[Node, ...]
    outputs: tuple[tuple[str, Slab], ...]


def show(program: DeviceProgram) -> str:
    """The program as text, a line for each node.

    >>> from iosim.devices import schedule
    >>> print(show(schedule("all-gather").program))
    all-gather on device p of P, t = 0 … the last round
      holds    X[n[p]]
      make     Y[n] = 0
      copy     Y[n[p]], X[n[p]]
      P - 1 rounds t:
        send     Y[n[p - t]] → p + 1, where it is Y[n[p - 1 - t]]
      ends     Y[n]
    """
    lines = [f"{program.name} on device p of P, t = 0 … the last round"]
    lines += [f"  holds    {slab}" for slab in program.inputs]
    lines += _lines(program.body, "  ")
    lines += [f"  ends     {Slab(name, slab.dims)}" for name, slab in program.outputs]
    return "\n".join(lines)


def _lines(body: tuple[Node, ...], indent: str) -> list[str]:
    found = []
    for node in body:
        match node:
            case Send():
                what = "added to" if node.add else "where it is"
                found.append(f"{indent}send     {node.source} → {node.to}, {what} {node.into}")
            case Compute():
                found.append(f"{indent}{node.name:<9}{', '.join(map(str, node.slabs))}")
            case Make():
                found.append(f"{indent}make     {node.slab} = {node.fill:g}")
            case Drop():
                found.append(f"{indent}drop     {node.slab}")
            case Rounds():
                rounds = f"P - {node.less}" if node.less else "P"
                found += [f"{indent}{rounds} rounds t:", *_lines(node.body, indent + "  ")]
            case Levels():
                way = "rising" if node.up else "falling"
                found += [f"{indent}levels k, {way}:", *_lines(node.body, indent + "  ")]
            case Together():
                found += [f"{indent}together:", *_lines(node.body, indent + "  ")]
    return found
