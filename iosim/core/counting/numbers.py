"""Closed forms on numbers: one instance in integers, or a million in arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Ints
from iosim.base.errors import InputError, closest
from iosim.base.rows import Values
from iosim.base.validate import LARGEST_SIZE
from iosim.core.counting.arrays import AtMost, OnArrays
from iosim.core.counting.closed import Level, close, highest
from iosim.core.counting.integers import OnInts
from iosim.core.counting.poly import Poly
from iosim.core.counts import Counts, Key
from iosim.core.problem import as_array, derive
from iosim.core.program.index import Tile
from iosim.core.program.ir import Program
from iosim.core.program.space import (
    Range,
    clipped,
    covered,
    inside,
    leasts,
    misplaced,
    resolved,
    step,
)
from iosim.core.program.walk import Instance, check_instance

# Words of a point, over all tensors; so sums of them stay in int64, too.
_MOST = 2**62

IntArray = Ints


def count(instance: Instance) -> Counts:
    """Words moved, exact, in time independent of the sizes.

    Raises ProgramError where the program has no closed form.

    >>> from iosim import algorithm, bind
    >>> sizes, tiles = {"N": 1024, "d": 64, "heads": 1}, {"B_r": 171, "B_c": 9}
    >>> counts = count(bind(algorithm("flash2").program, sizes, tiles))
    >>> counts.total_words, counts["load", "K"]
    (917504, 393216)
    """
    check_instance("count", instance)
    value = functools.cache(OnInts(instance.env))  # tensors share sums
    closed = close(instance.program)
    return Counts.of({key: int(poly.evaluate(value)) for key, poly in closed.counts.items()})


def peak(instance: Instance) -> int:
    """The largest number of words resident at once, exact.

    >>> from iosim import algorithm, bind
    >>> sizes, tiles = {"N": 1024, "d": 64, "heads": 1}, {"B_r": 171, "B_c": 9}
    >>> peak(bind(algorithm("flash2").program, sizes, tiles))
    24345
    """
    check_instance("peak", instance)
    return int(highest(close(instance.program).peak, OnInts(instance.env)))


@dataclass(frozen=True)
class PeakAt:
    """Where the most words are resident.

    Attributes:
        words: how many.
        tiles: the range that each open tile covers, by its variable, outermost first.
        buffers: the names of what is resident.
    """

    words: int
    tiles: dict[str, Range]
    buffers: tuple[str, ...]


def peak_moves(program: Program) -> bool:
    """Whether another iteration than the first ones may have the peak.

    Loops that follow tiles and loops under a block mask may have it anywhere.

    >>> from iosim import algorithm
    >>> peak_moves(algorithm("flash2").program), peak_moves(algorithm("block_sparse").program)
    (False, True)
    """
    return any(level.over or level.block is not None for level in close(program).peak)


def peak_at(instance: Instance) -> PeakAt:
    """An iteration that has the peak, and what it holds: the first of equal ones of a place.

    Raises InputError for what is not an instance.

    >>> from iosim import Attention, algorithm, bind
    >>> problem = Attention(10, 2, causal=True)
    >>> program = algorithm("flash2").program_for(problem)
    >>> print(peak_at(bind(program, problem.sizes, {"B_r": 4, "B_c": 6})).tiles)
    {'h': (0, 1), 'i': (4, 8), 'j': (0, 6)}
    """
    check_instance("peak_at", instance)
    best = PeakAt(0, {}, ())
    for level in close(instance.program).peak:
        words, env = OnInts(instance.env).most_at(level)
        if words <= best.words:
            continue
        tiles: dict[str, Range] = {}
        marked = _marked(instance, level)
        for loop in level.loops:
            if loop not in level.over:  # its first iteration has the most, of those that run
                start, stop = resolved(loop.span, env)
                start += marked.get(loop.tile, 0) * step(loop, env)
                env = inside(env, loop.tile, (start, min(start + step(loop, env), stop)))
            tiles[loop.tile.var] = covered(loop.tile, env)
        best = PeakAt(words, tiles, level.held)
    return best


def _marked(instance: Instance, level: Level) -> dict[Tile, int]:
    """Numbers of the tiles of the first pair that a block mask marks where a level is."""
    for loop in level.loops:
        if loop.marks is not None and level.block is not None:
            pair = dict(instance.masks)[loop.marks.name].first_pair(*level.block)
            return dict(zip((loop.marks.rows, loop.tile), pair, strict=True))
    return {}


def count_many(program: Program, columns: Values) -> dict[Key, Ints]:
    """Count many instances at once.

    Args:
        columns: a scalar or an int64 array for every axis and tile parameter, broadcast
            together.  Tiles are clipped to their axis, as `bind` does.  Of a block mask they are
            its four numbers (`iosim.core.program.block_masks`), as in the values of an instance.

    Returns:
        ``{(direction, tensor): words}``, int64 arrays of the common shape.

    Raises:
        InputError: a column is missing, below its least value, or the words of a point exceed
            2**62.

    >>> from iosim import algorithm
    >>> columns = {"N": [512, 1024], "d": 64, "heads": 1, "B_r": 171, "B_c": 9}
    >>> count_many(algorithm("flash2").program, columns)["load", "K"].tolist()
    [98304, 393216]
    """
    clean, shape = _columns(program, columns)
    counts = close(program).counts

    def one(value: OnInts) -> list[int]:
        return [int(poly.evaluate(value)) for poly in counts.values()]

    def many(value: OnArrays) -> list[Any]:
        return [poly.evaluate(value) for poly in counts.values()]

    words = _evaluated(clean, shape, list(counts.values()), many, one)
    return dict(zip(counts, words, strict=True))


def peak_many(program: Program, columns: Values) -> Ints:
    """The exact peaks of many instances at once; arguments and errors as for `count_many`.

    >>> from iosim import algorithm
    >>> columns = {"N": [512, 1024], "d": 64, "heads": 1, "B_r": [100, 171], "B_c": 9}
    >>> peak_many(algorithm("flash2").program, columns).tolist()
    [14476, 24345]
    """
    clean, shape = _columns(program, columns)
    levels = close(program).peak

    def one(value: OnInts) -> list[int]:
        return [int(highest(levels, value))]

    def many(value: OnArrays) -> list[Any]:
        return [highest(levels, value)]

    (words,) = _evaluated(clean, shape, [level.words for level in levels], many, one)
    return words


def _evaluated(
    columns: Mapping[str, NDArray[Any]],
    shape: tuple[int, ...],
    polys: list[Poly],
    many: Callable[[OnArrays], list[Any]],
    one: Callable[[OnInts], list[int]],
) -> list[Ints]:
    """Words at every point: in int64 where no term can pass it, or else in Python's integers.

    Args:
        polys: what is evaluated, whose magnitudes tell.

    Raises InputError where the words of a point pass 2**62.
    """
    sizes = sum((magnitude(poly, columns) for poly in polys), np.float64(0))
    large = np.flatnonzero(np.broadcast_to(sizes > _MOST, shape))
    if not len(large):
        every = many(OnArrays(columns))
        return [np.broadcast_to(np.asarray(x, np.int64), shape) for x in every]
    flat = {name: np.broadcast_to(column, shape).ravel() for name, column in columns.items()}
    exact = []
    for k in large.tolist():
        exact.append(one(OnInts({name: int(column[k]) for name, column in flat.items()})))
        if sum(exact[-1]) > _MOST:
            raise InputError(
                f"counts up to {sum(exact[-1]):.2e} words exceed 2**62: count these one at a time"
            )
    rest = np.ones(math.prod(shape), bool)
    rest[large] = False
    small = many(OnArrays({name: column[rest] for name, column in flat.items()}))
    found = []
    for k, some in enumerate(small):
        words = np.zeros(len(rest), np.int64)
        words[rest], words[large] = some, [row[k] for row in exact]
        found.append(words.reshape(shape))
    return found


def magnitude(poly: Poly, columns: Values) -> Any:
    """The sum of the magnitudes of a polynomial's terms, in float64: at least its value.

    Args:
        columns: name → array.
    """
    value = AtMost({name: np.asarray(v, np.float64) for name, v in columns.items()})
    return np.asarray(Poly({m: abs(c) for m, c in poly.terms.items()}).evaluate(value), np.float64)


def _columns(program: Program, columns: Values) -> tuple[dict[str, NDArray[Any]], tuple[int, ...]]:
    clean = check_columns(program, columns)
    return clean, np.broadcast_shapes(*(c.shape for c in clean.values()))


def check_named(program: Program, columns: object) -> None:
    """Raise InputError unless columns are given by name."""
    if not isinstance(columns, Mapping):
        raise InputError(
            f"{program.name} takes columns by name, got {type(columns).__name__}: give a dict"
        )


def check_columns(
    program: Program, columns: Values, free: Collection[str] = ()
) -> dict[str, NDArray[Any]]:
    """Columns as `bind` would take them, tiles clipped to their axis.

    Args:
        free: parameters that may be left out.

    Raises:
        InputError: a column is missing, unknown or out of range.
    """
    check_named(program, columns)
    lows = leasts(program)
    if missing := sorted(set(lows) - set(columns) - set(free)):
        raise InputError(f"{program.name} needs the columns {', '.join(missing)}: give them")
    if unknown := sorted(set(columns) - set(lows)):
        raise InputError(f"{program.name} has no size {unknown[0]!r}: {closest(unknown[0], lows)}")
    clean: dict[str, NDArray[Any]] = {}
    for name, low in lows.items():
        if name not in columns:
            continue
        column = as_array(f"column {name}", columns[name])
        whole = np.issubdtype(column.dtype, np.integer)
        if not whole or (column.size and not low <= column.min() <= column.max() <= LARGEST_SIZE):
            raise InputError(f"column {name} must hold integers in {low}..{LARGEST_SIZE} (2**40)")
        clean[name] = column.astype(np.int64)
    try:
        np.broadcast_shapes(*(column.shape for column in clean.values()))
    except ValueError:
        said = ", ".join(f"{name} {c.shape}" for name, c in clean.items() if c.shape)
        raise InputError(
            f"columns of shapes that do not fit together ({said}): give equal lengths"
        ) from None
    clean = clipped(program, clean, np.minimum)
    if span := misplaced(program, clean, np.any):
        raise InputError(
            f"{program.name} uses {span.axis}[{span}], which does not lie inside for some rows"
        )
    return derive(program.derived, clean)
