"""Theorem 7: how much a loaded word adds where a meeting of dQ with K and V is worth up to 2."""

from __future__ import annotations

import random

import numpy as np

from iosim.report.proof import require, step, unsat

from . import constants

ROWS, COLUMNS = ("q", "do", "dq"), ("k", "v", "dk", "dv")
COST = {"q": 1, "do": 1, "dq": 2, "k": 1, "v": 1, "dk": 2, "dv": 2}


def weighed(words: dict[str, np.ndarray], open_: np.ndarray, T: float) -> float:
    """Φ of parts of rows and of columns, and of the pairs that are open; sizes in units of d."""
    q, do, dq = (words[x][:, None] for x in ROWS)
    k, v, dk, dv = (words[x][None, :] for x in COLUMNS)
    r, t = words["q"].sum() + words["do"].sum(), words["dq"].sum()
    g = T - r - t
    share = 1 + g / t if t > g else 2.0
    f = (q + do) * (k + v + dk + dv) + 2 * dq * (dk + dv) + share * dq * (k + v)
    f = f + (2 - share) * constants.EXTRA * q * do * dq * dk * dv
    return float((f * open_).sum()) + max(0.0, t * t - g * g) / 2


@step("weighed-words", how="sampled", says="Theorem 7: what Φ gains by a word, in random memories")
def weighed_words() -> str:
    """Some rows and columns in part, any pairs open; a part of a word comes, or goes."""
    rng, seen = random.Random(4), 0
    for _ in range(10 * constants.EXECUTIONS):
        draw = np.random.default_rng(rng.randrange(2**32))
        n, m = draw.integers(1, 9, 2)
        words = {x: draw.random(n) ** 2 * (draw.random() < 0.7) for x in ROWS}
        words |= {x: draw.random(m) ** 2 * (draw.random() < 0.7) for x in COLUMNS}
        if rng.random() < 0.5:  # much of dQ
            words["dq"] = 1 - words["dq"] / 4
            words |= {x: words[x] / 4 for x in rng.choice([("q", "do"), COLUMNS])}
        if rng.random() < 0.3:  # whole rows or columns
            words |= {x: np.ones(n if x in ROWS else m) for x in rng.choice([ROWS, COLUMNS])}
        T = sum(x.sum() for x in words.values()) + 0.05 + rng.choice([0.01, 1]) * rng.random()
        open_ = (draw.random((n, m)) < draw.random()).astype(float)
        name = rng.choice(ROWS + COLUMNS)
        at = int(draw.integers(n if name in ROWS else m))
        now = weighed(words, open_, T)
        room = T - sum(x.sum() for x in words.values())
        more = min(room, 1 - words[name][at]) * rng.random()
        if more > 0:
            words[name][at] += more
            gain = weighed(words, open_, T) - now
            require(
                gain <= more * COST[name] * constants.GAIN * T + 1e-9,
                f"a part of {name} gains {gain}",
            )
            seen += 1
            now += gain
        words[name][at] *= rng.random()
        require(weighed(words, open_, T) <= now + 1e-9, f"Φ grows when a part of {name} goes")
    require(seen > constants.EXECUTIONS, f"only {seen} words came")
    return f"{seen} words that come or go, seed 4"


@step("largest-gain", how="proved", says="Theorem 7: a word adds at most γT to Φ")
def largest_gain() -> str:
    """T = 1; r, t, g for words of Q and dO, of dQ, and the rest; t > g, multiplied by 2t or 2t²."""
    import z3

    r, t, g, kv, sums = z3.Reals("r t g kv sums")
    half = z3.Q(round(100 * constants.EXTRA), 200)
    sizes = [r >= 0, g >= 0, t > g, r + t + g == 1, kv >= 0, sums >= 0, kv + sums <= g]
    # Q and dO; then dQ: words of columns, what was whole but for it, a smaller share, G.
    of_q = 2 * t * (kv + sums + g) + 2 * (t - g) * half * sums + half * r * sums
    gain = z3.Q(round(100 * constants.GAIN), 100)
    unsat(*sizes, of_q > gain * 2 * t)
    of_dq = 4 * t * t * sums + 2 * t * (t + g) * kv + 2 * t * (t - g) * half * sums
    unsat(*sizes, of_dq + (t + g) * half * r * sums + 2 * t * t * (t + g) > gain * 4 * t * t)
    # K and V; dK and dV.
    unsat(*sizes, r * t + (t + g) * t > gain * t)
    unsat(*sizes, t * r + 2 * t * t + (t - g) * half * r > gain * 2 * t)
    # Going: Q and dO, dQ.
    unsat(*sizes, kv > g)
    unsat(*sizes, (t + g) * kv > t * (t + g))
    # t ≤ g.
    light = [r >= 0, t >= 0, g >= t, r + t + g == 1]
    unsat(*light, r + 2 * t > gain)
    return "all memories by their numbers of words"


@step("mixed-segments", how="proved", says="Theorem 7: incidents are not worth their words")
def mixed_segments() -> str:
    """The corners of the incidents, of memory and of events; sizes in units of 14d²/u."""
    import z3

    M, S = z3.Reals("M S")
    sizes = [M > 0, S > 0, S <= M, constants.CORNER * (M + S) <= M * S]
    unsat(*sizes, S * S / 4 + M > M * S)
    unsat(*sizes, M < 1)
    unsat(*sizes, M + S > M * S)
    return "all reals 0 < S ≤ M with 1/S + 1/M ≤ 1"
