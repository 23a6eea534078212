"""The records of Theorem 5 (proofs/constant_tight_spills.md): caps that are proved, M/d² by M/d².

A record is M/d², (M + S)/d², two weights, and the cap on a segment's charged work that they give.
The first four may be anything; here they are interpolated between points where scipy's Nelder–Mead
found them (`KNOTS`).  The cap is raised from a guess until `iosim.bounds.unified.boxes.holds`.

``python -m experiments.spill_records`` prints the table of `iosim/bounds/unified/spills.py`;
``--search`` searches at the knots, from their present numbers.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from iosim.bounds.unified import boxes
from iosim.errors import InputError

# M/d², S/M, e, m/√(M/d²): found with --search, then smoothed; and about the bound's gap.
KNOTS: tuple[tuple[float, ...], ...] = (
    (0.03, 2.3, 0.965, 0.7, 1.10),
    (0.0617, 2.35, 0.963, 0.52, 1.12), (0.115, 2.36, 0.962, 0.48, 1.15),
    (0.215, 2.6, 0.959, 0.445, 1.20), (0.293, 2.55, 0.955, 0.43, 1.19),
    (0.4, 2.5, 0.94, 0.41, 1.14), (0.547, 2.36, 0.945, 0.44, 1.13), (0.747, 2.2, 0.942, 0.5, 1.155),
    (1.02, 1.8, 0.934, 0.462, 1.20), (1.39, 1.59, 0.902, 0.433, 1.12),
    (1.9, 1.38, 0.891, 0.422, 1.062), (2.5, 1.28, 0.8, 0.37, 1.025),
)  # fmt: skip
RATIO = 1.06  # from record to record
STEP = 6e-3  # by which a cap is raised until it is proved

Record = tuple[float, float, float, float, float]


def numbers(x: float) -> tuple[float, float, float]:
    """S/M, e and m at x = M/d², between the knots."""
    at, *columns, _ = np.array(KNOTS).T
    share, e, m = (float(np.interp(math.log(x), np.log(at), column)) for column in columns)
    return share, e, m * math.sqrt(x)


def least_cap(x: float, T: float, e: float, m: float, guess: float, step: float) -> float:
    """A cap that the boxes prove, by steps up from a guess; infinite where none is near."""
    cap = 0.975 * guess
    while not boxes.holds(x, T, e, m, cap):
        cap *= 1 + step
        if cap > 1.5 * guess:
            return math.inf
    return cap


def guess(x: float, share: float) -> float:
    """About the cap, from what schedules move and the gap at the knots."""
    root = math.sqrt(x)
    best = min(4 / x, min(1 / x, 2 / root) + 1 + min(2 / root, 1 / x + 1))
    at, *_, gap = np.array(KNOTS).T
    return 2 * share * x * float(np.interp(math.log(x), np.log(at), gap)) / best


def record(x: float, step: float = STEP) -> Record:
    """A record at x, with numbers of a few digits and a cap that is proved for just these."""
    share, e, m = numbers(x)
    x, T = float(f"{x:.4g}"), float(f"{x * (1 + share):.5g}")
    e, m = round(e, 4), round(m, 4)
    cap = float(f"{least_cap(x, T, e, m, guess(x, share), step) * (1 + 1e-5):.6g}")
    if not boxes.holds(x, T, e, m, cap):
        raise InputError(f"x = {x}: {cap} is not proved after rounding: give other knots")
    return x, T, e, m, cap


def records(part: int = 0, parts: int = 1) -> Iterator[Record]:
    """The table, from small M/d² to large; or a part of it."""
    first, last = KNOTS[0][0], KNOTS[-1][0]
    steps = math.ceil(math.log(last / first) / math.log(RATIO))
    for k in range(part, steps + 1, parts):
        yield record(first * (last / first) ** (k / steps))


def falling(table: Sequence[Record]) -> list[Record]:
    """The records without those that the next larger one beats: the bound then falls with M."""
    kept: list[Record] = []
    for one in reversed(table):
        x, T, _, _, c = one
        if not kept or (T - x) / c > (kept[-1][1] - x) / kept[-1][4]:
            kept.append(one)
    return kept[::-1]


def search(x: float, tries: int = 36) -> tuple[float, float, float, float]:
    """Better numbers at x: S/M, e, m/√x, and the bound ÷ Π that they give."""
    from scipy.optimize import minimize

    share, e, m = numbers(x)

    def bound(z: Any) -> float:
        share, e, m = z
        if not (0.5 < share < 4 and 0.3 < e < 1.3 and 0 <= m < 1.5):
            return 0.0
        cap = least_cap(x, x * (1 + share), e, m, guess(x, share), STEP)
        return -float(2 * share * x / cap)

    start = np.array([share, e, m])
    around = np.vstack([start, start + np.diag([0.25, 0.03, 0.2 * m])])
    found = minimize(
        bound, start, method="Nelder-Mead", options={"maxfev": tries, "initial_simplex": around}
    )
    share, e, m = map(float, found.x)
    return share, e, m / math.sqrt(x), -float(found.fun)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, or what a search finds at the knots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--search", action="store_true")
    if parser.parse_args(argv).search:
        for x, *_ in KNOTS:
            print(x, *(f"{value:.4f}" for value in search(x)), flush=True)
        return
    for one in falling(list(records())):
        print(f"    {one},", flush=True)


if __name__ == "__main__":
    main()
