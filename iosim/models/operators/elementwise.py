"""Operators that take each word by itself: a word out depends on one word of each input."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.core.problem import BlockSparse, MarkedTiles
from iosim.models.operators.base import Grads, Kind, Operator, mapped
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


def _by(kind: str, *, reads: int = 1) -> Any:
    """A gradient by one operator of another kind, from the output's and the first inputs."""

    def gradient(op: Operator, grads: Grads) -> list[Operator]:
        dy = grads.of(op.writes[0])
        if dy is None or not grads.wanted(op.reads[0]):
            return []
        parts = tuple(grads.to(x) for x in op.reads[:reads])
        return [
            Operator(
                f"{op.name} dX", _kind(kind), (dy, *op.reads[:reads]), parts, op.over, op.settings
            )
        ]

    return gradient


def _with(kind: str, *, written: bool = False) -> Any:
    """A gradient by one operator from the output's and what it kept: its last output or inputs."""

    def gradient(op: Operator, grads: Grads) -> list[Operator]:
        dy = grads.of(op.writes[0])
        if dy is None or not grads.wanted(op.reads[0]):
            return []
        kept = op.writes[1:] if written else op.reads[1:]
        settings = op.settings if _kind(kind).settings else ()
        return [
            Operator(
                f"{op.name} dX",
                _kind(kind),
                (dy, *kept),
                (grads.to(op.reads[0]),),
                op.over,
                settings,
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


def _gelu(x: Any) -> Any:
    from scipy.special import erf

    return x * 0.5 * (1 + erf(x * 0.5**0.5))


def _gelu_back(dy: Any, x: Any) -> Any:
    from scipy.special import erf

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
    return gate / (1 + np.exp(-gate)) * up


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


def _adam(
    w: Any,
    g: Any,
    m: Any,
    v: Any,
    *,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    step: int,
) -> Any:
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * (g * g)
    update = m * (1 / (1 - beta1**step)) / (np.sqrt(v * (1 / (1 - beta2**step))) + epsilon)
    return w - rate * (update + decay * w), m, v


def _identity(x: Any) -> Any:
    return x


KINDS = (
    Kind(
        "same",
        "the same words under another name",
        "elementwise",
        mapped(_identity),
        gradient=_passed,
    ),
    Kind(
        "cast",
        "the same words as another dtype",
        "elementwise",
        mapped(_identity),
        gradient=_passed,
    ),
    Kind(
        "add",
        "sum of any number of tensors: a residual",
        "elementwise",
        mapped(lambda *x: sum(x[1:], x[0])),
        reads=None,
        gradient=_passed,
    ),
    Kind("bias", "x + b", "elementwise", mapped(np.add), reads=2, gradient=_passed),
    Kind("multiply", "x · y", "elementwise", mapped(np.multiply), reads=2, gradient=_multiplied),
    Kind(
        "scale",
        "x times a number",
        "elementwise",
        mapped(_scale),
        settings={"factor": None},
        gradient=_with("scale"),
    ),
    Kind("relu", "max(x, 0)", "elementwise", mapped(_relu), gradient=_by("relu_back")),
    Kind("relu_back", "gradient of relu", "elementwise", mapped(_relu_back), reads=2),
    Kind(
        "gelu",
        "x Φ(x), with the error function",
        "elementwise",
        mapped(_gelu),
        gradient=_by("gelu_back"),
    ),
    Kind("gelu_back", "gradient of gelu", "elementwise", mapped(_gelu_back), reads=2),
    Kind(
        "gelu_tanh",
        "x Φ(x), with tanh",
        "elementwise",
        mapped(_gelu_tanh),
        gradient=_by("gelu_tanh_back"),
    ),
    Kind(
        "gelu_tanh_back", "gradient of gelu_tanh", "elementwise", mapped(_gelu_tanh_back), reads=2
    ),
    Kind(
        "swiglu",
        "gate · σ(gate) · up",
        "elementwise",
        mapped(_swiglu),
        reads=2,
        gradient=_by("swiglu_back", reads=2),
    ),
    Kind(
        "swiglu_back", "gradients of swiglu", "elementwise", mapped(_swiglu_back), reads=3, writes=2
    ),
    Kind(
        "dropout",
        "x · mask, and the mask: 0, or 1/(1 − p)",
        "elementwise",
        mapped(_dropout),
        writes=2,
        settings={"p": 0.1, "seed": 0},
        gradient=_with("multiply", written=True),
    ),
    Kind(
        "causal",
        "scores, −∞ where a column is after its row; along (rows, columns)",
        "elementwise",
        mapped(_causal),
        over=2,
        apart=True,
        gradient=_with("causal_back"),
    ),
    Kind(
        "causal_back", "gradient of causal", "elementwise", mapped(_causal_back), over=2, apart=True
    ),
    Kind(
        "block_mask",
        "scores, −∞ in tiles that a block mask doesn't mark; along (rows, columns)",
        "elementwise",
        mapped(_block_mask),
        over=2,
        apart=True,
        gradient=_with("block_mask_back"),
        settings={"blocks": None},
    ),
    Kind(
        "block_mask_back",
        "gradient of block_mask",
        "elementwise",
        mapped(functools.partial(_block_mask, hidden=0.0)),
        over=2,
        apart=True,
        settings={"blocks": None},
    ),
    Kind(
        "rope",
        "pairs (a, a + d/2) turned by an angle; along d",
        "elementwise",
        mapped(_rope),
        reads=3,
        over=1,
        gradient=_with("rope_back"),
    ),
    Kind("rope_back", "gradient of rope", "elementwise", mapped(_rope_back), reads=3, over=1),
    Kind(
        "adam",
        "a step of AdamW: weight, gradient and two moments",
        "elementwise",
        mapped(_adam),
        reads=4,
        writes=3,
        settings={
            "rate": 1e-4,
            "beta1": 0.9,
            "beta2": 0.999,
            "epsilon": 1e-8,
            "decay": 0.0,
            "step": 1,
        },
    ),
)
