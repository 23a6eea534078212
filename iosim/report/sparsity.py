"""Block-sparse attention at one pattern: exact words, compared with 4N²d²s/M and the lower bound.

FlashAttention's Proposition 4 says that block-sparse attention moves Θ(Nd + N²d²s/M) words, where s
is the share of blocks that are marked.  Here the pattern is any array of blocks, the words are the
exact count of `block_sparse`, and the bound is the constant-tight one for the Π pairs that this
pattern has, 4Πd²/M and the compulsory words.  With d_v columns of V, d² is ((d + d_v)/2)²; heads
that share K and V need their rows once; and scores that a causal mask hides are not pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iosim.base.errors import CapacityError
from iosim.bounds.unified import pattern_bound
from iosim.core.algorithms.block_sparse import ALGORITHM
from iosim.core.counting.numbers import count, peak
from iosim.core.problem import BlockSparse, MarkedTiles
from iosim.core.program.walk import bind


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
        return self.pairs * (self.problem.d + self.problem.values) ** 2 / self.M

    @property
    def constant(self) -> float:
        """The words of K and V ÷ N²d²s/M."""
        own = self.problem.heads * self.problem.N * (self.problem.d + self.problem.values)
        return 4 * (self.words - own) / self.leading if self.pairs else 0.0

    @property
    def gap(self) -> float:
        """Words ÷ bound."""
        return self.words / self.bound


def tallest(d: int, M: int, B_c: int, d_v: int | None = None) -> int:
    """The most rows of a block of `block_sparse` that fit in M words with B_c keys.

    Args:
        d_v: columns of V and O (default: d).

    Raises CapacityError where none do.

    >>> tallest(64, 4 * 64**2, 1)
    124
    """
    values = d if d_v is None else d_v
    beside, each = B_c * max(d, values), d + values + 2 + B_c
    rows = (M - beside) // each
    if rows < 1:
        least = beside + each
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

    >>> import numpy as np
    >>> mask = np.eye(8, dtype=bool)
    >>> found = sparsity(BlockSparse(64, 64, 4), 200, {"B_r": 8, "B_c": 8}, mask)
    >>> found.share, found.words, found.bound
    (0.125, 1024, 1024.0)
    """
    program = ALGORITHM.program_for(problem)
    instance = bind(program, problem.sizes, tiles, {"blocks": mask})
    if (need := peak(instance)) > M:
        raise CapacityError(f"a marked block needs {need} words, M is {M}: choose smaller tiles")
    one = problem.visible(MarkedTiles(dict(instance.masks)["blocks"], **tiles))
    pairs, heads = one.pairs, problem.heads
    # Rows that see nothing have no pair, and are written all the same.
    low = float(heads * (problem.N - one.rows) * problem.values)
    if pairs:
        low += pattern_bound(
            heads * pairs,
            heads * one.rows,
            problem.groups * one.columns,
            problem.d,
            M,
            d_v=problem.values,
        )
    words = count(instance).total_words
    return Sparsity(problem, M, dict(tiles), heads * pairs, words, low)
