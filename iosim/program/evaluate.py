"""Closed forms on numbers: one instance in integers, or a million in arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.counts import Counts, Key
from iosim.errors import InputError
from iosim.program.closed import Atom, Clip, Level, Trips, close
from iosim.program.ir import Program
from iosim.program.walk import Instance

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
    value = on_ints(instance.env)
    levels = close(instance.program).peak
    return max((int(v.words.evaluate(value)) for v in levels if all(map(value, v.runs))), default=0)


def on_ints(env: Mapping[str, int]) -> Callable[[Atom], int]:
    """Atom → its value, for one instance."""

    def value(atom: Atom) -> int:
        if isinstance(atom, Trips):
            return -(-max(atom.length.at(env), 0) // env[atom.step])
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
    value = on_arrays(clean)
    closed = close(program)
    rough = {name: column.astype(np.float64) for name, column in clean.items()}
    size = sum(np.max(p.evaluate(on_arrays(rough)), initial=0.0) for p in closed.counts.values())
    if size > 2.0**62:
        raise InputError(f"counts up to {size:.2e} words exceed 2**62: count these one at a time")
    return {
        key: np.broadcast_to(np.asarray(poly.evaluate(value), np.int64), shape)
        for key, poly in closed.counts.items()
    }


def peak_many(program: Program, columns: Mapping[str, Any]) -> IntArray:
    """The exact peaks of many instances at once; arguments and errors as for `count_many`."""
    clean, shape = _columns(program, columns)
    return np.broadcast_to(largest(close(program).peak, on_arrays(clean)), shape)


def largest(levels: Iterable[Level], value: Callable[[Atom], Any]) -> IntArray:
    """The elementwise maximum over the peak candidates that are reached."""
    top: Any = 0
    for level in levels:
        words = level.words.evaluate(value)
        for trips in level.runs:
            words = words * (value(trips) > 0)
        top = np.maximum(top, words)
    return np.asarray(top)


def _columns(
    program: Program, columns: Mapping[str, Any]
) -> tuple[dict[str, NDArray[Any]], tuple[int, ...]]:
    axes = {axis for t in program.tensors for axis in t.axes}
    least = dict.fromkeys(axes, 1) | {p.name: p.least for p in program.params}
    if missing := sorted(set(least) - set(columns)):
        raise InputError(f"{program.name} needs the columns {', '.join(missing)}: give them")
    clean: dict[str, NDArray[Any]] = {}
    for name, low in least.items():
        column = np.asarray(columns[name])
        if not np.issubdtype(column.dtype, np.integer) or (column.size and column.min() < low):
            raise InputError(f"column {name} must hold integers of at least {low}")
        clean[name] = column.astype(np.int64)
    for p in program.params:
        clean[p.name] = np.minimum(clean[p.name], clean[p.axis])
    return clean, np.broadcast_shapes(*(c.shape for c in clean.values()))


def on_arrays(
    env: Mapping[str, Any], subtracted: Mapping[str, Any] | None = None
) -> Callable[[Atom], Any]:
    """Atom → its values, for arrays; each trip count is computed once.

    Names with a negative coefficient in a length (the W of d − W) take their value from
    `subtracted` where it is given; with a box's lower corner as `env` and its upper corner as
    `subtracted`, every atom of a peak is at its least.
    """
    seen: dict[Atom, Any] = {}

    def length(atom: Trips | Clip) -> Any:
        total: Any = atom.length.const
        for name, c in atom.length.terms:
            value = (subtracted or env)[name] if c < 0 else env[name]
            total = total + (value if c == 1 else c * value)
        return total

    def value(atom: Atom) -> Any:
        if isinstance(atom, str):
            return env[atom]
        if atom not in seen:
            if isinstance(atom, Trips):
                seen[atom] = -(-np.maximum(length(atom), 0) // env[atom.step])
            else:
                assert isinstance(atom, Clip)
                seen[atom] = np.minimum(length(atom), env[atom.step])
        return seen[atom]

    return value
