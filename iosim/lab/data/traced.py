"""How the sizes of a program follow from what people type, as JSON that the page evaluates.

The problem's own code is run on expressions that write down what is done with them, so that the
page has no formula of its own.
"""

from __future__ import annotations

from typing import Any

from iosim.problem import Form

# The names of sizes that people may give, in any problem.
NAMES = ("N", "d", "heads", "N_k", "d_v", "kv_heads", "left", "right", "sinks", "m", "n", "k",
         "page", "batch")  # fmt: skip


class _Traced:
    """A value that writes down what is done with it: a name, a number, or ``[sign, a, b]``."""

    def __init__(self, told: Any) -> None:
        self.told = told

    def _with(self, sign: str, other: Any, *, turned: bool = False) -> _Traced:
        theirs = other.told if isinstance(other, _Traced) else other
        return _Traced([sign, theirs, self.told] if turned else [sign, self.told, theirs])

    def __add__(self, other: Any) -> _Traced:
        return self._with("+", other)

    def __radd__(self, other: Any) -> _Traced:
        return self._with("+", other, turned=True)

    def __sub__(self, other: Any) -> _Traced:
        return self._with("-", other)

    def __rsub__(self, other: Any) -> _Traced:
        return self._with("-", other, turned=True)

    def __mul__(self, other: Any) -> _Traced:
        return self._with("*", other)

    def __rmul__(self, other: Any) -> _Traced:
        return self._with("*", other, turned=True)

    def __floordiv__(self, other: Any) -> _Traced:
        return self._with("//", other)

    def __gt__(self, other: Any) -> _Traced:
        return self._with(">", other)

    def __neg__(self) -> _Traced:
        return self._with("-", 0, turned=True)


def traced_sizes(problem: type[Any], form: Form) -> dict[str, Any]:
    """Name → expression for every size that a program of a form is bound to.

    An expression is a name of what people type, a number, or ``[sign, a, b]``.

    >>> from iosim import Attention
    >>> traced_sizes(Attention, Attention(8, 4, 2, kv_heads=1).form)
    {'N': 'N', 'd': 'd', 'kv_heads': 'kv_heads', 'group': ['//', 'heads', 'kv_heads']}
    """
    given = {name: _Traced(name) for name in NAMES}
    if "N_k" not in form.sizes:
        given["N_k"] = given["N"]
    found = problem.extents(form, given)
    return {name: x.told if isinstance(x, _Traced) else x for name, x in found.items()}
