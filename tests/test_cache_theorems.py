"""What no cache can do better, and no schedule better than the best cache."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import attention_programs, bound_programs

import iosim
from iosim.bounds import best_lower_bound
from iosim.cache import POLICIES, Cache, replay_many, touches
from iosim.cache.curves import curve
from iosim.checks.slope import largest_operation
from iosim.counting.numbers import count, peak
from iosim.program.walk import Instance


def loads_no_more(instance: Instance) -> None:
    """The schedule is one way to serve its own references, and OPT is the best."""
    stream, M = touches(instance), peak(instance)
    explicit = count(instance).load_words
    assert curve(stream, "opt-bypass").loads_at(M) <= explicit
    assert curve(stream, "opt").loads_at(M + 1) <= explicit


@given(attention_programs())
@settings(max_examples=60, deadline=None)
def test_opt_loads_no_more_than_the_schedule_does(case: Any) -> None:
    """Every attention schedule, under every mask that it knows."""
    algorithm, problem, tiles = case
    loads_no_more(iosim.bind(algorithm.program_for(problem), problem.sizes, tiles))


@given(bound_programs(most=7))
@settings(max_examples=40, deadline=None)
def test_nor_do_the_other_problems_schedules(case: Any) -> None:
    algorithm, problem, tiles = case
    loads_no_more(iosim.bind(algorithm.program, problem.sizes, tiles))


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "opt"])
@given(data=st.data())
@settings(max_examples=6, deadline=None)
def test_no_policy_moves_less_than_the_lower_bounds(policy: str, data: Any) -> None:
    """An operation is atomic, so that a cache must have room for all of its operands."""
    name = data.draw(st.sampled_from(["flash2", "small_cache", "naive", "matmul"]))
    if name == "matmul":
        problem: Any = iosim.MatMul(8, 7, 9)
    else:
        problem = iosim.Attention(N=12, d=data.draw(st.integers(1, 3)))
    program = iosim.algorithm(name).program_for(problem)
    tiles = {p.name: data.draw(st.integers(p.least, 7), p.name) for p in program.params}
    instance = iosim.bind(program, problem.sizes, tiles)
    least = largest_operation(instance)
    rooms = [2 ** math.ceil(math.log2(least)) * k for k in (1, 2, 4)]
    caches = [Cache(capacity=room, policy=policy) for room in rooms]
    for room, moved in zip(rooms, replay_many(touches(instance), caches), strict=True):
        assert moved.words >= best_lower_bound(problem, room, "recompute").words
