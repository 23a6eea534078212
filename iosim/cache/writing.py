"""Copies of templates as chunks of accesses: they are broadcast over where they start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from iosim.cache.copies import Copies
from iosim.cache.ground import Ground, Ints
from iosim.cache.layouts import Tiled
from iosim.cache.stream import Accesses

Marks = NDArray[np.bool_]


def chunks(many: Iterable[Copies], ground: Ground, chunk: int) -> Iterator[Accesses]:
    """All accesses, in chunks of `chunk`; the last one may be short."""
    writer = _Writer(chunk)
    late = _Late(ground) if ground.late else None
    for copies in many:
        if not (size := copies.template.size):
            continue
        base = copies.template.address + copies.start[copies.template.piece]
        marks = copies.template.write[copies.template.piece]
        done = 0
        while done < copies.times:
            rows = writer.room // size if late is None else max(1, chunk // size)
            rows = min(rows, copies.times - done)
            here = slice(done, done + max(rows, 1))
            if rows and late is None:
                address, write = writer.take(rows * size)
                _fill(address.reshape(rows, size), base, copies.moves, here)
                write.reshape(rows, size)[...] = marks
                done += rows
                if not writer.room:
                    yield writer.full()
                continue
            rows = max(rows, 1)
            found = np.empty((rows, size), np.int64)
            _fill(found, base, copies.moves, here)
            written = np.broadcast_to(marks, found.shape)
            done += rows
            if late is None:
                yield from writer.put(found.reshape(-1), written.reshape(-1))
            else:
                yield from writer.put(*late.units(copies, found, written))
    if writer.at:
        yield writer.full()


def _fill(
    out: NDArray[np.int64], base: Ints, moves: tuple[tuple[Ints, Ints], ...], here: slice
) -> None:
    """Row k of `out`: the base, moved by each variable's value the kth time."""
    if not moves:
        out[...] = base
        return
    (by, value), *others = moves
    np.multiply(value[here, None], by, out=out)
    out += base
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

    @property
    def room(self) -> int:
        return self.chunk - self.at

    def take(self, size: int) -> tuple[Ints, Marks]:
        """The next `size` accesses, to be filled in."""
        here = slice(self.at, self.at + size)
        self.at += size
        return self.address[here], self.write[here]

    def put(self, address: Ints, write: Marks) -> Iterator[Accesses]:
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
    """Words that become units when they are numbered: of tiled tensors, and lines."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.before = np.full(1, -1, np.int64)  # the last unit so far

    def units(self, copies: Copies, words: NDArray[np.int64], write: Marks) -> tuple[Ints, Marks]:
        """Some of the copies of a template, as accesses to units."""
        template = copies.template
        place = template.place[template.piece]
        for k, name in enumerate(self.ground.tiled):
            if (here := np.flatnonzero(place == k)).size:
                tensor = self.ground.tensors[name]
                assert isinstance(tensor.how, Tiled)
                offset = words[:, here] - tensor.start
                words[:, here] = tensor.start + tensor.how.place(offset, tensor.shape)
        if self.ground.unit == "words":
            return words.reshape(-1), write.reshape(-1)
        unit = np.concatenate([self.before, (words // self.ground.line).reshape(-1)])
        self.before = unit[-1:]
        keep = np.tile(template.first, words.shape[0]) | (unit[1:] != unit[:-1])
        return unit[1:][keep], write.reshape(-1)[keep]
