"""Statistical normalisations: a statistic of a row, by a sum or a maximum, and its use.

A sum alone, as a bias's gradient needs it, is of this class too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iosim.models.operators.base import Grads, Kind, Operator, mapped
from iosim.models.operators.elementwise import _kind
from iosim.models.operators.flop import Outline


def _softmax(x: Any, axis: Any) -> Any:
    weights = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return weights / np.sum(weights, axis=axis, keepdims=True)


def _softmax_back(dy: Any, y: Any, axis: Any) -> Any:
    return y * (dy - np.sum(dy * y, axis=axis, keepdims=True))


def _softmax_gradient(op: Operator, grads: Grads) -> list[Operator]:
    (y,) = op.writes
    dy = grads.of(y)
    if dy is None:
        return []
    return [
        Operator(f"{op.name} dX", _kind("softmax_back"), (dy, y), (grads.to(op.reads[0]),), op.over)
    ]


def _length(x: Any, axis: Any) -> int:
    return math.prod(x.shape[a] for a in axis)


def _layer_norm(x: Any, gamma: Any, beta: Any, axis: Any, epsilon: float) -> Any:
    n = _length(x, axis)
    mean = np.sum(x, axis=axis, keepdims=True) / n
    off = x - mean
    rstd = 1 / np.sqrt(np.sum(off * off, axis=axis, keepdims=True) / n + epsilon)
    return off * rstd * gamma + beta, mean, rstd


def _layer_norm_dx(dy: Any, x: Any, gamma: Any, mean: Any, rstd: Any, axis: Any) -> Any:
    n = _length(x, axis)
    unit = (x - mean) * rstd
    scaled = dy * gamma
    first = np.sum(scaled, axis=axis, keepdims=True) / n
    second = np.sum(scaled * unit, axis=axis, keepdims=True) / n
    return (scaled - first - unit * second) * rstd


def _layer_norm_dw(dy: Any, x: Any, mean: Any, rstd: Any, axis: Any) -> Any:
    return (
        np.sum(dy * ((x - mean) * rstd), axis=axis, keepdims=True),
        np.sum(dy, axis=axis, keepdims=True),
    )


def _rms_norm(x: Any, gamma: Any, axis: Any, epsilon: float) -> Any:
    n = _length(x, axis)
    rstd = 1 / np.sqrt(np.sum(x * x, axis=axis, keepdims=True) / n + epsilon)
    return x * rstd * gamma, rstd


def _rms_norm_dx(dy: Any, x: Any, gamma: Any, rstd: Any, axis: Any) -> Any:
    n = _length(x, axis)
    scaled = dy * gamma
    unit = x * rstd
    return (scaled - unit * (np.sum(scaled * unit, axis=axis, keepdims=True) / n)) * rstd


def _rms_norm_dw(dy: Any, x: Any, rstd: Any, axis: Any) -> Any:
    return np.sum(dy * (x * rstd), axis=axis, keepdims=True)


def _norm_gradient(name: str) -> Any:
    def gradient(op: Operator, grads: Grads) -> list[Operator]:
        dy = grads.of(op.writes[0])
        if dy is None:
            return []
        (x, gamma, *_), kept = op.reads, op.writes[1:]
        found = []
        if any(map(grads.wanted, op.reads[1:])):
            others = tuple(a for a in x.names if a not in op.over)
            found.append(
                Operator(
                    f"{op.name} dW",
                    _kind(f"{name}_dw"),
                    (dy, x, *kept),
                    tuple(map(grads.to, op.reads[1:])),
                    others,
                )
            )
        if grads.wanted(x):
            found.append(
                Operator(
                    f"{op.name} dX",
                    _kind(f"{name}_dx"),
                    (dy, x, gamma, *kept),
                    (grads.to(x),),
                    op.over,
                )
            )
        return found

    return gradient


def _sum(x: Any, axis: Any) -> Any:
    return np.sum(x, axis=axis, keepdims=True)


def _loss(logits: Any, labels: Any, axis: Any) -> Any:
    top = np.max(logits, axis=axis, keepdims=True)
    lse = np.log(np.sum(np.exp(logits - top), axis=axis, keepdims=True)) + top
    picked = np.take_along_axis(logits, labels, axis=axis[0])
    return lse - picked, lse


def _loss_back(logits: Any, labels: Any, lse: Any, axis: Any) -> Any:
    weights = np.exp(logits - lse)
    tokens = labels.size
    if isinstance(logits, Outline):
        return (weights - logits) / tokens
    right = np.arange(logits.shape[-1]) == labels
    return (weights - right) / tokens


def _loss_gradient(op: Operator, grads: Grads) -> list[Operator]:
    logits, labels = op.reads
    _, lse = op.writes
    return [
        Operator(
            f"{op.name} dX",
            _kind("cross_entropy_back"),
            (logits, labels, lse),
            (grads.to(logits),),
            op.over,
        )
    ]


_EPSILON = {"epsilon": 1e-5}

KINDS = (
    Kind(
        "softmax",
        "exp(x) over its sum; along a row",
        "normalisation",
        mapped(_softmax),
        over=1,
        again=True,
        gradient=_softmax_gradient,
    ),
    Kind(
        "softmax_back",
        "gradient of softmax",
        "normalisation",
        mapped(_softmax_back),
        reads=2,
        over=1,
        again=True,
    ),
    Kind(
        "layer_norm",
        "(x − mean) / deviation · γ + β; mean and 1/deviation are kept",
        "normalisation",
        mapped(_layer_norm),
        reads=3,
        writes=3,
        kept=2,
        over=1,
        again=True,
        settings=_EPSILON,
        gradient=_norm_gradient("layer_norm"),
    ),
    Kind(
        "layer_norm_dx",
        "gradient of layer_norm to x",
        "normalisation",
        mapped(_layer_norm_dx),
        reads=5,
        over=1,
        again=True,
    ),
    Kind(
        "layer_norm_dw",
        "gradients of layer_norm to γ and β; along the rows",
        "normalisation",
        mapped(_layer_norm_dw),
        reads=4,
        writes=2,
        over=None,
    ),
    Kind(
        "rms_norm",
        "x / root of the mean square · γ; 1/root is kept",
        "normalisation",
        mapped(_rms_norm),
        reads=2,
        writes=2,
        kept=1,
        over=1,
        again=True,
        settings=_EPSILON,
        gradient=_norm_gradient("rms_norm"),
    ),
    Kind(
        "rms_norm_dx",
        "gradient of rms_norm to x",
        "normalisation",
        mapped(_rms_norm_dx),
        reads=4,
        over=1,
        again=True,
    ),
    Kind(
        "rms_norm_dw",
        "gradient of rms_norm to γ; along the rows",
        "normalisation",
        mapped(_rms_norm_dw),
        reads=3,
        over=None,
    ),
    Kind("sum", "sum over axes: a bias's gradient", "normalisation", mapped(_sum), over=None),
    Kind(
        "cross_entropy",
        "−log softmax(x) at a label, and log Σ exp, which is kept",
        "normalisation",
        mapped(_loss),
        reads=2,
        writes=2,
        kept=1,
        over=1,
        gradient=_loss_gradient,
    ),
    Kind(
        "cross_entropy_back",
        "gradient of the mean of cross_entropy",
        "normalisation",
        mapped(_loss_back),
        reads=3,
        over=1,
    ),
)
