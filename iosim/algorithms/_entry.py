"""What a registered algorithm is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from iosim.program.build import Builder, build
from iosim.program.ir import Program

Rule = Callable[[Any, int], dict[str, int]]


@dataclass(frozen=True)
class Regime:
    """Where a schedule is meant to be used.

    Attributes:
        says: the condition, in symbols.
        holds: the condition, of a problem and M.
    """

    says: str
    holds: Callable[[Any, int], bool]


ANYWHERE = Regime("any M", lambda problem, M: True)


@dataclass(frozen=True)
class Algorithm:
    """A named schedule.

    Attributes:
        name: the registry's key.
        title: one line.
        problem: the class of problems that it solves.
        schedule: the function that the builder traces.
        cost: leading terms of its I/O, in words, per head.
        source: where it was published.
        rules: published ways to choose tiles, name → rule(problem, M); a rule may exceed M, since
            published rules leave out the small buffers.
        attains: the name of the exact upper bound (`iosim.bounds`) that is this schedule's
            published count; the optimal tiles must move no more.
        exponent: of M in the words it moves, where the schedule is meant: −1 for M ≥ d², −1/2 for
            M < d²; 0 where none is claimed.
        regime: where it is meant to be used; sweeps over hardware leave other points out.
    """

    name: str
    title: str
    problem: type[Any]
    schedule: Callable[[Builder], None]
    cost: str
    source: str
    rules: Mapping[str, Rule] = field(default_factory=dict)
    attains: str = ""
    exponent: float = 0.0
    regime: Regime = ANYWHERE

    @functools.cached_property
    def program(self) -> Program:
        """The schedule, traced once."""
        return build(self.name, self.problem, self.schedule)
