"""The evaluator: its caps against a search over all sizes, its numbers in exact fractions."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np

from iosim.bounds import unified
from iosim.bounds.unified import caps
from iosim.report.proof import require, step

from . import constants
from .climbing import climb


def most_work(
    klass: str, point: tuple[float, ...], rng: np.random.Generator, *, starts: int, rounds: int
) -> float:
    """The most charged work that a search over all sizes finds: M/d², S/d² and the multipliers."""
    x, s, *m = point
    a0, m1, m2 = m if klass == "recompute" else (0.0, *m)

    def work(q: Any, k: Any, o: Any, v: Any, a: Any, y: Any, C: Any) -> Any:
        g, f = np.sqrt(q * k), np.sqrt(o * v)
        C = np.minimum(C, g**2 if klass == "recompute" else np.minimum(g, f) ** 2)
        p, P = np.sqrt(C), np.sqrt(C + a + y)
        first = np.minimum(P * P, g * (P + p) - constants.SHARP * p * P)
        if klass == "recompute":
            both = (a0 + m1) * first + (2 - a0) * np.minimum(P * P, f * P)
        else:
            both = first + np.minimum(P * P, f * (P + p) - constants.SHARP * p * P)
        return both - m1 * (y + C) + m2 * (a - y)

    restarts = tuple(rounds * part // 4 for part in (1, 2, 3))
    return climb(work, x, x + s, rng, starts=starts, rounds=rounds, shrink=0.985, restarts=restarts)


def _share(klass: str, x: float, rng: np.random.Generator) -> float:
    """The most charged work that a search over all sizes finds, as a share of the cap."""
    at = np.array([x])
    ratio, *m = (float(z[0]) for z in getattr(unified, klass)(at))
    s = ratio * x
    if klass == "recompute":
        m[2] = min(m[2], float(caps.largest_m2(x, s, m[0], m[1])))
    cap = float((caps.once_cap if klass == "once" else caps.recompute_cap)(x, s, *m))
    return most_work(klass, (x, s, *m), rng, starts=300, rounds=400) / cap


@step(
    "caps-against-search",
    how="sampled",
    says="Lemmas 6 and 7: at the table's multipliers a search over all sizes stays below the caps",
)
def caps_against_search() -> str:
    """Random multistart with shrinking moves; it comes close, so that the caps are sharp."""
    rng = np.random.default_rng(7)
    least = {"once": 1.0, "recompute": 1.0}
    for x in 10 ** rng.uniform(-2.5, 1.5, constants.SEARCHES):
        for klass in least:
            ratio = _share(klass, float(x), rng)
            least[klass] = min(least[klass], ratio)
            require(ratio <= 1 + 1e-9, f"{klass}: x = {x}: the search finds {ratio} of the cap")
    require(min(least.values()) > 0.97, f"the search reaches only {least} of the caps")
    near = min(least.values())
    return f"{constants.SEARCHES} points, 300 starts each, seed 7: at least {near:.4f} of the cap"


@step(
    "evaluator",
    how="sampled",
    says="the bound, made again in exact fractions from its certificate; two faces (`once`)",
)
def evaluator() -> str:
    """Each certificate's cap dominates its faces at rational points, and its words follow."""
    rng = random.Random(5)
    for _ in range(constants.CERTIFICATES):
        klass = rng.choice(["once", "recompute"])
        N, d = rng.randint(1, 2**18), rng.randint(1, 256)
        M = max(3, round(d * d * 10 ** rng.uniform(-3, 1)))
        proof = unified.certificate(N, d, M, klass=klass)
        weight, cap = Fraction(proof.weight), Fraction(proof.cap)
        exact = Fraction(proof.segment) * (weight * N * N * d / (cap * d**3) - 1) + M
        require(Fraction(proof.words) <= exact, f"{proof}: rounded up")
        require(float(exact) - proof.words <= 1e-8 * (float(exact) + M), f"{proof}: far below")
        if weight * N * N > cap * d * d:
            value = unified.lower_bound(N, d, M, klass=klass)
            require(value >= proof.words, f"{proof}: the bound is {value}")
        x, s = Fraction(M, d * d), Fraction(proof.segment, d * d)
        if klass == "once":
            m1, m2 = map(Fraction, proof.multipliers)
            T = x + s
            for at in range(1, 40):
                # faces "inside" and "paid" at rational points, by exact comparison
                P = Fraction(at, 20) * Fraction(float(T) ** 0.5)
                if P * P <= T and P * P + 4 * P >= T:
                    paid = (T - P * P) * P / 2 + m2 * P * P
                    require(paid <= cap * (1 + Fraction(1, 10**10)), f"{proof}: face paid")
            require((2 - m1) * T * T / 16 <= cap * (1 + Fraction(1, 10**10)), f"{proof}: inside")
    return f"{constants.CERTIFICATES} certificates, seed 5"


@step(
    "recomputation",
    how="sampled",
    says="Section 9: Theorem 1's bound for `recompute` is at most 9% below that for `once`",
)
def recomputation() -> str:
    """Where N is so large that lower-order terms don't show."""
    rng, d = np.random.default_rng(8), 4096
    M = np.rint(d * d * 10 ** rng.uniform(-4, 1, 20000)).astype(np.int64)
    again = unified.lower_bound_many(2**38, d, M, klass="recompute")
    once = unified.lower_bound_many(2**38, d, M, klass="once", apart=False)
    share = again / once
    worst = int(share.argmin())
    require(share.max() <= 1, "more than for once")
    require(share[worst] >= 1 - constants.RECOMPUTING, f"M = {M[worst]}: {share[worst]}")
    at = M[worst] / d**2
    return f"20000 points, seed 8: {1 - share[worst]:.1%} at most, at M = {at:.2f}d²"
