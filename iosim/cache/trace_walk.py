"""The fold over a program's references: which templates follow one another, and where they start.

Loops whose iterations reference the same words at a distance are given at once; others, and those
of more than `LIMIT` accesses, run one by one.

`of_program` and `leaps` call it.  ``tests/cache/test_cache_touches.py`` compares with a walker that
goes word by word.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from iosim.base.arrays import Ints
from iosim.cache.address_map import Env, Ground, Variable, extent, resolved
from iosim.cache.references import Body, Position, Repeat, Straight
from iosim.cache.templates import Template, Templates
from iosim.core.program import space
from iosim.core.program.block_masks import masks
from iosim.core.program.index import At, Number, Plain, Span, Tile, Within
from iosim.core.program.ir import Loop
from iosim.core.program.walk import Instance

# Iterations whose places are computed at once.
TOGETHER = 2**14


@dataclass(frozen=True)
class Copies:
    """A template several times, each time where its variables say.

    Attributes:
        template: the accesses.
        start: what is added to each piece.
        moves: pairs of what a variable adds to each access, and its value each time.
        times: how many times.
    """

    template: Template
    start: Ints
    moves: tuple[tuple[Ints, Ints], ...] = ()
    times: int = 1


Item: TypeAlias = Callable[[], Iterator[Copies]]


@dataclass
class Walk:
    """A walk over an instance; `positions` are the tensors that say where to read."""

    instance: Instance
    ground: Ground
    positions: Mapping[str, Ints]

    def __post_init__(self) -> None:
        self.templates = Templates(self.ground)
        self.marked = dict(self.instance.masks)

    @property
    def top(self) -> Open:
        """Where nothing is open."""
        return Open(self.instance.env, {}, {})

    def all(self, body: Body) -> Iterator[Copies]:
        """What a program references, in turn."""
        yield from self.body(body, self.top)

    def items(self, body: Body) -> list[list[Item]]:
        """What may run at the same time: of each node at the top, the items of its grid.

        Loops of a grid that hold nothing but one another are one grid.
        """
        return [
            [partial(self._item, inside, at) for inside, at in self._grid((action,), self.top)]
            for action in body
        ]

    def _grid(self, body: Body, at: Open) -> Iterator[tuple[Body, Open]]:
        match body:
            case (Repeat(loop=loop) as repeat,) if loop.parallel:
                for one in self.iterations(repeat, at):
                    yield from self._grid(repeat.body, one)
            case _:
                yield body, at

    def _item(self, body: Body, at: Open) -> Iterator[Copies]:
        yield from self.body(body, replace(at, values=dict(at.values)))

    def body(self, body: Body, at: Open) -> Iterator[Copies]:
        """What some actions reference, in turn."""
        for action in body:
            match action:
                case Straight():
                    yield from self._block(action, at)
                case Position():
                    at.values[action.buffer] = int(self._read(action, at.env, at.values))
                case Repeat():
                    yield from self.repeat(action, at)

    def _block(self, block: Straight, at: Open) -> Iterator[Copies]:
        whole = self.templates.of(block, at.env, at.loops)
        if whole is not None:
            yield self._once(whole, at)
            return
        for part in self.templates.parts(block, at.env, at.loops):
            yield self._once(part, at)

    def _once(self, template: Template, at: Open) -> Copies:
        start = np.zeros(template.write.size, np.int64)
        for x, by in template.slopes.items():
            start += by * self._value(x, at.env, at.values)
        return Copies(template, start)

    def _value(self, x: Variable, env: Env, values: Mapping[Variable, Any]) -> Any:
        if isinstance(x, Span):
            return resolved(x, env)[0]
        return values[x]

    def repeat(
        self, repeat: Repeat, at: Open, low: int = 0, high: int | None = None
    ) -> Iterator[Copies]:
        """A loop, or its iterations from number low on, before high."""
        loop = repeat.loop
        start, stop = space.resolved(loop.span, at.env)
        step = space.step(loop, at.env)
        inner = {**at.loops, loop.tile: loop}
        for numbers in self._numbers(loop, at.env, low, high):
            starts = start + step * numbers
            stops = np.minimum(starts + step, stop)
            if not repeat.alike:
                yield from self._each(repeat, at, numbers, starts, stops)
                continue
            env = {**at.env, loop.tile.edges[0]: starts, loop.tile.edges[1]: stops}
            values: dict[Variable, Any] = {**at.values, loop.tile: numbers}
            for action in repeat.body:
                if isinstance(action, Position):
                    values[action.buffer] = self._read(action, env, values)
            extents = [stops - starts]
            extents += [extent(x, env) for x in repeat.spans]
            for low, high in _runs(extents, numbers.size):
                here = slice(low, high)
                one = space.inside(at.env, loop.tile, (int(starts[low]), int(stops[low])))
                template = None
                if high - low > 1 or not any(isinstance(x, Repeat) for x in repeat.body):
                    template = self.templates.of(repeat, one, inner)
                if template is None:
                    yield from self._each(repeat, at, numbers[here], starts[here], stops[here])
                elif template.size:
                    yield self._moved(template, env, values, here)

    def _moved(self, template: Template, env: Env, values: Env, here: slice) -> Copies:
        start = np.zeros(template.write.size, np.int64)
        moves: list[tuple[Ints, Ints]] = []
        for x, by in template.slopes.items():
            value = self._value(x, env, values)
            if not isinstance(value, np.ndarray):
                start += by * value
                continue
            value = value[here]
            start += by * value[0]
            if (far := template.slope(x)) is not None and (value != value[0]).any():
                moves.append((far, value - value[0]))
        return Copies(template, start, tuple(moves), here.stop - here.start)

    def _each(
        self, repeat: Repeat, at: Open, numbers: Ints, starts: Ints, stops: Ints
    ) -> Iterator[Copies]:
        """Iterations one by one."""
        for one in self._opened(repeat, at, numbers, starts, stops):
            yield from self.body(repeat.body, one)

    def iterations(
        self, repeat: Repeat, at: Open, low: int = 0, high: int | None = None
    ) -> Iterator[Open]:
        """What is open in each iteration of a loop, or in those of `repeat`."""
        start, stop = space.resolved(repeat.loop.span, at.env)
        step = space.step(repeat.loop, at.env)
        for numbers in self._numbers(repeat.loop, at.env, low, high):
            starts = start + step * numbers
            yield from self._opened(repeat, at, numbers, starts, np.minimum(starts + step, stop))

    def _opened(
        self, repeat: Repeat, at: Open, numbers: Ints, starts: Ints, stops: Ints
    ) -> Iterator[Open]:
        tile = repeat.loop.tile
        loops = {**at.loops, tile: repeat.loop}
        for number, start, stop in zip(
            numbers.tolist(), starts.tolist(), stops.tolist(), strict=True
        ):
            env = space.inside(at.env, tile, (start, stop))
            yield Open(env, loops, {**at.values, tile: number})

    def _numbers(
        self, loop: Loop, env: Mapping[Any, int], first: int = 0, past: int | None = None
    ) -> Iterator[Ints]:
        """The numbers of iterations that run, in pieces of up to `TOGETHER`."""
        if loop.marks is None:
            trips = space.trips(loop, env) if past is None else past
            for low in range(first, trips, TOGETHER):
                yield np.arange(low, min(low + TOGETHER, trips))
            return
        rows, _ = masks(self.instance.program)[loop.marks.name]
        row = env[loop.marks.rows.edges[0]] // rows.by(env)
        run = np.flatnonzero(self.marked[loop.marks.name].array[row])
        for low in range(0, run.size, TOGETHER):
            yield run[low : low + TOGETHER]

    def _read(self, position: Position, env: Env, values: Env) -> Any:
        where = tuple(_point(x, env, values) for x in position.index)
        return self.positions[position.tensor][where]


@dataclass(frozen=True)
class Open:
    """What is open: numbers and edges by name, the loops of tiles, and the values of variables."""

    env: Mapping[Any, int]
    loops: Mapping[Tile, Loop]
    values: dict[Variable, int]


def _point(x: Plain, env: Env, values: Env) -> Any:
    match x:
        case Tile():
            return env[x.edges[0]]
        case Number(tile):
            return values[tile]
        case At(buffer):
            return values[buffer]
        case Span() | Within():
            return 0  # of one position


def _runs(extents: list[Any], count: int) -> Iterator[tuple[int, int]]:
    """Where extents stay as they are: neighboring iterations from low on, before high."""
    change = np.zeros(max(0, count - 1), bool)
    for x in extents:
        if isinstance(x, np.ndarray):
            change |= x[1:] != x[:-1]
    ends = [0, *(np.flatnonzero(change) + 1).tolist(), count]
    yield from itertools.pairwise(ends)
