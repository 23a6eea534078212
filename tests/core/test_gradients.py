"""Gradients of attention: against finite differences, and every schedule with every option."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import backward_oracle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from masked_oracle import case
from sizes import draws
from strategies import attention_options
from test_attention_options import CASES as MASKED

import iosim
from iosim.core.algorithms import _shape
from iosim.core.counting import symbols
from iosim.core.problem import AttentionBackward
from iosim.core.trace import tally

pytestmark = pytest.mark.numbers

CASES = {"dense": {}} | MASKED
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


@functools.cache
def build_gradients(problem: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs of a problem, and its gradients."""
    hbm = problem.random(seed=1)
    return hbm, problem.reference(hbm)


def folds(algorithm: Any, problem: Any, tiles: dict[str, int], *, in_symbols: bool = False) -> Any:
    """Closed form, machine, stream, arrays and sympy agree; the gradients are right.

    Returns the counts and the peak.
    """
    program = algorithm.program_for(problem)
    instance = iosim.bind(program, problem.sizes, tiles)
    closed, top = iosim.count(instance), iosim.peak(instance)
    hbm, gradients = build_gradients(problem)
    run = iosim.simulate(instance, iosim.Machine(max(1, top)), hbm)
    assert run.counts == closed == tally(instance)
    assert run.peak_words == top
    many = iosim.count_many(program, problem.sizes | tiles)
    assert {key: int(n) for key, n in many.items()} == dict(closed)
    assert int(iosim.peak_many(program, problem.sizes | tiles)) == top
    if in_symbols:
        assert symbols.count(program).at(problem.sizes, tiles) == (closed, top)
    for key, want in gradients.items():
        np.testing.assert_allclose(run.outputs[key], want, rtol=1e-11, atol=1e-11, err_msg=key)
    return {k: n for k, n in closed if n}, top


def by_hand(algorithm: Any, problem: Any, tiles: dict[str, int]) -> Any:
    """What the oracle moves by tensor, and its peak; its gradients are right."""
    hbm, gradients = build_gradients(problem)
    of_q, of_k = (problem.heads, problem.N), np.shape(hbm["K"])[:2]
    given = {
        x: words.reshape(*(of_k if x in "KV" else of_q), *words.shape[-1:] * (x != "L")).tolist()
        for x, words in hbm.items()
    }
    mem = backward_oracle.words(algorithm.name, case(**problem.as_dict), tiles, given)
    for key, want in gradients.items():
        found = [value for _, value in sorted(mem.hbm[key].items())]
        np.testing.assert_allclose(found, want.ravel(), rtol=1e-11, atol=1e-11, err_msg=key)
    return {k: n for k, n in mem.moved.items() if n}, mem.peak


def check(algorithm: Any, problem: Any, tiles: dict[str, int], **how: bool) -> None:
    assert folds(algorithm, problem, tiles, **how) == by_hand(algorithm, problem, tiles)


@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_each_schedule_with_each_option(name: str, what: str) -> None:
    algorithm, problem = iosim.algorithm(name), AttentionBackward(7, 3, 4, **CASES[what])
    params = algorithm.program_for(problem).params
    for B in (1, 2, 5, 11):
        tiles = {p.name: B for p in params}
        check(algorithm, problem, tiles, in_symbols=B == 5 and what == "sinks")


@given(st.sampled_from(SCHEDULES), attention_options(most=draws(11, 7)), st.data())
def test_every_count_agrees(name: str, forward: Any, data: Any) -> None:
    algorithm, problem = iosim.algorithm(name), AttentionBackward(**forward.as_dict)
    params, most = algorithm.program_for(problem).params, draws(13, 9)
    tiles = {p.name: data.draw(st.integers(p.least, most), label=p.name) for p in params}
    check(algorithm, problem, tiles)


# More words than are needed, in each fold alike, and the same gradients.
WASTE: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "all rows for each tile of keys": (
        "rows",
        lambda _: lambda b, j, B_r, **how: b.tiles("N", B_r),
    ),
    "a column too many": (
        "visible_columns",
        lambda right: lambda b, i: (right(b, i)[0] - 1, right(b, i)[1] + 1),
    ),
    "zeros to every key": ("unseen_keys", lambda _: lambda b: (0, "N_k")),
}


@pytest.mark.parametrize("what", WASTE)
@pytest.mark.parametrize("name", SCHEDULES)
def test_only_the_oracle_sees_words_for_nothing(
    name: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = replace(iosim.algorithm(name))  # it has traced nothing yet
    problem = AttentionBackward(9, 2, 2, N_k=15, kv_heads=1, causal=True, window=(3, None))
    part, wrong = WASTE[what]
    changed = wrong(getattr(_shape, part))
    for module in list(sys.modules.values()):
        if module.__name__.startswith("iosim.core.algorithms") and hasattr(module, part):
            monkeypatch.setattr(module, part, changed)
    tiles = {p.name: 2 for p in algorithm.program_for(problem).params}
    moved, _ = folds(algorithm, problem, tiles)
    needed, _ = by_hand(algorithm, problem, tiles)
    if part == "visible_columns" and name in ("flash1_backward", "flash2_backward"):
        assert moved == needed  # they ask which rows see a key, never the other way round
    else:
        assert sum(moved.values()) > sum(needed.values())


@pytest.mark.parametrize("part", ["row_sums", "make_p", "add_rows"])
def test_an_oracle_without_a_part_is_wrong(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that nothing stored, or that isn't resident, is an error; so is a wrong gradient."""
    algorithm, problem = iosim.algorithm("two_kernels"), AttentionBackward(5, 2, causal=True)
    tiles = {p.name: 2 for p in algorithm.program_for(problem).params}
    monkeypatch.setattr(backward_oracle, part, lambda *_: None)
    with pytest.raises((KeyError, AssertionError)):
        by_hand(algorithm, problem, tiles)


def test_a_schedule_without_an_oracle_is_told_to_write_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(backward_oracle.SCHEDULES, "two_kernels")
    with pytest.raises(AssertionError, match=r"write two_kernels by hand in tests/backward_oracle"):
        by_hand(iosim.algorithm("two_kernels"), AttentionBackward(5, 2), {})
