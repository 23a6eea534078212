"""Segments of random sizes, and Lemma 5's bound at random prices.

Nothing here is taken from `iosim.bounds.unified.boxes` but the names of weights and prices.
"""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import random
from dataclasses import dataclass
from math import sqrt
from typing import Any

from iosim.bounds.unified.boxes import Prices, Weights

from . import constants

KINDS = 7  # conditions of Lemma 5 about pairs


def bound(
    theta: Any,
    mu: Any,
    x: Any,
    T: Any,
    p: Any,
    h: Any,
    f: Any,
    e: Any,
    tau: Any,
    gamma: Any,
    sigma: Any,
    kappa: Any,
    whole: Any,
    inner: Any,
    stay: Any,
    root: Any,
) -> Any:
    """Lemma 5's expression; `root` stands for √(θ·min(θ + μ, 2θ)).  Numbers or symbols."""
    g = p + h
    words = theta * T + (mu + stay) * x - 2 * theta * g - 2 * root * f
    squares = (sigma * kappa / 2 + inner) * f**2 + whole * p**2
    return words + e * tau * (g * p + gamma * h**2 / 2) + squares


def random_weights(rng: random.Random) -> Weights:
    """Any that Theorem 5 allows."""
    e = rng.choice([0.5, 0.9, 1.1])
    n = rng.choice([0.0, 0.2, 1.8 - e])
    return Weights(e, rng.choice([0.0, 0.4, 1.5]), n, rng.choice([0.0, 0.3, 1.0]))


@dataclass(frozen=True)
class Shape:
    """A segment's sizes (§3), scaled.

    `later` are spilled pairs with first products, second ones, both; `older` unspilled ones.
    """

    g: float
    v: float
    old: float
    new: float
    later: tuple[float, float, float]
    older: tuple[float, float, float]
    begun: float
    spilled_whole: float
    Y: float
    inner: float
    staying: float

    @property
    def p(self) -> float:
        """√ of the pairs that are whole."""
        return sqrt(self.spilled_whole + self.inner + self.staying)

    @property
    def A2(self) -> float:
        """Pairs with first products."""
        first = self.later[0] + self.later[2] + self.older[0] + self.older[2] + self.begun
        return first + self.Y + self.p**2

    @property
    def f(self) -> float:
        """√(ov)."""
        return sqrt((self.old + self.new) * self.v)

    @property
    def pv_pairs(self) -> tuple[float, float]:
        """Pairs with second products: spilled, unspilled."""
        spilled = self.later[1] + self.later[2] + self.spilled_whole
        return spilled, self.older[1] + self.older[2] + self.inner + self.staying

    def N(self, weights: Weights) -> float:
        """√ of the sum of their squared weights."""
        return sqrt(sum(z * w * w for z, w in zip(self.pv_pairs, weights.pv_weights, strict=True)))

    def charged(self, weights: Weights) -> float:
        """The most charged work that Lemmas 3 and 4 allow these sizes."""
        e, m, n, r = weights
        p, A = self.p, sqrt(self.A2)
        E = min(self.A2, self.g * (A + p) - constants.SHARP * p * A)
        every = sum(z * w for z, w in zip(self.pv_pairs, weights.pv_weights, strict=True))
        F = min(every, self.f * self.N(weights))
        starts = n * (self.begun + self.spilled_whole) - m * (self.Y + self.inner + self.staying)
        return e * E + F + starts + r * (sum(self.older) - self.Y - self.staying)

    def bound(self, x: float, T: float, prices: Prices, weights: Weights) -> float:
        """Lemma 5's bound."""
        *quadratic, theta, mu, whole, inner, stay = map(float, prices)
        p, root = self.p, sqrt(theta * min(theta + mu, 2 * theta))
        sizes = x, T, p, self.g - p, self.f
        return float(bound(theta, mu, *sizes, weights.e, *quadratic, whole, inner, stay, root))


def random_shape(x: float, T: float, rng: random.Random) -> Shape:
    """Sizes that Lemma 3 allows; many of them 0, and many at its limits."""
    draws = [rng.gammavariate(0.3, 1.0) for _ in range(12)]
    draws = [0.0 if z < rng.choice([0.0, 0.1, 1.0]) else z for z in draws]
    if rng.random() < 0.2:  # only pairs that begin
        draws[4:] = [0.0] * 8
    if rng.random() < 0.5:  # V and O in proportion, of one kind
        draws[2], draws[3] = rng.choice([(draws[1], 0.0), (0.0, draws[1] / 2)])
    if rng.random() < 0.3:  # g = f
        draws[0] = sqrt(draws[1] * (draws[2] + draws[3]))
    cost = [2, 1, 1, 2, *[1] * 8]
    total = sum(z * price for z, price in zip(draws, cost, strict=True)) or 1.0
    g, v, old, new, *pairs = (z * T / total for z in draws)
    older = pairs[5:8]
    fits = min(1.0, x / max(1e-12, old + sum(older)))
    old, *older = (z * fits for z in (old, *older))
    stay = x * rng.choice([0.0, 1.0, rng.random()])
    f2, room = (old + new) * v, g * g
    inner = rng.choice([0.0, 1.0, rng.random()]) * min(room, f2)
    staying = rng.choice([0.0, 1.0, rng.random()]) * min(room - inner, stay)
    spilled_whole = min(pairs[4], room - inner - staying)
    return Shape(
        g,
        v,
        old,
        new,
        (pairs[0], pairs[1], pairs[2]),
        (older[0], older[1], older[2]),
        pairs[3],
        spilled_whole,
        stay - staying,
        inner,
        staying,
    )


def random_prices(
    weights: Weights, quadratic: tuple[float, float, float, float], rng: random.Random
) -> Prices:
    """Prices that just meet Lemma 5's conditions, or meet them with something to spare.

    The conditions as the text has them: of each price the least that they allow.
    """
    e, m, n, r = weights
    low, high = 2 - e - n, 2 - e + m
    tau, gamma, sigma, kappa = quadratic
    a = e * (1 - tau) + e * tau / (2 * gamma)
    b, b_ = ((1 - sigma) * w + sigma * w * w / (2 * kappa) for w in (low, high))

    def spare() -> float:
        return rng.choice([0.0, 0.0, 0.0, rng.random()])

    def at_least(*kinds: tuple[int, float]) -> float:
        return max([0.0, *(value for place, value in kinds if place != constants.LEFT_OUT)])

    theta = at_least((0, a + b), (1, a + n)) + spare()
    mu = at_least((3, a + b_ + r - theta)) + spare()
    least = a + b + n - theta
    whole = rng.choice([least, a + b_ - m, a + b_ - m - r, rng.uniform(-theta, a + b_)])
    if constants.LEFT_OUT != 2:
        whole = max(whole, least)
    inner = at_least((5, a + b_ - m - whole)) + spare()
    stay = at_least((4, a - m - r), (6, a + b_ - m - r - whole)) + spare()
    return Prices(*quadratic, theta, mu, whole, inner, stay)  # type: ignore[arg-type]


def fitting_prices(shape: Shape, weights: Weights, rng: random.Random) -> Prices:
    """Random prices; τ, γ, σ and κ are mostly such that the bounds on products are equalities."""
    p, A, f, N = shape.p, sqrt(shape.A2), shape.f, shape.N(weights)
    tau, sigma = (rng.choice([0.0, 1.0, rng.random()]) for _ in range(2))
    gamma, kappa = (10 ** rng.uniform(-1, 1) for _ in range(2))
    if rng.random() < 0.8:
        h = shape.g - p
        tau = float(A * A > shape.g * (A + p) - p * A)
        gamma = A / h if A > 0 and h > 0 else gamma
        every = sum(z * w for z, w in zip(shape.pv_pairs, weights.pv_weights, strict=True))
        sigma = float(every > f * N)
        kappa = N / f if f > 0 and N > 0 else kappa
    return random_prices(weights, (tau, gamma, sigma, kappa), rng)
