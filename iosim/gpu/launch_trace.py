"""What the items of a launch move, box by box, in the order in which they ask for it.

A fold over the nests of an instance, in arrays: every loop multiplies the rows of a table, every
load or store gives each row a box.  Boxes that meet in part are cut where they meet, so that in the
end two *pieces* are equal or have no word in common.  Then a least recently used cache of bytes
can be replayed piece by piece (`iosim.cache.tiles`).

Items are numbered as the kernels do: where the last tiles of a loop take longest, they come first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Ints
from iosim.base.dtypes import word_bytes
from iosim.cache.address_map import resolved
from iosim.cache.shared import Order
from iosim.cache.tiles import Passes
from iosim.core.program import space
from iosim.core.program.block_masks import masks
from iosim.core.program.index import At, Edge, Number, Plain, Span, Tile, Within, unstacked
from iosim.core.program.ir import Load, Loop, Store
from iosim.core.program.walk import Instance
from iosim.gpu.emitter.kernels import EmitError
from iosim.gpu.emitter.nests import Body, chain, grows, nests
from iosim.gpu.run.job import Job

# Rows of the table, at most.
MOST_MOVES = 2**23


@dataclass(frozen=True, kw_only=True)
class LaunchMoves:
    """The pieces that a launch moves, sorted by item and by when the item asks for them.

    Attributes:
        items: program instances.
        item: of each move, its item.
        step: of each move, the number of its load or store among the item's.
        piece: of each move, what it moves.
        write: whether it stores.
        bytes: of each piece.
    """

    items: int
    item: Ints
    step: Ints
    piece: Ints
    write: NDArray[np.bool_]
    bytes: Ints

    @property
    def touched(self) -> int:
        """Bytes of all that it moves, each piece once."""
        return int(self.bytes[np.unique(self.piece)].sum())

    @property
    def loads(self) -> int:
        """Bytes that its items load, each for itself."""
        return int(self.bytes[self.piece[~self.write]].sum())

    @property
    def footprint(self) -> int:
        """Bytes that it has to read: pieces that are loaded before they are stored, each once.

        No item loads what another one of the same launch stores.
        """
        _, first = np.unique(self.piece, return_index=True)
        return int(self.bytes[self.piece[first[~self.write[first]]]].sum())

    @property
    def stored(self) -> int:
        """Bytes that it stores, each piece once."""
        return int(self.bytes[np.unique(self.piece[self.write])].sum())

    @property
    def shared(self) -> bool:
        """Whether an item loads what another one does."""
        both = np.unique(np.stack([self.piece[~self.write], self.item[~self.write]]), axis=1)
        return bool(np.unique(both[0]).size < both[0].size)

    def passes(self, order: Order) -> Passes:
        """Its moves as they follow one another."""
        lengths = np.zeros(self.items, np.int64)
        np.maximum.at(lengths, self.item, self.step + 1)
        when = order(np.maximum(lengths, 1))(self.item, 2 * self.step + 1)
        at = np.argsort(when, kind="stable")
        return Passes(self.piece[at], self.write[at], self.bytes)


def launches(job: Job) -> list[LaunchMoves]:
    """The launches of a job, in turn.

    Raises EmitError where positions are read from data, and for more than `MOST_MOVES` loads and
    stores of a launch.

    >>> (only,) = launches(Job("copy", {"n": 5}, {"B": 2}))
    >>> only.items, only.item.tolist(), only.write.tolist(), only.bytes.tolist()
    (3, [0, 0, 1, 1, 2, 2], [False, True, False, True, False, True], [4, 4, 2, 4, 4, 2])
    """
    return [launch(job, body) for body in nests(job.instance)]


@dataclass(frozen=True)
class _Open:
    """Rows of the table so far.

    Attributes:
        rows: how many.
        env: name → number, or an array with one for each row.
        numbers: tile → the number of its iteration, of each row.
        when: where it is: places in bodies and numbers of iterations, outermost first.
        item: of each row.
    """

    rows: int
    env: Mapping[Any, Any]
    numbers: Mapping[Tile, Ints]
    when: tuple[Any, ...]
    item: Ints


@dataclass(frozen=True)
class _Moved:
    """A load's or a store's rows."""

    tensor: str
    write: bool
    box: Ints  # (rows, 2 × axes): starts and stops in turn
    when: tuple[Any, ...]
    item: Ints


def launch(job: Job, body: Body) -> LaunchMoves:
    """One of a job's launches; raises what `launches` does."""
    instance = job.instance
    grid, inside = chain(body)
    at = _Open(1, instance.env, {}, (), np.zeros(1, np.int64))
    for loop in grid:
        at = _entered(instance, loop, at)
    # Items are numbered by the loops that grow first, and backwards.
    item, items = np.zeros(at.rows, np.int64), 1
    for loop in sorted(grid, key=lambda loop: not grows(loop)):
        trips, number = space.trips(loop, instance.env), at.numbers[loop.tile]
        item = item * trips + (trips - 1 - number if grows(loop) else number)
        items *= trips
    found: list[_Moved] = []
    _body(instance, inside, replace(at, item=item, when=()), found)
    return _pieces(job, found, items)


def _body(instance: Instance, body: Body, at: _Open, found: list[_Moved]) -> None:
    for k, node in enumerate(body):
        here = replace(at, when=(*at.when, k))
        if isinstance(node, Loop):
            _check(instance, sum(len(x.item) for x in found))
            _body(instance, node.body, _entered(instance, node, here), found)
        elif isinstance(node, (Load, Store)):
            ends = [x for y in unstacked(node.index) for x in _range(instance, y, here)]
            box = np.zeros((at.rows, len(ends)), np.int64)
            for column, x in enumerate(ends):
                box[:, column] = x
            full = np.flatnonzero((box[:, 1::2] > box[:, ::2]).all(axis=1))
            when = tuple(_select_rows(x, full) for x in here.when)
            store = isinstance(node, Store)
            found.append(_Moved(node.tensor, store, box[full], when, at.item[full]))


def _select_rows(x: Any, rows: Ints) -> Any:
    return x[rows] if isinstance(x, np.ndarray) else x


def _check(instance: Instance, rows: int) -> None:
    if rows > MOST_MOVES:
        raise EmitError(
            f"the programs of a launch of {instance.program.name} load and store more than "
            f"{MOST_MOVES:,} tiles, too many to follow: choose larger tiles, and say how many "
            "programs are resident"
        )


def _entered(instance: Instance, loop: Loop, at: _Open) -> _Open:
    """A row for each iteration of a loop that runs, of each row."""
    start, stop = (np.broadcast_to(x, at.rows) for x in resolved(loop.span, at.env))
    by = space.step(loop, at.env)
    trips = np.maximum(0, -(-(stop - start) // by))
    rows = int(trips.sum())
    _check(instance, rows)
    row = np.repeat(np.arange(at.rows), trips)
    number = np.arange(rows) - np.repeat(np.cumsum(trips) - trips, trips)
    if loop.marks is not None:
        over, _ = masks(instance.program)[loop.marks.name]
        of = np.broadcast_to(at.env[Edge(loop.marks.rows, "start")] // over.by(at.env), at.rows)
        runs = dict(instance.masks)[loop.marks.name].array[of[row], number]
        row, number = row[runs], number[runs]
    starts = start[row] + number * by
    env = {name: _select_rows(x, row) for name, x in at.env.items()}
    env |= {
        Edge(loop.tile, "start"): starts,
        Edge(loop.tile, "stop"): np.minimum(starts + by, stop[row]),
    }
    numbers = {tile: x[row] for tile, x in at.numbers.items()} | {loop.tile: number}
    when = (*(_select_rows(x, row) for x in at.when), number)
    return _Open(len(row), env, numbers, when, at.item[row])


def _range(instance: Instance, x: Plain, at: _Open) -> tuple[Any, Any]:
    match x:
        case Span():
            return resolved(x, at.env)
        case Tile():
            return at.env[Edge(x, "start")], at.env[Edge(x, "stop")]
        case Number(tile):
            return at.numbers[tile], at.numbers[tile] + 1
        case Within(tile):
            return 0, at.env[Edge(tile, "stop")] - at.env[Edge(tile, "start")]
        case At(buffer):
            raise EmitError(
                f"{instance.program.name} reads where {buffer} says, which is data, so what its "
                "programs share isn't known before a run: use a schedule without a table"
            )


def _pieces(job: Job, found: list[_Moved], items: int) -> LaunchMoves:
    """Boxes cut where they meet, numbered over all tensors, in the items' orders."""
    found = [one for one in found if one.item.size]
    when = _numbered([one.when for one in found], job)
    none = np.zeros(0, np.int64)
    columns, sizes, first = [(none,) * 4], [none], 0
    for name in dict.fromkeys(one.tensor for one in found):
        own = [(one, at) for one, at in zip(found, when, strict=True) if one.tensor == name]
        row, number, words = _cut(np.concatenate([one.box for one, _ in own]))
        wide = job.instance.program.tensor(name).wide
        sizes.append(words * word_bytes(job.dtype, wide))
        owner = np.concatenate([one.item for one, _ in own])
        keys = np.concatenate([np.broadcast_to(at, one.item.size) for one, at in own])
        writes = np.concatenate([np.full(one.item.size, one.write) for one, _ in own])
        columns.append((owner[row], keys[row], writes[row], first + number))
        first += words.size
    item, key, write, piece = map(np.concatenate, zip(*columns, strict=True))
    order = np.lexsort((key, item))
    item, key = item[order], key[order]
    fresh = np.ones(item.size, bool)  # the first of an item
    fresh[1:] = item[1:] != item[:-1]
    new = fresh.copy()  # the first piece of a load or a store
    new[1:] |= key[1:] != key[:-1]
    count = np.cumsum(new) - 1
    step = count - np.maximum.accumulate(np.where(fresh, count, 0))
    return LaunchMoves(
        items=items,
        item=item,
        step=step,
        piece=piece[order],
        write=write[order].astype(bool),
        bytes=np.concatenate(sizes),
    )


def _numbered(when: list[tuple[Any, ...]], job: Job) -> list[Any]:
    """Places and numbers as one number each, which grows with time."""
    deep = max(map(len, when), default=0)
    radix = [
        1 + max((int(np.max(one[k])) for one in when if k < len(one)), default=0)
        for k in range(deep)
    ]
    if math.prod(radix) >= 2**62:
        raise EmitError(f"{job.algorithm} moves too many tiles to number them: choose larger tiles")
    found = []
    for one in when:
        key: Any = 0
        for k, most in enumerate(radix):
            key = key * most + (one[k] if k < len(one) else 0)
        found.append(np.asarray(key))
    return found


def _cut(boxes: Ints) -> tuple[Ints, Ints, Ints]:
    """Pieces of boxes: of each its box, its number, and the words of each number."""
    row = np.arange(len(boxes))
    number, words = np.zeros(len(boxes), np.int64), np.ones(1, np.int64)
    for axis in range(boxes.shape[1] // 2):
        own = boxes[:, 2 * axis : 2 * axis + 2]
        ends, places = ranked(own)
        low, high = places.T
        times = (high - low)[row]
        inner = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
        row, number = np.repeat(row, times), np.repeat(number, times)
        number = number * (ends.size - 1) + low[row] + inner
        words = (words[:, None] * np.diff(ends)).reshape(-1)
    used, number = ranked(number)
    return row, number, words[used]


def ranked(values: Ints) -> tuple[Ints, Ints]:
    """Different values in order, and the place of each value among them.

    Where they lie close together they are marked in a table, since to sort millions takes seconds.

    >>> ranked(np.array([[7, 3], [3, 5]]))
    (array([3, 5, 7]), array([[2, 0],
           [0, 1]]))
    """
    low, high = (int(values.min()), int(values.max())) if values.size else (0, -1)
    if high - low >= 4 * values.size + 1024:
        found, place = np.unique(values, return_inverse=True)
        return found, place.reshape(values.shape)
    there = np.zeros(high - low + 1, bool)
    there[values - low] = True
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[values - low]
