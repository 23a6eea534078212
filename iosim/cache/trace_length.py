"""How many accesses a program makes, and how large its local arrays get, without making any.

Loops whose tiles no span follows are multiplied; the iterations of the others are counted in
arrays.  So the time grows with the tiles that bounds follow, and not with the stream.
`iosim.cache.trace_walk` goes through the same references in order and makes what is counted here;
these are two walks, since here iterations are lanes of an array, in no order.

`of_program` calls it.  ``tests/cache/test_cache_parts.py`` compares with streams as they are
walked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.errors import InputError
from iosim.cache.address_map import Env, Extents, Loops, extent, resolved
from iosim.cache.references import Body, Piece, Position, Repeat, Straight, Touch
from iosim.core.program import space
from iosim.core.program.block_masks import masks, numbered_tiles
from iosim.core.program.index import Span, Tile
from iosim.core.program.ir import Loop, Program
from iosim.core.program.walk import Instance

# Iterations that are counted at once.
LANES = 2**18

# Addresses and their numbers are int64.
MOST = 2**62


class Counter(Protocol):
    """How many accesses a part is, in all lanes, by its extents and how often each lane runs.

    Extents and times are numbers, or arrays with one for each lane.
    """

    def __call__(
        self,
        part: Piece,
        extents: Extents,
        env: Env,
        loops: Loops,
        times: Any,
    ) -> int:
        """The sum over lanes."""
        ...


@dataclass
class Measure:
    """A walk that counts.

    Attributes:
        count: how many accesses a part is.
        again: a part this many positions, or iterations, further on counts alike.
        length: accesses.
        largest: of each local array, the words and the rows that it ever has, and its longest row.

    Raises InputError for a part whose words are more than `MOST`.
    """

    instance: Instance
    count: Counter
    again: int = 1
    length: int = 0
    largest: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.named = lanes(self.instance.program)
        self.marked = dict(self.instance.masks)

    def run(self, body: Body) -> Measure:
        """Count a program."""
        self._body(body, dict(self.instance.env), {}, 1)
        return self

    def _body(self, body: Body, env: Env, loops: Loops, times: Any) -> None:
        """Count a body.

        Args:
            env: name → number; edges of open tiles may be arrays, with a number for each lane.
            loops: the loops of open tiles.
            times: how often each lane runs.
        """
        for action in body:
            match action:
                case Straight():
                    for touch in action.body:
                        self._touch(touch, env, loops, times)
                case Repeat():
                    self._repeat(action, env, loops, times)
                case Position():
                    pass

    def _touch(self, touch: Touch, env: Env, loops: Loops, times: Any) -> None:
        for dim in touch.over:
            full = np.not_equal(words_of(tuple(extent(x, env) for x in dim)), 0)
            times = _multiplied(times, full)
        for part in touch.parts:
            extents = tuple(extent(x, env) for x in part.index)
            if np.any(times):
                self.length += self.count(part, extents, env, loops, times)
            if part.shape is not None:
                self._grow(part.name, tuple(extent(x, env) for x in part.shape), times)

    def _grow(self, name: str, shape: Extents, times: Any) -> None:
        runs = np.greater(times, 0)
        words, rows = words_of(shape), words_of(shape[:-1])
        longest = shape[-1] if shape else 1
        found = tuple(int(np.max(x * runs)) for x in (words, rows * (longest > 0), longest))
        held = self.largest.get(name, (0, 0, 0))
        self.largest[name] = tuple(map(max, found, held))  # type: ignore[assignment]

    def _repeat(self, repeat: Repeat, env: Env, loops: Loops, times: Any) -> None:
        loop = repeat.loop
        inner = {**loops, loop.tile: loop}
        start, stop = resolved(loop.span, env)
        step = space.step(loop, env)
        if loop.marks is not None:
            each = self._marked(loop, env, step)
        elif loop.tile not in self.named:
            full, rest = (stop - start) // step, (stop - start) % step
            each = [(full, step), (np.greater(rest, 0) * 1, rest)]
        else:
            self._lanes(repeat, env, inner, times, np.broadcast_arrays(start, stop))
            return
        for often, words in each:
            if np.any(often):
                here = _inside(env, loop.tile, start, start + words)
                self._body(repeat.body, here, inner, _multiplied(times, often))

    def _lanes(self, repeat: Repeat, env: Env, loops: Loops, times: Any, ends: Any) -> None:
        """Iterations that differ: each is a lane of its own."""
        tile, step = repeat.loop.tile, space.step(repeat.loop, env)
        lanes = max([np.size(times), *(np.size(y) for y in env.values())])
        starts, stops = (np.broadcast_to(x, lanes) for x in ends)
        times = np.broadcast_to(times, lanes)
        for lane, number in _each(-(-(stops - starts) // step)):
            first = starts[lane] + step * number
            outer = {x: y[lane] if np.ndim(y) else y for x, y in env.items()}
            here = _inside(outer, tile, first, np.minimum(first + step, stops[lane]))
            often = times[lane]
            if repeat.alike:
                here, often = self._distinct(here, loops, repeat.spans, often)
            self._body(repeat.body, here, loops, often)

    def _distinct(
        self, env: Env, loops: Loops, spans: tuple[Span, ...], times: Ints
    ) -> tuple[Env, Ints]:
        """One lane in place of all that count alike, with the sum of their times."""
        if float(times.sum(dtype=float)) >= 2**53:
            return env, times  # sums of weights are floats
        telling = [extent(x, env) for x in (*loops, *spans)]  # type: ignore[arg-type]
        if self.again > 1:
            starts = [env[x.edges[0]] for x in loops]
            starts += [resolved(x, env)[0] for x in spans]
            for x, loop in loops.items():
                first = resolved(loop.span, env)[0]
                starts.append((env[x.edges[0]] - first) // space.step(loop, env))
            telling += [x % self.again for x in starts]
        code = np.zeros(times.size, np.int64)
        kinds = 1
        for x in telling:
            if np.ndim(x) and x.size:
                low, high = int(x.min()), int(x.max())
                kinds *= high - low + 1
                if kinds > MOST:
                    return env, times
                code = code * (high - low + 1) + (x - low)
        if kinds > 4 * times.size:
            _, code = np.unique(code, return_inverse=True)
        often = np.bincount(code, times).astype(np.int64)
        one = np.zeros(often.size, np.int64)
        one[code] = np.arange(times.size)
        there = np.flatnonzero(often)
        return {x: y[one[there]] if np.ndim(y) else y for x, y in env.items()}, often[there]

    def _marked(self, loop: Loop, env: Env, step: int) -> list[tuple[Any, int]]:
        """How often a marked loop has a full iteration, and a short one, with their words."""
        assert loop.marks is not None
        rows, _ = masks(self.instance.program)[loop.marks.name]
        mask = self.marked[loop.marks.name].array
        row = env[loop.marks.rows.edges[0]] // rows.by(env)
        short = env[loop.span.axis] % step
        last = mask[row, -1] * 1 if short else 0
        return [(mask.sum(axis=1)[row] - last, step), (last, short)]


def lanes(program: Program) -> frozenset[Tile]:
    """The tiles whose iterations are counted one by one: spans and masks follow them."""
    return space.named_tiles(program) | numbered_tiles(program)


def words(part: Piece, extents: Extents, env: Env, loops: Loops, times: Any) -> int:
    """A counter of words."""
    return total(times, words_of(extents))


def parts(part: Piece, extents: Extents, env: Env, loops: Loops, times: Any) -> int:
    """A counter of parts that have words."""
    return total(times, np.minimum(words_of(extents), 1))


def group_lanes(sizes: Sequence[Ints]) -> tuple[list[list[int]], Ints]:
    """Lanes by their sizes: the sizes that occur, and of each lane the number of its own.

    >>> group_lanes([np.array([2, 1, 2]), np.array([5, 5, 5])])
    ([[1, 5], [2, 5]], array([1, 0, 1]))
    """
    kinds, kind = np.unique(np.stack(sizes, axis=-1), axis=0, return_inverse=True)
    return kinds.tolist(), kind.reshape(-1)


def words_of(shape: Extents) -> Any:
    """The words of a box.  Raises InputError where they are more than `MOST`."""
    if any(isinstance(x, np.ndarray) for x in shape):
        words = np.max(math.prod((np.asarray(x, float) for x in shape), start=np.float64(1)))
    else:
        words = math.prod(shape)
    if words > MOST:
        raise InputError(
            f"{int(words)} words at once are more than addresses have room for: choose smaller "
            "tiles"
        )
    return math.prod(shape)


def _multiplied(times: Any, by: Any) -> Any:
    """How often something runs, `by` times as often: a Python number, or an array.

    Raises InputError where numbers of an array are more than `MOST`.
    """
    if not isinstance(times, np.ndarray) and not isinstance(by, np.ndarray):
        return int(times) * int(by)
    if np.size(times) and np.size(by) and float(np.max(times)) * float(np.max(by)) > MOST:
        raise InputError(
            "a program with more iterations than numbers of 64 bits can say: choose smaller sizes"
        )
    return times * by


def total(times: Any, count: Any) -> int:
    """The sum of times × count over lanes, exactly."""
    if not isinstance(times, np.ndarray) and not isinstance(count, np.ndarray):
        return int(times) * int(count)
    times, count = np.broadcast_arrays(times, count)
    if float(np.dot(times.astype(float), count.astype(float))) < MOST:
        return int(np.dot(times, count))
    return sum(map(int.__mul__, times.tolist(), count.tolist()))


def _inside(env: Env, tile: Tile, start: Any, stop: Any) -> Env:
    return {**env, tile.edges[0]: start, tile.edges[1]: stop}


def _each(trips: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Pairs of a lane and a number of one of its iterations, in pieces of up to `LANES`."""
    ends = np.cumsum(trips)
    for low in range(0, int(ends[-1]) if ends.size else 0, LANES):
        k = np.arange(low, min(low + LANES, int(ends[-1])))
        lane = np.searchsorted(ends, k, side="right")
        yield lane, k - (ends - trips)[lane]
