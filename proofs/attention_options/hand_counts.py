"""The bounds against schedules that are counted by hand: nothing here runs a program."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from iosim.bounds.unified import CLASSES, pattern_bound, pattern_bound_many
from iosim.report.proof import require, step

from . import constants

Mask = NDArray[np.bool_]


def streamed(mask: Mask, d: int, d_v: int, rows: int, chunks: int = 1) -> int:
    """Words of the schedule that keeps `rows` rows of Q and O and streams K and V.

    A block of rows loads the rows of K and V that one of its rows sees.  For each of the chunks of
    d_v columns there is a separate pass, which makes the scores again.
    """
    words = 0
    for first in range(0, d_v, -(-d_v // chunks)):
        wide = min(-(-d_v // chunks), d_v - first)
        for at in range(0, len(mask), rows):
            block = mask[at : at + rows]
            used = int(block.any(axis=1).sum())
            words += used * d + len(block) * wide + int(block.any(axis=0).sum()) * (d + wide)
    return words


def memory(d: int, d_v: int, rows: int, chunks: int = 1) -> int:
    """Words of fast memory that it needs: a row each of K and V, a score, two sums per row."""
    wide = -(-d_v // chunks)
    return rows * (d + wide + 2) + d + wide + 1


def masks(N: int, K: int) -> Iterable[Mask]:
    """Dense, causal, windows, blocks, and the same for two stacked heads."""
    i, j = np.arange(N)[:, None], np.arange(K)
    own = i + K - N
    one = [
        np.ones((N, K), bool),
        j <= own,
        (j <= own) & (j >= own - 2),
        abs(j - i) <= 1,
        (i // 2 + j // 3) % 2 == 0,
    ]
    for mask in one:
        full = np.broadcast_to(mask, (N, K))
        if full.any():
            yield full
            yield np.vstack([full, full])


@step(
    "schedules",
    how="exhaustive",
    says="Theorems A to C: no bound is above the schedule that streams K and V, or its passes",
)
def schedules() -> str:
    """Small sizes, every tile; and large ones, where the constants show."""
    found = []
    for N, K, d, e in itertools.product((1, 2, 5, 7), (1, 3, 6), (1, 2, 5), (1, 3, 4)):
        for mask in masks(N, K):
            pairs, R, C = int(mask.sum()), int(mask.any(1).sum()), int(mask.any(0).sum())
            for rows, chunks in itertools.product((1, 2, 3, 7, 14), (1, 2)):
                M, words = memory(d, e, rows, chunks), streamed(mask, d, e, rows, chunks)
                found.append((pairs, R, C, d, M, e, words, chunks))
    *sizes, d_v, counted, passes = np.array(found).T
    for klass in CLASSES:
        # More than one pass makes scores again.
        here = (passes == 1) | (klass == "recompute")
        low = pattern_bound_many(*sizes, d_v=d_v, klass=klass) * constants.LEADING / 4
        above = np.flatnonzero(here & (low > counted))
        require(not above.size, f"{klass}: above {[found[k] for k in above[:1]]}")
    cases = len(found)
    # Large sizes: the words are 2·passes·N²(d + d_v/m)/B and less; near the bound.
    N = 2**16
    for d, e, chunks in ((96, 64, 1), (64, 64, 1), (64, 128, 2), (32, 128, 4), (192, 128, 1)):
        for rows in (512, 1024):
            cases += 1
            M = memory(d, e, rows, chunks)
            words = 2 * N * (d * chunks + e) // 2 + chunks * (N // rows) * N * (d + e // chunks)
            klass = "recompute" if chunks > 1 else "once"
            low = pattern_bound(N * N, N, N, d, M, d_v=e, klass=klass) * constants.LEADING / 4
            require(low <= words <= 1.06 * low, f"d = {d}, d_v = {e}, {rows} rows: {words / low}")
    return f"N ≤ 14 and N = 65536, {cases} cases"


@step(
    "blocks",
    how="sampled",
    says="Proposition 4: 4sN²d²/M is below the count at any pattern of tiles, and near it",
)
def blocks() -> str:
    """Patterns of square tiles as high as a block of rows: the bound is within their remainders."""
    rng = np.random.default_rng(31)
    worst = 0.0
    for _ in range(constants.PATTERNS):
        n, d = int(rng.integers(40, 200)), int(rng.choice([32, 64, 128]))
        B = int(rng.choice([256, 512, 1024]))
        tiles = rng.random((n, n)) < rng.uniform(0.2, 1)
        np.fill_diagonal(tiles, True)
        pairs, N = int(tiles.sum()) * B * B, n * B
        words = 2 * N * d + 2 * int(tiles.sum()) * B * d
        low = pattern_bound(pairs, N, N, d, memory(d, d, B)) * constants.LEADING / 4
        require(low <= words, f"{n} × {n} tiles of {B}, d = {d}: {low} above {words}")
        spare = 1 + 1 / (tiles.mean() * n) + 6 / d
        worst = max(worst, words / low / spare)
        require(words <= spare * low, f"{n} × {n} tiles of {B}, d = {d}: {words / low}")
    return f"{constants.PATTERNS} patterns, seed 31: at most {worst:.3f} of what remainders allow"
