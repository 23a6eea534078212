"""`DeviceSchedule`, the record of a registered distributed schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from iosim.base.errors import InputError
from iosim.core.problem import BaseProblem, Form
from iosim.devices.builder import DeviceBuilder, trace
from iosim.devices.program import DeviceProgram, Sharded


@dataclass(frozen=True)
class DeviceSchedule:
    """A distributed schedule.

    Attributes:
        name: the registry's key.
        title: one line.
        problem: what it solves.
        build: the schedule, as a function over a `DeviceBuilder`.
        options: of the problem, those that it takes.
        sharded: the axis whose rows may be sharded otherwise than in contiguous runs, or "".
        source: where it was published.

    >>> from iosim.devices import schedule
    >>> schedule("ring-attention").problem.kind
    'attention'
    """

    name: str
    title: str
    problem: type[BaseProblem]
    build: Callable[[DeviceBuilder], None]
    options: tuple[str, ...] = ()
    sharded: str = ""
    source: str = ""

    @cached_property
    def form(self) -> Form:
        """The form that its program is written for: heads in groups, where there are heads."""
        return self.problem.plain_form(("kv_heads",) if "kv_heads" in self.options else ())

    @cached_property
    def program(self) -> DeviceProgram:
        """The schedule as a value."""
        return trace(self.name, self.form, self.build)

    def takes(self, problem: Any) -> Any:
        """The problem as the program has it; InputError for one that it doesn't solve."""
        if getattr(problem, "kind", None) != self.problem.kind:
            raise InputError(
                f"{self.name} solves {self.problem.kind}, got {problem!r}: choose another schedule"
            )
        given = {one.name for one in problem.options()} & set(problem.as_dict)
        if lacking := sorted(given - set(self.options)):
            raise InputError(
                f"{self.name} has no option {lacking[0]}: leave it out (it takes "
                f"{', '.join(self.options) or 'none'})"
            )
        if "kv_heads" in self.options and problem.kv_heads is None:
            return replace(problem, kv_heads=problem.heads)
        return problem

    @property
    def placement(self) -> dict[str, str]:
        """The axis along which each input and output is sharded; "" where all devices have all."""
        ends = [*((x.name, x) for x in self.program.inputs), *self.program.outputs]
        return {
            name: next((dim.axis for dim in slab.dims if isinstance(dim, Sharded)), "")
            for name, slab in ends
        }
