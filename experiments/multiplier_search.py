"""The multipliers of the constant-tight bound, searched for: how good are the stored ones?

`iosim.bounds.unified` reads segment lengths and multipliers from tables.  Any choice gives a valid
bound, so the search may be numeric: at each √(M/d²) scipy's Nelder–Mead maximizes the bound's
leading term, segment × weight ÷ cap, from the stored numbers and from random ones beside them.
(The caps are maxima of several faces, so that the term has no gradient where it is largest.)

``python -m experiments.multiplier_search`` prints, for each class, the stored bound over the best
that was found, both as shares of 4·HN²d²/M.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.bounds.unified import caps, multipliers

from . import run_main


@dataclass(frozen=True)
class Searched:
    """One class: its stored numbers at x = M/d², and its leading term as a function of them.

    Attributes:
        name: the class.
        stored: x → segment ÷ M and the multipliers.
        term: x, and numbers like the stored ones → segment × weight ÷ cap, 0 where not allowed.
        upto: the √x from which 4HN²d²/M itself is proved.
    """

    name: str
    stored: Callable[[Any], Sequence[Any]]
    term: Callable[[float, Any], float]
    upto: float


def _once(x: float, numbers: Any) -> float:
    ratio, m1, m2 = numbers
    if not (ratio > 0 and 0 <= m1 <= 2 and m2 >= 0):
        return 0.0
    return float(ratio * x * (2 - m1) / caps.once_cap(x, ratio * x, m1, m2))


def _recompute(x: float, numbers: Any) -> float:
    ratio, a0, m1, m2 = numbers
    if not (ratio > 0 and a0 >= 0 and 0 <= m1 <= 2 - a0 and m2 >= 0):
        return 0.0
    m2 = min(m2, float(caps.largest_m2(x, ratio * x, a0, m1)))
    return float(ratio * x * 2 / caps.recompute_cap(x, ratio * x, a0, m1, m2)) if m2 >= 0 else 0.0


SEARCHES = (
    Searched("once", multipliers.once, _once, 2.5**0.5),
    Searched("recompute", multipliers.recompute, _recompute, 4.5**0.5),
)


def compare(one: Searched, root: float, starts: int = 4, seed: int = 0) -> tuple[float, float]:
    """The term with the stored numbers at √x = `root`, and the largest that a search finds.

    Both as shares of 4/x, that is of the bound 4HN²d²/M.
    """
    from scipy.optimize import minimize

    x = root * root
    first = np.array([float(v) for v in one.stored(np.float64(x))])
    rng = np.random.default_rng(seed)
    stored = best = one.term(x, first)
    for k in range(starts):
        start = first * np.exp(rng.normal(0, 0.1 * k, len(first))) + 1e-3 * k
        found = minimize(
            lambda z: -one.term(x, z),
            start,
            method="Nelder-Mead",
            options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 2000},
        )
        best = max(best, -float(found.fun))
    return stored * x / 4, best * x / 4


def main() -> None:
    """Print both at 16 points of each class."""
    for one in SEARCHES:
        for root in np.linspace(0.05, one.upto, 16):
            stored, best = compare(one, float(root))
            print(
                f"{one.name:9}  √(M/d²) {root:.3f}  stored {stored:.6f}  found {best:.6f}"
                f"  stored ÷ found {stored / best:.6f}",
                flush=True,
            )


if __name__ == "__main__":
    run_main(main)
