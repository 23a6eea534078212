"""Where the tiles and spans of a kernel lie: as numbers over all iterations, and as text in it.

`blocks`, `order`, `launch_order` and `lockstep` ask `Places` where a tile lies: as numbers to see
what text is needed, and as text to write it.  Both must agree: the text is what the numbers say, in
Triton.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, assert_never

import numpy as np

from iosim.base.arrays import Ints
from iosim.core.program import space
from iosim.core.program.index import (
    Affine,
    At,
    Dim,
    Edge,
    Number,
    Plain,
    Single,
    Span,
    Stack,
    Tile,
    Within,
)
from iosim.core.program.ir import Loop
from iosim.core.program.walk import Instance
from iosim.gpu.emitter.names import Names


def _places(span: Span, loops: Mapping[Tile, Loop], env: Mapping[Any, int]) -> tuple[Ints, Ints]:
    """Where a span starts and stops in all iterations of the loops that it follows."""
    named = {edge.tile for edge in span.edges}
    if len(named) == 1 and not (loop := loops[named.copy().pop()]).span.edges:
        first, last = space.resolved(loop.span, env)
        by = space.step(loop, env)
        at = np.arange(first, last, by)
        if at.size:
            tile = (at, np.minimum(at + by, last))
            around = space.inside(env, loop.tile, tile)  # type: ignore[arg-type]
            start, stop = space.placed(span, around, np.minimum, np.maximum)
            starts, stops = np.broadcast_arrays(start, stop)
            return starts, stops
    found = sorted(set(space.cases(span, loops, env))) or [(0, 0)]
    start, stop = np.array(found, np.int64).T
    return start, stop


@functools.lru_cache(maxsize=4096)
def _followed(span: Span) -> tuple[Tile, ...]:
    """The tiles at whose edges a span lies."""
    return tuple(edge.tile for edge in sorted(span.edges, key=str))


def last_part(x: Dim) -> Single:
    """What lies along the last axis of a dimension."""
    return x.parts[-1] if isinstance(x, Stack) else x


class Places:
    """What a kernel knows of the loops that were opened in it.

    Attributes:
        loops: the loop of every tile that was opened.
        at: where a tile starts: a variable or a number.
        last: the position after the last of a tile's loop, likewise.
        loose: open tiles whose end only the kernel knows.
        limits: the first position and the one after the last, of loops that follow a tile.
        placed: the same of spans in buffers that follow a tile.
    """

    def __init__(self, instance: Instance, names: Names) -> None:
        self.instance, self.names = instance, names
        self.loops: dict[Tile, Loop] = {}
        self.at: dict[Tile, str] = {}
        self.last: dict[Tile, str] = {}
        self.loose: set[Tile] = set()
        self.limits: dict[Tile, tuple[str, str]] = {}
        self.placed: dict[Span, tuple[str, str]] = {}
        self._found: dict[tuple[object, ...], tuple[Ints, Ints]] = {}

    def enter(self, loop: Loop, at: str, stop: str | None, loose: bool) -> None:
        """Open a tile; arguments as for `Blocks.open`."""
        tile = loop.tile
        self.at[tile], self.loops[tile] = at, loop
        self.last[tile] = str(self.instance.span(loop.span)[1]) if stop is None else stop
        (self.loose.add if loose else self.loose.discard)(tile)

    def say_span(self, span: Span, say: Callable[[str], None]) -> str:
        """Find where a span that follows a tile lies; returns what its names begin with."""
        name = self.names.span(span)
        self.placed[span] = self._say_ends(span, name, say)
        return name

    def trips(self, loop: Loop) -> int:
        """Iterations of a loop; of one that follows an outer tile, the most."""
        start, stop = self.cases(loop)
        return int((-((start - stop) // self.step(loop))).max())

    def step(self, loop: Loop) -> int:
        """Positions per iteration."""
        return space.step(loop, self.instance.env)

    def cases(self, x: Span | Loop, loops: Mapping[Tile, Loop] | None = None) -> tuple[Ints, Ints]:
        """Where a span starts and stops: once, or in every iteration of the loops it follows."""
        loops = self.loops if loops is None else loops
        span = x.span if isinstance(x, Loop) else x
        key = (span, *(id(loops[tile]) for tile in _followed(span)))
        if key not in self._found:
            self._found[key] = _places(span, loops, self.instance.env)
        return self._found[key]

    def pair(self, loop: Loop, at: str) -> str:
        """Where the word of a loop's block mask lies that belongs to an iteration, as text.

        Args:
            at: where the iteration starts.
        """
        assert loop.marks is not None
        self.at[loop.tile], self.loops[loop.tile] = at, loop
        rows, columns = dict(self.instance.masks)[loop.marks.name].shape
        row, column = self._number(loop.marks.rows), self._number(loop.tile)
        far = rows * columns >= 2**31
        found = self.names.marks(loop.marks.name)
        for x, stride in ((row, columns), (column, 1)):
            if x.isdigit():
                found += f" + {int(x) * stride}" if int(x) else ""
            else:
                x = f"tl.cast({x}, tl.int64)" if far else x
                found += f" + {x}" if stride == 1 else f" + {x} * {stride}"
        return found

    def bounds(self, loop: Loop, say: Callable[[str], None]) -> tuple[str, str]:
        """The first position of a loop and the one after its last, as text."""
        if not loop.span.edges:
            first, last = self.instance.span(loop.span)
            return str(first), str(last)
        found = self._say_ends(loop.span, self.names.var(loop.tile), say)
        self.limits[loop.tile] = found
        return found

    def _say_ends(self, span: Span, name: str, say: Callable[[str], None]) -> tuple[str, str]:
        """The ends of a span that follows a tile, as names or as numbers."""
        low, high = space.allowed(span, self.instance.env)
        start, stop = self.number(span.start), self.number(span.stop)
        start = f"min(max({start}, {low}), {high})"
        stop = f"min({stop}, {high})"
        found = []
        for end, value, text in (("start", span.start, start), ("stop", span.stop, stop)):
            if value.edges:
                say(f"{name}_{end} = {text}")
                found.append(f"{name}_{end}")
            else:
                at = value.at(self.instance.env)
                found.append(str(min(max(at, low), high) if end == "start" else min(at, high)))
        return found[0], found[1]

    def number(self, value: Affine) -> str:
        """An affine expression in the open tiles, as text."""
        const = value.const + sum(c * self.instance.env[name] for name, c in value.sizes)
        found = ""
        for edge, moves in ((x, c) for x, c in value.terms if isinstance(x, Edge)):
            at = self._edge(edge)
            if at.isdigit():
                const += moves * int(at)
                continue
            text = at if abs(moves) == 1 else f"{abs(moves)} * {at}"
            sign = "-" if moves < 0 else "+" if found else ""
            found += f" {sign} {text}" if found else f"{sign}{text}"
        if not found:
            return str(const)
        return found + (f" {'-' if const < 0 else '+'} {abs(const)}" if const else "")

    def _edge(self, edge: Edge) -> str:
        """Where an open tile starts, or the position after its last, as text."""
        loop, at = self.loops[edge.tile], self.at[edge.tile]
        if edge.end == "start":
            return at
        step = self.step(loop)
        if loop.span.edges or edge.tile in self.loose:
            return f"min({at} + {step}, {self.last[edge.tile]})"
        start, last = self.instance.span(loop.span)
        if at.isdigit():
            return str(min(int(at) + step, last))
        return f"min({at} + {step}, {last})" if (last - start) % step else f"({at} + {step})"

    def longest(self, x: Single, loops: Mapping[Tile, Loop] | None = None) -> int:
        """The most positions of an index.

        Args:
            loops: the loop of every tile that it needs; by default of tiles that were opened.
        """
        loops = self.loops if loops is None else loops
        if isinstance(x, Span):
            start, stop = self.cases(x, loops)
            return int((stop - start).max())
        start, stop = self.cases(loops[x], loops)
        return min(int((stop - start).max()), self.step(loops[x]))

    def reach(self, x: Dim, loops: Mapping[Tile, Loop]) -> int:
        """The most positions of an index along its last axis; arguments as for `longest`."""
        return self.longest(last_part(x), loops)

    def certain(self, x: Span | Loop, position: int) -> bool:
        """Whether a span goes beyond a position wherever it lies."""
        return bool((self.cases(x)[1] > position).all())

    def runs(self, loop: Loop) -> bool:
        """Whether a loop has an iteration wherever it lies."""
        start, stop = self.cases(loop)
        return bool((start < stop).all())

    def at_multiples(self, x: Single, n: int) -> bool:
        """Whether an index always starts at a multiple of `n`."""
        of = x if isinstance(x, Span) else self.loops[x]
        start, stop = self.cases(of)
        found = bool((start[start < stop] % n == 0).all())
        if isinstance(of, Loop) and self.step(of) % n:
            found &= bool((stop - start <= self.step(of)).all())
        return found

    def may_be_empty(self, x: Dim) -> bool:
        """Whether a span that follows a tile has no positions somewhere."""
        if not isinstance(x, Span) or not x.edges:
            return False
        start, stop = self.cases(x)
        return bool((start >= stop).any())

    def start(self, x: Plain) -> str:
        """Where an index starts: a number or a variable."""
        match x:
            case Span():
                return self.placed[x][0] if x.edges else str(self.instance.span(x)[0])
            case Tile():
                return self.at[x]
            case Number(tile):
                return self._number(tile)
            case Within():
                return "0"
            case At(buffer):
                return self.names.block(buffer)
            case _:
                assert_never(x)

    def _number(self, tile: Tile) -> str:
        """Which iteration of its loop a tile is."""
        loop, at = self.loops[tile], self.at[tile]
        fixed = str(self.instance.span(loop.span)[0]) if not loop.span.edges else ""
        start = fixed or self.limits[tile][0]
        step = self.step(loop)
        if at.isdigit() and start.isdigit():
            return str((int(at) - int(start)) // step)
        at = at if start == "0" else f"({at} - {start})"
        return at if step == 1 else f"({at} // {step})"
