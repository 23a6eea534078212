"""Writing a distributed schedule: a function over a `DeviceBuilder` becomes a `DeviceProgram`.

Files of `iosim.devices.schedules` and `iosim.devices.collectives` are written with it.  A new
operation is added in `iosim.devices.ops`, a new kind of node here and in `iosim.devices.program`
and `walk`.

Changing this file: a schedule whose sends don't fit, or that has no closed form, raises
ProgramError while it is written.  ``tests/devices/test_devices.py`` compares run, count and closed
form of all schedules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from iosim.base.errors import ProgramError
from iosim.core.problem import Form
from iosim.devices.program import (
    Around,
    Branch,
    Compute,
    DeviceProgram,
    Dim,
    Drop,
    Levels,
    Make,
    Node,
    Rounds,
    Send,
    Sharded,
    Slab,
    Together,
    Way,
)


class Tracked:
    """A tensor that the devices hold: its slab changes as its parts are passed on."""

    def __init__(self, slab: Slab) -> None:
        self.slab = slab

    def part(self, axis: str, shift: int = 0, turn: int = 0) -> Slab:
        """Part of an axis that is whole: see `Slab.part`."""
        return self.slab.part(axis, shift, turn)


class DeviceBuilder:
    """Records what a schedule's function does.

    >>> from iosim import Copy
    >>> def one_step(b):
    ...     x = b.holds("X", "n")
    ...     b.pass_on(x)
    ...     b.output(x, "Y")
    >>> program = trace("one_step", Copy.plain_form(), one_step)
    >>> program.body[0].into
    Slab(name='X', dims=(Sharded(axis='n', shift=-1, turn=0),))
    """

    def __init__(self, form: Form) -> None:
        self._axes = {t.name: t.axes for t in (*form.inputs, *form.outputs)}
        self._bodies: list[list[Node]] = [[]]
        self._inputs: list[Slab] = []
        self._outputs: list[tuple[str, Slab]] = []

    def _add(self, node: Node) -> None:
        self._bodies[-1].append(node)

    def holds(self, name: str, axis: str = "") -> Tracked:
        """An input of the problem: all of it on every device, or sharded along an axis."""
        if name not in self._axes:
            there = ", ".join(f"{x}[{', '.join(axes)}]" for x, axes in self._axes.items())
            raise ProgramError(f"unknown tensor {name!r}: the problem has {there}")
        slab = _sharded(name, self._axes[name], axis)
        self._inputs.append(slab)
        return Tracked(slab)

    def make(self, name: str, *dims: Dim, fill: float = 0.0) -> Tracked:
        """A new tensor on every device."""
        slab = Slab(name, dims)
        self._add(Make(slab, fill))
        return Tracked(slab)

    def drop(self, *tensors: Tracked) -> None:
        """Give back their memory."""
        for x in tensors:
            self._add(Drop(x.slab))

    def op(self, name: str, *operands: Tracked | Slab) -> None:
        """An operation of `iosim.devices.ops.OPS`, the operands that it writes first."""
        from iosim.devices.ops import OPS

        if name not in OPS:
            raise ProgramError(f"unknown operation {name!r}: there are {', '.join(OPS)}")
        slabs = tuple(x.slab if isinstance(x, Tracked) else x for x in operands)
        self._add(Compute(name, slabs))

    def send(
        self, source: Slab | Tracked, to: Way, into: Slab | Tracked, add: bool = False
    ) -> None:
        """Every device sends; raises ProgramError where what arrives isn't what `into` says."""
        source, into = (x.slab if isinstance(x, Tracked) else x for x in (source, into))
        if _arriving(source, to).dims != into.dims:
            raise ProgramError(
                f"{source} sent to {to} arrives as {_arriving(source, to)}, not as {into}: "
                "change one of the two"
            )
        self._add(Send(source, to, into, add))

    def pass_on(self, tensor: Tracked, by: int = 1) -> None:
        """Every device sends what it holds of a tensor to device p + by, and keeps what arrives."""
        to = Around(by)
        into = _arriving(tensor.slab, to)
        self._add(Send(tensor.slab, to, into, passed=True))
        tensor.slab = into

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is inside doesn't wait for each other; ProgramError where it would have to."""
        self._bodies.append([])
        yield
        body = tuple(self._bodies.pop())
        _check_apart(body)
        self._add(Together(body))

    def rounds(self, *carried: Tracked, less: int = 1, by: int = 1) -> Iterator[None]:
        """Rounds t = 0 … P − 1 − less, in each of which `carried` are passed on once, by `by`."""
        before = [x.slab for x in carried]
        for x in carried:
            x.slab = _turned(x.slab, -by)
        self._bodies.append([])
        inside = [x.slab for x in carried]
        yield
        for x, at in zip(carried, inside, strict=True):
            if x.slab != _next_round(at):
                raise ProgramError(f"{at} must be passed on once in each round, to p + {by}")
        self._add_loop(Rounds(less, tuple(self._bodies.pop())))
        for x, at in zip(carried, before, strict=True):
            # −by·(P − less) turns, modulo P
            x.slab = _shifted(at, by * less)

    def levels(self, up: bool) -> Iterator[None]:
        """The levels of a binomial tree."""
        self._bodies.append([])
        yield
        self._add_loop(Levels(up, tuple(self._bodies.pop())))

    def _add_loop(self, loop: Rounds | Levels) -> None:
        if len(self._bodies) > 1:
            raise ProgramError("rounds inside of rounds have no closed form here: write them apart")
        self._add(loop)

    def output(self, tensor: Tracked | Slab, name: str) -> None:
        """An output of the problem, where it is at last."""
        slab = tensor.slab if isinstance(tensor, Tracked) else tensor
        self._outputs.append((name, slab))

    def program(self, name: str) -> DeviceProgram:
        """What was recorded."""
        (body,) = self._bodies
        return DeviceProgram(name, tuple(self._inputs), tuple(body), tuple(self._outputs))


def trace(name: str, form: Form, function: Callable[[DeviceBuilder], None]) -> DeviceProgram:
    """The program of a schedule's function, for problems of a form."""
    builder = DeviceBuilder(form)
    function(builder)
    return builder.program(name)


def tree_send(b: DeviceBuilder, x: Tracked, up: bool) -> None:
    """At one level of a tree: all of x, added on its way up, copied on its way down."""
    b.send(x, Branch(up), x, add=up)


def _sharded(name: str, axes: tuple[str, ...], axis: str) -> Slab:
    slab = Slab(name, axes)
    if axis and axis not in axes:
        raise ProgramError(f"{name} has no axis {axis}: shard it along one of {', '.join(axes)}")
    return slab.part(axis) if axis else slab


def _arriving(slab: Slab, to: Way) -> Slab:
    """What a slab is where it arrives, by the receiver's own number."""
    if isinstance(to, Branch):
        return slab
    return Slab(
        slab.name,
        tuple(
            dim
            if isinstance(dim, str)
            else Sharded(dim.axis, dim.shift - to.shift, dim.turn - to.turn)
            for dim in slab.dims
        ),
    )


def _map(slab: Slab, change: Callable[[Sharded], Sharded]) -> Slab:
    return Slab(slab.name, tuple(d if isinstance(d, str) else change(d) for d in slab.dims))


def _turned(slab: Slab, turn: int) -> Slab:
    return _map(slab, lambda d: Sharded(d.axis, d.shift, d.turn + turn))


def _shifted(slab: Slab, shift: int) -> Slab:
    return _map(slab, lambda d: Sharded(d.axis, d.shift + shift, d.turn))


def _next_round(slab: Slab) -> Slab:
    return _map(slab, lambda d: Sharded(d.axis, d.shift + d.turn, d.turn))


def _check_apart(body: tuple[Node, ...]) -> None:
    """What arrives in a step is used by no operation of it, and what is sent is not changed."""
    from iosim.devices.ops import OPS

    sent = {x.source.name for x in body if isinstance(x, Send)}
    filled = {x.into.name for x in body if isinstance(x, Send) and not x.passed}
    for node in body:
        if isinstance(node, Compute):
            written = {node.slabs[k].name for k in OPS[node.name].writes}
            used = {slab.name for slab in node.slabs}
            if clash := sorted((written & sent) | (used & filled)):
                raise ProgramError(f"{node.name} has to wait for the sends of {clash[0]}")
        elif not isinstance(node, Send):
            raise ProgramError("only sends and operations can be together")
