"""Problems for the benchmarks, from what each schedule says that it needs.

A benchmark names no option that one schedule alone needs, so that a new schedule can't break it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import iosim
from iosim.core.program.block_masks import masks

# Schedules whose tiles are searched: those of a block mask are given, and a copy has no products.
SEARCHED = [a for a in iosim.all_algorithms() if a.name != "copy" and not masks(a.program)]
ATTENTION = iosim.all_algorithms("attention")


def required_options(algorithm: Any, N: int, d: int, heads: int) -> dict[str, int]:
    """The options that a schedule needs: each the size that it follows, or a quarter of what it
    divides, which is then given, too.
    """
    sizes, found = {"N": N, "d": d, "heads": heads}, {}
    for option in algorithm.problem.options():
        if option.name not in algorithm.needs:
            continue
        size = found[option.name] = sizes[option.follows]
        if option.divides:
            found |= {option.divides: size, option.name: math.gcd(size, max(size // 4, 1))}
    return found


def problem_for(algorithm: Any, N: int, d: int, heads: int = 1, **options: Any) -> Any:
    """A schedule's problem of these sizes and options; None where it has none with these."""
    if not options.keys() <= {x.name for x in algorithm.problem.options()}:
        return None
    plain = algorithm.problem.beside_attention(N, d, heads)
    problem = replace(plain, **required_options(algorithm, N, d, heads) | options)
    return problem if algorithm.supports(problem) else None


def columns_for(
    algorithm: Any, N: Sequence[int], d: Sequence[int], heads: int = 1, **options: Any
) -> dict[str, Any]:
    """Name → extents of many points, each a problem of `problem_for`."""
    pairs, which = np.unique(np.stack([N, d]), axis=1, return_inverse=True)
    sizes = [problem_for(algorithm, *pair, heads, **options).sizes for pair in pairs.T.tolist()]
    return {name: np.array([x[name] for x in sizes])[which.ravel()] for name in sizes[0]}


def program_and_problem(name: str, N: int, d: int) -> tuple[Any, Any]:
    """A schedule's program for its problem of these sizes."""
    algorithm = iosim.algorithm(name)
    problem = problem_for(algorithm, N, d)
    return algorithm.program_for(problem), problem
