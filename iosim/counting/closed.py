"""Exact counts and peaks in closed form, ragged tiles included.

**The closing rule.**  While a loop over tiles is open, tile *t* has an extent symbol *e*.  What a
body moves is a polynomial in *e*, and closing the loop maps its coefficient of degree 0 to
×⌈n/B⌉, once per tile, and that of degree 1 to ×n, because extents sum to the length n of the
loop's span even when the last tile is short.  A degree of 2 or more has no such sum and raises.

**The peak.**  The first iteration of every loop has the largest extents, and occupancy grows
with extents, so the peak is the largest occupancy of one pass through the first iterations; a
loop that may be empty contributes only where it runs.

`Poly` is the algebra of both.  It is built once per program; evaluating it on integers counts one
instance in time independent of its sizes, on arrays a million instances, and on sympy symbols it
is the formula (`iosim.counting.symbols`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from iosim.counts import Key
from iosim.errors import ProgramError
from iosim.program.ir import (
    Affine,
    Alloc,
    Free,
    Index,
    Load,
    Loop,
    Node,
    Program,
    Span,
    Store,
    Tile,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trips:
    """⌈length / step⌉, the iterations of a loop."""

    length: Affine
    step: str

    def __str__(self) -> str:
        length = str(self.length)
        return f"⌈({length})/{self.step}⌉" if " " in length else f"⌈{length}/{self.step}⌉"


@dataclass(frozen=True, slots=True)
class Clip:
    """min(length, step), the extent of a loop's first tile."""

    length: Affine
    step: str

    def __str__(self) -> str:
        return f"min({self.length}, {self.step})"


Atom: TypeAlias = str | Trips | Clip | Tile
Monomial: TypeAlias = tuple[Atom, ...]


def _order(atom: Atom) -> tuple[int, str]:
    return (isinstance(atom, (Trips, Clip)), str(atom))


@dataclass(frozen=True)
class Poly:
    """An integer polynomial in sizes, parameters, trip counts and open extents."""

    terms: Mapping[Monomial, int] = field(default_factory=dict)

    @classmethod
    def of(cls, value: int | Atom | Affine) -> Poly:
        """Lift a number, an atom or an affine expression."""
        if isinstance(value, int):
            return cls({(): value} if value else {})
        if isinstance(value, Affine):
            terms: dict[Monomial, int] = {(name,): c for name, c in value.terms}
            return cls(terms | ({(): value.const} if value.const else {}))
        return cls({(value,): 1})

    def __add__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for monomial, c in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + c
        return Poly({m: c for m, c in terms.items() if c})

    def __sub__(self, other: Poly) -> Poly:
        return self + Poly.of(-1) * other

    def __mul__(self, other: Poly) -> Poly:
        total: dict[Monomial, int] = {}
        for a, x in self.terms.items():
            for b, y in other.terms.items():
                m = tuple(sorted((*a, *b), key=_order))
                total[m] = total.get(m, 0) + x * y
        return Poly({m: c for m, c in total.items() if c})

    def replace(self, atom: Atom, by: Poly) -> Poly:
        """The polynomial with every occurrence of an atom replaced."""
        total = Poly()
        for monomial, c in self.terms.items():
            term = Poly({tuple(a for a in monomial if a != atom): c})
            for _ in range(monomial.count(atom)):
                term = term * by
            total = total + term
        return total

    def slope(self, atom: Atom) -> Poly:
        """The derivative with respect to an atom, all others fixed."""
        total = Poly()
        for m, c in self.terms.items():
            if degree := m.count(atom):
                k = m.index(atom)
                total = total + Poly({m[:k] + m[k + 1 :]: degree * c})
        return total

    def atoms(self) -> set[Atom]:
        """Every atom of the polynomial."""
        return {a for m in self.terms for a in m}

    def evaluate(self, value: Callable[[Atom], Any]) -> Any:
        """Σ c·∏ value(atom), in whatever arithmetic `value` returns."""
        total: Any = 0
        for monomial, c in self.terms.items():
            product: Any = c
            for atom in monomial:
                product = product * value(atom)
            total = total + product
        return total

    def names(self) -> set[str]:
        """Every size and parameter that the polynomial depends on."""
        found: set[str] = set()
        for atom in (a for m in self.terms for a in m):
            if isinstance(atom, (Trips, Clip)):
                found |= {atom.step, *(name for name, _ in atom.length.terms)}
            else:
                found.add(str(atom))
        return found

    def __str__(self) -> str:
        parts = []
        for m, c in sorted(self.terms.items(), key=lambda term: term[1] < 0):
            factors = [
                str(a) + ("" if m.count(a) == 1 else "²" if m.count(a) == 2 else f"^{m.count(a)}")
                for a in dict.fromkeys(m)
            ]
            if abs(c) != 1 or not m:
                factors.insert(0, str(abs(c)))
            parts.append(("- " if c < 0 else "+ ") + "·".join(factors))
        text = " ".join(parts)
        return text.removeprefix("+ ") if text else "0"


@dataclass(frozen=True)
class Level:
    """A candidate for the peak: an occupancy, and the lengths of loops that must not be empty."""

    words: Poly
    runs: frozenset[Affine]


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
    return Closed(tuple(_nest(g) for g in groups), program.keys())


def _nest(body: tuple[Node, ...]) -> Nest:
    levels: list[Level] = []
    _occupy(body, {}, frozenset(), levels)
    return Nest(_count(body), _prune(levels))


def _words(index: tuple[Index, ...], extent: Callable[[Tile], Poly]) -> Poly:
    words = Poly.of(1)
    for x in index:
        if isinstance(x, Span):
            words = words * Poly.of(x.length)
        elif not x.point:
            words = words * extent(x)
    return words


def moved(node: Load | Store, outer: Sequence[Loop]) -> Poly:
    """The words of one transfer over all iterations of the loops around it, outermost first."""
    words = _words(node.index, Poly.of)
    for loop in reversed(outer):
        words = _sum(loop, words)
    return words


def _count(body: tuple[Node, ...]) -> dict[Key, Poly]:
    total: dict[Key, Poly] = {}
    for node in body:
        found: dict[Key, Poly] = {}
        if isinstance(node, Loop):
            found = {key: _sum(node, words) for key, words in _count(node.body).items()}
        elif isinstance(node, Load):
            found = {("load", node.tensor): _words(node.index, Poly.of)}
        elif isinstance(node, Store):
            found = {("store", node.tensor): _words(node.index, Poly.of)}
        for key, words in found.items():
            total[key] = total.get(key, Poly()) + words
    return total


def _sum(loop: Loop, words: Poly) -> Poly:
    """Close one loop: degree 0 × trips, degree 1 × length."""
    length = Poly.of(loop.span.length)
    trips = length if loop.step is None else Poly.of(Trips(loop.span.length, loop.step))
    total = Poly()
    for monomial, c in words.terms.items():
        degree = monomial.count(loop.tile)
        if degree > 1:
            raise ProgramError(
                f"a transfer is of degree {degree} in tile {loop.tile}: no closed form; index a "
                "tensor by one loop in one place only"
            )
        rest = Poly({tuple(a for a in monomial if a != loop.tile): c})
        total = total + rest * (length if degree else trips)
    return total


def _occupy(
    body: tuple[Node, ...], live: dict[str, Poly], runs: frozenset[Affine], out: list[Level]
) -> None:
    """Walk first iterations, noting the occupancy after every allocation."""
    live = dict(live)
    for node in body:
        if isinstance(node, (Load, Alloc)):
            live[node.buffer] = _words(node.index, Poly.of)
            out.append(Level(sum(live.values(), Poly()), runs))
        elif isinstance(node, Free):
            del live[node.buffer]
        elif isinstance(node, Loop):
            inner = runs
            if node.step is not None and not node.span.whole:
                inner = runs | {node.span.length}
            scope: list[Level] = []
            _occupy(node.body, live, inner, scope)
            # Only here is it known how long a tile of this loop is.
            out.extend(Level(_substitute(level.words, node), level.runs) for level in scope)


def _substitute(words: Poly, loop: Loop) -> Poly:
    """Replace the loop's extent symbol by the extent of its first tile."""
    if loop.step is None:
        return words
    # Parameters are clipped to their axis when bound, so a whole axis needs no minimum.
    atom: Atom = loop.step if loop.span.whole else Clip(loop.span.length, loop.step)
    return words.replace(loop.tile, Poly.of(atom))


class Reading(Protocol):
    """Atoms in some arithmetic: integers, arrays, symbols, or bounds over boxes."""

    def __call__(self, atom: Atom) -> Any:
        """The value of an atom."""
        ...

    def where(self, words: Any, length: Affine) -> Any:
        """Words, or 0 where the loop of this length is empty."""
        ...

    def largest(self, words: Sequence[Any]) -> Any:
        """The largest of several values, or 0 for none."""
        ...


def highest(levels: Iterable[tuple[Any, Iterable[Affine]]], reading: Reading) -> Any:
    """The peak: of the occupancies that are reached, the largest.

    Args:
        levels: occupancies in the reading's arithmetic, and the lengths that must not be empty.
    """
    return reading.largest([functools.reduce(reading.where, runs, words) for words, runs in levels])


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
    return b.runs <= a.runs and all(c >= 0 for c in (b.words - a.words).terms.values())
