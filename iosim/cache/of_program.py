"""Streams of a bound program: what it references, and what it moves.

`touches` and `transfers` are public; ``iosim cache``, `iosim.sweep.caches` and
`iosim.report.slope` call them, and so do `leaps` and `tiles`.  The order of accesses is the model:
``tests/cache/test_cache_touches.py`` compares it with a walker that goes word by word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.compiled import worth
from iosim.base.errors import InputError, closest
from iosim.base.rows import Values
from iosim.base.validate import check_size
from iosim.cache import layouts as layouts_
from iosim.cache.address_map import Env, Extents, Ground, Loops, Placed, row_strides
from iosim.cache.boxes import BoxKind
from iosim.cache.layouts import Layouts, Tiled, strides
from iosim.cache.phases import Phased, UnknownError
from iosim.cache.references import Body, Piece, positions_in, touching, transferring
from iosim.cache.stream import CHUNK, UNITS, Accesses, Region, Stream, Unit
from iosim.cache.templates import lines_of
from iosim.cache.trace_chunks import chunks, placed
from iosim.cache.trace_chunks import length as length_of
from iosim.cache.trace_length import (
    MOST,
    Measure,
    group_lanes,
    lanes,
    parts,
    total,
    words,
    words_of,
)
from iosim.cache.trace_walk import Item, Walk
from iosim.core.problem import check_positions, in_shape
from iosim.core.program.check import check
from iosim.core.program.walk import Instance


def touches(
    instance: Instance,
    *,
    unit: Unit = "words",
    line_words: int = 1,
    layouts: Layouts | None = None,
    positions: Values | None = None,
    chunk: int = CHUNK,
) -> Stream:
    """Every operand reference of an instance in order of execution, local arrays included.

    `iosim.cache.references` says what a reference is where no load is explicit.

    Args:
        instance: a program with its sizes, tiles and masks.
        unit: what an address stands for.  Of rows and lines, words of one operand that follow one
            another in the same one are one access.  A row is what lies in order in the tensor's
            layout, along the last axis (row-major) or the one before (column-major).
        line_words: how long a line is; with words, too, so that a cache with such lines finds no
            words of two tensors in one.
        layouts: by tensor, `"row-major"`, `"column-major"` or `Tiled(a, b)`; the rest is row-major.
        positions: by tensor, the words of those that say where to read (a page table).
        chunk: accesses in one chunk.

    Raises:
        InputError: for another unit, layout or tensor, and where positions are needed.
        ProgramError: for a program that has no clear meaning.

    >>> import iosim
    >>> program = iosim.algorithm("copy").program
    >>> stream = touches(iosim.bind(program, {"n": 3}, {"B": 2}))
    >>> [(region.name, region.start, region.words) for region in stream.regions]
    [('X', 0, 3), ('Y', 3, 3)]
    >>> (accesses,) = stream.chunks()
    >>> accesses.address.tolist()
    [0, 1, 3, 4, 2, 5]
    >>> accesses.write.tolist()
    [False, False, True, True, False, True]
    """
    return _stream(instance, touching, unit, line_words, layouts, positions, chunk)


def transfers(
    instance: Instance,
    *,
    unit: Unit = "words",
    line_words: int = 1,
    layouts: Layouts | None = None,
    positions: Values | None = None,
    chunk: int = CHUNK,
) -> Stream:
    """The explicit loads and stores of an instance, box by box: reads and writes of tensors.

    Arguments and errors are those of `touches`.

    >>> import iosim
    >>> program = iosim.algorithm("copy").program
    >>> (accesses,) = transfers(iosim.bind(program, {"n": 3}, {"B": 2})).chunks()
    >>> accesses.address.tolist()
    [0, 1, 3, 4, 2, 5]
    """
    return _stream(instance, transferring, unit, line_words, layouts, positions, chunk)


def items(
    instance: Instance,
    *,
    unit: Unit = "words",
    line_words: int = 1,
    layouts: Layouts | None = None,
    positions: Values | None = None,
    chunk: int = CHUNK,
) -> tuple[tuple[Stream, ...], ...]:
    """The transfers of each program instance: of every node at the top, its grid's items.

    A node is what a GPU calls a launch: its items may run at the same time, and the nodes run one
    after the other.  All streams are over one address space, that of `transfers`, whose accesses
    they are together.  A node without a grid is one item.  Arguments and errors are those of
    `transfers`.

    >>> import iosim
    >>> instance = iosim.bind(iosim.algorithm("copy").program, {"n": 3}, {"B": 2})
    >>> [[stream.length for stream in launch] for launch in items(instance)]
    [[4, 2]]
    """
    known = _Known.of(instance, transferring, unit, line_words, layouts, positions)
    chunk = check_size("chunk", chunk)

    def stream(item: Item) -> Stream:
        def generate_accesses() -> Iterator[Accesses]:
            return chunks(item(), known.ground, chunk, fast=known.fast)

        return known.stream(generate_accesses, length_of(item(), known.ground, fast=known.fast))

    walk = Walk(instance, known.ground, known.told)
    return tuple(tuple(map(stream, launch)) for launch in walk.items(known.body))


def walked(instance: Instance) -> tuple[Stream, Walk, Body]:
    """The stream of `touches`, by words, and the walk over references that makes it."""
    known = _Known.of(instance, touching, "words", 1, None, None)
    return touches(instance), Walk(instance, known.ground, known.told), known.body


def count(instance: Instance) -> int:
    """How many boxes `touches` passes over.

    >>> import iosim
    >>> count(iosim.bind(iosim.algorithm("copy").program, {"n": 5}, {"B": 2}))
    6
    """
    check(instance.program)
    return Measure(instance, parts).run(touching(instance.program)).length


def boxes(
    instance: Instance, *, positions: Values | None = None
) -> Iterator[tuple[Ints, list[BoxKind], int]]:
    """The boxes that `touches` passes over, in place of their words.

    Yields the addresses of their first words, (times · boxes) in order; what kinds of boxes, one
    after the other, these are; and how many times.

    >>> import iosim
    >>> program = iosim.algorithm("copy").program
    >>> [(at.tolist(), times) for at, _, times in boxes(iosim.bind(program, {"n": 5}, {"B": 2}))]
    [([0, 5, 2, 7], 2), ([4, 9], 1)]
    """
    known = _Known.of(instance, touching, "words", 1, None, positions)
    ground = replace(known.ground, late=True)
    for copies in Walk(instance, ground, known.told).all(known.body):
        if copies.template.size:
            kinds = copies.template.kind[copies.template.piece].tolist()
            yield placed(copies).reshape(-1), [ground.kinds.all[k] for k in kinds], copies.times


def _stream(
    instance: Instance,
    plan: Any,
    unit: Unit,
    line_words: int,
    layouts: Layouts | None,
    positions: Values | None,
    chunk: int,
) -> Stream:
    known = _Known.of(instance, plan, unit, line_words, layouts, positions)
    chunk = check_size("chunk", chunk)

    def generate_accesses() -> Iterator[Accesses]:
        walk = Walk(instance, known.ground, known.told)
        return chunks(walk.all(known.body), known.ground, chunk, fast=known.fast)

    length = known.length
    if unit == "lines" and known.ground.late:
        phased = Phased(known.ground, lanes(instance.program))
        try:
            length = Measure(instance, phased, phased.period).run(known.body).length
        except UnknownError:
            walk = Walk(instance, known.ground, known.told)
            length = length_of(walk.all(known.body), known.ground, fast=known.fast)
    return known.stream(generate_accesses, length)


@dataclass(frozen=True)
class _Known:
    """What is known of a stream before it is made; `length` is not, of late lines.

    Attributes:
        fast: whether it is long enough for a compiled loop.
    """

    body: Body
    told: dict[str, Ints]
    ground: Ground
    length: int
    line_words: int
    fast: bool

    @classmethod
    def of(
        cls,
        instance: Instance,
        plan: Any,
        unit: Unit,
        line_words: int,
        layouts: Layouts | None,
        positions: Values | None,
    ) -> _Known:
        if not isinstance(instance, Instance):
            raise InputError(f"a stream of {type(instance).__name__}: bind() a program first")
        if unit not in UNITS:
            raise InputError(f"unknown unit {unit!r}: {closest(str(unit), UNITS)}")
        line_words = check_size("line_words", line_words)
        check(instance.program)
        body = plan(instance.program)
        told = _positions(instance, body, positions)
        by_words = Measure(instance, words).run(body)
        ground = _ground(instance, by_words, unit, line_words, layouts)
        length = by_words.length
        if unit == "rows":
            length = Measure(instance, _Rows(ground)).run(body).length
        elif unit == "lines" and not ground.tiled:
            lines = _Lines(ground)
            length = Measure(instance, lines).run(body).length
            if not lines.aligned:
                ground = replace(ground, late=True)
        if ground.tiled:
            ground = replace(ground, late=True)
        line = 1 if unit == "rows" else line_words
        found = cls(body, told, ground, length, line, ground.late and worth(by_words.length))
        if max(length, *(place.region.stop for place in found.places)) > MOST:
            raise InputError(
                f"{length} accesses to {found.places[-1].region.stop} addresses are more than "
                "numbers of 64 bits can say: choose smaller sizes"
            )
        return found

    @property
    def places(self) -> tuple[Placed, ...]:
        return *self.ground.tensors.values(), *self.ground.arrays.values()

    def stream(self, made: Callable[[], Iterator[Accesses]], length: int) -> Stream:
        return Stream(
            made,
            max((place.region.stop for place in self.places), default=0),
            length,
            tuple(place.region for place in self.places),
            self.ground.unit,
            self.line_words,
        )


def _positions(instance: Instance, body: Body, given: Values | None) -> dict[str, Ints]:
    """The words of tensors that say where to read, checked."""
    needed = {x.tensor for x in positions_in(body)}
    for name in given or {}:
        if name not in needed:
            meant = closest(name, needed) if needed else "give none"
            raise InputError(f"{instance.program.name} reads no positions from {name!r}: {meant}")
    found: dict[str, Ints] = {}
    for name in sorted(needed):
        tensor = instance.program.tensor(name)
        if given is None or name not in given:
            raise InputError(
                f"{instance.program.name} reads where {name} says, which is data: in "
                f"Python, give positions={{{name!r}: array}}"
            )
        shape = tuple(instance.env[axis] for axis in tensor.axes)
        words = in_shape(tensor, given[name], shape)
        check_positions(tensor, words, instance.env[tensor.positions])
        found[name] = words.astype(np.int64)
    return found


def _ground(
    instance: Instance,
    words: Measure,
    unit: Unit,
    line_words: int,
    layouts: Layouts | None,
) -> Ground:
    """Tensors in the program's order, then local arrays, each from a whole line on."""
    shapes = {
        tensor.name: tuple(instance.env[axis] for axis in tensor.axes)
        for tensor in instance.program.tensors
    }
    hows = layouts_.checked(layouts, shapes)
    line = line_words if unit == "lines" else 1
    by = line_words if unit == "words" else 1
    at = 0
    tensors: dict[str, Placed] = {}
    arrays: dict[str, Placed] = {}

    def region(name: str, size: int, scratch: bool, rows: int, longest: int) -> Region:
        nonlocal at
        at = -(-at // by) * by
        if unit == "rows":
            found = Region(name, at, rows * longest, scratch, longest)
        else:
            found = Region(name, at, size, scratch, line)
        at = found.stop
        return found

    for name, shape in shapes.items():
        how = hows[name]
        if unit == "rows" and isinstance(how, Tiled):
            raise InputError(f"{name} is tiled and has no rows that lie in order: ask for lines")
        size = how.words(shape) if isinstance(how, Tiled) else math.prod(shape)
        row = (shape[-2] if how == "column-major" else shape[-1]) if shape else 1
        own = row_strides(shape, how) if unit == "rows" else strides(shape, how)
        placed = region(name, size, False, math.prod(shape) // row, row)
        start = 0 if isinstance(how, Tiled) else placed.start * line
        tensors[name] = Placed(placed, start, shape, own, how)
    for name, (size, rows, longest) in words.largest.items():
        placed = region(name, size, True, rows, max(1, longest))
        arrays[name] = Placed(placed, placed.start * line)
    return Ground(unit, line, tensors, arrays)


@dataclass(frozen=True)
class _Rows:
    """How many accesses to rows a part is."""

    ground: Ground

    def __call__(
        self,
        part: Piece,
        extents: Extents,
        env: Env,
        loops: Loops,
        times: Any,
    ) -> int:
        return total(times, self._rows(part, extents))

    def _rows(self, part: Piece, extents: Extents) -> Any:
        if not extents:
            return 1
        along = len(extents) - 1
        if part.shape is None:
            along = self.ground.tensors[part.name].strides.index(0)
        rows = math.prod(x for k, x in enumerate(extents) if k != along)
        rows = rows * np.greater(extents[along], 0)
        if along == len(extents) - 1:
            return rows
        # Of columns: the next word is in the next one, unless there is one only.
        return np.where(np.equal(extents[-1], 1), rows, words_of(extents))


@dataclass
class _Lines:
    """How many accesses to lines a part is, where none moves by less than a line.

    Attributes:
        aligned: whether that was so of every part.
    """

    ground: Ground
    aligned: bool = True
    known: dict[Any, int] = field(default_factory=dict)

    def __call__(
        self,
        part: Piece,
        extents: Extents,
        env: Env,
        loops: Loops,
        times: Any,
    ) -> int:
        return total(times, self._each(part, extents, env, loops))

    def _each(self, part: Piece, extents: Extents, env: Env, loops: Loops) -> Any:
        if not self.aligned or not self.ground.on_lines(part, env, loops):
            self.aligned = False
            return 0
        if part.shape is not None:
            return -(-words_of(extents) // self.ground.line)
        base, _ = self.ground.located(part, env, loops)
        if not any(isinstance(x, np.ndarray) for x in extents):
            return self._lines(part, base, extents)
        kinds, kind = group_lanes(np.broadcast_arrays(*extents))
        return np.array([self._lines(part, base, tuple(x)) for x in kinds])[kind]

    def _lines(self, part: Piece, base: int, extents: tuple[int, ...]) -> int:
        key = (part.name, base % self.ground.line, extents)
        if key not in self.known:
            self.known[key] = lines_of(
                base, extents, self.ground.tensors[part.name].strides, self.ground.line
            )
        return self.known[key]
