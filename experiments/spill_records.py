"""The records of Theorem 5 (proofs/constant_tight_spills.md): caps that are proved, M/d² by M/d².

A record is M/d², (M + S)/d², four weights, and the cap on a segment's charged work that they give.
The first six may be anything; here they are interpolated between points (`KNOTS`), which came from
a linear program over kinds of pairs and were smoothed by hand.  The cap is the least that
`iosim.bounds.unified.boxes.holds` proves, nearly.

``python -m experiments.spill_records`` prints the rows of `iosim/bounds/unified/spills.csv`;
``--search`` looks for better ones, by scipy's Nelder–Mead from their present numbers.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from iosim.base.errors import InputError
from iosim.bounds.unified import boxes

# M/d², S/M, e, m/√(M/d²), n, r; and about the bound ÷ Π.
KNOTS: tuple[tuple[float, ...], ...] = (
    (0.003, 2.05, 1.0, 0.535, 0.0, 0.0, 72.3),
    (0.01, 2.1, 0.994, 0.533, 0.0, 0.0, 39.4),
    (0.03, 2.2, 0.996, 0.545, 0.001, 0.0, 22.55),
    (0.1, 2.4, 0.968, 0.505, 0.0175, 0.0, 12.2),
    (0.25, 2.6, 0.925, 0.4635, 0.053, 0.0, 7.63),
    (0.5, 2.6, 0.85, 0.397, 0.13, 0.0, 5.35),
    (0.7, 2.2, 0.785, 0.04, 0.184, 0.19, 4.34),
    (0.85, 2.1, 0.806, 0.003, 0.14, 0.28, 3.8),
    (1.0, 1.9, 0.82, 0.002, 0.141, 0.307, 3.42),
    (1.4, 1.55, 0.835, 0.03, 0.16, 0.335, 2.667),
    (2.0, 1.1, 0.832, 0.005, 0.25, 0.386, 1.985),
    (2.5, 1.0, 0.83, 0.005, 0.25, 0.38, 1.59),
)
RATIO = 1.035  # from record to record
SKIPPED = 52  # the first, below 0.018: Theorem 1 of constant_tight.md says nearly as much
STEP = 2e-3  # how near a cap is to one that is not proved

Record = tuple[float, float, float, float, float, float, float]


def numbers(x: float) -> tuple[float, boxes.Weights, float]:
    """S/M, the weights, and about the bound ÷ Π at x = M/d², between the knots."""
    at, *columns = np.array(KNOTS).T
    columns[-1] = np.log(columns[-1])
    share, e, m, n, r, bound = (float(np.interp(math.log(x), np.log(at), z)) for z in columns)
    return share, boxes.Weights(e, m * math.sqrt(x), n, r), math.exp(bound)


def least_cap(x: float, T: float, weights: boxes.Weights, guess: float, step: float) -> float:
    """A cap that the boxes prove, nearly the least one; infinite where none is near a guess."""
    low, high = 0.98 * guess, 1.005 * guess
    while not boxes.holds(x, T, weights, high):
        low, high = high, 1.02 * high
        if high > 1.5 * guess:
            return math.inf
    while high > (1 + step) * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if boxes.holds(x, T, weights, middle) else (middle, high)
    return high


def record(x: float, step: float = STEP) -> Record:
    """A record at x, with numbers of a few digits and a cap that is proved for just these."""
    share, weights, bound = numbers(x)
    x, T = float(f"{x:.4g}"), float(f"{x * (1 + share):.5g}")
    weights = boxes.Weights(*(round(weight, 4) for weight in weights))
    cap = least_cap(x, T, weights, 2 * (T - x) / bound, step)
    cap = float(f"{cap * (1 + 1e-5):.6g}")
    if not boxes.holds(x, T, weights, cap):
        raise InputError(f"x = {x}: {cap} is not proved after rounding: give other knots")
    return (x, T, *weights, cap)


def records(part: int = 0, parts: int = 1) -> Iterator[Record]:
    """The table, from small M/d² to large; or a part of it."""
    first, last = KNOTS[0][0], KNOTS[-1][0]
    steps = math.ceil(math.log(last / first) / math.log(RATIO))
    for k in range(SKIPPED + part, steps + 1, parts):
        yield record(first * (last / first) ** (k / steps))


def falling(table: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """The records without those that the next larger one beats: the bound then falls with M."""
    kept: list[Sequence[float]] = []
    for one in reversed(table):
        x, T, *_, c = one
        if not kept or (T - x) / c > (kept[-1][1] - x) / kept[-1][-1]:
            kept.append(one)
    return kept[::-1]


def search(x: float, tries: int = 120) -> tuple[float, ...]:
    """Better numbers at x, as in a knot."""
    from scipy.optimize import minimize

    share, weights, guess = numbers(x)
    e, m, n, r = weights

    def bound(z: Any) -> float:
        share, *rest = map(float, z)
        weights = boxes.Weights(*rest)
        if not (0.5 < share < 4 and weights.usable):
            return 0.0
        cap = least_cap(x, x * (1 + share), weights, 2 * share * x / guess, STEP)
        return -2 * share * x / cap

    start = np.array([share, e, m, n, r])
    around = np.vstack([start, start + np.diag([0.2, 0.03, 0.1 * m + 0.02, 0.03, 0.05])])
    found = minimize(
        bound, start, method="Nelder-Mead", options={"maxfev": tries, "initial_simplex": around}
    )
    share, e, m, n, r = map(float, found.x)
    return share, e, m / math.sqrt(x), n, r, -float(found.fun)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, or what a search finds at the knots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--search", action="store_true")
    if parser.parse_args(argv).search:
        for x, *_ in KNOTS:
            print(x, *(f"{value:.4f}" for value in search(x)), flush=True)
        return
    for one in falling(list(records())):
        print(*one, sep=",", flush=True)


if __name__ == "__main__":
    main()
