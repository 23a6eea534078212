"""What a program of a kernel reads more often than once, and by which lines.

Of a few programs of the grid the words of each line are compared: those that a line reads again by
itself, in a loop that doesn't move it or in a tile that has a word twice, and those that another
line has read before.

A tile that goes beyond an edge may also wrap: a remainder brings its last lanes back to the first
ones.  Which words that makes, two evaluations tell: in one of them these lanes are moved by one.

`iosim.kernel.count` calls it.  ``tests/kernel/test_findings.py`` has planted wastes, and a clean
kernel.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from iosim.base.arrays import Ints
from iosim.kernel.evaluate import CallValues, Reference, UnsupportedKernel, evaluate_waves
from iosim.kernel.ir import IrFunction, IrOperation, tile_shape, walk
from iosim.kernel.reuse import ReuseCounter
from iosim.kernel.semantics import OPERATIONS, Meaning, array_of, wrap
from iosim.kernel.values import GRID, Array, Value
from iosim.kernel.words import count_words


@dataclass(frozen=True)
class RepeatedRead:
    """Words of an argument that one program reads again.

    Attributes:
        argument: its name.
        line: of the source that reads again.
        before: the line that has read the same words before; the same one where it repeats itself.
        words: read by that line in the program.
        again: of those, read before.
        distinct: words of the argument that the program reads at all: the room that keeping them
            takes.
        within: whether one tile has words twice, as one that wraps at an edge has.
    """

    argument: str
    line: str
    before: str
    words: int
    again: int
    distinct: int
    within: bool = False

    def __str__(self) -> str:
        line, before = (x.rpartition(":")[2] or "?" for x in (self.line, self.before))
        part = f"{self.again:,} of {self.words:,} words of {self.argument} in a program"
        if self.within:
            return f"line {line} has words of {self.argument} twice in one tile: {part}"
        if line == before:
            why = f"line {line} reads the same words of {self.argument} again in a loop"
        else:
            why = f"line {line} reads words of {self.argument} that line {before} has read"
        return f"{why}: {part}; keeping them takes {self.distinct:,} words"


@dataclass(frozen=True)
class WrappedRead:
    """Words that one program reads because a remainder wraps its tile at an edge.

    Attributes:
        argument: its name.
        line: of the source that reads.
        words: read by that line in the program.
        extra: of those, at lanes beyond the edge.
    """

    argument: str
    line: str
    words: int
    extra: int

    def __str__(self) -> str:
        line = self.line.rpartition(":")[2] or "?"
        return (
            f"line {line} wraps at the edge of {self.argument}: {self.extra:,} words more than the "
            f"tensor's tile has, of {self.words:,} in a program"
        )


def find_wrapped_reads(functions: Mapping[str, IrFunction], call: CallValues) -> list[WrappedRead]:
    """What lines read beyond an edge, in the program of a few that does so the most.

    A remainder wraps where in all of these programs the tile is one of a row of tiles, and begins
    before the divisor, and where nothing needs the quotient.

    Raises:
        UnsupportedKernel: as `iosim.kernel.evaluate.evaluate`.
    """
    every = [op for f in functions.values() for op in walk(f.body)]
    if not any(op.name in _REMAINDERS and tile_shape(op.types[-1]) for op in every):
        return []
    divided = {op.operands for op in every if op.name in ("arith.divsi", "arith.divui")}
    moved: dict[str, Meaning] = dict.fromkeys(_REMAINDERS, partial(_move_wrapped, divided))

    def evaluate_both(x: Array, y: Array, z: Array) -> list[list[Reference]]:
        return [
            next(evaluate_waves(functions, call, [(x, y, z)], operations))
            for operations in (OPERATIONS, {**OPERATIONS, **moved})
        ]

    programs = _choose_programs(call)
    try:
        both = evaluate_both(*programs.T)
    except UnsupportedKernel:  # too large together
        programs = programs[-1:]
        both = evaluate_both(*programs.T)
    if [r.operation for r in both[0]] != [r.operation for r in both[1]]:
        return []  # what was moved steers the kernel
    words: Counter[tuple[str, str, int]] = Counter()
    extra: Counter[tuple[str, str, int]] = Counter()
    for reference, other in zip(*both, strict=True):
        pairs = zip(reference.offsets.arrays, other.offsets.arrays, strict=False)
        inside = tuple(x == y for x, y in pairs)
        if reference.kind != "load" or all(x.all() for x in inside):
            continue
        for i in range(len(programs)):
            key = reference.argument, reference.operation.location, i
            own = replace(reference, active=_select(reference, len(programs), i))
            words[key] += (n := count_words(own)[0])
            extra[key] += n - count_words(replace(own, masks=(*own.masks, *inside)))[0]
    found: dict[tuple[str, str], WrappedRead] = {}
    for (name, line, i), n in sorted(extra.items(), key=lambda x: x[1]):
        if n:
            found[name, line] = WrappedRead(name, line, words[name, line, i], n)
    return sorted(found.values(), key=lambda one: -one.extra)


_REMAINDERS = ("arith.remsi", "arith.remui")


def _move_wrapped(
    divided: Collection[tuple[str, ...]], op: IrOperation, a: Value, b: Value
) -> Value:
    """The remainder; lanes beyond the edge of a tensor are one further, if it wraps at one."""
    out = OPERATIONS[op.name](op, a, b)
    x, n, rest = array_of(a), array_of(b), array_of(out)
    long = [axis for axis in range(GRID, x.ndim) if x.shape[axis] > 1]
    if op.operands in divided or len(long) != 1 or n.size != math.prod(n.shape[:GRID]):
        return out
    first, lanes = x.take([0], long[0]), x.shape[long[0]]
    steps = np.arange(lanes).reshape([-1 if i == long[0] else 1 for i in range(x.ndim)])
    row_of_tiles = (x == first + steps).all() and not (first % lanes).any()
    if not row_of_tiles or (first < 0).any() or (first >= n).any():
        return out
    return wrap(np.where(x >= n, (rest + 1) % n, rest))


def _choose_programs(call: CallValues) -> Ints:
    """Programs at both ends and in the middle of the grid: x, y and z of each."""
    x, y, z = call.grid
    return np.array(
        list(dict.fromkeys([(x // 2, y // 2, z // 2), (0, 0, 0), (x - 1, y - 1, z - 1)]))
    )


def _select(reference: Reference, programs: int, i: int) -> Array:
    """Of some programs that a reference is active in, the one with a number."""
    found: Array = reference.active & (np.arange(programs).reshape(-1, 1, 1) == i)
    return found


def find_repeated_reads(
    functions: Mapping[str, IrFunction], call: CallValues
) -> list[RepeatedRead]:
    """The reads of one program that it has done before, the most words first.

    Of the programs at both ends and in the middle of the grid, each line's is the one that reads
    the most words again.

    Raises:
        UnsupportedKernel: as `iosim.kernel.evaluate.evaluate`.
    """
    most: dict[tuple[object, ...], RepeatedRead] = {}
    programs = _choose_programs(call)
    try:
        found = list(_read_again(functions, call, programs))
    except UnsupportedKernel:  # too large together, or for good
        found = [one for p in programs for one in _read_again(functions, call, p[None])]
    for one in found:
        key = one.argument, one.line, one.before, one.within
        if key not in most or one.again > most[key].again:
            most[key] = one
    return sorted(most.values(), key=lambda one: -one.again)


def _read_again(
    functions: Mapping[str, IrFunction], call: CallValues, programs: Ints
) -> Iterator[RepeatedRead]:
    """What each of some programs reads again; they are evaluated at once."""
    counters = [ReuseCounter(lambda r: (r.argument, r.operation.location)) for _ in programs]
    x, y, z = programs.T
    (references,) = evaluate_waves(functions, call, [(x, y, z)])
    for reference in references:
        if reference.kind != "load":
            continue
        for i, counter in enumerate(counters):
            own = _select(reference, len(programs), i)
            if own.any():
                counter(replace(reference, active=own))
    for counter in counters:
        arguments: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for site in counter.bases:
            arguments[site[0]].append(site)
        for sites in arguments.values():
            yield from _compare_lines(counter, sites)


def _compare_lines(
    counter: ReuseCounter, sites: Sequence[tuple[str, str]]
) -> Iterator[RepeatedRead]:
    """What the lines that read one argument read again."""
    room = counter.count_together(sites).distinct
    for at, site in enumerate(sites):
        name, line = site
        reuse = counter.count_together([site])
        words = sum(times * n for times, n in reuse.times.items())
        twice = counter.count_repeated(site)
        if twice:
            yield RepeatedRead(name, line, line, words, twice, room, True)
        if words - reuse.distinct > twice:
            yield RepeatedRead(name, line, line, words, words - reuse.distinct - twice, room)
        for other in sites[:at]:
            both = counter.count_together([site, other]).distinct
            shared = reuse.distinct + counter.count_together([other]).distinct - both
            if shared:
                yield RepeatedRead(name, line, other[1], words, shared, room)
                break
