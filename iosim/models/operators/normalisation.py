"""Statistical normalizations: a statistic of a row, by a sum or a maximum, and its use.

A sum alone, as a bias's gradient needs it, is of this class too.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from iosim.models.operators.base import Grads, Operator, row_kind
from iosim.models.operators.elementwise import _kind, gradient_by
from iosim.models.operators.flop import Outline


def sum_along(x: Any, axis: Any) -> Any:
    """Sums along axes, which stay with length 1."""
    return np.sum(x, axis=axis, keepdims=True)


def mean_along(x: Any, axis: Any) -> Any:
    """Means along axes, which stay with length 1."""
    return sum_along(x, axis) / math.prod(x.shape[a] for a in axis)


def _softmax(x: Any, axis: Any) -> Any:
    weights = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return weights / sum_along(weights, axis)


def _softmax_back(dy: Any, y: Any, axis: Any) -> Any:
    return y * (dy - sum_along(dy * y, axis))


def _layer_norm(x: Any, gamma: Any, beta: Any, axis: Any, epsilon: float) -> Any:
    mean = mean_along(x, axis)
    off = x - mean
    rstd = 1 / np.sqrt(mean_along(off * off, axis) + epsilon)
    return off * rstd * gamma + beta, mean, rstd


def _layer_norm_dx(dy: Any, x: Any, gamma: Any, mean: Any, rstd: Any, axis: Any) -> Any:
    unit = (x - mean) * rstd
    scaled = dy * gamma
    first = mean_along(scaled, axis)
    second = mean_along(scaled * unit, axis)
    return (scaled - first - unit * second) * rstd


def _layer_norm_dw(dy: Any, x: Any, mean: Any, rstd: Any, axis: Any) -> Any:
    return (
        sum_along(dy * ((x - mean) * rstd), axis),
        sum_along(dy, axis),
    )


def _rms_norm(x: Any, gamma: Any, axis: Any, epsilon: float) -> Any:
    rstd = 1 / np.sqrt(mean_along(x * x, axis) + epsilon)
    return x * rstd * gamma, rstd


def _rms_norm_dx(dy: Any, x: Any, gamma: Any, rstd: Any, axis: Any) -> Any:
    scaled = dy * gamma
    unit = x * rstd
    return (scaled - unit * (mean_along(scaled * unit, axis))) * rstd


def _rms_norm_dw(dy: Any, x: Any, rstd: Any, axis: Any) -> Any:
    return sum_along(dy * (x * rstd), axis)


def _norm_gradient(name: str, weights: int) -> Any:
    """Of a norm with this many weights, which keeps as many statistics."""
    kept = range(weights + 2, 2 * weights + 2)

    def gradient(op: Operator, grads: Grads) -> list[Operator]:
        others = tuple(a for a in op.reads[0].names if a not in op.over)
        to_weights = gradient_by(f"{name}_dw", 0, *kept, to=range(1, weights + 1), name="dW")
        found = [replace(one, over=others) for one in to_weights(op, grads)]
        return found + gradient_by(f"{name}_dx", 0, 1, *kept)(op, grads)

    return gradient


def _loss(logits: Any, labels: Any, axis: Any) -> Any:
    top = np.max(logits, axis=axis, keepdims=True)
    lse = np.log(sum_along(np.exp(logits - top), axis)) + top
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
    row_kind(
        "softmax",
        "exp(x) over its sum; along a row",
        _softmax,
        again=True,
        gradient=gradient_by("softmax_back", 1),
    ),
    row_kind(
        "softmax_back",
        "gradient of softmax",
        _softmax_back,
        2,
        again=True,
    ),
    row_kind(
        "layer_norm",
        "(x − mean) / deviation · γ + β; mean and 1/deviation are kept",
        _layer_norm,
        3,
        writes=3,
        kept=2,
        again=True,
        settings=_EPSILON,
        gradient=_norm_gradient("layer_norm", 2),
    ),
    row_kind(
        "layer_norm_dx",
        "gradient of layer_norm to x",
        _layer_norm_dx,
        5,
        again=True,
    ),
    row_kind(
        "layer_norm_dw",
        "gradients of layer_norm to γ and β; along the rows",
        _layer_norm_dw,
        4,
        writes=2,
        over=None,
    ),
    row_kind(
        "rms_norm",
        "x / root of the mean square · γ; 1/root is kept",
        _rms_norm,
        2,
        writes=2,
        kept=1,
        again=True,
        settings=_EPSILON,
        gradient=_norm_gradient("rms_norm", 1),
    ),
    row_kind(
        "rms_norm_dx",
        "gradient of rms_norm to x",
        _rms_norm_dx,
        4,
        again=True,
    ),
    row_kind(
        "rms_norm_dw",
        "gradient of rms_norm to γ; along the rows",
        _rms_norm_dw,
        3,
        over=None,
    ),
    row_kind("sum", "sum over axes: a bias's gradient", sum_along, over=None),
    row_kind(
        "cross_entropy",
        "−log softmax(x) at a label, and log Σ exp, which is kept",
        _loss,
        2,
        writes=2,
        kept=1,
        gradient=_loss_gradient,
    ),
    row_kind(
        "cross_entropy_back",
        "gradient of the mean of cross_entropy",
        _loss_back,
        3,
    ),
)
