"""A schedule's run as moments to be shown: chosen by words moved, and never held whole.

Between two moments whole iterations are passed over: what they move is counted, once for all
iterations of equal extents, and not walked.  So the time grows with the moments, and hardly with
the sizes; the moments are those of a walk through every step, which tests hold them against.

`iosim.lab.shots` makes frames of movies with it, for ``iosim export``.  What a step is, and which
line of the listing it has, is told by `iosim.core.counting.show`.

Changing this file: a new node of programs is a case of `_Run._step` and of `_Run._sums`, and both
must agree.  ``tests/lab/test_export.py`` compares moments with a walk through every step.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from iosim.core.counts import Direction, Key
from iosim.core.program.block_masks import masks
from iosim.core.program.index import Edge, Tile, dims
from iosim.core.program.ir import Alloc, Free, Load, Loop, Node, Op, Program, Store
from iosim.core.program.space import (
    Env,
    Range,
    covered,
    inside,
    named_tiles,
    resolved,
    running,
    step,
)
from iosim.core.program.walk import Instance, Transfer, ranges

# This many transfers before a moment are its trail.
TRAIL = 24
# Sums over iterations that are kept; then they are taken again.
_KEPT = 2**17


@dataclass(frozen=True)
class ResidentBuffer:
    """What is resident: its name, its words, and where it was loaded from, if it was."""

    name: str
    words: int
    origin: Transfer | None


@dataclass(frozen=True)
class Moment:
    """What is resident after a step.

    Attributes:
        line: of the listing (`iosim.core.counting.show.listing`), from 0; its first line is the
        title.
        transfer: what the step moved, if it did.
        trail: the transfers before, oldest first, at most `TRAIL`; the step's own is the last.
        buffers: what is resident, in the order in which it came.
        counts: words moved so far, by direction and tensor.
        transfers: how many there were so far.
    """

    line: int
    transfer: Transfer | None
    trail: tuple[Transfer, ...]
    buffers: tuple[ResidentBuffer, ...]
    counts: Mapping[Key, int]
    transfers: int

    @property
    def words(self) -> int:
        """Words moved so far, in either direction."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Size:
    """How long a run is: transfers, and steps (every line that is no loop)."""

    transfers: int
    steps: int


def size(instance: Instance) -> Size:
    """How many transfers and steps an instance makes, without walking them."""
    run = _Run(instance)
    total = run.sums(run.body, run.env)
    return Size(total.transfers, total.steps)


def every_step(instance: Instance) -> Iterator[Moment]:
    """The moment after each step."""
    run = _Run(instance)
    yield from run.walk(run.body, run.env, {})


def sampled(instance: Instance, targets: Iterable[int]) -> Iterator[Moment]:
    """For each number of words, ascending, the moment at which this many have been moved.

    A target of 0 or one that falls inside a transfer gives the moment after that transfer; those
    beyond the last word give the last transfer.

    >>> from iosim import algorithm, bind
    >>> copy = bind(algorithm("copy").program, {"n": 2**30}, {"B": 2})
    >>> [(m.words, m.transfer.ranges) for m in sampled(copy, [0, 2**30 + 1])]
    [(2, ((0, 2),)), (1073741826, ((536870912, 536870914),))]
    """
    run = _Run(instance)
    total = run.sums(run.body, run.env)
    # Words before a target within which its trail lies, if all but a few transfers are alike.
    # The 1 keeps those that move no word, of a run that moves none.
    window = 2 * TRAIL * -(-total.words // max(1, total.transfers)) + 2 * total.largest + 1
    ahead = iter(targets)
    target = next(ahead, None)
    if target is None:
        return
    run.quiet = min(target, total.words) - window
    for moment in run.walk(run.body, run.env, {}):
        while target is not None and moment.transfer is not None:
            if min(target, total.words) > run.words:
                break
            yield moment
            target = next(ahead, None)
            if target is not None:
                run.quiet = min(target, total.words) - window
        if target is None:
            return


@dataclass(frozen=True)
class _Line:
    """A node with its line in the listing."""

    node: Node
    line: int
    body: tuple[_Line, ...] = ()


def _lines(program: Program) -> tuple[_Line, ...]:
    number = 0  # the title's

    def lines(body: tuple[Node, ...]) -> tuple[_Line, ...]:
        nonlocal number
        found = []
        for node in body:
            number += 1
            here = number
            found.append(_Line(node, here, lines(node.body) if isinstance(node, Loop) else ()))
        return tuple(found)

    return lines(program.body)


@dataclass
class _Sums:
    """What a body does: words by direction and tensor, transfers, steps, the largest transfer."""

    counts: dict[Key, int]
    transfers: int = 0
    steps: int = 0
    largest: int = 0

    @property
    def words(self) -> int:
        return sum(self.counts.values())

    def add(self, other: _Sums, times: int = 1) -> None:
        for key, words in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + words * times
        self.transfers += other.transfers * times
        self.steps += other.steps * times
        self.largest = max(self.largest, other.largest)


class _Run:
    """A walk, and what it has so far: words, buffers, the trail."""

    def __init__(self, instance: Instance) -> None:
        program = instance.program
        self.program = program
        self.env: dict[Any, int] = dict(instance.env)
        self.marked = dict(instance.masks)
        self.body = _lines(program)
        # The tiles whose edges matter; of others only their extent does.
        self.exact = named_tiles(program) | {
            node.marks.rows for node in _loops(program.body) if node.marks is not None
        }
        self.rows = masks(program)
        self.kept: dict[Any, _Sums] = {}
        self.done = _Sums(dict.fromkeys(program.keys(), 0))
        self.words = 0
        self.quiet = -1  # iterations that end before this many words are passed over
        self.held: dict[str, ResidentBuffer] = {}
        self.trail: deque[Transfer] = deque(maxlen=TRAIL)

    def walk(
        self, body: tuple[_Line, ...], env: dict[Any, int], loops: dict[Tile, Loop]
    ) -> Iterator[Moment]:
        """The moments of a body."""
        for at in body:
            match at.node:
                case Loop() as loop:
                    inner = {**loops, loop.tile: loop}
                    for here in self._entered(at, loop, env):
                        yield from self.walk(at.body, inside(env, loop.tile, here), inner)
                case node:
                    yield self._step(at.line, node, env, loops)

    def _entered(self, at: _Line, loop: Loop, env: dict[Any, int]) -> Iterator[Range]:
        """The iterations that are walked; what the others move is added to what was done."""
        if loop.tile in self.exact or loop.marks is not None:
            for here in running(loop, env, self.program, self.marked):
                if not self._passed(at.body, inside(env, loop.tile, here)):
                    yield here
            return
        start, stop = resolved(loop.span, env)
        by = step(loop, env)
        while start < stop:
            here = start, min(start + by, stop)
            if start + by <= stop:  # whole tiles are alike
                sums = self.sums(at.body, inside(env, loop.tile, here))
                room = (self.quiet - self.words) // max(1, sums.words)
                times = max(0, min((stop - start) // by, room))
                if times:
                    self._pass(sums, times)
                    start += times * by
                    continue
            elif self._passed(at.body, inside(env, loop.tile, here)):
                return
            yield here
            start += by

    def _passed(self, body: tuple[_Line, ...], env: Env) -> bool:
        """Whether an iteration is passed over."""
        sums = self.sums(body, env)
        if self.words + sums.words > self.quiet:
            return False
        self._pass(sums, 1)
        return True

    def _pass(self, sums: _Sums, times: int) -> None:
        self.done.add(sums, times)
        self.words += sums.words * times
        if sums.transfers:
            self.trail.clear()

    def _step(self, line: int, node: Node, env: Env, loops: Mapping[Tile, Loop]) -> Moment:
        moved: Transfer | None = None
        match node:
            case Load():
                moved = Transfer("load", node.tensor, ranges(node.index, env, loops))
                self.held[node.buffer] = ResidentBuffer(node.buffer, moved.words, moved)
            case Store():
                moved = Transfer("store", node.tensor, ranges(node.index, env, loops))
            case Alloc():
                extents = ranges(dims(node.index), env, loops)
                words = math.prod(stop - start for start, stop in extents)
                self.held[node.buffer] = ResidentBuffer(node.buffer, words, None)
            case Free():
                del self.held[node.buffer]
        if moved is not None:
            self.done.counts[moved.direction, moved.tensor] += moved.words
            self.done.transfers += 1
            self.words += moved.words
            self.trail.append(moved)
        return Moment(
            line=line,
            transfer=moved,
            trail=tuple(self.trail),
            buffers=tuple(self.held.values()),
            counts=dict(self.done.counts),
            transfers=self.done.transfers,
        )

    def sums(self, body: tuple[_Line, ...], env: Env) -> _Sums:
        """What a body does in all, taken once for all iterations of equal extents."""
        open_ = (x.tile for x in env if isinstance(x, Edge) and x.end == "start")
        edges = ((tile, covered(tile, env)) for tile in open_)
        key = (
            body[0].line if body else 0,
            tuple((t, x if t in self.exact else x[1] - x[0]) for t, x in edges),
        )
        if key not in self.kept:
            if len(self.kept) > _KEPT:
                self.kept.clear()
            self.kept[key] = self._sums(body, env)
        return self.kept[key]

    def _sums(self, body: tuple[_Line, ...], env: Env) -> _Sums:
        total = _Sums({})
        for at in body:
            match at.node:
                case Loop() as loop:
                    for here, times in self._alike(loop, env):
                        total.add(self.sums(at.body, inside(env, loop.tile, here)), times)
                case Load() | Store() as node:
                    way: Direction = "load" if isinstance(node, Load) else "store"
                    extents = ranges(dims(node.index), env, {})
                    words = math.prod(stop - start for start, stop in extents)
                    total.add(_Sums({(way, node.tensor): words}, 1, 1, words))
                case Alloc() | Free() | Op():
                    total.steps += 1
        return total

    def _alike(self, loop: Loop, env: Env) -> Iterator[tuple[Range, int]]:
        """Iterations of a loop, those that do the same together: one of them, and how many."""
        if loop.tile in self.exact or loop.marks is not None:
            yield from ((here, 1) for here in running(loop, env, self.program, self.marked))
            return
        start, stop = resolved(loop.span, env)
        by = step(loop, env)
        whole, left = divmod(stop - start, by)
        if whole > 0:
            yield (start, start + by), whole
        if left > 0:
            yield (stop - left, stop), 1


def _loops(body: tuple[Node, ...]) -> Iterator[Loop]:
    for node in body:
        if isinstance(node, Loop):
            yield node
            yield from _loops(node.body)
