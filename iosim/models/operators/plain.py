"""Functions of NumPy on words, one by one, and moves of words: what modules of PyTorch are made of.

A view moves no words: it is the same tensor in another shape, or a part of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.models.operators.base import Kind, Operator, mapped
from iosim.models.operators.elementwise import _passed


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


def _masked(x: Any, mask: Any, value: float) -> Any:
    return np.where(mask, value, x)


def _apply_mask(x: Any, mask: Any, value: float) -> Any:
    return np.where(mask, x, value)


def _mean(x: Any, axis: Any) -> Any:
    return np.sum(x, axis=axis, keepdims=True) / math.prod(x.shape[a] for a in axis)


def _erf(x: Any) -> Any:
    from scipy.special import erf

    return erf(x)


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


def _plain(name: str, says: str, code: Callable[..., Any], reads: int = 1, **settings: Any) -> Kind:
    return Kind(name, says, "elementwise", mapped(code), reads=reads, settings=settings)


KINDS = (
    _plain("shift", "x plus a number", lambda x, value: x + value, value=None),
    _plain("power", "x to the power of a number", lambda x, exponent: x**exponent, exponent=None),
    _plain("subtract", "x − y", np.subtract, 2),
    _plain("divide", "x / y", np.divide, 2),
    _plain("maximum", "the larger of x and y", np.maximum, 2),
    _plain("minimum", "the smaller of x and y", np.minimum, 2),
    _plain("negative", "−x", np.negative),
    _plain("exp", "eˣ", np.exp),
    _plain("log", "the natural logarithm", np.log),
    _plain("sqrt", "the square root", np.sqrt),
    _plain("rsqrt", "1 over the square root", lambda x: 1 / np.sqrt(x)),
    _plain("reciprocal", "1 / x", lambda x: 1 / x),
    _plain("sin", "the sine", np.sin),
    _plain("cos", "the cosine", np.cos),
    _plain("tanh", "the hyperbolic tangent", np.tanh),
    _plain("erf", "the error function", _erf),
    _plain("sigmoid", "1 / (1 + e⁻ˣ)", _sigmoid),
    _plain("silu", "x · σ(x)", _silu),
    _plain("where", "y where x is true, else z", np.where, 3),
    _plain("masked", "a number where the mask is true, else x", _masked, 2, value=None),
    _plain("seen", "x where the mask is true, else a number", _apply_mask, 2, value=None),
    _plain("logical_not", "whether x is false", np.logical_not),
    _plain("logical_and", "whether both are true", np.logical_and, 2),
    _plain("equal", "whether x = y", np.equal, 2),
    _plain("less_equal", "whether x ≤ y", np.less_equal, 2),
    Kind("mean", "mean over axes", "normalisation", mapped(_mean), over=None),
    Kind(
        "max",
        "maximum over axes",
        "normalisation",
        mapped(lambda x, axis: np.max(x, axis=axis, keepdims=True)),
        over=None,
    ),
    Kind(
        "copy",
        "the same words in another place, the axes perhaps in another order",
        "elementwise",
        mapped(lambda x: x),
        gradient=_passed,
    ),
    Kind(
        "repeat", "the same words along more axes", "elementwise", mapped(lambda x: x), touched=_all
    ),
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
