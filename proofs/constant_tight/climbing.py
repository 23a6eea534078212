"""A search for the most charged work of a segment, compared with the caps of both pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def climb(
    work: Callable[..., Any],
    x: float,
    T: float,
    rng: np.random.Generator,
    *,
    starts: int,
    rounds: int,
    shrink: float,
    restarts: tuple[int, ...],
) -> float:
    """The most work that a multistart search over all sizes finds; its moves shrink.

    Args:
        work: of arrays q, k, o, v, a, y, C: words, T in all but for y, which is x at most, and a
            number of pairs, which `work` cuts to what the words allow.
        starts, rounds: how many; after the rounds `restarts` the worse half begins from the better.
        shrink: how much a move is smaller than that of the round before.
    """

    def value(z: Any) -> Any:
        words = z[:, :5] * (T / z[:, :5].sum(axis=1, keepdims=True))
        return work(*words.T, np.minimum(z[:, 5], x), z[:, 6])

    half = starts // 2
    z = np.exp(rng.normal(0, 2, (starts, 7))) * np.array([x] * 6 + [x * x])
    z[:half, 1], z[:half, 3] = z[:half, 0], z[:half, 2]
    best = value(z)
    for round_ in range(rounds):
        some = rng.normal(size=(starts, 7)) * (rng.random((starts, 7)) < 0.4)
        trial = z * np.exp(shrink**round_ * some)
        even = rng.random(starts) < 0.5
        trial[even, 1], trial[even, 3] = trial[even, 0], trial[even, 2]
        found = value(trial)
        better = found > best
        z[better], best[better] = trial[better], found[better]
        if round_ in restarts:
            order = np.argsort(best)
            z[order[:half]], best[order[:half]] = z[order[-half:]], best[order[-half:]]
    return float(best.max())
