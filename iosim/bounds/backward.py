"""Lower bounds for the backward pass of attention.

A backward pass computes QKᵀ and PᵀdO, which is what a forward pass of K, Q and dO does, so that the
forward pass's bound holds for it.  Its five products share rows and columns, which gives more: see
proofs/attention_backward.md.

Proved in `proofs/attention_backward.md#theorem-1`, `proofs/attention_backward.md#theorem-2`,
`proofs/attention_backward.md#theorem-3`, `proofs/attention_backward.md#theorem-4`,
`proofs/attention_backward.md#theorem-5`, `proofs/attention_backward.md#theorem-6`,
`proofs/attention_backward.md#theorem-7` and `proofs/attention_backward.md#theorem-8`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from iosim.bounds.base import EVERY_OPTION, Bound
from iosim.bounds.charges import AGAIN, BLEND, MIXTURES, ONCE, Blend, Charges
from iosim.bounds.classes import CLASSES, WIDE, BoundClass
from iosim.bounds.constant_tight import leading, of_pairs


def _compulsory(t: Any) -> Any:
    rows, columns = t.heads * t.rows, t.kv_heads * t.columns
    read = (rows + columns) * (t.d + t.d_v)
    return read + t.heads * t.N * t.d + t.kv_heads * t.N_k * (t.d + t.d_v)


COMPULSORY = Bound(
    name="backward-compulsory",
    problem="attention-backward",
    covers="every product is computed explicitly, so every word of Q, K, V and dO is read",
    formula=_compulsory,
    validity="all sizes and every M",
    source="elementary: Q, K, V and dO are read once, dQ, dK and dV are written once",
    options=EVERY_OPTION,
)


def _forward(klass: BoundClass) -> Bound:
    return Bound(
        name=f"backward-as-forward-{klass.name}",
        problem="attention-backward",
        covers=klass.says,
        formula=functools.partial(leading, klass=klass),
        validity="every N, d, heads and M",
        source="iosim, proofs/attention_backward.md, Theorem 1",
        proof="attention_backward",
        theorem="theorem-1",
        numeric=functools.partial(of_pairs, klass=klass),
        classes=(klass,),
        options=EVERY_OPTION,
        options_proof="attention_backward",
        options_theorem="theorem-1",
    )


FORWARD_ONCE, FORWARD_RECOMPUTE, FORWARD_TREES, FORWARD_RECOMPUTE_TREES = map(_forward, WIDE)


@dataclass(frozen=True)
class _Cut:
    """Segments of a theorem: `length` events each, of which one does at most `cap` of `work`."""

    length: Any
    work: Any
    cap: Any

    def words(self, M: Any) -> Any:
        return self.length * (self.work / self.cap - 1) + M

    @property
    def holds(self) -> bool:
        """Whether there are two segments at least, so that something is said."""
        return bool(self.length >= 1 and self.work >= 2 * self.cap)


_FEW = "one segment could hold half of all pairs"


def _theorem(
    number: int, name: str, classes: tuple[str, ...], validity: str, formula: Any, outside: Any
) -> Bound:
    return Bound(
        name=f"backward-{name}",
        problem="attention-backward",
        covers="; or ".join(CLASSES[x].says for x in classes),
        formula=formula,
        validity=validity,
        source=f"iosim, proofs/attention_backward.md, Theorem {number}",
        outside=outside,
        proof="attention_backward",
        theorem=f"theorem-{number}",
        classes=tuple(CLASSES[x] for x in classes),
        options=EVERY_OPTION,
        options_proof="attention_backward",
        options_theorem=f"theorem-{number}",
    )


def _segments(
    number: int,
    name: str,
    classes: tuple[str, ...],
    least: tuple[str, Callable[[Any], Any]],
    lines: Callable[[Any], Any],
) -> tuple[Bound, Bound]:
    """Two bounds: segments of M events where M + M is at least T, and of T − M below.

    T is `least`: a segment of this many events and words, or more, does T²/(4·`lines`) pairs at
    most.
    """
    says, words = least

    def long(t: Any) -> _Cut:
        return _Cut(t.M, t.pairs, t.M**2 / lines(t))

    def short(t: Any) -> _Cut:
        return _Cut(words(t) - t.M, t.pairs, words(t) ** 2 / (4 * lines(t)))

    def outside(t: Any) -> str | None:
        if words(t) > 2 * t.M:
            return f"M is below {says}"
        return None if long(t).holds else _FEW

    def outside_short(t: Any) -> str | None:
        if words(t) <= 2 * t.M:
            return f"M is not below {says}"
        return None if short(t).holds else _FEW

    return (
        # −M and +M cancel.
        _theorem(
            number,
            name,
            classes,
            f"M ≥ {says}, two segments at least",
            lambda t: t.pairs * lines(t) / t.M,
            outside,
        ),
        _theorem(
            number,
            f"{name}-short",
            classes,
            f"M < {says}, two segments at least",
            lambda t: short(t).words(t.M),
            outside_short,
        ),
    )


def _lines(t: Any) -> Any:
    """Words of a row times words of a column, of an inner pair in Theorem 2."""
    return 2 * (t.d + t.min(t.d, t.d_v)) * (2 * t.d + t.d_v)


SEGMENTS, SHORT = _segments(
    2,
    "segments",
    ("once", "recompute"),
    ("12d² (with d_v: 3(d + min(d, d_v))²)", lambda t: 6 * (t.d + t.min(t.d, t.d_v)) ** 2),
    _lines,
)


def _kinds(t: Any) -> Any:
    """The T from which Theorem 3 holds, rounded up."""
    both = t.d + t.d_v
    share = (t.d + both) / (2 * t.d + both)
    more = t.max(1, (1 + share) ** 2 * (2 + share) / (2 * (2 + 3 * share)))
    square = 1 / (4 - share**2)
    words = more**2 * (t.sqrt(1 + 32 * square / more) - 1) / (16 * square)
    unit = both * (2 * t.d + both) / (t.d + both)
    # A factor for rounding.
    return t.ceil(unit**2 * (2 * more - words) * (10**12 + 1) / 10**12)


KINDS, KINDS_SHORT = _segments(
    3,
    "kinds",
    ("once", "trees"),
    ("5.43d² (for d_v ≠ d: see the proof)", _kinds),
    # Words of a row of Q, dO and dQ times those of a column of K, V, dK and dV.
    lambda t: 2 * (t.d + t.d_v) * (2 * t.d + t.d_v),
)


def _products(t: Any, again: bool) -> _Cut:
    """Segments of Theorem 4, of the best length; `again`: scores may be computed again.

    The charge of a pair is the one at which both parts of the cap are equal, or the largest one
    that recomputing allows.
    """
    root = t.sqrt(3)
    weight = 2 * t.d_v + 3 * root / 2 * t.d
    w = 8 * root / 9 * weight / t.sqrt(t.M)
    T = ((t.sqrt(1 + 3 * w**2) - 1) / w) ** 2 * t.M
    if not again:
        S = t.floor(T - t.M)
        T = t.M + S
        charge = 3 * root / 16 * t.sqrt(T)
        return _Cut(S, t.pairs * (weight - 2 * charge), T * t.sqrt(T) / (3 * root))
    most = t.min(root / 2 * t.d, t.d_v)
    S = t.floor(t.min(T, t.max(256 * most**2 / 27, 2 * t.M)) - t.M)
    T = t.M + S
    charge = t.min(most, 3 * root / 16 * t.sqrt(T))
    return _Cut(S, t.pairs * (weight - 2 * charge), T**2 / (16 * charge))


def _loomis_whitney(name: str, classes: tuple[str, ...], again: bool) -> Bound:
    return _theorem(
        4,
        name,
        classes,
        "two segments at least",
        # A factor for rounding.
        lambda t: (1 - 1e-9) * _products(t, again).words(t.M),
        lambda t: None if _products(t, again).holds else _FEW,
    )


PRODUCTS = _loomis_whitney("products", ("once", "trees"), again=False)
PRODUCTS_AGAIN = _loomis_whitney("products-recompute", ("recompute",), again=True)

_WIDTHS = "its charges are for d_v = d"
_WEIGHTS = "its weights are for d_v = d"


def _best(t: Any, rates: dict[Fraction, Fraction], less: int = 0) -> Any:
    """The most that segments of Td² − M − `less` events give, of those longer than M.

    `rates`: T → segments for each d² pairs.
    """
    lines = []
    for T, rate in rates.items():
        S = t.max(t.floor(T.numerator * t.d**2 / T.denominator) - t.M - less, 0)
        pairs = rate.numerator * t.pairs / (rate.denominator * t.d**2)
        lines.append(S * (pairs - 1) + t.M * t.min(S, 1))
    return t.max(*lines)


def _charged(
    number: int, name: str, classes: tuple[str, ...], records: tuple[Charges | Blend, ...]
) -> Bound:
    """Theorem 5 or 8 with the record that gives most of those whose segments are longer than M.

    The last record has the least work/c: where it needs two segments, all of them do.
    """
    longest = records[-1]

    rates = {one.T: one.work / one.c for one in records}

    def outside(t: Any) -> str | None:
        if t.d != t.d_v:
            return _WIDTHS
        if longest.T * t.d**2 < t.M + 1:
            return f"M is not below {float(longest.T):g}d²"
        few = longest.work * t.pairs < 2 * longest.c * t.d**2
        return _FEW if few else None

    return _theorem(
        number,
        name,
        classes,
        f"M < {float(longest.T):g}d², d_v = d, two segments at least",
        lambda t: _best(t, rates),
        outside,
    )


CHARGED = _charged(5, "charges", ("once", "trees"), (*AGAIN[:2], *ONCE))
CHARGED_AGAIN = _charged(5, "charges-recompute", ("recompute",), AGAIN)
BLENDED = _charged(8, "products-charges", ("once", "recompute", "trees"), (BLEND,))


def _outside_long(t: Any) -> str | None:
    if t.d != t.d_v:
        return _WIDTHS
    if 29 * t.d**2 > 4 * t.M:
        return "M is below 7.25d²"
    return None if t.pairs * _lines(t) >= 2 * t.M**2 else _FEW


CHARGED_LONG = _theorem(
    5,
    "charges-long",
    ("recompute",),
    "M ≥ 7.25d², d_v = d, two segments at least",
    lambda t: t.pairs * _lines(t) / t.M,
    _outside_long,
)


def _sums(t: Any) -> Any:
    """Words of dQ, dK and dV that have a pair; each is charged one store too many in Theorem 6."""
    return t.heads * t.rows * t.d + t.kv_heads * t.columns * (t.d + t.d_v)


def _meets_short() -> Bound:
    longest = MIXTURES[-1]
    rates = {one.T: 4 * one.lines / one.T**2 for one in MIXTURES}

    def outside(t: Any) -> str | None:
        if t.d != t.d_v:
            return _WEIGHTS
        if longest.T * t.d**2 < t.M + 2:
            return f"M is not below {float(longest.T):g}d²"
        return _FEW if rates[longest.T] * t.pairs < 2 * t.d**2 else None

    return _theorem(
        6,
        "meets-short",
        ("once", "trees"),
        f"M < {float(longest.T):g}d², d_v = d, two segments at least",
        lambda t: _best(t, rates, less=1) - _sums(t),
        outside,
    )


def _outside_meets(t: Any) -> str | None:
    if t.d != t.d_v:
        return _WEIGHTS
    if 61 * t.d**2 > 4 * (t.M + 1):
        return "M is below 15.25d²"
    return None if t.pairs * 14 * t.d**2 >= 2 * (t.M + 1) ** 2 else _FEW


MEETS_SHORT = _meets_short()
MEETS = _theorem(
    6,
    "meets",
    ("once", "trees"),
    "M ≥ 15.25d², d_v = d, two segments at least",
    lambda t: 14 * t.pairs * t.d**2 / (t.M + 1) - 1 - _sums(t),
    _outside_meets,
)


def _weighed(t: Any) -> _Cut:
    """Segments of Theorem 7: their length, all pairs, and the most pairs of one."""
    S = t.ceil(t.d * t.sqrt(2 * t.M))
    share = 14 * t.d**2 * (1 / S + 1 / t.M)
    return _Cut(S, t.pairs, S * ((1 - share) * (t.M + S) / 16 + share * t.M / 14) / t.d**2)


def _weighed_words(t: Any) -> Any:
    cut = _weighed(t)
    return (cut.length - 1) * (t.pairs / cut.cap - 1) - _sums(t)


def _outside_weighed(t: Any) -> str | None:
    if t.d != t.d_v:
        return _WEIGHTS
    if 200 * t.d**2 > t.M:
        return "M is below 200d²"
    return None if _weighed(t).holds else _FEW


WEIGHED = _theorem(
    7,
    "weighed",
    ("once", "trees"),
    "M ≥ 200d², d_v = d, two segments at least",
    _weighed_words,
    _outside_weighed,
)

THEOREMS = (
    FORWARD_ONCE,
    FORWARD_RECOMPUTE,
    FORWARD_TREES,
    FORWARD_RECOMPUTE_TREES,
    SEGMENTS,
    SHORT,
    KINDS,
    KINDS_SHORT,
    PRODUCTS,
    PRODUCTS_AGAIN,
    CHARGED,
    CHARGED_AGAIN,
    CHARGED_LONG,
    MEETS,
    MEETS_SHORT,
    WEIGHED,
    BLENDED,
)
