"""The constant-tight lower bound for attention: one function for every M.

Theorem (proofs/constant_tight.md).  Let an algorithm compute O = softmax(QKᵀ)V for H heads of
N × d through a fast memory of M words, executing every product q·k and p·v.  It moves at least
`lower_bound(N, d, M, heads=H, klass=…)` words, loads plus stores.  The classes are those of
`CLASSES`.  In `once` and `recompute` the d products of a score go into one accumulator and the N
terms of an output entry into one, in any order and with any rescaling; a score that is computed
again starts from an empty accumulator.  In `trees` every product is executed once, and all sums,
of scores and of output entries, may be taken by any trees of additions: by Lemma 8 the bound is
that of `once`.  In `recompute-trees` products may be executed again as well: Theorem 4.

Scores may be spilled, finished or not; maxima, exponentials, row sums and divisions are free.
Results may overwrite operands or not: the bound is the same.
For M ≥ 5d²/2 (`once`, `trees`) and M ≥ 4d² (`recompute`, `recompute-trees`) the bound is
4HN²d²/M, with no lower-order term; as M/d² → 0 it tends to 4HN²d/√M, in `recompute-trees` to half
of it.  Between 0.018d² and 2.2d² `once` and `trees` have a bound that keeps spilled scores apart
(proofs/constant_tight_spills.md).  Only NumPy is needed.

More generally (proofs/attention_options.md) the theorem is about any set of pairs of a row of Q and
a row of K: masks, numbers of keys, and heads that share K and V.  `pattern_bound` takes the number
of pairs, and of rows and columns that occur in them.  Where V and O have d_v columns, (d + d_v)/2
is in the place of d in `once` and `trees`; in `recompute` the leading term is 4·pairs·d·d_v/M
if d < d_v.

`iosim.bounds.constant_tight` registers this bound in `BOUNDS`, and `iosim.bounds.backward` and
reports use it.  `caps` and `boxes` have the caps of Theorems 1 and 5, `pv_products` has that of
Theorem 4, `multipliers` has stored choices, and `spills` is Theorem 5.

Changing files here: a cap that is too small makes a **false** bound, so no formula changes without
its lemma; any multipliers are valid, and only make the bound weaker.  The lab runs `pattern_words`
on symbols (``iosim/lab/data/traced.py``): no branches on values there.  Proofs check the functions
by name, and ``tests/bounds/test_mutants.py`` replaces them by wrong ones.  If a bound changes,
raise `iosim.base.revision.REVISION`.

>>> round(lower_bound(4096, 64, 16384))
16777216
>>> round(pattern_bound(pairs=4096 * 4097 // 2, rows=4096, columns=4096, d=64, M=16384))
8390656

>>> [name for name in CLASSES if name in EXACT_FROM], EXACT_FROM["once"]
(['once', 'recompute', 'trees', 'recompute-trees'], 2.5)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from iosim.base.arrays import Floats
from iosim.base.errors import InputError
from iosim.base.validate import check_size
from iosim.bounds.classes import CLASSES, BoundClass, wide
from iosim.bounds.terms import check_entries, in_chunks
from iosim.bounds.unified import spills
from iosim.bounds.unified.caps import bowed, largest_m2, once_cap, recompute_cap
from iosim.bounds.unified.multipliers import once, recompute
from iosim.bounds.unified.pv_products import second_segment

__all__ = [
    "CLASSES",
    "EXACT_FROM",
    "Certificate",
    "certificate",
    "lower_bound",
    "lower_bound_many",
    "pattern_bound",
    "pattern_bound_many",
    "pattern_words",
]

# Relative allowances for rounding: of the caps' formulas, and of one quotient.
_SAFE = 1 - 1e-9
_SAFE_EXACT = 1 - 2.0**-50


@dataclass(frozen=True, slots=True)
class Certificate:
    """Why the bound holds: Theorem 1, or 4, with these numbers gives `words`.

    A segment has `segment` counted transfers; the multipliers are scaled by d; `cap` bounds the
    charged work of any segment, scaled by d³; `weight` is the charged work of the whole problem,
    scaled by HN²d.  Then words = segment·weight·HN²d / (cap·d³) + M − segment (N·keys for N²,
    (d + d_v)/2 for d).

    >>> found = certificate(N=4096, d=64, M=16384)
    >>> found.klass.name, round(found.words)
    ('once', 16777216)
    """

    klass: BoundClass
    segment: int
    multipliers: tuple[float, ...]
    weight: float
    cap: float
    words: float


# Segment length, multipliers, weight, cap.
_Numbers = tuple[Floats, tuple[Floats, ...], Floats, Floats]


def _once(x: Floats, M: Floats, square: Floats, first: Floats) -> _Numbers:
    """The numbers of Theorem 1 at x = M/d² where every score is computed once."""
    ratio, m1, m2 = once(x)
    S = np.maximum(1.0, np.rint(ratio * M))
    return S, (m1, m2), 2 - m1, once_cap(x, S / square, m1, m2)


def _recompute(x: Floats, M: Floats, square: Floats, first: Floats) -> _Numbers:
    """The same where scores may be computed again."""
    ratio, a0, m1, m2 = recompute(x, first)
    S = np.maximum(1.0, np.rint(ratio * M))
    s = S / square
    m2 = np.minimum(m2, largest_m2(x, s, a0, m1, first))
    lean = 2 - 2 * first
    with np.errstate(divide="ignore"):
        near = 0.999 / lean
    # At these a0 an edge is convex, which it must be.
    convex = np.where(lean > 0, np.maximum(a0, 1 + m2 - near), np.minimum(a0, 1 - near))
    a0 = np.where(bowed(x, s, a0, m2, first), a0, convex)
    m1 = np.minimum(m1, 2 - a0)
    m2 = np.minimum(m2, largest_m2(x, s, a0, m1, first))
    m2 = np.where(bowed(x, s, a0, m2, first), m2, 0.0)
    cap = recompute_cap(x, s, a0, m1, m2, first)
    return S, (a0, m1, m2), np.full_like(x, 2.0), cap


def _solve_recompute_trees(x: Floats, M: Floats, square: Floats, first: Floats) -> _Numbers:
    """The numbers of Theorem 4, where products may be executed again and sums are any trees."""
    S, cap = second_segment(x, M, square, first, 2 - first)
    return S, (), 2 - first, cap


@dataclass(frozen=True)
class _Theorem:
    """What the theorems say of one class.

    Attributes:
        numbers: a choice for its theorem at (M/d², M, d², 2d/(d + d_v)), (d + d_v)/2 for the d of
            the first three; any choice is valid.
        exact_from: M/d² from which the bound is 4HN²d²/M (Theorems 2 and 4), for d_v < d times
            2d/(d + d_v) if it is for `narrow` V and O.
        widths: the d and d_v for which it is so: "any", or "narrow", d_v ≤ d.
        within: a class whose bound holds too: one that contains this one, or, for `trees`, by
            Lemma 8.
        apart: whether Theorem 5 of proofs/constant_tight_spills.md holds.
    """

    numbers: Callable[[Floats, Floats, Floats, Floats], _Numbers]
    exact_from: float
    widths: Literal["any", "narrow"] = "any"
    within: str | None = None
    apart: bool = False

    def exact(self, x: Floats, first: Floats) -> Any:
        """Where the bound is 4HN²d²/M."""
        if self.widths == "any":
            return x >= self.exact_from
        return (x >= self.exact_from * first) & (first >= 1)


_THEOREMS: dict[str, _Theorem] = {
    "once": _Theorem(_once, 2.5, within="recompute", apart=True),
    "recompute": _Theorem(_recompute, 4.0, widths="narrow", within="recompute-trees"),
    "trees": _Theorem(_once, 2.5, within="recompute", apart=True),
    "recompute-trees": _Theorem(_solve_recompute_trees, 4.0, widths="narrow"),
}
EXACT_FROM: dict[str, float] = {name: t.exact_from for name, t in _THEOREMS.items()}


def _bound(theorem: _Theorem, pairs: Floats, d: Floats, d_v: Floats, M: Floats) -> Floats:
    """Theorems 1, 2 and 4 for one class alone; 0 where one segment may do all."""
    side = (d + d_v) / 2
    square = side * side
    x = M / square
    S, _, weight, cap = theorem.numbers(x, M, square, d / side)
    words = _SAFE * ((S / square) * weight * pairs / cap) + M - S
    # Theorem 1 needs two segments at least.
    words = np.where(_SAFE * weight * pairs > cap * square, words, 0.0)
    return np.where(theorem.exact(x, d / side), _SAFE_EXACT * (4 * pairs / x), words)


def _best(
    theorem: _Theorem, pairs: Floats, ends: Floats, d: Floats, d_v: Floats, M: Floats
) -> Floats:
    """The class's bounds, those of the classes around it, and the compulsory words.

    `ends` is the number of rows of Q and of K that occur in a pair.
    """
    words = _bound(theorem, pairs, d, d_v, M)
    if theorem.apart:
        # With fewer columns the problem is no harder.
        words = np.maximum(words, spills.words(pairs, ends, np.minimum(d, d_v), M))
    while theorem.within is not None:
        theorem = _THEOREMS[theorem.within]
        words = np.maximum(words, _bound(theorem, pairs, d, d_v, M))
    least = ends * (d + d_v)
    # Below 2**53 whole numbers are exact.
    return np.maximum(words, np.where(least < 2.0**53, least, _SAFE_EXACT * least))


def _grid(N: Floats, heads: Floats, keys: Floats) -> tuple[Floats, Floats]:
    """Pairs, and rows of Q and K, where every row of a head sees every column."""
    return heads * N * keys, heads * (N + keys)


def lower_bound(
    N: int,
    d: int,
    M: int,
    *,
    heads: int = 1,
    klass: BoundClass | str = "once",
    keys: int | None = None,
    d_v: int | None = None,
) -> float:
    """Words that every algorithm of the class moves, loads plus stores: a proven lower bound.

    `keys` is the number of rows of K and V, where it differs from N, that of Q and O; `d_v` the
    number of columns of V and O, where it differs from d, that of Q and K.  Never below the
    compulsory heads·(N + keys)·(d + d_v).  Raises InputError for sizes that are not integers in
    1..2**40, or for an unknown class.

    >>> round(lower_bound(N=4096, d=64, M=16384)), 4 * 4096**2 * 64**2 // 16384
    (16777216, 16777216)
    >>> round(lower_bound(N=4096, d=64, M=16384, klass="recompute"))
    16777216
    """
    sizes = _sizes(N, d, M, heads, keys, d_v)
    for name, value in sizes.items():
        check_size(name, value)
    return float(lower_bound_many(**sizes, klass=klass))


def _sizes(N: Any, d: Any, M: Any, heads: Any, keys: Any, d_v: Any) -> dict[str, Any]:
    return {
        "N": N,
        "d": d,
        "M": M,
        "heads": heads,
        "keys": N if keys is None else keys,
        "d_v": d if d_v is None else d_v,
    }


def lower_bound_many(
    N: Any,
    d: Any,
    M: Any,
    *,
    heads: Any = 1,
    klass: BoundClass | str = "once",
    keys: Any = None,
    d_v: Any = None,
    apart: bool = True,
) -> Floats:
    """`lower_bound` at many points: integer arrays (or integers) that broadcast → float64 array.

    Without `apart` it is that of proofs/constant_tight.md alone.

    Raises InputError for entries outside 1..2**40, for arrays that are not of integers or do not
    broadcast, or for an unknown class.

    >>> lower_bound_many(4096, 64, np.array([16384, 32768])).round().tolist()
    [16777216.0, 8388608.0]
    """
    theorem = _THEOREMS[wide(klass).name]
    if not apart:
        theorem = replace(theorem, apart=False)
    sizes = _sizes(N, d, M, heads, keys, d_v)
    for name, v in sizes.items():
        check_entries(name, v)

    def words(N: Floats, d: Floats, M: Floats, heads: Floats, keys: Floats, d_v: Floats) -> Floats:
        return _best(theorem, *_grid(N, heads, keys), d, d_v, M)

    return in_chunks(words, sizes)


def pattern_bound(
    pairs: int,
    rows: int,
    columns: int,
    d: int,
    M: int,
    *,
    d_v: int | None = None,
    klass: BoundClass | str = "once",
) -> float:
    """`lower_bound` for any set of pairs: a mask, in blocks or not, and heads that share K and V.

    Args:
        pairs: scores that are needed, over all heads.
        rows: rows of Q that occur in a pair, over all heads.
        columns: rows of K that do, over all heads of K and V.
        d, d_v: columns of Q and K, and of V and O (default: d).
        M: words of fast memory.
        klass: the class, or its name.

    Never below the compulsory (rows + columns)·(d + d_v).  Raises InputError for numbers that are
    not integers, for more pairs than rows·columns, for rows or columns that are more than the
    pairs, or for an unknown class.

    >>> round(pattern_bound(pairs=6, rows=3, columns=3, d=2, M=100))
    24
    """
    for name, value in (("pairs", pairs), ("rows", rows), ("columns", columns)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise InputError(f"{name} must be a whole number, got {value!r}: give an integer")
    if not max(rows, columns) <= pairs <= rows * columns:
        raise InputError(
            f"pairs = {pairs} of rows = {rows} and columns = {columns}: give between "
            f"{max(rows, columns)} and {rows * columns}"
        )
    sizes = check_size("d", d), check_size("M", M)
    d_v = check_size("d_v", d if d_v is None else d_v)
    return float(pattern_bound_many(pairs, rows, columns, *sizes, d_v=d_v, klass=klass))


def pattern_words(
    klass: BoundClass | str, pairs: Floats, ends: Floats, d: Floats, M: Floats, d_v: Floats
) -> Floats:
    """`pattern_bound` of float64 arrays of one shape, by NumPy's functions alone.

    `ends` are rows and columns together.  Raises InputError for an unknown class.

    >>> pairs, ends, d, M = (np.array([x]) for x in (4096.0**2, 8192.0, 64.0, 16384.0))
    >>> pattern_words("once", pairs, ends, d, M, d).round().tolist()
    [16777216.0]
    """
    return _best(_THEOREMS[wide(klass).name], pairs, ends, d, d_v, M)


def pattern_bound_many(
    pairs: Any,
    rows: Any,
    columns: Any,
    d: Any,
    M: Any,
    *,
    d_v: Any = None,
    klass: BoundClass | str = "once",
) -> Floats:
    """`pattern_bound` at many points: numbers or arrays that broadcast → float64 array.

    The numbers may be floats, as pairs soon leave the range of 64 bits.  Raises InputError for
    arrays that do not broadcast, or an unknown class; whether a point can be is **not** checked.

    >>> half = 4096 * 4097 // 2
    >>> pattern_bound_many(half, 4096, 4096, 64, np.array([16384, 32768])).round().tolist()
    [8390656.0, 4195328.0]
    """
    words = functools.partial(pattern_words, klass)
    ends = np.asarray(rows, np.float64) + np.asarray(columns, np.float64)
    sizes = {"pairs": pairs, "ends": ends, "d": d, "M": M, "d_v": d if d_v is None else d_v}
    return in_chunks(words, sizes)


def certificate(
    N: int,
    d: int,
    M: int,
    *,
    heads: int = 1,
    klass: BoundClass | str = "once",
    keys: int | None = None,
    d_v: int | None = None,
) -> Certificate:
    """The numbers that Theorem 1 is used with at this point, in the class's own theorem.

    `keys` and `d_v` as for `lower_bound`.  Raises InputError like it.  Beyond `EXACT_FROM` the
    words may fall short of those of `lower_bound` by the last digits only; below, `lower_bound`
    may take a wider class's bound, or that of proofs/constant_tight_spills.md.

    >>> certificate(N=4096, d=64, M=16384).segment
    16384
    """
    chosen = wide(klass)
    sizes = {name: check_size(name, v) for name, v in _sizes(N, d, M, heads, keys, d_v).items()}
    side = (sizes["d"] + sizes["d_v"]) / 2
    square, M_ = np.array([side**2]), np.array([float(sizes["M"])])
    first = np.array([sizes["d"] / side])
    S, multipliers, weight, cap = _THEOREMS[chosen.name].numbers(M_ / square, M_, square, first)
    pairs = float(sizes["heads"]) * sizes["N"] * sizes["keys"]
    words = _SAFE * ((S / square) * weight * pairs / cap) + M_ - S
    return Certificate(
        chosen,
        int(S[0]),
        tuple(float(v[0]) for v in multipliers),
        float(weight[0]),
        float(cap[0]),
        float(words[0]),
    )
