"""Copies of templates as chunks of accesses: they are broadcast over where they start.

`of_program` and `leaps` call it.  ``tests/cache/test_cache_touches.py`` compares with a walker that
goes word by word.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from iosim.base.arrays import Bools, Ints
from iosim.cache.address_map import Ground
from iosim.cache.boxes import Boxes, Expanding
from iosim.cache.stream import CHUNK, Accesses
from iosim.cache.trace_walk import Copies

# Words that become units at once.
AT_ONCE = 2**18


@dataclass(frozen=True)
class Rows:
    """Accesses several times, each time at a distance.

    Attributes:
        base: the addresses of the first row.
        marks: which of them are written.
        moves: pairs of what is added to each address, and how often in each row.
        times: how many rows.
    """

    base: Ints
    marks: Bools
    moves: tuple[tuple[Ints, Ints], ...]
    times: int


def chunks(
    many: Iterable[Copies], ground: Ground, chunk: int, *, fast: bool = False
) -> Iterator[Accesses]:
    """All accesses, in chunks of `chunk`; the last one may be short.

    Args:
        fast: whether boxes become units in a compiled loop.
    """
    writer = _Writer(chunk)
    late = _Late(ground, writer, fast)
    for copies in many:
        template = copies.template
        if ground.late and template.size:
            yield from late.add(copies)
        elif template.size:
            base = template.address + copies.start[template.piece]
            marks = template.write[template.piece]
            yield from writer.add(Rows(base, marks, copies.moves, copies.times))
    if writer.at:
        yield writer.full()


def length(many: Iterable[Copies], ground: Ground, *, fast: bool = False) -> int:
    """How many accesses there are; lines of boxes are made to be counted."""
    if ground.late and ground.line > 1:
        return sum(part.address.size for part in chunks(many, ground, CHUNK, fast=fast))
    found = 0
    for copies in many:
        template = copies.template
        if ground.late:
            words = np.array([x.words for x in ground.kinds.all], np.int64)
            found += copies.times * int(words[template.kind[template.piece]].sum())
        else:
            found += copies.times * template.size
    return found


def placed(copies: Copies) -> Ints:
    """The address of each access, or the place of each box, (times, accesses)."""
    template = copies.template
    found = np.empty((copies.times, template.size), np.int64)
    base = template.address + copies.start[template.piece]
    _fill(found, Rows(base, base > 0, copies.moves, copies.times), slice(None))
    return found


def _fill(out: Ints, rows: Rows, here: slice) -> None:
    """Some rows: the base, moved by each variable's value."""
    if not rows.moves:
        out[...] = rows.base
        return
    (by, value), *others = rows.moves
    np.multiply(value[here, None], by, out=out)
    out += rows.base
    for by, value in others:
        out += value[here, None] * by


class _Writer:
    """A chunk that fills up."""

    def __init__(self, chunk: int) -> None:
        self.chunk = chunk
        self._new()

    def _new(self) -> None:
        self.address = np.empty(self.chunk, np.int64)
        self.write = np.empty(self.chunk, bool)
        self.at = 0

    def add(self, rows: Rows) -> Iterator[Accesses]:
        """Write rows, and give the chunks that are full."""
        size, done = rows.base.size, 0
        while size and done < rows.times:
            whole = min(self.room // size, rows.times - done)
            if whole:
                address, write = self.take(whole * size)
                _fill(address.reshape(whole, size), rows, slice(done, done + whole))
                write.reshape(whole, size)[...] = rows.marks
            else:  # no room for one: in pieces
                one = np.empty((1, size), np.int64)
                _fill(one, rows, slice(done, done + 1))
                yield from self.copy_accesses(one[0], rows.marks)
            done += max(whole, 1)
            if not self.room:
                yield self.full()

    @property
    def room(self) -> int:
        return self.chunk - self.at

    def take(self, size: int) -> tuple[Ints, Bools]:
        """The next `size` accesses, to be filled in."""
        here = slice(self.at, self.at + size)
        self.at += size
        return self.address[here], self.write[here]

    def copy_accesses(self, address: Ints, write: Bools) -> Iterator[Accesses]:
        """Copy accesses, and give the chunks that are full."""
        done = 0
        while done < address.size:
            size = min(self.room, address.size - done)
            to, marks = self.take(size)
            to[...] = address[done : done + size]
            marks[...] = write[done : done + size]
            done += size
            if not self.room:
                yield self.full()

    def full(self) -> Accesses:
        """What is filled; a new chunk begins."""
        found = Accesses(self.address[: self.at], self.write[: self.at])
        self._new()
        return found


class _Late:
    """Boxes that become units when they are written."""

    def __init__(self, ground: Ground, writer: _Writer, fast: bool) -> None:
        self.ground, self.writer = ground, writer
        self.expanding = Expanding() if fast else None

    def add(self, copies: Copies) -> Iterator[Accesses]:
        """Write the units of all copies of a template, and give the chunks that are full."""
        template = copies.template
        base = template.address + copies.start[template.piece]
        kind = template.kind[template.piece]
        if self.expanding is None:
            yield from self._plain(copies, base, kind)
            return
        by, value = np.empty((0, base.size), np.int64), np.empty((0, copies.times), np.int64)
        if copies.moves:
            by, value = (np.array(x, np.int64) for x in zip(*copies.moves, strict=True))
        boxes, state = Boxes(base, kind, by, value), np.zeros(3, np.int64)
        while state[0] < copies.times:
            writer = self.writer
            room = Accesses(writer.address[writer.at :], writer.write[writer.at :])
            writer.at += self.expanding.run(self.ground.kinds, boxes, state, room)
            if not writer.room:
                yield writer.full()

    def _plain(self, copies: Copies, base: Ints, kind: Ints) -> Iterator[Accesses]:
        """Word by word, some boxes at once."""
        words = np.array([x.words for x in self.ground.kinds.all])[kind]
        rows = max(1, AT_ONCE // int(words.sum()))
        part = np.cumsum(words) // AT_ONCE if rows == 1 else np.zeros(words.size, np.int64)
        ends = np.flatnonzero(np.diff(part, prepend=-1, append=part[-1] + 1)).tolist()
        for low in range(0, copies.times, rows):
            here = slice(low, min(low + rows, copies.times))
            for first, stop in itertools.pairwise(ends):
                some = slice(first, stop)
                moves = tuple((by[some], value) for by, value in copies.moves)
                place = np.empty((here.stop - here.start, stop - first), np.int64)
                _fill(place, Rows(base[some], base[:0] > 0, moves, copies.times), here)
                yield from self.writer.copy_accesses(*self._units(place, kind[some], words[some]))

    def _units(self, place: Ints, kind: Ints, words: Ints) -> tuple[Ints, Bools]:
        """The accesses of boxes at some places, (times, boxes), and whether they are writes."""
        ends = np.cumsum(words)
        unit = np.empty((place.shape[0], int(ends[-1])), np.int64)
        keep = np.empty(unit.shape, bool)
        marks = np.empty(unit.shape, bool)
        for k in np.unique(kind).tolist():
            own = np.flatnonzero(kind == k)
            what = self.ground.kinds.all[k]
            at = (ends[own, None] - what.words + np.arange(what.words)).reshape(-1)
            found, new = what.units(place[:, own].reshape(-1))
            unit[:, at] = found.reshape(place.shape[0], -1)
            keep[:, at] = new.reshape(place.shape[0], -1)
            marks[:, at] = what.write
        return unit[keep], marks[keep]
