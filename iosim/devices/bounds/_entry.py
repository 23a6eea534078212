"""What a lower bound on words between devices is: hypotheses, a number, and what it is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Setting:
    """What a bound may look at: the problem, the devices, and where tensors are; no schedule.

    Attributes:
        problem: with its sizes.
        P: devices.
        M: words that each device's memory holds.
        placement: of each input and output the axis along which it is sharded, in parts that differ
            by at most one position; "" where every device has all of it.

    >>> from iosim import Copy
    >>> Setting(Copy(10), 4, 100, {"X": "n"}).most_held("X")
    3
    """

    problem: Any
    P: int
    M: int
    placement: Mapping[str, str]

    def most_held(self, name: str) -> int:
        """The most words of a tensor that a device has."""
        form, sizes = self.problem.form, self.problem.sizes
        axes = next(t.axes for t in (*form.inputs, *form.outputs) if t.name == name)
        words = 1
        for axis in axes:
            words *= -(-sizes[axis] // self.P) if axis == self.placement[name] else sizes[axis]
        return words


@dataclass(frozen=True)
class LinkBound:
    """A lower bound on words between devices.

    Attributes:
        name: the registry's key.
        of: "total", words over all links; or "device", words of some device: what it receives as
            they are, and what it sends to be added.
        kinds: of problems.
        words: the bound, a number that may be a fraction, never negative.
        outside: why it says nothing in a setting, or None.
        says: for which algorithms it holds.
        source: paper and theorem.
        proof: a name in proofs/, or None.

    >>> from iosim.devices.bounds import LINK_BOUNDS
    >>> LINK_BOUNDS["sharded-rows"].of, LINK_BOUNDS["sharded-rows"].proof
    ('total', 'devices')
    """

    name: str
    of: Literal["total", "device"]
    kinds: tuple[str, ...]
    words: Callable[[Setting], Any]
    outside: Callable[[Setting], str | None]
    says: str
    source: str
    proof: str | None = None
