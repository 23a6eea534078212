"""Boxes of words as units: lines that tiles don't begin with, and words of tiled layouts.

Where words become units only when they have been numbered (`Ground.late`), a template has one entry
for each box and not one for each access.  A box lies at a *place*, one number: of tensors that lie
in order the address of its first word, of tiled ones the row, shifted to the left, and the column.
Both are affine in what is open, as every address is.  Which units a box covers depends on its place
against blocks and lines alone: `BoxKind.across` columns, or `BoxKind.down` rows, further on, its
units are the same ones at a distance.  So they are listed once for each such *phase*, and copied.

`of_program`, `templates`, `trace_chunks` and `phases` call it.
``tests/cache/test_cache_touches.py`` compares with a walker that goes word by word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from iosim.base.arrays import Bools, Ints
from iosim.base.compiled import compiled
from iosim.cache.layouts import Tiled
from iosim.cache.stream import Accesses

# Places of tensors in order have no rows.
IN_ORDER = 62
# Units that are kept, and phases, a power of two of which half are used at most.
POOL = 2**20
PHASES = 2**16


@dataclass(frozen=True)
class BoxKind:
    """Boxes that cover the same units up to where they lie.

    Attributes:
        extents, strides: of each axis, in what places are counted in.
        low, high: the words of the box that are meant, in row-major order.
        write: whether they are written.
        line: words in a unit.
        how: of a tiled tensor its layout, and `wide`, the words of a row of blocks.
        start: what is added to each unit.
    """

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    low: int
    high: int
    write: bool
    line: int
    how: Tiled | None = None
    wide: int = 0
    shift: int = IN_ORDER
    start: int = 0

    @property
    def down(self) -> int:
        """After how many rows the same units come again."""
        if self.how is None:
            return 1
        return self.how.a * (self.line // math.gcd(self.line, self.wide))

    @property
    def across(self) -> int:
        """After how many columns."""
        if self.how is None:
            return self.line
        return self.how.b * (self.line // math.gcd(self.line, self.how.a * self.how.b))

    @property
    def words(self) -> int:
        """How many words are meant."""
        return self.high - self.low

    def unit(self, place: Ints) -> Ints:
        """The units of words at some places."""
        if self.how is None:
            return place // self.line
        a, b = self.how.a, self.how.b
        row, column = place >> self.shift, place & ((1 << self.shift) - 1)
        down, row = np.divmod(row, a)
        across, column = np.divmod(column, b)
        found: Ints = (down * self.wide + across * (a * b) + row * b + column) // self.line
        return found + self.start

    def units(self, at: Ints) -> tuple[Ints, Bools]:
        """The unit of each word of boxes at some places, and which are not the unit before.

        Args:
            at: (boxes,).

        Returns:
            Two arrays, (boxes, words).
        """
        # The word before tells what follows it.
        before = 1 if 0 < self.low < self.high and self.line > 1 else 0
        number = np.arange(self.low - before, self.high)
        unit = self.unit(at[:, None] + offsets(self.extents, self.strides, number))
        new = np.ones(unit.shape, bool)
        if self.line > 1:
            new[:, 1:] = unit[:, 1:] != unit[:, :-1]
        return unit[:, before:], new[:, before:]

    @property
    def compiled_fields(self) -> tuple[int, ...]:
        """What the compiled loop needs of it, by the numbers below."""
        a, b = (1, 1) if self.how is None else (self.how.a, self.how.b)
        blocks = (self.wide, a * b) if self.how else (0, 1)
        down, across = self.down, self.across
        return (
            self.shift,
            self.start,
            down,
            down // a * blocks[0] // self.line,
            across,
            across // b * blocks[1] // self.line,
            a,
            b,
            *blocks,
            self.line,
            self.low,
            self.high,
            self.write,
            len(self.extents),
            *self.extents,
            *self.strides,
        )


# Columns of the table of kinds: `shift`, `start`; `down` and `across`, each with the units that a
# box moves by then; sides of a block, words of a row of blocks, words of a block; words in a unit;
# `low`, `high` and `write`; how many axes, and then their extents and their strides.
_SHIFT, _START, _DOWN, _DOWN_UNITS, _ACROSS, _ACROSS_UNITS = range(6)
_A, _B, _WIDE, _BLOCK, _LINE, _LOW, _HIGH, _WRITE, _AXES, _EXTENTS = range(6, 16)


class Boxes(NamedTuple):
    """Boxes that come several times.

    Attributes:
        base, kind: of each box, its place and kind.
        by, value: (moves, boxes) and (moves, times): what is added to places.
    """

    base: Ints
    kind: Ints
    by: Ints
    value: Ints


class PhaseTable(NamedTuple):
    """Units of phases, in a table with open addresses.

    Attributes:
        kind, phase: what an entry is of; −1: of none.
        first, size: where its units begin in the pool, and how many there are.
        pool: units.
        digits: room for a number of an axis each.
        used: units in the pool, and entries.
    """

    kind: Ints
    phase: Ints
    first: Ints
    size: Ints
    pool: Ints
    digits: Ints
    used: Ints


def offsets(extents: Sequence[int], strides: Sequence[int], number: Ints) -> Ints:
    """How far words of a box are from its first, by their numbers in row-major order."""
    if number.size == math.prod(extents):
        found = np.zeros(1, np.int64)
        for n, stride in zip(extents, strides, strict=True):
            found = (found[:, None] + stride * np.arange(n)).reshape(-1)
        return found
    found = np.zeros(number.size, np.int64)
    for n, stride in zip(reversed(extents), reversed(strides), strict=True):
        number, at = np.divmod(number, n)
        found += stride * at
    return found


@dataclass
class Kinds:
    """A number for every kind."""

    all: list[BoxKind] = field(default_factory=list)
    numbers: dict[BoxKind, int] = field(default_factory=dict)
    _told: Ints = field(default_factory=lambda: np.zeros((0, _EXTENTS), np.int64))
    _rows: int = 0

    def number(self, kind: BoxKind) -> int:
        """The number of a kind, a new one if need be."""
        if kind not in self.numbers:
            self.numbers[kind] = len(self.all)
            self.all.append(kind)
        return self.numbers[kind]

    @property
    def table(self) -> Ints:
        """A row for each kind."""
        if self._rows < len(self.all):
            rows = [kind.compiled_fields for kind in self.all[self._rows :]]
            held, wide = self._told, max(self._told.shape[1], *map(len, rows))
            if len(held) < len(self.all) or held.shape[1] < wide:
                # Room for more, so that it isn't made again for every new one.
                self._told = np.zeros((2 * len(self.all), wide), np.int64)
                self._told[: self._rows, : held.shape[1]] = held[: self._rows]
            for k, row in enumerate(rows, self._rows):
                self._told[k, : len(row)] = row
            self._rows = len(self.all)
        return self._told


class Expanding:
    """What the compiled loop keeps."""

    def __init__(self) -> None:
        self.table = PhaseTable(
            kind=np.full(PHASES, -1, np.int64),
            phase=np.zeros(PHASES, np.int64),
            first=np.zeros(PHASES, np.int64),
            size=np.zeros(PHASES, np.int64),
            pool=np.zeros(POOL, np.int64),
            digits=np.zeros(64, np.int64),
            used=np.zeros(2, np.int64),
        )

    def run(self, kinds: Kinds, boxes: Boxes, state: Ints, room: Accesses) -> int:
        """Write the accesses of boxes, up to what there is room for.

        Args:
            state: how often all have been written, how many boxes since, and units of the next.

        Returns:
            How many accesses were written; state says how far that is.
        """
        done: int = compiled(_expand)(kinds.table, boxes, state, room, self.table)
        return done


def _expand(kinds: Ints, boxes: Boxes, state: Ints, room: Accesses, table: PhaseTable) -> int:
    """As `Expanding.run` says."""
    base, kind, by, value = boxes.base, boxes.kind, boxes.by, boxes.value
    address, write = room.address, room.write
    times, many, moves = value.shape[1], base.size, by.shape[0]
    at: int = 0
    size = address.size
    t, e, within = state[0], state[1], state[2]
    while t < times:
        while e < many:
            k = kind[e]
            place = base[e]
            for m in range(moves):
                place += by[m, e] * value[m, t]
            row, column, up = _reduce(kinds, k, place)
            marked = kinds[k, _WRITE] != 0
            if kinds[k, _SHIFT] == IN_ORDER and kinds[k, _LOW] == 0 and kinds[k, _HIGH] == 1:
                if at == size:
                    state[0], state[1], state[2] = t, e, 0
                    return at
                address[at] = up  # one word: in one unit wherever it lies
                write[at] = marked
                at += 1
                e += 1
                continue
            slot = _look_up(kinds, k, row, column, table)
            first = table.first[slot] + within
            n = min(table.size[slot] - within, size - at)
            for j in range(n):
                address[at + j] = table.pool[first + j] + up
                write[at + j] = marked
            at += n
            within += n
            if within < table.size[slot]:
                state[0], state[1], state[2] = t, e, within
                return at
            within = 0
            e += 1
        e = 0
        t += 1
    state[0], state[1], state[2] = t, e, within
    return at


def _reduce(kinds: Ints, k: int, place: int) -> tuple[int, int, int]:
    """The row and the column of a place of the same phase, and how many units further it lies."""
    row = place >> kinds[k, _SHIFT]
    column = place - (row << kinds[k, _SHIFT])
    up = kinds[k, _START]
    if kinds[k, _DOWN] > 1:
        far = _quotient(row, kinds[k, _DOWN])
        row -= far * kinds[k, _DOWN]
        up += far * kinds[k, _DOWN_UNITS]
    elif kinds[k, _SHIFT] != IN_ORDER:
        up += row * kinds[k, _DOWN_UNITS]
        row = 0
    if kinds[k, _ACROSS] > 1:
        far = _quotient(column, kinds[k, _ACROSS])
        column -= far * kinds[k, _ACROSS]
        up += far * kinds[k, _ACROSS_UNITS]
    else:
        up += column * kinds[k, _ACROSS_UNITS]
        column = 0
    return row, column, up


def _look_up(kinds: Ints, k: int, row: int, column: int, table: PhaseTable) -> Any:
    """The entry of a phase; where there is none, its units are listed."""
    last, phase = table.kind.size - 1, row * kinds[k, _ACROSS] + column
    start = ((k * 40503 + phase) * 40503 >> 4) & last
    slot = start
    while table.kind[slot] >= 0 and (table.kind[slot] != k or table.phase[slot] != phase):
        slot = (slot + 1) & last
    if table.kind[slot] >= 0:
        return slot
    used = table.used
    words = kinds[k, _HIGH] - kinds[k, _LOW]
    if used[0] + words > table.pool.size or 2 * used[1] > last:
        table.kind[:] = -1
        used[0], used[1] = 0, 0
        slot = start
    table.kind[slot], table.phase[slot], table.first[slot] = k, phase, used[0]
    table.size[slot] = _list(kinds, k, row, column, table)
    used[0] += table.size[slot]
    used[1] += 1
    return slot


def _quotient(number: int, by: int) -> int:
    """number // by, of numbers that are at least 0: processors divide floats much faster."""
    found = int(float(number) / float(by))
    while found * by > number:
        found -= 1
    while (found + 1) * by <= number:
        found += 1
    return found


def _list(kinds: Ints, k: int, row: int, column: int, table: PhaseTable) -> int:
    """List the units of a box of kind k; returns how many."""
    pool, digits, first = table.pool, table.digits, table.used[0]
    low, high, axes = kinds[k, _LOW], kinds[k, _HIGH], kinds[k, _AXES]
    line = kinds[k, _LINE]
    before = 1 if low > 0 and line > 1 else 0
    rest = low - before
    place = (row << kinds[k, _SHIFT]) + column
    for q in range(axes - 1, -1, -1):
        digits[q] = rest % kinds[k, _EXTENTS + q]
        rest //= kinds[k, _EXTENTS + q]
        place += digits[q] * kinds[k, _EXTENTS + axes + q]
    n, last = 0, -1
    for number in range(low - before, high):
        if kinds[k, _SHIFT] == IN_ORDER:
            unit = place // line
        else:
            y = place >> kinds[k, _SHIFT]
            x = place - (y << kinds[k, _SHIFT])
            down, across = y // kinds[k, _A], x // kinds[k, _B]
            unit = down * kinds[k, _WIDE] + across * kinds[k, _BLOCK]
            unit += (y - down * kinds[k, _A]) * kinds[k, _B] + x - across * kinds[k, _B]
            unit //= line
        if number >= low and (line == 1 or unit != last):
            pool[first + n] = unit
            n += 1
        last = unit
        q = axes - 1
        while q >= 0:
            digits[q] += 1
            place += kinds[k, _EXTENTS + axes + q]
            if digits[q] < kinds[k, _EXTENTS + q]:
                break
            place -= digits[q] * kinds[k, _EXTENTS + axes + q]
            digits[q] = 0
            q -= 1
    return n
