"""The constant-tight lower bound for attention: one function for every M.

Theorem (proofs/constant_tight.md).  Let an algorithm compute O = softmax(QKᵀ)V for H heads of
N × d through a fast memory of M words, executing every product q·k and p·v.  It moves at least
`lower_bound(N, d, M, heads=H, klass=…)` words, loads plus stores.  The classes are those of
`CLASSES`.  In `once` and `recompute` the d products of a score go into one accumulator and the N
terms of an output entry into one, in any order and with any rescaling; a score that is computed
again starts from an empty accumulator.  In `trees` every product is executed once, and all sums,
of scores and of output entries, may be taken by any trees of additions: by Lemma 8 the bound is
that of `once`.

Scores may be spilled, finished or not; maxima, exponentials, row sums and divisions are free.
Results may overwrite operands or not: the bound is the same.
For M ≥ 5d²/2 (`once`, `trees`) and M ≥ 9d²/2 (`recompute`) the bound is 4HN²d²/M, with no
lower-order term; as M/d² → 0 it tends to 4HN²d/√M.  Only NumPy is needed.

>>> round(lower_bound(4096, 64, 16384))
16777216
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.bounds.base import CLASSES, BoundClass, Floats, bound_class
from iosim.bounds.unified.caps import largest_m2, once_cap, recompute_cap
from iosim.bounds.unified.multipliers import once, recompute
from iosim.errors import InputError
from iosim.problem import LARGEST_SIZE, check_size

__all__ = ["CLASSES", "EXACT_FROM", "Certificate", "certificate", "lower_bound", "lower_bound_many"]

# Relative allowances for rounding: of the caps' formulas, and of one quotient.
_SAFE = 1 - 1e-9
_SAFE_EXACT = 1 - 2.0**-50
_CHUNK = 1 << 15


@dataclass(frozen=True, slots=True)
class Certificate:
    """Why the bound holds: Theorem 1 with these numbers gives `words`.

    A segment has `segment` counted transfers; the multipliers are scaled by d; `cap` bounds the
    charged work of any segment, scaled by d³; `weight` is the charged work of the whole problem,
    scaled by HN²d.  Then words = segment·weight·HN²d / (cap·d³) + M − segment (N·keys for N²).
    """

    klass: BoundClass
    segment: int
    multipliers: tuple[float, ...]
    weight: float
    cap: float
    words: float


# Segment length, multipliers, weight, cap.
_Numbers = tuple[Floats, tuple[Floats, ...], Floats, Floats]


def _once(x: Floats, M: Floats, square: Floats) -> _Numbers:
    """The numbers of Theorem 1 at x = M/d² where every score is computed once."""
    ratio, m1, m2 = once(x)
    S = np.maximum(1.0, np.rint(ratio * M))
    return S, (m1, m2), 2 - m1, once_cap(x, S / square, m1, m2)


def _recompute(x: Floats, M: Floats, square: Floats) -> _Numbers:
    """The same where scores may be computed again."""
    ratio, a0, m1, m2 = recompute(x)
    S = np.maximum(1.0, np.rint(ratio * M))
    s = S / square
    m2 = np.minimum(m2, largest_m2(x, s, a0, m1))
    return S, (a0, m1, m2), np.full_like(x, 2.0), recompute_cap(x, s, a0, m1, m2)


@dataclass(frozen=True)
class _Theorem:
    """What the theorems say of one class.

    Attributes:
        numbers: a choice for Theorem 1 at (M/d², M, d²); any choice is valid.
        exact_from: M/d² from which the bound is 4HN²d²/M (Theorem 2).
        within: a class whose bound holds too: one that contains this one, or, for `trees`, by
            Lemma 8.
    """

    numbers: Callable[[Floats, Floats, Floats], _Numbers]
    exact_from: float
    within: str | None = None


_THEOREMS: dict[str, _Theorem] = {
    "once": _Theorem(_once, 2.5, "recompute"),
    "recompute": _Theorem(_recompute, 4.5),
    "trees": _Theorem(_once, 2.5, "recompute"),
}
EXACT_FROM: dict[str, float] = {name: t.exact_from for name, t in _THEOREMS.items()}


def _bound(theorem: _Theorem, pairs: Floats, d: Floats, M: Floats) -> Floats:
    """Theorems 1 and 2 for one class alone; 0 where one segment may do all."""
    square = d * d
    x = M / square
    S, _, weight, cap = theorem.numbers(x, M, square)
    words = _SAFE * ((S / square) * weight * pairs / cap) + M - S
    # Theorem 1 needs two segments at least.
    words = np.where(_SAFE * weight * pairs > cap * square, words, 0.0)
    return np.where(x >= theorem.exact_from, _SAFE_EXACT * (4 * pairs / x), words)


def _best(theorem: _Theorem, N: Floats, d: Floats, M: Floats, H: Floats, keys: Floats) -> Floats:
    """The class's bound, that of the class around it, and the compulsory words."""
    pairs = H * N * keys
    words = _bound(theorem, pairs, d, M)
    if theorem.within is not None:
        words = np.maximum(words, _bound(_THEOREMS[theorem.within], pairs, d, M))
    return np.maximum(words, 2 * H * (N + keys) * d)


def lower_bound(
    N: int,
    d: int,
    M: int,
    *,
    heads: int = 1,
    klass: BoundClass | str = "once",
    keys: int | None = None,
) -> float:
    """Words that every algorithm of the class moves, loads plus stores: a proven lower bound.

    `keys` is the number of rows of K and V, where it differs from N, that of Q and O.  Never
    below the compulsory 2·heads·(N + keys)·d.  Raises InputError for sizes that are not integers
    in 1..2**40, or for an unknown class.
    """
    theorem = _THEOREMS[bound_class(klass).name]
    sizes = {"N": N, "d": d, "M": M, "heads": heads, "keys": N if keys is None else keys}
    arrays = [np.array([check_size(name, v)], dtype=np.float64) for name, v in sizes.items()]
    return float(_best(theorem, *arrays)[0])


def lower_bound_many(
    N: Any, d: Any, M: Any, *, heads: Any = 1, klass: BoundClass | str = "once", keys: Any = None
) -> Floats:
    """`lower_bound` at many points: integer arrays (or integers) that broadcast → float64 array.

    Raises InputError for entries outside 1..2**40, for arrays that are not of integers or do not
    broadcast, or for an unknown class.
    """
    theorem = _THEOREMS[bound_class(klass).name]
    sizes = {"N": N, "d": d, "M": M, "heads": heads, "keys": N if keys is None else keys}
    given = {name: np.asarray(v) for name, v in sizes.items()}
    for name, v in given.items():
        if not np.issubdtype(v.dtype, np.integer):
            raise InputError(f"{name} has entries of type {v.dtype}: give integers")
        if v.size and not (v.min() >= 1 and v.max() <= LARGEST_SIZE):
            raise InputError(
                f"{name} has entries {v.min()}..{v.max()}, "
                f"outside 1..{LARGEST_SIZE} (2**40): choose sizes inside"
            )
    try:
        arrays = np.broadcast_arrays(*given.values())
    except ValueError:
        shapes = ", ".join(f"{name} {v.shape}" for name, v in given.items())
        raise InputError(f"shapes {shapes} do not broadcast: give shapes that do") from None
    shape = arrays[0].shape
    flat = [np.asarray(v, dtype=np.float64).ravel() for v in arrays]
    out = np.empty(flat[0].size)
    for start in range(0, out.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        out[part] = _best(theorem, *(v[part] for v in flat))
    return out.reshape(shape)


def certificate(
    N: int,
    d: int,
    M: int,
    *,
    heads: int = 1,
    klass: BoundClass | str = "once",
    keys: int | None = None,
) -> Certificate:
    """The numbers that Theorem 1 is used with at this point, in the class's own theorem.

    `keys` is the number of rows of K and V, where it differs from N, that of Q and O.  Raises
    InputError like `lower_bound`.  Beyond `EXACT_FROM` the words may fall short of those of
    `lower_bound` by the last digits only; below, `lower_bound` may take a wider class's bound.
    """
    chosen = bound_class(klass)
    sizes = {"N": N, "d": d, "M": M, "heads": heads, "keys": N if keys is None else keys}
    n, size, m, h, n_keys = (check_size(name, v) for name, v in sizes.items())
    square = np.array([float(size) ** 2])
    M_ = np.array([float(m)])
    S, multipliers, weight, cap = _THEOREMS[chosen.name].numbers(M_ / square, M_, square)
    words = _SAFE * ((S / square) * weight * (float(h) * n * n_keys) / cap) + M_ - S
    return Certificate(
        chosen,
        int(S[0]),
        tuple(float(v[0]) for v in multipliers),
        float(weight[0]),
        float(cap[0]),
        float(words[0]),
    )
