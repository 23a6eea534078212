"""Functions of NumPy on words, one by one, and moves of words: what modules of PyTorch are made of.

A view moves no words: it is the same tensor in another shape, or a part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.models.operators.base import Kind, Operator, elementwise_kind, row_kind
from iosim.models.operators.elementwise import _passed, erf, silu
from iosim.models.operators.normalisation import mean_along


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _masked(x: Any, mask: Any, value: float) -> Any:
    return np.where(mask, value, x)


def _apply_mask(x: Any, mask: Any, value: float) -> Any:
    return np.where(mask, x, value)


def _names(op: Operator, setting: str, otherwise: Sequence[str]) -> list[str]:
    told: str = op.setting(setting)
    return told.split() or list(otherwise)


def _view(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    (x,), (y,) = op.reads, op.writes
    order, into = _names(op, "order", x.names), _names(op, "into", y.names)
    turned = np.transpose(arrays[0], [x.names.index(a) for a in order])
    if (part := op.setting("part")) is not None:
        turned = turned[tuple(slice(*p) for p in part)]
    shaped = np.reshape(turned, tuple(op.sizes[a] for a in into))
    return [np.transpose(shaped, [into.index(a) for a in y.names])]


def _check_view(op: Operator) -> None:
    (x,), (y,) = op.reads, op.writes
    for setting, t in (("order", x), ("into", y)):
        if sorted(_names(op, setting, t.names)) != sorted(t.names):
            raise InputError(f"{op.name}: {setting} must name the axes of {t.name}, each once")
    part = op.setting("part")
    if part is not None and len(part) != len(x.axes):
        raise InputError(f"{op.name}: part must have a start, a stop and a step for each axis")


def _nothing(op: Operator) -> Mapping[str, int]:
    return dict.fromkeys((t.name for t in op.tensors), 0)


def _all(op: Operator) -> Mapping[str, int]:
    return {}


def _no_code(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    raise InputError(f"{op.name}: there is no code for {op.setting('of') or 'an opaque operator'}")


def _concatenate(op: Operator, arrays: Sequence[Any]) -> Sequence[Any]:
    """Each input calls the axis that it is joined along by a name of its own."""
    (axis,), (y,) = op.over, op.writes
    turned = []
    for t, x in zip(op.reads, arrays, strict=True):
        (own,) = (a for a in t.names if a not in y.names)
        turned.append(np.transpose(x, [t.names.index(own if a == axis else a) for a in y.names]))
    return [np.concatenate(turned, axis=y.names.index(axis))]


KINDS = (
    elementwise_kind(
        "shift", "x plus a number", lambda x, value: x + value, settings={"value": None}
    ),
    elementwise_kind(
        "power",
        "x to the power of a number",
        lambda x, exponent: x**exponent,
        settings={"exponent": None},
    ),
    elementwise_kind("subtract", "x − y", np.subtract, 2),
    elementwise_kind("divide", "x / y", np.divide, 2),
    elementwise_kind("maximum", "the larger of x and y", np.maximum, 2),
    elementwise_kind("minimum", "the smaller of x and y", np.minimum, 2),
    elementwise_kind("negative", "−x", np.negative),
    elementwise_kind("exp", "eˣ", np.exp),
    elementwise_kind("log", "the natural logarithm", np.log),
    elementwise_kind("sqrt", "the square root", np.sqrt),
    elementwise_kind("rsqrt", "1 over the square root", lambda x: 1 / np.sqrt(x)),
    elementwise_kind("reciprocal", "1 / x", lambda x: 1 / x),
    elementwise_kind("sin", "the sine", np.sin),
    elementwise_kind("cos", "the cosine", np.cos),
    elementwise_kind("tanh", "the hyperbolic tangent", np.tanh),
    elementwise_kind("erf", "the error function", erf),
    elementwise_kind("sigmoid", "1 / (1 + e⁻ˣ)", _sigmoid),
    elementwise_kind("silu", "x · σ(x)", silu),
    elementwise_kind("where", "y where x is true, else z", np.where, 3),
    elementwise_kind(
        "masked", "a number where the mask is true, else x", _masked, 2, settings={"value": None}
    ),
    elementwise_kind(
        "seen", "x where the mask is true, else a number", _apply_mask, 2, settings={"value": None}
    ),
    elementwise_kind("logical_not", "whether x is false", np.logical_not),
    elementwise_kind("logical_and", "whether both are true", np.logical_and, 2),
    elementwise_kind("equal", "whether x = y", np.equal, 2),
    elementwise_kind("less_equal", "whether x ≤ y", np.less_equal, 2),
    row_kind("mean", "mean over axes", mean_along, over=None),
    row_kind(
        "max",
        "maximum over axes",
        lambda x, axis: np.max(x, axis=axis, keepdims=True),
        over=None,
    ),
    elementwise_kind(
        "copy",
        "the same words in another place, the axes perhaps in another order",
        lambda x: x,
        gradient=_passed,
    ),
    elementwise_kind("repeat", "the same words along more axes", lambda x: x, touched=_all),
    Kind(
        "concatenate",
        "tensors one after another; along an axis of the output",
        "elementwise",
        _concatenate,
        reads=None,
        over=1,
        touched=_all,
    ),
    Kind(
        "opaque",
        "anything: its tensors cross once, its FLOP are not known and count as 0",
        "elementwise",
        _no_code,
        reads=None,
        writes=None,
        over=None,
        touched=_all,
        flop=lambda op: 0,
        settings={"of": ""},
    ),
    Kind(
        "view",
        "a part of a tensor, or all of it in another shape; no word moves",
        "elementwise",
        _view,
        check=_check_view,
        touched=_nothing,
        settings={"order": "", "into": "", "part": None},
    ),
)
