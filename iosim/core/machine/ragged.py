"""Splits iterations that run at once into groups whose buffers have equal shapes.

The machine runs the iterations of a grid loop as *lanes* of one array, and an array has one shape;
under a causal mask each lane's inner loop has a length of its own, so that lanes must be split.
`iosim.core.machine.interpreter` is the only caller: it asks `groups` and `group_iterations` which
lanes run together, `alike` and `parted` which have equal shapes, and runs each group inside `only`.
Groups may be chosen otherwise, since lanes are independent, as long as each lane meets its own
iterations in order; ``lanes=1`` groups nothing, and the tests compare with it.

Three lanes whose inner loops run over 2, 5 and 6 rows, 4 at a time.  Lane 0 has a short tile of 2
rows, and 1 and 2 each a full one, at once; their last tiles differ, and run one after the other:

>>> from types import SimpleNamespace
>>> state = SimpleNamespace(ragged="i", where={"i": Lanes(0, 3, 4)})
>>> steps = group_iterations(state, np.array([0, 0, 0]), np.array([2, 5, 6]), 4)
>>> [(lanes.tolist(), [(x.start, x.extent) for x in tiles]) for lanes, tiles in steps]
[([0], [(0, 2)]), ([1, 2], [(0, 4)]), ([1], [(4, 1)]), ([2], [(4, 2)])]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.errors import ProgramError
from iosim.core.machine import places
from iosim.core.machine.places import Lanes, Start, State
from iosim.core.program.index import Span, Tile, dims, unstacked
from iosim.core.program.ir import Alloc, Body, Load, Loop, Node


def groups(s: State, loop: Loop, start: int, stop: int, step: int) -> Iterator[Lanes]:
    """Split a loop into groups of equal tiles, as many at once as `lanes` allows."""
    outside = math.prod(s.where[tile].count for tile in s.batch if tile != loop.tile)
    buffer = max((_widest(s, n, {loop.tile: step}) for n in loop.body), default=1)
    most = max(1, s.lanes // (outside * buffer))
    full = (stop - start) // step
    for first in range(0, full, most):
        yield Lanes(start + first * step, min(most, full - first), step, first)
    if start + full * step < stop:
        yield Lanes(start + full * step, 1, stop - start - full * step, full)


def merge_iterations(s: State, loop: Loop, start: int, stop: int, step: int) -> Iterator[Lanes]:
    """The tiles of a loop whose iterations merge: as long as `lanes` allows."""
    for group in groups(s, loop, start, stop, step):
        extent = group.count * group.extent
        yield replace(group, count=1, extent=extent, merged=group.count)


def _widest(s: State, node: Node, inner: dict[Tile, int]) -> int:
    """The words of the largest buffer that one iteration makes itself.

    Args:
        inner: the extents of tiles whose loops are not open yet.
    """
    if isinstance(node, Loop):
        step = 1 if node.step is None else s.env[node.step]
        if (outer := node.tile.of) is not None:
            step = min(step, inner[outer] if outer in inner else s.where[outer].extent)
        return max((_widest(s, n, inner | {node.tile: step}) for n in node.body), default=1)
    if not isinstance(node, (Load, Alloc)):
        return 1
    words = 1
    for x in unstacked(dims(node.index)):
        if isinstance(x, Tile):
            words *= inner[x] if x in inner else s.where[x].extent
        elif any(edge.tile in inner for edge in x.edges):
            words *= s.env[x.axis]
        else:
            low, high = places.resolved(s, x)
            words *= int(np.max(high - low))
    return max(words, 1)


def flat(s: State, x: Start) -> Ints:
    """A number for every lane of the ragged loop."""
    assert s.ragged is not None
    return np.broadcast_to(np.ravel(x), s.where[s.ragged].count)


@contextmanager
def only(s: State, keep: Ints | None) -> Iterator[None]:
    """Inside, the lanes of the ragged loop are those with these numbers; None: all."""
    if keep is None or s.ragged is None or len(keep) == s.where[s.ragged].count:
        yield
        return
    at = s.batch.index(s.ragged)
    cut = (*[slice(None)] * at, _sliced(keep))
    where, arrays = s.where, s.arrays
    s.where = {tile: _narrowed(here, keep, tile == s.ragged) for tile, here in where.items()}
    s.arrays = {name: a.view() if a.shape[at] == 1 else a[cut] for name, a in arrays.items()}
    for a in s.arrays.values():
        a.flags.writeable = False  # what changes is another array, and is put back below
    given = dict(s.arrays)
    yield
    lanes = tuple(where[tile].count for tile in s.batch)
    for name, new in s.arrays.items():
        if new is given[name]:
            continue
        old = arrays[name]
        n = len(lanes)
        wide = np.broadcast_shapes(old.shape[:n], _without(new.shape[:n], at), _only(lanes, at))
        if wide != old.shape[:n] or not old.flags.writeable:
            old = np.broadcast_to(old, wide + old.shape[n:]).copy()
        old[cut] = new
        arrays[name] = old
    if gone := arrays.keys() - s.arrays.keys():
        raise ProgramError(f"{min(gone)} is freed in a loop inside its own: free it outside")
    s.where, s.arrays = where, arrays


def _without(shape: tuple[int, ...], at: int) -> tuple[int, ...]:
    return (*shape[:at], 1, *shape[at + 1 :])


def _only(shape: tuple[int, ...], at: int) -> tuple[int, ...]:
    return tuple(n if k == at else 1 for k, n in enumerate(shape))


def _sliced(keep: Ints) -> Ints | slice:
    """Numbers as a slice, which makes a view, where they follow one another."""
    first, last = int(keep[0]), int(keep[-1])
    return slice(first, last + 1) if last - first == len(keep) - 1 else keep


def _narrowed(here: Lanes, keep: Ints, ragged: bool) -> Lanes:
    if not ragged:
        if isinstance(here.start, int):
            return here
        return replace(here, start=places.one(here.start[keep]))
    return Lanes(
        _select_starts(here.start, here.extent, keep),
        len(keep),
        here.extent,
        _select_starts(here.number, 1, keep),
    )


def _select_starts(first: Start, step: int, keep: Ints) -> Start:
    """Some of the numbers from `first` on by `step`, or of an array; the first if they are so."""
    kept = first + step * keep if isinstance(first, int) else first[keep]
    return int(kept[0]) if (np.diff(kept) == step).all() else kept


def group_iterations(
    s: State, start: Start, stop: Start, step: int
) -> Iterator[tuple[Ints | None, Iterable[Lanes]]]:
    """The iterations of a loop that is no lanes itself: which lanes, and their tiles.

    Iterations that follow one another in the same lanes are given at once.
    """
    if isinstance(start, int) and isinstance(stop, int):
        every = enumerate(range(start, stop, step))
        yield None, (Lanes(at, 1, min(step, stop - at), number) for number, at in every)
        return
    first, stops = flat(s, start), flat(s, stop)
    lanes: Ints | None = None
    run: list[tuple[int, int]] = []
    for number, far in enumerate(range(0, int((stops - first).max(initial=0)), step)):
        extents = np.minimum(stops - first - far, step)
        for extent in np.unique(extents[extents > 0]):
            these = np.flatnonzero(extents == extent)
            if lanes is not None and not np.array_equal(these, lanes):
                yield lanes, _steps(first[lanes], step, run)
                run = []
            lanes = these
            run.append((number, int(extent)))
    if lanes is not None:
        yield lanes, _steps(first[lanes], step, run)


def _steps(first: Ints, step: int, run: list[tuple[int, int]]) -> Iterator[Lanes]:
    start = places.one(first)
    return (Lanes(start + step * number, 1, extent, number) for number, extent in run)


def alike(s: State, body: Body) -> Iterator[Ints | None]:
    """The lanes of the ragged loop, parted so that the buffers of a body have equal shapes."""
    if (spans := s.bodies.get(id(body))) is None:
        indices = [node.index for node in body if isinstance(node, (Load, Alloc))]
        spans = s.bodies[id(body)] = tuple(
            x for index in indices for x in unstacked(index) if isinstance(x, Span) and x.edges
        )
    ends = [places.resolved(s, x) for x in spans]
    yield from parted(s, [high - low for low, high in ends])


def parted(s: State, numbers: Iterable[Start]) -> Iterator[Ints | None]:
    """The lanes of the ragged loop, parted so that in each part each of these is one number."""
    differ = [flat(s, x) for x in map(places.one, numbers) if not isinstance(x, int)]
    if not differ:
        yield None
        return
    kinds, kind = np.unique(np.stack(differ), axis=1, return_inverse=True)
    for k in range(kinds.shape[1]):
        yield np.flatnonzero(np.ravel(kind) == k)
