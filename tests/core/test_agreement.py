"""Five ways to count one schedule agree to the word.

Simulated = symbolic = integer formula = sum of the transfer stream = a hand-written oracle, for
every algorithm, tile and shape that hypothesis finds; and the outputs are right.
"""

from __future__ import annotations

from typing import Any

import backward_oracle
import numpy as np
import oracle
import pytest
from hypothesis import example, given
from oracle import Memory, attention
from sizes import draws, examples
from strategies import bound_programs, plain_algorithms, random_schedules

import iosim
from iosim.core.counting import symbols
from iosim.core.machine import places
from iosim.core.problem import size_names
from iosim.core.trace import tally

SCHEDULES = oracle.SCHEDULES | backward_oracle.DENSE
FORMULAS = {a.name: symbols.count(a.program) for a in plain_algorithms()}


def oracle_run(algorithm: Any, problem: Any, tiles: Any, hbm: Any) -> Memory:
    mem = Memory(**{name: value.tolist() for name, value in hbm.items()})
    assert algorithm.name in SCHEDULES, f"write {algorithm.name} by hand in tests/oracle.py"
    SCHEDULES[algorithm.name](mem, problem.sizes, tiles)
    assert not mem.fast, "the oracle leaks"
    return mem


def check_agreement(algorithm: Any, problem: Any, tiles: dict[str, int]) -> None:
    instance = iosim.bind(algorithm.program, problem.sizes, tiles)
    hbm = problem.random(seed=1)
    closed, top = iosim.count(instance), iosim.peak(instance)
    run = iosim.simulate(instance, iosim.Machine(max(1, top)), hbm)

    assert run.counts == closed == tally(instance)
    assert FORMULAS[algorithm.name].at(problem.sizes, tiles) == (closed, top)
    many = iosim.count_many(algorithm.program, problem.sizes | tiles)
    assert {key: int(words) for key, words in many.items()} == dict(closed)
    assert int(iosim.peak_many(algorithm.program, problem.sizes | tiles)) == top
    assert run.peak_words == top

    mem = oracle_run(algorithm, problem, tiles, hbm)
    assert {k: v for k, v in closed if v} == {k: v for k, v in mem.moved.items() if v}
    assert mem.peak == top

    want = problem.reference(hbm)
    assert iosim.max_error({x: run.outputs[x] for x in want}, want) < 1e-12
    for name, ref in want.items():
        by_hand = np.array([mem.hbm[name][at] for at in np.ndindex(ref.shape)]).reshape(ref.shape)
        assert np.allclose(by_hand, ref, rtol=1e-12, atol=1e-12)


@pytest.mark.numbers
@given(bound_programs(most=draws(17, 11)))
@examples(3 / 2)
def test_every_count_agrees(case: Any) -> None:
    check_agreement(*case)


@pytest.mark.parametrize("name", [a.name for a in plain_algorithms()])
def test_one_word_tiles_and_whole_tiles(name: str) -> None:
    algorithm = iosim.algorithm(name)
    sizes = {n: 2 if n == "heads" else 5 for n in size_names(algorithm.problem)}
    problem = algorithm.problem(**sizes)
    params = algorithm.program.params
    check_agreement(algorithm, problem, {p.name: p.least for p in params})
    check_agreement(algorithm, problem, {p.name: sizes[p.axis] for p in params})


@pytest.mark.parametrize("name", [a.name for a in plain_algorithms()])
def test_the_agreement_check_can_fail(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tiles in the oracle, another formula, or a machine that miscounts: each is caught."""
    algorithm = iosim.algorithm(name)
    problem = algorithm.problem(
        **{n: 1 if n == "heads" else 5 for n in size_names(algorithm.problem)}
    )
    tiles = {p.name: 2 for p in algorithm.program.params}
    check_agreement(algorithm, problem, tiles)
    wrong = tiles | {algorithm.program.params[0].name: 3}
    hbm = problem.random()
    by_hand = oracle_run(algorithm, problem, wrong, hbm)
    monkeypatch.setattr(__name__ + ".oracle_run", lambda *_: by_hand)
    with pytest.raises(AssertionError):
        check_agreement(algorithm, problem, tiles)
    monkeypatch.undo()
    monkeypatch.setitem(FORMULAS, name, FORMULAS["copy" if name != "copy" else "matmul"])
    with pytest.raises((AssertionError, iosim.InputError)):
        check_agreement(algorithm, problem, tiles)
    monkeypatch.undo()
    monkeypatch.setattr(places, "words_of", lambda s, index: 1)
    with pytest.raises(AssertionError):
        check_agreement(algorithm, problem, tiles)


@examples(3 / 5)
@given(bound_programs(most=9))
@example(
    (
        iosim.algorithm("small_cache"),
        iosim.Attention(7, 5, 2),
        {"B_r1": 3, "B_c1": 2, "B_d1": 2, "W1": 3, "B_r2": 2, "B_c2": 3, "B_d2": 2},
    )
)
def test_batched_lanes_equal_one_at_a_time(case: Any) -> None:
    algorithm, problem, tiles = case
    instance = iosim.bind(algorithm.program, problem.sizes, tiles)
    machine, hbm = iosim.Machine(max(1, iosim.peak(instance))), problem.random(seed=2)
    one = iosim.simulate(instance, machine, hbm, lanes=1)
    for lanes in (5, 64, 2**18):
        many = iosim.simulate(instance, machine, hbm, lanes=lanes)
        assert many.counts == one.counts
        assert many.peak_words == one.peak_words
        for name, value in one.outputs.items():
            np.testing.assert_allclose(many.outputs[name], value, rtol=1e-12, atol=1e-13)


def test_the_reference_is_the_textbook_formula() -> None:
    problem = iosim.Attention(N=9, d=4, heads=2)
    hbm = problem.random(seed=3)
    for h in range(2):
        want = attention(*(hbm[x][h].tolist() for x in "QKV"))
        np.testing.assert_allclose(problem.reference(hbm)["O"][h], want, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", [a.name for a in plain_algorithms("attention")])
def test_scores_of_ten_thousand_are_safe(name: str) -> None:
    """Scores of ±1e4 overflow exp() in float64 unless the row maximum is taken out."""
    program = iosim.algorithm(name).program
    problem = iosim.Attention(N=33, d=4)
    hbm = problem.random(seed=4)
    hbm["Q"] *= 100
    hbm["K"] *= 100 / 2
    scores = hbm["Q"][0] @ hbm["K"][0].T
    assert np.abs(scores).max() > 1e4
    for M in (64, 500, 5000):
        tiles = iosim.optimal_tiles(program, problem, M).tiles
        run = iosim.simulate(iosim.bind(program, problem.sizes, tiles), iosim.Machine(M), hbm)
        assert np.isfinite(run.outputs["O"]).all()
        assert iosim.max_error({"O": run.outputs["O"]}, problem.reference(hbm)) < 1e-9


@pytest.mark.parametrize("name", [a.name for a in plain_algorithms()])
def test_time_to_count_does_not_grow_with_the_sizes(name: str) -> None:
    """Sizes of 2**40 are counted as quickly as small ones: nothing walks the tiles."""
    algorithm = iosim.algorithm(name)
    sizes = dict.fromkeys(size_names(algorithm.problem), 2**40 - 1)
    tiles = {p.name: 64 for p in algorithm.program.params}
    instance = iosim.bind(algorithm.program, algorithm.problem(**sizes).sizes, tiles)
    counts, _ = FORMULAS[name].at(sizes, tiles)
    assert iosim.count(instance) == counts
    assert counts.total_words > 2**40


@pytest.mark.numbers
@given(random_schedules())
@examples(5 / 2)
def test_random_schedules_are_counted_alike(case: Any) -> None:
    """Random schedules: any nesting, any part of any axis, one tile size used twice."""
    program, sizes, tiles = case
    instance = iosim.bind(program, sizes, tiles)
    closed, top = iosim.count(instance), iosim.peak(instance)
    hbm = iosim.MatMul(**sizes).random() | {"C": np.zeros((sizes["m"], sizes["n"]))}
    run = iosim.simulate(instance, iosim.Machine(max(1, top)), hbm)
    assert run.counts == closed == tally(instance)
    assert run.peak_words == top
    many = iosim.count_many(program, sizes | tiles)
    assert {key: int(words) for key, words in many.items()} == dict(closed)
    assert int(iosim.peak_many(program, sizes | tiles)) == top
    assert symbols.count(program).at(sizes, tiles) == (closed, top)
