"""Words beyond 64 bits, against Python's integers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples

import iosim
from iosim.core.tiling import optimal_tiles_many
from iosim.core.tiling.wide import EXACT, NEVER_LESS, Wide, at_least, real_below

pytestmark = pytest.mark.numbers

FACTORS = st.lists(st.integers(0, 2**23) | st.integers(0, 2**60), min_size=1, max_size=3)


@given(st.lists(st.tuples(st.integers(-3, 3), FACTORS), min_size=1, max_size=8))
@examples(2)
def test_words_are_exact_or_known_to_be_many(terms: list[tuple[int, list[int]]]) -> None:
    """Sums of products; 1 is there once more, as an array, as what points share, and in float64."""
    true = 1 + sum(c * math.prod(factors) for c, factors in terms)
    total: Any = Wide.of(np.array([1]))
    shared: Any = Wide.of(1)
    line: Any = Wide.of(np.array([1.0]))
    for c, factors in terms:
        term: Any = Wide.of(c)
        for x in factors:
            term = term * np.array([x])
        total, shared, line = total + term, shared + term, line + term[:]
    for words in (total, shared):
        assert at_least(words)[0] <= max(true, 0)
        assert real_below(words)[0] <= true
        if abs(true) < NEVER_LESS:
            assert words.exact()[0] == true == at_least(words)[0]
        elif true > 0:
            assert words.exact()[0] in (true, EXACT)
    assert at_least(line)[0] == real_below(line)[0] <= true


SCHEDULES = ("flash2", "flash2_keep", "naive", "small_cache", "naive_backward", "matmul")


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (512, 0)}])
@pytest.mark.parametrize("name", SCHEDULES)
def test_tiles_beyond_64_bits_are_those_of_integers(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In arrays, and for few points, whose search starts otherwise."""
    algorithm = iosim.algorithm(name)
    problem = algorithm.problem.beside_attention(2**30, 64, 8)
    if options:
        if not {"causal", "window"} <= {x.name for x in algorithm.problem.options()}:
            return
        problem = iosim.Attention(2**30, 64, 8, **options)
    if not algorithm.supports(problem):
        return
    program, rng = algorithm.program_for(problem), np.random.default_rng(0)
    columns: dict[str, Any] = dict(problem.sizes)
    axis = "N" if "N" in columns else "n"
    for points in (4, 70):
        columns[axis] = rng.integers(2**27, 2**33, points)
        M = np.exp(rng.uniform(np.log(600), np.log(2**20), points)).astype(np.int64)
        found = optimal_tiles_many(program, columns, M)
        with monkeypatch.context() as patch:
            patch.setattr("iosim.core.tiling.MOST_HELD", 0.0)
            again = optimal_tiles_many(program, columns, M)
        assert found[1].tolist() == again[1].tolist()
        for tile, values in again[0].items():
            assert found[0][tile].tolist() == values.tolist()
