"""A mixture of experts: which experts a token goes to, its rows sorted by expert, and back.

No row is dropped and none is padded: rows of one expert are neighbors, and a product takes each
row with its expert's weights, as MegaBlocks does (Gale et al., arXiv 2211.15841).

What these operators compute is right for any routing.  How many words they move depends on how
many experts have rows: the setting ``active``.  It may be an expected number, and then the words
are expected ones.  0 stands for the fewest that any routing has, which is 1.  The rows are split as
evenly as they can be over the active experts.

>>> from iosim.models.operators import operand, operator
>>> s = {"m": 4, "e": 8, "i": 1024, "u": 4096}
>>> x, experts = operand("X", "m i", s), operand("experts", "m", s)
>>> w = operand("W", "e u i", s, role="weight")
>>> up = operator("up", "expert_product", [x, w, experts], [operand("Y", "m u", s)], active=2.5)
>>> up.flop == 2 * 4 * 1024 * 4096, up.words["W"] == (2.5 * 4096 * 1024, 0)
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from string import ascii_letters
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.core.problem import MatMul
from iosim.models.operators.base import Grads, Kind, Operand, Operator
from iosim.models.operators.elementwise import _kind, gradient_by

Arrays = Sequence[Any]


def _none(op: Operator) -> int:
    return 0


# ---- choosing ------------------------------------------------------------------------------------


def _top(op: Operator, arrays: Arrays) -> Arrays:
    (scores,) = arrays
    best = np.argsort(-scores, axis=-1, kind="stable")[..., : op.writes[0].shape[-1]]
    return [np.take_along_axis(scores, best, axis=-1), best]


def _top_check(op: Operator) -> None:
    (x,), (last,) = op.reads, op.over
    for t in op.writes:
        if x.names[-1:] != (last,) or t.axes[:-1] != x.axes[:-1] or t.shape[-1] > x.shape[-1]:
            raise InputError(
                f"{op.name}: {t.name} must have the axes of {x.name}, whose last one is {last}, "
                f"with one of at most {op.sizes[last]} in the place of {last}"
            )


def _top_back(op: Operator, arrays: Arrays) -> Arrays:
    dy, numbers = arrays
    found = np.zeros(op.writes[0].shape)
    np.put_along_axis(found, numbers, dy, axis=-1)
    return [found]


def _top_back_check(op: Operator) -> None:
    (dx,) = op.writes
    for t in op.reads:
        if t.axes[:-1] != dx.axes[:-1] or t.shape[-1] > dx.shape[-1]:
            raise InputError(
                f"{op.name}: {t.name} must have the axes of {dx.name}, the last one "
                f"of at most {dx.shape[-1]}"
            )


def _sort(op: Operator, arrays: Arrays) -> Arrays:
    flat = np.reshape(arrays[0], -1)
    places = np.argsort(flat, kind="stable")
    return [places, flat[places]]


def _sort_check(op: Operator) -> None:
    for t in op.writes:
        if len(t.axes) != 1 or t.words != op.reads[0].words:
            raise InputError(
                f"{op.name}: {t.name} has {t.words} words, and must have one axis of "
                f"{op.reads[0].words}, all of {op.reads[0].name}"
            )


# ---- rows of tokens ------------------------------------------------------------------------------


def _rows_of(
    tokens: int, rows: int, places: int, *, gates: Sequence[int] = (), like: Sequence[int] = ()
) -> Callable[[Operator], None]:
    """A check that every token has the same number of rows; tensors by their place.

    Gates have a word for each row: the axes of tokens, and one more.  Others are like the rows.
    """

    def check(op: Operator) -> None:
        every = (*op.reads, *op.writes)
        token, row, place = every[tokens], every[rows], every[places]
        own = row.axes[1:]
        count = math.prod(n for _, n in token.axes[: len(token.axes) - len(own)])
        if token.axes[len(token.axes) - len(own) :] != own or place.axes != row.axes[:1]:
            raise InputError(
                f"{op.name}: {row.name} must have an axis of rows, that of "
                f"{place.name}, and then the last axes of {token.name}"
            )
        if row.shape[0] % count:
            raise InputError(
                f"{op.name}: {row.shape[0]} rows of {row.name} are not a multiple of the "
                f"{count} tokens of {token.name}"
            )
        for gate in (every[k] for k in gates):
            first = token.axes[: len(token.axes) - len(own)]
            if gate.axes[:-1] != first or gate.words != row.shape[0]:
                raise InputError(
                    f"{op.name}: {gate.name} must have the axes of the tokens of "
                    f"{token.name} and one more, {row.shape[0]} words"
                )
        for twin in (every[k] for k in like):
            if twin.axes != row.axes:
                raise InputError(f"{op.name}: {twin.name} must have the axes of {row.name}")

    return check


def _gather(op: Operator, arrays: Arrays) -> Arrays:
    x, places = arrays
    (rows,) = op.writes
    flat = np.reshape(x, (-1, *rows.shape[1:]))
    return [flat[places // (rows.shape[0] // len(flat))]]


def _gather_back(op: Operator, arrays: Arrays) -> Arrays:
    return [_added(op.writes[0], *arrays)]


def _added(t: Operand, rows: Any, places: Any) -> Any:
    """The sum of each token's rows."""
    flat = np.zeros((t.words // math.prod(rows.shape[1:]), *rows.shape[1:]))
    np.add.at(flat, places // (len(rows) // len(flat)), rows)
    return np.reshape(flat, t.shape)


def _weighed(rows: Any, places: Any, gates: Any) -> Any:
    return rows * np.reshape(np.reshape(gates, -1)[places], (-1, *[1] * (rows.ndim - 1)))


def _combine(op: Operator, arrays: Arrays) -> Arrays:
    rows, places, gates = arrays
    return [_added(op.writes[0], _weighed(rows, places, gates), places)]


def _combine_back(op: Operator, arrays: Arrays) -> Arrays:
    dy, rows, places, gates = arrays
    dy = np.reshape(dy, (-1, *rows.shape[1:]))
    each = dy[places // (len(rows) // len(dy))]
    dgates = np.zeros(gates.size)
    dgates[places] = np.sum(each * rows, axis=tuple(range(1, rows.ndim)))
    return [_weighed(each, places, gates), np.reshape(dgates, gates.shape)]


# ---- products ------------------------------------------------------------------------------------


def _active(op: Operator) -> Fraction:
    """How many experts have rows."""
    return Fraction(op.setting("active") or 1)


def _shares(op: Operator) -> list[tuple[Fraction, int]]:
    """How many experts have how many rows.

    A number of active experts between two integers is taken as the one or the other, with
    probabilities that have this mean.
    """
    rows, active = op.reads[2].words, _active(op)
    fewer = math.floor(active)
    found: dict[int, Fraction] = {}
    for experts, weight in ((fewer, fewer + 1 - active), (fewer + 1, active - fewer)):
        each, more = divmod(rows, experts)
        for size, count in ((each, experts - more), (each + 1, more)):
            if size and (times := weight * count):
                found[size] = found.get(size, Fraction(0)) + times
    return [(times, size) for size, times in found.items()]


def _sides(op: Operator) -> tuple[int, int]:
    """How many rows and how many experts."""
    weights = next(t for t in (*op.reads, *op.writes) if t.axes[0] != op.reads[2].axes[0])
    return op.reads[2].words, weights.shape[0]


def _axes(op: Operator) -> tuple[set[str], set[str], set[str]]:
    """Of the two inputs and the output, without rows and experts."""
    a, b, c = (set(t.names[1:]) for t in (*op.reads[:2], *op.writes))
    return a, b, c


def _product_check(op: Operator) -> None:
    a, b, c = _axes(op)
    rows = op.reads[2].axes
    tensors = (*op.reads[:2], *op.writes)
    weights = [t for t in tensors if t.axes[:1] != rows]
    if (
        len(rows) != 1
        or len(weights) != 1
        or set(weights[0].names[:1]) & (a | b | c | {rows[0][0]})
    ):
        raise InputError(
            f"{op.name}: two of {', '.join(t.name for t in tensors)} must begin with "
            f"the axis of {op.reads[2].name}, the other with experts"
        )
    if a ^ b != c:
        raise InputError(
            f"{op.name}: {op.writes[0].name} has the axes {_format_axes(c)}, not "
            f"{_format_axes(a ^ b)}, those that one input alone has"
        )
    most = min(_sides(op))
    if not 1 <= _active(op) <= most:
        raise InputError(
            f"{op.name}: active = {op.setting('active'):g} experts have rows, of {most} that can: "
            f"give 1 to {most}, or 0 for the fewest"
        )


def _format_axes(axes: set[str]) -> str:
    return " ".join(sorted(axes)) or "none"


def _product(op: Operator, arrays: Arrays) -> Arrays:
    rows, weights, experts = arrays
    spec = _spec(op)
    found = np.zeros(op.writes[0].shape)
    for e in np.unique(experts):
        found[experts == e] = np.einsum(
            f"A{spec[0]},{spec[1]}->A{spec[2]}", rows[experts == e], weights[e]
        )
    return [found]


def _spec(op: Operator) -> list[str]:
    letter = dict(zip(op.sizes, ascii_letters.lower(), strict=False))
    return ["".join(letter[a] for a in t.names[1:]) for t in (*op.reads[:2], *op.writes)]


def _weights(op: Operator, arrays: Arrays) -> Arrays:
    dy, rows, experts = arrays
    spec = _spec(op)
    found = np.zeros(op.writes[0].shape)
    for e in np.unique(experts):
        found[e] = np.einsum(
            f"A{spec[0]},A{spec[1]}->{spec[2]}", dy[experts == e], rows[experts == e]
        )
    return [found]


def _product_gradient(op: Operator, grads: Grads) -> list[Operator]:
    dy = grads.of(op.writes[0])
    if dy is None:
        return []
    rows, weights, experts = op.reads
    return [
        Operator(
            f"{op.name} d{x.name}",
            _kind(kind),
            (dy, other, experts),
            (grads.to(x),),
            settings=op.settings,
        )
        for x, other, kind in (
            (rows, weights, "expert_product"),
            (weights, rows, "expert_weights"),
        )
        if grads.wanted(x)
    ]


def _product_flop(op: Operator) -> int:
    a, b, c = _axes(op)
    return 2 * op.reads[2].words * math.prod(op.sizes[x] for x in a | b | c)


def _touched(op: Operator) -> Mapping[str, int]:
    """Weights of active experts alone."""
    weights = op.reads[1]
    return {weights.name: round(weights.words // weights.shape[0] * _active(op))}


def _as_products(op: Operator) -> list[tuple[Fraction, MatMul]]:
    """One product for each active expert."""
    a, b, c = _axes(op)
    m, n, k = (math.prod(op.sizes[x] for x in axes) for axes in (a & c, b & c, a & b))
    return [(times, MatMul(rows * m, n, k)) for times, rows in _shares(op)]


def _as_sums(op: Operator) -> list[tuple[Fraction, MatMul]]:
    """One product for each active expert; the sums of the others are 0."""
    a, b, _ = _axes(op)
    m, n = (math.prod(op.sizes[x] for x in axes) for axes in (a, b))
    return [(times, MatMul(m, n, rows)) for times, rows in _shares(op)]


_ROUTED = {"active": 0.0}


KINDS = (
    Kind(
        "top_k",
        "the largest values of a row, and their numbers; along a row",
        "normalisation",
        _top,
        writes=2,
        over=1,
        check=_top_check,
        gradient=gradient_by("top_k_back", 2),
        flop=_none,
    ),
    Kind(
        "top_k_back",
        "gradient of top_k: 0 for those that were not chosen",
        "elementwise",
        _top_back,
        reads=2,
        flop=_none,
        check=_top_back_check,
    ),
    Kind(
        "by_expert",
        "places of rows when they are sorted by expert, and each one's expert",
        "elementwise",
        _sort,
        writes=2,
        check=_sort_check,
        gradient=lambda op, grads: [],
        flop=_none,
    ),
    Kind(
        "gather",
        "a token's words in each of its rows; places of rows",
        "elementwise",
        _gather,
        reads=2,
        check=_rows_of(0, 2, 1),
        gradient=gradient_by("gather_back", 1),
        flop=_none,
    ),
    Kind(
        "gather_back",
        "the sum of each token's rows",
        "elementwise",
        _gather_back,
        reads=2,
        check=_rows_of(2, 0, 1),
        flop=lambda op: op.reads[0].words,
    ),
    Kind(
        "expert_product",
        "each row times its expert's matrix; rows, matrices, experts",
        "contraction",
        _product,
        reads=3,
        check=_product_check,
        gradient=_product_gradient,
        flop=_product_flop,
        touched=_touched,
        problem=_as_products,
        settings=_ROUTED,
    ),
    Kind(
        "expert_weights",
        "for each expert the product of its rows: gradient of expert_product",
        "contraction",
        _weights,
        reads=3,
        check=_product_check,
        flop=_product_flop,
        problem=_as_sums,
        settings=_ROUTED,
    ),
    Kind(
        "combine",
        "the sum of each token's rows, weighted; rows, places, weights",
        "elementwise",
        _combine,
        reads=3,
        check=_rows_of(3, 0, 1, gates=[2]),
        gradient=gradient_by("combine_back", 0, 1, 2, to=(0, 2)),
        flop=lambda op: 2 * op.reads[0].words,
    ),
    Kind(
        "combine_back",
        "gradients of combine to rows and weights",
        "elementwise",
        _combine_back,
        reads=4,
        writes=2,
        check=_rows_of(0, 1, 2, gates=[3, 5], like=[4]),
        flop=lambda op: 3 * op.reads[1].words,
    ),
)
