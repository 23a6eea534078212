"""Copies of templates as chunks of accesses: they are broadcast over where they start."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.cache.copies import Copies
from iosim.cache.ground import Ground, Ints
from iosim.cache.layouts import Tiled
from iosim.cache.stream import Accesses
from iosim.cache.templates import KEPT, Template

Marks = NDArray[np.bool_]

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
        piece: of each access, the piece of its template.
    """

    base: Ints
    marks: Marks
    moves: tuple[tuple[Ints, Ints], ...]
    times: int
    piece: Ints


def chunks(many: Iterable[Copies], ground: Ground, chunk: int) -> Iterator[Accesses]:
    """All accesses, in chunks of `chunk`; the last one may be short."""
    writer = _Writer(chunk)
    for rows in _rows(many, ground):
        yield from writer.add(rows)
    if writer.at:
        yield writer.full()


def length(many: Iterable[Copies], ground: Ground) -> int:
    """How many accesses there are; those of many rows are not made."""
    return sum(rows.base.size * rows.times for rows in _rows(many, ground))


def _rows(many: Iterable[Copies], ground: Ground) -> Iterator[Rows]:
    late = _Late(ground)
    for copies in many:
        template = copies.template
        if ground.late:
            yield from late.rows(copies)
        elif template.size:
            base = template.address + copies.start[template.piece]
            marks = template.write[template.piece]
            yield Rows(base, marks, copies.moves, copies.times, template.piece)


def _fill(out: NDArray[np.int64], rows: Rows, here: slice) -> None:
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
                yield from self.put(one[0], rows.marks)
            done += max(whole, 1)
            if not self.room:
                yield self.full()

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
    """Words that become units when they are numbered: of tiled tensors, and lines.

    Where iterations lie against lines comes again after as many as a line has words at most, so
    that what is made of them is made once, and is as far from there as the words are.
    """

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.before = np.full(1, -1, np.int64)  # the last unit so far
        self.kept: dict[Any, tuple[Template, tuple[Rows, ...]]] = {}
        self.size = 0

    def rows(self, copies: Copies) -> Iterator[Rows]:
        """An access to each unit, of all copies of a template."""
        template, line = copies.template, self.ground.line
        if not template.size:
            return
        again = self.ground.unit == "lines" and template.first[0] and (template.place < 0).all()
        steps = _steps(copies) if again else None
        by = 0 if steps is None else _period(copies, steps, line)
        if not again or (not by and copies.times * template.size > AT_ONCE):
            yield from self._direct(copies)
            return
        low = copies.start % line
        key = (
            id(template),
            low.tobytes(),
            copies.times,
            tuple(
                (id(slope), value.tobytes() if steps is None else int(value[1]))
                for slope, value in copies.moves
            ),
        )
        if key not in self.kept:
            if self.size > KEPT:
                self.kept, self.size = {}, 0
            made = tuple(self._made(replace(copies, start=low), steps, by))
            self.kept[key] = template, made
            self.size += 64 + sum(rows.base.size for rows in made)
        up = copies.start // line
        for rows in self.kept[key][1]:
            yield replace(rows, base=rows.base + up[rows.piece])
        last = template.address[-1:] + copies.start[template.piece[-1:]]
        last += sum(slope[-1] * value[-1] for slope, value in copies.moves)
        self.before = last // line

    def _made(self, copies: Copies, steps: Ints | None, by: int) -> Iterator[Rows]:
        """A period, as often as it comes, and what is left; all copies at once where there is none.

        Args:
            steps: how far each piece moves from one copy to the next.
            by: after how many copies that is whole lines.
        """
        if steps is None or not by:
            yield from self._direct(copies)
            return
        (one,) = self._direct(replace(copies, times=by))
        often, rest = divmod(copies.times, by)
        far = steps * by // self.ground.line
        yield replace(one, moves=((far[one.piece], np.arange(often)),), times=often)
        if rest:
            start = copies.start + steps * (copies.times - rest)
            yield from self._direct(replace(copies, start=start, times=rest))

    def _direct(self, copies: Copies) -> Iterator[Rows]:
        """All copies one by one, some at once."""
        template = copies.template
        base = template.address + copies.start[template.piece]
        marks = template.write[template.piece]
        words = Rows(base, marks, copies.moves, copies.times, template.piece)
        rows = max(1, AT_ONCE // template.size)
        for done in range(0, copies.times, rows):
            here = slice(done, min(done + rows, copies.times))
            found = np.empty((here.stop - here.start, template.size), np.int64)
            _fill(found, words, here)
            address, keep = self._units(template, found)
            marked, piece = (np.tile(x, found.shape[0])[keep] for x in (marks, template.piece))
            yield Rows(address[keep], marked, (), 1, piece)

    def _units(self, template: Template, words: NDArray[np.int64]) -> tuple[Ints, Any]:
        """The unit of each word, and which words are accesses."""
        place = template.place[template.piece]
        for k, name in enumerate(self.ground.tiled):
            if (here := np.flatnonzero(place == k)).size:
                tensor = self.ground.tensors[name]
                assert isinstance(tensor.how, Tiled)
                offset = words[:, here] - tensor.start
                words[:, here] = tensor.start + tensor.how.place(offset, tensor.shape)
        if self.ground.unit == "words":
            return words.reshape(-1), slice(None)
        unit = np.concatenate([self.before, (words // self.ground.line).reshape(-1)])
        self.before = unit[-1:]
        return unit[1:], np.tile(template.first, words.shape[0]) | (unit[1:] != unit[:-1])


def _steps(copies: Copies) -> Ints | None:
    """How far each piece moves from one copy to the next; None where that isn't always as far."""
    template = copies.template
    far = np.zeros(template.write.size, np.int64)
    for slope, value in copies.moves:
        if (np.diff(value) != value[1]).any():
            return None
        # A slope is the same in all of a piece.
        moved = np.zeros_like(far)
        moved[template.piece] = slope
        far += moved * value[1]
    return far


def _period(copies: Copies, steps: Ints, line: int) -> int:
    """After how many copies all pieces have moved by whole lines; 0 where that is too many."""
    by = line // math.gcd(line, int(np.gcd.reduce(steps)))
    few = copies.times < 3 * by or by * copies.template.size > AT_ONCE
    return 0 if few else by
