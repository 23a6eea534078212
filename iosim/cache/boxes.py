"""Boxes of words as units: lines that tiles don't begin with, and words of tiled layouts.

Where words become units only when they have been numbered (`Ground.late`), a template has one entry
for each box and not one for each access.  A box lies at a *place*, one number: of tensors that lie
in order the address of its first word, of tiled ones the row, shifted to the left, and the column.
Both are affine in what is open, as every address is.  Which units a box covers depends on its place
against blocks and lines alone: `BoxKind.across` columns, or `BoxKind.down` rows, further on, its
units are the same ones at a distance.  So they are listed once for each such *phase*, and copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from iosim.base.arrays import Ints
from iosim.base.compiled import compiled
from iosim.cache.layouts import Tiled

Marks = NDArray[np.bool_]

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

    def units(self, at: Ints) -> tuple[Ints, Marks]:
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
        """What the compiled loop needs of it."""
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


# Where extents begin in what is told of a kind.
_EXTENTS = 15


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
    """What the compiled loop keeps: units of phases, in a table with open addresses."""

    def __init__(self) -> None:
        self.kind = np.full(PHASES, -1, np.int64)
        self.phase = np.zeros(PHASES, np.int64)
        self.first = np.zeros(PHASES, np.int64)
        self.count = np.zeros(PHASES, np.int64)
        self.pool = np.zeros(POOL, np.int64)
        self.digits = np.zeros(64, np.int64)
        # Units in the pool, phases in the table.
        self.used = np.zeros(2, np.int64)

    def run(
        self,
        kinds: Kinds,
        base: Ints,
        kind: Ints,
        by: Ints,
        value: Ints,
        state: Ints,
        address: Ints,
        write: Marks,
    ) -> int:
        """Write the accesses of boxes that come several times, up to what there is room for.

        Args:
            base, kind: of each box, its place and kind.
            by, value: (moves, boxes) and (moves, times): what is added to places.
            state: how often all have been written, how many boxes since, and units of the next.

        Returns:
            How many accesses were written; state says how far that is.
        """
        done: int = compiled(_expand)(
            kinds.table,
            base,
            kind,
            by,
            value,
            state,
            address,
            write,
            self.kind,
            self.phase,
            self.first,
            self.count,
            self.pool,
            self.digits,
            self.used,
        )
        return done


def _expand(
    told: Ints,
    base: Ints,
    kind: Ints,
    by: Ints,
    value: Ints,
    state: Ints,
    address: Ints,
    write: Marks,
    kinds: Ints,
    phases: Ints,
    firsts: Ints,
    counts: Ints,
    pool: Ints,
    digits: Ints,
    used: Ints,
) -> int:
    """As `Expanding.run` says."""
    times, boxes, moves = value.shape[1], base.size, by.shape[0]
    at: int = 0
    room: int = address.size
    t, e, within = state[0], state[1], state[2]
    while t < times:
        while e < boxes:
            k = kind[e]
            place = base[e]
            for m in range(moves):
                place += by[m, e] * value[m, t]
            row = place >> told[k, 0]
            column = place - (row << told[k, 0])
            up = told[k, 1]
            phase = 0
            if told[k, 2] > 1:
                far = _quotient(row, told[k, 2])
                row -= far * told[k, 2]
                up += far * told[k, 3]
                phase = row * told[k, 4]
            elif told[k, 0] != IN_ORDER:
                up += row * told[k, 3]
                row = 0
            if told[k, 4] > 1:
                far = _quotient(column, told[k, 4])
                column -= far * told[k, 4]
                up += far * told[k, 5]
                phase += column
            else:
                up += column * told[k, 5]
                column = 0
            if told[k, 0] == IN_ORDER and told[k, 11] == 0 and told[k, 12] == 1:
                if at == room:
                    state[0], state[1], state[2] = t, e, 0
                    return at
                address[at] = up  # one word: in one unit wherever it lies
                write[at] = told[k, 13] != 0
                at += 1
                e += 1
                continue
            slot = ((k * 40503 + phase) * 40503 >> 4) & (kinds.size - 1)
            while kinds[slot] >= 0 and (kinds[slot] != k or phases[slot] != phase):
                slot = (slot + 1) & (kinds.size - 1)
            if kinds[slot] < 0:
                words = told[k, 12] - told[k, 11]
                if used[0] + words > pool.size or 2 * used[1] >= kinds.size:
                    kinds[:] = -1
                    used[0], used[1] = 0, 0
                    slot = ((k * 40503 + phase) * 40503 >> 4) & (kinds.size - 1)
                kinds[slot], phases[slot], firsts[slot] = k, phase, used[0]
                counts[slot] = _list(told, k, row, column, pool, used[0], digits)
                used[0] += counts[slot]
                used[1] += 1
            first = firsts[slot] + within
            n = min(counts[slot] - within, room - at)
            marked = told[k, 13] != 0
            for j in range(n):
                address[at + j] = pool[first + j] + up
                write[at + j] = marked
            at += n
            within += n
            if within < counts[slot]:
                state[0], state[1], state[2] = t, e, within
                return at
            within = 0
            e += 1
        e = 0
        t += 1
    state[0], state[1], state[2] = t, e, within
    return at


def _quotient(number: int, by: int) -> int:
    """number // by, of numbers that are at least 0: processors divide floats much faster."""
    found = int(float(number) / float(by))
    while found * by > number:
        found -= 1
    while (found + 1) * by <= number:
        found += 1
    return found


def _list(told: Ints, k: int, row: int, column: int, pool: Ints, first: int, digits: Ints) -> int:
    """List the units of a box of kind k; returns how many."""
    low, high, axes, line = told[k, 11], told[k, 12], told[k, 14], told[k, 10]
    before = 1 if low > 0 and line > 1 else 0
    rest = low - before
    place = (row << told[k, 0]) + column
    for q in range(axes - 1, -1, -1):
        digits[q] = rest % told[k, _EXTENTS + q]
        rest //= told[k, _EXTENTS + q]
        place += digits[q] * told[k, _EXTENTS + axes + q]
    n, last = 0, -1
    for number in range(low - before, high):
        if told[k, 0] == IN_ORDER:
            unit = place // line
        else:
            y = place >> told[k, 0]
            x = place - (y << told[k, 0])
            down, across = y // told[k, 6], x // told[k, 7]
            unit = down * told[k, 8] + across * told[k, 9]
            unit += (y - down * told[k, 6]) * told[k, 7] + x - across * told[k, 7]
            unit //= line
        if number >= low and (line == 1 or unit != last):
            pool[first + n] = unit
            n += 1
        last = unit
        q = axes - 1
        while q >= 0:
            digits[q] += 1
            place += told[k, _EXTENTS + axes + q]
            if digits[q] < told[k, _EXTENTS + q]:
                break
            place -= digits[q] * told[k, _EXTENTS + axes + q]
            digits[q] = 0
            q -= 1
    return n
