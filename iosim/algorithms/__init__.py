"""Algorithms: one file each, one line each here.

An entry is an import string, so that listing names imports nothing.

>>> "flash2" in ALGORITHMS, len(ALGORITHMS) == len(all_algorithms())
(True, True)
"""

from __future__ import annotations

from iosim.algorithms._entry import Algorithm
from iosim.problem import Form
from iosim.registry import registered

__all__ = ["ALGORITHMS", "Algorithm", "algorithm", "all_algorithms"]

ALGORITHMS: dict[str, str] = {
    "naive": "iosim.algorithms.naive",
    "flash1": "iosim.algorithms.flash1",
    "flash2": "iosim.algorithms.flash2",
    "small_cache": "iosim.algorithms.small_cache",
    "flash2_chunked": "iosim.algorithms.flash2_chunked",
    "flash2_keep": "iosim.algorithms.flash2_keep",
    "spill_rows": "iosim.algorithms.spill_rows",
    "flash2_log": "iosim.algorithms.flash2_log",
    "flash2_parts": "iosim.algorithms.flash2_parts",
    "small_tiles": "iosim.algorithms.small_tiles",
    "grouped_rows": "iosim.algorithms.grouped_rows",
    "decode": "iosim.algorithms.decode",
    "split_kv": "iosim.algorithms.split_kv",
    "paged": "iosim.algorithms.paged",
    "block_sparse": "iosim.algorithms.block_sparse",
    "naive_backward": "iosim.algorithms.naive_backward",
    "flash1_backward": "iosim.algorithms.flash1_backward",
    "flash2_backward": "iosim.algorithms.flash2_backward",
    "two_kernels": "iosim.algorithms.two_kernels",
    "spill_gradient": "iosim.algorithms.spill_gradient",
    "spill_weights": "iosim.algorithms.spill_weights",
    "small_backward": "iosim.algorithms.small_backward",
    "matmul": "iosim.algorithms.matmul",
    "copy": "iosim.algorithms.copy",
}


def algorithm(name: str) -> Algorithm:
    """Return a registered algorithm, or raise InputError with the closest name.

    >>> algorithm("flash2").title
    'FlashAttention-2: Q and O stationary, K and V streamed'
    >>> algorithm("flash3")
    Traceback (most recent call last):
        ...
    iosim.errors.InputError: unknown algorithm 'flash3': did you mean 'flash2'?
    """
    return registered("algorithm", name, ALGORITHMS, "ALGORITHM", Algorithm)


def all_algorithms(problem: str | Form | None = None) -> tuple[Algorithm, ...]:
    """Return all algorithms, or those for one kind of problem, or for all problems of one form.

    >>> [a.name for a in all_algorithms("matmul")]
    ['matmul']
    """
    found = (algorithm(name) for name in ALGORITHMS)
    if isinstance(problem, Form):
        return tuple(a for a in found if a.supports(problem))
    return tuple(a for a in found if problem in (None, a.problem.kind))
