"""Closed forms on numbers: one instance in integers, or a million in arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.counting.closed import Atom, Clip, Poly, Trips, close
from iosim.counts import Counts, Key
from iosim.errors import InputError, closest
from iosim.problem import LARGEST_SIZE
from iosim.program.ir import Affine, Program
from iosim.program.walk import Instance, spans

IntArray = NDArray[np.int64]


def count(instance: Instance) -> Counts:
    """Words moved, exact, in time independent of the sizes.

    Raises ProgramError where the program has no closed form.
    """
    if not isinstance(instance, Instance):
        raise InputError(f"count takes an instance, got {type(instance).__name__}: bind() it first")
    value = on_ints(instance.env)
    closed = close(instance.program)
    return Counts.of({key: int(poly.evaluate(value)) for key, poly in closed.counts.items()})


def peak(instance: Instance) -> int:
    """The largest number of words resident at once, exact."""
    env = instance.env
    value = on_ints(env)
    reached = (
        v for v in close(instance.program).peak if all(length.at(env) > 0 for length in v.runs)
    )
    return max((int(v.words.evaluate(value)) for v in reached), default=0)


def on_ints(env: Mapping[str, int]) -> Callable[[Atom], int]:
    """Atom → its value, for one instance."""

    def value(atom: Atom) -> int:
        if isinstance(atom, Trips):
            return -(-atom.length.at(env) // env[atom.step])
        if isinstance(atom, Clip):
            return min(atom.length.at(env), env[atom.step])
        return env[str(atom)]

    return value


def count_many(program: Program, columns: Mapping[str, Any]) -> dict[Key, IntArray]:
    """Count many instances at once.

    Args:
        columns: a scalar or an int64 array for every axis and tile parameter, broadcast
            together.  Tiles are clipped to their axis, as `bind` does.

    Returns:
        ``{(direction, tensor): words}``, int64 arrays of the common shape.

    Raises:
        InputError: a column is missing, below its least value, or a count exceeds 2**62.
    """
    clean, shape = _columns(program, columns)
    value = OnArrays(clean)
    closed = close(program)
    _guard(clean, closed.counts.values())
    return {
        key: np.broadcast_to(np.asarray(poly.evaluate(value), np.int64), shape)
        for key, poly in closed.counts.items()
    }


def peak_many(program: Program, columns: Mapping[str, Any]) -> IntArray:
    """The exact peaks of many instances at once; arguments and errors as for `count_many`."""
    clean, shape = _columns(program, columns)
    _guard(clean, [level.words for level in close(program).peak])
    value = OnArrays(clean)
    top: Any = 0
    for level in close(program).peak:
        words = level.words.evaluate(value)
        for length in level.runs:
            words = words * (value.length(length) > 0)
        top = np.maximum(top, words)
    return np.broadcast_to(np.asarray(top), shape)


def _guard(columns: Mapping[str, NDArray[Any]], polys: Iterable[Poly]) -> None:
    """Raise InputError where int64 might overflow, judged by the magnitudes of all terms."""
    value = OnArrays({name: column.astype(np.float64) for name, column in columns.items()})
    size = 0.0
    for poly in polys:
        magnitude = Poly({m: abs(c) for m, c in poly.terms.items()})
        size += float(np.max(magnitude.evaluate(value), initial=0.0))
    if size > 2.0**62:
        raise InputError(f"counts up to {size:.2e} words exceed 2**62: count these one at a time")


def _columns(
    program: Program, columns: Mapping[str, Any]
) -> tuple[dict[str, NDArray[Any]], tuple[int, ...]]:
    clean = check_columns(program, columns)
    return clean, np.broadcast_shapes(*(c.shape for c in clean.values()))


def check_columns(
    program: Program, columns: Mapping[str, Any], free: Collection[str] = ()
) -> dict[str, NDArray[Any]]:
    """Columns as `bind` would take them, tiles clipped to their axis.

    Args:
        free: parameters that may be left out.

    Raises:
        InputError: a column is missing, unknown or out of range.
    """
    axes = {axis for t in program.tensors for axis in t.axes}
    lows = dict.fromkeys(axes, 1) | {p.name: p.least for p in program.params}
    if missing := sorted(set(lows) - set(columns) - set(free)):
        raise InputError(f"{program.name} needs the columns {', '.join(missing)}: give them")
    if unknown := sorted(set(columns) - set(lows)):
        raise InputError(f"{program.name} has no size {unknown[0]!r}: {closest(unknown[0], lows)}")
    clean: dict[str, NDArray[Any]] = {}
    for name, low in lows.items():
        if name not in columns:
            continue
        column = np.asarray(columns[name])
        whole = np.issubdtype(column.dtype, np.integer)
        if not whole or (column.size and not low <= column.min() <= column.max() <= LARGEST_SIZE):
            raise InputError(f"column {name} must hold integers in {low}..{LARGEST_SIZE} (2**40)")
        clean[name] = column.astype(np.int64)
    for p in program.params:
        if p.name in clean:
            clean[p.name] = np.minimum(clean[p.name], clean[p.axis])
    length = OnArrays(clean).length
    for span in spans(program):
        if not {name for end in (span.start, span.stop) for name, _ in end.terms} <= set(clean):
            continue
        start, stop = length(span.start), length(span.stop)
        if np.any((start < 0) | (start > stop) | (stop > clean[span.axis])):
            raise InputError(
                f"{program.name} uses {span.axis}[{span}], which does not lie inside for some rows"
            )
    return clean


class OnArrays:
    """Atom → its values, for arrays; each trip count is computed once.

    With `high`, the values are bounds from below over the box whose corners are `env` and `high`:
    what is subtracted in a length (the W of d − W), and the step of a trip count, come from there.
    """

    def __init__(self, env: Mapping[str, Any], high: Mapping[str, Any] | None = None) -> None:
        self.env, self.high = env, env if high is None else high
        self._seen: dict[Atom, Any] = {}

    def length(self, value: Affine) -> Any:
        """An affine expression."""
        total: Any = value.const
        for name, c in value.terms:
            x = self.high[name] if c < 0 else self.env[name]
            total = total + (x if c == 1 else c * x)
        return total

    def __call__(self, atom: Atom) -> Any:
        """The values of an atom."""
        if isinstance(atom, str):
            return self.env[atom]
        if atom not in self._seen:
            assert isinstance(atom, (Trips, Clip))
            length = self.length(atom.length)
            if isinstance(atom, Trips):
                self._seen[atom] = -(-length // self.high[atom.step])
            else:
                self._seen[atom] = np.minimum(length, self.env[atom.step])
        return self._seen[atom]
