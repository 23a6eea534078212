"""Sums and peaks over the tiles of a loop, of many instances at once.

As in `iosim.core.counting.integers`, the short last tile is taken by itself, and on the full tiles
the ends of spans are affine in the tile's number t.  The pieces of all instances are then one
array, and a piece's sum is a polynomial's, or Σ⌊(at + b)/m⌋ by Euclid's algorithm on all of them at
once.

Sums are exact where they fit their dtype, however large what they are made of is: they take only
additions, subtractions, products and exact quotients of whole numbers, which 64 bits do modulo
2**64.  Where a loop runs and a span is cut is compared, and stays far below 2**62.

Only `arrays` calls it.  ``tests/core/test_columns.py`` compares it with `integers`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.arrays import clip
from iosim.core.counting.closed import Level
from iosim.core.counting.integers import LoopTiles
from iosim.core.counting.poly import Atom, Clip, Part, Sum, follows
from iosim.core.program.index import Span, Tile
from iosim.core.program.space import allowed, covered, inside, placed

Columns = Mapping[Any, Any]
Value = Callable[[Atom], Any]
_Line = tuple[Any, Any]  # the value at t = 0, and how it grows with t; per instance

# Coefficients in a bound of which ends stay exact in 64 bits for sizes up to 2**40.
_MOST_COEFFICIENTS = 2**16


class NoForm(Exception):
    """What is requested has no form in arrays: it is evaluated a point at a time."""


def total(atom: Sum, env: Columns, seen: dict[Any, _Pieces]) -> Any:
    """A sum over tiles at many points.

    Args:
        env: name → its values, arrays of one length.
        seen: what sums at these points have in common; it is added to.

    Raises NoForm where it depends on another sum, or on two roundings, or on one and a length.
    """
    parts = [x for x in atom.factors if isinstance(x, Part)]
    extents = sum(isinstance(x, Tile) for x in atom.factors)
    rounded = [x for x in parts if x.step is not None]
    plain = [x for x in parts if x.step is None]
    if len(parts) + extents < len(atom.factors) or len(rounded) > 1 or (rounded and plain):
        raise NoForm
    key = atom.tile, atom.span, atom.step, frozenset(x.span for x in parts)
    if key not in seen:
        seen[key] = _Pieces.of(_Tiles(atom.tile, atom.span, atom.step, env, parts), key[-1])
    here = seen[key]
    words = np.zeros_like(here.full)
    short: Any = here.extent**extents if extents else 1
    for part in parts:
        length = here.lengths[part.span]
        trips = length if part.step is None else -(-length // env[part.step][here.short])
        short = short * trips
    words[here.short] = short
    rows, n = here.rows, here.n
    poly: list[Any] = [here.by**extents if extents else np.ones_like(n)]
    for part in plain:
        poly = _times(poly, here.lines[part.span])
    if not rounded:
        np.add.at(words, rows, _sum(n, poly))
        return words
    (part,) = rounded
    start, slope = here.lines[part.span]
    step = env[part.step][rows]
    np.add.at(words, rows, poly[0] * _floors(n, step, slope, start + step - 1))
    return words


def most(level: Level, env: Columns, reading: Callable[[Columns], Value]) -> Any:
    """The largest occupancy of a level over the iterations of its loop; arguments as for `total`.

    Raises NoForm where it is over several loops, or no line in t between the cuts.
    """
    if len(level.over) > 1:
        raise NoForm
    (loop,) = level.over
    spans: dict[Span, list[str]] = {}
    for atom in (*level.words.atoms(), *level.runs):
        steps: list[str] = []
        part: Any = atom
        while isinstance(part, Clip):
            steps, part = [*steps, part.step], part.length
        if isinstance(part, Part) and follows(part, loop.tile):
            spans[part.span] = [*spans.get(part.span, ()), *steps]
    for monomial in level.words.terms:
        if sum(follows(x, loop.tile) and x != loop.tile for x in monomial) > 1:
            raise NoForm
    tiles = _Tiles(loop.tile, loop.span, loop.step, env, [Part(x) for x in spans])
    words = np.zeros_like(tiles.full)

    def learn(rows: Any, here: Columns) -> None:
        value = reading(here)
        held = np.broadcast_to(np.asarray(level.words.evaluate(value)), rows.shape)
        for length in level.conditions:
            run = value(length) if isinstance(length, Part) else length.at(here)
            held = np.where(np.asarray(run) > 0, held, 0)
        np.maximum.at(words, rows, held)

    learn(*tiles.short())
    stretches = [tiles.stretch(x) for x in spans]
    rows, first, n = tiles.pieces(stretches)
    at = tiles.rows(rows)
    # Where a length passes a step that it is clipped to, within its piece.
    turns = []
    for span, steps in spans.items():
        start, slope = at.line(span, first, n)
        turns += [first + _turn((start - at.env[step], slope)) for step in steps]
    ends = [first, first + 1, first + n - 2, first + n - 1]
    for t in (*ends, *(turn + k for turn in turns for k in (-1, 0))):
        t = clip(t, first, first + n - 1)
        learn(rows, at.at(t))
    return words


class _Tiles(LoopTiles):
    """Those of many points, in arrays, whose pieces are taken all at once."""

    def __init__(
        self, tile: Tile, span: Span, step: str | None, env: Columns, parts: Sequence[Part]
    ) -> None:
        if any(edge.tile != tile for part in parts for edge in part.span.edges):
            raise NoForm
        bounds = [bound for x in (span, *(p.span for p in parts)) for bound in x.bounds]
        if any(sum(abs(c) for _, c in x.terms) > _MOST_COEFFICIENTS for x in bounds):
            raise NoForm
        self.tile, self.env = tile, env
        like = np.zeros_like(next(iter(env.values())))
        self.start, self.stop = (like + x for x in placed(span, env, np.minimum, np.maximum))
        self.by = like + (1 if step is None else env[step])
        self.full = (self.stop - self.start) // self.by

    def rows(self, which: Any) -> _Tiles:
        """At some of the points."""
        found = object.__new__(_Tiles)
        found.tile = self.tile
        found.env = {name: values[which] for name, values in self.env.items()}
        for name in ("start", "stop", "by", "full"):
            setattr(found, name, getattr(self, name)[which])
        return found

    def short(self) -> tuple[Any, Columns]:
        """The points with a short last tile, and the environment in it."""
        at = self.start + self.full * self.by
        rows = np.flatnonzero(at < self.stop)
        here = self.rows(rows)
        return rows, inside(here.env, self.tile, (at[rows], here.stop))

    def stretch(self, span: Span) -> tuple[_Line, _Line, Any, Any]:
        """A span along the full tiles: its two ends, and what they are cut to."""
        low, high = allowed(span, self.env, np.minimum, np.maximum)
        return self.end(span.start), self.end(span.stop), low, high

    def line(self, span: Span, first: Any, n: Any) -> _Line:
        """A span's length on pieces of n full tiles from `first` on, where it is affine."""
        at = []
        for t in (first, first + 1):
            low, high = placed(span, self.at(t), np.minimum, np.maximum)
            at.append(high - low + np.zeros_like(n))
        return at[0], np.where(n > 1, at[1] - at[0], 0)

    def pieces(self, stretches: Sequence[tuple[_Line, _Line, Any, Any]]) -> tuple[Any, Any, Any]:
        """Runs of full tiles on which lengths are affine: their points, first tiles and sizes."""
        lines = [x for stretch in stretches for x in _cuts(*stretch)]
        ends = [np.zeros_like(self.full), *(clip(_turn(x), 0, self.full) for x in lines)]
        cuts = np.sort(np.array([*(x + ends[0] for x in ends), self.full]), axis=0)
        sizes = np.diff(cuts, axis=0)
        piece, rows = np.nonzero(sizes)
        return rows, cuts[piece, rows], sizes[piece, rows]


@dataclass(frozen=True)
class _Pieces:
    """The tiles of a loop at many points, and spans that follow them.

    Attributes:
        full: how many full tiles there are.
        short: the points with a short last tile.
        extent, lengths: of that tile, and of each span there.
        rows, n, by: of each piece its point, how many full tiles it has, and their extent.
        lines: each span's length along the tiles of each piece.
    """

    full: Any
    short: Any
    extent: Any
    lengths: Mapping[Span, Any]
    rows: Any
    n: Any
    by: Any
    lines: Mapping[Span, _Line]

    @classmethod
    def of(cls, tiles: _Tiles, spans: Collection[Span]) -> _Pieces:
        """Those of all points."""
        short, here = tiles.short()
        start, stop = covered(tiles.tile, here)
        placed_there = {x: placed(x, here, np.minimum, np.maximum) for x in spans}
        rows, first, n = tiles.pieces([tiles.stretch(x) for x in spans])
        at = tiles.rows(rows)
        return cls(
            full=tiles.full,
            short=short,
            extent=stop - start,
            lengths={x: b - a for x, (a, b) in placed_there.items()},
            rows=rows,
            n=n,
            by=at.by,
            lines={x: at.line(x, first, n) for x in spans},
        )


def _cuts(start: _Line, stop: _Line, low: Any, high: Any) -> Iterator[_Line]:
    """Lines whose sign changes where a length may stop being affine; constants are left out."""
    pairs = [(end, (cut, 0)) for end in (start, stop) for cut in (low, high)]
    for (a, slope), (b, other) in (*pairs, (stop, start)):
        moves = slope - other
        if not (isinstance(moves, int) and moves == 0):
            yield a - b, moves


def _turn(line: _Line) -> Any:
    """The first t from which on a line's sign is another one; 0 for a constant."""
    start, slope = line
    rises, falls = -(start // np.maximum(slope, 1)), start // np.maximum(-slope, 1) + 1
    return np.where(slope > 0, rises, np.where(slope < 0, falls, 0))


def _times(poly: Sequence[Any], line: _Line) -> list[Any]:
    """A polynomial in t, coefficients first to last, times a line."""
    start, slope = line
    found = [c * start for c in poly] + [0]
    for k, c in enumerate(poly):
        found[k + 1] = found[k + 1] + c * slope
    return found


def _sum(n: Any, poly: Sequence[Any]) -> Any:
    """Σ over t < n of a polynomial in t, by its forward differences at 0."""
    values: list[Any] = [sum(c * t**k for k, c in enumerate(poly)) for t in range(len(poly))]
    words = 0
    for k in range(len(values)):
        words = words + values[0] * _choose(n, k + 1)
        values = [b - a for a, b in itertools.pairwise(values)]
    return words


def _choose(n: Any, k: int) -> Any:
    """The binomial coefficient, where products may pass 64 bits: quotients are taken first."""
    if k == 2:  # by far the most frequent
        n = np.maximum(n, 0)
        return n // 2 * (n - 1 + n % 2)
    factors = [n - j for j in range(k)]
    for prime, times in _PRIMES[k]:
        for _ in range(times):
            # One of the factors is a multiple of the prime, as often as it divides k!.
            left = np.ones(np.shape(n), bool)
            for j, x in enumerate(factors):
                here = left & (x % prime == 0) & (x != 0)
                factors[j] = np.where(here, x // prime, x)
                left &= ~here
    product = factors[0]
    for x in factors[1:]:
        product = product * x
    return np.where(n < k, 0, product)


def _primes(k: int) -> list[tuple[int, int]]:
    """The primes of k! and how often each divides it."""
    found = []
    for p in range(2, k + 1):
        if all(p % q for q in range(2, p)):
            found.append((p, sum(k // p**e for e in range(1, k + 1) if p**e <= k)))
    return found


_PRIMES = {k: _primes(k) for k in range(1, 12)}


def _floors(n: Any, m: Any, a: Any, b: Any) -> Any:
    """Σ over t < n of ⌊(at + b)/m⌋, by Euclid's algorithm on a and m; a and b may be negative.

    A line that falls is taken from its other end: then no product passes what it rises by, or m.
    """
    a, b = np.abs(a), np.where(a < 0, b + a * (n - 1), b)
    words = np.zeros_like(n)
    rows = np.arange(len(n))
    while len(rows):
        words[rows] += (a // m) * _choose(n, 2) + (b // m) * n
        a, b = a % m, b % m
        top = a * n + b
        more = np.flatnonzero(top >= m)
        rows = rows[more]
        n, a, b, m = (top // m)[more], m[more], (top % m)[more], a[more]
    return words
