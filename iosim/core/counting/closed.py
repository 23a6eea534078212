"""Exact counts and peaks in closed form, ragged tiles included.

**The closing rule.**  While a loop over tiles is open, tile *t* has an extent symbol *e*.  What a
body moves is a polynomial in *e*, and closing the loop maps its coefficient of degree 0 to
×⌈n/B⌉, once per tile, and that of degree 1 to ×n, because extents sum to the length n of the
loop's span even when the last tile is short.  A degree of 2 or more has no such sum and raises.
Where an inner span names the tile's edges, its length differs from tile to tile; what is multiplied
by it becomes a `Sum`, which is evaluated in time independent of the number of tiles
(`iosim.core.counting.sums`).

**The peak.**  The first iteration of a loop has the largest extents, and occupancy grows with
extents, so the peak is the largest occupancy of one pass through the first iterations; a loop that
may be empty contributes only where it runs.  Loops whose tiles an inner span names are the
exception: a `Level` carries them, and is the largest over their iterations.

Both are polynomials (`iosim.core.counting.poly`), built once per program.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, assert_never

from iosim.base.errors import ProgramError
from iosim.core.counting import block_mask_sums
from iosim.core.counting.poly import Atom, Clip, Part, Poly, Row, Sum, Trips, follows, names_of
from iosim.core.counts import Key
from iosim.core.program.block_masks import pairs_of
from iosim.core.program.index import Affine, Indices, Span, Tile, dims, unstacked
from iosim.core.program.ir import Alloc, Body, Free, Load, Loop, Op, Program, Store


@dataclass(frozen=True)
class Level:
    """A candidate for the peak: an occupancy that is reached.

    Attributes:
        words: the occupancy.
        runs: lengths of loops that must not be empty.
        over: loops, outermost first, whose tiles the other two depend on: the candidate is the
            largest over all their iterations.
        loops: all loops that are open there, outermost first.
        held: the buffers that are resident there.
        block: of a block mask, whether the pair that is open is in its last row, and in its last
            column.
    """

    words: Poly
    runs: frozenset[Affine | Part]
    over: tuple[Loop, ...] = ()
    loops: tuple[Loop, ...] = field(default=(), compare=False)
    held: tuple[str, ...] = field(default=(), compare=False)
    block: tuple[bool, bool] | None = field(default=None, compare=False)

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Every size and parameter that it depends on."""
        atoms = {*self.words.atoms(), *(x for x in self.runs if isinstance(x, Part))}
        polys = [Poly.of(x) for x in self.runs if isinstance(x, Affine)]
        closed = (names_of(x) for x in atoms if not isinstance(x, Tile))
        return self.loop_names.union(*closed, *(poly.names() for poly in polys))

    @functools.cached_property
    def loop_names(self) -> frozenset[str]:
        """Those that `over` depends on: which iterations there are."""
        return frozenset().union(*(names_of(Part(x.span, x.step)) for x in self.over))

    @functools.cached_property
    def spans(self) -> tuple[Span, ...]:
        """Spans that its words and `runs` follow, in a fixed order."""
        found: set[Span] = set()
        for atom in (*self.words.atoms(), *self.runs):
            inner: Any = atom
            while isinstance(inner, Clip):
                inner = inner.length
            if isinstance(inner, Part):
                found.add(inner.span)
        return tuple(sorted(found, key=repr))

    @functools.cached_property
    def conditions(self) -> tuple[Affine | Part, ...]:
        """`runs` in a fixed order."""
        return tuple(sorted(self.runs, key=str))


@dataclass(frozen=True)
class Nest:
    """One top-level node in closed form."""

    counts: Mapping[Key, Poly]
    peak: tuple[Level, ...]

    @functools.cached_property
    def total(self) -> Poly:
        """Words moved in either direction."""
        return sum(self.counts.values(), Poly())


@dataclass(frozen=True)
class Closed:
    """A program in closed form, nest by nest; everything else is a sum or a maximum."""

    nests: tuple[Nest, ...]
    keys: tuple[Key, ...]

    @functools.cached_property
    def counts(self) -> dict[Key, Poly]:
        """Words per direction and tensor."""
        return {
            key: sum((n.counts[key] for n in self.nests if key in n.counts), Poly())
            for key in self.keys
        }

    @functools.cached_property
    def peak(self) -> tuple[Level, ...]:
        """The peak is the largest of these."""
        return _prune(level for nest in self.nests for level in nest.peak)


@functools.lru_cache(maxsize=256)
def close(program: Program) -> Closed:
    """Close every nest.  Raises ProgramError where a transfer is not linear in a tile."""
    # A buffer at the top level spans nests: then the whole body is one nest.
    if any(isinstance(n, (Load, Alloc)) for n in program.body):
        groups = [program.body]
    else:
        groups = [(node,) for node in program.body]
    return Closed(tuple(_nest(program, g) for g in groups), program.keys())


def _nest(program: Program, body: Body) -> Nest:
    levels: list[Level] = []
    _occupy(body, {}, frozenset(), frozenset(p.name for p in program.params), levels)

    def bound(words: Poly) -> Poly:
        """Derived axes as what they are made of."""
        for x in program.derived:
            words = words.replace(x.name, Poly.of(Trips(Affine.of(x.of), x.step)))
        return words

    counts = {key: bound(words) for key, words in _count(body).items()}
    return Nest(counts, _prune(replace(level, words=bound(level.words)) for level in levels))


def _words(index: Indices, extent: Callable[[Tile], Poly]) -> Poly:
    words = Poly.of(1)
    for x in unstacked(dims(index)):
        words = words * (_length(x) if isinstance(x, Span) else extent(x))
    return words


@functools.lru_cache(2**14)
def _length(span: Span) -> Poly:
    if (tile := span.tile) is not None:
        return Poly.of(1 if tile.point else tile)
    return Poly.of(Part(span)) if span.edges else Poly.of(span.length)


@functools.lru_cache(2**14)
def _trips(span: Span, step: str | None) -> Poly:
    if step is None:
        return _length(span)
    if span.edges:
        return Poly.of(Part(span, step))
    if span.is_entire_axis and step == span.axis:
        return Poly.of(1)
    return Poly.of(Trips(span.length, step))


def moved(node: Load | Store, outer: Sequence[Loop]) -> Poly:
    """The words of one transfer over all iterations of the loops around it, outermost first."""
    words = _words(node.index, Poly.of)
    for loop in reversed(outer):
        words = _sum(loop, words)
    return words


def _count(body: Body) -> dict[Key, Poly]:
    total: dict[Key, Poly] = {}
    for node in body:
        found: dict[Key, Poly] = {}
        match node:
            case Loop():
                found = {key: _sum(node, words) for key, words in _count(node.body).items()}
            case Load():
                found = {("load", node.tensor): _words(node.index, Poly.of)}
            case Store():
                found = {("store", node.tensor): _words(node.index, Poly.of)}
            case Alloc() | Free() | Op():
                pass
            case _:
                assert_never(node)
        for key, words in found.items():
            total[key] = total.get(key, Poly()) + words
    return total


def _sum(loop: Loop, words: Poly) -> Poly:
    """Close one loop: degree 0 × trips, degree 1 × length; what follows the tile is summed."""
    length, trips = _length(loop.span), _trips(loop.span, loop.step)
    total = Poly()
    for monomial, c in words.terms.items():
        mine = tuple(a for a in monomial if follows(a, loop.tile))
        rest = Poly({tuple(a for a in monomial if not follows(a, loop.tile)): c})
        row = next((a for a in mine if isinstance(a, Row)), None)
        if row is not None and mine in ((row,), (loop.tile, row)):
            total = total + rest * block_mask_sums.pairs(row, loop, extents=len(mine) > 1)
        elif loop.marks is not None and mine in ((), (loop.tile,)):
            total = total + rest * Poly.of(block_mask_sums.row(loop, extents=bool(mine)))
        elif mine in ((), (loop.tile,)):
            total = total + rest * (length if mine else trips)
        elif set(mine) <= {loop.tile, row}:
            raise ProgramError(
                f"a transfer is of degree {len(mine)} in tile {loop.tile}: no closed form; index a "
                "tensor by one loop in one place only"
            )
        else:
            total = total + rest * Poly.of(Sum(loop.tile, loop.span, loop.step, mine))
    return total


def _occupy(
    body: Body,
    live: dict[str, Poly],
    runs: frozenset[Affine | Part],
    params: frozenset[str],
    out: list[Level],
) -> None:
    """Walk the program once, noting the occupancy after every allocation."""
    live = dict(live)
    for node in body:
        match node:
            case Load() | Alloc():
                live[node.buffer] = _words(node.index, Poly.of)
                out.append(Level(sum(live.values(), Poly()), runs, held=tuple(live)))
            case Free():
                del live[node.buffer]
            case Loop():
                inner = runs
                if node.span.tile is not None:
                    pass  # a tile is never empty
                elif node.span.edges:
                    inner = runs | {Part(node.span)}
                elif not node.span.is_entire_axis:
                    inner = runs | {node.span.length}
                scope: list[Level] = []
                _occupy(node.body, live, inner, params, scope)
                # Only here is it known how long a tile of this loop is.
                out.extend(left for level in scope for left in _leave(node, level, params))
            case Store() | Op():
                pass
            case _:
                assert_never(node)


def _leave(loop: Loop, level: Level, params: frozenset[str]) -> tuple[Level, ...]:
    """A level of a loop's body, seen from outside: levels of which the largest is meant.

    The first iteration has the largest extents, and occupancy grows with extents; where a span
    follows the loop's tile, any iteration may have the most.
    """
    level = replace(level, loops=(loop, *level.loops))
    if loop.marks is not None:
        return (level,)  # how long its tile is stays open until that of the rows is left
    bounded = {*level.runs, *level.words.atoms(), *(Part(o.span) for o in level.over)}
    if any(follows(x, loop.tile) for x in bounded if isinstance(x, (Part, Clip))):
        return (replace(level, over=(loop, *level.over)),)
    if inner := [x for x in level.loops if x.marks and x.marks.rows == loop.tile]:
        return tuple(_blocks(loop, inner[0], level))
    if loop.step is None:
        return (level,)
    words = level.words
    first = _first_extent(loop, loop.step, params)
    for atom in words.atoms():
        if (new := _substitute_tile(atom, loop.tile, first)) != atom:
            words = words.replace(atom, Poly.of(new))
    return (replace(level, words=words),)


def _blocks(rows: Loop, columns: Loop, level: Level) -> Iterator[Level]:
    """A level in the marked pairs of a block mask: in full tiles, and in the short last ones."""
    assert columns.marks is not None
    for block in itertools.product((False, True), (False, True)):
        words = level.words
        for loop, last in zip((rows, columns), block, strict=True):
            words = words.replace(loop.tile, block_mask_sums.extent(loop, last=last))
        runs = level.runs | {pairs_of(columns.marks.name, *block)}
        yield replace(level, words=words, runs=runs, block=block)


def _first_extent(loop: Loop, step: str, params: frozenset[str]) -> str | Clip:
    """The extent of a loop's first tile."""
    if (tile := loop.span.tile) is not None:
        return Clip(Affine(1) if tile.point else tile, step)
    if loop.span.edges:
        return Clip(Part(loop.span), step)
    # Parameters are clipped to their axis when bound, so a whole axis needs no minimum.
    clipped = step in params or step == loop.span.axis
    return step if loop.span.is_entire_axis and clipped else Clip(loop.span.length, step)


def _substitute_tile(atom: Atom, tile: Tile, extent: str | Clip) -> Atom:
    """An atom with the extent of a tile in the tile's place."""
    if atom == tile:
        return extent
    if not isinstance(atom, Clip) or not isinstance(atom.length, (Tile, Clip)):
        return atom
    if atom.length == tile:
        return Clip(Affine.of(extent) if isinstance(extent, str) else extent, atom.step)
    inner = _substitute_tile(atom.length, tile, extent)
    assert isinstance(inner, (Tile, Clip))
    return Clip(inner, atom.step)


class Reading(Protocol):
    """Atoms in some arithmetic: integers, arrays, symbols, or bounds over boxes."""

    def __call__(self, atom: Atom) -> Any:
        """The value of an atom."""
        ...

    def where(self, words: Any, length: Affine | Part) -> Any:
        """Words, or 0 where the loop of this length is empty."""
        ...

    def most(self, level: Level) -> Any:
        """The largest occupancy of a level over all iterations of its loops."""
        ...

    def largest(self, words: Sequence[Any]) -> Any:
        """The largest of several values, or 0 for none."""
        ...


def highest(levels: Sequence[Level], reading: Reading, words: Iterable[Any] | None = None) -> Any:
    """The peak: of the occupancies that are reached, the largest.

    Args:
        words: the levels' occupancies in the reading's arithmetic; by default they are evaluated.
    """
    if words is None:
        words = (0 if v.over else v.words.evaluate(reading) for v in levels)
    return reading.largest(
        [
            reading.most(v) if v.over else functools.reduce(reading.where, v.conditions, held)
            for v, held in zip(levels, words, strict=True)
        ]
    )


def _prune(levels: Iterable[Level]) -> tuple[Level, ...]:
    """Drop levels that another one dominates term by term (all atoms are non-negative)."""
    kept: list[Level] = []
    for level in levels:
        if any(_below(level, other) for other in kept):
            continue
        kept = [k for k in kept if not _below(k, level)]
        kept.append(level)
    return tuple(kept)


def _below(a: Level, b: Level) -> bool:
    return (
        a.over == b.over
        and b.runs <= a.runs
        and all(c >= 0 for c in (b.words - a.words).terms.values())
    )
