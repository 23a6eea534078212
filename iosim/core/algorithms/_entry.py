"""`Algorithm`, the record of a registered schedule: its loops, its problem, and claims about it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from iosim.base.display import Displayed
from iosim.base.errors import InputError
from iosim.core.problem import Form, Problem
from iosim.core.program.build import Builder, build
from iosim.core.program.ir import Program

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


# The classes of most schedules, and of those that load every word of Q once, store every entry of O
# once, load none and no row sum, and store no score (tests/bounds/test_stationary.py counts them).
WIDE = ("once", "recompute", "trees", "recompute-trees")
STATIONARY = (*WIDE, "stationary")
ANYWHERE = Regime("any M", lambda problem, M: True)


@dataclass(frozen=True)
class Algorithm(Displayed):
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
        lacks: names of the problem's options that the schedule doesn't support.
        needs: names of the options without which it would be another schedule.
        exponent: of M in the words it moves, where the schedule is meant: −1 for M ≥ d², −1/2 for
            M < d²; 0 if none is claimed.
        regime: where it is meant to be used; sweeps over hardware leave other points out.
        classes: names of the classes of algorithms that it is in (`iosim.bounds.CLASSES`), whose
            lower bounds hold for it; the first is the one that it is held against where none is
            asked for.

    >>> from iosim import algorithm
    >>> flash2 = algorithm("flash2")
    >>> flash2.name, flash2.cost, flash2.lacks
    ('flash2', '4N²d²/M', ())
    """

    name: str
    title: str
    problem: type[Any]
    schedule: Callable[[Builder], None]
    cost: str
    source: str
    rules: Mapping[str, Rule] = field(default_factory=dict)
    attains: str = ""
    lacks: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    exponent: float = 0.0
    regime: Regime = ANYWHERE
    classes: tuple[str, ...] = WIDE
    html_by = "iosim.report.views:algorithm"

    def __repr__(self) -> str:
        return f"<Algorithm {self.name}: {self.title}>"

    @functools.cached_property
    def program(self) -> Program:
        """The schedule for problems with no options but those that it needs, traced once."""
        return self.program_for(self.plain_form)

    @property
    def plain_form(self) -> Form:
        """The form of problems with no options but those that the schedule needs."""
        form: Form = self.problem.plain_form(self.needs)
        return form

    def program_for(self, problem: Problem | Form) -> Program:
        """The schedule for a problem, or for all problems of one form; each is traced once.

        Raises InputError for a problem of another kind, and for options that it doesn't support.

        >>> from iosim.core.algorithms import algorithm
        >>> from iosim.core.problem import Attention
        >>> algorithm("flash2").program_for(Attention(64, 8, causal=True)).limits
        ()
        """
        form = self._form_of(problem)
        if form not in self._programs:
            if form.kind != self.problem.kind:
                raise InputError(
                    f"{self.name} solves {self.problem.kind}, not {form.kind}: choose a schedule "
                    f"for {form.kind}"
                )
            if not self.supports(form):
                raise InputError(self._refusal(form))
            self._programs[form] = build(self.name.rpartition(":")[2], form, self.schedule)
        return self._programs[form]

    def at(self, place: str) -> Algorithm:
        """The same schedule under another name."""
        return replace(self, name=place)

    def _form_of(self, problem: Problem | Form) -> Form:
        form = problem if isinstance(problem, Form) else getattr(problem, "form", None)
        if not isinstance(form, Form):
            raise InputError(
                f"{self.name} is traced for a problem, got {type(problem).__name__}: give one"
            )
        return form

    def supports(self, problem: Problem | Form) -> bool:
        """Whether the schedule can be traced for a problem, or for all problems of one form.

        Raises InputError for what is neither.
        """
        form = self._form_of(problem)
        given = set(form.options)
        kind = form.kind == self.problem.kind
        return kind and not given & set(self.lacks) and given >= set(self.needs)

    def _refusal(self, form: Form) -> str:
        """Which options are not supported or missing, and who supports the problem."""
        from iosim.core.algorithms import all_algorithms

        lacking = " and ".join(x for x in form.options if x in self.lacks)
        missing = " and ".join(x for x in self.needs if x not in form.options)
        others = [a.name for a in all_algorithms(form.kind) if a.supports(form)]
        choice = f"choose {' or '.join(others)}" if others else "no schedule supports these options"
        if not lacking:
            return f"{self.name} needs {missing}: give that, or {choice}"
        return f"{self.name} does not support {lacking}: {choice}"

    @functools.cached_property
    def _programs(self) -> dict[Form, Program]:
        return {}
