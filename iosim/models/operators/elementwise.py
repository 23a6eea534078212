"""Operators that take each word by itself: a word out depends on one word of each input."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.core.problem import BlockSparse, MarkedTiles
from iosim.models.operators.base import Grads, Kind, Operator, elementwise_kind
from iosim.models.operators.flop import Outline


def _passed(op: Operator, grads: Grads) -> list[Operator]:
    """Sums: each term's gradient is that of the sum, added up over axes that the term lacks."""
    (y,) = op.writes
    dy = grads.of(y)
    if dy is None:
        return []
    found = []
    for x in op.reads:
        if not grads.wanted(x):
            continue
        gone = tuple(a for a in y.names if a not in x.names)
        kind = _kind("sum" if gone else "same")
        found.append(Operator(f"{op.name} d{x.name}", kind, (dy,), (grads.to(x),), gone))
    return found


def _multiplied(op: Operator, grads: Grads) -> list[Operator]:
    """Each factor's gradient is the other's product, added up over axes that the factor lacks."""
    (y,), found = op.writes, []
    dy = grads.of(y)
    if dy is None:
        return []
    for x, other in (op.reads, op.reads[::-1]):
        if not grads.wanted(x):
            continue
        dx, name = grads.to(x), f"{op.name} d{x.name}"
        gone = tuple(a for a in y.names if a not in x.names)
        whole = y.renamed(f"whole {dx.name}", "gradient") if gone else dx
        found.append(Operator(name, _kind("multiply"), (dy, other), (whole,)))
        if gone:
            found.append(Operator(f"{name} sum", _kind("sum"), (whole,), (dx,), gone))
    return found


def gradient_by(
    kind: str, *kept: int, to: Sequence[int] = (0,), name: str = "dX"
) -> Callable[[Operator, Grads], list[Operator]]:
    """A gradient by one operator of another kind, from that of the first output.

    Args:
        kept: what else it reads, by its place among the inputs and then the outputs.
        to: the inputs whose gradients it writes, by their places.
        name: what it is called, after the operator's own name.
    """

    def gradient(op: Operator, grads: Grads) -> list[Operator]:
        dy, inputs = grads.of(op.writes[0]), [op.reads[k] for k in to]
        if dy is None or not any(map(grads.wanted, inputs)):
            return []
        every, found = (*op.reads, *op.writes), _kind(kind)
        return [
            Operator(
                f"{op.name} {name}",
                found,
                (dy, *(every[k] for k in kept)),
                tuple(map(grads.to, inputs)),
                op.over if found.over else (),
                op.settings if found.settings else (),
            )
        ]

    return gradient


def _kind(name: str) -> Kind:
    from iosim.models.operators import OPERATORS

    return OPERATORS[name]


def _scale(x: Any, factor: float) -> Any:
    return x * factor


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


def _relu_back(dy: Any, x: Any) -> Any:
    return np.where(x > 0, dy, 0)


def erf(x: Any) -> Any:
    """The error function."""
    from scipy import special

    return special.erf(x)


def silu(x: Any) -> Any:
    """x over 1 + e⁻ˣ."""
    return x / (1 + np.exp(-x))


def _gelu(x: Any) -> Any:
    return x * 0.5 * (1 + erf(x * 0.5**0.5))


def _gelu_back(dy: Any, x: Any) -> Any:
    density = np.exp(x * x * -0.5) * (2 * np.pi) ** -0.5
    return dy * (0.5 * (1 + erf(x * 0.5**0.5)) + x * density)


_C = (2 / np.pi) ** 0.5


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(_C * (x + 0.044715 * (x * x * x))))


def _gelu_tanh_back(dy: Any, x: Any) -> Any:
    square = x * x
    t = np.tanh(_C * (x + 0.044715 * (square * x)))
    slope = _C * (1 + 3 * 0.044715 * square)
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


def _swiglu(gate: Any, up: Any) -> Any:
    return silu(gate) * up


def _swiglu_back(dy: Any, gate: Any, up: Any) -> Any:
    s = 1 / (1 + np.exp(-gate))
    gated = gate * s
    return dy * up * (s + gated * (1 - s)), dy * gated


def _dropout(x: Any, p: float, seed: int) -> Any:
    if isinstance(x, Outline):
        return x * 1.0, x
    keep = np.random.default_rng(seed).random(x.shape) >= p
    mask = keep / (1 - p)
    return x * mask, mask


def _causal(scores: Any, axis: Any) -> Any:
    if isinstance(scores, Outline):
        return scores
    rows, columns = scores.shape[-2:]
    seen = np.arange(columns) <= np.arange(rows)[:, None] + (columns - rows)
    return np.where(seen, scores, -np.inf)


def _causal_back(dy: Any, axis: Any) -> Any:
    if isinstance(dy, Outline):
        return dy
    return np.where(np.isfinite(_causal(dy, axis)), dy, 0)


def _block_mask(scores: Any, axis: Any, blocks: MarkedTiles, hidden: float = -np.inf) -> Any:
    rows, columns = scores.shape[-2:]
    problem = BlockSparse(rows, columns, 1)
    if isinstance(scores, Outline):
        problem.check_mask(blocks.mask.array, **blocks.tiles)
        return scores
    return np.where(problem.scores(blocks.mask.array, **blocks.tiles), scores, hidden)


def _turn(x: Any, cos: Any, sin: Any, sign: int) -> Any:
    half, odd = divmod(x.shape[-1], 2)
    if odd:
        raise InputError(f"rope turns pairs: the head size must be even, not {x.shape[-1]}")
    a, b = x[..., :half], x[..., half:]
    if sign < 0:
        return np.concatenate([a * cos + b * sin, b * cos - a * sin], axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def _rope(x: Any, cos: Any, sin: Any, axis: Any) -> Any:
    half = x.shape[-1] // 2
    return _turn(x, cos[..., :half], sin[..., :half], 1)


def _rope_back(dy: Any, cos: Any, sin: Any, axis: Any) -> Any:
    half = dy.shape[-1] // 2
    return _turn(dy, cos[..., :half], sin[..., :half], -1)


@dataclass(frozen=True)
class _AdamW:
    """Settings of a step of AdamW: Loshchilov and Hutter 2019."""

    rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0
    step: int = 1


def _adam(w: Any, g: Any, m: Any, v: Any, **settings: Any) -> Any:
    s = _AdamW(**settings)
    m = s.beta1 * m + (1 - s.beta1) * g
    v = s.beta2 * v + (1 - s.beta2) * (g * g)
    mean, square = m * (1 / (1 - s.beta1**s.step)), v * (1 / (1 - s.beta2**s.step))
    update = mean / (np.sqrt(square) + s.epsilon)
    return w - s.rate * (update + s.decay * w), m, v


def _identity(x: Any) -> Any:
    return x


KINDS = (
    elementwise_kind(
        "same",
        "the same words under another name",
        _identity,
        gradient=_passed,
    ),
    elementwise_kind(
        "cast",
        "the same words as another dtype",
        _identity,
        gradient=_passed,
    ),
    elementwise_kind(
        "add",
        "sum of any number of tensors: a residual",
        lambda *x: sum(x[1:], x[0]),
        None,
        gradient=_passed,
    ),
    elementwise_kind("bias", "x + b", np.add, 2, gradient=_passed),
    elementwise_kind("multiply", "x · y", np.multiply, 2, gradient=_multiplied),
    elementwise_kind(
        "scale",
        "x times a number",
        _scale,
        settings={"factor": None},
        gradient=gradient_by("scale"),
    ),
    elementwise_kind("relu", "max(x, 0)", _relu, gradient=gradient_by("relu_back", 0)),
    elementwise_kind("relu_back", "gradient of relu", _relu_back, 2),
    elementwise_kind(
        "gelu",
        "x Φ(x), with the error function",
        _gelu,
        gradient=gradient_by("gelu_back", 0),
    ),
    elementwise_kind("gelu_back", "gradient of gelu", _gelu_back, 2),
    elementwise_kind(
        "gelu_tanh",
        "x Φ(x), with tanh",
        _gelu_tanh,
        gradient=gradient_by("gelu_tanh_back", 0),
    ),
    elementwise_kind("gelu_tanh_back", "gradient of gelu_tanh", _gelu_tanh_back, 2),
    elementwise_kind(
        "swiglu",
        "gate · σ(gate) · up",
        _swiglu,
        2,
        gradient=gradient_by("swiglu_back", 0, 1, to=(0, 1)),
    ),
    elementwise_kind("swiglu_back", "gradients of swiglu", _swiglu_back, 3, writes=2),
    elementwise_kind(
        "dropout",
        "x · mask, and the mask: 0, or 1/(1 − p)",
        _dropout,
        writes=2,
        settings={"p": 0.1, "seed": 0},
        gradient=gradient_by("multiply", 2),
    ),
    elementwise_kind(
        "causal",
        "scores, −∞ where a column is after its row; along (rows, columns)",
        _causal,
        over=2,
        apart=True,
        gradient=gradient_by("causal_back"),
    ),
    elementwise_kind("causal_back", "gradient of causal", _causal_back, over=2, apart=True),
    elementwise_kind(
        "block_mask",
        "scores, −∞ in tiles that a block mask doesn't mark; along (rows, columns)",
        _block_mask,
        over=2,
        apart=True,
        gradient=gradient_by("block_mask_back"),
        settings={"blocks": None},
    ),
    elementwise_kind(
        "block_mask_back",
        "gradient of block_mask",
        functools.partial(_block_mask, hidden=0.0),
        over=2,
        apart=True,
        settings={"blocks": None},
    ),
    elementwise_kind(
        "rope",
        "pairs (a, a + d/2) turned by an angle; along d",
        _rope,
        3,
        over=1,
        gradient=gradient_by("rope_back", 1, 2),
    ),
    elementwise_kind("rope_back", "gradient of rope", _rope_back, 3, over=1),
    elementwise_kind(
        "adam",
        "a step of AdamW: weight, gradient and two moments",
        _adam,
        4,
        writes=3,
        settings=dataclasses.asdict(_AdamW()),
    ),
)
