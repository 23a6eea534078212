"""Theorem 4: recomputation and trees together, by the second products alone."""

# ruff: noqa: SIM300 (inequalities are written as in the text, not reversed)

from __future__ import annotations

import random

import numpy as np

from iosim.bounds.unified import pv_products
from iosim.report.proof import identity, require, step, unsat

from . import constants, executions, free_executions


def check_free(seed: int, count: int) -> tuple[int, int, int]:
    """Lemma 9 on random executions; segments, pairs made whole, products executed again."""
    rng = random.Random(seed)
    seen = whole = again = 0
    for _ in range(count):
        H = rng.choice([1, 1, 2])
        N, d = rng.randint(1, 4 if H == 1 else 2), rng.randint(1, 3)
        M, order = rng.randint(6, 24), executions.random_order(N, d, rng, H)
        log, useful = free_executions.execute_free(order, M, rng)
        S = rng.choice([rng.randint(1, 4), rng.randint(1, 3 * M)])
        at = f"N = {N}, d = {d}, H = {H}, M = {M}, S = {S}"
        parts = free_executions.free_segments(log, useful, M, S)
        cost = sum(what in ("load", "store") for what, _, _ in log)
        require(sum(one.events for one in parts) <= cost, f"{at}: more events than transfers")
        for one in parts:
            seen += 1
            q, k, v, o, a, C, F = one.counts
            whole += C
            require(q + k + v + o + a <= M + S, f"{at}: Lemma 9 fails for words, {one.counts}")
            for i, j in one.whole:
                made = {(i, j, c) for c in range(d)}
                require(made <= one.first, f"{at}: {i}, {j} is not whole")
            require(C * d * d <= q * k, f"{at}: {one.counts}")
            P = (a + C) ** 0.5
            most = constants.SECOND * min(d * P * P, (o * v) ** 0.5 * P)
            require(F <= most + 1e-9, f"{at}: {F} products of {most}")
            cap = float(pv_products.second_cap(float(M + S), d, d))
            require(F <= constants.SECOND * cap + 1e-9, f"{at}: {F} products, cap {cap}")
        require(sum(len(one.second) for one in parts) >= H * N * N * d, f"{at}: too few products")
        again += sum(what == "E" for what, _, _ in log) - H * N * N * d
    return seen, whole, again


@step(
    "recompute-trees",
    how="sampled",
    says="Lemma 9: trees of sums whose parts are dropped, loaded twice and made again",
)
def recompute_trees() -> str:
    """Sums stored, forgotten, copied and merged at random."""
    count = constants.TREE_EXECUTIONS // 2
    seen, whole, again = check_free(14, count)
    require(again > count, f"only {again} products were executed again")
    require(whole > count, f"only {whole} pairs were made whole")
    return f"{count} random executions, {seen} segments, {again} products made again, seed 14"


@step(
    "second-products",
    how="proved",
    says="Theorem 4: the cap of a segment's second products, and where it is the first of both",
)
def second_products() -> str:
    """At fixed P the width f is convex in p; then two functions of P."""
    import sympy
    import z3

    P, p, T, d, e, r, z = z3.Reals("P p T d e r z")  # e for d_v
    some = [P >= 0, d > 0, e > 0, T > 0]
    unsat(*some, p >= 0, p <= P, p * p - 2 * d * p > 0, p * p - 2 * d * p > P * P - 2 * d * P)
    two = z3.Q(constants.SECOND.numerator, constants.SECOND.denominator) * 2
    # p = P: e·P² and P(T − 2dP)/2, with T = 2(d + e)z, where they cross.
    top = P * (2 * (d + e) * z - 2 * d * P)
    unsat(*some, z > 0, e <= d, P * P > z * z, top > two * e * z * z)
    unsat(*some, P * (T - 2 * d * P) * 8 * d > two * T * T / 2)
    # p = 0: e·P² and P(T − P²)/2; T = 3r², or T = z² + 2ez with z ≥ e.
    unsat(*some, r > 0, P * (3 * r * r - P * P) > two * r * r * r)
    unsat(*some, z >= e, P * P > z * z, P * (z * z + 2 * e * z - P * P) > two * e * z * z)
    # From T = 4d(d + e) on, e ≤ d, the first is the larger: T = 2(d + e)w and z(z + 2e) = T.
    w = z3.Real("w")
    unsat(*some, e <= d, w >= 2 * d, z > w, z * (z + 2 * e) == 2 * (d + e) * w)
    unsat(*some, e <= d, w >= 2 * d, 2 * (d + e) * w < 3 * e * e)
    M, Pi, a, b = sympy.symbols("M Pi a b", positive=True)
    cap = b * (2 * M) ** 2 / (4 * (a + b) ** 2)
    identity(M * Pi * b / cap, Pi * (a + b) ** 2 / M)
    identity(M * Pi * b / ((2 * M) ** 2 / (16 * a)), constants.CONSTANT * Pi * a * b / M)
    return "all reals d, d_v, T > 0; the first from T = 4d(d + d_v) on, for d_v ≤ d"


@step(
    "second-shapes",
    how="sampled",
    says="Theorem 4: no shape has more second products than the cap, and some have as many",
)
def second_shapes() -> str:
    """Random shapes, and those of the ends."""
    rng, least = np.random.default_rng(15), 1.0
    for _ in range(constants.SHAPES // 4):
        d, e, T = (10 ** rng.uniform(-1, 1) for _ in range(3))
        T *= d * e
        n = 20000
        P = rng.uniform(0, 1, n) * rng.choice([np.sqrt(T), T / (2 * d)], n)
        p = P * rng.choice([0.0, 1.0, 0.5], n)
        f = np.maximum(T - P * P + p * p - 2 * d * p, 0) / 2
        F = P * np.minimum(e * P, f)
        ratio = float(F.max() / pv_products.second_cap(T, d, e))
        require(ratio <= 1 + 1e-12, f"T = {T}, d = {d}, d_v = {e}: {ratio} of the cap")
        least = min(least, ratio)
    require(least > 0.99, f"the shapes tried reach only {least} of the cap")
    return f"{constants.SHAPES // 4} points, 20000 shapes each, seed 15: {least:.4f} at least"
