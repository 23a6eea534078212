"""Where the passes of a dense schedule run: places in its tree, with ranges in place of tiles.

Everything is a number here: loops have fixed bounds, and a pass covers a box whose place follows
from the numbers of the open loops alone.  A program of which that isn't true is refused, with the
reason.

`iosim.cache.closed` and `nests` use it.  ``tests/cache/test_cache_closed.py`` compares with
distances of the stream.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iosim.base.errors import InputError
from iosim.cache.references import Body, Piece, Repeat, Straight, Touch, touching
from iosim.core.program import space
from iosim.core.program.index import Number, Plain, Span, Tile, Within
from iosim.core.program.walk import Instance

Range = tuple[int, int]
Ranges = tuple[Range, ...]
Cut = tuple[int, int, int]


@dataclass(frozen=True)
class Steps:
    """A loop with fixed bounds: `trips` steps of `step` from `start` on, the last up to `stop`."""

    start: int
    stop: int
    step: int

    @functools.cached_property
    def trips(self) -> int:
        """How many iterations there are."""
        return -(-(self.stop - self.start) // self.step)

    @property
    def even(self) -> bool:
        """Whether all its iterations are equally long."""
        return (self.stop - self.start) % self.step == 0

    def covers(self, low: int, high: int) -> Range:
        """The positions of the iterations from number `low` up to `high`."""
        return self.start + low * self.step, min(self.start + high * self.step, self.stop)


@dataclass(frozen=True)
class Along:
    """How a pass lies along one axis: a fixed range, or where the loop of that depth is.

    Of a loop's *number* (`unit`) the position is the number itself.
    """

    fixed: Range = (0, 1)
    depth: int | None = None
    unit: bool = False


@dataclass(frozen=True)
class Place:
    """A place in the tree where a pass runs.

    Attributes:
        name: what it passes over; of a local array with that said.
        local: whether that is a local array, of which every pass covers a prefix.
        write: whether it writes.
        loops: the open loops, outermost first.
        path: where it, and before it each of these loops, is in its body.
        along: one for each axis of a tensor, or for each dimension of the array as it is.
    """

    name: str
    local: bool
    write: bool
    loops: tuple[Steps, ...]
    path: tuple[int, ...]
    along: tuple[Along, ...]

    def box(self, ranges: Ranges) -> Ranges:
        """What it covers while its loops' numbers run over some ranges."""
        found = []
        for x in self.along:
            if x.depth is None:
                found.append(x.fixed)
            elif x.unit:
                found.append(ranges[x.depth])
            else:
                found.append(self.loops[x.depth].covers(*ranges[x.depth]))
        return tuple(found)

    def size(self, ranges: Ranges) -> int:
        """The words of the largest single pass while its loops' numbers run over some ranges."""
        words = 1
        for x in self.along:
            if x.depth is None:
                words *= x.fixed[1] - x.fixed[0]
            else:
                low, _ = ranges[x.depth]
                start, stop = self.loops[x.depth].covers(low, low + 1)
                words *= stop - start
        return words


def places(instance: Instance) -> list[Place]:
    """Every place in a program's tree where a pass runs, in order.

    Raises InputError where what is touched is not the same in every iteration, and where two
    passes cover parts of a box without being equal.
    """
    if not isinstance(instance, Instance):
        raise InputError(f"passes of {type(instance).__name__}: bind() a program first")
    found: list[Place] = []
    actions = touching(instance.program)
    parted = frozenset(x.name for x in _parts(actions) if x.shape not in (None, x.index))
    _body(instance, actions, {}, (), (), parted, found)
    _check(instance, found)
    return found


def shapes(place: Place) -> list[tuple[Ranges, int]]:
    """The numbers with which a local array has each of its shapes, and the words of that."""
    uneven = {x.depth for x in place.along if x.depth is not None}
    parts: list[list[Range]] = []
    for depth, loop in enumerate(place.loops):
        if depth in uneven and not loop.even and loop.trips > 1:
            parts.append([(0, loop.trips - 1), (loop.trips - 1, loop.trips)])
        else:
            parts.append([(0, loop.trips)])
    return [(shape, place.size(shape)) for shape in itertools.product(*parts)]


def irregular(instance: Instance, why: str) -> InputError:
    """What is raised, with the reason."""
    return InputError(
        f"{instance.program.name} has no closed form of LRU's misses: {why}; replay its stream, or "
        "whole tiles"
    )


Open = Mapping[Tile, int]


def _body(
    instance: Instance,
    body: Body,
    open_: Open,
    loops: tuple[Steps, ...],
    path: tuple[int, ...],
    parted: frozenset[str],
    found: list[Place],
) -> None:
    """Add a body's places.

    Args:
        open_: the depths of open tiles' loops.
        loops: these loops.
        path: where each of them is.
        parted: the local arrays of which parts are used.
    """
    at = itertools.count()
    for action in body:
        match action:
            case Repeat():
                if own := _loop(instance, action):
                    inner = {**open_, action.loop.tile: len(loops)}
                    _body(
                        instance,
                        action.body,
                        inner,
                        (*loops, own),
                        (*path, next(at)),
                        parted,
                        found,
                    )
            case Straight():
                for touch in action.body:
                    if not _idle(instance, touch):
                        for part in touch.parts:
                            one = _place(instance, part, open_, loops, (*path, next(at)), parted)
                            if one.size(tuple((0, x.trips) for x in loops)):
                                found.append(one)
            case _:
                raise irregular(instance, f"{action.buffer} holds a position that is read")


def _parts(body: Body) -> Iterator[Piece]:
    for action in body:
        if isinstance(action, Repeat):
            yield from _parts(action.body)
        elif isinstance(action, Straight):
            yield from (part for touch in action.body for part in touch.parts)


def _loop(instance: Instance, repeat: Repeat) -> Steps | None:
    """A loop, or None of one that never runs."""
    loop = repeat.loop
    if loop.marks is not None:
        raise irregular(instance, f"a mask tells which iterations of {loop.tile} run")
    if loop.span.edges:
        raise irregular(instance, f"loop {loop.tile} follows an outer tile")
    start, stop = instance.span(loop.span)
    if start == stop:
        return None
    return Steps(start, stop, min(space.step(loop, instance.env), stop - start))


def _idle(instance: Instance, touch: Touch) -> bool:
    """Whether an operation has nothing to sum over."""
    spans = (x for dim in touch.over for x in dim if isinstance(x, Span) and not x.edges)
    return any(start == stop for start, stop in map(instance.span, spans))


def _place(
    instance: Instance,
    part: Piece,
    open_: Open,
    loops: tuple[Steps, ...],
    path: tuple[int, ...],
    parted: frozenset[str],
) -> Place:
    def along(x: Plain) -> Along:
        match x:
            case Span() if not x.edges:
                return Along(instance.span(x))
            case Tile():
                return Along(depth=open_[x])
            case Number(tile):
                return Along(depth=open_[tile], unit=True)
            case Within(tile) if loops[open_[tile]].even:
                return Along((0, loops[open_[tile]].step))
            case _:
                raise irregular(instance, f"{part.name}[{x}] isn't equally long everywhere")

    local = part.shape is not None and part.name not in parted
    if part.shape is None:
        found = [along(x) for x in part.index]
    else:
        found = [along(x) for x in part.shape]
    if part.shape is not None and not local:
        if any(x.depth is not None and not loops[x.depth].even for x in found):
            raise irregular(instance, f"{part.name} changes its shape, and parts of it are used")
        long = [own if own.depth is None else Along((0, loops[own.depth].step)) for own in found]
        found = [
            own if x == whole else along(x)
            for x, whole, own in zip(part.index, part.shape, long, strict=True)
        ]
    depths = [x.depth for x in found if x.depth is not None]
    if len(set(depths)) < len(depths):
        raise irregular(instance, f"one loop indexes two axes of {part.name}")
    # A local array may be called as a tensor is.
    name = part.name if part.shape is None else f"{part.name} (local)"
    return Place(name, local, part.write, loops, path, tuple(found))


def _check(instance: Instance, found: list[Place]) -> None:
    """Refuse boxes that are neither equal nor disjoint: cut differently along an axis."""
    cuts: dict[tuple[str, int], set[Cut]] = {}
    for place in found:
        if not place.local:
            for axis, x in enumerate(place.along):
                cuts.setdefault((place.name, axis), set()).add(cut(place, x))
    for (name, _), some in cuts.items():
        for one, other in itertools.combinations(sorted(some), 2):
            if max(one[0], other[0]) < min(one[1], other[1]):
                raise irregular(
                    instance,
                    f"{name} is used in tiles of {one[2]} and of {other[2]} along one axis",
                )


def cut(place: Place, x: Along) -> Cut:
    """Where the pieces of an axis start and stop, and how long they are."""
    if x.depth is None:
        return (*x.fixed, x.fixed[1] - x.fixed[0])
    loop = place.loops[x.depth]
    return (0, loop.trips, 1) if x.unit else (loop.start, loop.stop, loop.step)
