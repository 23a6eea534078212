"""Gradients of attention: against finite differences, and every schedule with every option."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import attention_options

import iosim
from iosim.counting import symbols
from iosim.problem import AttentionBackward
from iosim.trace import tally

# One problem for each thing that options change, as test_attention_options.py has them.
CASES: dict[str, dict[str, Any]] = {
    "dense": {},
    "causal": {"causal": True},
    "rows that see nothing": {"causal": True, "N_k": 3},
    "columns that no row sees": {"causal": True, "N_k": 9, "align": "upper left"},
    "chunk of a long cache": {"causal": True, "window": (2, None), "N_k": 11},
    "window": {"window": (2, 1)},
    "window beyond the ends": {"window": (9, 8)},
    "sinks": {"causal": True, "window": (1, None), "sinks": 2},
    "sinks beyond the keys": {"window": (1, 0), "sinks": 30},
    "cross": {"N_k": 4, "d_v": 2},
    "multi-query": {"kv_heads": 1, "causal": True},
    "everything": {"N_k": 8, "d_v": 4, "kv_heads": 2, "causal": True, "window": (3, 5), "sinks": 1},
}
SCHEDULES = [a.name for a in iosim.all_algorithms("attention-backward")]
STEP = 1e-5


def by_differences(options: dict[str, Any], hbm: dict[str, Any]) -> dict[str, Any]:
    """Slopes of Σ dO ∘ O in every word of Q, K and V, from outputs of the forward pass alone."""
    forward = iosim.Attention(7, 3, 4, **options)

    def loss(given: dict[str, Any]) -> float:
        return float((forward.reference(given)["O"] * hbm["dO"]).sum())

    found = {}
    for name in "QKV":
        slopes = np.empty_like(hbm[name])
        for at in np.ndindex(slopes.shape):
            ends = []
            for sign in (1, -1):
                moved = {x: np.array(hbm[x]) for x in "QKV"}
                moved[name][at] += sign * STEP
                ends.append(loss(moved))
            slopes[at] = (ends[0] - ends[1]) / (2 * STEP)
        found[f"d{name}"] = slopes
    return found


@pytest.mark.parametrize("what", CASES)
def test_the_reference_is_the_slope_of_the_forward_pass(what: str) -> None:
    problem = AttentionBackward(7, 3, 4, **CASES[what])
    hbm = problem.random(seed=5)
    found = problem.reference(hbm)
    for name, slopes in by_differences(CASES[what], hbm).items():
        assert np.abs(slopes).max() > 0.1
        np.testing.assert_allclose(found[name], slopes, rtol=1e-6, atol=1e-8, err_msg=name)


def check(name: str, problem: Any, tiles: dict[str, int], *, in_symbols: bool = False) -> None:
    """Closed form, machine, stream, arrays and sympy agree; the gradients are right."""
    program = iosim.algorithm(name).program_for(problem)
    instance = iosim.bind(program, problem.sizes, tiles)
    closed, top = iosim.count(instance), iosim.peak(instance)
    hbm = problem.random(seed=1)
    run = iosim.simulate(instance, iosim.Machine(max(1, top)), hbm)
    assert run.counts == closed == tally(instance)
    assert run.peak_words == top
    many = iosim.count_many(program, problem.sizes | tiles)
    assert {key: int(n) for key, n in many.items()} == dict(closed)
    assert int(iosim.peak_many(program, problem.sizes | tiles)) == top
    if in_symbols:
        assert symbols.count(program).at(problem.sizes, tiles) == (closed, top)
    for key, want in problem.reference(hbm).items():
        np.testing.assert_allclose(run.outputs[key], want, rtol=1e-11, atol=1e-11, err_msg=key)


@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_each_schedule_with_each_option(name: str, what: str) -> None:
    problem = AttentionBackward(7, 3, 4, **CASES[what])
    params = iosim.algorithm(name).program_for(problem).params
    for B in (1, 2, 5, 11):
        check(name, problem, {p.name: B for p in params}, in_symbols=B == 2 and what == "sinks")


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SCHEDULES), attention_options(), st.data())
def test_every_count_agrees(name: str, forward: Any, data: Any) -> None:
    problem = AttentionBackward(**forward.told)
    params = iosim.algorithm(name).program_for(problem).params
    check(name, problem, {p.name: data.draw(st.integers(p.least, 9)) for p in params})
