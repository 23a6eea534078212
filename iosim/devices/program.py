"""What a distributed schedule is: what each of P devices holds, computes, and sends to which.

All devices run the same program.  A `Sharded` dimension says which part of an axis a device has, by
its own number p, so that one text serves every device and every P.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Sharded:
    """Part (p + shift + turn·t) mod P of an axis, on device p in round t.

    >>> print(Sharded("N"), Sharded("N", -1, -1), Sharded("N", 0, 2))
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
Dim: TypeAlias = str | Sharded


@dataclass(frozen=True)
class Slab:
    """A resident tensor, or the part of it that its dimensions say.

    >>> print(Slab("K", ("kv_heads", Sharded("N"), "d")))
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
        sharded = Sharded(axis, shift, turn)
        return Slab(self.name, tuple(sharded if dim == axis else dim for dim in self.dims))


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
    lines = [("  ", "holds", str(slab)) for slab in program.inputs]
    lines += _lines(program.body, "  ")
    lines += [("  ", "ends", str(Slab(name, slab.dims))) for name, slab in program.outputs]
    wide = max(SHORTEST, *(len(word) for _, word, what in lines if what))
    text = [f"{indent}{word:<{wide}} {what}".rstrip() for indent, word, what in lines]
    return "\n".join([f"{program.name} on device p of P, t = 0 … the last round", *text])


# The least width of a listing's column of words.
SHORTEST = 8


def _lines(body: tuple[Node, ...], indent: str) -> list[tuple[str, str, str]]:
    """Indent, word and what it is about, of each line; a loop's line is one word."""
    found = []
    for node in body:
        inner: tuple[Node, ...] = ()
        match node:
            case Send():
                how = "added to" if node.add else "where it is"
                line = "send", f"{node.source} → {node.to}, {how} {node.into}"
            case Compute():
                line = node.name, ", ".join(map(str, node.slabs))
            case Make():
                line = "make", f"{node.slab} = {node.fill:g}"
            case Drop():
                line = "drop", str(node.slab)
            case Rounds():
                line = f"P - {node.less} rounds t:" if node.less else "P rounds t:", ""
                inner = node.body
            case Levels():
                line = f"levels k, {'rising' if node.up else 'falling'}:", ""
                inner = node.body
            case Together():
                line, inner = ("together:", ""), node.body
        found += [(indent, *line), *_lines(inner, indent + "  ")]
    return found
