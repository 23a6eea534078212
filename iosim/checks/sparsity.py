"""Block-sparse attention at one pattern: exact words, beside 4N²d²s/M and the lower bound.

FlashAttention's Proposition 4 says that block-sparse attention moves Θ(Nd + N²d²s/M) words, where s
is the share of blocks that are marked.  Here the pattern is any array of blocks, the words are the
exact count of `block_sparse`, and the bound is the constant-tight one for the Π pairs that this
pattern has, 4Πd²/M and the compulsory words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.algorithms.block_sparse import ALGORITHM
from iosim.bounds.unified import pattern_bound
from iosim.counting.numbers import count, peak
from iosim.errors import CapacityError
from iosim.problem import BlockSparse
from iosim.program.walk import bind


@dataclass(frozen=True)
class Sparsity:
    """Words of one problem, mask and M.

    Attributes:
        tiles: the blocks of the mask.
        pairs: scores that the mask marks, over all heads.
        words: what `block_sparse` moves, exact.
        bound: what any schedule moves at least that makes each score once.
    """

    problem: BlockSparse
    M: int
    tiles: dict[str, int]
    pairs: int
    words: int
    bound: float

    @property
    def share(self) -> float:
        """Of all scores, those that are marked: the s of Proposition 4."""
        return self.pairs / (self.problem.heads * self.problem.N * self.problem.N_k)

    @property
    def leading(self) -> float:
        """4N²d²s/M, over all heads."""
        return 4 * self.pairs * self.problem.d**2 / self.M

    @property
    def constant(self) -> float:
        """The words of K and V ÷ N²d²s/M."""
        own = 2 * self.problem.heads * self.problem.N * self.problem.d
        return 4 * (self.words - own) / self.leading if self.pairs else 0.0

    @property
    def gap(self) -> float:
        """Words ÷ bound."""
        return self.words / self.bound


def tallest(d: int, M: int, B_c: int) -> int:
    """The most rows of a block of `block_sparse` that fit into M words, beside B_c keys.

    Raises CapacityError where none do.

    >>> tallest(64, 4 * 64**2, 1)
    124
    """
    rows = (M - B_c * d) // (2 * d + 2 + B_c)
    if rows < 1:
        least = B_c * d + 2 * d + 2 + B_c
        raise CapacityError(
            f"a row with B_c = {B_c} needs {least} words, M is {M}: use M >= {least}"
        )
    return rows


def sparsity(problem: BlockSparse, M: int, tiles: dict[str, int], mask: Any) -> Sparsity:
    """Count one pattern, and bound it.

    Args:
        problem: the sizes.
        M: words of fast memory.
        tiles: B_r and B_c, the blocks of the mask.
        mask: booleans, ⌈N/B_r⌉ × ⌈N_k/B_c⌉.

    Raises InputError for a mask of another shape, and CapacityError where a block doesn't fit.

    >>> mask = np.eye(8, dtype=bool)
    >>> found = sparsity(BlockSparse(64, 64, 4), 200, {"B_r": 8, "B_c": 8}, mask)
    >>> found.share, found.words, found.bound
    (0.125, 1024, 1024.0)
    """
    instance = bind(ALGORITHM.program, problem.sizes, tiles, {"blocks": mask})
    if (need := peak(instance)) > M:
        raise CapacityError(f"a marked block needs {need} words, M is {M}: choose smaller tiles")
    marked = dict(instance.masks)["blocks"].array
    rows, columns = (
        np.minimum(step, n - np.arange(0, n, step))
        for n, step in ((problem.N, instance.env["B_r"]), (problem.N_k, instance.env["B_c"]))
    )
    pairs, heads = int(rows @ (marked @ columns)), problem.heads
    used = int(rows[marked.any(axis=1)].sum()), int(columns[marked.any(axis=0)].sum())
    # Rows that see nothing have no pair, and are written all the same.
    low = float(heads * (problem.N - used[0]) * problem.d)
    if pairs:
        low += pattern_bound(heads * pairs, heads * used[0], heads * used[1], problem.d, M)
    words = count(instance).total_words
    return Sparsity(problem, M, dict(tiles), heads * pairs, words, low)
