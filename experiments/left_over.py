"""Where n sweeps just don't fit: at which M the best schedule is more than 1.15 times the bound.

Just below M = N(2d + 1)/n words the rows of Q and O, with their sums, leave a few words over.  From
3d²/2n words below to 4d words above, this looks at 60 sizes, and between the ones at the edges
finds the first and the last with a gap above 1.15 by bisection.

``python -m experiments.left_over`` prints them for d = 64 and 128, N = 2¹⁸ and each n, the largest
gap, and what share of Nd/16 ≤ M ≤ Nd lies between them (`proofs/towards_nd.md#6-what-is-attained`).
"""

from __future__ import annotations

import numpy as np

from iosim.base.errors import InputError
from iosim.report.tightness import sweep

from . import run_main

N, THRESHOLD = 2**18, 1.15


def gaps(d: int, sizes: list[int]) -> list[float]:
    """The best registered schedule ÷ the bound at each M."""
    return [point.gap for point in sweep(N, [d], sizes)]


def edge(d: int, good: int, bad: int) -> int:
    """The last size with a gap above the threshold, from one that has it to one that has not."""
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if gaps(d, [middle])[0] <= THRESHOLD else (good, middle)
    return bad


def above(d: int, n: int) -> tuple[tuple[int, int] | None, float]:
    """The first and last size with a gap above the threshold near N(2d + 1)/n; the largest gap."""
    middle = N * (2 * d + 1) // n
    below, over = 3 * d * d // (2 * n), 4 * d
    spread = [*np.linspace(-below, 0, 40), *np.linspace(1, over, 20)]
    sizes = [middle + int(x) for x in spread]
    found = gaps(d, sizes)
    high = [k for k, gap in enumerate(found) if gap > THRESHOLD]
    if not high:
        return None, max(found)
    first, last = high[0], high[-1]
    if first == 0 or last == len(sizes) - 1:
        raise InputError(
            f"d = {d}, n = {n}: the gap is above {THRESHOLD} at an edge of what is looked at"
        )
    edges = edge(d, sizes[first - 1], sizes[first]), edge(d, sizes[last + 1], sizes[last])
    return edges, max(found)


def main() -> None:
    """Print them."""
    for d in (64, 128):
        share = 0.0
        for n in range(3, 32):
            where, most = above(d, n)
            text = "none above 1.15"
            if where is not None:
                share += (where[1] - where[0] + 1) / (N * d * 15 / 16)
                text = f"above 1.15 from M = {where[0]:,} to {where[1]:,}"
            print(f"d = {d}, n = {n}: {text}, at most {most:.3f}", flush=True)
        print(f"d = {d}: {share:.3%} of Nd/16 ≤ M ≤ Nd")


if __name__ == "__main__":
    run_main(main)
