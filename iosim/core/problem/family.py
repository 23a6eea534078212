"""Problems of one form at many sizes: what is computed for many points at once.

`iosim.sweep` counts many points by it at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iosim.base.errors import InputError
from iosim.base.rows import Values
from iosim.core.problem.base import size_names
from iosim.core.problem.form import LIMITS, Form


@dataclass(frozen=True)
class Family:
    """All problems of a class with the same options in use.

    Attributes:
        problem: the class.
        names: of the sizes that differ: the axes, then what options are made of (``left`` and
            ``right`` of a window), in the order of the class.
        fixed: options that are the same for all, name → value.
        form: what a program for them is traced for.

    >>> from iosim.core.problem import Attention
    >>> family = Family.of(Attention, {"N": 64, "d": 8, "heads": 1, "left": 9}, {"causal": True})
    >>> family.at({"N": 32, "d": 8, "heads": 2, "left": 4})
    Attention(N=32, d=8, heads=2, causal=True, window=(4, None))
    >>> family.extents({"N": 32, "d": 8, "heads": 2, "left": 4})
    {'N': 32, 'd': 8, 'heads': 2, 'left': 4}
    """

    problem: type[Any]
    names: tuple[str, ...]
    form: Form
    fixed: Values = field(default_factory=dict)

    @classmethod
    def of(cls, problem: type[Any], most: Mapping[str, int], fixed: Values | None = None) -> Family:
        """The family of a problem.

        Args:
            most: the largest value of every size that differs: an option is in use where it is
                not its default everywhere, like ``sinks`` of 0.
            fixed: the options that all share.

        Raises InputError if there is no problem of these sizes, or no size or option of a name.
        """
        known = size_names(problem) + tuple(x for o in problem.options() for x in o.sizes)
        for name in most:
            if name not in known:
                raise InputError(f"{problem.kind} has no size {name}: it has {', '.join(known)}")
        shared = dict(fixed or {})
        names = tuple(x for x in known if x in most)
        return cls(problem, names, _build_problem(problem, most, shared).form, shared)

    def at(self, sizes: Mapping[str, int]) -> Any:
        """The problem of these sizes; other names are left aside.

        Its form may be plainer than the family's, where an option has its default.
        """
        return _build_problem(self.problem, {x: sizes[x] for x in self.names}, self.fixed)

    def extents(self, columns: Values) -> dict[str, Any]:
        """Name → extent, of all that a program of the form is bound to; numbers or arrays."""
        found = self.problem.extents(self.form, {x: columns[x] for x in self.names})
        assert isinstance(found, dict)
        return found


def _build_problem(problem: type[Any], sizes: Mapping[str, int], fixed: Values) -> Any:
    """A problem from its sizes, those of limits by their own names."""
    told = dict(sizes)
    for one in problem.options():
        if one.kind == "limits":
            pair = tuple(told.pop(x, None) for x in LIMITS)
            if pair != (None, None):
                told[one.name] = pair  # type: ignore[assignment]
    return problem(**told, **fixed)
