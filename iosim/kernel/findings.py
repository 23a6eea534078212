"""What a program of a kernel reads more often than once, and by which lines.

Of a few programs of the grid the words of each line are compared: those that a line reads again by
itself, in a loop that doesn't move it or in a tile that has a word twice, and those that another
line has read before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iosim.base.arrays import Ints
from iosim.kernel.evaluate import CallValues, UnsupportedKernel, evaluate_waves
from iosim.kernel.ir import IrFunction
from iosim.kernel.reuse import ReuseCounter


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
    x, y, z = call.grid
    corners = dict.fromkeys([(x // 2, y // 2, z // 2), (0, 0, 0), (x - 1, y - 1, z - 1)])
    programs = np.array(list(corners))
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
            own = reference.active & (np.arange(len(programs)).reshape(-1, 1, 1) == i)
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
