"""Attention whose rows are sharded: how many words devices must send each other.

A device that has n rows, and computes w scores of one head's square, needs rows of Q, K and V that
it doesn't have, or sends partial sums of O.  With a rows of Q and O and b of K and V it computes at
most ab scores.  The least cost for w scores is bounded from below by a convex function of w, the
lower hull of a few corners; so an even split of the work is the cheapest.  The proof is in
proofs/devices.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

from iosim.devices.bounds._entry import LinkBound, Setting

# Scores, and words in units of d.
Corner: TypeAlias = tuple[Fraction, Fraction]


def corners(N: int, n: int, G: int, rows: int, keys: int, causal: bool) -> list[Corner]:
    """Scores that a device can compute of one head of K and V and its G heads of Q, and the cost.

    Args:
        rows, keys: words that a foreign row of Q, and one of K and V, cost, in units of d.

    >>> [(int(w), int(cost)) for w, cost in corners(8, 2, 1, 2, 2, causal=False)]
    [(4, 0), (16, 12), (16, 12), (64, 24)]
    """
    most = N * (N + 1) // 2 if causal else N * N
    if n * n >= most:
        return [(Fraction(G * most), Fraction(0))]
    b = min(Fraction(N), Fraction(most, n))
    found = [(Fraction(G * n * n), Fraction(0)), (G * n * b, keys * (b - n))]
    if n * N <= most:
        found.append((Fraction(G * n * N), Fraction(rows * G * (N - n))))
    if not causal:
        return [*found, (Fraction(G * N * N), Fraction((rows * G + keys) * (N - n)))]
    # All that can be seen, which needs a·b of at least as much.
    at = min(max(math.sqrt(most * rows * G / keys), n, most / N), N, most / n)
    cost = rows * G * (most / at - n) + keys * (at - n)
    return [*found, (Fraction(G * most), Fraction(max(0.0, cost * (1 - 1e-12))))]


def hull(points: list[Corner], w: Fraction) -> Fraction:
    """The lower convex hull of corners at w, 0 below the first.

    >>> points = [(Fraction(4), Fraction(0)), (Fraction(64), Fraction(24))]
    >>> print(hull(points, Fraction(34)))
    12
    """
    if w <= min(x for x, _ in points):
        return Fraction(0)
    return min(
        less + (cost - less) * (w - y) / (x - y)
        for x, cost in points
        for y, less in points
        if y < w <= x
    )


def sharded_rows_words(setting: Setting, rows: int, keys: int) -> Fraction:
    """Words over all links, where no device holds more than ⌈N/P⌉ rows.

    >>> from iosim import Attention
    >>> problem = Attention(4096, 64, heads=8, kv_heads=1)
    >>> int(sharded_rows_words(Setting(problem, 4, 2**30, {}), 2, 2))  # as ring attention
    1572864
    """
    problem, P = setting.problem, setting.P
    groups = problem.groups
    G, N = problem.heads // groups, problem.N
    scores = G * (N * (N + 1) // 2 if problem.causal else N * N)
    points = corners(N, -(-N // P), G, rows, keys, problem.causal)
    found: Fraction = P * groups * problem.d * hull(points, Fraction(scores, P))
    return found


def _rows_sharded(setting: Setting) -> str | None:
    if all(axis == "N" for axis in setting.placement.values()):
        return None
    return "rows are not sharded"


SAYS = (
    "each device begins with at most ⌈N/P⌉ rows of {inputs} of all heads and ends with at most as "
    "many of {outputs}; {work}"
)

FORWARD = LinkBound(
    name="sharded-rows",
    of="total",
    kinds=("attention",),
    words=lambda setting: sharded_rows_words(setting, 2, 2),
    outside=_rows_sharded,
    says=SAYS.format(
        inputs="Q, K and V",
        outputs="O",
        work="the d products of a score are on one device, and so are those of a weight with a row "
        "of V; any split of the work, scores may be computed again",
    ),
    source="iosim, proofs/devices.md, Theorem 1",
    proof="devices",
)

BACKWARD = LinkBound(
    name="sharded-rows-backward",
    of="total",
    kinds=("attention-backward",),
    words=lambda setting: sharded_rows_words(setting, 3, 4),
    outside=_rows_sharded,
    says=SAYS.format(
        inputs="Q, K, V and dO",
        outputs="dQ, dK and dV",
        work="all five products of a pair of a row and a key are on one device; any split of the "
        "work, scores may be computed again",
    ),
    source="iosim, proofs/devices.md, Theorem 2",
    proof="devices",
)
