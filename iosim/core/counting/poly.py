"""Integer polynomials in sizes, parameters, trip counts and the extents of open tiles.

`Poly` is the algebra of counts and peaks.  It is built once per program; evaluated on integers it
counts one instance, on arrays a million, and on sympy's symbols it is the formula.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from iosim.core.program.hashed import Hashed, hashed
from iosim.core.program.index import Affine, Span, Tile


@hashed
@dataclass(frozen=True, slots=True)
class Trips(Hashed):
    """⌈length / step⌉, the iterations of a loop."""

    length: Affine
    step: str

    def __str__(self) -> str:
        length = str(self.length)
        return f"⌈({length})/{self.step}⌉" if " " in length else f"⌈{length}/{self.step}⌉"


@hashed
@dataclass(frozen=True, slots=True)
class Part(Hashed):
    """The length of a span that depends on open tiles, or the trips of a loop over it."""

    span: Span
    step: str | None = None

    def __str__(self) -> str:
        return f"|{self.span}|" if self.step is None else f"⌈|{self.span}|/{self.step}⌉"


@hashed
@dataclass(frozen=True, slots=True)
class Clip(Hashed):
    """min(length, step), the extent of a loop's first tile.

    The length of a loop over an outer tile is that tile's, or what that tile is clipped to.
    """

    length: Affine | Part | Tile | Clip
    step: str

    def __str__(self) -> str:
        return f"min({self.length}, {self.step})"


@hashed
@dataclass(frozen=True, slots=True)
class Sum(Hashed):
    """Σ over the tiles of a loop of a product of atoms, each of which depends on the tile."""

    tile: Tile
    span: Span
    step: str | None
    factors: tuple[Atom, ...]

    def __str__(self) -> str:
        return f"Σ_{self.tile} {'·'.join(map(_factor, self.factors))}"


@hashed
@dataclass(frozen=True, slots=True)
class Row(Hashed):
    """Σ over the pairs of a block mask that one of its rows marks, of 1 or of |columns|.

    It is open until the loop of the tile `rows` is closed: then sums over the whole mask take its
    place, which are polynomials in numbers of the mask.
    """

    mask: str
    rows: Tile
    columns: Tile
    step: str | None
    extents: bool

    def __str__(self) -> str:
        one = f"|{self.columns}|" if self.extents else "1"
        return f"Σ_{self.columns} {self.mask}[{self.rows}, {self.columns}]·{one}"


Atom: TypeAlias = str | Trips | Part | Clip | Sum | Row | Tile
Monomial: TypeAlias = tuple[Atom, ...]


@functools.lru_cache(2**16)
def _order(atom: Atom) -> tuple[int, str]:
    return (isinstance(atom, (Trips, Part, Clip, Sum, Row)), str(atom))


def _factor(atom: Atom) -> str:
    return f"|{atom}|" if isinstance(atom, Tile) else str(atom)


@functools.lru_cache(2**16)
def names_of(atom: Atom) -> frozenset[str]:
    """Every size and parameter that an atom depends on."""
    match atom:
        case Trips(Affine() as length, step) | Clip(Affine() as length, step):
            return _named(length) | {step}
        case Part(span, step):
            return frozenset((span.axis, *((step,) if step else ()))).union(
                *map(_named, span.bounds)
            )
        case Clip((Part() | Clip()) as length, step):
            return names_of(length) | {step}
        case Clip(Tile(), step):
            return frozenset((step,))
        case Sum(_, span, step, factors):
            found = names_of(Part(span, step))
            return found.union(*(names_of(x) for x in factors if not isinstance(x, Tile)))
        case _:
            return frozenset((str(atom),))


def _named(value: Affine) -> frozenset[str]:
    return frozenset([name for name, _ in value.sizes])


@functools.lru_cache(2**16)
def follows(atom: Atom, tile: Tile) -> bool:
    """Whether an atom differs between the iterations of a tile's loop."""
    match atom:
        case Tile():
            return atom == tile
        case Row():
            return atom.rows == tile
        case Part(span):
            return any(edge.tile == tile for edge in span.edges)
        case Clip((Part() | Clip()) as length):
            return follows(length, tile)
        case Sum(_, span, _, factors):
            return follows(Part(span), tile) or any(follows(x, tile) for x in factors)
        case _:
            return False


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
            terms: dict[Monomial, int] = {(str(name),): c for name, c in value.terms}
            return cls(terms | ({(): value.const} if value.const else {}))
        return cls({(value,): 1})

    def __add__(self, other: Poly) -> Poly:
        if not (self.terms and other.terms):
            return self if self.terms else other
        terms = dict(self.terms)
        for monomial, c in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + c
        return Poly({m: c for m, c in terms.items() if c})

    def __sub__(self, other: Poly) -> Poly:
        return self + Poly({m: -c for m, c in other.terms.items()})

    def __mul__(self, other: Poly) -> Poly:
        total: dict[Monomial, int] = {}
        for a, x in self.terms.items():
            for b, y in other.terms.items():
                m = tuple(sorted((*a, *b), key=_order)) if a and b else a or b
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
        total: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            if atom in m:
                k = m.index(atom)
                rest = m[:k] + m[k + 1 :]
                total[rest] = total.get(rest, 0) + m.count(atom) * c
        return Poly({m: c for m, c in total.items() if c})

    def atoms(self) -> set[Atom]:
        """Every atom of the polynomial."""
        return {a for m in self.terms for a in m}

    def evaluate(self, value: Callable[[Atom], Any]) -> Any:
        """Σ c·∏ value(atom), in whatever arithmetic `value` returns."""
        total: Any = 0
        for monomial, c in self.terms.items():
            factors = [value(atom) for atom in monomial]
            if c != 1 or not factors:
                factors.insert(0, c)
            total = total + functools.reduce(operator.mul, factors)
        return total

    def names(self) -> frozenset[str]:
        """Every size and parameter that the polynomial depends on."""
        return self._names

    @functools.cached_property
    def by_sign(self) -> tuple[Poly, Poly]:
        """What is added, and what is subtracted."""
        return (
            Poly({m: c for m, c in self.terms.items() if c > 0}),
            Poly({m: -c for m, c in self.terms.items() if c < 0}),
        )

    @functools.cached_property
    def _names(self) -> frozenset[str]:
        return frozenset().union(*map(names_of, self.atoms()))

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
