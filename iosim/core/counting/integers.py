"""Closed forms of one instance, in Python's integers.

A `Sum` over a loop's tiles takes the short last tile by itself.  On the full tiles t = 0 … F − 1
the ends of spans are affine in t, and `iosim.core.counting.sums` adds up.  The largest occupancy
over a loop is found in the same way: on a piece where lengths are affine an occupancy is a
polynomial in t, whose largest value is at an end of the piece, or next to the vertex of a parabola.

`numbers` and `show` call it.  Arrays are compared with it, and ``tests/core/test_dependent.py``
compares it with a walk over positions.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

from iosim.base.errors import ProgramError
from iosim.core.counting.closed import Level
from iosim.core.counting.poly import Atom, Clip, Part, Poly, Row, Sum, Trips, follows
from iosim.core.counting.sums import Line, Stretch, over_tiles, pieces
from iosim.core.program.index import Affine, Edge, Span, Tile
from iosim.core.program.ir import Loop
from iosim.core.program.space import Env, allowed, covered, inside, resolved

# Tiles that are walked one by one, where a sum or a peak depends on a sum that depends on them.
MOST_WALKED = 2**20


class OnInts:
    """Atom → its value; a `Reading` of closed forms.

    Args:
        env: name → number; inside a loop, its tile's edges too.
    """

    def __init__(self, env: Env) -> None:
        self.env = env

    def __call__(self, atom: Atom) -> int:
        """The value of an atom."""
        match atom:
            case str():
                return self.env[atom]
            case Trips(length, step):
                return -(-int(length.at(self.env)) // self.env[step])
            case Part(span, step):
                start, stop = resolved(span, self.env)
                return stop - start if step is None else -((start - stop) // self.env[step])
            case Clip(length, step):
                return min(self._length(length), self.env[step])
            case Sum():
                return self._sum(atom)
            case Tile():
                start, stop = covered(atom, self.env)
                return stop - start
            case Row():
                raise AssertionError(f"{atom} is open: close the loop of {atom.rows} first")
            case _:
                assert_never(atom)

    def _length(self, length: Affine | Part | Tile | Clip) -> int:
        return int(length.at(self.env)) if isinstance(length, Affine) else self(length)

    def where(self, words: Any, length: Affine | Part) -> Any:
        """Words, or 0 where the loop of this length is empty."""
        return words if self._length(length) > 0 else 0

    def largest(self, words: Sequence[Any]) -> Any:
        """The largest, or 0 for none."""
        return max(words, default=0)

    def most(self, level: Level) -> int:
        """The largest occupancy of a level over all iterations of its loops."""
        return self.most_at(level)[0]

    def most_at(self, level: Level) -> tuple[int, Env]:
        """The largest occupancy of a level, and the environment in the first iteration found."""
        if not level.over:
            return self._level_words(level), self.env
        loop, *rest = level.over
        inner = Level(level.words, level.runs, tuple(rest))
        tiles = _Tiles(loop.tile, loop.span, loop.step, self.env)
        if rest:
            found = (OnInts(env).most_at(inner) for env in tiles.walked())
            return max(found, key=operator.itemgetter(0), default=(0, self.env))
        candidates = [*tiles.short, *(tiles.at(t) for t in _extremes(level, loop, tiles))]
        held = ((OnInts(env)._level_words(inner), env) for env in candidates)
        return max(held, key=operator.itemgetter(0), default=(0, self.env))

    def _level_words(self, level: Level) -> int:
        reached = all(self._length(length) > 0 for length in level.runs)
        return int(level.words.evaluate(self)) if reached else 0

    def _sum(self, atom: Sum) -> int:
        tiles = _Tiles(atom.tile, atom.span, atom.step, self.env)

        def product(env: Env) -> int:
            value = 1
            for factor in atom.factors:
                value *= OnInts(env)(factor)
            return value

        if any(isinstance(x, Sum) for x in atom.factors):
            return sum(map(product, tiles.walked()))
        total = sum(map(product, tiles.short))
        parts = [x for x in atom.factors if isinstance(x, Part)]
        assert all(isinstance(x, (Part, Tile)) for x in atom.factors), f"{atom} has no closed form"
        if tiles.full:
            factors = [
                (tiles.stretch(x.span), None if x.step is None else self.env[x.step]) for x in parts
            ]
            size = tiles.by ** (len(atom.factors) - len(parts))
            total += size * over_tiles(tiles.full, factors)
        return total


class LoopTiles:
    """The tiles of a loop, `full` of them and then perhaps a short one: at one point, or at many.

    Attributes:
        tile, env: the loop's tile, and the environment around the loop.
        start, stop, by, full: numbers, or arrays with one for each point.
    """

    tile: Tile
    env: Mapping[Any, Any]
    start: Any
    stop: Any
    by: Any
    full: Any

    def at(self, t: Any) -> dict[Any, Any]:
        """The environment in the full tile t."""
        first = self.start + t * self.by
        return inside(self.env, self.tile, (first, first + self.by))

    def end(self, value: Affine) -> tuple[Any, Any]:
        """An end of a span: its value in the first full tile, and how it grows with t."""
        first = value.at(inside(self.env, self.tile, (self.start, self.start + self.by)))
        edges = ((x, c) for x, c in value.terms if isinstance(x, Edge))
        moves = sum(c for edge, c in edges if edge.tile == self.tile)
        return first, moves * self.by if moves else 0


class _Tiles(LoopTiles):
    """Those of one point, in Python's integers, which may be walked one by one."""

    def __init__(self, tile: Tile, span: Span, step: str | None, env: Env) -> None:
        self.tile, self.env = tile, env
        self.start, self.stop = resolved(span, env)
        self.by = 1 if step is None else env[step]
        self.full = (self.stop - self.start) // self.by

    @property
    def short(self) -> list[dict[Any, int]]:
        """The environment in the short last tile, if there is one."""
        at = self.start + self.full * self.by
        return [inside(self.env, self.tile, (at, self.stop))] if at < self.stop else []

    def walked(self) -> Iterator[dict[Any, int]]:
        """The environments in all tiles.  Raises ProgramError where they are too many."""
        if self.full > MOST_WALKED:
            raise ProgramError(
                f"spans that depend on each other over {self.full} tiles of {self.tile} are walked "
                f"one by one, and at most {MOST_WALKED} are: choose larger tiles"
            )
        yield from map(self.at, range(self.full))
        yield from self.short

    def stretch(self, span: Span) -> Stretch:
        """A span's length along the full tiles."""
        start, stop = Line(*self.end(span.start)), Line(*self.end(span.stop))
        return Stretch(start, stop, *allowed(span, self.env))


def _extremes(level: Level, loop: Loop, tiles: _Tiles) -> Iterator[int]:
    """Full tiles among which a level is largest.

    Raises ProgramError where its occupancy is of degree 3 or more in their number.
    """
    if not tiles.full:
        return
    atoms = [x for x in (*level.words.atoms(), *level.runs) if isinstance(x, (Part, Clip))]
    cuts: set[int] = set()
    for atom in atoms:
        steps: list[str] = []
        part: Affine | Part | Tile | Clip = atom
        while isinstance(part, Clip):
            steps, part = [*steps, part.step], part.length
        if not isinstance(part, Part) or not follows(part, loop.tile):
            continue
        stretch = tiles.stretch(part.span)
        here = set(stretch.cuts())
        for first, past in pieces(tiles.full, set(here)) if steps else ():
            # Where the length passes a step that it is clipped to.
            slope = stretch(first + 1) - stretch(first) if past - first > 1 else 0
            for step in steps:
                line = Line(stretch(first) - tiles.env[step], slope)
                if (turn := line.turns()) is not None:
                    here.add(first + turn)
        cuts |= here
    for first, past in pieces(tiles.full, cuts):
        ends = {first, first + 1, past - 2, past - 1}
        yield from (t for t in ends if first <= t < past)
        yield from _vertex(level.words, tiles, first + 1, past - 1)


def _vertex(words: Poly, tiles: _Tiles, first: int, past: int) -> Iterator[int]:
    """The places next to the vertex of a parabola on first … past − 1."""
    n = past - first
    degree = max(sum(follows(x, tiles.tile) for x in m if x != tiles.tile) for m in words.terms)
    if n < 3 or degree < 2:
        return
    values = [int(words.evaluate(OnInts(tiles.at(first + k)))) for k in range(min(n, degree + 2))]
    steps = [b - a for a, b in itertools.pairwise(values)]
    turns = [b - a for a, b in itertools.pairwise(steps)]
    if len(set(turns)) > 1:
        raise ProgramError(
            f"an occupancy is of degree 3 or more in the number of tile {tiles.tile}: no closed "
            "form for its peak"
        )
    if turns[0] < 0:
        # The step from t to t + 1 is steps[0] + t·turns[0].
        t = steps[0] // -turns[0]
        yield from (first + k for k in (t, t + 1) if 0 <= k < n)
