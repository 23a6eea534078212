"""Closed forms on numbers: one instance in integers, or a million in arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.counting.closed import Level, close, highest
from iosim.counting.integers import OnInts
from iosim.counting.poly import Atom, Clip, Part, Poly, Sum, Trips
from iosim.counts import Counts, Key
from iosim.errors import InputError, closest
from iosim.problem import LARGEST_SIZE
from iosim.program.ir import Affine, Program, Span, Tile
from iosim.program.space import axes, clipped, misplaced
from iosim.program.walk import Instance

IntArray = NDArray[np.int64]


def count(instance: Instance) -> Counts:
    """Words moved, exact, in time independent of the sizes.

    Raises ProgramError where the program has no closed form.
    """
    if not isinstance(instance, Instance):
        raise InputError(f"count takes an instance, got {type(instance).__name__}: bind() it first")
    value = OnInts(instance.env)
    closed = close(instance.program)
    return Counts.of({key: int(poly.evaluate(value)) for key, poly in closed.counts.items()})


def peak(instance: Instance) -> int:
    """The largest number of words resident at once, exact."""
    if not isinstance(instance, Instance):
        raise InputError(f"peak takes an instance, got {type(instance).__name__}: bind() it first")
    return int(highest(close(instance.program).peak, OnInts(instance.env)))


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
    return np.broadcast_to(np.asarray(highest(close(program).peak, value)), shape)


def magnitude(poly: Poly, columns: Mapping[str, Any]) -> Any:
    """The sum of the magnitudes of a polynomial's terms, in float64: at least its value.

    Args:
        columns: name → array.
    """
    value = _Most({name: np.asarray(v, np.float64) for name, v in columns.items()})
    return np.asarray(Poly({m: abs(c) for m, c in poly.terms.items()}).evaluate(value), np.float64)


class _Most:
    """Atom → what it is at most; what follows a tile is taken for its whole axis.

    Args:
        env, low: the upper and the lower corner of a box; a single point by default.
    """

    def __init__(self, env: Mapping[str, Any], low: Mapping[str, Any] | None = None) -> None:
        self.env, self.low = env, env if low is None else low
        self.exact = OnArrays(env)

    def __call__(self, atom: Atom) -> Any:
        match atom:
            case Part(span, step):
                return self.env[span.axis] if step is None else self._trips(span, step)
            case Clip(Part(), step):
                return self.env[step]
            case Sum(_, span, step, factors):
                return math.prod(map(self, factors), start=self._trips(span, step))
            case Tile():
                return self.env[atom.axis]
            case _:
                return self.exact(atom)

    def _trips(self, span: Span, step: str | None) -> Any:
        length = self.env[span.axis]
        return length if step is None else -(-length // self.low[step])


def _guard(columns: Mapping[str, NDArray[Any]], polys: Iterable[Poly]) -> None:
    """Raise InputError where int64 might overflow."""
    size = sum(float(np.max(magnitude(poly, columns), initial=0.0)) for poly in polys)
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
    lows = dict.fromkeys(axes(program), 1) | {p.name: p.least for p in program.params}
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
    clean = clipped(program, clean, np.minimum)
    if span := misplaced(program, clean, np.any):
        raise InputError(
            f"{program.name} uses {span.axis}[{span}], which does not lie inside for some rows"
        )
    return clean


class OnArrays:
    """Atom → its values; a `Reading` in arrays that computes each trip count once.

    With `high`, the values are bounds from below over the box whose corners are `env` and `high`:
    what is subtracted in a length (the W of d − W), and the step of a trip count, come from there.
    With `upper`, `env` is the upper corner, and they are bounds from above.
    Where not all of a box is `valid`, lengths below 0, of spans that end before they start, are 0.
    """

    def __init__(
        self,
        env: Mapping[str, Any],
        high: Mapping[str, Any] | None = None,
        valid: bool = True,
        upper: bool = False,
    ) -> None:
        self.env, self.high, self.valid = env, env if high is None else high, valid
        self.upper = upper
        self._seen: dict[Atom, Any] = {}

    def length(self, value: Affine) -> Any:
        """An affine expression."""
        total: Any = value.const
        for name, c in value.sizes:
            x = self.high[name] if c < 0 else self.env[name]
            total = total + (x if c == 1 else c * x)
        return total

    def __call__(self, atom: Atom) -> Any:
        """The values of an atom."""
        if isinstance(atom, str):
            return self.env[atom]
        if atom not in self._seen:
            if isinstance(atom, Sum):
                self._seen[atom] = self._each(lambda at: at(atom), _Most(self.env, self.high)(atom))
                return self._seen[atom]
            assert isinstance(atom, (Trips, Clip)), f"{atom} is open: close its loop first"
            assert isinstance(atom.length, Affine), f"{atom} follows a tile"
            length = self.length(atom.length)
            if not self.valid:
                length = np.maximum(length, 0)
            if isinstance(atom, Trips):
                self._seen[atom] = -(-length // self.high[atom.step])
            else:
                self._seen[atom] = np.minimum(length, self.env[atom.step])
        return self._seen[atom]

    def _each(self, one: Callable[[OnInts], int], most: Any) -> Any:
        """What has no form in arrays, a point at a time; over a box, it is from 0 to `most`."""
        if self.high is not self.env:
            return most if self.upper else 0
        names = list(self.env)
        columns = np.broadcast_arrays(*(self.env[name] for name in names))
        rows = zip(*(column.ravel().tolist() for column in columns), strict=True)
        found = [one(OnInts(dict(zip(names, row, strict=True)))) for row in rows]
        return np.array(found, columns[0].dtype).reshape(columns[0].shape)

    def most(self, level: Level) -> Any:
        """The largest occupancy of a level over all iterations of its loops."""
        positive = Poly({m: c for m, c in level.words.terms.items() if c > 0})
        return self._each(lambda at: at.most(level), positive.evaluate(_Most(self.env, self.high)))

    def where(self, words: Any, length: Affine | Part) -> Any:
        """Words, or 0 where the loop of this length is empty."""
        assert isinstance(length, Affine), f"{length} follows a tile"
        return words * (self.length(length) > 0)

    def largest(self, words: Sequence[Any]) -> Any:
        """The largest at every point, or 0 for none."""
        return functools.reduce(np.maximum, words, 0)
