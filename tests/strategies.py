"""Hypothesis strategies: one file, grown with each feature."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

import iosim
from iosim.algorithms import Algorithm

MOST_CELLS = 4000


def algorithms(problem: str | None = None) -> st.SearchStrategy[Algorithm]:
    """Any registered algorithm."""
    return st.sampled_from(iosim.algorithms(problem))


@st.composite
def problems(draw: st.DrawFn, cls: type[Any], most: int = 11) -> Any:
    """A small problem; sizes are often ragged against any tile."""
    names = cls._names()
    return cls(**{n: draw(st.integers(1, 3 if n == "heads" else most), label=n) for n in names})


@st.composite
def bound_programs(draw: st.DrawFn, most: int = 11) -> tuple[Algorithm, Any, dict[str, int]]:
    """Any algorithm, with a small problem and any tiles, larger than the problem too."""
    algorithm = draw(algorithms())
    problem = draw(problems(algorithm.problem, most))
    tiles = {
        p.name: draw(st.integers(p.least, most + 2), label=p.name) for p in algorithm.program.params
    }
    return algorithm, problem, tiles


@st.composite
def searchable(draw: st.DrawFn) -> tuple[Algorithm, Any, int]:
    """An algorithm, a problem and an M for which all tiles can be tried one by one."""
    algorithm = draw(algorithms())
    problem = draw(problems(algorithm.problem, 8))
    cells = math.prod(problem.sizes[p.axis] + 1 - p.least for p in algorithm.program.params)
    if cells > MOST_CELLS:
        problem = draw(problems(algorithm.problem, 3))
    return algorithm, problem, draw(st.integers(1, 120), label="M")
