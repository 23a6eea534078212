"""Sums over the tiles of a loop, in time that does not grow with their number.

Over the full tiles t = 0 … n − 1 of a loop, every end of a span that names the tile is affine in t.
Cut at its axis, its length is affine piece by piece, and the trips ⌈length/C⌉ of a loop over it are
roundings of that.  A sum of products of such factors over one piece is

* a polynomial's sum where nothing is rounded, by Newton's forward differences;
* Σ tᵖ⌊(at + b)/m⌋^q where one thing is, by Euclid's algorithm on a and m: the word of steps to the
  right and up along the line is folded in a monoid that carries all the sums at once (the universal
  Euclidean algorithm; Graham, Knuth and Patashnik, Concrete Mathematics, section 3.5, has the sum
  for p = 0, q = 1);
* a sum over the residues of the common period where several different things are.

All of it is in integers.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from iosim.base.errors import ProgramError

# Residues that are summed one by one where several different roundings meet.
LONGEST_PERIOD = 2**14

Polynomial = list[int]  # coefficients, constant first


@dataclass(frozen=True, slots=True)
class Line:
    """start + slope·t."""

    start: int
    slope: int

    def __call__(self, t: int) -> int:
        """The value at t."""
        return self.start + self.slope * t

    def __sub__(self, other: Line | int) -> Line:
        if isinstance(other, int):
            return Line(self.start - other, self.slope)
        return Line(self.start - other.start, self.slope - other.slope)

    def turns(self) -> int | None:
        """The first t from which on the sign is another one, or None for a constant."""
        if self.slope > 0:
            return -(self.start // self.slope)
        return None if self.slope == 0 else self.start // -self.slope + 1


@dataclass(frozen=True, slots=True)
class Stretch:
    """A length along t: of start … stop, cut to low … high."""

    start: Line
    stop: Line
    low: int
    high: int

    def __call__(self, t: int) -> int:
        """The length at t."""
        start, stop = (min(max(x(t), self.low), self.high) for x in (self.start, self.stop))
        return max(stop - start, 0)

    def cuts(self) -> Iterator[int]:
        """Where the length may stop being affine."""
        lines = (
            self.start - self.low,
            self.start - self.high,
            self.stop - self.low,
            self.stop - self.high,
            self.stop - self.start,
        )
        yield from (t for line in lines if (t := line.turns()) is not None)


def pieces(n: int, cuts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The ranges of 0 … n − 1 between cuts, as (first, past)."""
    inside = sorted({0, n, *(t for t in cuts if 0 < t < n)})
    yield from ((a, b) for a, b in itertools.pairwise(inside) if a < b)


def over_tiles(n: int, factors: Sequence[tuple[Stretch, int | None]]) -> int:
    """Σ over t < n of a product of lengths and trips.

    Args:
        factors: lengths, each with the step that it is divided by and rounded up, or None.

    Raises ProgramError where different roundings meet whose common period is too long.
    """
    total = 0
    for first, past in pieces(n, (t for stretch, _ in factors for t in stretch.cuts())):
        lines: list[Line] = []
        rounded: list[tuple[Line, int]] = []
        for stretch, step in factors:
            here = stretch(first)
            line = Line(here, stretch(first + 1) - here if past - first > 1 else 0)
            if step is None:
                lines.append(line)
            else:
                rounded.append((line, step))
        total += products(past - first, lines, rounded)
    return total


def products(n: int, lines: Iterable[Line], rounded: Iterable[tuple[Line, int]]) -> int:
    """Σ over t < n of Π lines(t) · Π ⌈line(t)/step⌉."""
    plain: Polynomial = [1]
    for line in lines:
        plain = _times(plain, [line.start, line.slope])
    floors: list[tuple[tuple[int, int, int], Polynomial]] = []
    for line, step in rounded:
        # ⌈(at + b)/m⌉ = ⌊(at + b + m − 1)/m⌋, whole parts taken out and fractions reduced.
        a, b, m = line.slope, line.start + step - 1, step
        rest = [b // m, a // m]
        a, b = a % m, b % m
        if a == 0:
            plain = _times(plain, rest)
            continue
        g = math.gcd(a, m)
        floors.append(((a // g, b // g, m // g), rest))
    kinds = {key for key, _ in floors}
    if len(kinds) > 1:
        return _by_residues(n, plain, floors)
    # A polynomial in t for every power of the one rounding y.
    by_power: list[Polynomial] = [plain]
    for _, rest in floors:
        grown: list[Polynomial] = [[] for _ in range(len(by_power) + 1)]
        for q, poly in enumerate(by_power):
            grown[q] = _plus(grown[q], _times(poly, rest))
            grown[q + 1] = _plus(grown[q + 1], poly)
        by_power = grown
    total = polynomial(n, by_power[0])
    if kinds:
        sums = floor_sums(n, *kinds.pop(), max(map(len, by_power)) - 1, len(by_power) - 1)
        for q, poly in enumerate(by_power[1:], start=1):
            total += sum(c * sums[p][q] for p, c in enumerate(poly))
    return total


def _by_residues(
    n: int, plain: Polynomial, floors: Sequence[tuple[tuple[int, int, int], Polynomial]]
) -> int:
    period = math.lcm(*(m for (_, _, m), _ in floors))
    if min(period, n) > LONGEST_PERIOD:
        raise ProgramError(
            f"a sum of different roundings repeats after {period} tiles, and at most "
            f"{LONGEST_PERIOD} are summed: choose tile sizes with common factors"
        )
    total = 0
    for r in range(min(period, n)):
        # t = r + period·k, along which every rounding is affine.
        poly = _along(plain, r, period)
        for (a, b, m), rest in floors:
            whole = _along(rest, r, period)
            poly = _times(poly, _plus(whole, [(a * r + b) // m, a * period // m]))
        total += polynomial(-(-(n - r) // period), poly)
    return total


def polynomial(n: int, coefficients: Polynomial) -> int:
    """Σ over t < n of a polynomial in t, by its forward differences at 0."""
    values = [_at(coefficients, t) for t in range(len(coefficients))]
    total = 0
    for k in range(len(values)):
        total += values[0] * math.comb(n, k + 1)
        values = [b - a for a, b in itertools.pairwise(values)]
    return total


def floor_sums(n: int, a: int, b: int, m: int, P: int, Q: int) -> list[list[int]]:
    """Σ over t < n of tᵖ⌊(at + b)/m⌋^q, for all p ≤ P and q ≤ Q, with a, b ≥ 0 and m > 0.

    >>> floor_sums(4, 3, 1, 2, 1, 1)  # ⌊(3t + 1)/2⌋ is 0, 2, 3, 5
    [[4, 10], [6, 23]]
    """
    if n == 0:
        return [[0] * (Q + 1) for _ in range(P + 1)]
    zero = [[0] * (Q + 1) for _ in range(P + 1)]
    up = _Steps(0, 1, zero)
    right = _Steps(1, 0, [[1 if q == 0 else 0 for q in range(Q + 1)] for _ in range(P + 1)])
    word = _power(up, b // m).then(_line(a, m, b % m, n - 1, up, right))
    first = b // m  # t = 0 comes before the first step to the right
    return [[word.sums[p][q] + (0**p) * first**q for q in range(Q + 1)] for p in range(P + 1)]


@dataclass(frozen=True)
class _Steps:
    """A word of steps: how far it goes right and up, and Σ xᵖy^q after its steps right."""

    x: int
    y: int
    sums: list[list[int]]

    def then(self, other: _Steps) -> _Steps:
        """This word, and then another."""
        if not (other.x or other.y):
            return self
        if not (self.x or self.y):
            return other
        P, Q = len(self.sums), len(self.sums[0])
        xs, ys = _powers(self.x, P), _powers(self.y, Q)
        sums = [row[:] for row in self.sums]
        for p in range(P):
            for q in range(Q):
                sums[p][q] += sum(
                    math.comb(p, i) * xs[p - i] * math.comb(q, j) * ys[q - j] * other.sums[i][j]
                    for i in range(p + 1)
                    for j in range(q + 1)
                )
        return _Steps(self.x + other.x, self.y + other.y, sums)


def _line(a: int, m: int, b: int, n: int, up: _Steps, right: _Steps) -> _Steps:
    """The word that goes right n times, with ⌊(at + b)/m⌋ steps up before the t-th; b < m."""
    nothing = _power(up, 0)
    if n == 0:
        return nothing
    if a >= m:
        right = _power(up, a // m).then(right)
        a %= m
    top = (a * n + b) // m
    if top == 0:
        return _power(right, n)
    after = n - (m * top - b - 1) // a
    inner = _line(m, a, (m - b - 1) % a, top - 1, right, up)
    head = _power(right, (m - b - 1) // a).then(up)
    return head.then(inner).then(_power(right, after))


def _power(word: _Steps, n: int) -> _Steps:
    """A word n times over."""
    zero = [[0] * len(row) for row in word.sums]
    result = _Steps(0, 0, zero)
    while n:
        if n & 1:
            result = result.then(word)
        word = word.then(word)
        n >>= 1
    return result


def _powers(x: int, n: int) -> list[int]:
    return [x**k for k in range(n)]


def _at(coefficients: Polynomial, t: int) -> int:
    return functools.reduce(lambda value, c: value * t + c, reversed(coefficients), 0)


def _plus(a: Polynomial, b: Polynomial) -> Polynomial:
    n = max(len(a), len(b))
    return [x + y for x, y in zip(a + [0] * (n - len(a)), b + [0] * (n - len(b)), strict=True)]


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    product = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return product


def _along(coefficients: Polynomial, start: int, step: int) -> Polynomial:
    """The polynomial in k where t = start + step·k."""
    result: Polynomial = [0]
    for c in reversed(coefficients):
        result = _plus(_times(result, [start, step]), [c])
    return result
