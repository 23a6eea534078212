"""Words over all links and by device in closed form, for any P: a fold over the program.

A send moves a product of extents.  Of a sharded dimension, the extents of all parts add up to the
axis; over P − 1 rounds of a ring a device sends all parts but one.  The forms hold for P ≥ 2: one
device sends nothing.
"""

from __future__ import annotations

from typing import Any

import sympy

from iosim.base.errors import ProgramError
from iosim.bounds import sym
from iosim.devices.program import Branch, DeviceProgram, Levels, Rounds, Send, Sharded, Together

P, p = sympy.Symbol("P", integer=True, positive=True), sympy.Symbol("p", integer=True)


class _Extent(sympy.Function):  # type: ignore[misc]
    """e(axis, k): how many positions part k mod P of an axis has."""

    def _sympystr(self, printer: Any) -> str:
        axis, k = self.args
        return f"|{axis}[{printer.doprint(k)}]|"


def total_words(program: DeviceProgram) -> Any:
    """Words over all links, each counted once: a sympy expression in P and the sizes.

    Raises ProgramError for a send whose sum has no closed form here.

    >>> from iosim.devices import schedule
    >>> print(total_words(schedule("ring-attention").program))
    2*N*d*kv_heads*(P - 1)
    """
    total = sum((_over_devices(send, loop) for send, loop in _sends(program)), sympy.Integer(0))
    return sympy.factor(total)


def sent_words(program: DeviceProgram) -> Any:
    """Words that device p sends: an expression in p, P, the sizes and lengths of parts.

    ``|N[k]|`` is the length of part k mod P of the axis N.

    Raises ProgramError for trees, in which devices differ by more than their parts.

    >>> from iosim.devices import schedule
    >>> print(sent_words(schedule("ring-attention").program))
    2*d*kv_heads*(N - |N[p + 1]|)
    """
    total = sum((_of_device(send, loop) for send, loop in _sends(program)), sympy.Integer(0))
    return sympy.factor(total)


def sent_by(program: DeviceProgram, instance: Any, device: int) -> int:
    """`sent_words` of one device, with the extents of an instance."""
    if instance.P == 1:
        return 0
    found = sent_words(program).subs(p, device)
    found = found.replace(_Extent, lambda axis, k: instance.extents[str(axis)][int(k) % instance.P])
    return int(found.subs({P: instance.P, **{_size(a): n for a, n in instance.sizes.items()}}))


def total_of(program: DeviceProgram, sizes: dict[str, int], devices: int) -> int:
    """`total_words` as a number; for any number of devices."""
    if devices == 1:
        return 0
    found = total_words(program).replace(_Meeting, _intersect_parts)
    return int(found.subs({P: devices, **{_size(a): n for a, n in sizes.items()}}))


def _size(name: str) -> Any:
    return sym(name)


def _sends(program: DeviceProgram) -> Any:
    """Each send with the loop that it is in, or None."""
    for node in program.body:
        loop = node if isinstance(node, Rounds | Levels) else None
        for inner in loop.body if loop else (node,):
            for one in inner.body if isinstance(inner, Together) else (inner,):
                if isinstance(one, Send):
                    yield one, loop


def _parts(send: Send) -> tuple[Any, list[Sharded]]:
    """The product of the whole dimensions, and the sharded ones."""
    whole = sympy.prod([_size(dim) for dim in send.source.dims if isinstance(dim, str)])
    return whole, [dim for dim in send.source.dims if isinstance(dim, Sharded)]


def _of_device(send: Send, loop: Any) -> Any:
    whole, sharded = _parts(send)
    if isinstance(send.to, Branch):
        raise ProgramError(f"what a device sends {send.to} depends on its bits: count it")
    turning = [dim for dim in sharded if dim.turn]
    fixed = whole * sympy.prod([_e(dim.axis, dim.shift) for dim in sharded if not dim.turn])
    rounds = P - loop.less if loop else sympy.Integer(1)
    if not turning:
        return fixed * rounds
    if len(turning) > 1 or abs(turning[0].turn) != 1:
        raise ProgramError(f"{send.source} has no closed form here: more than one part turns")
    (dim,) = turning
    missing = range(loop.less)
    left = sum((_e(dim.axis, dim.shift - dim.turn * (k + 1)) for k in missing), sympy.Integer(0))
    return fixed * (_size(dim.axis) - left)


def _over_devices(send: Send, loop: Any) -> Any:
    whole, sharded = _parts(send)
    if isinstance(send.to, Branch):
        # Each device but 0 has one lowest set bit.
        return whole * (P - 1)
    rounds = P - loop.less if loop else sympy.Integer(1)
    if not sharded:
        return whole * P * rounds
    if len(sharded) == 1:
        return whole * _size(sharded[0].axis) * rounds
    if len(sharded) == 2 and loop and loop.less == 1:
        one, other = sharded
        turn, shift = other.turn - one.turn, other.shift - one.shift
        # In the round that is left out, P − 1 or −1, both have the same part.
        if abs(turn) == 1 and shift - turn == 0:
            a, b = _size(one.axis), _size(other.axis)
            return whole * (a * b - _Meeting(a, b))
    raise ProgramError(f"{send.source} has no closed form here: its parts meet in other ways")


class _Meeting(sympy.Function):  # type: ignore[misc]
    """Σ over k of the extents of part k of two axes, both sharded in contiguous runs."""

    def _sympystr(self, printer: Any) -> str:
        a, b = self.args
        return f"Sum(|{a}[k]|*|{b}[k]|, k)"


def _intersect_parts(a: Any, b: Any) -> Any:
    """`_Meeting` in closed form: the first a mod P parts have one position more."""
    x, y = sympy.floor(a / P), sympy.floor(b / P)
    r, s = sympy.Mod(a, P), sympy.Mod(b, P)
    return x * y * P + x * s + y * r + sympy.Min(r, s)


def _e(axis: str, k: int) -> Any:
    return _Extent(sympy.Symbol(axis), p + k)
